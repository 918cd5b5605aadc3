//! Rows of windows on their way to the tool, and the open window of each thread.
//!
//! The tool reads when it wants to. Rows that it has not read are kept up to a number; later ones are lost,
//! and counted as lost. A thread's name, and the executable memory of a process, come before the first row
//! that they explain.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::time::{Duration, Instant};

use super::escaped_path::escaped_path;
use super::maps::MemoryMaps;
use super::proc;
use super::window_counts::{WindowCounts, WindowOutcome, WindowReadout};
use super::window_protocol::{TracedMapping, TracedWindow, TracedWindowEnd, WindowLine, WindowRequest};
use crate::{EventSet, ExecutionEvent};

/// Windows that are recorded.
pub(crate) struct WindowRecording {
    pub(super) request: WindowRequest,
    /// The time of the request.
    began: Instant,
    /// The lines of rows and of what explains them, which have not been sent yet.
    lines: VecDeque<String>,
    /// Rows that were lost, and not reported yet.
    lost: u64,
    /// The hash of the mappings of each process that were told.
    told_memory: HashMap<u32, u64>,
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
        let (lines, told_memory, unsent) = (VecDeque::new(), HashMap::new(), Vec::new());
        WindowRecording { request, began, lines, lost: 0, told_memory, unsent, next_send: began }
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
    fn push(&mut self, window: &mut OpenWindow, at: WindowBoundaryPoint, counts: Vec<Option<u64>>) {
        if self.is_full() {
            self.lost += 1;
            window.lost_before += 1;
            return;
        }
        if let Some(name) = window.untold_name(at.end) {
            let (pid, tid) = (window.pid, window.tid);
            self.lines.push_back(WindowLine::Name { pid, tid, name }.text());
        }
        let row = TracedWindow {
            pid: window.pid,
            tid: window.tid,
            end: at.end,
            address: at.address,
            time_ns: at.time_ns,
            lost_before: std::mem::take(&mut window.lost_before),
            counts,
        };
        self.lines.push_back(WindowLine::Row(row).text());
    }

    /// Whether there is no room for a row.
    fn is_full(&self) -> bool {
        self.lines.len() >= self.request.most_rows
    }

    /// Tells the executable memory of a thread's process, unless the tool was told of the same. `changes` is
    /// another number after each change.
    pub(super) fn tell_memory(&mut self, window: &mut OpenWindow, changes: u64) {
        if window.told_changes == Some(changes) || self.is_full() {
            return;
        }
        let Ok(maps) = MemoryMaps::read(window.tid) else { return };
        window.told_changes = Some(changes);
        let pid = window.pid;
        let named = maps.code().filter(|mapping| !mapping.name.is_empty());
        let mappings: Vec<TracedMapping> = named
            .map(|mapping| TracedMapping {
                pid,
                start: mapping.start,
                len: mapping.end - mapping.start,
                offset: mapping.offset,
                file: mapping.name.clone(),
            })
            .collect();
        let mut hasher = DefaultHasher::new();
        mappings.hash(&mut hasher);
        let hash = hasher.finish();
        if self.told_memory.insert(pid, hash) != Some(hash) {
            self.lines.push_back(WindowLine::Memory { pid }.text());
            self.lines.extend(mappings.into_iter().map(|mapping| WindowLine::Mapping(mapping).text()));
        }
    }

    /// Ends a window and starts the next one at the same program point; `readout` is the one there. A window
    /// without any execution goes on.
    pub(super) fn end_window(
        &mut self,
        window: &mut OpenWindow,
        end: TracedWindowEnd,
        address: Option<u64>,
        readout: WindowReadout,
    ) {
        let at = WindowBoundaryPoint { end, address, time_ns: self.now_ns() };
        self.end_at(window, at, readout);
    }

    fn end_at(&mut self, window: &mut OpenWindow, at: WindowBoundaryPoint, readout: WindowReadout) {
        if let WindowOutcome::Row { counts, owed } = window.counts(&readout).outcome() {
            self.push(window, at, counts);
            (window.before, window.start) = (owed, Some(readout));
        }
    }

    /// Ends a window some instructions further on, if the thread gets there; `readout` is the one there.
    pub(super) fn expect_boundary(&self, window: &mut OpenWindow, address: u64, readout: WindowReadout) {
        let (end, address) = (TracedWindowEnd::Period, Some(address));
        let at = WindowBoundaryPoint { end, address, time_ns: self.now_ns() };
        window.expected = Some((at, readout));
    }

