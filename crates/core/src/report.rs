//! What a session brings home: raw readings with everything needed to judge them.

use crate::exec::{CommandSpec, CpuBaseline, ExitStatus, Layout, Reading, Target};
use crate::plan::{Plan, SlotId};

/// The outcome of a session: nothing in it is scaled or summarised.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// What was run, if a command was.
    pub command: Option<CommandSpec>,
    /// What was counted.
    pub target: Option<Target>,
    /// The plan as it was in the end, after every replan.
    pub plan: Plan,
    /// Every execution, in order, without warm-ups.
    pub runs: Vec<Run>,
    /// Every step of recovery that was taken.
    pub steps: Vec<Step>,
    /// The signal that ended the session early, if one did.
    pub interrupted: Option<i32>,
    /// Why the session ended before the last run, if it did.
    pub failure: Option<String>,
}

/// One execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Number of the run, from 0.
    pub index: u32,
    /// How the command was run.
    pub launch: LaunchKind,
    /// How its addresses were laid out; `None` when nobody made sure of it.
    pub layout: Option<Layout>,
    /// Which processor the command was told that it has; `None`: the one that there is.
    pub cpu_baseline: Option<CpuBaseline>,
    /// Which pass was counted.
    pub pass: usize,
    /// How it ended; `None` when nobody could tell.
    pub exit: Option<ExitStatus>,
    /// Why the run does not enter the statistics, if so.
    pub dropped_because: Option<String>,
    /// From start to end, in ns.
    pub wall_ns: u64,
    /// What was read at the end.
    pub reading: Reading,
    /// Where the events of the pass took turns: every turn that one of them had, in order of time. They
    /// neither overlap nor leave gaps. Empty where all events counted all the time.
    pub slices: Vec<Slice>,
}

/// A part of a run in which one turn was selected.
///
/// # Source
///
/// [`Counting::select`](crate::exec::Counting::select).
#[derive(Clone, PartialEq, Debug)]
pub struct Slice {
    /// The turn, as in [`Slot::turn`](crate::Slot::turn).
    pub turn: u32,
    /// How long it was, in ns.
    pub wall_ns: u64,
    /// What was counted in it: by the slots of this turn, and by those without a turn of the same source. A slot
    /// that could not be read is missing.
    pub counts: Vec<SliceCount>,
}

impl Slice {
    /// What a slot counted; `None` when it was not its turn, or could not be read.
    pub fn count(&self, slot: SlotId) -> Option<&SliceCount> {
        self.counts.iter().find(|count| count.slot == slot)
    }
}

/// What one slot counted in a [`Slice`], over all threads, CPUs and parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SliceCount {
    /// The event.
    pub slot: SlotId,
    /// The raw value.
    pub raw: u64,
    /// How long the event was wanted, in ns: the sum over threads and CPUs; the parts of a hybrid are wanted at the
    /// same time, which counts once.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, in ns: the sum over threads, CPUs and parts.
    pub time_running_ns: u64,
}

/// How a command was run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum LaunchKind {
    /// On the CPU, as it is.
    #[default]
    Native,
    /// Under the software PMU.
    Translated,
    /// Not at all: a workload of a simulated machine.
    Simulated,
}

impl LaunchKind {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            LaunchKind::Native => "native",
            LaunchKind::Translated => "translated",
            LaunchKind::Simulated => "simulated",
        }
    }
}

/// A step of recovery: what was refused and what was done about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The event concerned, by name; `None` when it is the whole session.
    pub event: Option<String>,
    /// What was refused.
    pub refused: String,
    /// What was done.
    pub done: String,
}
