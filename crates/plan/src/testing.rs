//! Events and a machine for the tests of this crate.

use cyclometer_core::event::{OsMetric, PerfClass, PerfEvent, Unit};
use cyclometer_core::ladder::{Ladder, Rung, RungState, Works};
use cyclometer_core::machine::{
    AccessRights, Architecture, Capabilities, CoreType, CpuId, Machine, MachineCpu, Os, PmuFacts, Vendor,
};
use cyclometer_core::modes::Modes;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Candidate, CounterMask, CpuSet, Event, Provenance, Verdict};

/// An Intel machine with four general and three fixed counters.
pub(crate) fn machine() -> Machine {
    let state = |rung| RungState { rung, works: Works::Yes, causes: Vec::new() };
    Machine {
        os: Os::Linux,
        kernel_release: None,
        architecture: Architecture::X86_64,
        cpu: MachineCpu { vendor: Vendor::Intel, id: CpuId::Unknown, name: None },
        core_types: vec![CoreType {
            cpu_id: None,
            microarchitecture: None,
            cpus: CpuSet::parse("0-3").unwrap(),
            pmu: PmuFacts { counters: CounterMask::first(4, 3), ..PmuFacts::default() },
            kernel_pmu: Some("cpu".to_owned()),
        }],
        online: CpuSet::parse("0-3").unwrap(),
        smt_active: None,
        energy: Vec::new(),
        gpus: cyclometer_core::gpu::Gpus::default(),
        hypervisor: None,
        container: None,
        pmus: Vec::new(),
        access: AccessRights::default(),
        capabilities: Capabilities {
            architecture: String::new(),
            counter_count: 4,
            fixed_counters: 3,
            counter_width_bits: Some(48),
            user_mode_access: false,
            needs_kernel_patch: false,
        },
        ladder: Ladder {
            rungs: [Rung::Perf, Rung::Os].map(state).to_vec(),
            perf_hardware: Ok(()),
            perf_software: Ok(()),
            perf_kernel_mode: Ok(()),
            perf_cpu_wide: Ok(()),
        },
    }
}

fn event(name: &str, candidates: Vec<Candidate>) -> Event {
    Event::new(name, Unit::Count, candidates)
}

fn perf(name: &str, class: PerfClass, constraint: Option<CounterMask>, modes: Option<Modes>) -> Candidate {
    let pmu = if class == PerfClass::Core { "cpu" } else { "software" };
    let part = PerfEvent { constraint, ..PerfEvent::new(pmu, 0, code(name), class) };
    Candidate::perf(vec![part], Provenance::Hardware, modes)
}

/// Another code for each name.
fn code(name: &str) -> u64 {
    name.bytes().fold(0, |code, byte| code << 8 | u64::from(byte))
}

/// A hardware event that may use any general counter.
pub(crate) fn core_event(name: &str) -> Event {
    event(name, vec![perf(name, PerfClass::Core, Some(CounterMask::first(4, 0)), Some(Modes::USER))])
}

/// A hardware event that is the sum of these.
pub(crate) fn sum_event(name: &str, summands: &[&str]) -> Event {
    let parts = summands.iter().map(|name| core_event(name).candidates.remove(0).parts.remove(0)).collect();
    let candidate = Candidate { parts, ..core_event(name).candidates.remove(0) };
    event(name, vec![candidate.with_summands(summands.iter().map(|name| (*name).to_owned()).collect())])
}

/// A hardware event whose counters nobody knows.
pub(crate) fn unknown_event(name: &str) -> Event {
    event(name, vec![perf(name, PerfClass::Core, None, Some(Modes::USER))])
}

/// A hardware event with a fixed counter of its own besides the general ones.
pub(crate) fn fixed_event(name: &str, fixed: u32) -> Event {
    let mask = CounterMask::from_bits(0xf, 1 << fixed);
    event(name, vec![perf(name, PerfClass::Core, Some(mask), Some(Modes::USER))])
}

/// A software event with the operating system's accounting below it.
pub(crate) fn software_event(name: &str) -> Event {
    let os = Candidate::accounting(OsMetric::PageFaults, "rusage");
    event(name, vec![perf(name, PerfClass::Software, None, None), os])
}

/// The same machine with a software PMU.
pub(crate) fn machine_with_soft() -> Machine {
    let mut machine = machine();
    let soft = RungState { rung: Rung::Soft, works: Works::Yes, causes: Vec::new() };
    machine.ladder.rungs.insert(1, soft);
    machine
}

/// An event that only the software PMU has.
pub(crate) fn soft_event(name: &str) -> Event {
    event(name, vec![Candidate::soft(name, Modes::USER)])
}

/// An event that the hardware counts, or else the software PMU.
pub(crate) fn portable_event(name: &str) -> Event {
    let mut event = core_event(name);
    event.candidates.push(Candidate::soft(name, Modes::USER));
    event
}

/// The event in a group.
pub(crate) fn in_group(mut event: Event, group: u32) -> Event {
    event.group = Some(group);
    event
}

/// The event with other modes.
pub(crate) fn with_modes(mut event: Event, modes: Modes) -> Event {
    event.candidates[0].modes = Some(modes);
    event
}

/// The verdict and the reason of a line that is not counted.
pub(crate) fn missing_of(line: &PlanLine) -> (Verdict, String) {
    let Outcome::NotCounted(count) = &line.outcome else { panic!("{} is counted", line.event.name) };
    (count.verdict(), count.reason().unwrap_or_default())
}
