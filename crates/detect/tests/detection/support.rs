//! A machine as stable, readable text, and where the recordings lie.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use cyclometer_core::gpu::GpuAccess;
use cyclometer_core::ladder::Cause;
use cyclometer_core::machine::{CoreType, Machine};
use cyclometer_core::pmu::KernelPmu;
use cyclometer_detect::RecordedFacts;

/// The folder of recorded machines.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines")
}

/// The folder of expected descriptions.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Names of the `.txt` files in a folder, without the ending, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".txt").unwrap_or_else(|| panic!("{name} is no .txt file")).to_owned())
        .collect();
    names.sort();
    names
}

/// The text of a recorded machine.
pub fn recording(name: &str) -> String {
    std::fs::read_to_string(fixtures().join(format!("{name}.txt"))).unwrap()
}

/// A recorded machine.
pub fn machine(name: &str) -> RecordedFacts {
    RecordedFacts::parse(&recording(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Everything in a machine, one fact a line.
pub fn describe(machine: &Machine) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: String| writeln!(out, "{name}: {value}").unwrap();
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    line("system", format!("{} {} {}", machine.os, or_none(&machine.kernel_release), machine.architecture));
    line("cpu", format!("{}, {}, {}", machine.cpu.vendor, machine.cpu.id, or_none(&machine.cpu.name)));
    line("online", machine.online.to_string());
    let threads = machine.smt_active.map_or("unknown", |active| if active { "several" } else { "one" });
    line("hardware threads of a core", threads.to_owned());
    line("hypervisor", or_none(&machine.hypervisor));
    line("container", or_none(&machine.container));
    machine.core_types.iter().for_each(|core| line("core type", core_type(core)));
    machine.pmus.iter().for_each(|pmu| line("pmu", kernel_pmu(pmu)));
    for zone in &machine.energy {
        line("energy", format!("{} {} to {} uJ", zone.domain.event(), zone.folder, zone.max_energy_range_uj));
    }
    for gpu in &machine.gpus.devices {
        let driver = machine.gpus.nvidia_driver.as_deref().filter(|_| gpu.access == GpuAccess::Nvml);
        let model = gpu.model.as_deref().unwrap_or("unknown model");
        line("gpu", format!("{}, {model}, {}", gpu.name, gpu_access(&gpu.access, driver)));
    }
    line("access", format!("{:?}", machine.access));
    line("capabilities", format!("{:?}", machine.capabilities));
    for state in &machine.ladder.rungs {
        line("rung", format!("{} {}", state.rung, state.works.word()));
        for cause in &state.causes {
            line("  cause", format!("{}: {}", cause.kind.word(), cause.text));
            cause.mend.iter().for_each(|mend| line("  mend", mend.clone()));
        }
    }
    line("hardware events", class(&machine.ladder.perf_hardware));
    line("software events", class(&machine.ladder.perf_software));
    line("kernel mode", class(&machine.ladder.perf_kernel_mode));
    line("whole CPUs", class(&machine.ladder.perf_cpu_wide));
    out
}

fn class(counts: &Result<(), Cause>) -> String {
    format!("{:?}", counts.as_ref().map_err(|cause| &cause.text))
}

fn gpu_access(access: &GpuAccess, driver: Option<&str>) -> String {
    match access {
        GpuAccess::Nvml => format!("NVML {}", driver.unwrap_or_default()),
        GpuAccess::Files(files) => files
            .iter()
            .map(|(quantity, file)| format!("{} {}", quantity.name(), file.path))
            .collect::<Vec<_>>()
            .join(" "),
        GpuAccess::Unsupported(reason) => format!("unsupported: {reason}"),
    }
}

fn core_type(core: &CoreType) -> String {
    let FixturePmu { version, general, fixed } = FixturePmu::of(core);
    format!(
        "{} ({}) on CPUs [{}], kernel device {}; version {version}, general {general}, fixed {fixed}, {} bits; {}",
        core.cpu_id.as_deref().unwrap_or("unknown"),
        core.microarchitecture.as_deref().unwrap_or("unknown"),
        core.cpus,
        core.kernel_pmu.as_deref().unwrap_or("none"),
        core.pmu.counter_width_bits.unwrap_or(0),
        core.pmu.source,
    )
}

struct FixturePmu {
    version: String,
    general: String,
    fixed: String,
}

impl FixturePmu {
    fn of(core: &CoreType) -> FixturePmu {
        FixturePmu {
            version: core.pmu.version.map_or("unknown".to_owned(), |version| version.to_string()),
            general: format!("{:#b}", core.pmu.counters.general_bits()),
            fixed: format!("{:#b}", core.pmu.counters.fixed_bits()),
        }
    }
}

fn kernel_pmu(pmu: &KernelPmu) -> String {
    let mut text = format!("{} type {}{}", pmu.name, pmu.pmu_type, if pmu.is_core() { " core" } else { "" });
    for (name, cpus) in [("cpus", &pmu.cpus), ("cpumask", &pmu.cpumask)] {
        cpus.iter().for_each(|cpus| write!(text, ", {name} {cpus}").unwrap());
    }
    pmu.rdpmc.iter().for_each(|mode| write!(text, ", rdpmc {mode}").unwrap());
    for (name, field) in &pmu.formats {
        write!(text, "\n  format {name} {:?} {:?}", field.word, field.ranges).unwrap();
    }
    for (name, event) in &pmu.events {
        write!(text, "\n  event {name} {}", event.terms).unwrap();
        event.scale.iter().for_each(|scale| write!(text, " × {scale}").unwrap());
        event.unit.iter().for_each(|unit| write!(text, " {unit}").unwrap());
    }
    for (name, value) in &pmu.caps {
        write!(text, "\n  cap {name} {value}").unwrap();
    }
    text
}
