//! Estimates without an interval.

use std::fmt;

/// Why an estimate has no interval.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoInterval {
    /// The kernel shared the counter, and does not report when.
    SharedByKernel,
    /// Other users held the counter for a part of every slice.
    SharedSlices,
    /// Fewer slices were seen than an interval needs; slices without any running time do not count.
    TooFewSlices {
        /// Slices seen in which anything ran.
        slices: usize,
        /// The least number for an interval.
        needed: usize,
    },
    /// The slices seen have no length, or next to none compared with the others.
    NoTime,
    /// The words of a recording.
    Reported(String),
}

impl fmt::Display for NoInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoInterval::SharedByKernel => {
                f.write_str("the kernel shared the counter and does not tell when each event was on it")
            }
            NoInterval::SharedSlices => f.write_str("others used the counter for a part of every slice"),
            NoInterval::TooFewSlices { slices: 1, needed } => {
                write!(f, "seen in 1 slice of time; an interval needs {needed}")
            }
            NoInterval::TooFewSlices { slices, needed } => {
                write!(f, "seen in {slices} slices of time; an interval needs {needed}")
            }
            NoInterval::NoTime => f.write_str("seen in slices without any running time"),
            NoInterval::Reported(text) => f.write_str(text),
        }
    }
}
