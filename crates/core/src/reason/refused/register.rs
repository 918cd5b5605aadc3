//! Refusals of the register driver.

use std::fmt;

use crate::counter::CounterMask;
use crate::ladder::Rung;

/// Why registers are not programmed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RegisterRefusal {
    /// The source counts CPUs only.
    CountsCpus(Rung),
    /// Other software uses counters of a CPU.
    InUse {
        /// The CPU.
        cpu: u32,
        /// The counters.
        counters: CounterMask,
    },
    /// The registers of a CPU are not known.
    UnknownCpu(u32),
    /// The plan gives the event no counter.
    NoCounter {
        /// The event.
        event: String,
        /// Its PMU.
        pmu: String,
    },
    /// The registers cannot be programmed for an event, alone or beside others.
    NotEncoded {
        /// The event; `None` for an empty set of events.
        event: Option<String>,
        /// Its PMU.
        pmu: String,
        /// The encoder's error.
        error: String,
    },

    // ------------------------------------------------------------------------------------- windows
    /// The events do not fit on the counters at once.
    WindowsDoNotRotate,
    /// Windows on counters end at events.
    WindowsByTime,
    /// The PMU does not count the event at which windows are to end.
    LeaderNotCounted {
        /// The event.
        event: String,
        /// The PMU.
        pmu: String,
    },
    /// The event at which windows are to end is a sum.
    LeaderIsSum {
        /// The event.
        event: String,
        /// Number of events that are added up.
        summands: usize,
        /// The PMU.
        pmu: String,
    },
    /// The counters cannot be set up for windows of these events.
    WindowsNotEncoded {
        /// The events.
        events: Vec<String>,
        /// The encoder's error.
        error: String,
    },
    /// The interrupts of counters are not delivered.
    NoInterrupts {
        /// The reason of the bus.
        reason: String,
    },
}

impl fmt::Display for RegisterRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RegisterRefusal as R;
        match self {
            R::CountsCpus(rung) => write!(
                f,
                "the source '{rung}' counts CPUs: use -a, -C, or a command, which is then bound to one CPU"
            ),
            R::InUse { cpu, counters } => {
                let (noun, verb) = if counters.len() == 1 { ("counter", "is") } else { ("counters", "are") };
                write!(f, "{noun} {counters} of CPU {cpu} {verb} in use by other software")
            }
            R::UnknownCpu(cpu) => write!(f, "the registers of CPU {cpu} are not known"),
            R::NoCounter { event, pmu } => write!(f, "{event} has no counter of {pmu}"),
            R::NotEncoded { event: Some(event), pmu, error } => write!(f, "{event} on {pmu}: {error}"),
            R::NotEncoded { event: None, pmu, error } => write!(f, "{pmu}: {error}"),
            R::WindowsDoNotRotate => f.write_str(
                "the events do not fit on the counters at once, and events that share counters in time have no \
                 windows: name fewer events",
            ),
            R::WindowsByTime => {
                f.write_str("windows on counters end at events; rows for lengths of time are made of readings")
            }
            R::LeaderNotCounted { event, pmu } => {
                write!(f, "windows cannot end at {event}, which {pmu} does not count")
            }
            R::LeaderIsSum { event, summands, pmu } => {
                write!(f, "windows cannot end at {event}, which is a sum of {summands} events of {pmu}")
            }
            R::WindowsNotEncoded { events, error } => {
                write!(f, "windows of {}: {error}", events.join(" and "))
            }
            R::NoInterrupts { reason } => {
                write!(f, "windows by events need the interrupts of counters: {reason}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_in_use_are_named_with_their_cpu() {
        let in_use = |counters| RegisterRefusal::InUse { cpu: 3, counters }.to_string();
        assert_eq!(in_use(CounterMask::first(1, 0)), "counter 0 of CPU 3 is in use by other software");
        assert!(
            in_use(CounterMask::first(2, 0)).starts_with("counters "),
            "{}",
            in_use(CounterMask::first(2, 0))
        );
    }
}
