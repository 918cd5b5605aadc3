//! Counts without a number.

use std::fmt;

use super::{LackReason, joined};
use crate::counter::CounterId;
use crate::pmu::PmuSet;
use crate::refusal::Refusal;
use crate::skipped::SkipReason;

/// Why there is no number: an event was not counted, cannot be counted, or its count was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MissingReason {
    // ------------------------------------------------------------------------------------ the plan
    /// The event has no source, and nothing more is known.
    NoSource,
    /// The machine, or the source that would serve, lacks the event.
    Lacks(LackReason),
    /// The source that would serve is not used.
    Unused(Box<SkipReason>),
    /// A command removes the cause.
    Permitted {
        /// The reason.
        reason: Box<MissingReason>,
        /// The command.
        command: String,
    },
    /// The reason is that of the software PMU, which is not the first source of the event.
    OfSoftwarePmu(Box<MissingReason>),
    /// `cyclometer run` counts the event.
    CountedByRun(Box<MissingReason>),
    /// The summands of a sum do not fit on the counters at once.
    SumTooLarge {
        /// The summands and the counters, in the words of the planner.
        summands: String,
    },
    /// The plan has no candidate for the event.
    NoCandidate,

    // ------------------------------------------------------------------------------------ the time
    /// The process did not run.
    NeverRan,
    /// Other users held the counters all the time.
    NeverOnCounter {
        /// The vendor's event, if it is one of several that are added up.
        summand: Option<String>,
    },
    /// The event was on no counter of one core type.
    NeverOnCores,
    /// The task did not run on the only core PMUs that count the event, or others held their counters.
    NeverOn(PmuSet),
    /// The reason, of an event that only these core PMUs count.
    CountedOnlyOn {
        /// The reason.
        reason: Box<MissingReason>,
        /// The core PMUs.
        only: PmuSet,
    },
    /// The rotation group of the event was never selected.
    NotScheduled {
        /// The time of the run or interval, in ns.
        time_ns: u64,
        /// Whether it is a whole run, otherwise an interval.
        is_run: bool,
        /// Number of runs that count it exactly, if more runs do.
        exact_runs: Option<u32>,
    },
    /// The rotation group could not be selected.
    NotSelected {
        /// The error.
        error: String,
    },
    /// The rotation group was selected only while the target did not run.
    ScheduledWithoutTarget,
    /// A gauge was not sampled twice.
    NotSampledTwice,
    /// The kernel read it as zero of a process that ran.
    ZeroOfProcess,
    /// The counter of a package stood still.
    ZeroOfPackage,

    // ---------------------------------------------------------------------------------- the source
    /// The source gave no value.
    NoValue,
    /// The source gave no value for one of several events that are added up.
    NoValueOf {
        /// The vendor's event.
        summand: String,
    },
    /// The source gave a value without a time.
    NoTime,
    /// The reason of one of several events that are added up.
    OfSummand {
        /// The vendor's event.
        summand: String,
        /// The reason.
        reason: Box<MissingReason>,
    },
    /// Devices have no value, each for its reason.
    Devices(Vec<DeviceLoss>),
    /// A later value is below an earlier one.
    WentBack,
    /// The PMU does not have the event.
    NotOnPmu {
        /// The PMU's name, or that of another counter.
        pmu: String,
    },
    /// A pinned event has lost its counter.
    LostPin {
        /// The event.
        event: String,
    },
    /// The counter cannot be read.
    Unreadable {
        /// The event.
        event: String,
        /// The error.
        error: String,
    },
    /// The counter could be read before, and cannot be read now.
    Gone,
    /// The target ended before it could be read.
    EndedUnread {
        /// The target, in words.
        target: String,
    },
    /// Another program has configured kperf.
    KperfTaken,
    /// A counter was read too late to see how often it wrapped.
    ReadTooLate {
        /// The counter.
        counter: CounterId,
        /// Its width.
        width_bits: u32,
    },
    /// Other software wrote a register of the counter.
    Rewritten {
        /// The register.
        register: String,
        /// Its CPU.
        cpu: u32,
        /// Our bits of it, as read.
        found: u64,
        /// The same bits, as written.
        written: u64,
    },
    /// Counters that the event is counted with were taken away.
    PartnerTaken {
        /// The error without them.
        error: String,
    },
    /// perf has begun to count with the same counters.
    PerfHasBegun,
    /// A counter may have wrapped twice between two reads.
    MayHaveWrapped,
    /// A command that is bound to one CPU left it.
    LeftCpu {
        /// The process of the command, where it is named.
        pid: Option<u32>,
        /// The CPU.
        cpu: u32,
    },
    /// A GPU's counter of energy went back.
    DriverReset,
    /// A GPU's counter of energy moves in steps, and none came.
    NoEnergyStep {
        /// The time without a step, in ms.
        ms: u64,
    },
    /// A GPU's driver was not asked while the processes ran.
    NotAsked,
    /// Code that was made at run time was not counted.
    MadeAtRunTime,
    /// The software PMU has no count of single threads.
    NoCountOfThreads,
    /// The tracer reported nothing.
    NoReport,
    /// The sum over all processes does not fit in 64 bits.
    SumTooBig,
    /// The software PMU counted less than before.
    CountsBelowEarlier,

    // ------------------------------------------------------------------------- rows of a recording
    /// The rows have more than the totals.
    RowsAboveTotals,
    /// The rows have more than the run.
    RowsAboveRun {
        /// The sum of the rows.
        rows: u64,
        /// The count of the run.
        run: u64,
    },
    /// A row has no count.
    RowWithoutCount,
    /// The recording has no row.
    NoRows,
    /// A mean is no sum of rows.
    MeanOfRows,
    /// The total is an estimate, because windows have the counters.
    EstimatedTotal,
    /// The run did not end.
    RunNotEnded,
    /// The kernel had no sums of the thread's counters yet.
    NoSumsYet,
    /// The kernel's sum became smaller.
    SumShrank,
    /// The sample has no value for the event.
    NotInSample,

    // ------------------------------------------------------------------------- regions of programs
    /// No region of the label has ended since the last reset.
    NoRegionEnded,
    /// The region is still open.
    RegionOpen,
    /// The counter of a region could not be read, or went back.
    RegionUnread,
    /// The event is sampled, and its registers count for one at a time.
    SampledAlone,
    /// The process forked within the region.
    Forked,
    /// The region lasted longer than its counters stay valid.
    RegionTooLong,
    /// The counter was not enabled since it was configured or reset.
    NotEnabled {
        /// The number of the counter in the API.
        counter: u32,
    },
    /// The region was not executed.
    NotExecuted,
    /// The region ended, and never began.
    NeverBegan,
    /// No region of the name has ended.
    NeverEnded,
    /// The outermost call never ended.
    OutermostNeverEnded,
    /// The process died while it noted the first end.
    DiedAtEnd,
    /// The event was not opened for this run.
    NotOpened,
    /// The event is accounted for whole processes only.
    OfProcesses,
    /// The event counts the whole system.
    OfSystem,
    /// The source counts no single threads.
    NoThreads,
    /// Regions have no counter left.
    TooManyCounters {
        /// The most counters of regions.
        most: usize,
    },
    /// The counter could not be read at both ends of a region.
    UnreadAtEnds,
    /// The software PMU did not run the process at both ends of a region.
    NotTranslatedAtEnds,
    /// The software PMU counts the event for whole processes.
    OfTranslatedProcesses,
    /// The bias of marking a region is unknown.
    BiasUnknown,
    /// The reason, of some of the calls of a region.
    OfCalls {
        /// The reason.
        reason: Box<MissingReason>,
        /// Number of calls without a count.
        lost: u64,
        /// Number of calls.
        calls: u64,
    },

    /// The words of the kernel, of a driver, of the tracer or of a recording.
    Reported(String),
}

