//! Energy by the kernel's power capping, and GPUs by files of their driver, with folders of the test in place
//! of sysfs.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::{Path, PathBuf};

use cyclometer_toolkit::core::energy::{EnergyDomain, EnergyZone};
use cyclometer_toolkit::core::gpu::{GpuAccess, GpuDevice, GpuFile, GpuQuantity, Gpus};
use cyclometer_toolkit::core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer_toolkit::core::pmu::KernelPmu;
use cyclometer_toolkit::stats::{LineSummary, summarise_with};
use cyclometer_toolkit::{
    CommandSpec, InputStream, Launcher, Machine, OutputStream, Quiet, Rung, Scope, Stat, Verdict,
};

/// The counters begin at 0 again behind this value: so high that no pause of this test is too long.
const RANGE_UJ: u64 = 1_000_000_000_000;

/// This machine with the zones of a folder, and without a PMU for energy.
struct Zones {
    folder: tempfile::TempDir,
    machine: Machine,
}

impl Zones {
    /// A zone of each domain, whose counters show one joule.
    fn new(domains: &[EnergyDomain]) -> Zones {
        let folder = tempfile::tempdir().unwrap();
        let mut machine = cyclometer_toolkit::machine();
        machine.pmus.retain(|pmu| pmu.name != "power");
        let zone = |(i, domain): (usize, &EnergyDomain)| {
            let zone = folder.path().join(format!("intel-rapl:{i}"));
            std::fs::create_dir(&zone).unwrap();
            std::fs::write(zone.join("energy_uj"), "1000000\n").unwrap();
            EnergyZone { domain: *domain, folder: zone.display().to_string(), max_energy_range_uj: RANGE_UJ }
        };
        machine.energy = domains.iter().enumerate().map(zone).collect();
        Zones { folder, machine }
    }

    fn counter(&self, i: usize) -> PathBuf {
        self.folder.path().join(format!("intel-rapl:{i}/energy_uj"))
    }

    /// The counts of a shell script that changes the energy counters.
    fn count(&self, events: &str, script: &str) -> Vec<LineSummary> {
        counts(&self.machine, events, script)
    }
}

/// The counts of a shell script on a machine.
fn counts(machine: &Machine, events: &str, script: &str) -> Vec<LineSummary> {
    let mut command = CommandSpec::new("sh");
    command.args = ["-c", script].map(Into::into).to_vec();
    (command.stdin, command.stdout) = (InputStream::Null, OutputStream::Null);
    let stat = Stat::new(machine.clone()).command(command).events(events).unwrap();
    let report = stat.run(&Launcher::start().unwrap(), &mut Quiet).unwrap();
    summarise_with(&report, Scope::Tree, &stat.metric_requests()).lines
}

/// A script that sets a counter, after a moment in which energy may be used.
fn set(counter: &Path, uj: u64) -> String {
    format!("echo {uj} > '{}'; sleep 0.02;", counter.display())
}

#[test]
fn a_commands_energy_is_that_of_the_whole_package_in_joules() {
    let zones = Zones::new(&[EnergyDomain::Package, EnergyDomain::Cores]);
    let lines = zones.count(
        "power/energy-pkg/,energy-cores",
        &(set(&zones.counter(0), 3_500_000) + &set(&zones.counter(1), 1_250_000)),
    );
    let values: Vec<_> = lines.iter().map(|line| (line.statistics.mean, line.verdict)).collect();
    assert_eq!(values, [(Some(2.5), Verdict::Partial), (Some(0.25), Verdict::Partial)]);
    for line in &lines {
        assert_eq!((line.reason.as_deref(), line.scope), (Some("whole package"), Scope::Package));
        assert_eq!((line.unit.symbol(), line.rung, line.modes), ("J", Some(Rung::Os), None));
    }
}

