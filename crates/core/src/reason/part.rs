//! Counts of a part.

use std::fmt;

use super::missing::NeverOnCounter;
use super::{MissingReason, joined};
use crate::gpu::DeviceTotal;
use crate::pmu::PmuSet;
use crate::scope::Scope;

/// Share of the cases, 0 to 1, in which a true count is within the interval of its estimate.
pub const CONFIDENCE: f64 = 0.95;

/// The part of the requested events that a count has, or the others that it has too.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PartReason {
    /// Several of these at once.
    All(Vec<PartReason>),
    /// An estimate of the whole from a part of the time.
    Observed(ObservedTime),
    /// The count lacks CPUs or threads.
    Without {
        /// The first of them.
        instances: Vec<MissingInstance>,
        /// Number of others.
        more: usize,
    },
    /// Only these core PMUs count the event.
    OnOnly(PmuSet),
    /// Only these core PMUs count the event, and the count was not extrapolated to the time on others.
    NotScaled {
        /// The core PMUs.
        only: PmuSet,
        /// The observed part of the time, if it is known.
        observed: Option<ObservedTime>,
    },
    /// The part on one PMU, whose times are not those of the whole.
    WhileOn {
        /// The PMU.
        pmu: String,
    },
    /// The scope is wider than requested.
    Whole {
        /// The scope.
        scope: Scope,
        /// The part of it that was counted, if it is one.
        part: Option<Box<PartReason>>,
    },
    /// A value of several devices.
    OfDevices {
        /// How their values became one.
        total: DeviceTotal,
        /// Number of devices.
        devices: usize,
    },
    /// The reason of [`MissingReason::Devices`]: a value lacks these devices.
    WithoutDevices(MissingReason),
    /// A sum whose summands may not have counters, which nobody reports.
    FewerCounters {
        /// Number of events that are added up.
        summands: usize,
    },
    /// Times have the steps of the kernel's clock.
    InSteps {
        /// Ticks in a second.
        per_second: u64,
    },
    /// Children are not among the counts of their parent.
    WithoutChildren,
    /// The target was read for the last time before it ended.
    ReadBeforeEnd {
        /// The time between, in ms.
        ms: u128,
    },
    /// Some of several targets were read for the last time before they ended.
    SomeReadBeforeEnd {
        /// Their number.
        ended: usize,
        /// Number of all targets.
        targets: usize,
        /// The longest time between, in ms.
        ms: u128,
    },
    /// A value less than the launch of a command had cost.
    BelowLaunch,
    /// A gauge was sampled over the time.
    Sampled,
    /// A gauge was sampled, with its range and the reasons of a device that slows down.
    SampledRange {
        /// The device.
        device: String,
        /// Number of samples.
        samples: u64,
        /// The least and the greatest value with their unit, or one if they are the same.
        range: String,
        /// The reasons of the device, by name.
        causes: Vec<&'static str>,
    },
    /// Energy was added up from samples of power.
    FromPower {
        /// The device.
        device: String,
        /// Number of samples.
        samples: u64,
    },
    /// A counter of energy moves in steps.
    EnergyInSteps {
        /// The device.
        device: String,
    },
    /// Threads started while counters were being opened, and may be missing.
    NewThreads(usize),
    /// The kernel stopped the counter for a while.
    Throttled,
    /// kperf counts CPUs, and everything on them.
    WholeMac,
    /// Everything that ran on a CPU, to which the command was bound.
    BoundTo {
        /// The CPU.
        cpu: u32,
    },
    /// Some of the regions have no count.
    WithoutRegions {
        /// Number of regions without a count.
        lost: u64,
        /// Number of regions.
        regions: u64,
        /// The reason.
        reason: MissingReason,
    },
    /// A peak is that of the time before the region too.
    PeakUntilThen,
    /// The process died while it noted an end.
    DiedAtEnd,
    /// Marks within the region do not match.
    MarksDiffer,
    /// Some of the calls were counted.
    Calls {
        /// Number of calls that were counted.
        counted: u64,
        /// Number of calls.
        begun: u64,
    },
    /// Some of the times have no count.
    WithoutSome(MissingReason),
    /// The rows before the early end of a recording.
    BeforeEarlyEnd,
    /// The words of a source, of the tracer or of a recording.
    Reported(String),
}