impl MissingReason {
    /// Why an event has no number whose source was not used.
    pub fn unused(reason: SkipReason) -> MissingReason {
        MissingReason::Unused(Box::new(reason))
    }

    /// The reason why a source is not used, if this is the whole reason.
    pub fn unused_source(&self) -> Option<&SkipReason> {
        match self {
            MissingReason::Unused(reason) => Some(reason),
            _ => None,
        }
    }
}

impl From<&Refusal> for MissingReason {
    fn from(refusal: &Refusal) -> MissingReason {
        MissingReason::unused(refusal.into())
    }
}

impl From<String> for MissingReason {
    fn from(text: String) -> MissingReason {
        MissingReason::Reported(text)
    }
}

impl From<&str> for MissingReason {
    fn from(text: &str) -> MissingReason {
        MissingReason::Reported(text.to_owned())
    }
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MissingReason as M;
        f.write_str(match self {
            M::NoSource => "no source counts it",
            M::NoCandidate => "the plan names no way to count it",
            M::NeverRan => "the process never ran while counting",
            M::NeverOnCores => "never ran on a counter of these cores",
            M::ScheduledWithoutTarget => "scheduled only while the target did not run",
            M::NotSampledTwice => "it was not sampled twice in this time",
            M::ZeroOfProcess => "reads zero although the process ran: the counter did not count",
            M::ZeroOfPackage => "reads zero: the counter does not count here; a hypervisor may hide it",
            M::NoValue => "the source gave no value for it",
            M::NoTime => "the source gave a value without a time",
            M::WentBack => "the value went back",
            M::Gone => "the counter cannot be read any more",
            M::KperfTaken => "another program has configured kperf meanwhile",
            M::PerfHasBegun => "perf has begun to count meanwhile, with the same counters",
            M::MayHaveWrapped => "its counter may have wrapped twice between two reads",
            M::DriverReset => "its energy counter went back: the driver was reset",
            M::NotAsked => "the driver was not asked while the processes ran: they ended too soon",
            M::MadeAtRunTime => "a part of it, made at run time, was not counted",
            M::NoCountOfThreads => "the software PMU has no per-thread count of this event",
            M::NoReport => "the tracer reported nothing",
            M::SumTooBig => "the sum does not fit in 64 bits",
            M::CountsBelowEarlier => "counts in the end were below earlier ones",
            M::RowsAboveTotals => "the rows have more than the totals",
            M::RowWithoutCount => "a row has no count",
            M::NoRows => "the recording has no row",
            M::MeanOfRows => "a mean is no sum of rows",
            M::EstimatedTotal => "the total is an estimate, as windows have the counters",
            M::RunNotEnded => "the run did not end",
            M::NoSumsYet => "the kernel had no sums of this thread's counters yet",
            M::SumShrank => "the kernel's sum became smaller",
            M::NotInSample => "the sample has no value for it",
            M::NoRegionEnded => "no region of this label has ended since the last reset",
            M::RegionOpen => "its region is still open, and counts when it ends",
            M::RegionUnread => "the counter could not be read, or went backwards",
            M::SampledAlone => "it is sampled, and registers that we program count for one at a time",
            M::Forked => "the process forked within the region: the counters stayed with the parent",
            M::RegionTooLong => {
                "the region lasted longer than its counters stay valid (limit for registers: \
                 max_monitor_duration_us)"
            }
            M::NotExecuted => "the region was not executed in this run",
            M::NeverBegan => "it ended in this run, but never began",
            M::NeverEnded => "no region of that name has ended",
            M::OutermostNeverEnded => "the outermost call never ended",
            M::DiedAtEnd => "the process died while it noted the first end",
            M::NotOpened => "it was not opened for this run",
            M::OfProcesses => "the system accounts it for whole processes",
            M::OfSystem => "it counts the whole system, and no threads",
            M::NoThreads => "this source counts no single threads",
            M::UnreadAtEnds => "the counter could not be read at both ends",
            M::NotTranslatedAtEnds => "the software PMU did not run the process at both ends",
            M::OfTranslatedProcesses => "the software PMU counts it for whole processes",
            M::BiasUnknown => "what marking the region adds to it is not known",
            M::Reported(text) => text,
            other => return other.with_data(f),
        })
    }
}

