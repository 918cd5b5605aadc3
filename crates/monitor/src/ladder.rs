//! The attempts to count each event, and the fallback for each that failed.

use std::fmt;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::{ErrorKind, Recovery};

/// One step of the search for a working source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LadderStep {
    /// The event, as requested; `None` where the step concerns all of them.
    pub event: Option<String>,
    /// The attempt (`perf`, `read in user space`).
    pub tried: String,
    /// The outcome.
    pub outcome: StepOutcome,
    /// The fallback; `None` where none was necessary.
    pub done: Option<String>,
}

/// The outcome of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StepOutcome {
    /// It works.
    Works,
    /// It does not work.
    Refused {
        /// The kind of refusal, as for errors.
        kind: ErrorKind,
        /// The reason, in words.
        reason: String,
        /// The usual recovery of this kind.
        recovery: Recovery,
    },
}

impl LadderStep {
    /// A step that worked.
    pub fn works(event: Option<&str>, tried: impl Into<String>) -> LadderStep {
        let (event, tried) = (event.map(str::to_owned), tried.into());
        LadderStep { event, tried, outcome: StepOutcome::Works, done: None }
    }

    /// A step that failed, with the usual recovery of its kind.
    pub fn refused(
        event: Option<&str>,
        tried: impl Into<String>,
        (kind, reason): (ErrorKind, String),
        done: impl Into<String>,
    ) -> LadderStep {
        LadderStep {
            event: event.map(str::to_owned),
            tried: tried.into(),
            outcome: StepOutcome::Refused { kind, reason, recovery: kind.strategy() },
            done: Some(done.into()),
        }
    }

    /// Whether it worked.
    pub fn is_taken(&self) -> bool {
        self.outcome == StepOutcome::Works
    }
}

impl fmt::Display for LadderStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(event) = &self.event {
            write!(f, "{event}: ")?;
        }
        match &self.outcome {
            StepOutcome::Works => write!(f, "{}: works", self.tried)?,
            StepOutcome::Refused { reason, .. } => write!(f, "{}: {reason}", self.tried)?,
        }
        self.done.as_ref().map_or(Ok(()), |done| write!(f, "; {done}"))
    }
}

/// The kind of error that corresponds to a refusal.
pub(crate) fn kind_of(refusal: RefusalKind) -> ErrorKind {
    match refusal {
        RefusalKind::NotSupported | RefusalKind::Invalid => ErrorKind::EventUnsupported,
        RefusalKind::NoPermission => ErrorKind::PermissionDenied,
        RefusalKind::GroupTooLarge => ErrorKind::HardwareLimit,
        RefusalKind::GroupMixed => ErrorKind::ConstraintConflict,
        RefusalKind::Busy => ErrorKind::CounterBusy,
        RefusalKind::NoSuchTarget => ErrorKind::NoSuchTarget,
        RefusalKind::TargetNotSupported => ErrorKind::ArchUnsupported,
        _ => ErrorKind::Os,
    }
}