impl PartReason {
    /// All of these; `None` for none, and one alone is itself.
    pub fn all(reasons: impl IntoIterator<Item = PartReason>) -> Option<PartReason> {
        let mut all: Vec<PartReason> = reasons.into_iter().collect();
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(PartReason::All(all)),
        }
    }
}

impl From<String> for PartReason {
    fn from(text: String) -> PartReason {
        PartReason::Reported(text)
    }
}

impl From<&str> for PartReason {
    fn from(text: &str) -> PartReason {
        PartReason::Reported(text.to_owned())
    }
}

impl fmt::Display for PartReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PartReason as P;
        match self {
            P::All(reasons) => f.write_str(&joined(reasons, "; ")),
            P::Observed(observed) => write!(f, "{observed}"),
            P::Without { instances, more } => {
                write!(f, "without {}", joined(instances, ", "))?;
                if *more > 0 { write!(f, " and {more} more") } else { Ok(()) }
            }
            P::OnOnly(only) => write!(f, "on {only} only"),
            P::NotScaled { only, observed } => {
                write!(f, "on {only} only, not scaled")?;
                observed.as_ref().map_or(Ok(()), |observed| write!(f, ", {observed}"))
            }
            P::WhileOn { pmu } => write!(f, "while on a counter of {pmu}, not scaled"),
            P::Whole { scope, part } => {
                write!(f, "whole {scope}")?;
                part.as_ref().map_or(Ok(()), |part| write!(f, ", {part}"))
            }
            P::OfDevices { total, devices } => write!(f, "{} of {devices} devices", total.word()),
            P::WithoutDevices(losses) => write!(f, "without {losses}"),
            P::FewerCounters { summands } => write!(
                f,
                "a sum of {summands} events: it is too small where the CPU has fewer than {summands} \
                 counters for them, which only the firmware knows"
            ),
            P::InSteps { per_second } => match 1_000_000_000 / (*per_second).max(1) {
                ns if ns % 1_000_000 == 0 => write!(f, "in steps of {} ms", ns / 1_000_000),
                ns => write!(f, "in steps of {} µs", ns / 1000),
            },
            P::WithoutChildren => f.write_str("the process itself, without its children"),
            P::ReadBeforeEnd { ms } => write!(f, "read {ms} ms before it ended"),
            P::SomeReadBeforeEnd { ended: 1, targets, ms } => {
                write!(f, "1 of {targets} was read {ms} ms before it ended")
            }
            P::SomeReadBeforeEnd { ended, targets, ms } => {
                write!(f, "{ended} of {targets} were read up to {ms} ms before they ended")
            }
            P::BelowLaunch => f.write_str("less than the launch had cost"),
            P::Sampled => f.write_str("sampled"),
            P::SampledRange { device, samples, range, causes } => {
                let by =
                    if causes.is_empty() { String::new() } else { format!(", by {}", causes.join(", ")) };
                write!(f, "{device} sampled {samples} times, {range}{by}")
            }
            P::FromPower { device, samples } => {
                write!(f, "{device} added up from power, sampled {samples} times")
            }
            P::EnergyInSteps { device } => write!(f, "{device} counts energy in steps of up to 100 ms"),
            P::NewThreads(1) => {
                f.write_str("1 thread started while the counters were being opened: it may be missing")
            }
            P::NewThreads(threads) => write!(
                f,
                "{threads} threads started while the counters were being opened: they may be missing"
            ),
            P::Throttled => {
                f.write_str("the kernel stopped the counter for a while, as it interrupted too often")
            }
            P::WholeMac => {
                f.write_str("everything that ran on this Mac meanwhile: kperf counts CPUs, not processes")
            }
            P::BoundTo { cpu } => write!(f, "everything on CPU {cpu}, to which the command was bound"),
            P::WithoutRegions { lost, regions, reason } => {
                write!(f, "without {lost} of {regions} regions: {reason}")
            }
            P::PeakUntilThen => f.write_str("the peak until then, not of the region alone"),
            P::DiedAtEnd => {
                f.write_str("the process died while it noted an end: that call may be counted in part")
            }
            P::MarksDiffer => {
                f.write_str("marks inside do not match, so that a few instructions of them may be in it")
            }
            P::Calls { counted, begun } => write!(f, "of {counted} of {begun} calls"),
            P::WithoutSome(reason) => write!(f, "without some: {reason}"),
            P::BeforeEarlyEnd => f.write_str("the rows before the early end of the recording"),
            P::Reported(text) => f.write_str(text),
        }
    }
}