impl MissingReason {
    /// The words of the reasons that have data.
    fn with_data(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use MissingReason as M;
        match self {
            M::Lacks(reason) => write!(f, "{reason}"),
            M::Unused(reason) => write!(f, "{reason}"),
            M::Permitted { reason, command } => write!(f, "{reason}; to permit it: {command}"),
            M::OfSoftwarePmu(reason) => write!(f, "the software PMU cannot count it: {reason}"),
            M::CountedByRun(reason) => write!(f, "{reason}; `cyclometer run -- PROGRAM` counts it"),
            M::SumTooLarge { summands } => write!(f, "{summands}; count them one by one"),
            M::NeverOnCounter { summand } => {
                write!(f, "{}: all were in use by others", NeverOnCounter(summand.as_deref()))
            }
            M::NeverOn(only) => write!(
                f,
                "never on a counter: it did not run on {only}, or all counters there were in use by others"
            ),
            M::CountedOnlyOn { reason, only } => write!(f, "{reason}; only {only} can count it"),
            M::NotScheduled { time_ns, is_run, exact_runs } => {
                let of = if *is_run { "run" } else { "interval" };
                write!(f, "not scheduled during the {} {of}", ShortTime(*time_ns))?;
                exact_runs.map_or(Ok(()), |runs| write!(f, "; -r {runs} counts it exactly"))
            }
            M::NotSelected { error } => write!(f, "its rotation group could not be selected: {error}"),
            M::NoValueOf { summand } => write!(f, "the source gave no value for {summand}"),
            M::OfSummand { summand, reason } => write!(f, "{summand}: {reason}"),
            M::Devices(losses) => devices(losses, f),
            M::NotOnPmu { pmu } => write!(f, "{pmu} does not have the event"),
            M::LostPin { event } => write!(f, "{event}: the pinned event did not get or keep a counter"),
            M::Unreadable { event, error } => write!(f, "{event}: the counter cannot be read: {error}"),
            M::EndedUnread { target } => write!(f, "{target} ended before it could be read"),
            M::ReadTooLate { counter, width_bits } => write!(
                f,
                "counter {counter} has {width_bits} bits and was read too late to see how often it wrapped"
            ),
            M::Rewritten { register, cpu, found, written } => write!(
                f,
                "something else wrote {register} of CPU {cpu} meanwhile: {found:#x} instead of {written:#x}"
            ),
            M::PartnerTaken { error } => write!(f, "what it is counted with was taken away: {error}"),
            M::LeftCpu { pid: Some(pid), cpu } => {
                write!(f, "the command {pid}, or a thread of it, left CPU {cpu}")
            }
            M::LeftCpu { pid: None, cpu } => {
                write!(f, "the command, or a thread of it, left CPU {cpu}, to which it was bound")
            }
            M::NoEnergyStep { ms } => {
                write!(f, "its energy counter did not move in {ms} ms: it moves in steps")
            }
            M::RowsAboveRun { rows, run } => write!(f, "the rows have {rows}, and the run has {run}"),
            M::NotEnabled { counter } => {
                write!(f, "counter {counter} was not enabled since it was configured or reset")
            }
            M::TooManyCounters { most } => write!(f, "regions are counted with {most} counters at most"),
            M::OfCalls { reason, lost, calls } => write!(f, "{reason} ({lost} of {calls} calls)"),
            without_data => unreachable!("{without_data:?} has its words above"),
        }
    }
}

