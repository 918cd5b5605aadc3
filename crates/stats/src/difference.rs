//! The difference of two readings.

use std::collections::{HashMap, HashSet};

use cyclometer_core::event::{OsMetric, Part};
use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Count, MissingReason, PartReason, Rung, Scope, SlotId};

use crate::settle::{SlotReading, Span, settle};

/// Subtracts an earlier reading from a later one, cell by cell.
///
/// Cells are matched by slot and place; a new cell is taken as it is. Values of sources only grow, because
/// sources extend narrow counters themselves. A cell whose value went back is lost.
pub fn difference(now: &Reading, before: &Reading) -> Reading {
    difference_with(now, before, Decrease::Lost)
}

/// The meaning of a value that is smaller than the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decrease {
    /// The cell is lost: values of its source only grow.
    Lost,
    /// The true difference is zero or a little more. Rows of the accounting are read while a command runs.
    /// The last value comes from the process that reaps the command, less the cost of the launch. It may
    /// therefore be a little below the last row.
    LaunchCost,
}

fn difference_with(now: &Reading, before: &Reading, decrease: Decrease) -> Reading {
    let earlier: HashMap<(SlotId, &At), &Cell> =
        before.cells.iter().map(|cell| ((cell.slot, &cell.at), cell)).collect();
    let cells = now
        .cells
        .iter()
        .map(|cell| match earlier.get(&(cell.slot, &cell.at)) {
            Some(before) => cell_difference(cell, before, decrease),
            None => cell.clone(),
        })
        .collect();
    Reading { cells }
}

/// The latest known cells after a reading: its own, and earlier cells that it could not read.
///
/// A busy source has no cells in a reading. Its next difference must be to its last reading, not to zero,
/// because it continues to count. A source that gave other cells of an event was not busy. Cells that it left
/// out, as of a thread that has ended, are gone and are not kept.
pub fn latest(now: &Reading, before: &Reading) -> Reading {
    let read: HashSet<(SlotId, &At)> = known(now).map(|cell| (cell.slot, &cell.at)).collect();
    let there: HashSet<(SlotId, &At)> = now.cells.iter().map(|cell| (cell.slot, &cell.at)).collect();
    let answered: HashSet<SlotId> = known(now).map(|cell| cell.slot).collect();
    let unread = known(before).filter(|cell| {
        let place = (cell.slot, &cell.at);
        !read.contains(&place) && (there.contains(&place) || !answered.contains(&cell.slot))
    });
    Reading { cells: known(now).chain(unread).cloned().collect() }
}

fn known(reading: &Reading) -> impl Iterator<Item = &Cell> {
    reading.cells.iter().filter(|cell| cell.lost.is_none())
}

fn cell_difference(now: &Cell, before: &Cell, decrease: Decrease) -> Cell {
    let raw = now.raw.checked_sub(before.raw);
    let decrease = raw.is_none().then_some(decrease);
    let went_back = (decrease == Some(Decrease::Lost)).then_some(MissingReason::WentBack);
    let is_launch_cost = decrease == Some(Decrease::LaunchCost) && now.lost.is_none();
    let less = is_launch_cost.then_some(PartReason::BelowLaunch);
    Cell {
        raw: raw.unwrap_or(0),
        lost: now.lost.clone().or(went_back),
        partial: less.or_else(|| now.partial.clone()),
        time_enabled_ns: now.time_enabled_ns.saturating_sub(before.time_enabled_ns),
        time_running_ns: now.time_running_ns.saturating_sub(before.time_running_ns),
        ..now.clone()
    }
}

/// The count of one event between two readings.
///
/// A peak has no difference: the later value is used. A gauge has the mean of the time between.
pub fn settle_interval(
    line: &PlanLine,
    now: &Reading,
    before: &Reading,
    slot: SlotId,
    asked: Scope,
) -> Count {
    if is_peak(line) {
        return settle(line, now, slot, asked);
    }
    let is_accounting = line.candidate().is_some_and(|candidate| candidate.rung == Rung::Os);
    let decrease = if is_accounting { Decrease::LaunchCost } else { Decrease::Lost };
    let mut between = difference_with(now, before, decrease);
    if line.candidate().is_some_and(|candidate| candidate.gauge().is_some()) {
        between.cells.iter_mut().for_each(only_sampled);
    }
    SlotReading { line, reading: &between, slot, asked }.count(Span::Interval)
}

/// The remark of a gauge has the range since the start, which is not that of an interval.
fn only_sampled(cell: &mut Cell) {
    cell.partial = cell.partial.take().map(|_| PartReason::Sampled);
}

