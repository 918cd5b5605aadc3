//! Sources that are not used for an event, each with the reason. Reasons are put into words here alone.

use std::fmt;
use std::time::Duration;

use crate::counter::CounterMask;
use crate::ladder::{Cause, CauseKind, Rung, Works};
use crate::reason::RefusalReason;
use crate::refusal::{Refusal, RefusalKind};

/// A source that is not used for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Skipped {
    /// The source.
    pub rung: Rung,
    /// The reason.
    pub reason: SkipReason,
}

impl Skipped {
    /// The source's refusal to open the event; `None` when the source was not asked.
    pub fn refusal(&self) -> Option<RefusalKind> {
        match &self.reason {
            SkipReason::Refused { kind, .. } => Some(*kind),
            _ => None,
        }
    }

    /// Why the source does not work here; `None` where it does, or was not looked at.
    pub fn unavailable(&self) -> Option<&Cause> {
        match &self.reason {
            SkipReason::Unavailable(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether the source belongs to another operating system or architecture.
    pub fn is_of_other_system(&self) -> bool {
        self.unavailable().is_some_and(|cause| cause.kind == CauseKind::OtherSystem)
    }
}

/// Why a source is not used for an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// The source was asked, and refused to open the event.
    Refused {
        /// The kind of refusal.
        kind: RefusalKind,
        /// The reason of the source.
        reason: Box<RefusalReason>,
    },
    /// The source does not work on this machine, or not for this class of events.
    Unavailable(Cause),
    /// The source does not work on this machine, and the cause is unknown.
    DoesNotWork(Works),
    /// The machine has no such source.
    NoSuchSource(Rung),
    /// The source programs registers, which it does on request only.
    RegistersOnRequest(Rung),
    /// The software PMU translates a single run on request only.
    TranslationOnRequest,
    /// The software PMU would count the event, if it had started this program.
    NotStartedBySource,
    /// The software PMU cannot be read as often as requested.
    IntervalTooShort {
        /// The shortest interval.
        shortest: Duration,
    },
    /// The software PMU counts nothing that runs already.
    StartsCommands,
    /// The software PMU does not count the modes of the event.
    SeesUserMode,
    /// The software PMU does not count guests.
    SeesNoGuests,
    /// The runs that the software PMU translates are over.
    TranslatedRunsOver,
    /// kperf counts whole CPUs, and another source counts the command alone.
    CountsWholeCpus,
    /// No counter that may count the event is free.
    NoFreeCounter {
        /// The counters that may count it.
        counters: CounterMask,
        /// Their PMU.
        pmu: String,
    },
}

impl From<&Refusal> for SkipReason {
    fn from(refusal: &Refusal) -> SkipReason {
        SkipReason::Refused { kind: refusal.kind, reason: Box::new(refusal.reason.clone()) }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::Refused { reason, .. } => reason.fmt(f),
            SkipReason::Unavailable(cause) => f.write_str(&cause.text),
            SkipReason::DoesNotWork(works) => f.write_str(works.word()),
            SkipReason::NoSuchSource(rung) => write!(f, "there is no source {rung} here"),
            SkipReason::RegistersOnRequest(rung) => {
                write!(f, "registers are programmed only with --backend {rung}")
            }
            SkipReason::TranslationOnRequest => {
                f.write_str("a single run is not translated unless an event is asked for by name")
            }
            SkipReason::NotStartedBySource => {
                f.write_str("the software PMU counts regions of programs that it runs")
            }
            SkipReason::IntervalTooShort { shortest } => {
                write!(f, "the software PMU is read every {} ms at most", shortest.as_millis())
            }
            SkipReason::StartsCommands => f.write_str("the software PMU counts commands that it starts"),
            SkipReason::SeesUserMode => f.write_str("the software PMU sees user mode only"),
            SkipReason::SeesNoGuests => f.write_str("the software PMU sees no guests"),
            SkipReason::TranslatedRunsOver => f.write_str("the runs under the software PMU are over"),
            SkipReason::CountsWholeCpus => f.write_str("kperf counts whole CPUs, not the command alone"),
            SkipReason::NoFreeCounter { counters, pmu } => {
                write!(f, "it can only use {}, which {pmu} does not have free", counters.in_words())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(reason: SkipReason) -> Skipped {
        Skipped { rung: Rung::Perf, reason }
    }

    #[test]
    fn a_refusal_keeps_its_kind_and_its_words() {
        let refusal = Refusal { slot: None, kind: RefusalKind::Busy, reason: "EBUSY: the PMU".into() };
        let skipped = skipped(SkipReason::from(&refusal));
        assert_eq!(skipped.refusal(), Some(RefusalKind::Busy));
        assert_eq!((skipped.reason.to_string().as_str(), skipped.unavailable()), ("EBUSY: the PMU", None));
    }

    #[test]
    fn the_kind_of_a_cause_decides_and_its_text_does_not() {
        let of = |kind| skipped(SkipReason::Unavailable(Cause::new(kind, "perf belongs to Linux")));
        assert!(of(CauseKind::OtherSystem).is_of_other_system());
        assert!(!of(CauseKind::NoPmu).is_of_other_system());
        assert_eq!(of(CauseKind::NoPmu).reason.to_string(), "perf belongs to Linux");
        assert_eq!(of(CauseKind::NoPmu).refusal(), None);
    }

    #[test]
    fn numbers_and_names_are_in_the_words() {
        let (counters, pmu) = (CounterMask::first(1, 0), "cpu".to_owned());
        for (reason, expected) in [
            (SkipReason::RegistersOnRequest(Rung::Msr), "registers are programmed only with --backend msr"),
            (
                SkipReason::IntervalTooShort { shortest: Duration::from_millis(10) },
                "the software PMU is read every 10 ms at most",
            ),
            (
                SkipReason::NoFreeCounter { counters, pmu },
                "it can only use counter 0, which cpu does not have free",
            ),
        ] {
            assert_eq!(reason.to_string(), expected);
        }
    }
}