/// An event, or one of several that are added up, that was on no counter.
pub(super) struct NeverOnCounter<'a>(pub(super) Option<&'a str>);

impl fmt::Display for NeverOnCounter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |summand| write!(f, "{summand} "))?;
        f.write_str("never reached a counter")
    }
}

/// A device without a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceLoss {
    /// The device.
    pub device: String,
    /// The reason.
    pub reason: MissingReason,
}

/// The devices with their reasons; a reason that all share stands once.
fn devices(losses: &[DeviceLoss], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(first) = losses.first() else { return Ok(()) };
    if losses.iter().all(|loss| loss.reason == first.reason) {
        let names: Vec<&str> = losses.iter().map(|loss| loss.device.as_str()).collect();
        return write!(f, "{}: {}", names.join(", "), first.reason);
    }
    f.write_str(&joined(losses, "; "))
}

impl fmt::Display for DeviceLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.device, self.reason)
    }
}

/// A time in ns, in a unit in which it is short.
struct ShortTime(u64);

impl fmt::Display for ShortTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns @ 0..1_000_000 => write!(f, "{} µs", ns / 1_000),
            ns @ 1_000_000..10_000_000_000 => write!(f, "{} ms", ns / 1_000_000),
            ns => write!(f, "{} s", ns / 1_000_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::{Cause, CauseKind, Rung};
    use crate::refusal::RefusalKind;

    #[test]
    fn a_remedy_and_a_source_stand_around_the_reason() {
        let cause = Cause::new(CauseKind::NoPermission, "kernel.perf_event_paranoid is 3");
        let unused = MissingReason::unused(SkipReason::Unavailable(cause.clone()));
        assert_eq!(unused.unused_source(), Some(&SkipReason::Unavailable(cause)));
        let permitted = MissingReason::Permitted { reason: Box::new(unused), command: "sudo x".to_owned() };
        assert_eq!(permitted.unused_source(), None, "the remedy is more than the reason");
        let all = MissingReason::CountedByRun(Box::new(MissingReason::OfSoftwarePmu(Box::new(permitted))));
        assert_eq!(
            all.to_string(),
            "the software PMU cannot count it: kernel.perf_event_paranoid is 3; to permit it: sudo x; \
             `cyclometer run -- PROGRAM` counts it"
        );
    }

    #[test]
    fn a_refusal_is_the_reason_in_its_own_words() {
        let refusal = Refusal::of_target(RefusalKind::Busy, "EBUSY: the PMU");
        assert_eq!(MissingReason::from(&refusal).to_string(), "EBUSY: the PMU");
        let reason = MissingReason::Lacks(LackReason::NotOfSource(Rung::Msr));
        assert_eq!(reason.to_string(), "the requested source 'msr' does not count it");
    }

    #[test]
    fn times_are_short() {
        let text = |time_ns, is_run, exact_runs| {
            MissingReason::NotScheduled { time_ns, is_run, exact_runs }.to_string()
        };
        assert_eq!(text(999_999, true, None), "not scheduled during the 999 µs run");
        assert_eq!(text(10_000_000, false, None), "not scheduled during the 10 ms interval");
        assert_eq!(
            text(10_000_000_000, true, Some(3)),
            "not scheduled during the 10 s run; -r 3 counts it exactly"
        );
    }

    #[test]
    fn devices_share_a_reason_or_have_their_own() {
        let loss = |device: &str, reason| DeviceLoss { device: device.to_owned(), reason };
        let text = |losses| MissingReason::Devices(losses).to_string();
        let same = vec![loss("nvidia0", "no answer".into()), loss("nvidia1", "no answer".into())];
        assert_eq!(text(same), "nvidia0, nvidia1: no answer");
        let differ = vec![loss("nvidia0", MissingReason::NotAsked), loss("nvidia1", "gone".into())];
        assert!(text(differ).ends_with("they ended too soon; nvidia1: gone"));
    }

    #[test]
    fn every_reason_without_data_has_words() {
        for reason in [MissingReason::NoSource, MissingReason::Gone, MissingReason::BiasUnknown] {
            assert!(!reason.to_string().is_empty());
        }
        let summand = Some("A".to_owned());
        assert_eq!(
            MissingReason::NeverOnCounter { summand }.to_string(),
            "A never reached a counter: all were in use by others"
        );
    }
}
