//! Values of open events as cells.

use std::collections::BTreeMap;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::{CpuSet, MissingReason};

use super::program::OpenedEvent;

/// The cell of an event; lost when the kernel does not return its value.
pub(super) fn cell(opened: &OpenedEvent) -> Cell {
    let (slot, at) = (opened.slot, opened.at.clone());
    let lost = |reason| Cell {
        slot,
        at: at.clone(),
        raw: 0,
        time_enabled_ns: 0,
        time_running_ns: 0,
        lost: Some(reason),
        partial: None,
    };
    match opened.read() {
        Ok(Some(read)) => Cell {
            slot,
            at: at.clone(),
            raw: read.value,
            time_enabled_ns: read.time_enabled_ns,
            time_running_ns: read.time_running_ns,
            lost: None,
            partial: opened.partial.clone(),
        },
        Ok(None) => lost(MissingReason::LostPin { event: opened.name.clone() }),
        Err(e) => lost(MissingReason::Unreadable { event: opened.name.clone(), error: e.to_string() }),
    }
}

/// The difference of two readings of the same events.
pub(super) fn since(before: &Reading, mut after: Reading) -> Reading {
    for (cell, old) in after.cells.iter_mut().zip(&before.cells) {
        cell.raw = cell.raw.saturating_sub(old.raw);
        cell.time_enabled_ns = cell.time_enabled_ns.saturating_sub(old.time_enabled_ns);
        cell.time_running_ns = cell.time_running_ns.saturating_sub(old.time_running_ns);
    }
    after
}

/// A reading made on one CPU, without the times of events of other CPUs' PMUs. Such events waited for as long
/// as the read took, which is no share of the time that they could have counted.
pub(super) fn of_cpu(mut reading: Reading, cpu: u32, cpus_of: impl Fn(&str) -> Option<CpuSet>) -> Reading {
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for cell in &mut reading.cells {
        let counts_here = |pmu: &str| cpus_of(pmu).is_none_or(|cpus| cpus.contains(cpu));
        let Some(pmu) = cell.at.pmu.clone() else { continue };
        if !*known.entry(pmu).or_insert_with_key(|pmu| counts_here(pmu)) {
            *cell = Cell { at: cell.at.clone(), ..Cell::new(cell.slot, 0, 0, 0) };
        }
    }
    reading
}

/// The sum of two readings of the same events, cell by cell.
pub(super) fn sum(mut one: Reading, other: &Reading) -> Reading {
    for (cell, more) in one.cells.iter_mut().zip(&other.cells) {
        cell.raw = cell.raw.saturating_add(more.raw);
        cell.time_enabled_ns = cell.time_enabled_ns.saturating_add(more.time_enabled_ns);
        cell.time_running_ns = cell.time_running_ns.saturating_add(more.time_running_ns);
        cell.lost = cell.lost.take().or_else(|| more.lost.clone());
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::SlotId;
    use cyclometer_core::exec::At;

    #[test]
    fn a_difference_is_of_values_and_times() {
        let reading =
            |raw, enabled, running| Reading { cells: vec![Cell::new(SlotId(1), raw, enabled, running)] };
        let counted = since(&reading(5, 100, 40), reading(9, 300, 240));
        assert_eq!(counted, reading(4, 200, 200));
    }

    /// The time between two reads is arbitrary where the scheduler takes the CPU away in between.
    #[test]
    fn where_a_pmu_does_not_count_its_events_have_no_times() {
        let cell = |slot, pmu: &str, raw, enabled, running| {
            let at = At { pmu: Some(pmu.to_owned()), ..At::default() };
            Cell { at, ..Cell::new(SlotId(slot), raw, enabled, running) }
        };
        let cpus_of = |pmu: &str| match pmu {
            "cpu_core" => CpuSet::parse("0").ok(),
            "cpu_atom" => CpuSet::parse("1").ok(),
            _ => None,
        };
        let made = |core: [u64; 3], late: [u64; 3], soft: [u64; 3]| Reading {
            cells: vec![
                cell(0, "cpu_core", core[0], core[1], core[2]),
                cell(1, "cpu_core", late[0], late[1], late[2]),
                cell(2, "software", soft[0], soft[1], soft[2]),
            ],
        };
        let on_core = of_cpu(made([7, 100, 100], [9, 110, 110], [1, 5, 5]), 0, cpus_of);
        let on_atom = of_cpu(made([0, 100, 0], [0, 9_000, 0], [1, 5, 5]), 1, cpus_of);
        let both = sum(on_core, &on_atom);
        let times: Vec<_> = both.cells.iter().map(|one| (one.time_enabled_ns, one.time_running_ns)).collect();
        assert_eq!(times, [(100, 100), (110, 110), (10, 10)]);
        let pinned = Cell { lost: Some(MissingReason::Gone), ..cell(0, "cpu_atom", 0, 0, 0) };
        assert_eq!(of_cpu(Reading { cells: vec![pinned] }, 0, cpus_of).cells[0].lost, None);
    }

    #[test]
    fn readings_on_two_core_types_add_up() {
        let cell = |raw, running| Cell::new(SlotId(1), raw, 100, running);
        let gone = Cell { lost: Some(MissingReason::Gone), ..cell(0, 0) };
        let core = Reading { cells: vec![cell(7, 100), cell(0, 0), cell(1, 1)] };
        let atom = Reading { cells: vec![cell(0, 0), cell(5, 100), gone] };
        let both = sum(core, &atom);
        let shown: Vec<_> =
            both.cells.iter().map(|cell| (cell.raw, cell.time_enabled_ns, cell.time_running_ns)).collect();
        assert_eq!(shown, [(7, 200, 100), (5, 200, 100), (1, 200, 1)]);
        assert!(both.cells[2].lost.is_some());
    }
}
