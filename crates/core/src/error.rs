//! One error type: a kind for programs, a recovery for users, a chain for developers.

use std::fmt;

use crate::ladder::Rung;
use crate::modes::Modes;

/// Result with cyclometer's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The error of all operations: one pointer in size.
///
/// `Display` names the operation and the object; [`Error::recovery`] gives the remedy.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    recovery: Recovery,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error with the usual recovery of its kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into(), recovery: kind.strategy(), source: None }))
    }

    /// The same error with a specific recovery.
    #[must_use]
    pub fn with_recovery(mut self, recovery: Recovery) -> Error {
        self.0.recovery = recovery;
        self
    }

    /// The same error with its cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
    ) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The kind of the error, for programs.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The remedy.
    pub fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("recovery", &self.0.recovery)
            .field("source", &self.0.source)
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Kinds of error. The numbers are frozen: C and Python export them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[repr(i32)]
pub enum ErrorKind {
    /// No source of this program supports the architecture.
    ArchUnsupported = 1,
    /// Counters cannot be read from user space on this machine.
    NoUserAccess = 2,
    /// Another user holds the counter.
    CounterBusy = 3,
    /// The event cannot be counted on this machine.
    EventUnsupported = 4,
    /// Only a changed kernel (or our module) gives access.
    KernelPatchNeeded = 5,
    /// The operating system does not permit it.
    PermissionDenied = 6,
    /// The request needs more counters than the hardware has.
    HardwareLimit = 7,
    /// No event, PMU or metric has that name.
    UnknownEvent = 8,
    /// An argument or configuration value is invalid.
    InvalidInput = 9,
    /// Events that can never share one pass.
    ConstraintConflict = 10,
    /// Another program changed control registers or counters.
    StateLost = 11,
    /// A process, thread, CPU or control group does not exist (any more).
    NoSuchTarget = 12,
    /// The command does not exist.
    CommandNotFound = 13,
    /// The command exists but cannot be executed.
    CommandNotExecutable = 14,
    /// A file could not be read or written.
    Io = 15,
    /// The user interrupted.
    Interrupted = 16,
    /// Any other failure of the operating system.
    Os = 17,
}

impl ErrorKind {
    /// The frozen number, as the C and Python bindings export it.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The usual recovery.
    ///
    /// # Source
    ///
    /// DESIGN.md section "Recovery is data": the first seven kinds each have one strategy.
    pub fn strategy(self) -> Recovery {
        match self {
            ErrorKind::NoUserAccess => Recovery::ReadThroughKernel,
            ErrorKind::CounterBusy => Recovery::RetryAfter { delay_ms: 50, attempts: 3 },
            ErrorKind::KernelPatchNeeded => Recovery::WarnAndUse(NextRung::Next),
            ErrorKind::PermissionDenied => Recovery::ReduceScope { to: Modes::USER },
            ErrorKind::ArchUnsupported => Recovery::UseBackend(NextRung::Next),
            ErrorKind::EventUnsupported | ErrorKind::UnknownEvent => {
                Recovery::OfferNearest { names: Vec::new() }
            }
            ErrorKind::HardwareLimit | ErrorKind::ConstraintConflict => Recovery::SplitIntoPasses,
            _ => Recovery::None,
        }
    }
}

/// The source to fall back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextRung {
    /// The next one in the source order.
    Next,
    /// A named source.
    Named(Rung),
}

/// The remedy of an error, as data; `Display` is the plain wording.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Recovery {
    /// No remedy beyond the message.
    None,
    /// Read the counter by a system call instead of from user space.
    ReadThroughKernel,
    /// Try again, at most `attempts` times, `delay_ms` milliseconds apart.
    RetryAfter {
        /// Delay between attempts, in ms.
        delay_ms: u32,
        /// Greatest number of attempts.
        attempts: u32,
    },
    /// Warn the user and fall back to another source.
    WarnAndUse(NextRung),
    /// Fall back to another source.
    UseBackend(NextRung),
    /// Count only the modes given; the event's label then shows them.
    ReduceScope {
        /// The modes that need no further permission.
        to: Modes,
    },
    /// Offer the nearest existing names; they are never substituted automatically.
    OfferNearest {
        /// The nearest names, best first.
        names: Vec<String>,
    },
    /// Measure the events in several passes, or let them share counters.
    SplitIntoPasses,
    /// Run a command that grants access.
    GrantAccess {
        /// The command line to run.
        command: String,
    },
    /// Change the input.
    FixInput {
        /// The change to make.
        hint: String,
    },
}

impl Recovery {
    /// Shorthand for [`Recovery::FixInput`].
    pub fn fix(hint: impl Into<String>) -> Recovery {
        Recovery::FixInput { hint: hint.into() }
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Recovery::None => Ok(()),
            Recovery::ReadThroughKernel => f.write_str("read the counter through the kernel"),
            Recovery::RetryAfter { delay_ms, attempts } => {
                write!(f, "try again in {delay_ms} ms, up to {attempts} times")
            }
            Recovery::WarnAndUse(rung) | Recovery::UseBackend(rung) => match rung {
                NextRung::Next => f.write_str("use the next source of the ladder (see `cyclometer doctor`)"),
                NextRung::Named(rung) => write!(f, "use --backend {rung}"),
            },
            Recovery::ReduceScope { to } => write!(f, "count less: append :{to} to the event"),
            Recovery::OfferNearest { names } if names.is_empty() => {
                f.write_str("`cyclometer list` shows the events of this machine")
            }
            Recovery::OfferNearest { names } => write!(f, "nearest names: {}", names.join(", ")),
            Recovery::SplitIntoPasses => {
                f.write_str("measure the events in separate runs, or outside a {group}")
            }
            Recovery::GrantAccess { command } => write!(f, "run: {command}"),
            Recovery::FixInput { hint } => f.write_str(hint),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn every_kind_of_the_seed_has_its_strategy() {
        let strategies = [
            (ErrorKind::ArchUnsupported, Recovery::UseBackend(NextRung::Next)),
            (ErrorKind::NoUserAccess, Recovery::ReadThroughKernel),
            (ErrorKind::CounterBusy, Recovery::RetryAfter { delay_ms: 50, attempts: 3 }),
            (ErrorKind::EventUnsupported, Recovery::OfferNearest { names: vec![] }),
            (ErrorKind::KernelPatchNeeded, Recovery::WarnAndUse(NextRung::Next)),
            (ErrorKind::PermissionDenied, Recovery::ReduceScope { to: Modes::USER }),
            (ErrorKind::HardwareLimit, Recovery::SplitIntoPasses),
        ];
        for (number, (kind, strategy)) in strategies.into_iter().enumerate() {
            assert_eq!(kind.number(), number as i32 + 1);
            assert_eq!(Error::new(kind, "x").recovery(), &strategy);
        }
    }

    #[test]
    fn the_chain_is_kept() {
        let error = Error::new(ErrorKind::Io, "reading f").with_source(std::io::Error::other("disk"));
        assert_eq!(error.source().unwrap().to_string(), "disk");
        assert_eq!(error.to_string(), "reading f");
    }

    #[test]
    fn recoveries_have_a_wording() {
        let near = Recovery::OfferNearest { names: vec!["cycles".into(), "ref-cycles".into()] };
        assert_eq!(near.to_string(), "nearest names: cycles, ref-cycles");
        assert_eq!(
            Recovery::ReduceScope { to: Modes::USER }.to_string(),
            "count less: append :u to the event"
        );
    }
}
