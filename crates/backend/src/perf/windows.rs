//! Windows by leader sampling: each overflow of the leader gives the counts of its whole group.
//!
//! # Problem
//!
//! The kernel counts overflows of inherited events for each thread *and CPU*, and gives inherited events no
//! ring unless they are bound to a CPU. Windows of threads need a group for each thread, which nobody
//! inherits.
//!
//! ```text
//!   first thread   group ── ring ──> samples, switches, forks ──┐
//!   second thread  group ── ring ──> …            opened when its fork is read
//!   the totals are those of inherited counters beside ([`PerfSource::open`](super::PerfSource))
//! ```
//!
//! The groups are pinned: where there are too few counters for both, the totals share counters in rotation,
//! and windows do not.
//!
//! A thread's events before its group is open are in no window. The totals have them, and the recording
//! reports the difference as unassigned.
//!
//! # Source
//!
//! Linux `kernel/events/core.c`, `perf_mmap` and `perf_event_overflow`; `perf_event_open(2)`,
//! `PERF_SAMPLE_READ`.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use cyclometer_core::exec::{At, Reading, RefusalKind};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, WindowThread, Windowing,
    WindowingState,
};
use cyclometer_core::{Count, Interval, Refusal, Result, Slot, SlotId, Target};
use cyclometer_sys::perf::monotonic_ns;

use super::overflow::{OverflowRecord, OverflowSample, OverflowSampling, Overflows};
use super::refusal;

/// Pages of each ring: some 600 samples, and little of the memory that a user may lock.
const RING_PAGES: usize = 16;

/// How long a wait for rows sleeps.
const PAUSE: Duration = Duration::from_millis(1);

/// Most threads that are followed at the same time: each has an open group.
const MOST_THREADS: usize = 4096;

/// Opens windows on a target.
pub(super) fn open(
    slots: &[Slot],
    on: &Target,
    spec: &WindowSpec,
) -> std::result::Result<PerfWindows, Refusal> {
    let [WindowBoundary::Events { slot, period }] = spec.boundaries[..] else {
        let text = "perf's windows end at one event";
        return Err(refusal::of_target(RefusalKind::TargetNotSupported, text.to_owned()));
    };
    let leader = slots.iter().find(|held| held.id == slot).ok_or_else(|| {
        refusal::of_slot(slot, RefusalKind::Invalid, "the leader is not among the events".to_owned())
    })?;
    let members = slots.iter().filter(|held| held.id != slot).cloned().collect();
    let mut windows = PerfWindows {
        leader: leader.clone(),
        members,
        order: slots.iter().map(|slot| slot.id).collect(),
        period,
        most_rows: spec.most_rows,
        follows: matches!(on, Target::Child(_) | Target::Process { .. }),
        groups: BTreeMap::new(),
        rows: VecDeque::new(),
        lost: 0,
        dropped: BTreeMap::new(),
        began_ns: monotonic_ns(),
        has_started: false,
        has_stopped: false,
        notes: Vec::new(),
    };
    match on {
        Target::Process { pid, .. } => windows.open_process(*pid)?,
        Target::Thread(tid) => windows.open_on(Some(thread_of(*tid)), on)?,
        Target::Child(pid) => windows.open_on(Some(WindowThread { pid: *pid, tid: *pid }), on)?,
        Target::Cpus(_) => windows.open_on(None, on)?,
        _ => {
            let text = "perf records windows of one command, process or thread, or of CPUs";
            return Err(refusal::of_target(RefusalKind::TargetNotSupported, text.to_owned()));
        }
    }
    Ok(windows)
}

/// Open windows of a target.
pub(super) struct PerfWindows {
    leader: Slot,
    members: Vec<Slot>,
    /// The slots in the order of a row's counts.
    order: Vec<SlotId>,
    period: NonZeroU64,
    most_rows: usize,
    /// Whether threads that begin are followed.
    follows: bool,
    /// The groups by thread; those of CPUs are at 0.
    groups: BTreeMap<u32, ThreadGroup>,
    rows: VecDeque<WindowRow>,
    /// Rows that were lost since the last batch.
    lost: u64,
    /// Rows of each thread that had no room, since its last row that had.
    dropped: BTreeMap<Option<WindowThread>, u64>,
    /// The start, in ns of the monotonic clock.
    began_ns: u64,
    has_started: bool,
    has_stopped: bool,
    notes: Vec<String>,
}

