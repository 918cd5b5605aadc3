//! Accounts of the operating system that lack a value.

use std::fmt;

use crate::modes::Modes;

/// Why the accounts of the operating system do not have a value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AccountRefusal {
    /// There are no accounts of this kind of target.
    NoAccounts,
    /// Accounts of version 1 control groups are not read.
    CgroupVersion1,
    /// The metric is not accounted for single threads.
    NotOfThreads {
        /// The metric.
        metric: String,
    },
    /// The metric is not accounted for kernel threads.
    NotOfKernelThread {
        /// The metric.
        metric: String,
        /// The thread, in words.
        target: String,
    },
    /// The metric is not accounted for the target.
    NotOfTarget {
        /// The metric.
        metric: String,
        /// The target, in words.
        target: String,
    },
    /// The kernel's file of an energy zone is for root.
    EnergyForRoot {
        /// Its path.
        file: String,
    },
    /// The kernel's file of an energy zone cannot be read.
    EnergyUnreadable {
        /// Its path.
        file: String,
        /// The kernel's words.
        error: String,
    },

    // ------------------------------------------------------------------- macOS's accounts of counters
    /// The accounts do not separate the modes.
    ModesTogether {
        /// The event.
        event: String,
        /// The modes that were requested.
        modes: Modes,
    },
    /// Only processes and the calling thread have accounts.
    NotAProcess {
        /// The kind of target, in the plural.
        targets: &'static str,
    },
    /// The counts are shown to the target's user and to root.
    OtherUser {
        /// The target, in words.
        target: String,
    },
    /// This version of macOS has no account of the target.
    NoAccountInVersion {
        /// The target, in words.
        target: String,
    },
    /// The account cannot be read.
    Unreadable {
        /// The target, in words.
        target: String,
        /// The system's words.
        error: String,
    },
    /// The count is of processes only.
    OfProcesses {
        /// The event.
        event: String,
    },
    /// The count is in the accounts of later versions of macOS.
    OfLaterVersion {
        /// The event.
        event: String,
    },
}

impl fmt::Display for AccountRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use AccountRefusal as A;
        match self {
            A::NoAccounts => f.write_str("this target has no accounts"),
            A::CgroupVersion1 => {
                f.write_str("the operating system's accounting of version 1 control groups is not read")
            }
            A::NotOfThreads { metric } => {
                write!(f, "the operating system does not account {metric} for single threads")
            }
            A::NotOfKernelThread { metric, target } => write!(
                f,
                "{target} is a kernel thread, for which the operating system does not account {metric}"
            ),
            A::NotOfTarget { metric, target } => {
                write!(f, "the operating system does not account {metric} for {target}")
            }
            A::EnergyForRoot { file } => {
                write!(f, "{file} can be read by root alone; to permit it: sudo chmod a+r {file}")
            }
            A::EnergyUnreadable { file, error } => write!(f, "{file} cannot be read: {error}"),
            A::ModesTogether { event, modes } => write!(
                f,
                "macOS accounts {event} in user and kernel mode together, without root, not in {modes} alone"
            ),
            A::NotAProcess { targets } => write!(
                f,
                "macOS accounts for processes and the calling thread without root, not for {targets}"
            ),
            A::OtherUser { target } => {
                write!(f, "macOS shows the counts of {target} to its own user and to root only")
            }
            A::NoAccountInVersion { target } => {
                write!(f, "this version of macOS has no account of {target}")
            }
            A::Unreadable { target, error } => write!(f, "macOS gives no account of {target}: {error}"),
            A::OfProcesses { event } => {
                write!(f, "{event} is accounted for processes only, not for threads")
            }
            A::OfLaterVersion { event } => {
                write!(f, "{event} is not in the accounts of this version of macOS (from 13 on)")
            }
        }
    }
}