/// The part of the time in which an event was on a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObservedTime {
    /// Time that the event was enabled, in ns.
    pub time_enabled_ns: u64,
    /// Time that it was on a counter, in ns.
    pub time_running_ns: u64,
    /// Whether few moments have most of the count, so that an interval may be too narrow.
    pub concentrated: bool,
    /// Half the width of the estimate's interval, in events, where it is shown here.
    pub half_width: Option<u64>,
}

impl ObservedTime {
    /// The share of the time, 0 to 1.
    pub fn share(&self) -> f64 {
        self.time_running_ns as f64 / self.time_enabled_ns.max(1) as f64
    }
}

impl fmt::Display for ObservedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.share() {
            share if share < 0.01 => write!(f, "observed {:.2} % of the time", 100.0 * share)?,
            share => write!(f, "observed {:.0} % of the time", 100.0 * share)?,
        }
        if self.concentrated {
            f.write_str("; most of it in few moments: the interval may be too narrow")?;
        }
        let shown = |half: u64| write!(f, ", ± {half} ({:.0} %)", 100.0 * CONFIDENCE);
        self.half_width.map_or(Ok(()), shown)
    }
}

/// A CPU or thread that is not in a count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingInstance {
    /// The CPU; `None` where the count is not by CPU.
    pub cpu: Option<u32>,
    /// The thread; `None` where the count is not by thread.
    pub tid: Option<u32>,
    /// The reason.
    pub reason: InstanceReason,
}

/// Why a CPU or thread is not in a count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InstanceReason {
    /// The event was enabled, and on no counter there; with the vendor's event, if it is one of several that
    /// are added up.
    NeverOnCounter(Option<String>),
    /// The value must not be used.
    Lost(MissingReason),
}

impl fmt::Display for MissingInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cpu, self.tid) {
            (Some(cpu), Some(tid)) => write!(f, "thread {tid} on cpu {cpu}")?,
            (Some(cpu), None) => write!(f, "cpu {cpu}")?,
            (None, Some(tid)) => write!(f, "thread {tid}")?,
            (None, None) => f.write_str("the target")?,
        }
        match &self.reason {
            InstanceReason::NeverOnCounter(summand) => write!(f, " ({})", NeverOnCounter(summand.as_deref())),
            InstanceReason::Lost(reason) => write!(f, " ({reason})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(half_width: Option<u64>) -> ObservedTime {
        ObservedTime { time_enabled_ns: 1000, time_running_ns: 240, concentrated: false, half_width }
    }

    #[test]
    fn several_reasons_are_told_in_their_order() {
        let all = [PartReason::WithoutChildren, PartReason::Observed(observed(Some(7)))];
        assert_eq!(
            PartReason::all(all.clone()).unwrap().to_string(),
            "the process itself, without its children; observed 24 % of the time, ± 7 (95 %)"
        );
        assert_eq!(PartReason::all(all.into_iter().take(1)), Some(PartReason::WithoutChildren));
        assert_eq!(PartReason::all([]), None);
    }

    #[test]
    fn a_wider_scope_keeps_the_part_that_was_counted() {
        let whole = |part| PartReason::Whole { scope: Scope::Package, part }.to_string();
        assert_eq!(whole(None), "whole package");
        let part = PartReason::Observed(observed(None));
        assert_eq!(whole(Some(Box::new(part))), "whole package, observed 24 % of the time");
    }

    #[test]
    fn missing_instances_are_named_with_their_reasons() {
        let never = InstanceReason::NeverOnCounter(Some("B".to_owned()));
        let instances = vec![
            MissingInstance { cpu: None, tid: Some(2), reason: never },
            MissingInstance { cpu: Some(3), tid: Some(1), reason: InstanceReason::Lost("gone".into()) },
        ];
        assert_eq!(
            PartReason::Without { instances, more: 2 }.to_string(),
            "without thread 2 (B never reached a counter), thread 1 on cpu 3 (gone) and 2 more"
        );
    }

    #[test]
    fn a_small_share_has_decimals() {
        let few = ObservedTime { time_running_ns: 4, ..observed(None) };
        assert_eq!(few.to_string(), "observed 0.40 % of the time");
        let moments = ObservedTime { concentrated: true, ..observed(None) };
        assert!(moments.to_string().ends_with("; most of it in few moments: the interval may be too narrow"));
    }
}
