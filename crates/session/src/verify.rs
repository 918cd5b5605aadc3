//! Before anything runs: whether the kernel counts at the same time what the plan puts together.
//!
//! Known numbers of counters may be wrong, others may hold some of them, and for some machines the number is
//! unknown. So each set of events counts for a moment on our own thread.

use std::collections::BTreeMap;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::{Modes, Result, Rung, Slot, SlotId};
use cyclometer_plan::{join, split};

use crate::RunningSession;

/// How often events are counted for a moment at most: it costs a tenth of a millisecond each time.
const MOST_PROBES: usize = 24;

/// The results of probes so far.
#[derive(Default)]
pub(crate) struct ProbedSets {
    /// Sets that count at the same time.
    good: Vec<Vec<SlotId>>,
    made: usize,
}

impl RunningSession<'_, '_> {
    /// Divides the sets of the plan until the kernel counts all events of each at the same time. A refusal to
    /// open is not judged here: it is reported when the slot is opened.
    ///
    /// # Errors
    ///
    /// Where there are more sets than runs then, and events must not rotate.
    pub(crate) fn verify(&mut self) -> Result<()> {
        let mut set = 0;
        while set < self.report.plan.sharing.sets.len() && !self.report.plan.intent.begun {
            let stuck = self.stuck(set);
            if stuck.is_empty() {
                set += 1;
                continue;
            }
            let others = self.report.plan.sharing.sets[set].iter().filter(|slot| !stuck.contains(slot));
            self.probes.good.push(others.copied().collect());
            let (plan, step) = split(self.report.plan.clone(), set, &stuck)?;
            self.report.plan = plan;
            self.note(step);
            set = 0;
        }
        self.steady()
    }

