//! The result of a session: raw readings with everything needed to judge them.

pub use crate::exec::LaunchKind;
use std::fmt;

use crate::error::{Error, Recovery};
use crate::exec::{CommandSpec, CpuBaseline, ExitStatus, Layout, Reading, Target};
use crate::plan::Plan;
use crate::slot::SlotId;

/// The outcome of a session: nothing in it is scaled or summarised.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The command that was run, if any.
    pub command: Option<CommandSpec>,
    /// The target that was counted.
    pub target: Option<Target>,
    /// The final plan, after every replan.
    pub plan: Plan,
    /// Every execution, in order, without warm-ups.
    pub runs: Vec<Run>,
    /// Every fallback that was taken.
    pub steps: Vec<FallbackStep>,
    /// The signal that ended the session early, if one did.
    pub interrupted: Option<i32>,
    /// Why the session ended before the last run, if it did.
    pub failure: Option<SessionFailure>,
}

/// A failure that ended a session after its first result. `Display` gives the remedy too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionFailure {
    /// The failure, and its cause.
    pub message: String,
    /// The remedy.
    pub recovery: Recovery,
}

impl From<&Error> for SessionFailure {
    fn from(error: &Error) -> SessionFailure {
        SessionFailure { message: error.to_string(), recovery: error.recovery().clone() }
    }
}

impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.recovery {
            Recovery::None => f.write_str(&self.message),
            recovery => write!(f, "{}; {recovery}", self.message),
        }
    }
}

/// One execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Number of the run, from 0.
    pub index: u32,
    /// How the command was run.
    pub launch: LaunchKind,
    /// The address space layout of the command; `None` when it is unknown.
    pub layout: Option<Layout>,
    /// The CPU baseline presented to the command; `None`: the real processor.
    pub cpu_baseline: Option<CpuBaseline>,
    /// The pass that was counted.
    pub pass: usize,
    /// The exit status; `None` when it is unknown.
    pub exit: Option<ExitStatus>,
    /// Why the run does not enter the statistics, if so.
    pub dropped_because: Option<String>,
    /// From start to end, in ns.
    pub wall_ns: u64,
    /// The reading at the end.
    pub reading: Reading,
    /// The slices of a pass whose events rotated: every period in which a rotation group was selected, in
    /// order of time. They neither overlap nor leave gaps. Empty where all events counted all the time.
    pub slices: Vec<Slice>,
}

/// A part of a run in which one rotation group was selected.
///
/// # Source
///
/// [`Counting::select`](crate::exec::Counting::select).
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// The rotation group, as in [`Slot::rotation_group`](crate::Slot::rotation_group).
    pub rotation_group: u32,
    /// Its duration, in ns.
    pub wall_ns: u64,
    /// The counts of the slots of this group, and of those of the same source without a group. A slot that
    /// could not be read is missing.
    pub counts: Vec<SliceCount>,
}

impl Slice {
    /// The count of a slot; `None` when its group was not selected, or when it could not be read.
    pub fn count(&self, slot: SlotId) -> Option<&SliceCount> {
        self.counts.iter().find(|count| count.slot == slot)
    }
}

/// The count of one slot in a [`Slice`], over all threads, CPUs and parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceCount {
    /// The event.
    pub slot: SlotId,
    /// The raw value.
    pub raw: u64,
    /// How long the event was enabled, in ns: the sum over threads and CPUs. The parts of a hybrid are
    /// enabled at the same time, which counts once.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns: the sum over threads, CPUs and parts.
    pub time_running_ns: u64,
}

/// A fallback: the refusal and the reaction to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FallbackStep {
    /// The event concerned, by name; `None` for the whole session.
    pub event: Option<String>,
    /// The request that was refused.
    pub refused: String,
    /// The reaction to the refusal.
    pub done: String,
}
