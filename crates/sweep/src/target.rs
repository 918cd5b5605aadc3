//! The target of a sweep, and how it is counted.

use cyclometer_core::{CounterId, Error};
use cyclometer_inference::KernelIndex;

/// A machine whose counters can be given any event.
pub trait SweepTarget {
    /// The counters that an event can be placed on: all of them count it at once. `None` where the system
    /// chooses the counter; it is then the only one.
    fn counters(&self) -> Vec<Option<CounterId>>;

    /// Places a code on every counter.
    ///
    /// # Errors
    ///
    /// Those of the target's registers.
    fn place(&mut self, code: u32) -> Result<CodePlacement, Error>;

    /// Takes all codes off the counters; whether another counter counts instructions meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the target's registers.
    fn clear(&mut self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Runs a kernel for so many iterations; the events of the placed code meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the target's registers.
    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<SweepCounts, Error>;
}

/// The answer to the placing of a code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodePlacement {
    /// It counts.
    Placed,
    /// The machine has no such code, for this reason.
    Refused(String),
}

/// The counts of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SweepCounts {
    /// Events of the placed code, on each counter.
    pub counts: Vec<u64>,
    /// Instructions on a counter that is not under test, where there is one.
    pub instructions: Option<u64>,
}

/// How a sweep counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SweepSettings {
    /// The iterations of the smallest size, from 1 to [`SweepSettings::MOST_ITERATIONS`], best odd; the
    /// others are some twice, four and eight times that. Events that count every other time show at odd
    /// sizes, and those that count every other 32,768th in runs that are longer than that.
    pub iterations: u64,
    /// How often each size of a live event is counted, from 1 to [`SweepSettings::MOST_REPEATS`].
    pub repeats: u32,
    /// Decides the order.
    pub seed: u64,
    /// Whether counts of nothing may differ from 0, as interrupts cause on real machines: up to one in 1,000
    /// iterations then means that a kernel does not move a code.
    pub is_noisy: bool,
}

impl Default for SweepSettings {
    fn default() -> SweepSettings {
        SweepSettings { iterations: 16_381, repeats: 5, seed: 0, is_noisy: false }
    }
}

impl SweepSettings {
    /// The most iterations of the smallest size: the largest one takes 8 times as long.
    pub const MOST_ITERATIONS: u64 = 100_000_000;
    /// The most repeats: every count is kept until the sweep ends.
    pub const MOST_REPEATS: u32 = 1000;

    /// Whether the iterations and the repeats are within their bounds.
    pub fn are_possible(&self) -> bool {
        (1..=Self::MOST_ITERATIONS).contains(&self.iterations)
            && (1..=Self::MOST_REPEATS).contains(&self.repeats)
    }

    /// The four sizes of a kernel, in iterations.
    pub fn sizes(&self) -> [u64; 4] {
        [1, 2, 4, 8].map(|factor| self.iterations.max(1).saturating_mul(factor).saturating_add(factor / 4))
    }

    /// The iterations of each kernel for a code: if no kernel moves it, and if one does.
    pub fn iterations_of_code(&self) -> [u64; 2] {
        let sizes = self.sizes();
        let dead = sizes[0].saturating_add(sizes[3]);
        let all = sizes.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
        [dead, all.saturating_mul(self.repeats.max(1).into())]
    }

    /// Whether a run of a code for so many iterations counted nothing.
    pub(crate) fn is_quiet(&self, iterations: u64, counts: &[u64]) -> bool {
        let most = if self.is_noisy { (iterations / 1000).max(1) } else { 0 };
        counts.iter().all(|count| *count <= most)
    }
}