    /// Ends the window whose boundary is expected, if the thread has executed so many instructions. If a
    /// signal came before, the window goes on.
    pub(super) fn settle_expected(&mut self, window: &mut OpenWindow, instructions: u64) {
        if let Some((at, readout)) = window.expected.take()
            && instructions.wrapping_sub(readout.instructions()).cast_signed() >= 0
        {
            self.end_at(window, at, readout);
        }
    }

    /// Ends the last window of a thread, which has left its translation.
    pub(super) fn end_last(&mut self, mut window: OpenWindow, end: TracedWindowEnd) {
        if let WindowOutcome::Row { counts, .. } = window.before.outcome() {
            let at = WindowBoundaryPoint { end, address: None, time_ns: self.now_ns() };
            self.push(&mut window, at, counts);
        }
    }

    /// The longest time to wait until rows are to be sent.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        let is_pending = !self.unsent.is_empty() || !self.lines.is_empty() || self.lost > 0;
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
            && let Some(line) = self.lines.pop_front()
        {
            self.unsent.extend(line.into_bytes());
        }
    }
}

/// The open window of a thread.
#[derive(Clone, Debug)]
pub(crate) struct OpenWindow {
    pid: u32,
    tid: u32,
    /// The name of the thread when its first window began; `None` once a name was told.
    first_name: Option<String>,
    /// The number of the change of the executable memory that was told last; `None` before the first one.
    told_changes: Option<u64>,
    /// Executions of the window in translations that the thread has left.
    before: WindowCounts,
    /// The readout of the current translation where the window starts in it; `None` outside.
    start: Option<WindowReadout>,
    lost_before: u64,
    /// The thread is stepped to a boundary in the middle of a block.
    pub(super) steps: Option<WindowSteps>,
    /// The boundary and the readout where the thread will be in some instructions.
    expected: Option<(WindowBoundaryPoint, WindowReadout)>,
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
    /// The instructions of the block that are still to be executed at the boundary.
    pub(super) remaining: u16,
    /// The address in translated code of the next instruction, if it pushes the flags.
    pub(super) pushes_flags: Option<u64>,
}

impl OpenWindow {
    pub(super) fn new(pid: u32, tid: u32, request: &WindowRequest) -> OpenWindow {
        let before = WindowCounts::none(request);
        OpenWindow {
            pid,
            tid,
            first_name: Some(thread_name(tid).unwrap_or_default()),
            told_changes: None,
            before,
            start: None,
            lost_before: 0,
            steps: None,
            expected: None,
            keeps_budget: false,
        }
    }

    /// The name of the thread before its first row, which ends in this way. At the end by `exec` the thread
    /// has the name of the next program already.
    fn untold_name(&mut self, end: TracedWindowEnd) -> Option<String> {
        let first = self.first_name.take()?;
        let now = if end == TracedWindowEnd::Exec { None } else { thread_name(self.tid) };
        Some(now.unwrap_or(first))
    }

    /// Whether the thread is in a translation.
    pub(super) fn is_in_translation(&self) -> bool {
        self.start.is_some()
    }

    /// The thread enters a translation; `now` is its readout.
    pub(super) fn enter(&mut self, now: WindowReadout) {
        self.start = Some(now);
    }

    /// The thread leaves its translation; `now` is its readout.
    pub(super) fn leave(&mut self, now: &WindowReadout) {
        self.before = self.counts(now);
        (self.start, self.steps, self.keeps_budget) = (None, None, false);
        // Another translation counts changes of the memory anew.
        self.told_changes = None;
    }

    /// The thread leaves translated code. A budget to a boundary behind another one is not kept: whether the
    /// thread has reached the first is not known.
    pub(super) fn set_kept_budget(&mut self, is_known: bool) {
        self.keeps_budget = is_known && self.expected.is_none();
    }

    /// Whether the budget in the thread's slot is the rest of the window. The thread enters translated code.
    pub(super) fn take_kept_budget(&mut self) -> bool {
        std::mem::take(&mut self.keeps_budget)
    }

    /// The executions of the window up to a readout of the current translation.
    fn counts(&self, now: &WindowReadout) -> WindowCounts {
        match &self.start {
            None => self.before.clone(),
            Some(start) => self.before.between(start, now),
        }
    }

    /// The instructions to the end of the window, with `now` instructions in the readout of the current
    /// translation. They are more than the period where a system call was taken back.
    pub(super) fn instructions_left(&self, period: u64, now: u64) -> u64 {
        let start = self.start.as_ref().map_or(now, WindowReadout::instructions);
        let executed = self.before.instructions().wrapping_add(now.wrapping_sub(start).cast_signed());
        period.saturating_add_signed(executed.wrapping_neg())
    }
}