#[test]
fn packages_add_up_and_a_counter_that_began_anew_is_put_together() {
    let zones = Zones::new(&[EnergyDomain::Package, EnergyDomain::Ram, EnergyDomain::Package]);
    std::fs::write(zones.counter(2), (RANGE_UJ - 400_000).to_string()).unwrap();
    let lines =
        zones.count("energy-pkg", &(set(&zones.counter(0), 2_000_000) + &set(&zones.counter(2), 600_000)));
    assert_eq!(lines[0].statistics.mean, Some(2.0), "{:?}", lines[0]);
    let parts: Vec<_> =
        lines[0].parts.iter().map(|part| (part.pmu.as_deref().unwrap(), part.statistics.mean)).collect();
    assert_eq!(parts, [("intel-rapl:0", Some(1.0)), ("intel-rapl:2", Some(1.0))]);
}

#[test]
fn energy_of_zero_is_no_count() {
    let zones = Zones::new(&[EnergyDomain::Package]);
    let lines = zones.count("energy-pkg", "sleep 0.05");
    assert_eq!((lines[0].statistics.mean, lines[0].verdict), (None, Verdict::NotCounted));
    assert!(lines[0].reason.as_deref().unwrap().contains("reads zero"), "{:?}", lines[0].reason);
}

#[test]
fn a_counter_that_is_gone_or_holds_no_number_is_told_and_is_never_zero() {
    let zones = Zones::new(&[EnergyDomain::Package, EnergyDomain::Platform]);
    std::fs::write(zones.counter(1), "nonsense").unwrap();
    let gone = format!("rm '{}'", zones.counter(0).display());
    let lines = zones.count("energy-pkg,energy-psys", &gone);
    let reasons: Vec<&str> = lines.iter().map(|line| line.reason.as_deref().unwrap()).collect();
    assert_eq!((lines[0].verdict, lines[1].verdict), (Verdict::Lost, Verdict::NotSupported));
    assert!(reasons[0].contains("cannot be read any more"), "{reasons:?}");
    assert!(reasons[1].ends_with("intel-rapl:1/energy_uj cannot be read: it holds no number"), "{reasons:?}");
}

#[test]
fn the_pmu_comes_first_and_the_zones_stand_below_it() {
    let mut zones = Zones::new(&[EnergyDomain::Package]);
    let mut pmu = KernelPmu { name: "power".to_owned(), pmu_type: 9, ..KernelPmu::default() };
    pmu.cpumask = Some([0].into_iter().collect());
    let terms = cyclometer_toolkit::core::pmu::PmuEvent {
        terms: "event=0x02".to_owned(),
        scale: Some(0.5),
        unit: Some("Joules".to_owned()),
    };
    pmu.events.insert("energy-pkg".to_owned(), terms);
    pmu.formats
        .insert("event".to_owned(), cyclometer_toolkit::core::pmu::FormatField::parse("config:0-7").unwrap());
    zones.machine.pmus.push(pmu);
    for name in ["energy-pkg", "power/energy-pkg/"] {
        zones.machine.ladder.perf_cpu_wide = Ok(());
        let rung = |machine: &Machine| {
            let plan = Stat::new(machine.clone())
                .command(CommandSpec::new("true"))
                .events(name)
                .unwrap()
                .plan()
                .unwrap();
            let line = plan.lines.into_iter().next().unwrap();
            (line.candidate().unwrap().rung, line.skipped)
        };
        assert_eq!(rung(&zones.machine), (Rung::Perf, Vec::new()), "{name}");
        zones.machine.ladder.perf_cpu_wide =
            Err(Cause::new(CauseKind::NoPermission, "kernel.perf_event_paranoid is 3"));
        let (below, skipped) = rung(&zones.machine);
        assert_eq!(
            (below, skipped[0].reason.to_string().as_str()),
            (Rung::Os, "kernel.perf_event_paranoid is 3"),
            "{name}"
        );
    }
}

/// This machine with a GPU of AMD's, whose files are in a folder.
struct AmdDevice {
    folder: tempfile::TempDir,
    machine: Machine,
}

