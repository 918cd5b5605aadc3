//! One event over all runs: its values, with statistics.

use cyclometer_core::event::Unit;
use cyclometer_core::skipped::Skipped;
use cyclometer_core::{
    Count, Interval, LaunchKind, MissingReason, Modes, NoInterval, Provenance, Rung, Scope, SlotId, Verdict,
};

use crate::statistics::Statistics;

/// One event over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct LineSummary {
    /// The slot of the event in the plan.
    pub slot: SlotId,
    /// The name as printed, with its effective modes (`instructions:u`).
    pub name: String,
    /// The name as typed, without modifiers.
    pub event: String,
    /// Whether the user requested it.
    pub requested: bool,
    /// Unit of the values.
    pub unit: Unit,
    /// The source; `None` when not counted.
    pub rung: Option<Rung>,
    /// The kind of counter behind the values; `None` when not counted.
    pub provenance: Option<Provenance>,
    /// The scope of the values.
    pub scope: Scope,
    /// The modes of the values; `None` where modes mean nothing.
    pub modes: Option<Modes>,
    /// The resolution of the name.
    pub resolution: Option<String>,
    /// The better sources that were not used, each with the reason.
    pub skipped: Vec<Skipped>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// How the command was run for these values; `None` without a value. For a translated run, the kernel's
    /// accounting includes the cost of the translation, not only the program's own.
    pub launch: Option<LaunchKind>,
    /// Whether equal runs give equal values, for counts of the software PMU that should repeat.
    pub determinism: Option<Determinism>,
    /// The worst state of all values.
    pub verdict: Verdict,
    /// The reason why the verdict is not exact, in words; `None` when it is.
    pub reason: Option<String>,
    /// The reason why the plan does not count the event; `None` when it does.
    pub not_planned: Option<MissingReason>,
    /// Statistics over the runs that count.
    pub statistics: Statistics,
    /// The confidence interval of the mean, as an estimate of the mean of complete observations, or the
    /// reason why there is none. `None` where no value is an estimate.
    pub interval: Option<Result<MeanInterval, NoInterval>>,
    /// The value of each run that counts and had the event in its pass.
    pub values: Vec<RunValue>,
    /// Whether several core types count it.
    pub is_hybrid: bool,
    /// The parts: core types of a hybrid, summands of a sum, units of a device; empty for a single part.
    pub parts: Vec<PartSummary>,
}

impl LineSummary {
    /// Whether it satisfies `--strict`.
    pub fn is_strict(&self) -> bool {
        let trusted = [Provenance::Hardware, Provenance::Kernel, Provenance::Counted];
        let of_the_program = !self.is_of_the_translation();
        of_the_program
            && self.verdict == Verdict::Exact
            && self.provenance.is_some_and(|who| trusted.contains(&who))
    }

    /// Whether the values are the cost of the translated run, and not the program's cost on the CPU.
    pub fn is_of_the_translation(&self) -> bool {
        self.launch == Some(LaunchKind::Translated) && self.rung != Some(Rung::Soft)
    }
}

/// The interval of a mean over runs, in the unit of the event.
///
/// The errors of the runs' estimates are independent, because each run draws its own order of rotation
/// groups. The error of the mean is the root of the sum of their squares, divided by the number of runs. It
/// does not include the difference between runs; the standard deviation does, and includes the estimates'
/// errors too.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeanInterval {
    /// The distance up and down that holds the true mean in 95 of 100 cases.
    pub half_width: f64,
    /// Whether some run saw most of the count in few moments, so that the interval may be too narrow.
    pub concentrated: bool,
}

impl MeanInterval {
    pub(crate) fn of(values: &[RunValue], scale: f64) -> Option<Result<MeanInterval, NoInterval>> {
        let intervals: Vec<&Interval> = values.iter().filter_map(interval).collect();
        if intervals.is_empty() {
            return None;
        }
        let mut sum = 0.0;
        let mut any_concentrated = false;
        for interval in intervals {
            match interval {
                Interval::Known { half_width, concentrated } => {
                    sum += (*half_width as f64 * scale).powi(2);
                    any_concentrated |= concentrated;
                }
                Interval::Unknown { reason } => return Some(Err(reason.clone())),
                _ => {
                    let text = "it is of a kind that is not known here".to_owned();
                    return Some(Err(NoInterval::Reported(text)));
                }
            }
        }
        let half_width = sum.sqrt() / values.len() as f64;
        Some(Ok(MeanInterval { half_width, concentrated: any_concentrated }))
    }
}

fn interval(value: &RunValue) -> Option<&Interval> {
    match &value.count {
        Count::Scaled { interval, .. } => Some(interval),
        _ => None,
    }
}

/// Whether a count was the same in every run that counted it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Determinism {
    /// Two or more runs gave the same value.
    Deterministic,
    /// Two or more runs gave different values.
    Varies,
    /// Fewer than two runs gave a value.
    NotChecked,
}

impl Determinism {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Determinism::Deterministic => "deterministic",
            Determinism::Varies => "varies",
            Determinism::NotChecked => "not_checked",
        }
    }

    pub(crate) fn of(values: &[RunValue]) -> Determinism {
        let values: Vec<Option<u64>> = values.iter().map(|value| value.count.value()).collect();
        match values.as_slice() {
            [] | [_] => Determinism::NotChecked,
            values if values.contains(&None) => Determinism::NotChecked,
            [first, rest @ ..] if rest.iter().all(|value| value == first) => Determinism::Deterministic,
            _ => Determinism::Varies,
        }
    }
}

/// The value of one event in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunValue {
    /// Number of the run, from 0.
    pub run: u32,
    /// Its pass.
    pub pass: usize,
    /// The value in the event's unit; `None` when there is none.
    pub value: Option<f64>,
    /// The count behind it.
    pub count: Count,
    /// Half the width of its 95 % interval in the event's unit; `None` when it is no estimate, or the
    /// interval is unknown.
    pub half_width: Option<f64>,
    /// The rotation group in which it was counted; `None` when it was counted all the time.
    pub rotation_group: Option<u32>,
}

/// One core PMU of a hybrid, or one summand of a sum, over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct PartSummary {
    /// The PMU's name; `None` where the operating system counts.
    pub pmu: Option<String>,
    /// The vendor's event, if several events of a PMU are summed.
    pub summand: Option<String>,
    /// Share of the enabled time that was spent on it, 0 to 1, over all runs.
    pub share: f64,
    /// The worst state of all values.
    pub verdict: Verdict,
    /// The reason why the verdict is not exact.
    pub reason: Option<String>,
    /// Statistics over the runs that count.
    pub statistics: Statistics,
}
