//! The counts of the parts of an event.

use std::collections::BTreeMap;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Candidate, Count, MissingReason, PartReason, Rung, Scope, SlotId};

use super::SlotReading;
use super::combine::{Span, combine};
use super::gauge::mean;
use super::instance::{Judged, clamp, not_counted};
use super::trust::SourceLimits;
use crate::times::total;

/// The count of one core PMU of a hybrid machine.
#[derive(Clone, PartialEq, Debug)]
pub struct PartCount {
    /// Index of the event's part.
    pub part: usize,
    /// The PMU's name (`cpu_core`); `None` where the operating system counts.
    pub pmu: Option<String>,
    /// The vendor's event, if several events of a PMU are summed.
    pub summand: Option<String>,
    /// The count while the target ran on its cores.
    pub count: Count,
    /// Time on a counter of this PMU, in ns.
    pub time_running_ns: u64,
    /// Time that the event was enabled on any PMU, in ns.
    pub time_enabled_ns: u64,
}

/// The state of the count of which these are the parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// Exact.
    Exact,
    /// Not exact, by the times of its cells.
    Inexact,
    /// Estimated from slices. The times of its cells are those of its own rotation group alone.
    Rotated,
}

/// The share of each core PMU in a hybrid count, the value of each summand of a sum, and that of each unit of
/// a device; empty where an event has a single part.
///
/// A part of a hybrid is exact when the whole is: then it covers everything that ran on those cores. Summands
/// and units are scaled each by its own times, and add up to the whole.
pub fn by_part(line: &PlanLine, reading: &Reading, slot: SlotId, asked: Scope) -> Vec<PartCount> {
    let of = SlotReading { line, reading, slot, asked };
    let whole = match of.count(Span::Whole) {
        Count::Exact(_) => Whole::Exact,
        _ => Whole::Inexact,
    };
    of.parts(whole)
}

impl SlotReading<'_> {
    /// As [`by_part`], where the state of the whole is known.
    pub(crate) fn parts(self, whole: Whole) -> Vec<PartCount> {
        let cells = self.cells();
        let has_parts = |candidate: &&Candidate| match candidate.rung {
            // One part may be several devices.
            Rung::Gpu => cells.iter().any(|cell| cell.at.pmu != cells[0].at.pmu),
            _ => candidate.parts.len() > 1,
        };
        let Some(candidate) = self.line.candidate().filter(has_parts) else { return Vec::new() };
        let mut parts: BTreeMap<(usize, Option<&str>), Vec<&Cell>> = BTreeMap::new();
        for cell in &cells {
            parts.entry((cell.at.part, cell.at.pmu.as_deref())).or_default().push(cell);
        }
        let is_sum =
            !candidate.summands.is_empty() || candidate.parts.iter().any(|part| part.core().is_none());
        let count =
            |(part, pmu): (usize, Option<&str>), own: &[&Cell]| match is_sum && whole != Whole::Rotated {
                true => {
                    let instances = Judged::of(self.line, candidate).instances_of_part(&cells, part, pmu);
                    let count = match candidate.gauge() {
                        Some(total) => mean(own, total),
                        None => combine(&instances, Span::Whole),
                    };
                    SourceLimits { of: self, candidate }.apply(count, own, &instances)
                }
                false => unscaled(own, whole),
            };
        let of_part = |(at, own): ((usize, Option<&str>), Vec<&Cell>)| PartCount {
            part: at.0,
            pmu: at.1.map(str::to_owned),
            summand: candidate.summands.get(at.0).cloned(),
            count: count(at, &own),
            time_running_ns: total(own.iter().map(|cell| cell.time_running_ns)),
            time_enabled_ns: total(own.iter().map(|cell| cell.time_enabled_ns)),
        };
        parts.into_iter().map(of_part).collect()
    }
}

