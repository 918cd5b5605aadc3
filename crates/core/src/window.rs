//! Windows: parts of a run that are counted one by one, and the interface of sources that record them.
//!
//! A window belongs to one thread, or to one CPU. It goes from the end of the window before it to a
//! *boundary*: so many events of a slot, or a length of time. Its counts are measured at both ends; a
//! boundary says where a window was to end, never what it counted.
//!
//! ```text
//!   start          every N        every N            end of the thread
//!     │── window 0 ───│── window 1 ──│── window 2 ──│
//!     └ unassigned: what counted before the first window was open, or in windows that were lost
//! ```
//!
//! The sums of all rows of a recording, the row [`WindowCause::Unassigned`] among them, are the totals of the
//! run, unless a row says that a count is lost.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::code_memory::CodeMemoryChange;
use crate::count::Count;
use crate::error::Result;
use crate::ladder::Rung;
use crate::slot::SlotId;

/// Where windows end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowSpec {
    /// The boundaries; a window ends at the first that it reaches. Never empty.
    pub boundaries: Vec<WindowBoundary>,
    /// Most rows that the source keeps for [`Windowing::next`]; rows beyond that are lost, and counted as
    /// lost.
    pub most_rows: usize,
}

impl WindowSpec {
    /// Rows that are kept unless requested otherwise.
    pub const MOST_ROWS: usize = 1 << 16;

    /// Windows with one kind of boundary.
    pub fn new(boundary: WindowBoundary) -> WindowSpec {
        WindowSpec { boundaries: vec![boundary], most_rows: WindowSpec::MOST_ROWS }
    }
}

/// A boundary of windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowBoundary {
    /// After so many events of a slot.
    Events {
        /// The slot of the leader.
        slot: SlotId,
        /// The number of events.
        period: NonZeroU64,
    },
    /// After so much wall-clock time. Such rows are made of readings of all sources, not by
    /// [`Source::windows`](crate::Source::windows).
    Interval(Duration),
    /// After so much time of a source's own timer, which interrupts each thread that has a CPU then.
    Timer {
        /// The source that has the timer, and counts the rows.
        source: Rung,
        /// The time.
        period: Duration,
    },
}

/// A thread of a recording.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WindowThread {
    /// The id of its process.
    pub pid: u32,
    /// Its own id.
    pub tid: u32,
}

/// One window.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowRow {
    /// The thread; `None`: of the CPU in [`WindowRow::cpu`].
    pub thread: Option<WindowThread>,
    /// The CPU on which it ended; `None` where the source does not know it.
    pub cpu: Option<u32>,
    /// Its end, in ns since the recording began; `None` where the source has no clock.
    pub time_ns: Option<u64>,
    /// The address of the next instruction at its end; `None` where it is unknown. After an interrupt it lies
    /// some instructions behind the boundary.
    pub address: Option<u64>,
    /// Why it ended.
    pub cause: WindowCause,
    /// The counts of the slots, in the order in which they were opened.
    pub counts: Vec<Count>,
    /// Time for which the events were to count, in ns; `None` where the source does not know it.
    pub enabled_ns: Option<u64>,
    /// Time for which they were on counters, in ns; less than `enabled_ns`: they shared counters.
    pub running_ns: Option<u64>,
    /// Events that may disturb the counts.
    pub flags: WindowFlags,
}

/// Why a window ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowCause {
    /// It reached this boundary of [`WindowSpec::boundaries`]; the first of them if it reached several at
    /// once.
    Boundary(usize),
    /// The thread executed another program.
    Exec,
    /// The thread or the recording ended; a last, shorter window.
    End,
    /// Counters were lost to another user, or taken back from it.
    CountersLost,
    /// No window: events that no window of the recording has.
    Unassigned,
}

impl WindowCause {
    /// The word used in files and JSON.
    pub fn word(self) -> &'static str {
        match self {
            WindowCause::Boundary(_) => "boundary",
            WindowCause::Exec => "exec",
            WindowCause::End => "end",
            WindowCause::CountersLost => "counters-lost",
            WindowCause::Unassigned => "unassigned",
        }
    }
}

/// Events during a window that may disturb its counts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WindowFlags {
    /// How often the thread lost its CPU; `None` where the source does not know it.
    pub switches: Option<u32>,
    /// How often it continued on another CPU; `None` where the source does not know it.
    pub migrations: Option<u32>,
    /// Whether the kernel stopped the counters for a while, as interrupts came too often.
    pub throttled: bool,
    /// Rows of the same thread or CPU that were lost immediately before.
    pub lost_before: u64,
}

/// Rows that were taken out together.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct RowBatch {
    /// The names of threads, which hold for the rows of this batch and later ones. A source that reports none
    /// leaves them to be read while the threads exist.
    pub names: Vec<(WindowThread, String)>,
    /// Changes of executable memory, which hold for the rows of this batch and later ones.
    pub code_memory: Vec<CodeMemoryChange>,
    /// The rows, in the order of their ends for each thread.
    pub rows: Vec<WindowRow>,
    /// Rows that were lost since the batch before, of all threads together.
    pub lost: u64,
}

/// Why [`Windowing::next`] returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowingState {
    /// Windows go on; there may be rows.
    Open,
    /// The target has ended, and the batch has the last rows.
    Ended,
}

/// Open windows; dropping them ends the recording and restores what was changed.
pub trait Windowing {
    /// Starts the first windows. Does nothing where they start at exec.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn start(&mut self) -> Result<()>;

    /// Ends all windows that are open; [`Windowing::next`] gives their rows.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn stop(&mut self) -> Result<()>;

    /// Waits for rows until a point in time, and puts those that there are into an empty batch.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Os`, `ErrorKind::StateLost`.
    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState>;

    /// Notes on what the windows do and do not contain, for the user; complete after the end.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
