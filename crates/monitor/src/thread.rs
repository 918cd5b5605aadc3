//! The counters of one thread, and the regions that are open in it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::Raw;
use cyclometer_core::{Counting, Part, Plan, Rung};
use cyclometer_sys::fork::Birth;

use crate::monitor::Shared;
use crate::opening::Opened;
use crate::totals::{Counter, Kind, LabelTotals, Sum, ThreadTotals};

/// How many regions may be open at once in a thread before memory is allocated for more.
const ROOM: usize = 16;

/// What a region needs of its thread.
pub(crate) type Here = Rc<RefCell<ThreadState>>;

thread_local! {
    /// This thread's counters, one for each monitor that it has regions of.
    static THREADS: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

struct Entry {
    monitor: u64,
    alive: Weak<Shared>,
    here: Here,
}

/// The counters that this thread has open for a monitor; they are opened where there are none. `None` while the thread ends.
pub(crate) fn here(shared: &Arc<Shared>) -> Option<Here> {
    THREADS
        .try_with(|threads| {
            let mut threads = threads.try_borrow_mut().ok()?;
            let found = threads.iter().position(|entry| entry.monitor == shared.id);
            if let Some(i) = found {
                let here = &threads[i].here;
                if here.try_borrow().is_ok_and(|state| state.birth.is_here()) {
                    return Some(Rc::clone(here));
                }
                threads.remove(i);
            }
            close_orphans(&mut threads);
            let here = Rc::new(RefCell::new(shared.open_here()));
            threads.push(Entry { monitor: shared.id, alive: Arc::downgrade(shared), here: Rc::clone(&here) });
            Some(here)
        })
        .ok()
        .flatten()
}

/// Closes counters of this thread whose monitors are gone: they would take counters from others.
pub(crate) fn prune() {
    let _ =
        THREADS.try_with(|threads| threads.try_borrow_mut().map(|mut threads| close_orphans(&mut threads)));
}

fn close_orphans(threads: &mut Vec<Entry>) {
    threads.retain(|entry| entry.alive.strong_count() > 0);
}

/// Makes the counters that were opened for building a monitor those of the calling thread.
pub(crate) fn adopt(shared: &Arc<Shared>, state: ThreadState) -> Here {
    let here = Rc::new(RefCell::new(state));
    let entry = Entry { monitor: shared.id, alive: Arc::downgrade(shared), here: Rc::clone(&here) };
    let _ = THREADS.try_with(|threads| threads.try_borrow_mut().map(|mut threads| threads.push(entry)));
    here
}

/// The counters of a thread.
pub(crate) struct ThreadState {
    sources: Vec<Box<dyn Counting>>,
    /// The number of each source's first counter.
    first_of_source: Vec<usize>,
    counters: usize,
    kinds: Vec<Kind>,
    pub(crate) birth: Birth,
    labels: HashMap<Box<str>, usize>,
    /// Values at the starts of open regions: one row of `counters` for each frame.
    starts: Vec<Raw>,
    /// How many regions had ended when each frame's began.
    ended_before: Vec<u64>,
    /// Frames that no region uses.
    free: Vec<usize>,
    /// Room for the values at an end.
    ends: Vec<Raw>,
    /// Values at the last reset.
    base: Vec<Raw>,
    /// Regions that have ended in this thread.
    ended: u64,
    pub(crate) totals: Arc<Mutex<ThreadTotals>>,
}

/// A region that is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) label: usize,
    frame: usize,
}

/// What one region counted.
pub(crate) struct Ended {
    pub(crate) sums: Vec<Sum>,
    pub(crate) inner: u64,
}

