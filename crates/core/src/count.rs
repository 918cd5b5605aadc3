//! Counts with their provenance, scope and verdict.

use std::fmt;

pub use crate::reason::CONFIDENCE;
use crate::reason::{MissingReason, NoInterval, ObservedTime, PartReason};
pub use crate::scope::Scope;

/// A value, or the reason why there is none.
///
/// Never a silent zero: a counter that did not count is not [`Count::Exact`] of 0.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Count {
    /// Counted for the whole time.
    Exact(u64),
    /// Estimated from the part of the time that was observed, because the event shared its counter with
    /// others.
    #[doc(alias = "multiplexing")]
    Scaled {
        /// The raw count.
        raw: u64,
        /// The estimated count for the whole of the time.
        estimate: u64,
        /// Time that the event was enabled, in ns.
        time_enabled_ns: u64,
        /// Time that it was on a counter, in ns.
        time_running_ns: u64,
        /// How far the true count may be from `estimate`.
        interval: Interval,
    },
    /// Counted on some cores or modes only, over a scope wider than asked, or by counters that may have
    /// missed some events.
    Partial {
        /// The count of that part.
        raw: u64,
        /// The part that was counted (`on cpu_core only`, `whole package`).
        part: PartReason,
    },
    /// No count was taken, although the event can be counted on this machine.
    NotCounted {
        /// The reason.
        reason: MissingReason,
    },
    /// This machine, kernel or source cannot count the event.
    NotSupported {
        /// The reason, and the remedy.
        reason: MissingReason,
    },
    /// Counting began, but the count was lost before it could be read.
    Lost {
        /// The event that caused the loss.
        reason: MissingReason,
    },
}

/// How far the true count may be from an estimate.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
#[doc(alias = "confidence interval")]
pub enum Interval {
    /// In 95 of 100 cases the true count differs by at most this much, up or down.
    Known {
        /// The distance, in events.
        half_width: u64,
        /// Whether a few intervals of the observed time hold most of the count. Similar intervals may then
        /// have been missed, and the interval estimate may be too narrow.
        concentrated: bool,
    },
    /// The error of the estimate is unknown.
    Unknown {
        /// The reason.
        reason: NoInterval,
    },
}

impl Count {
    /// The best value available, or `None` when nothing was counted.
    pub fn value(&self) -> Option<u64> {
        match self {
            Count::Exact(value) => Some(*value),
            Count::Scaled { estimate, .. } => Some(*estimate),
            Count::Partial { raw, .. } => Some(*raw),
            Count::NotCounted { .. } | Count::NotSupported { .. } | Count::Lost { .. } => None,
        }
    }

    /// The state of the count, without the numbers.
    pub fn verdict(&self) -> Verdict {
        match self {
            Count::Exact(_) => Verdict::Exact,
            Count::Scaled { .. } => Verdict::Scaled,
            Count::Partial { .. } => Verdict::Partial,
            Count::NotCounted { .. } => Verdict::NotCounted,
            Count::NotSupported { .. } => Verdict::NotSupported,
            Count::Lost { .. } => Verdict::Lost,
        }
    }

    /// The share of the time that was observed, 0 to 1; `None` when nothing was counted.
    pub fn observed_share(&self) -> Option<f64> {
        match self {
            Count::Exact(_) | Count::Partial { .. } => Some(1.0),
            Count::Scaled { time_enabled_ns, time_running_ns, .. } => {
                Some(*time_running_ns as f64 / (*time_enabled_ns).max(1) as f64)
            }
            _ => None,
        }
    }

    /// The part of the time in which an estimate was counted; `None` for other counts.
    pub fn observed_time(&self) -> Option<ObservedTime> {
        let Count::Scaled { time_enabled_ns, time_running_ns, interval, .. } = self else { return None };
        Some(ObservedTime {
            time_enabled_ns: *time_enabled_ns,
            time_running_ns: *time_running_ns,
            concentrated: matches!(interval, Interval::Known { concentrated: true, .. }),
            half_width: None,
        })
    }

    /// The part that was counted, if the count is not exact, with the interval of an estimate. It is for a
    /// count of which this one is a part. `None` for an exact count, and without a number.
    pub fn part(&self) -> Option<PartReason> {
        match self {
            Count::Scaled { interval, .. } => {
                let observed = self.observed_time()?;
                Some(PartReason::Observed(ObservedTime { half_width: interval.half_width(), ..observed }))
            }
            Count::Partial { part, .. } => Some(part.clone()),
            _ => None,
        }
    }

    /// The reason why there is no number; `None` when there is one.
    pub fn missing(&self) -> Option<&MissingReason> {
        match self {
            Count::NotCounted { reason } | Count::NotSupported { reason } | Count::Lost { reason } => {
                Some(reason)
            }
            _ => None,
        }
    }

