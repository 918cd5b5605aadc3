//! Counts of models for a command.

use std::time::Duration;

use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::ExitStatus;

/// The windows of a run for the models.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelRunSettings {
    /// The number of bursts, which are spread over the run.
    pub bursts: u32,
    /// The number of windows in each, close together in time.
    pub burst_windows: u32,
    /// Most instructions of a window.
    pub steps: u64,
    /// The longest time that a burst takes, which its windows share.
    pub burst_time: Duration,
    /// The time in bursts after which no other one begins.
    pub most_time: Duration,
    /// The time that the command takes natively: the bursts are spread over it.
    pub expected: Duration,
}

/// The modelled counts of a command: those of its windows, not of the whole run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelledRun {
    /// How the command ended.
    pub exit: Option<ExitStatus>,
    /// The windows with at least one instruction; 0: the command was too short.
    pub windows: u32,
    /// Numbers of threads in each state between the windows, by name.
    pub states: Vec<(&'static str, u64)>,
    /// The largest footprint of a process in its windows, in bytes of pages.
    pub footprint_bytes: u64,
    /// The sum of each count, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// Numbers that are estimated from all windows, by name.
    pub estimates: Vec<(&'static str, u64)>,
    /// The counts by instruction, in the order of [`ModelledRun::counts`].
    pub code: CodeCounts,
}