impl ThreadState {
    pub(crate) fn new(plan: &Plan, mut opened: Opened, longest_window: Option<Duration>) -> ThreadState {
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
        let counters: Vec<Counter> = of_sources
            .into_iter()
            .flatten()
            .map(|counter| Counter {
                is_peak: is_peak(counter.slot),
                longest_ns: longest(plan, counter.slot, longest_window).map(nanos),
                counter,
            })
            .collect();
        let kinds =
            counters.iter().map(|counter| Kind { is_peak: counter.is_peak, longest_ns: counter.longest_ns });
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

    /// The number of a label, which is made where there is none.
    pub(crate) fn label(&mut self, label: &str) -> usize {
        if let Some(known) = self.labels.get(label) {
            return *known;
        }
        let sums = vec![Sum::default(); self.counters];
        let mut totals = lock(&self.totals);
        totals.labels.push(LabelTotals { label: label.into(), sums, ..LabelTotals::default() });
        let number = totals.labels.len() - 1;
        drop(totals);
        self.labels.insert(label.into(), number);
        number
    }

    /// Begins a region: the counters are read last.
    pub(crate) fn begin(&mut self, label: usize) -> Frame {
        let frame = self.free.pop().unwrap_or_else(|| self.more_room());
        lock(&self.totals).open += 1;
        self.ended_before[frame] = self.ended;
        self.read();
        let row = frame * self.counters;
        self.starts[row..row + self.counters].copy_from_slice(&self.ends);
        Frame { label, frame }
    }

    /// Ends a region: the counters are read first. With `told` its own counts are handed back.
    pub(crate) fn end(&mut self, frame: Frame, told: bool) -> Option<Ended> {
        self.read();
        if !self.birth.is_here() {
            self.ends.fill(Raw::LOST);
        }
        let inner = self.ended - self.ended_before[frame.frame];
        self.ended += 1;
        let row = frame.frame * self.counters;
        let starts = &self.starts[row..row + self.counters];
        let mut totals = lock(&self.totals);
        totals.open = totals.open.saturating_sub(1);
        if !self.birth.is_here() {
            totals.trouble.get_or_insert_with(|| FORKED.to_owned());
        }
        let mut lasted_too_long = false;
        let mut own = told.then(|| Vec::with_capacity(self.counters));
        if let Some(label) = totals.labels.get_mut(frame.label) {
            label.calls += 1;
            label.inner += inner;
            let reads = starts.iter().zip(&self.ends).zip(&self.kinds);
            for (((start, end), kind), sum) in reads.zip(&mut label.sums) {
                let counted = Sum::between(*start, *end, *kind);
                lasted_too_long |= counted.is_too_long(*kind);
                let counted = if counted.is_too_long(*kind) { Sum::LOST } else { counted };
                sum.add(counted, kind.is_peak);
                own.iter_mut().for_each(|own| own.push(counted));
            }
        }
        if lasted_too_long {
            totals.trouble.get_or_insert_with(|| TOO_LONG.to_owned());
        }
        drop(totals);
        self.free.push(frame.frame);
        own.map(|sums| Ended { sums, inner })
    }

    /// What an open region has counted up to now.
    pub(crate) fn so_far(&mut self, frame: Frame) -> Ended {
        self.read();
        if !self.birth.is_here() {
            self.ends.fill(Raw::LOST);
        }
        let row = frame.frame * self.counters;
        let reads = self.starts[row..row + self.counters].iter().zip(&self.ends).zip(&self.kinds);
        let counted = |((start, end), kind): ((&Raw, &Raw), &Kind)| {
            let counted = Sum::between(*start, *end, *kind);
            if counted.is_too_long(*kind) { Sum::LOST } else { counted }
        };
        let sums = reads.map(counted).collect();
        Ended { sums, inner: self.ended - self.ended_before[frame.frame] }
    }

    /// What was counted since the counters were opened, or since the last reset.
    pub(crate) fn since_opened(&mut self) -> Vec<Sum> {
        self.read();
        let reads = self.base.iter().zip(&self.ends).zip(&self.kinds);
        reads.map(|((base, end), kind)| Sum::between(*base, *end, *kind)).collect()
    }

    /// Where an event's counters are: which source, and which of its counters.
    pub(crate) fn places(&self, slot: cyclometer_core::SlotId) -> Vec<(usize, usize)> {
        let totals = lock(&self.totals);
        let place = |(i, counter): (usize, &Counter)| {
            let source = self.first_of_source.iter().rposition(|first| *first <= i)?;
            (counter.counter.slot == slot).then(|| (source, i - self.first_of_source[source]))
        };
        totals.counters.iter().enumerate().filter_map(place).collect()
    }

    /// The sum of the raw values at these places; `None` where one is lost.
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

    /// Lets [`ThreadState::since_opened`] begin at this moment.
    pub(crate) fn rebase(&mut self) {
        self.read();
        self.base.clone_from(&self.ends);
    }

    /// Forgets every label.
    pub(crate) fn forget_labels(&mut self) {
        self.labels.clear();
        lock(&self.totals).labels.clear();
    }

    /// Reads every counter into `ends`.
    pub(crate) fn read(&mut self) {
        self.ends.clear();
        for source in &mut self.sources {
            if let Err(error) = source.sample(&mut self.ends) {
                lock(&self.totals).trouble.get_or_insert_with(|| error.to_string());
                self.ends.clear();
                break;
            }
        }
        // Of a source that failed all values are lost, and so that rows stay rows, those of the others too.
        self.ends.resize(self.counters, Raw::LOST);
    }

    fn more_room(&mut self) -> usize {
        let frame = self.ended_before.len();
        self.ended_before.push(0);
        self.starts.resize(self.starts.len() + self.counters, Raw::LOST);
        frame
    }
}

/// Why a region of before a fork has no counts after it.
const FORKED: &str = "the process forked within the region: the counters stayed with the parent";

/// Why a region has no counts of registers that the kernel writes to as well, or of energy.
const TOO_LONG: &str =
    "the region lasted longer than its counters keep what they count (registers: max_monitor_duration_us)";

/// How long a region may be of which a counter tells: registers that the kernel writes to keep their contents for so long, and
/// counters of energy begin anew.
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

/// A panic in another thread does not spoil numbers: nothing panics while they are changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
