//! The counters of one thread, and the regions that are open in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::Raw;
use cyclometer_core::{Counting, MissingReason, Part, Plan, Rung};
use cyclometer_sys::fork::Birth;

use crate::opening::OpenCounters;
use crate::totals::{CounterKind, CounterSum, LabelTotals, ThreadCounter, ThreadTotals};

/// Number of open regions of a thread for which memory is allocated in advance.
const ROOM: usize = 16;

/// The thread state that a region refers to.
pub(crate) type Here = Rc<RefCell<ThreadState>>;

/// The counters of a thread.
pub(crate) struct ThreadState {
    sources: Vec<Box<dyn Counting>>,
    /// The number of each source's first counter.
    first_of_source: Vec<usize>,
    counters: usize,
    kinds: Vec<CounterKind>,
    pub(crate) birth: Birth,
    labels: HashMap<Box<str>, usize>,
    /// Values at the starts of open regions: one row of `counters` values for each frame.
    starts: Vec<Raw>,
    /// Number of regions that had ended when the region of each frame began.
    ended_before: Vec<u64>,
    /// Unused frames.
    free: Vec<usize>,
    /// Buffer for the values at an end.
    ends: Vec<Raw>,
    /// Values at the last reset.
    base: Vec<Raw>,
    /// Number of regions that have ended in this thread.
    ended: u64,
    pub(crate) totals: Arc<Mutex<ThreadTotals>>,
}

/// An open region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionFrame {
    pub(crate) label: usize,
    frame: usize,
}

/// The counts of one region.
pub(crate) struct EndedRegion {
    pub(crate) sums: Vec<CounterSum>,
    pub(crate) inner: u64,
}

impl ThreadState {
    pub(crate) fn new(
        plan: &Plan,
        mut opened: OpenCounters,
        longest_window: Option<Duration>,
    ) -> ThreadState {
        let is_peak = |slot: cyclometer_core::SlotId| {
            let parts =
                plan.lines.get(slot.0).and_then(|line| line.candidate()).map(|way| way.parts.as_slice());
            parts.is_some_and(|parts| parts.contains(&Part::Os(OsMetric::PeakRss)))
        };
        let of_sources: Vec<_> = opened.sources.iter_mut().map(|source| source.counters()).collect();
        let first = |next: &mut usize, counters: &Vec<_>| {
            let first = *next;
            *next += counters.len();
            Some(first)
        };
        let first_of_source = of_sources.iter().scan(0, first).collect();
        let counters: Vec<ThreadCounter> = of_sources
            .into_iter()
            .flatten()
            .map(|counter| ThreadCounter {
                is_peak: is_peak(counter.slot),
                longest_ns: longest(plan, counter.slot, longest_window).map(nanos),
                counter,
            })
            .collect();
        let kinds = counters
            .iter()
            .map(|counter| CounterKind { is_peak: counter.is_peak, longest_ns: counter.longest_ns });
        let (number, kinds) = (counters.len(), kinds.collect());
        let totals = ThreadTotals { counters, refused: opened.refused, ..ThreadTotals::default() };
        ThreadState {
            sources: opened.sources,
            first_of_source,
            counters: number,
            kinds,
            birth: Birth::now(),
            labels: HashMap::new(),
            starts: vec![Raw::LOST; number * ROOM],
            ended_before: vec![0; ROOM],
            free: (0..ROOM).rev().collect(),
            ends: Vec::with_capacity(number),
            base: vec![Raw::default(); number],
            ended: 0,
            totals: Arc::new(Mutex::new(totals)),
        }
    }

    /// The index of a label, which is added if necessary.
    pub(crate) fn label(&mut self, label: &str) -> usize {
        if let Some(known) = self.labels.get(label) {
            return *known;
        }
        let sums = vec![CounterSum::default(); self.counters];
        let mut totals = lock(&self.totals);
        totals.labels.push(LabelTotals { label: label.into(), sums, ..LabelTotals::default() });
        let number = totals.labels.len() - 1;
        drop(totals);
        self.labels.insert(label.into(), number);
        number
    }

    /// Begins a region; reading the counters is the last action.
    pub(crate) fn begin(&mut self, label: usize) -> RegionFrame {
        let frame = self.free.pop().unwrap_or_else(|| self.more_room());
        if let Some(label) = lock(&self.totals).labels.get_mut(label) {
            label.open += 1;
        }
        self.ended_before[frame] = self.ended;
        self.read();
        let row = frame * self.counters;
        self.starts[row..row + self.counters].copy_from_slice(&self.ends);
        RegionFrame { label, frame }
    }