    /// Where sets were divided: lets cycles and instructions count in each that has counters for them, as
    /// estimates follow them and ratios need them.
    fn steady(&mut self) -> Result<()> {
        let sharing = &self.report.plan.sharing;
        if sharing.found_by_trial == 0 || self.report.plan.intent.begun {
            return Ok(());
        }
        let sets = sharing.sets.clone();
        let all = self.slots(&sets.concat());
        let steady = all.iter().filter(|slot| slot.group.is_none() && self.is_never_zero(slot));
        let steady: Vec<SlotId> = steady.map(|slot| slot.id).collect();
        for (set, members) in sets.iter().enumerate() {
            let missing: Vec<SlotId> = steady.iter().copied().filter(|id| !members.contains(id)).collect();
            let each = missing.iter().map(|id| vec![*id]).filter(|_| missing.len() > 1);
            for more in [missing.clone()].into_iter().chain(each).filter(|more| !more.is_empty()) {
                if self.fits(&[members.as_slice(), &more].concat()) {
                    self.report.plan = join(self.report.plan.clone(), set, &more)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Whether these events were all seen to count at the same time.
    fn fits(&mut self, members: &[SlotId]) -> bool {
        let slots = self.slots(members);
        let Some(reading) = self.probed(&slots) else { return false };
        let mut members = members.to_vec();
        members.sort_unstable();
        let fits = stuck(&slots, &reading, |slot| self.is_never_zero(slot)).is_empty();
        if fits {
            self.probes.good.push(members);
        }
        fits
    }

    fn probed(&mut self, slots: &[Slot]) -> Option<Reading> {
        let source = self.means.sources.iter().find(|source| source.rung() == Rung::Perf)?;
        if slots.len() < 2 || self.probes.made >= MOST_PROBES {
            return None;
        }
        let reading = source.probe(slots)?;
        self.probes.made += 1;
        Some(reading)
    }

    /// The events of a set that do not count beside the others, as far as that can be seen.
    fn stuck(&mut self, set: usize) -> Vec<SlotId> {
        let members = &self.report.plan.sharing.sets[set];
        if self.probes.good.contains(members) {
            return Vec::new();
        }
        let slots = self.slots(members);
        let Some(reading) = self.probed(&slots) else { return Vec::new() };
        let stuck = stuck(&slots, &reading, |slot| self.is_never_zero(slot));
        if stuck.is_empty() || stuck.len() == slots.len() {
            self.probes.good.push(self.report.plan.sharing.sets[set].clone());
            return Vec::new();
        }
        stuck
    }

    fn slots(&self, members: &[SlotId]) -> Vec<Slot> {
        let all = self.report.plan.passes.iter().flat_map(|pass| &pass.slots);
        let mut slots: Vec<Slot> = Vec::new();
        for slot in all.filter(|slot| members.contains(&slot.id)) {
            if slots.iter().all(|known| known.id != slot.id) {
                slots.push(slot.clone());
            }
        }
        slots.sort_by_key(|slot| slot.id);
        slots
    }

    /// Whether our own thread cannot have counted zero of it.
    fn is_never_zero(&self, slot: &Slot) -> bool {
        let candidate = self.report.plan.lines.get(slot.id.0).and_then(|line| line.candidate());
        let sees_us = slot.filter.is_none_or(|modes| modes.covers(Modes::USER)) && !slot.guest_only;
        sees_us && candidate.is_some_and(|candidate| candidate.never_zero)
    }
}

/// Events that ran for less than this share of the time of those that ran most were not on a counter all the
/// time.
const WHOLE: f64 = 0.9;

/// Events that were not on a counter while others of the same PMU were: by what the kernel tells, and by a
/// zero that cannot be. A PMU on which nothing ran, such as that of another core type, is not judged.
fn stuck(slots: &[Slot], reading: &Reading, is_never_zero: impl Fn(&Slot) -> bool) -> Vec<SlotId> {
    let mut most: BTreeMap<Option<&str>, f64> = BTreeMap::new();
    for cell in &reading.cells {
        let best = most.entry(cell.at.pmu.as_deref()).or_default();
        *best = best.max(share(cell));
    }
    let missed = |slot: &Slot, cell: &Cell| {
        let best = most.get(&cell.at.pmu.as_deref()).copied().unwrap_or_default();
        let is_zero = cell.raw == 0 && is_never_zero(slot);
        best > 0.0 && (share(cell) < WHOLE * best || is_zero)
    };
    let is_stuck = |slot: &&Slot| reading.cells.iter().any(|cell| cell.slot == slot.id && missed(slot, cell));
    slots.iter().filter(is_stuck).map(|slot| slot.id).collect()
}

/// The share of the time that an event was on a counter; 0 for one that was never wanted, or lost.
fn share(cell: &Cell) -> f64 {
    match (&cell.lost, cell.time_enabled_ns) {
        (None, 1..) => cell.time_running_ns as f64 / cell.time_enabled_ns as f64,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::exec::At;

    fn slots(n: usize) -> Vec<Slot> {
        (0..n).map(|id| Slot::new(SlotId(id), format!("e{id}"), Rung::Perf, Vec::new())).collect()
    }

    fn cell(slot: usize, pmu: &str, raw: u64, running: u64) -> Cell {
        let at = At { pmu: Some(pmu.to_owned()), ..At::default() };
        Cell { at, ..Cell::new(SlotId(slot), raw, 100_000, running) }
    }

    fn found(cells: Vec<Cell>) -> Vec<usize> {
        let stuck = stuck(&slots(3), &Reading { cells }, |slot| slot.id.0 == 0);
        stuck.into_iter().map(|slot| slot.0).collect()
    }

    #[test]
    fn what_did_not_run_while_others_did_is_stuck() {
        let cells =
            |last| vec![cell(0, "cpu", 9, 100_000), cell(1, "cpu", 0, 99_000), cell(2, "cpu", 0, last)];
        assert_eq!(found(cells(0)), [2]);
        assert_eq!(found(cells(50_000)), [2], "it was taken off its counter");
        assert_eq!(found(cells(100_000)), [0; 0]);
    }

    #[test]
    fn a_zero_that_cannot_be_is_no_count_whatever_the_kernel_says() {
        assert_eq!(found(vec![cell(0, "cpu", 0, 100_000), cell(1, "cpu", 0, 100_000)]), [0]);
    }

    #[test]
    fn pmus_are_judged_each_by_itself() {
        let cells = vec![
            cell(0, "cpu_core", 7, 100_000),
            cell(0, "cpu_atom", 0, 0),
            cell(1, "cpu_core", 0, 100_000),
            cell(1, "cpu_atom", 0, 0),
        ];
        assert_eq!(found(cells), [0; 0], "the thread was on the other core type");
    }

    #[test]
    fn where_nothing_ran_nothing_is_known() {
        assert_eq!(found(vec![cell(0, "cpu", 0, 0), cell(1, "cpu", 0, 0)]), [0; 0]);
        let lost = Cell { lost: Some("pinned".into()), ..cell(1, "cpu", 0, 0) };
        assert_eq!(found(vec![cell(0, "cpu", 5, 90_000), lost]), [1]);
    }
}
