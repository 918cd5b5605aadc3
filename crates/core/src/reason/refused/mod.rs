//! Refusals of sources.
//!
//! A source that refuses says why by one of these values. The kind of the refusal decides what a plan does
//! about it; the reason is what the user reads.

mod account;
mod gpu;
mod kperf;
mod perf;
mod register;
mod software;

use std::fmt;

use crate::ladder::Rung;

pub use account::AccountRefusal;
pub use gpu::GpuObstacle;
pub use kperf::{KperfObstacle, KperfRefusal};
pub use perf::{EventPmus, LockedPages, PerfAnswer, PerfRefusal, SamplingPermit};
pub use register::RegisterRefusal;
pub use software::SoftwareRefusal;

/// Why a source does not open the slots of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RefusalReason {
    // ------------------------------------------------------------------------------ of all sources
    /// The program has no such source.
    NoSource(Rung),
    /// The source has no windows.
    NoWindows(Rung),
    /// The event belongs to another source.
    NotAmongEvents {
        /// The event.
        event: String,
        /// The source that was asked.
        of: EventFamily,
    },
    /// The target does not exist.
    NoTarget {
        /// The target, in words: `process 7`.
        target: String,
    },
    /// A control group does not exist.
    NoControlGroup {
        /// Its path, with escapes for letters that cannot be printed.
        name: String,
    },
    /// Windows are to end at an event that is not recorded in them.
    LeaderNotAmongEvents,

    // ------------------------------------------------------------------------------ of one source
    /// Linux's perf events.
    Perf(PerfRefusal),
    /// kperf of macOS.
    Kperf(KperfRefusal),
    /// The registers of the PMU.
    Registers(RegisterRefusal),
    /// The software PMU.
    Software(SoftwareRefusal),
    /// The accounts of the operating system.
    Accounts(AccountRefusal),
    /// The driver of a GPU.
    Gpu(GpuObstacle),

    /// The words of the kernel, of a driver, or of an error.
    Reported(String),
}

/// The events of one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventFamily {
    /// perf's events.
    Perf,
    /// perf's events, of which samples are taken.
    SampledPerf,
    /// The software PMU's events.
    Software,
    /// Metrics of the operating system's accounting.
    Os,
    /// Counts of macOS's accounts.
    MacAccounts,
    /// Quantities of GPUs.
    Gpu,
}

impl From<PerfRefusal> for RefusalReason {
    fn from(reason: PerfRefusal) -> RefusalReason {
        RefusalReason::Perf(reason)
    }
}

impl From<KperfRefusal> for RefusalReason {
    fn from(reason: KperfRefusal) -> RefusalReason {
        RefusalReason::Kperf(reason)
    }
}

impl From<RegisterRefusal> for RefusalReason {
    fn from(reason: RegisterRefusal) -> RefusalReason {
        RefusalReason::Registers(reason)
    }
}

impl From<SoftwareRefusal> for RefusalReason {
    fn from(reason: SoftwareRefusal) -> RefusalReason {
        RefusalReason::Software(reason)
    }
}

impl From<AccountRefusal> for RefusalReason {
    fn from(reason: AccountRefusal) -> RefusalReason {
        RefusalReason::Accounts(reason)
    }
}

impl From<GpuObstacle> for RefusalReason {
    fn from(reason: GpuObstacle) -> RefusalReason {
        RefusalReason::Gpu(reason)
    }
}

impl From<String> for RefusalReason {
    fn from(text: String) -> RefusalReason {
        RefusalReason::Reported(text)
    }
}

impl From<&str> for RefusalReason {
    fn from(text: &str) -> RefusalReason {
        RefusalReason::Reported(text.to_owned())
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefusalReason::NoSource(rung) => write!(f, "there is no source {rung} in this program"),
            RefusalReason::NoWindows(rung) => write!(f, "the source {rung} cannot record windows"),
            RefusalReason::NotAmongEvents { event, of } => write!(f, "{event} is no event of {of}"),
            RefusalReason::NoTarget { target } => write!(f, "there is no {target}"),
            RefusalReason::NoControlGroup { name } => write!(f, "there is no control group '{name}'"),
            RefusalReason::LeaderNotAmongEvents => f.write_str("the leader is not among the events"),
            RefusalReason::Perf(reason) => reason.fmt(f),
            RefusalReason::Kperf(reason) => reason.fmt(f),
            RefusalReason::Registers(reason) => reason.fmt(f),
            RefusalReason::Software(reason) => reason.fmt(f),
            RefusalReason::Accounts(reason) => reason.fmt(f),
            RefusalReason::Gpu(reason) => reason.fmt(f),
            RefusalReason::Reported(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for EventFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EventFamily::Perf => "perf",
            EventFamily::SampledPerf => "perf: it cannot be sampled",
            EventFamily::Software => "the software PMU",
            EventFamily::Os => "the operating system's accounting",
            EventFamily::MacAccounts => "macOS's accounts",
            EventFamily::Gpu => "GPUs",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_object() {
        for (reason, words) in [
            (RefusalReason::NoSource(Rung::Perf), "there is no source perf in this program"),
            (RefusalReason::NoTarget { target: "process 7".to_owned() }, "there is no process 7"),
            (
                RefusalReason::NotAmongEvents { event: "e".to_owned(), of: EventFamily::SampledPerf },
                "e is no event of perf: it cannot be sampled",
            ),
            (RefusalReason::from("the driver's words"), "the driver's words"),
        ] {
            assert_eq!(reason.to_string(), words);
        }
    }
}