/// The groups of one thread, or of CPUs.
struct ThreadGroup {
    overflows: Overflows,
    /// The thread; `None` for CPUs.
    thread: Option<WindowThread>,
    /// One for each place: a CPU, a PMU of a hybrid.
    places: Vec<PlaceState>,
    has_ended: bool,
}

/// The last boundary at a place, and what happened since.
struct PlaceState {
    at: At,
    thread: Option<WindowThread>,
    /// The counts at the last boundary, by slot.
    values: BTreeMap<SlotId, u64>,
    enabled_ns: u64,
    running_ns: u64,
    /// The CPU of the last switch or sample.
    cpu: Option<u32>,
    flags: WindowFlags,
}

/// The counts of a group at one moment.
struct GroupCounts {
    values: BTreeMap<SlotId, u64>,
    enabled_ns: u64,
    running_ns: u64,
}

/// The end of a window.
struct WindowFinish {
    cause: WindowCause,
    time_ns: Option<u64>,
    address: Option<u64>,
}

impl PerfWindows {
    fn open_process(&mut self, pid: u32) -> std::result::Result<(), Refusal> {
        let mut opened = Err(None);
        // Threads may begin while the list is read; another list has them.
        loop {
            let new: Vec<u32> =
                threads_of(pid).into_iter().filter(|tid| !self.groups.contains_key(tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match self.open_on(Some(WindowThread { pid, tid }), &Target::Thread(tid)) {
                    Ok(()) => opened = Ok(()),
                    Err(refusal) if refusal.kind == RefusalKind::NoSuchTarget => {}
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        opened.map_err(|refusal: Option<Refusal>| {
            let text = format!("process {pid} does not exist, or has ended");
            refusal.unwrap_or_else(|| refusal::of_target(RefusalKind::NoSuchTarget, text))
        })
    }

    fn open_on(&mut self, thread: Option<WindowThread>, on: &Target) -> std::result::Result<(), Refusal> {
        let how = OverflowSampling {
            ring_pages: RING_PAGES,
            for_windows: true,
            ..OverflowSampling::every(self.period)
        };
        let overflows = Overflows::open(&self.leader, &self.members, on, how)?;
        let group = ThreadGroup { overflows, thread, places: Vec::new(), has_ended: false };
        self.groups.insert(thread.map_or(0, |thread| thread.tid), group);
        Ok(())
    }

    /// Follows a new thread. One that has ended already has no windows.
    fn follow(&mut self, thread: WindowThread) {
        let tid = thread.tid;
        if !self.follows || self.groups.contains_key(&tid) {
            return;
        }
        let problem = match self.groups.len() < MOST_THREADS {
            true => match self.open_on(Some(thread), &Target::Thread(tid)) {
                Ok(()) => self
                    .groups
                    .get(&tid)
                    .and_then(|group| group.overflows.start().err())
                    .map(|e| e.to_string()),
                Err(refusal) if refusal.kind == RefusalKind::NoSuchTarget => None,
                Err(refusal) => Some(refusal.text),
            },
            false => Some(format!("more than {MOST_THREADS} threads at the same time")),
        };
        if let Some(problem) = problem {
            self.note(format!("some threads have no windows: {problem}"));
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Takes all records out of all rings, and follows the threads that they report.
    fn collect(&mut self) -> Result<()> {
        loop {
            let mut new = Vec::new();
            for group in self.groups.values_mut() {
                let rows = group.collect(&self.order, &mut new)?;
                for mut row in rows {
                    self.lost += row.flags.lost_before;
                    if self.rows.len() < self.most_rows {
                        row.flags.lost_before += self.dropped.remove(&row.thread).unwrap_or(0);
                        self.rows.push_back(in_time(row, self.began_ns));
                    } else {
                        self.lost += 1;
                        *self.dropped.entry(row.thread).or_default() += 1;
                    }
                }
            }
            self.groups.retain(|_, group| !group.has_ended);
            let known = self.groups.len();
            new.into_iter().for_each(|thread| self.follow(thread));
            if self.groups.len() == known {
                return Ok(());
            }
        }
    }
}

fn in_time(mut row: WindowRow, began_ns: u64) -> WindowRow {
    row.time_ns = row.time_ns.map(|time| time.saturating_sub(began_ns));
    row
}

/// A thread with its process; where `/proc` does not tell the process, the thread's own id stands for it.
fn thread_of(tid: u32) -> WindowThread {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    WindowThread { pid: pid.unwrap_or(tid), tid }
}

/// The threads of a process.
fn threads_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

impl ThreadGroup {
    /// The rows of all records in the rings; threads that began go to `new`.
    fn collect(&mut self, order: &[SlotId], new: &mut Vec<WindowThread>) -> Result<Vec<WindowRow>> {
        let ThreadGroup { overflows, thread, places, .. } = self;
        let (mut rows, mut ended) = (Vec::new(), false);
        overflows.drain(|taken| match taken {
            OverflowRecord::Sample(sample) => {
                rows.extend(place(places, *thread, &sample.at).sample(&sample, order))
            }
            OverflowRecord::Lost { at, samples } => place(places, *thread, &at).flags.lost_before += samples,
            OverflowRecord::Throttled { at, .. } | OverflowRecord::Unthrottled { at, .. } => {
                place(places, *thread, &at).flags.throttled = true;
            }
            OverflowRecord::Forked(task) => {
                new.push(WindowThread { pid: task.pid, tid: task.tid });
            }
            OverflowRecord::Ended { task, .. } => {
                ended |= thread.is_some_and(|own| own.tid == task.tid);
            }
            OverflowRecord::SwitchedOut { at } => place(places, *thread, &at).switched_out(),
            OverflowRecord::SwitchedIn { at, cpu } => place(places, *thread, &at).switched_in(cpu),
        })?;
        if ended {
            rows.extend(self.last_rows(order)?);
            self.has_ended = true;
        }
        Ok(rows)
    }

    /// The rows from the last boundaries to now.
    fn last_rows(&mut self, order: &[SlotId]) -> Result<Vec<WindowRow>> {
        let reading = self.overflows.counts()?;
        let mut rows = Vec::new();
        for (at, counts) in by_place(&reading) {
            let end = WindowFinish { cause: WindowCause::End, time_ns: Some(monotonic_ns()), address: None };
            rows.extend(place(&mut self.places, self.thread, &at).row(counts, end, order));
        }
        Ok(rows)
    }
}

/// The state of a place; a new one has counted nothing.
fn place<'a>(places: &'a mut Vec<PlaceState>, thread: Option<WindowThread>, at: &At) -> &'a mut PlaceState {
    let known = places.iter().position(|place| place.at == *at).unwrap_or_else(|| {
        let switches = thread.map(|_| 0);
        places.push(PlaceState {
            at: at.clone(),
            thread,
            values: BTreeMap::new(),
            enabled_ns: 0,
            running_ns: 0,
            cpu: at.cpu,
            flags: WindowFlags { switches, migrations: switches, ..WindowFlags::default() },
        });
        places.len() - 1
    });
    &mut places[known]
}

/// The counts of a reading, place by place.
fn by_place(reading: &Reading) -> Vec<(At, GroupCounts)> {
    let mut places: Vec<(At, GroupCounts)> = Vec::new();
    for cell in &reading.cells {
        let known = places.iter().position(|(at, _)| *at == cell.at).unwrap_or_else(|| {
            let (enabled_ns, running_ns) = (cell.time_enabled_ns, cell.time_running_ns);
            places.push((cell.at.clone(), GroupCounts { values: BTreeMap::new(), enabled_ns, running_ns }));
            places.len() - 1
        });
        places[known].1.values.insert(cell.slot, cell.raw);
    }
    places
}

impl PlaceState {
    fn switched_out(&mut self) {
        self.flags.switches = self.flags.switches.map(|switches| switches.saturating_add(1));
    }

    fn switched_in(&mut self, cpu: Option<u32>) {
        if let (Some(now), Some(before)) = (cpu, self.cpu)
            && now != before
        {
            self.flags.migrations = self.flags.migrations.map(|moves| moves.saturating_add(1));
        }
        self.cpu = cpu.or(self.cpu);
    }

    fn sample(&mut self, sample: &OverflowSample, order: &[SlotId]) -> Option<WindowRow> {
        self.cpu = Some(sample.cpu);
        let counts = GroupCounts {
            values: sample.values.iter().copied().collect(),
            enabled_ns: sample.time_enabled_ns?,
            running_ns: sample.time_running_ns?,
        };
        let (time_ns, address) = (Some(sample.time_ns), Some(sample.ip));
        self.row(counts, WindowFinish { cause: WindowCause::Boundary(0), time_ns, address }, order)
    }

    /// The row since the last boundary; none if nothing was counted since.
    fn row(&mut self, now: GroupCounts, end: WindowFinish, order: &[SlotId]) -> Option<WindowRow> {
        let enabled_ns = now.enabled_ns.saturating_sub(self.enabled_ns);
        let running_ns = now.running_ns.saturating_sub(self.running_ns);
        let count = |slot: &SlotId| match now.values.get(slot) {
            Some(value) => {
                let before = self.values.get(slot).copied().unwrap_or(0);
                counted(*value, before, enabled_ns, running_ns)
            }
            None => Count::NotCounted { reason: format!("{} does not have the event", self.at.pmu) },
        };
        let counts: Vec<Count> = order.iter().map(count).collect();
        let nothing = enabled_ns == 0 && counts.iter().all(|count| count.value().unwrap_or(0) == 0);
        (self.values, self.enabled_ns, self.running_ns) = (now.values, now.enabled_ns, now.running_ns);
        let switches = self.flags.switches.map(|_| 0);
        let fresh = WindowFlags { switches, migrations: switches, ..WindowFlags::default() };
        let flags = std::mem::replace(&mut self.flags, fresh);
        if nothing && end.cause == WindowCause::End {
            return None;
        }
        Some(WindowRow {
            thread: self.thread,
            cpu: self.cpu,
            time_ns: end.time_ns,
            address: end.address,
            cause: end.cause,
            counts,
            enabled_ns: Some(enabled_ns),
            running_ns: Some(running_ns),
            flags,
        })
    }
}

/// The count between two values of a group that was enabled and on counters for so long.
fn counted(now: u64, before: u64, enabled_ns: u64, running_ns: u64) -> Count {
    let Some(raw) = now.checked_sub(before) else {
        return Count::Lost { reason: "the value went back".to_owned() };
    };
    if running_ns >= enabled_ns {
        return Count::Exact(raw);
    }
    if running_ns == 0 {
        return Count::NotCounted { reason: "the group was on no counter in this window".to_owned() };
    }
    let estimate = u128::from(raw) * u128::from(enabled_ns) / u128::from(running_ns);
    let reason = "a window is too short for an interval estimate".to_owned();
    Count::Scaled {
        raw,
        estimate: u64::try_from(estimate).unwrap_or(u64::MAX),
        time_enabled_ns: enabled_ns,
        time_running_ns: running_ns,
        interval: Interval::Unknown { reason },
    }
}

impl Windowing for PerfWindows {
    fn start(&mut self) -> Result<()> {
        self.began_ns = monotonic_ns();
        self.has_started = true;
        self.groups.values().try_for_each(|group| group.overflows.start())
    }

    fn stop(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_stopped, true) {
            return Ok(());
        }
        self.groups.values().try_for_each(|group| group.overflows.stop())?;
        self.collect()?;
        for group in self.groups.values_mut() {
            let rows = group.last_rows(&self.order)?;
            self.rows.extend(rows.into_iter().map(|row| in_time(row, self.began_ns)));
        }
        self.groups.clear();
        Ok(())
    }

    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        loop {
            self.collect()?;
            let is_over = self.has_stopped || (self.has_started && self.groups.is_empty());
            if !self.rows.is_empty() || is_over || Instant::now() >= until {
                batch.rows.extend(self.rows.drain(..));
                batch.lost += std::mem::take(&mut self.lost);
                return Ok(if is_over { WindowingState::Ended } else { WindowingState::Open });
            }
            std::thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
