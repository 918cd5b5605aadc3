//! The counts of the parts of an event.

use std::collections::BTreeMap;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Count, Scope, SlotId};

use super::instance::{clamp, not_counted, total};
use super::settle;

/// The count of one core PMU of a hybrid machine.
#[derive(Clone, PartialEq, Debug)]
pub struct PartCount {
    /// Index of the event's part.
    pub part: usize,
    /// The PMU's name (`cpu_core`).
    pub pmu: String,
    /// The vendor's event, if several events of a PMU are summed.
    pub summand: Option<String>,
    /// The count while the target ran on its cores.
    pub count: Count,
    /// Time on a counter of this PMU, in ns.
    pub time_running_ns: u64,
    /// Time that the event was enabled on any PMU, in ns.
    pub time_enabled_ns: u64,
}

/// The share of each core PMU in a hybrid count, and of each summand in a sum; empty where an event has a
/// single part.
///
/// A part is exact when the whole is: then it covers everything that ran on those cores.
pub fn by_part(line: &PlanLine, reading: &Reading, slot: SlotId, asked: Scope) -> Vec<PartCount> {
    let whole_is_exact = matches!(settle(line, reading, slot, asked), Count::Exact(_));
    parts_of(line, reading, slot, whole_is_exact)
}

/// As [`by_part`], if it is known whether the whole is exact.
pub(crate) fn parts_of(
    line: &PlanLine,
    reading: &Reading,
    slot: SlotId,
    whole_is_exact: bool,
) -> Vec<PartCount> {
    let Some(candidate) = line.candidate().filter(|candidate| candidate.parts.len() > 1) else {
        return Vec::new();
    };
    let mut parts: BTreeMap<(usize, &str), Vec<&Cell>> = BTreeMap::new();
    for cell in reading.cells.iter().filter(|cell| cell.slot == slot) {
        parts.entry((cell.at.part, &cell.at.pmu)).or_default().push(cell);
    }
    let of_part = |((part, pmu), cells): ((usize, &str), Vec<&Cell>)| PartCount {
        summand: candidate.summands.get(part).cloned(),
        ..part_count(part, pmu, &cells, whole_is_exact)
    };
    parts.into_iter().map(of_part).collect()
}

fn part_count(part: usize, pmu: &str, cells: &[&Cell], whole_is_exact: bool) -> PartCount {
    let raw = clamp(cells.iter().map(|cell| u128::from(cell.raw)).sum());
    let time_running_ns = total(cells.iter().map(|cell| cell.time_running_ns));
    let time_enabled_ns = total(cells.iter().map(|cell| cell.time_enabled_ns));
    let lost = cells.iter().find_map(|cell| cell.lost.clone());
    let count = match lost {
        Some(reason) => Count::Lost { reason },
        // Exact even if the part never ran: then nothing ran on those cores.
        None if whole_is_exact => Count::Exact(raw),
        None if time_running_ns == 0 => not_counted("never ran on a counter of these cores"),
        None => Count::Partial { raw, part: format!("while on a counter of {pmu}, not scaled") },
    };
    PartCount { part, pmu: pmu.to_owned(), summand: None, count, time_running_ns, time_enabled_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::testing::{ALL, SLOT, on_part, summand};
    use crate::testing::{cell, hardware, sum};

    #[test]
    fn parts_of_a_hybrid_are_told_apart() {
        let line = hardware("cycles", 2);
        let cells = vec![on_part(0, 70, 10_000_000, 6_000_000), on_part(1, 30, 10_000_000, 4_000_000)];
        let parts = by_part(&line, &Reading { cells }, SLOT, Scope::Tree);
        let seen: Vec<_> = parts.iter().map(|part| (part.pmu.as_str(), part.count.clone())).collect();
        assert_eq!(seen, [("cpu_core", Count::Exact(70)), ("cpu_atom", Count::Exact(30))]);
        let unused = vec![on_part(0, 70, 10_000_000, 10_000_000), on_part(1, 0, 10_000_000, 0)];
        let parts = by_part(&line, &Reading { cells: unused }, SLOT, Scope::Tree);
        assert_eq!((parts[1].count.clone(), parts[1].time_running_ns), (Count::Exact(0), 0));
        let shared = vec![on_part(0, 70, 10_000_000, 5_000_000), on_part(1, 0, 10_000_000, 0)];
        let parts = by_part(&line, &Reading { cells: shared }, SLOT, Scope::Tree);
        assert_eq!(parts[1].count.value(), None);
        let single = Reading { cells: vec![cell(SLOT, 1, 1, 1)] };
        assert_eq!(by_part(&hardware("cycles", 1), &single, SLOT, Scope::Tree), []);
    }

    #[test]
    fn a_sum_on_one_core_type_and_a_single_event_on_the_other_are_one_count() {
        let line = sum("loads", 2, 1);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let (core, atom) = (ALL / 10 * 7, ALL / 10 * 3);
        let cells = vec![
            summand(0, "cpu_core", 70, core),
            summand(1, "cpu_core", 7, core),
            summand(2, "cpu_atom", 30, atom),
        ];
        assert_eq!(of(cells.clone()), Count::Exact(107));
        let parts = by_part(&line, &Reading { cells }, SLOT, Scope::Tree);
        let parts: Vec<_> =
            parts.iter().map(|p| (p.pmu.as_str(), p.summand.as_deref(), p.count.value())).collect();
        assert_eq!(
            parts,
            [
                ("cpu_core", Some("A"), Some(70)),
                ("cpu_core", Some("B"), Some(7)),
                ("cpu_atom", Some("C"), Some(30))
            ]
        );
    }
}