impl AmdDevice {
    /// A device with these files, each with the quantity that it holds, its number and the divisor to the raw
    /// unit.
    fn new(files: &[(GpuQuantity, &str, &str, u32)]) -> AmdDevice {
        let folder = tempfile::tempdir().unwrap();
        let file = |(quantity, name, number, divisor): &(GpuQuantity, &str, &str, u32)| {
            let path = folder.path().join(name);
            std::fs::write(&path, number).unwrap();
            let file = GpuFile { path: path.display().to_string(), multiplier: 1, divisor: *divisor };
            (*quantity, file)
        };
        let access = GpuAccess::Files(files.iter().map(file).collect());
        let mut machine = cyclometer_toolkit::machine();
        let devices = vec![GpuDevice { name: "amd0".to_owned(), model: None, access }];
        machine.gpus = Gpus { devices, ..Gpus::default() };
        machine.ladder.rungs.retain(|state| state.rung != Rung::Gpu);
        machine.ladder.rungs.push(RungState { rung: Rung::Gpu, works: Works::Yes, causes: Vec::new() });
        AmdDevice { folder, machine }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn count(&self, events: &str, script: &str) -> Vec<LineSummary> {
        counts(&self.machine, events, script)
    }
}

#[test]
fn a_gpu_of_amd_is_read_by_files_and_its_values_are_those_of_the_whole_device() {
    let device = AmdDevice::new(&[
        (GpuQuantity::Power, "power1_average", "90000000\n", 1000),
        (GpuQuantity::MemoryUsed, "mem_info_vram_used", "1073741824\n", 1024),
    ]);
    let lines = device.count("gpu-power,gpu/memory-used,amd0/,gpu-energy,gpu-pcie-rx", "sleep 0.05");
    let means: Vec<Option<f64>> = lines.iter().map(|line| line.statistics.mean).collect();
    assert_eq!(means[..2], [Some(90.0), Some(1_073_741_824.0)], "{lines:?}");
    assert!(means[2].unwrap() > 4.0, "90 W for 50 ms and more are 4.5 J and more: {means:?}");
    assert!(lines[2].reason.as_deref().unwrap().contains("added up from power"), "{:?}", lines[2].reason);
    assert_eq!((means[3], lines[3].verdict), (None, Verdict::NotSupported));
    let reason = lines[0].reason.as_deref().unwrap();
    assert!(reason.starts_with("whole device, amd0 sampled "), "{reason}");
    for line in &lines[..3] {
        assert_eq!((line.verdict, line.scope, line.rung), (Verdict::Partial, Scope::Device, Some(Rung::Gpu)));
        assert_eq!(line.provenance, Some(cyclometer_toolkit::Provenance::Kernel));
    }
}

#[test]
fn the_range_of_a_gauge_shows_what_changed_while_the_command_ran() {
    let device = AmdDevice::new(&[(GpuQuantity::Power, "power1_average", "20000000\n", 1000)]);
    let script = format!("echo 80000000 > '{}'", device.file("power1_average").display());
    let lines = device.count("gpu-power", &script);
    let reason = lines[0].reason.as_deref().unwrap();
    assert!(reason.ends_with(", 20 W to 80 W"), "{reason}");
    let mean = lines[0].statistics.mean.unwrap();
    assert!((20.0..=80.0).contains(&mean), "{mean}");
}

#[test]
fn a_file_of_a_gpu_that_is_gone_or_holds_no_number_is_told_and_is_never_zero() {
    let device = AmdDevice::new(&[
        (GpuQuantity::Power, "power1_average", "20000000\n", 1000),
        (GpuQuantity::Utilisation, "gpu_busy_percent", "nonsense\n", 1),
    ]);
    let gone = format!("rm '{}'", device.file("power1_average").display());
    let lines = device.count("gpu-power,gpu-utilisation", &gone);
    let reasons: Vec<&str> = lines.iter().map(|line| line.reason.as_deref().unwrap()).collect();
    assert_eq!((lines[0].verdict, lines[0].statistics.mean), (Verdict::Lost, None));
    assert!(reasons[0].contains("power1_average cannot be read: No such file"), "{reasons:?}");
    assert_eq!((lines[1].verdict, lines[1].statistics.mean), (Verdict::NotCounted, None));
    assert!(reasons[1].ends_with("gpu_busy_percent holds no number"), "{reasons:?}");
}
