//! Refusals of kperf, the counters of macOS.

use std::fmt;

/// Why kperf does not count or sample events.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KperfRefusal {
    /// A call failed.
    Call {
        /// The function of the framework.
        call: String,
        /// The answer.
        obstacle: KperfObstacle,
    },
    /// A step of sampling failed.
    Sampling {
        /// The step, as the object of `cannot`.
        step: String,
        /// The answer.
        obstacle: KperfObstacle,
    },
    /// The framework has a number of counters that no known layout has.
    UnknownLayout {
        /// Number of configurable counters.
        counters: usize,
    },
    /// The kernel does not allow a selector.
    Selector {
        /// The event.
        event: String,
        /// The selector.
        selector: u64,
    },
    /// The plan gives the event no counter.
    NoCounter {
        /// The event.
        event: String,
    },
    /// The event's PMU is not on this machine.
    OtherPmu {
        /// The event.
        event: String,
        /// The PMU.
        pmu: String,
    },
    /// The power manager has the counter.
    PowerManager {
        /// The event.
        event: String,
        /// The counter.
        counter: String,
    },
    /// The event has no configuration word.
    NotEncoded {
        /// The event.
        event: String,
        /// The encoder's error.
        error: String,
    },
    /// kperf counts CPUs, and the target is a running process.
    RunningProcess,
    /// Windows are recorded of one process only.
    WindowsOfOneProcess,
    /// Windows end at one event, or at the timer.
    WindowsOfOneBoundary,
    /// A window has one counter for each event.
    SeveralCounters {
        /// The event.
        event: String,
    },
    /// Windows do not rotate events.
    NoRotation,
    /// The functions for sampling cannot be opened.
    NoTools {
        /// The dynamic linker's words.
        error: String,
    },
}

/// Why a call of kperf, or of the kernel's trace, failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KperfObstacle {
    /// The call is for root.
    NotRoot,
    /// Another program has requested all counters.
    CountersTaken,
    /// Another program has the PMU, or traces the system.
    PmuTaken,
    /// This program counts other events.
    OwnConfiguration,
    /// The process does not exist.
    NoSuchProcess,
    /// Another answer, in the system's words.
    Reported(String),
}

impl KperfObstacle {
    fn of_call(&self) -> &str {
        match self {
            KperfObstacle::NotRoot => "kperf counts for root only: use sudo",
            KperfObstacle::CountersTaken => "another program has requested all counters: quit it",
            KperfObstacle::PmuTaken => "another program has the PMU, such as Instruments or ktrace: quit it",
            KperfObstacle::OwnConfiguration => {
                "kperf has one configuration, and this program counts other events by it"
            }
            KperfObstacle::NoSuchProcess => "there is no such process",
            KperfObstacle::Reported(text) => text,
        }
    }

    fn of_sampling(&self) -> &str {
        match self {
            KperfObstacle::NotRoot => "kperf needs root: sudo cyclometer …",
            KperfObstacle::CountersTaken => "another program has all counters",
            KperfObstacle::PmuTaken => {
                "another program traces the system or has the PMU (Instruments, ktrace): end it first"
            }
            other => other.of_call(),
        }
    }
}

impl fmt::Display for KperfRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use KperfRefusal as K;
        match self {
            K::Call { obstacle: obstacle @ KperfObstacle::OwnConfiguration, .. } => {
                f.write_str(obstacle.of_call())
            }
            K::Call { call, obstacle } => write!(f, "{call}: {}", obstacle.of_call()),
            K::Sampling { step, obstacle } => write!(f, "cannot {step}: {}", obstacle.of_sampling()),
            K::UnknownLayout { counters } => {
                write!(f, "kperf offers {counters} configurable counters, and no layout of so many is known")
            }
            K::Selector { event, selector } => {
                write!(f, "{event}: this version of macOS does not allow the event {selector:#x}")
            }
            K::NoCounter { event } => write!(f, "{event}: it has no counter"),
            K::OtherPmu { event, pmu } => write!(f, "{event}: {pmu} is no PMU of this machine"),
            K::PowerManager { event, counter } => write!(f, "{event}: {counter} stays with the power manager"),
            K::NotEncoded { event, error } => write!(f, "{event}: {error}"),
            K::RunningProcess => f.write_str(
                "kperf counts CPUs, not running processes: use -a, or name a command; `record -p PID --backend kperf` \
                 has rows of a process",
            ),
            K::WindowsOfOneProcess => f.write_str("kperf records the threads of one process"),
            K::WindowsOfOneBoundary => f.write_str("kperf's windows end at one event, or at its timer"),
            K::SeveralCounters { event } => {
                write!(f, "{event} takes several counters, but a window has one counter for each event")
            }
            K::NoRotation => {
                f.write_str("there are more events than counters, and windows do not rotate them")
            }
            K::NoTools { error } => write!(f, "cannot sample by kperf: {error}"),
        }
    }
}