    /// Ends a region; reading the counters is the first action. With `told`, the region's own counts are
    /// returned.
    pub(crate) fn end(&mut self, frame: RegionFrame, told: bool) -> Option<EndedRegion> {
        self.read();
        if !self.birth.is_here() {
            self.ends.fill(Raw::LOST);
        }
        let inner = self.ended - self.ended_before[frame.frame];
        self.ended += 1;
        let row = frame.frame * self.counters;
        let starts = &self.starts[row..row + self.counters];
        let mut totals = lock(&self.totals);
        if !self.birth.is_here() {
            totals.trouble.get_or_insert(MissingReason::Forked);
        }
        let mut lasted_too_long = false;
        let mut own = told.then(|| Vec::with_capacity(self.counters));
        if let Some(label) = totals.labels.get_mut(frame.label) {
            label.open = label.open.saturating_sub(1);
            label.calls += 1;
            label.inner += inner;
            let reads = starts.iter().zip(&self.ends).zip(&self.kinds);
            for (((start, end), kind), sum) in reads.zip(&mut label.sums) {
                let counted = CounterSum::between(*start, *end, *kind);
                lasted_too_long |= counted.is_too_long(*kind);
                let counted = if counted.is_too_long(*kind) { CounterSum::LOST } else { counted };
                sum.add(counted, kind.is_peak);
                own.iter_mut().for_each(|own| own.push(counted));
            }
        }
        if lasted_too_long {
            totals.trouble.get_or_insert(MissingReason::RegionTooLong);
        }
        drop(totals);
        self.free.push(frame.frame);
        own.map(|sums| EndedRegion { sums, inner })
    }

    /// The counts of an open region up to now.
    pub(crate) fn so_far(&mut self, frame: RegionFrame) -> EndedRegion {
        self.read();
        if !self.birth.is_here() {
            self.ends.fill(Raw::LOST);
        }
        let row = frame.frame * self.counters;
        let reads = self.starts[row..row + self.counters].iter().zip(&self.ends).zip(&self.kinds);
        let counted = |((start, end), kind): ((&Raw, &Raw), &CounterKind)| {
            let counted = CounterSum::between(*start, *end, *kind);
            if counted.is_too_long(*kind) { CounterSum::LOST } else { counted }
        };
        let sums = reads.map(counted).collect();
        EndedRegion { sums, inner: self.ended - self.ended_before[frame.frame] }
    }

    /// The counts since the counters were opened, or since the last reset.
    pub(crate) fn since_opened(&mut self) -> Vec<CounterSum> {
        self.read();
        let reads = self.base.iter().zip(&self.ends).zip(&self.kinds);
        reads.map(|((base, end), kind)| CounterSum::between(*base, *end, *kind)).collect()
    }

    /// The positions of an event's counters: the source, and the index among its counters.
    pub(crate) fn places(&self, slot: cyclometer_core::SlotId) -> Vec<(usize, usize)> {
        let totals = lock(&self.totals);
        let place = |(i, counter): (usize, &ThreadCounter)| {
            let source = self.first_of_source.iter().rposition(|first| *first <= i)?;
            (counter.counter.slot == slot).then(|| (source, i - self.first_of_source[source]))
        };
        totals.counters.iter().enumerate().filter_map(place).collect()
    }

    /// The sum of the raw values at these positions; `None` where one is lost.
    pub(crate) fn value(&mut self, places: &[(usize, usize)]) -> Option<u64> {
        if !self.birth.is_here() {
            return None;
        }
        let mut sum = 0u64;
        for (source, counter) in places {
            sum = sum.wrapping_add(self.sources.get_mut(*source)?.value(*counter).ok()??);
        }
        Some(sum)
    }

    /// Makes this moment the start of [`ThreadState::since_opened`].
    pub(crate) fn rebase(&mut self) {
        self.read();
        self.base.clone_from(&self.ends);
    }

    /// Removes every label.
    pub(crate) fn forget_labels(&mut self) {
        self.labels.clear();
        lock(&self.totals).labels.clear();
    }

    /// Reads every counter into `ends`.
    pub(crate) fn read(&mut self) {
        self.ends.clear();
        for source in &mut self.sources {
            if let Err(error) = source.sample(&mut self.ends) {
                lock(&self.totals).trouble.get_or_insert_with(|| error.to_string().into());
                self.ends.clear();
                break;
            }
        }
        // If a source fails, all of its values are lost. Those of the others are lost too, so that all rows
        // have the same length.
        self.ends.resize(self.counters, Raw::LOST);
    }

    fn more_room(&mut self) -> usize {
        let frame = self.ended_before.len();
        self.ended_before.push(0);
        self.starts.resize(self.starts.len() + self.counters, Raw::LOST);
        frame
    }
}

/// The longest region that a counter can measure. Registers that the kernel writes to preserve their contents
/// only for a while, and energy counters wrap.
fn longest(plan: &Plan, slot: cyclometer_core::SlotId, window: Option<Duration>) -> Option<Duration> {
    let parts = plan.lines.get(slot.0).and_then(|line| line.candidate()).map(|way| way.parts.as_slice());
    let pauses = parts.unwrap_or_default().iter().filter_map(|part| match part {
        Part::Energy(zone) => Some(zone.longest_pause()),
        _ => None,
    });
    pauses.min().or(window.filter(|_| is_short_lived(plan, slot)))
}

/// Whether an event is counted by registers that the kernel writes to as well.
fn is_short_lived(plan: &Plan, slot: cyclometer_core::SlotId) -> bool {
    let way = plan.lines.get(slot.0).and_then(|line| line.candidate());
    way.is_some_and(|way| way.rung == Rung::Sysreg)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Ignores poisoning: a panic in another thread cannot corrupt the numbers, because no code panics while it
/// changes them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