/// The name that a thread has now; `None` for one that is gone.
fn thread_name(tid: u32) -> Option<String> {
    let name = proc::bytes(format!("/proc/{tid}/comm")).ok()?;
    Some(escaped_path(name.strip_suffix(b"\n").unwrap_or(&name)))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::EventTotals;

    fn recording(most_rows: usize) -> WindowRecording {
        let events = vec![ExecutionEvent::Instructions];
        WindowRecording::new(WindowRequest { period: NonZeroU64::MIN, most_rows, events })
    }

    /// The readout of a thread that has executed so many instructions.
    fn readout(recording: &WindowRecording, instructions: u64) -> WindowReadout {
        let mut totals = EventTotals::new();
        totals.set(ExecutionEvent::Instructions, instructions);
        WindowReadout::of(&totals, &recording.request).unwrap()
    }

    /// A window that begins before the first instruction of a translation.
    fn window(recording: &WindowRecording) -> OpenWindow {
        let mut window = OpenWindow::new(7, 8, &recording.request);
        window.enter(readout(recording, 0));
        window
    }

    fn rows(recording: &mut WindowRecording) -> Vec<TracedWindow> {
        recording.lost = 0;
        recording.fill();
        let text = std::mem::take(&mut recording.unsent);
        let row = |line: &str| match WindowLine::read(line) {
            Some(WindowLine::Row(row)) => Some(row),
            Some(WindowLine::Name { .. }) => None,
            other => panic!("{other:?}"),
        };
        String::from_utf8(text).unwrap().lines().filter_map(row).collect()
    }

    #[test]
    fn a_signal_before_an_expected_boundary_leaves_the_window_open() {
        let mut recording = recording(10);
        let mut window = window(&recording);
        for (executed, ends) in [(9, 0), (10, 1), (11, 1)] {
            let expected = readout(&recording, 10);
            recording.expect_boundary(&mut window, 0x1234, expected);
            recording.settle_expected(&mut window, executed);
            let rows = rows(&mut recording);
            assert_eq!(rows.len(), ends, "{executed}: {rows:?}");
            for row in rows {
                assert_eq!((row.counts, row.address), (vec![Some(10)], Some(0x1234)));
                window = self::window(&recording);
            }
        }
    }

    #[test]
    fn a_budget_is_kept_for_one_entry_and_to_one_boundary() {
        let recording = recording(10);
        let mut window = window(&recording);
        assert!(!window.take_kept_budget());
        window.set_kept_budget(true);
        assert!(window.take_kept_budget() && !window.take_kept_budget());
        window.set_kept_budget(false);
        assert!(!window.take_kept_budget(), "the position of the thread has no certain rest");
        window.set_kept_budget(true);
        window.leave(&readout(&recording, 3));
        assert!(!window.take_kept_budget(), "another translation has another budget");
        window.enter(readout(&recording, 0));
        recording.expect_boundary(&mut window, 0, readout(&recording, 10));
        window.set_kept_budget(true);
        assert!(!window.take_kept_budget(), "the thread may or may not have reached the boundary");
    }

    #[test]
    fn a_thread_that_ends_before_it_makes_a_call_again_has_no_row_of_it() {
        let mut recording = recording(10);
        let mut window = OpenWindow::new(7, 8, &recording.request);
        window.enter(readout(&recording, 10));
        assert_eq!(window.instructions_left(100, 9), 101);
        window.leave(&readout(&recording, 9));
        recording.end_last(window, TracedWindowEnd::End);
        assert!(recording.lines.is_empty() && recording.lost == 0, "{:?}", recording.lines);
    }

    #[test]
    fn the_row_after_lost_ones_has_their_number() {
        let mut recording = recording(1);
        let mut window = window(&recording);
        for executed in 1..=4 {
            let now = readout(&recording, executed);
            recording.end_window(&mut window, TracedWindowEnd::Period, None, now);
        }
        assert_eq!((rows(&mut recording).len(), window.lost_before), (1, 3));
        window.leave(&readout(&recording, 6));
        recording.end_last(window, TracedWindowEnd::End);
        let last = rows(&mut recording).pop().unwrap();
        assert_eq!((last.end, last.lost_before, last.counts), (TracedWindowEnd::End, 3, vec![Some(2)]));
    }
}
