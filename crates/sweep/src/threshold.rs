//! Sweeps by a threshold: each code is counted once while a control runs, and once while the real code does.

use cyclometer_core::{CounterId, Error};
use cyclometer_inference::{KernelIndex, ThresholdAnswer, ThresholdCounts, ThresholdRule};

use crate::sweeping::{SweepError, SweepProgress};
use crate::target::{CodePlacement, SweepTarget};

/// The two codes that run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThresholdPair {
    /// The same work without the wanted event.
    pub control: KernelIndex,
    /// The wanted event once in each run.
    pub real: KernelIndex,
}

/// The counts of a code, and the answer of the rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThresholdCode {
    /// The code.
    pub code: u32,
    /// The counters; `None` where the system chose it.
    pub counters: Vec<Option<CounterId>>,
    /// Its counts during the control, on each counter.
    pub control: Vec<u64>,
    /// Its counts during the real code.
    pub real: Vec<u64>,
    /// The answer; the error is why the machine has no such code.
    pub answer: Result<ThresholdAnswer, String>,
}

impl ThresholdCode {
    /// A counter by its index in the counts; `None` where the system chose it.
    pub fn counter(&self, index: usize) -> Option<CounterId> {
        self.counters.get(index).copied().flatten()
    }
}

/// Counts each code, in the order of the codes.
///
/// # Errors
///
/// [`SweepError`].
pub fn threshold_sweep(
    target: &mut dyn SweepTarget,
    codes: &[u32],
    pair: ThresholdPair,
    rule: ThresholdRule,
    mut progress: impl FnMut(u32, SweepProgress),
) -> Result<Vec<ThresholdCode>, SweepError> {
    if target.counters().is_empty() {
        return Err(SweepError::NoCounter);
    }
    let mut found = Vec::new();
    for (done, &code) in codes.iter().enumerate() {
        progress(code, SweepProgress { done, all: codes.len() });
        let counted = counted(target, code, pair, rule);
        found.push(counted.map_err(|error| SweepError::Target { code, error })?);
    }
    Ok(found)
}

fn counted(
    target: &mut dyn SweepTarget,
    code: u32,
    pair: ThresholdPair,
    rule: ThresholdRule,
) -> Result<ThresholdCode, Error> {
    let counters = target.counters();
    if let CodePlacement::Refused(why) = target.place(code)? {
        return Ok(ThresholdCode { code, counters, control: Vec::new(), real: Vec::new(), answer: Err(why) });
    }
    let control = target.count(pair.control, rule.runs)?.counts;
    let real = target.count(pair.real, rule.runs)?.counts;
    let answer = rule.answer(ThresholdCounts { fake: &control, real: &real });
    Ok(ThresholdCode { code, counters, control, real, answer: Ok(answer) })
}