/// The count of a part that cannot be scaled, as it may have been wanted for less time than the whole.
fn unscaled(cells: &[&Cell], whole: Whole) -> Count {
    let raw = clamp(cells.iter().map(|cell| u128::from(cell.raw)).sum());
    match cells.iter().find_map(|cell| cell.lost.clone()) {
        Some(reason) => Count::Lost { reason },
        // Exact even if the part never ran: then nothing ran on those cores.
        None if whole == Whole::Exact => Count::Exact(raw),
        None if cells.iter().all(|cell| cell.time_running_ns == 0) => {
            not_counted(MissingReason::NeverOnCores)
        }
        None => {
            let pmu = cells.first().map_or("the PMU", |cell| cell.at.counted_by()).to_owned();
            Count::Partial { raw, part: PartReason::WhileOn { pmu } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::settle;
    use crate::settle::testing::{ALL, SLOT, on_part, summand};
    use crate::testing::{cell, device, hardware, sum};
    use cyclometer_core::Verdict;

    #[test]
    fn parts_of_a_hybrid_are_told_apart() {
        let line = hardware("cycles", 2);
        let cells = vec![on_part(0, 70, 10_000_000, 6_000_000), on_part(1, 30, 10_000_000, 4_000_000)];
        let parts = by_part(&line, &Reading { cells }, SLOT, Scope::Tree);
        let seen: Vec<_> =
            parts.iter().map(|part| (part.pmu.as_deref().unwrap(), part.count.clone())).collect();
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
        let parts: Vec<_> = parts
            .iter()
            .map(|p| (p.pmu.as_deref().unwrap(), p.summand.as_deref(), p.count.value()))
            .collect();
        assert_eq!(
            parts,
            [
                ("cpu_core", Some("A"), Some(70)),
                ("cpu_core", Some("B"), Some(7)),
                ("cpu_atom", Some("C"), Some(30))
            ]
        );
    }

    fn parts_of_sum(line: &PlanLine, cells: Vec<Cell>) -> Vec<Count> {
        let reading = Reading { cells };
        let whole = settle(line, &reading, SLOT, Scope::Tree);
        let counts: Vec<Count> =
            by_part(line, &reading, SLOT, Scope::Tree).into_iter().map(|part| part.count).collect();
        assert_eq!(whole.value(), counts.iter().map(Count::value).sum(), "{whole:?} {counts:?}");
        counts
    }

    #[test]
    fn the_parts_of_a_sum_add_up_and_only_those_that_were_scaled_say_so() {
        let core = |part, raw, running| summand(part, "cpu_core", raw, running);
        let counts = parts_of_sum(&sum("loads", 2, 0), vec![core(0, 70, ALL), core(1, 30, ALL / 2)]);
        assert_eq!(counts[0], Count::Exact(70));
        assert_eq!((counts[1].verdict(), counts[1].value()), (Verdict::Scaled, Some(60)));
    }

    #[test]
    fn the_parts_of_a_sum_on_one_core_type_are_scaled_by_the_time_on_both() {
        let part = |part, pmu, raw, tenths| summand(part, pmu, raw, ALL / 10 * tenths);
        let cells = vec![part(0, "cpu_core", 70, 3), part(1, "cpu_core", 7, 5), part(2, "cpu_atom", 30, 2)];
        let counts = parts_of_sum(&sum("loads", 2, 1), cells);
        assert_eq!(counts.iter().map(Count::value).collect::<Vec<_>>(), [Some(140), Some(10), Some(60)]);
    }

    #[test]
    fn the_units_of_a_device_are_told_apart_and_are_no_wider_than_the_whole() {
        let mut line = device("energy", 2);
        let unit = |part, raw, running| summand(part, ["imc_0", "imc_1"][part], raw, running);
        let counts = parts_of_sum(&line, vec![unit(0, 7, ALL), unit(1, 3, ALL / 2)]);
        assert_eq!((counts[0].verdict(), counts[1].value()), (Verdict::Exact, Some(6)));
        line.event.candidates[0].widest = Some(Scope::Package);
        let counts = parts_of_sum(&line, vec![unit(0, 7, ALL), unit(1, 3, ALL)]);
        let part = PartReason::Whole { scope: Scope::Package, part: None };
        assert_eq!(counts[1], Count::Partial { raw: 3, part });
    }

    #[test]
    fn the_parts_of_a_rotated_sum_are_not_scaled() {
        let cells = vec![summand(0, "cpu_core", 70, ALL), summand(1, "cpu_core", 30, ALL)];
        let line = sum("loads", 2, 0);
        let reading = Reading { cells };
        let of = SlotReading { line: &line, reading: &reading, slot: SLOT, asked: Scope::Tree };
        let parts = of.parts(Whole::Rotated);
        assert!(parts.iter().all(|part| part.count.verdict() == Verdict::Partial), "{parts:?}");
    }
}
