//! The state that a thread carries from CPU to CPU: its open window, and the distance of each source to its
//! next boundary.

use super::row::{CounterLoss, Fired, LossReason, Row, WindowCount, WindowEnd};
use super::setup::{Period, WindowSetup};

/// The open window of a thread that may be on no CPU at the moment.
#[derive(Clone, Debug)]
pub struct ThreadWindow<T> {
    pub(super) thread: T,
    /// Counts since the window began.
    pub(super) open: Vec<WindowCount>,
    /// Events up to the next boundary of each source; `None`: unknown, a period begins.
    pub(super) left: Vec<Option<u64>>,
    sequence: u64,
    switches: u32,
    migrations: u32,
    unclaimed: u32,
    last_cpu: Option<u32>,
}

impl<T: Copy> ThreadWindow<T> {
    /// The first window of a thread that has not run yet, or whose earlier events are not counted.
    pub fn new(setup: &WindowSetup, thread: T) -> ThreadWindow<T> {
        ThreadWindow {
            thread,
            open: vec![WindowCount::Exact(0); setup.slots()],
            left: vec![None; setup.slots()],
            sequence: 0,
            switches: 0,
            migrations: 0,
            unclaimed: 0,
            last_cpu: None,
        }
    }

    /// The thread of this window.
    pub fn thread(&self) -> T {
        self.thread
    }

    /// Its counts when registers were last read, slot by slot.
    pub fn counts(&self) -> &[WindowCount] {
        &self.open
    }

    /// Events of a slot up to its next boundary: the stored remainder, or a whole period.
    pub(super) fn left_of(&self, setup: &WindowSetup, slot: usize) -> u64 {
        self.left[slot].unwrap_or_else(|| setup.period(slot).map_or(0, Period::events))
    }

    /// The thread gets a CPU.
    pub(super) fn arrive(&mut self, cpu: u32) {
        self.switches = self.switches.saturating_add(1);
        if self.last_cpu.is_some_and(|last| last != cpu) {
            self.migrations = self.migrations.saturating_add(1);
        }
        self.last_cpu = Some(cpu);
    }

    pub(super) fn unclaimed_interrupt(&mut self) {
        self.unclaimed = self.unclaimed.saturating_add(1);
    }

    /// A slot has no number in this window, and the position of its source is unknown.
    pub(super) fn lose(&mut self, slot: usize, loss: &CounterLoss) {
        self.open[slot] = WindowCount::Lost(loss.clone());
        self.left[slot] = None;
    }

    /// The thread runs on a CPU where nothing is counted.
    pub(super) fn lose_all(&mut self, cpu: u32) {
        let loss = CounterLoss { cpu, reason: LossReason::Elsewhere };
        for slot in 0..self.open.len() {
            self.lose(slot, &loss);
        }
    }

    /// Ends the window; the next one begins with counts of 0.
    pub(super) fn close(&mut self, cpu: Option<u32>, end: WindowEnd, fired: Vec<Fired>) -> Row<T> {
        let fresh = vec![WindowCount::Exact(0); self.open.len()];
        let row = Row {
            thread: self.thread,
            sequence: self.sequence,
            cpu,
            counts: std::mem::replace(&mut self.open, fresh),
            fired,
            end,
            switches: std::mem::take(&mut self.switches),
            migrations: std::mem::take(&mut self.migrations),
            unclaimed: std::mem::take(&mut self.unclaimed),
        };
        self.sequence += 1;
        row
    }

    /// The last row, unless nothing was counted since the previous one.
    pub fn finish(mut self) -> Option<Row<T>> {
        let is_empty = self.open.iter().all(|count| *count == WindowCount::Exact(0));
        (!is_empty).then(|| self.close(None, WindowEnd::Finish, Vec::new()))
    }
}
