//! Machines for the tests of this crate: small, synthetic, with the kernel's real names and formats.

use std::collections::BTreeMap;

use cyclometer_core::ladder::{Cause, CauseKind, Ladder, RungState, Works};
use cyclometer_core::machine::{
    AccessRights, Architecture, Capabilities, CoreType, CpuId, Machine, MachineCpu, Os, PmuFacts, Vendor,
};
use cyclometer_core::pmu::{FormatField, KernelPmu, PmuEvent};
use cyclometer_core::{CounterMask, CpuSet, Rung};

fn machine(vendor: Vendor, pmus: Vec<KernelPmu>, counters: CounterMask) -> Machine {
    let core_types = pmus.iter().filter(|p| p.is_core()).map(|p| core_type(p, counters)).collect();
    Machine {
        os: Os::Linux,
        kernel_release: None,
        architecture: Architecture::X86_64,
        cpu: MachineCpu { vendor, id: CpuId::Unknown, name: None },
        core_types,
        online: CpuSet::parse("0-7").unwrap(),
        smt_active: None,
        energy: Vec::new(),
        gpus: cyclometer_core::gpu::Gpus::default(),
        hypervisor: None,
        container: None,
        pmus,
        access: AccessRights::default(),
        capabilities: Capabilities {
            architecture: String::new(),
            counter_count: 0,
            fixed_counters: 0,
            counter_width_bits: None,
            user_mode_access: false,
            needs_kernel_patch: false,
        },
        ladder: Ladder {
            rungs: Vec::new(),
            perf_hardware: Ok(()),
            perf_software: Ok(()),
            perf_kernel_mode: Ok(()),
            perf_cpu_wide: Ok(()),
        },
    }
}

fn core_type(pmu: &KernelPmu, counters: CounterMask) -> CoreType {
    CoreType {
        cpu_id: None,
        microarchitecture: None,
        cpus: pmu.cpus.clone().unwrap_or_default(),
        pmu: PmuFacts { counters, ..PmuFacts::default() },
        kernel_pmu: Some(pmu.name.clone()),
    }
}

fn pmu(name: &str, pmu_type: u32, formats: &[(&str, &str)], events: &[(&str, &str)]) -> KernelPmu {
    let event = |(name, terms): &(&str, &str)| {
        ((*name).to_owned(), PmuEvent { terms: (*terms).to_owned(), ..PmuEvent::default() })
    };
    KernelPmu {
        name: name.to_owned(),
        pmu_type,
        formats: formats.iter().map(|(n, f)| ((*n).to_owned(), FormatField::parse(f).unwrap())).collect(),
        events: events.iter().map(event).collect::<BTreeMap<_, _>>(),
        ..KernelPmu::default()
    }
}

const INTEL: &[(&str, &str)] = &[
    ("event", "config:0-7"),
    ("umask", "config:8-15"),
    ("edge", "config:18"),
    ("inv", "config:23"),
    ("cmask", "config:24-31"),
    ("ldlat", "config1:0-15"),
];

fn intel_core(name: &str, pmu_type: u32, cpus: Option<&str>) -> KernelPmu {
    let events = [
        ("cpu-cycles", "event=0x3c"),
        ("instructions", "event=0xc0"),
        ("branch-instructions", "event=0xc4"),
        ("branch-misses", "event=0xc5"),
        ("cache-references", "event=0x2e,umask=0x4f"),
        ("cache-misses", "event=0x2e,umask=0x41"),
        ("mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
    ];
    KernelPmu { cpus: cpus.map(|c| CpuSet::parse(c).unwrap()), ..pmu(name, pmu_type, INTEL, &events) }
}

fn power() -> KernelPmu {
    let mut power = pmu("power", 9, &[("event", "config:0-7")], &[("energy-pkg", "event=0x02")]);
    power.cpumask = Some(CpuSet::parse("0").unwrap());
    let energy = power.events.get_mut("energy-pkg").unwrap();
    energy.scale = Some(2f64.powi(-32));
    energy.unit = Some("Joules".to_owned());
    power
}

/// A desktop with one core PMU and energy counters.
pub(crate) fn skylake() -> Machine {
    machine(Vendor::Intel, vec![intel_core("cpu", 4, None), power()], CounterMask::first(4, 3))
}

/// A hybrid with two core PMUs.
pub(crate) fn hybrid() -> Machine {
    let pmus = vec![intel_core("cpu_core", 4, Some("0-3")), intel_core("cpu_atom", 10, Some("4-7"))];
    machine(Vendor::Intel, pmus, CounterMask::first(6, 3))
}

/// An Arm machine with two core PMUs.
pub(crate) fn big_little() -> Machine {
    let core = |name: &str, pmu_type, cpus: &str| KernelPmu {
        cpus: Some(CpuSet::parse(cpus).unwrap()),
        ..pmu(
            name,
            pmu_type,
            &[("event", "config:0-15")],
            &[("cpu_cycles", "event=0x0011"), ("inst_retired", "event=0x0008")],
        )
    };
    let pmus = vec![core("armv8_cortex_a53", 8, "0-3"), core("armv8_cortex_a72", 9, "4-7")];
    machine(Vendor::Arm, pmus, CounterMask::EMPTY)
}

/// A virtual machine without a PMU on which the software PMU works.
pub(crate) fn vm_with_soft() -> Machine {
    let mut machine = vm_without_pmu();
    machine.ladder.rungs.push(RungState { rung: Rung::Soft, works: Works::Yes, causes: Vec::new() });
    machine
}

/// A virtual machine without a PMU: software events only.
pub(crate) fn vm_without_pmu() -> Machine {
    let msr = pmu("msr", 10, &[("event", "config:0-63")], &[("tsc", "event=0x00")]);
    let mut machine = machine(Vendor::Intel, vec![msr, pmu("software", 1, &[], &[])], CounterMask::EMPTY);
    machine.ladder.perf_hardware = Err(Cause::new(CauseKind::NoVirtualPmu, "no PMU in this VM"));
    machine
}
