//! Samples to rows: what a thread counted between two samples.

use std::collections::BTreeMap;

use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, MissingReason};

use super::samples::ThreadSample;

/// Most threads whose last counts are kept; the rows of others are lost.
const MOST_THREADS: usize = 1 << 16;

/// Makes rows of samples.
///
/// A thread's first row goes from the beginning of counting, at which the kernel's sums are zero, to its
/// first sample. Counts after the last sample of a thread are in no row.
#[derive(Clone, Debug)]
pub struct SampleRows {
    pid: u32,
    /// Which counter of a sample has each slot.
    columns: Vec<usize>,
    last: BTreeMap<u64, LastSample>,
    lost: u64,
}

/// The last sample of a thread.
#[derive(Clone, Debug)]
struct LastSample {
    values: Vec<u64>,
    cpu: u32,
    /// Rows that were lost since.
    lost_before: u64,
}

impl SampleRows {
    /// Rows of the threads of a process; `columns`: which counter, in the kernel's order, has each slot.
    pub fn new(pid: u32, columns: Vec<usize>) -> SampleRows {
        SampleRows { pid, columns, last: BTreeMap::new(), lost: 0 }
    }

    /// The row that ends at a sample; `time_ns` is the time since the recording began. `None` where it is
    /// lost.
    pub fn add(&mut self, sample: &ThreadSample, time_ns: u64) -> Option<WindowRow> {
        let Ok(tid) = u32::try_from(sample.thread) else {
            self.lost += 1;
            return None;
        };
        if self.last.len() >= MOST_THREADS && !self.last.contains_key(&sample.thread) {
            self.lost += 1;
            return None;
        }
        let zero = || LastSample { values: vec![0; sample.values.len()], cpu: sample.cpu, lost_before: 0 };
        let before = self.last.remove(&sample.thread).unwrap_or_else(zero);
        let is_ready = has_sums(sample);
        let count = |column: &usize| match is_ready {
            true => difference(sample, &before, *column),
            false => Count::Lost { reason: MissingReason::NoSumsYet },
        };
        let counts = self.columns.iter().map(count).collect();
        let flags = WindowFlags {
            switches: None,
            migrations: Some(u32::from(before.cpu != sample.cpu)),
            throttled: false,
            lost_before: before.lost_before,
        };
        // A sample without sums is no base for the next one.
        let values = if is_ready { sample.values.clone() } else { before.values };
        let now = LastSample { values, cpu: sample.cpu, lost_before: 0 };
        self.last.insert(sample.thread, now);
        Some(WindowRow {
            thread: Some(WindowThread { pid: self.pid, tid }),
            cpu: Some(sample.cpu),
            time_ns: Some(time_ns),
            address: sample.interrupt.map(|interrupt| interrupt.address),
            cause: WindowCause::Boundary(0),
            counts,
            enabled_ns: None,
            running_ns: None,
            flags,
        })
    }

    /// KdebugRecords were lost: the next row of each thread may have several windows' counts.
    pub fn records_were_lost(&mut self) {
        self.last.values_mut().for_each(|last| last.lost_before += 1);
        self.lost += 1;
    }

    /// Rows that were lost since the call before.
    pub fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// Whether the kernel had sums of the thread's counters: the first is that of cycles, never 0 then.
fn has_sums(sample: &ThreadSample) -> bool {
    !sample.has_surplus && sample.values.first() != Some(&0)
}

fn difference(sample: &ThreadSample, before: &LastSample, column: usize) -> Count {
    match (sample.values.get(column), before.values.get(column)) {
        (Some(now), Some(before)) => match now.checked_sub(*before) {
            Some(counted) => Count::Exact(counted),
            None => Count::Lost { reason: MissingReason::SumShrank },
        },
        _ => Count::Lost { reason: MissingReason::NotInSample },
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::OverflowInterrupt;
    use super::*;

    fn sample(thread: u64, cpu: u32, values: &[u64]) -> ThreadSample {
        let interrupt = OverflowInterrupt { counter: 2, address: 0x4000, is_captured: true };
        let values = values.to_vec();
        ThreadSample { thread, cpu, time_ticks: 0, interrupt: Some(interrupt), values, has_surplus: false }
    }

    #[test]
    fn a_row_has_what_its_thread_counted_since_its_sample_before() {
        let mut rows = SampleRows::new(50, vec![2, 0]);
        let first = rows.add(&sample(7, 0, &[10, 20, 30]), 100).unwrap();
        assert_eq!(first.counts, [Count::Exact(30), Count::Exact(10)], "from the start of counting");
        assert_eq!((first.thread, first.time_ns), (Some(WindowThread { pid: 50, tid: 7 }), Some(100)));
        assert_eq!((first.address, first.cause), (Some(0x4000), WindowCause::Boundary(0)));
        rows.add(&sample(8, 0, &[1000, 1000, 1000]), 110).unwrap();
        let second = rows.add(&sample(7, 3, &[15, 40, 90]), 200).unwrap();
        assert_eq!(second.counts, [Count::Exact(60), Count::Exact(5)]);
        assert_eq!((second.cpu, second.flags.migrations), (Some(3), Some(1)));
    }

    #[test]
    fn a_sum_that_became_smaller_and_a_missing_one_are_lost() {
        let mut rows = SampleRows::new(50, vec![0, 9]);
        rows.add(&sample(7, 0, &[10]), 1).unwrap();
        let row = rows.add(&sample(7, 0, &[9]), 2).unwrap();
        assert!(row.counts.iter().all(|count| matches!(count, Count::Lost { .. })), "{row:?}");
    }

    #[test]
    fn a_sample_without_sums_is_lost_and_no_base_of_the_next_one() {
        let mut rows = SampleRows::new(50, vec![1]);
        let lost = |row: WindowRow| matches!(row.counts[..], [Count::Lost { .. }]);
        rows.add(&sample(7, 0, &[10, 20]), 1).unwrap();
        assert!(lost(rows.add(&sample(7, 0, &[0, 0]), 2).unwrap()));
        let surplus = ThreadSample { has_surplus: true, ..sample(7, 0, &[99, 99]) };
        assert!(lost(rows.add(&surplus, 3).unwrap()));
        assert_eq!(rows.add(&sample(7, 0, &[15, 26]), 4).unwrap().counts, [Count::Exact(6)]);
    }

    #[test]
    fn lost_records_are_marked_at_the_next_row_of_each_thread() {
        let mut rows = SampleRows::new(50, vec![0]);
        rows.add(&sample(7, 0, &[10]), 1).unwrap();
        rows.records_were_lost();
        assert_eq!(rows.add(&sample(7, 0, &[30]), 2).unwrap().flags.lost_before, 1);
        assert_eq!(rows.add(&sample(7, 0, &[40]), 3).unwrap().flags.lost_before, 0);
        assert_eq!((rows.take_lost(), rows.take_lost()), (1, 0));
    }

    #[test]
    fn a_thread_whose_number_is_too_large_for_a_row_is_lost() {
        let mut rows = SampleRows::new(50, vec![0]);
        assert_eq!(rows.add(&sample(1 << 32, 0, &[1]), 1), None);
        assert_eq!(rows.take_lost(), 1);
    }
}
