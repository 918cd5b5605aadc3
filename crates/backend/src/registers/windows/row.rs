//! What a window was: the row, and what stands in it instead of a number that is not known.

use std::fmt;

use cyclometer_arch::{Fault, PmuReg};
use cyclometer_core::Count;

/// A window of a thread: from the end of its previous one to a boundary, or to the end of the recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<T> {
    /// Whose window it is.
    pub thread: T,
    /// Which of the thread's rows this is, from 0 on, without gaps.
    pub sequence: u64,
    /// The CPU on which it ended; `None`: it ended while the thread had none.
    pub cpu: Option<u32>,
    /// What was counted in it, slot by slot: measured, never assumed to be the period.
    pub counts: Vec<WindowCount>,
    /// The sources whose boundary it reached; none in a remainder and in a window that a loss has ended.
    pub fired: Vec<Fired>,
    /// What ended it.
    pub end: WindowEnd,
    /// How often the thread got a CPU in it.
    pub switches: u32,
    /// How often that was another CPU than the one before.
    pub migrations: u32,
    /// Interrupts in it that none of our counters had asked for.
    pub unclaimed: u32,
}

impl<T> Row<T> {
    /// Whether a count is missing.
    pub fn is_lost(&self) -> bool {
        self.counts.iter().any(|count| matches!(count, WindowCount::Lost(_)))
    }

    /// Whether a source went through more than one period: the interrupt came that late.
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
    /// A part of the window was not counted, or was not ours: there is no number.
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

    /// Counts more, if there is a number.
    pub(super) fn add(&mut self, events: u64) {
        if let WindowCount::Exact(sum) = self {
            *sum = sum.saturating_add(events);
        }
    }
}

impl From<&WindowCount> for Count {
    fn from(count: &WindowCount) -> Count {
        match count {
            WindowCount::Exact(events) => Count::Exact(*events),
            WindowCount::Lost(loss) => Count::Lost { reason: loss.to_string() },
        }
    }
}

/// A source that reached a boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fired {
    /// Its slot.
    pub slot: usize,
    /// How many boundaries it passed since the last look at it; more than 1 is late.
    pub periods: u64,
    /// Events past the first of them: the skid, and the delay of a late interrupt.
    pub past: u64,
    /// Events past the last of them, by which the next window of this source is shorter.
    pub carried: u64,
}

/// What ends a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowEnd {
    /// An interrupt.
    Interrupt,
    /// The thread lost its CPU after a boundary and before the interrupt.
    Switch,
    /// A look after a boundary and before the interrupt.
    Look,
    /// It was seen that counters are not ours any more.
    Loss,
    /// They were taken back.
    Retake,
    /// The thread or the recording came to its end; a boundary may have been reached just before it.
    Finish,
}

/// How a count was lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterLoss {
    /// On which CPU.
    pub cpu: u32,
    /// What was found.
    pub reason: LossReason,
}

/// What shows that a counter did not count for us all the time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// A control register has another value than the one that was written.
    Rewritten {
        /// The register.
        register: PmuReg,
        /// Our bits of it, as they were written.
        written: u64,
        /// The same bits, as they are.
        found: u64,
    },
    /// A counter does not have the value that was written to it.
    NotPreset {
        /// Its register.
        register: PmuReg,
        /// What was written.
        written: u64,
        /// What it has.
        found: u64,
    },
    /// A counter's value and its overflow flag contradict each other, or it ran backwards: somebody wrote there.
    Contradiction {
        /// Its register.
        register: PmuReg,
        /// What it has.
        found: u64,
    },
    /// The registers can no longer be used.
    Fault(Fault),
    /// The thread ran on a CPU that is not recorded.
    Elsewhere,
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
                "{register} of CPU {cpu} is {found:#x}, which our events do not explain: somebody else wrote it"
            ),
            LossReason::Fault(fault) => write!(f, "CPU {cpu}: {fault}"),
            LossReason::Elsewhere => write!(f, "the thread ran on CPU {cpu}, which is not recorded"),
        }
    }
}

/// What an interrupt or a switch led to.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<T> {
    /// The windows that ended, in order.
    pub rows: Vec<Row<T>>,
    /// Whether one of our counters had overflowed: another handler need not look for the interrupt's cause.
    pub is_ours: bool,
    /// Slots that are not counted on this CPU from now on, until it is taken back.
    pub lost_slots: Vec<usize>,
}

impl<T> Default for Outcome<T> {
    fn default() -> Outcome<T> {
        Outcome { rows: Vec::new(), is_ours: false, lost_slots: Vec::new() }
    }
}

impl<T> Outcome<T> {
    /// Both, one after the other.
    pub(super) fn then(mut self, next: Outcome<T>) -> Outcome<T> {
        self.rows.extend(next.rows);
        self.is_ours |= next.is_ours;
        self.lost_slots.extend(next.lost_slots);
        self
    }
}
