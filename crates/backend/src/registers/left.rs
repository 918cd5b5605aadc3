//! Registers that a process wrote and has not restored yet.

use std::fmt;

use cyclometer_core::Error;

/// The registers of a CPU that a journal names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftRegisters {
    /// The journal's file, or the folder that could not be read.
    pub file: String,
    /// The CPU; `None` where the journal could not be read.
    pub cpu: Option<u32>,
    /// The process that wrote the registers; `None` where the journal could not be read.
    pub pid: Option<u32>,
    /// The state of the registers.
    pub state: LeftState,
}

/// The state of registers that a journal names.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LeftState {
    /// The process that wrote them runs, and restores them at its end.
    InUse,
    /// The process that wrote them died; its restore daemon is restoring them.
    BeingRestored {
        /// The process id of the restore daemon.
        by: u32,
    },
    /// No running process will restore them.
    Left,
    /// The machine was booted since, which has reset them.
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
                    "counter registers of CPU {cpu}: process {pid} wrote them, and died before it restored them"
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

/// The outcome of restoring registers.
#[derive(Debug)]
pub struct Restoration {
    /// The registers, and their state before.
    pub registers: LeftRegisters,
    /// The result of the attempt.
    pub outcome: Result<Restored, Error>,
}

/// The effect on registers that were left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Restored {
    /// The registers have their previous values.
    Restored,
    /// There was nothing left to restore; the journal is removed.
    Forgotten,
    /// A running process owns them: nothing was done.
    Untouched,
}
