//! Registers that somebody wrote and has not restored yet.

use std::fmt;

use cyclometer_core::Error;

/// The registers of a CPU that a journal tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftRegisters {
    /// The journal's file, or the folder that could not be read.
    pub file: String,
    /// The CPU; `None` where the journal could not be read.
    pub cpu: Option<u32>,
    /// The process that wrote the registers; `None` where the journal could not be read.
    pub pid: Option<u32>,
    /// How they fare.
    pub state: LeftState,
}

/// How registers fare that a journal tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeftState {
    /// Who wrote them runs, and restores them at its end.
    InUse,
    /// Who wrote them died; a process that was started for that is restoring them.
    BeingRestored {
        /// That process.
        by: u32,
    },
    /// Nobody is left to restore them.
    Left,
    /// The machine was booted since, and has reset them.
    Reset,
    /// The journal could not be read.
    Unreadable {
        /// Why.
        why: String,
    },
}

impl LeftState {
    /// The word in JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            LeftState::InUse => "in_use",
            LeftState::BeingRestored { .. } => "being_restored",
            LeftState::Left => "left",
            LeftState::Reset => "reset",
            LeftState::Unreadable { .. } => "unreadable",
        }
    }
}

impl fmt::Display for LeftRegisters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cpu, pid) = (self.cpu.unwrap_or_default(), self.pid.unwrap_or_default());
        match &self.state {
            LeftState::InUse => {
                write!(f, "counter registers of CPU {cpu}: used by process {pid}, which runs")
            }
            LeftState::BeingRestored { by } => {
                write!(
                    f,
                    "counter registers of CPU {cpu}: process {pid} died, process {by} is restoring them"
                )
            }
            LeftState::Left => {
                write!(
                    f,
                    "counter registers of CPU {cpu}: process {pid} wrote them and died; nobody restored them"
                )
            }
            LeftState::Reset => {
                write!(
                    f,
                    "counter registers of CPU {cpu}: written before the last boot, which has reset them"
                )
            }
            LeftState::Unreadable { why } => write!(f, "{}: {why}", self.file),
        }
    }
}

/// What became of registers that were to be restored.
#[derive(Debug)]
pub struct Restoration {
    /// Which, and how they fared before.
    pub registers: LeftRegisters,
    /// What was done.
    pub outcome: Result<Restored, Error>,
}

/// What was done with registers that were left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Restored {
    /// They are as they were.
    Restored,
    /// There was nothing to restore any more; the journal is gone.
    Forgotten,
    /// They are somebody's who runs: nothing was done.
    Untouched,
}
