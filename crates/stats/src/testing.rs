//! Hand-made plans, readings and reports for the tests of this crate.

use cyclometer_core::event::{Event, OsMetric, PerfClass, PerfEvent, Unit};
use cyclometer_core::exec::{Cell, CommandSpec, ExitStatus, Reading};
use cyclometer_core::plan::{Outcome, PlanLine, Sharing};
use cyclometer_core::report::{Run, Slice, SliceCount};
use cyclometer_core::{
    Candidate, Intent, LaunchKind, Modes, Pass, Plan, Provenance, Report, Rung, Slot, SlotId,
};

fn line(name: &str, unit: Unit, candidate: Candidate) -> PlanLine {
    PlanLine {
        event: Event::new(name, unit, vec![candidate]),
        outcome: Outcome::Counted { candidate: 0, filter: None, exclude_guest: false },
        skipped: Vec::new(),
    }
}

/// A hardware event in user mode, with one part for each of `parts` core PMUs.
pub fn hardware(name: &str, parts: usize) -> PlanLine {
    let part = |pmu: &&str| PerfEvent::new(*pmu, 4, 0, PerfClass::Core);
    let parts = ["cpu_core", "cpu_atom"][..parts].iter().map(part).collect();
    line(name, Unit::Count, Candidate::perf(parts, Provenance::Hardware, Some(Modes::USER)))
}

/// An event that is the sum of `first` vendor events (`A`, `B`, …) on the first PMU, and of `second` on the
/// second.
pub fn sum(name: &str, first: usize, second: usize) -> PlanLine {
    let pmus = std::iter::repeat_n("cpu_core", first).chain(std::iter::repeat_n("cpu_atom", second));
    let events = pmus.clone().map(|pmu| PerfEvent::new(pmu, 4, 0, PerfClass::Core)).collect();
    let names = ('A'..).map(String::from).take(first + second).collect();
    let candidate = Candidate::perf(events, Provenance::Hardware, Some(Modes::USER));
    line(name, Unit::Count, candidate.with_summands(names))
}

/// An event of a system device with this number of units.
pub fn device(name: &str, units: usize) -> PlanLine {
    let part = |unit| PerfEvent::new(format!("imc_{unit}"), 20, 0, PerfClass::SystemDevice);
    line(name, Unit::Count, Candidate::perf((0..units).map(part).collect(), Provenance::Hardware, None))
}

/// A software event of the kernel.
pub fn software(name: &str) -> PlanLine {
    let part = PerfEvent::new("software", 1, 0, PerfClass::Software);
    line(name, Unit::Count, Candidate::perf(vec![part], Provenance::Kernel, None))
}

/// An event of the software PMU.
pub fn soft(name: &str) -> PlanLine {
    line(name, Unit::Count, Candidate::soft(name, Modes::USER))
}

/// The same run under translation.
pub fn translated(run: Run) -> Run {
    Run { launch: LaunchKind::Translated, ..run }
}

/// A value of the operating system's accounting, in ns or as a count.
pub fn os_line(name: &str, metric: OsMetric) -> PlanLine {
    let unit = match metric {
        OsMetric::WallTime | OsMetric::UserTime | OsMetric::SystemTime | OsMetric::CpuTime => {
            Unit::Nanoseconds
        }
        OsMetric::PeakRss => Unit::Bytes,
        _ => Unit::Count,
    };
    line(name, unit, Candidate::accounting(metric, "rusage"))
}

/// A cell without CPU, thread and PMU.
pub fn cell(slot: SlotId, raw: u64, time_enabled_ns: u64, time_running_ns: u64) -> Cell {
    Cell::new(slot, raw, time_enabled_ns, time_running_ns)
}

/// A pass with these slots.
pub fn pass(slots: &[usize]) -> Pass {
    let slot = |id: &usize| Slot::new(SlotId(*id), format!("slot {id}"), Rung::Perf, Vec::new());
    Pass { slots: slots.iter().map(slot).collect(), ..Pass::default() }
}

/// A run that counted `raws` exactly, slot by slot.
pub fn run(index: u32, pass: usize, raws: &[(usize, u64)]) -> Run {
    Run {
        index,
        launch: LaunchKind::Native,
        layout: None,
        cpu_baseline: None,
        pass,
        exit: Some(ExitStatus::Code(0)),
        dropped_because: None,
        wall_ns: 1_000_000,
        reading: Reading {
            cells: raws.iter().map(|(slot, raw)| cell(SlotId(*slot), *raw, 1_000_000, 1_000_000)).collect(),
        },
        slices: Vec::new(),
    }
}

/// A report of one command.
pub fn report(lines: Vec<PlanLine>, passes: Vec<Pass>, runs: Vec<Run>) -> Report {
    Report {
        command: Some(CommandSpec::new("true")),
        target: None,
        plan: Plan { lines, sharing: sharing(&passes), passes, intent: Intent::default() },
        runs,
        steps: Vec::new(),
        interrupted: None,
        failure: None,
    }
}

/// A pass with a slot for each of these rotation groups.
pub fn turning_pass(rotation_groups: &[Option<u32>]) -> Pass {
    let slots = (0..rotation_groups.len()).collect::<Vec<_>>();
    let mut pass = pass(&slots);
    pass.slots
        .iter_mut()
        .zip(rotation_groups)
        .for_each(|(slot, rotation_group)| slot.rotation_group = *rotation_group);
    pass
}

/// A set for each rotation group of the passes.
fn sharing(passes: &[Pass]) -> Sharing {
    let mut rotation_groups: Vec<u32> =
        passes.iter().flat_map(|pass| &pass.slots).filter_map(|slot| slot.rotation_group).collect();
    rotation_groups.sort_unstable();
    rotation_groups.dedup();
    let set = |rotation_group: &u32| {
        let own = passes
            .iter()
            .flat_map(|pass| &pass.slots)
            .filter(|slot| slot.rotation_group.is_none_or(|own| own == *rotation_group));
        own.map(|slot| slot.id).collect()
    };
    Sharing { sets: rotation_groups.iter().map(set).collect(), ..Sharing::default() }
}

/// A run whose slots shared counters in this order; `counted` gives a slot's count in a slice, its enabled
/// time and its running time.
pub fn turning_run(
    index: u32,
    rotation_groups: &[Option<u32>],
    order: &[u32],
    counted: impl Fn(usize, usize) -> (u64, u64, u64),
) -> Run {
    let mut sums = vec![(0, 0, 0); rotation_groups.len()];
    let mut slices = Vec::new();
    for (number, rotation_group) in order.iter().enumerate() {
        let mut counts = Vec::new();
        for slot in (0..rotation_groups.len())
            .filter(|slot| rotation_groups[*slot].is_none_or(|own| own == *rotation_group))
        {
            let (raw, time_enabled_ns, time_running_ns) = counted(number, slot);
            let sum: &mut (u64, u64, u64) = &mut sums[slot];
            *sum = (sum.0 + raw, sum.1 + time_enabled_ns, sum.2 + time_running_ns);
            counts.push(SliceCount { slot: SlotId(slot), raw, time_enabled_ns, time_running_ns });
        }
        slices.push(Slice { rotation_group: *rotation_group, wall_ns: 10_000_000, counts });
    }
    let cells = sums.iter().enumerate().map(|(slot, sum)| cell(SlotId(slot), sum.0, sum.1, sum.2));
    Run { reading: Reading { cells: cells.collect() }, slices, ..run(index, 0, &[]) }
}
