//! The row of a window, and the marker that replaces an unknown number.

use std::fmt;

use cyclometer_arch::{Fault, PmuReg};
use cyclometer_core::{Count, MissingReason};

/// A window of a thread: from the end of its previous one to a boundary, or to the end of the recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<T> {
    /// The thread of the window.
    pub thread: T,
    /// The number of this row among the thread's rows, from 0 on, without gaps.
    pub sequence: u64,
    /// The CPU on which it ended; `None`: it ended while the thread had none.
    pub cpu: Option<u32>,
    /// Counts of the window, slot by slot: measured, never assumed to be the period.
    pub counts: Vec<WindowCount>,
    /// The sources whose boundary it reached; none in a remainder and in a window that a loss has ended.
    pub fired: Vec<Fired>,
    /// The reason why it ended.
    pub end: WindowEnd,
    /// How often the thread got a CPU during the window.
    pub switches: u32,
    /// How often that was another CPU than the previous one.
    pub migrations: u32,
    /// Interrupts during the window that none of our counters raised.
    pub unclaimed: u32,
}

impl<T> Row<T> {
    /// Whether a count is missing.
    pub fn is_lost(&self) -> bool {
        self.counts.iter().any(|count| matches!(count, WindowCount::Lost(_)))
    }

    /// Whether a source passed more than one period, because the interrupt came late.
    pub fn is_late(&self) -> bool {
        self.fired.iter().any(|fired| fired.periods > 1)
    }

    /// Whether the window's end is no boundary.
    pub fn is_remainder(&self) -> bool {
        self.fired.is_empty()
    }
}

/// A count of one window.
#[derive(Clone, PartialEq, Debug)]
pub enum WindowCount {
    /// Every event of the thread in the window, and no other.
    Exact(u64),
    /// A part of the window was not counted, or not by us: there is no number.
    Lost(CounterLoss),
}

impl WindowCount {
    /// The number, if there is one.
    pub const fn exact(&self) -> Option<u64> {
        match self {
            WindowCount::Exact(events) => Some(*events),
            WindowCount::Lost(_) => None,
        }
    }

    /// Adds events, if there is a number.
    pub(super) fn add(&mut self, events: u64) {
        if let WindowCount::Exact(sum) = self {
            *sum = sum.saturating_add(events);
        }
    }

    /// Adds the count of another window; a lost one leaves no number.
    pub(in crate::registers) fn join(&mut self, other: &WindowCount) {
        match other {
            WindowCount::Exact(events) => self.add(*events),
            WindowCount::Lost(_) if self.exact().is_some() => *self = other.clone(),
            WindowCount::Lost(_) => {}
        }
    }
}

impl From<&WindowCount> for Count {
    fn from(count: &WindowCount) -> Count {
        match count {
            WindowCount::Exact(events) => Count::Exact(*events),
            WindowCount::Lost(loss) => Count::Lost { reason: loss.into() },
        }
    }
}

/// A source that reached a boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired {
    /// Its slot.
    pub slot: usize,
    /// How many boundaries it passed since it was last read; more than 1 is late.
    pub periods: u64,
    /// Events past the first of them: the skid, and the delay of a late interrupt.
    pub past: u64,
    /// Events past the last of them, by which the next window of this source is shorter.
    pub carried: u64,
}

/// The reason why a window ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEnd {
    /// An interrupt.
    Interrupt,
    /// The thread lost its CPU after a boundary and before the interrupt.
    Switch,
    /// A check after a boundary and before the interrupt.
    Look,
    /// A check found that counters are not ours any more.
    Loss,
    /// The counters were taken back.
    Retake,
    /// The thread or the recording ended; a boundary may have been reached just before.
    Finish,
}

/// The loss of a count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterLoss {
    /// The CPU of the loss.
    pub cpu: u32,
    /// The evidence of the loss.
    pub reason: LossReason,
}

/// The evidence that a counter did not count for us all the time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// A control register has another value than the written one.
    Rewritten {
        /// The register.
        register: PmuReg,
        /// Our bits of it, as written.
        written: u64,
        /// The same bits, as read.
        found: u64,
    },
    /// A counter does not hold the value that was written to it.
    NotPreset {
        /// Its register.
        register: PmuReg,
        /// The written value.
        written: u64,
        /// The value that was read.
        found: u64,
    },
    /// A counter's value and its overflow flag contradict each other, or it ran backwards: another user wrote
    /// it.
    Contradiction {
        /// Its register.
        register: PmuReg,
        /// The value that was read.
        found: u64,
    },
    /// The registers can no longer be used.
    Fault(Fault),
    /// The thread ran on a CPU that is not recorded.
    Elsewhere,
}

impl From<&CounterLoss> for MissingReason {
    fn from(loss: &CounterLoss) -> MissingReason {
        MissingReason::Reported(loss.to_string())
    }
}

impl fmt::Display for CounterLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu;
        match &self.reason {
            LossReason::Rewritten { register, written, found } => write!(
                f,
                "our bits of {register} of CPU {cpu} are {found:#x}, not {written:#x} as they were written"
            ),
            LossReason::NotPreset { register, written, found } => {
                write!(f, "{register} of CPU {cpu} is {found:#x} where {written:#x} was written")
            }
            LossReason::Contradiction { register, found } => write!(
                f,
                "{register} of CPU {cpu} is {found:#x}, which our events do not explain: other software wrote it"
            ),
            LossReason::Fault(fault) => write!(f, "CPU {cpu}: {fault}"),
            LossReason::Elsewhere => write!(f, "the thread ran on CPU {cpu}, which is not recorded"),
        }
    }
}

/// The result of an interrupt or a switch.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<T> {
    /// The windows that ended, in order.
    pub rows: Vec<Row<T>>,
    /// Whether one of our counters had overflowed: then no other handler needs to look for the interrupt's
    /// cause.
    pub is_ours: bool,
    /// Slots that are not counted on this CPU from now on, until they are taken back.
    pub lost_slots: Vec<usize>,
}

impl<T> Default for Outcome<T> {
    fn default() -> Outcome<T> {
        Outcome { rows: Vec::new(), is_ours: false, lost_slots: Vec::new() }
    }
}

impl<T> Outcome<T> {
    /// Both outcomes, one after the other.
    pub(super) fn then(mut self, next: Outcome<T>) -> Outcome<T> {
        self.rows.extend(next.rows);
        self.is_ours |= next.is_ours;
        self.lost_slots.extend(next.lost_slots);
        self
    }
}
