//! The sums of regions.

use cyclometer_core::MissingReason;
use cyclometer_core::exec::{CounterAt, Raw};

/// The sum of differences of one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CounterSum {
    pub(crate) value: u64,
    pub(crate) time_enabled_ns: u64,
    pub(crate) time_running_ns: u64,
    /// Number of regions without a value.
    pub(crate) lost: u64,
}

/// The kind of a counter's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct CounterKind {
    /// Whether the value is a peak and not a sum.
    pub(crate) is_peak: bool,
    /// The longest time that it may count, in ns.
    pub(crate) longest_ns: Option<u64>,
}

impl CounterSum {
    /// The sum of one region without a value.
    pub(crate) const LOST: CounterSum =
        CounterSum { value: 0, time_enabled_ns: 0, time_running_ns: 0, lost: 1 };

    /// Whether the counter counted for longer than it may.
    pub(crate) fn is_too_long(self, kind: CounterKind) -> bool {
        kind.longest_ns.is_some_and(|longest| self.time_enabled_ns > longest)
    }

    /// The counts from `start` to `end`.
    pub(crate) fn between(start: Raw, end: Raw, CounterKind { is_peak, .. }: CounterKind) -> CounterSum {
        let lost = CounterSum::LOST;
        if start.is_lost || end.is_lost {
            return lost;
        }
        let difference = || {
            Some(CounterSum {
                // A peak is no sum: only the last value is meaningful.
                value: if is_peak { end.value } else { end.value.checked_sub(start.value)? },
                time_enabled_ns: end.time_enabled_ns.checked_sub(start.time_enabled_ns)?,
                time_running_ns: end.time_running_ns.checked_sub(start.time_running_ns)?,
                lost: 0,
            })
        };
        difference().unwrap_or(lost)
    }

    pub(crate) fn add(&mut self, other: CounterSum, is_peak: bool) {
        self.value = match is_peak {
            true => self.value.max(other.value),
            false => self.value.saturating_add(other.value),
        };
        self.time_enabled_ns = self.time_enabled_ns.saturating_add(other.time_enabled_ns);
        self.time_running_ns = self.time_running_ns.saturating_add(other.time_running_ns);
        self.lost = self.lost.saturating_add(other.lost);
    }
}

/// The number of a label's regions, and their counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct LabelTotals {
    pub(crate) label: Box<str>,
    /// Number of regions that have begun and not ended.
    pub(crate) open: u64,
    /// Number of regions that have ended.
    pub(crate) calls: u64,
    /// Number of regions that ended inside these.
    pub(crate) inner: u64,
    /// One sum for each counter.
    pub(crate) sums: Vec<CounterSum>,
}

impl LabelTotals {
    /// Resets the counts; the label and its open regions remain.
    pub(crate) fn clear(&mut self) {
        (self.calls, self.inner) = (0, 0);
        self.sums.fill(CounterSum::default());
    }
}

/// One counter of a thread.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ThreadCounter {
    pub(crate) counter: CounterAt,
    /// Whether its value is a peak and not a sum.
    pub(crate) is_peak: bool,
    /// The longest time that it may count, in ns.
    pub(crate) longest_ns: Option<u64>,
}

/// The counts of a thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ThreadTotals {
    pub(crate) counters: Vec<ThreadCounter>,
    /// Events that were refused in this thread, each with the reason.
    pub(crate) refused: Vec<(cyclometer_core::SlotId, MissingReason)>,
    pub(crate) labels: Vec<LabelTotals>,
    /// The first reason why values were lost.
    pub(crate) trouble: Option<MissingReason>,
}

impl ThreadTotals {
    /// Number of regions that have begun and not ended.
    pub(crate) fn open(&self) -> u64 {
        self.labels.iter().map(|label| label.open).sum()
    }

    /// Adds what one region of a label counted.
    pub(crate) fn add(&mut self, label: usize, counted: &[CounterSum], inner: u64) {
        let Some(label) = self.labels.get_mut(label) else { return };
        label.calls += 1;
        label.inner += inner;
        for ((sum, counted), counter) in label.sums.iter_mut().zip(counted).zip(&self.counters) {
            sum.add(*counted, counter.is_peak);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: u64, enabled: u64, running: u64) -> Raw {
        Raw { value, time_enabled_ns: enabled, time_running_ns: running, is_lost: false }
    }

    #[test]
    fn a_region_is_the_difference_of_two_reads() {
        let sum = CounterSum::between(raw(10, 100, 90), raw(25, 160, 150), CounterKind::default());
        assert_eq!(sum, CounterSum { value: 15, time_enabled_ns: 60, time_running_ns: 60, lost: 0 });
    }

    #[test]
    fn what_went_backwards_or_was_lost_is_no_number() {
        for (start, end) in
            [(raw(10, 1, 1), raw(9, 2, 2)), (Raw::LOST, raw(9, 2, 2)), (raw(1, 1, 1), Raw::LOST)]
        {
            assert_eq!(CounterSum::between(start, end, CounterKind::default()), CounterSum::LOST);
        }
    }

    #[test]
    fn a_peak_is_no_difference_and_no_sum() {
        let mut sum = CounterSum::between(
            raw(1000, 1, 1),
            raw(1200, 2, 2),
            CounterKind { is_peak: true, longest_ns: None },
        );
        assert_eq!(sum.value, 1200);
        sum.add(CounterSum { value: 1100, ..CounterSum::default() }, true);
        assert_eq!(sum.value, 1200);
        sum.add(CounterSum { value: 1, ..CounterSum::default() }, false);
        assert_eq!(sum.value, 1201);
    }
}
