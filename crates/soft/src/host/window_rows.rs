//! Rows of windows on their way to the tool, and the open window of each thread.
//!
//! The tool reads when it wants to. Rows that it has not read are kept up to a number; later ones are lost,
//! and counted as lost.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use super::window_protocol::{TracedWindow, TracedWindowEnd, WindowLine, WindowRequest};
use crate::block::Block;
use crate::{EventSet, EventTotals, ExecutionEvent};

/// Windows that are recorded.
pub(crate) struct WindowRecording {
    pub(super) request: WindowRequest,
    /// The time of the request.
    began: Instant,
    rows: VecDeque<String>,
    /// Rows that were lost, and not reported yet.
    lost: u64,
    /// The rest of what was to be sent.
    unsent: Vec<u8>,
    /// The time before which nothing is sent, so that many rows are sent at once.
    next_send: Instant,
}

/// The interval at which rows are sent.
const SEND_EVERY: Duration = Duration::from_millis(2);

/// Bytes that are sent at once, about.
const SENT_AT_ONCE: usize = 1 << 16;

impl WindowRecording {
    pub(super) fn new(request: WindowRequest) -> WindowRecording {
        let began = Instant::now();
        let (rows, unsent) = (VecDeque::new(), Vec::new());
        WindowRecording { request, began, rows, lost: 0, unsent, next_send: began }
    }

    /// Every event that is read: those of the rows, and the instructions, which end windows.
    pub(super) fn events(&self) -> EventSet {
        self.request.events.iter().copied().chain([ExecutionEvent::Instructions]).collect()
    }

    /// The time, in ns since the request.
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds the row of a window that has ended, unless there is no room.
    fn push(&mut self, window: &mut OpenWindow, at: WindowBoundaryPoint, counts: WindowCounts) {
        if self.rows.len() >= self.request.most_rows {
            self.lost += 1;
            window.lost_before += 1;
            return;
        }
        let row = TracedWindow {
            pid: window.pid,
            tid: window.tid,
            end: at.end,
            address: at.address,
            time_ns: at.time_ns,
            lost_before: std::mem::take(&mut window.lost_before),
            counts: counts.counts,
        };
        self.rows.push_back(WindowLine::Row(row).text());
    }

    /// Ends a window and starts the next one at the same program point; `readout` is the one there. A window
    /// without any execution goes on.
    pub(super) fn end_window(
        &mut self,
        window: &mut OpenWindow,
        end: TracedWindowEnd,
        address: Option<u64>,
        readout: WindowCounts,
    ) {
        let at = WindowBoundaryPoint { end, address, time_ns: self.now_ns() };
        self.end_at(window, at, readout);
    }

    fn end_at(&mut self, window: &mut OpenWindow, at: WindowBoundaryPoint, readout: WindowCounts) {
        let counts = window.counts(&readout);
        if !counts.is_empty() {
            self.push(window, at, counts);
            (window.before, window.start) = (WindowCounts::none(&self.request), Some(readout));
        }
    }

    /// Ends a window some instructions further on, if the thread gets there; `readout` is the one there.
    pub(super) fn end_ahead(&self, window: &mut OpenWindow, address: u64, readout: WindowCounts) {
        let (end, address) = (TracedWindowEnd::Period, Some(address));
        let at = WindowBoundaryPoint { end, address, time_ns: self.now_ns() };
        window.ahead = Some((at, readout));
    }

    /// Ends the window that was to end further on, if the thread has executed so many instructions. If a
    /// signal came before, the window goes on.
    pub(super) fn settle_ahead(&mut self, window: &mut OpenWindow, instructions: u64) {
        if let Some((at, readout)) = window.ahead.take()
            && instructions.wrapping_sub(readout.instructions).cast_signed() >= 0
        {
            self.end_at(window, at, readout);
        }
    }

    /// Ends the last window of a thread, which has left its translation.
    pub(super) fn end_last(&mut self, mut window: OpenWindow, end: TracedWindowEnd) {
        let counts = window.before.clone();
        if !counts.is_empty() {
            let at = WindowBoundaryPoint { end, address: None, time_ns: self.now_ns() };
            self.push(&mut window, at, counts);
        }
    }

    /// The longest time to wait until rows are to be sent.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        let is_pending = !self.unsent.is_empty() || !self.rows.is_empty() || self.lost > 0;
        is_pending.then_some(SEND_EVERY)
    }

    /// Sends rows now and then, as far as the socket takes them.
    pub(super) fn send_sometimes(&mut self, socket: &mut impl Write) {
        let now = Instant::now();
        if now >= self.next_send {
            self.next_send = now + SEND_EVERY;
            self.send(socket);
        }
    }

    /// Sends rows until the socket takes no more. An error other than that is ignored: the next read finds
    /// that the tool is gone.
    pub(super) fn send(&mut self, socket: &mut impl Write) {
        loop {
            if self.unsent.is_empty() {
                self.fill();
            }
            match socket.write(&self.unsent) {
                Ok(0) => return,
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return self.unsent.clear(),
            }
        }
    }

    /// Takes the next rows to be sent.
    fn fill(&mut self) {
        if self.lost > 0 {
            self.unsent.extend(WindowLine::Lost(std::mem::take(&mut self.lost)).text().into_bytes());
        }
        while self.unsent.len() < SENT_AT_ONCE
            && let Some(row) = self.rows.pop_front()
        {
            self.unsent.extend(row.into_bytes());
        }
    }
}

