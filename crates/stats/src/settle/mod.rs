//! From the cells of one event to a count.

mod combine;
mod gauge;
mod instance;
mod parts;
mod rotated;
#[cfg(test)]
mod testing;
mod trust;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Count, MissingReason, Scope, SlotId};

pub(crate) use combine::Span;
pub(crate) use parts::Whole;
pub use parts::{PartCount, by_part};
pub(crate) use rotated::Observed;

use combine::combine;
use instance::{Instance, Judged, not_counted};
use rotated::combine_rotated;
use trust::{SourceLimits, incredible_zero};

/// Combines the cells of one slot into a count.
///
/// Raw values are summed. Cells with the same CPU and thread are the parts of a hybrid, and their count is
/// exact when their running times add up to the enabled time. Otherwise each instance is scaled by its own
/// enabled / running. Cells that also have the same PMU are summands of a sum. Each is scaled by its own
/// times, and without one of them there is no sum. Software events of the kernel need no counter, so they
/// are never scaled. A count is partial if instances were lost or never reached a counter, or if the
/// source's scope is wider than `asked`, or if the candidate is uncertain. A zero of an event that cannot
/// be zero is not a count. Some drivers claim that an event without a counter ran (RISC-V with more events
/// than counters). The count of a gauge is its mean.
///
/// # Source
///
/// `perf_event_open(2)`, section "Reading results": `time_enabled` and `time_running`.
pub fn settle(line: &PlanLine, reading: &Reading, slot: SlotId, asked: Scope) -> Count {
    SlotReading { line, reading, slot, asked }.count(Span::Whole)
}

/// A reading of one event of a plan.
#[derive(Clone, Copy)]
pub(crate) struct SlotReading<'a> {
    pub(crate) line: &'a PlanLine,
    pub(crate) reading: &'a Reading,
    pub(crate) slot: SlotId,
    /// The scope that the user asked for.
    pub(crate) asked: Scope,
}

impl<'a> SlotReading<'a> {
    /// As [`settle`], for a whole run or an interval of it.
    pub(crate) fn count(self, span: Span) -> Count {
        self.count_by(|instances| combine(instances, span))
    }

    /// As [`settle`], for an event that shared counters in rotation.
    pub(crate) fn count_of_rotation_group(self, span: Span, observed: impl FnOnce() -> Observed) -> Count {
        self.count_by(|instances| combine_rotated(instances, span, observed))
    }

    fn count_by(self, combine: impl FnOnce(&[Instance]) -> Count) -> Count {
        if let Outcome::NotCounted(count) = &self.line.outcome {
            return count.clone();
        }
        let Some(candidate) = self.line.candidate() else {
            return not_counted(MissingReason::NoCandidate);
        };
        let cells = self.cells();
        if let Some(total) = candidate.gauge() {
            return SourceLimits { of: self, candidate }.apply(gauge::mean(&cells, total), &cells, &[]);
        }
        let instances = Judged::of(self.line, candidate).instances(&cells);
        let count = combine(&instances);
        let is_zero = candidate.never_zero && count.value() == Some(0);
        let of_package = candidate.widest.is_some();
        match is_zero.then(|| incredible_zero(&instances, of_package)).flatten() {
            Some(reason) => not_counted(reason),
            None => SourceLimits { of: self, candidate }.apply(count, &cells, &instances),
        }
    }

    fn cells(self) -> Vec<&'a Cell> {
        self.reading.cells.iter().filter(|cell| cell.slot == self.slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{SLOT, settled};
    use super::*;
    use crate::testing::{cell, hardware};
    use cyclometer_core::exec::At;
    use proptest::prelude::*;

    #[test]
    fn what_the_plan_refused_stays_refused() {
        let mut line = hardware("cycles", 1);
        let refused = Count::NotSupported { reason: MissingReason::NoSource };
        line.outcome = Outcome::NotCounted(refused.clone());
        let reading = Reading { cells: vec![cell(SLOT, 5, 10, 10)] };
        assert_eq!(settle(&line, &reading, SLOT, Scope::Tree), refused);
    }

    fn any_cell() -> impl Strategy<Value = Cell> {
        let at = (0..2usize, proptest::option::of(0..3u32), proptest::option::of(0..3u32));
        let loss = proptest::option::weighted(0.1, Just(MissingReason::Gone));
        (at, any::<u64>(), any::<u64>(), any::<u64>(), loss).prop_map(
            |((part, cpu, tid), raw, enabled, running, lost)| Cell {
                slot: SLOT,
                at: At { part, pmu: Some("cpu".into()), cpu, tid },
                raw,
                time_enabled_ns: enabled,
                time_running_ns: running,
                lost,
                partial: None,
            },
        )
    }

    proptest! {
        #[test]
        fn the_order_of_cells_does_not_matter(cells in proptest::collection::vec(any_cell(), 0..12)) {
            let mut reversed = cells.clone();
            reversed.reverse();
            let kinds = (settled(2, cells), settled(2, reversed));
            prop_assert_eq!(kinds.0.verdict(), kinds.1.verdict());
            prop_assert_eq!(kinds.0.value(), kinds.1.value());
        }
    }
}