    /// The reason why the count is not exact, in words; `None` when it is.
    pub fn reason(&self) -> Option<String> {
        match self {
            Count::Exact(_) => None,
            Count::Scaled { .. } => self.observed_time().map(|observed| observed.to_string()),
            Count::Partial { part, .. } => Some(part.to_string()),
            Count::NotCounted { reason } | Count::NotSupported { reason } | Count::Lost { reason } => {
                Some(reason.to_string())
            }
        }
    }
}

impl Interval {
    /// The half width of the interval, in events; `None` when it is unknown.
    pub fn half_width(&self) -> Option<u64> {
        match self {
            Interval::Known { half_width, .. } => Some(*half_width),
            Interval::Unknown { .. } => None,
        }
    }
}

/// The state of a [`Count`], ordered from best to worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Verdict {
    /// Counted for the whole time.
    Exact,
    /// Shared its counter; the value is an estimate.
    Scaled,
    /// Counted on a part only, or over a scope wider than asked.
    Partial,
    /// Not counted, although the event can be counted on this machine.
    NotCounted,
    /// Cannot be counted on this machine.
    NotSupported,
    /// Counted, but the count was lost.
    Lost,
}

impl Verdict {
    /// The word used in JSON and CSV.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Exact => "exact",
            Verdict::Scaled => "scaled",
            Verdict::Partial => "partial",
            Verdict::NotCounted => "not_counted",
            Verdict::NotSupported => "not_supported",
            Verdict::Lost => "lost",
        }
    }

    /// Whether there is a number.
    pub fn has_value(self) -> bool {
        self <= Verdict::Partial
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word().replace('_', " "))
    }
}

/// The origin of a count.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Provenance {
    /// A PMU counter.
    Hardware,
    /// A software event or the accounting of the operating system.
    Kernel,
    /// The software PMU, which executed the program and counted exactly.
    Counted,
    /// The software PMU's model of caches, TLBs or predictors.
    Modelled,
    /// A simulated chip; the count describes no real program.
    Simulated,
    /// NVIDIA's driver, through its management library NVML.
    Nvml,
}

impl Provenance {
    /// Every provenance.
    pub const ALL: [Provenance; 6] = [
        Provenance::Hardware,
        Provenance::Kernel,
        Provenance::Counted,
        Provenance::Modelled,
        Provenance::Simulated,
        Provenance::Nvml,
    ];

    /// The provenance with this word.
    pub fn named(word: &str) -> Option<Provenance> {
        Provenance::ALL.into_iter().find(|known| known.word() == word)
    }

    /// The word used in JSON and CSV.
    pub fn word(self) -> &'static str {
        match self {
            Provenance::Hardware => "hardware",
            Provenance::Kernel => "kernel",
            Provenance::Counted => "counted",
            Provenance::Modelled => "modelled",
            Provenance::Simulated => "simulated",
            Provenance::Nvml => "nvml",
        }
    }

    /// The mark after a value in tables; empty for hardware and kernel.
    pub fn mark(self) -> &'static str {
        match self {
            Provenance::Hardware | Provenance::Kernel | Provenance::Nvml => "",
            Provenance::Counted => "≡",
            Provenance::Modelled => "~",
            Provenance::Simulated => "sim",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(time_running_ns: u64, interval: Interval) -> Count {
        Count::Scaled { raw: 1, estimate: 4, time_enabled_ns: 1000, time_running_ns, interval }
    }

    fn unknown() -> Interval {
        Interval::Unknown { reason: NoInterval::NoTime }
    }

    #[test]
    fn only_counted_states_have_a_value() {
        let reason = || MissingReason::NoValue;
        let cases = [
            (Count::Exact(0), Some(0)),
            (scaled(250, unknown()), Some(4)),
            (Count::Partial { raw: 3, part: PartReason::Sampled }, Some(3)),
            (Count::NotCounted { reason: reason() }, None),
            (Count::NotSupported { reason: reason() }, None),
            (Count::Lost { reason: reason() }, None),
        ];
        for (count, value) in cases {
            assert_eq!(count.value(), value);
            assert_eq!(count.verdict().has_value(), value.is_some());
        }
    }

    #[test]
    fn a_scaled_count_tells_its_share() {
        for (time_running_ns, reason) in [
            (240, "observed 24 % of the time"),
            (10, "observed 1 % of the time"),
            (4, "observed 0.40 % of the time"),
        ] {
            assert_eq!(scaled(time_running_ns, unknown()).reason().unwrap(), reason);
        }
    }

    #[test]
    fn a_count_in_few_moments_warns_of_its_interval() {
        let known = |concentrated| scaled(240, Interval::Known { half_width: 2, concentrated });
        assert_eq!(known(false).reason().unwrap(), "observed 24 % of the time");
        assert!(known(true).reason().unwrap().ends_with("the interval may be too narrow"));
    }

    #[test]
    fn the_worst_verdict_is_the_greatest() {
        assert_eq!([Verdict::Exact, Verdict::Lost, Verdict::Scaled].into_iter().max(), Some(Verdict::Lost));
    }
}