/// The open window of a thread.
#[derive(Clone, Debug)]
pub(crate) struct OpenWindow {
    pid: u32,
    tid: u32,
    /// Counts of the window in translations that the thread has left.
    before: WindowCounts,
    /// The readout of the current translation where the window starts in it; `None` outside.
    start: Option<WindowCounts>,
    lost_before: u64,
    /// The thread is stepped to a boundary in the middle of a block.
    pub(super) steps: Option<WindowSteps>,
    /// The boundary and the readout where the thread will be in some instructions.
    ahead: Option<(WindowBoundaryPoint, WindowCounts)>,
    /// The thread is outside of translated code, and the budget in its slot is the rest of the window.
    keeps_budget: bool,
}

/// The end of a window.
#[derive(Clone, Copy, Debug)]
struct WindowBoundaryPoint {
    end: TracedWindowEnd,
    address: Option<u64>,
    time_ns: u64,
}

/// The remaining way to a boundary.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowSteps {
    /// The number of instructions of the block that are still to be executed at the boundary.
    pub(super) behind: u16,
    /// The address in translated code of the next instruction, if it pushes the flags.
    pub(super) pushes_flags: Option<u64>,
}

impl OpenWindow {
    pub(super) fn new(pid: u32, tid: u32, request: &WindowRequest) -> OpenWindow {
        let before = WindowCounts::none(request);
        let (start, steps, ahead, keeps_budget) = (None, None, None, false);
        OpenWindow { pid, tid, before, start, lost_before: 0, steps, ahead, keeps_budget }
    }

    /// Whether the thread is in a translation.
    pub(super) fn is_in_translation(&self) -> bool {
        self.start.is_some()
    }

    /// The thread enters a translation; `now` is its readout.
    pub(super) fn enter(&mut self, now: WindowCounts) {
        self.start = Some(now);
    }

    /// The thread leaves its translation; `now` is its readout.
    pub(super) fn leave(&mut self, now: &WindowCounts) {
        self.before = self.counts(now);
        (self.start, self.steps, self.keeps_budget) = (None, None, false);
    }

    /// The thread leaves translated code. A budget to a boundary behind another one is not kept: whether the
    /// thread has reached the first is not known.
    pub(super) fn set_kept_budget(&mut self, is_known: bool) {
        self.keeps_budget = is_known && self.ahead.is_none();
    }

    /// Whether the budget in the thread's slot is the rest of the window. The thread enters translated code.
    pub(super) fn take_kept_budget(&mut self) -> bool {
        std::mem::take(&mut self.keeps_budget)
    }

    /// The counts of the window up to a readout.
    fn counts(&self, now: &WindowCounts) -> WindowCounts {
        match &self.start {
            None => self.before.clone(),
            Some(start) => self.before.plus(now, start),
        }
    }

    /// The instructions of the window up to a readout of the current translation.
    fn instructions(&self, now: u64) -> u64 {
        let start = self.start.as_ref().map_or(now, |start| start.instructions);
        self.before.instructions.wrapping_add(now.wrapping_sub(start))
    }

    /// The instructions to the end of the window. It may have one more than its period, or -1, because of a
    /// system call that is made again.
    pub(super) fn instructions_left(&self, period: u64, now: u64) -> u64 {
        period.saturating_add_signed(self.instructions(now).cast_signed().wrapping_neg())
    }
}

/// Counts of the requested events, or a readout of a translation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WindowCounts {
    instructions: u64,
    /// In the order of the request; `None` where it is unknown.
    counts: Vec<Option<u64>>,
}

impl WindowCounts {
    fn none(request: &WindowRequest) -> WindowCounts {
        WindowCounts { instructions: 0, counts: vec![Some(0); request.events.len()] }
    }

    /// A readout.
    pub(super) fn of(totals: &EventTotals, request: &WindowRequest) -> WindowCounts {
        let counts = request.events.iter().map(|event| totals.total(*event).ok()).collect();
        WindowCounts { instructions: totals.total(ExecutionEvent::Instructions).unwrap_or(0), counts }
    }

    /// With the counts between two readouts.
    fn plus(&self, now: &WindowCounts, start: &WindowCounts) -> WindowCounts {
        let sum = |before: u64, now: u64, start: u64| before.wrapping_add(now.wrapping_sub(start));
        let counts = self.counts.iter().zip(&now.counts).zip(&start.counts);
        WindowCounts {
            instructions: sum(self.instructions, now.instructions, start.instructions),
            counts: counts.map(|((before, now), start)| Some(sum((*before)?, (*now)?, (*start)?))).collect(),
        }
    }

    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The readout behind the first instructions of a block, from the one before it.
    pub(super) fn behind(&self, block: &Block, request: &WindowRequest) -> WindowCounts {
        let counts = self.counts.iter().zip(&request.events);
        let counted = |event| u64::from(block.events.of(event));
        let known = |event: &ExecutionEvent| !block.kinds().any(|kind| kind.feeds().contains(event));
        let counts = counts.map(|(count, event)| (count.filter(|_| known(event)), event));
        WindowCounts {
            instructions: self.instructions.wrapping_add(counted(ExecutionEvent::Instructions)),
            counts: counts.map(|(count, event)| Some(count?.wrapping_add(counted(*event)))).collect(),
        }
    }

    /// Whether nothing was executed. A system call that is to be made again is taken back, and counts -1
    /// until then.
    fn is_empty(&self) -> bool {
        let none = self.instructions == 0 && self.counts.iter().flatten().all(|count| *count == 0);
        none || self.instructions.cast_signed() < 0
    }
}