fn is_peak(line: &PlanLine) -> bool {
    line.candidate().is_some_and(|candidate| {
        candidate.parts.iter().any(|part| matches!(part, Part::Os(OsMetric::PeakRss)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, os_line};
    use cyclometer_core::gpu::{GpuPart, GpuPlace, GpuQuantity};
    use proptest::prelude::*;

    const SLOT: SlotId = SlotId(0);

    fn reading(cells: Vec<Cell>) -> Reading {
        Reading { cells }
    }

    #[test]
    fn a_thread_that_is_new_counts_from_zero() {
        let mut new = cell(SLOT, 9, 20, 20);
        new.at.tid = Some(7);
        let now = reading(vec![cell(SLOT, 15, 30, 30), new.clone()]);
        let before = reading(vec![cell(SLOT, 5, 10, 10)]);
        assert_eq!(difference(&now, &before), reading(vec![cell(SLOT, 10, 20, 20), new]));
    }

    #[test]
    fn what_was_not_read_once_is_in_the_next_difference() {
        let mut gone = cell(SLOT, 0, 0, 0);
        gone.lost = Some("no answer".into());
        for unread in [reading(vec![]), reading(vec![gone])] {
            let first = latest(&reading(vec![cell(SLOT, 5, 10, 10)]), &reading(vec![]));
            let second = latest(&unread, &first);
            let third = difference(&reading(vec![cell(SLOT, 12, 30, 30)]), &second);
            assert_eq!(third, reading(vec![cell(SLOT, 7, 20, 20)]));
        }
    }

    #[test]
    fn a_place_that_an_answer_leaves_out_is_not_kept() {
        let of_thread = |tid, raw| {
            let mut cell = cell(SLOT, raw, 20, 20);
            cell.at.tid = Some(tid);
            cell
        };
        let mut known = reading(vec![]);
        for tid in 0..100 {
            let now = reading(vec![cell(SLOT, 5, 10, 10), of_thread(tid, 7)]);
            known = latest(&now, &known);
            assert_eq!(known, now, "threads that have ended are gone");
        }
        let mut unread = of_thread(99, 0);
        unread.lost = Some("no answer".into());
        let after = latest(&reading(vec![cell(SLOT, 6, 20, 20), unread]), &known);
        assert!(
            after.cells.contains(&of_thread(99, 7)),
            "a place that could not be read is there: {after:?}"
        );
    }

    #[test]
    fn a_value_that_went_back_is_lost_and_not_huge() {
        let now = reading(vec![cell(SLOT, 3, 20, 20)]);
        let before = reading(vec![cell(SLOT, 5, 10, 10)]);
        assert_eq!(difference(&now, &before).cells[0].lost, Some(MissingReason::WentBack));
    }

    #[test]
    fn the_end_of_a_command_may_lie_below_its_last_row() {
        let line = os_line("page-faults", OsMetric::PageFaults);
        let (now, before) = (reading(vec![cell(SLOT, 40, 20, 20)]), reading(vec![cell(SLOT, 43, 10, 10)]));
        let count = settle_interval(&line, &now, &before, SLOT, Scope::Tree);
        assert_eq!(count, Count::Partial { raw: 0, part: PartReason::BelowLaunch });
    }

    #[test]
    fn a_loss_stays_lost() {
        let mut gone = cell(SLOT, 3, 20, 20);
        gone.lost = Some("gone".into());
        let delta = difference(&reading(vec![gone]), &reading(vec![cell(SLOT, 1, 10, 10)]));
        assert_eq!(delta.cells[0].lost, Some("gone".into()));
    }

    #[test]
    fn a_gauge_has_the_mean_of_the_interval_and_no_range_of_the_whole_run() {
        let gauge = |integral, ns| {
            let mut cell = cell(SLOT, integral, ns, ns);
            (cell.at.pmu, cell.partial) =
                (Some("nvidia0".to_owned()), Some("nvidia0 sampled 9 times, 1 W to 7 W".into()));
            reading(vec![cell])
        };
        let part = GpuPart { quantity: GpuQuantity::Power, place: GpuPlace::Nvml(None) };
        let mut line = os_line("gpu-power", OsMetric::WallTime);
        let candidate = &mut line.event.candidates[0];
        (candidate.rung, candidate.parts, candidate.widest) =
            (Rung::Gpu, vec![Part::Gpu(part)], Some(Scope::Device));
        // 1 s with 2 W, then 1 s with 6 W, in mW times ms.
        let (first, second) = (gauge(2_000_000, 1_000_000_000), gauge(8_000_000, 2_000_000_000));
        let count = settle_interval(&line, &second, &first, SLOT, Scope::Tree);
        assert_eq!((count.value(), count.reason().as_deref()), (Some(6_000), Some("whole device, sampled")));
        let whole = settle(&line, &second, SLOT, Scope::System);
        assert_eq!(whole.value(), Some(4_000));
        assert!(whole.reason().unwrap().contains("1 W to 7 W"));
    }

    #[test]
    fn a_peak_is_not_subtracted() {
        let now = reading(vec![cell(SLOT, 4096, 1, 1)]);
        let before = reading(vec![cell(SLOT, 4096, 1, 1)]);
        for (metric, expected) in [(OsMetric::PeakRss, 4096), (OsMetric::UserTime, 0)] {
            let line = os_line("x", metric);
            let count = settle_interval(&line, &now, &before, SLOT, Scope::Tree);
            assert_eq!(count, Count::Exact(expected));
        }
    }

    proptest! {
        #[test]
        fn difference_and_earlier_add_up_to_later_or_the_value_is_lost(a: u64, b: u64) {
            let (now, before) = (reading(vec![cell(SLOT, a, 2, 2)]), reading(vec![cell(SLOT, b, 1, 1)]));
            let cell = &difference(&now, &before).cells[0];
            prop_assert_eq!(cell.lost.is_some(), a < b);
            prop_assert!(a < b || cell.raw + b == a);
        }
    }
}
