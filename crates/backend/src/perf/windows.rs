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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use cyclometer_core::code_memory::{CodeMapping, CodeMemoryChange};
use cyclometer_core::exec::{At, Reading, RefusalKind};
use cyclometer_core::reason::{PerfRefusal, RefusalReason};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, WindowThread, Windowing,
    WindowingState,
};
use cyclometer_core::{Count, MissingReason, PartReason, Refusal, Result, Slot, SlotId, Target};
use cyclometer_sys::perf::monotonic_ns;
use cyclometer_sys::process::check_process_list;
use cyclometer_sys::ring::{ForkRecord, MappingRecord, TaskRecord};

use super::overflow::{FurtherPeriod, OverflowRecord, OverflowSample, OverflowSampling, Overflows};

/// Pages of each ring: some 600 samples, and little of the memory that a user may lock.
const RING_PAGES: usize = 16;

/// Pages of the ring of a CPU. All tasks of the CPU share it, and there are few.
const CPU_RING_PAGES: usize = 64;

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
    let leaders = leaders(slots, spec)?;
    let Some((first, further)) = leaders.split_first() else {
        return Err(Refusal::of_target(RefusalKind::TargetNotSupported, PerfRefusal::WindowsByTime));
    };
    let leader = slots.iter().find(|held| held.id == first.slot).ok_or_else(|| not_among(first.slot))?;
    let members = slots.iter().filter(|held| held.id != first.slot).cloned().collect();
    let mut windows = PerfWindows {
        leader: leader.clone(),
        members,
        order: slots.iter().map(|slot| slot.id).collect(),
        period: first.period_events,
        further: further.to_vec(),
        boundaries: leaders.clone(),
        follows: matches!(on, Target::Child(_) | Target::Process { .. }),
        lists: check_process_list().is_ok(),
        seen: BTreeSet::new(),
        missed: 0,
        groups: BTreeMap::new(),
        kept: RowsByOverflow { most: spec.most_rows, ..RowsByOverflow::default() },
        code_memory: Vec::new(),
        began_ns: monotonic_ns(),
        state: RecordingState::Opened,
        notes: BTreeSet::new(),
    };
    match on {
        Target::Process { pid, .. } => windows.open_process(*pid)?,
        Target::Thread(tid) => windows.open_on(Some(thread_of(*tid)), on)?,
        Target::Child(pid) => windows.open_on(Some(WindowThread { pid: *pid, tid: *pid }), on)?,
        Target::Cpus(_) => windows.open_on(None, on)?,
        _ => {
            let reason = PerfRefusal::WindowsOfOtherTarget;
            return Err(Refusal::of_target(RefusalKind::TargetNotSupported, reason));
        }
    }
    Ok(windows)
}

/// The events at whose periods windows end, in the order of the boundaries.
fn leaders(slots: &[Slot], spec: &WindowSpec) -> std::result::Result<Vec<FurtherPeriod>, Refusal> {
    let leader = |boundary: &WindowBoundary| match *boundary {
        WindowBoundary::Events { slot, .. } if slots.iter().all(|held| held.id != slot) => {
            Err(not_among(slot))
        }
        WindowBoundary::Events { slot, period } => Ok(FurtherPeriod { slot, period_events: period }),
        WindowBoundary::Interval(_) | WindowBoundary::Timer { .. } => {
            Err(Refusal::of_target(RefusalKind::TargetNotSupported, PerfRefusal::WindowsByTime))
        }
    };
    spec.boundaries.iter().map(leader).collect()
}

fn not_among(slot: SlotId) -> Refusal {
    Refusal::of_slot(slot, RefusalKind::Invalid, RefusalReason::LeaderNotAmongEvents)
}

/// Open windows of a target.
pub(super) struct PerfWindows {
    leader: Slot,
    members: Vec<Slot>,
    /// The slots in the order of a row's counts.
    order: Vec<SlotId>,
    period: NonZeroU64,
    /// Members of the group that end windows, too.
    further: Vec<FurtherPeriod>,
    /// The slots of the boundaries with their periods, in their order.
    boundaries: Vec<FurtherPeriod>,
    /// Whether threads that begin are followed.
    follows: bool,
    /// Whether `/proc` is that of our PID namespace: else its ids are those of others.
    lists: bool,
    /// Threads that have been opened, or could not be.
    seen: BTreeSet<u32>,
    /// Threads that ended before their group was open.
    missed: u64,
    /// The groups by thread; `None` for those of CPUs.
    groups: BTreeMap<Option<u32>, ThreadGroup>,
    kept: RowsByOverflow,
    /// Changes of executable memory that wait to be taken.
    code_memory: Vec<CodeMemoryChange>,
    /// The start, in ns of the monotonic clock.
    began_ns: u64,
    state: RecordingState,
    notes: BTreeSet<String>,
}

/// The progress of a recording.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordingState {
    Opened,
    Running,
    Stopped,
}

/// Rows that wait to be taken.
#[derive(Default)]
struct RowsByOverflow {
    rows: VecDeque<WindowRow>,
    most: usize,
    /// Rows that were lost since the last batch.
    lost: u64,
    /// Rows of each thread that had no room, since its last row that had.
    dropped: BTreeMap<Option<WindowThread>, u64>,
}

/// The groups of one thread, or of CPUs.
struct ThreadGroup {
    overflows: Overflows,
    /// The thread; `None` for CPUs.
    thread: Option<WindowThread>,
    /// One for each place: a CPU, a PMU of a hybrid.
    places: Vec<PlaceState>,
    /// Records that the kernel has reported as lost so far, at all places.
    lost_records: u64,
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
    /// Records that the kernel lost since: samples, switches and others.
    lost_records: u64,
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
        // Threads may begin while the list is read; another list has them.
        loop {
            let new: Vec<WindowThread> =
                threads_of(pid).into_iter().filter(|thread| !self.seen.contains(&thread.tid)).collect();
            if new.is_empty() {
                break;
            }
            for thread in new {
                match self.open_thread(thread) {
                    Err(refusal) if refusal.kind == RefusalKind::NoSuchTarget => {}
                    opened => opened?,
                }
            }
        }
        if self.groups.is_empty() {
            return Err(Refusal::of_target(RefusalKind::NoSuchTarget, PerfRefusal::ProcessEnded { pid }));
        }
        Ok(())
    }

    fn open_thread(&mut self, thread: WindowThread) -> std::result::Result<(), Refusal> {
        self.seen.insert(thread.tid);
        self.open_on(Some(thread), &Target::Thread(thread.tid))
    }

    fn open_on(&mut self, thread: Option<WindowThread>, on: &Target) -> std::result::Result<(), Refusal> {
        let how = OverflowSampling {
            ring_pages: if thread.is_some() { RING_PAGES } else { CPU_RING_PAGES },
            for_windows: true,
            ..OverflowSampling::every(self.period)
        };
        let overflows = Overflows::open_several(&self.leader, &self.members, &self.further, on, how)?;
        let group = ThreadGroup { overflows, thread, places: Vec::new(), lost_records: 0, has_ended: false };
        self.seen.extend(thread.map(|thread| thread.tid));
        self.groups.insert(thread.map(|thread| thread.tid), group);
        Ok(())
    }

    /// Follows new threads, and those that they created before their groups were open.
    fn follow(&mut self, mut new: Vec<WindowThread>) {
        while let Some(thread) = new.pop() {
            if self.seen.contains(&thread.tid) {
                continue;
            }
            if self.groups.len() >= MOST_THREADS {
                self.notes.insert(format!(
                    "some threads have no rows: more than {MOST_THREADS} ran at the same time"
                ));
                return;
            }
            let opened = self.open_thread(thread);
            match opened.map(|()| self.groups.get(&Some(thread.tid)).map(|group| group.overflows.start())) {
                Ok(Some(Err(error))) => self.without_rows(&error.to_string()),
                Ok(_) if self.lists => new.extend(relatives(thread.pid)),
                Ok(_) => {}
                Err(refusal) if refusal.kind == RefusalKind::NoSuchTarget => self.missed += 1,
                Err(refusal) => self.without_rows(&refusal.reason.to_string()),
            }
        }
    }

    fn without_rows(&mut self, reason: &str) {
        self.notes.insert(format!("some threads have no rows: {reason}"));
    }

    fn note_full_ring(&mut self) {
        let lost = if self.follows { "rows and the begin of threads" } else { "rows" };
        self.notes.insert(format!("a buffer of the kernel was full: {lost} were lost"));
    }

    /// Takes all records out of all rings, and follows the threads that they report. A group that cannot be
    /// read any more costs its own rows only.
    fn collect(&mut self) {
        loop {
            let (mut new, mut lost) = (Vec::new(), None);
            for group in self.groups.values_mut() {
                match group.collect(&self.order, &self.boundaries, &mut new, &mut self.code_memory) {
                    Ok(rows) => rows.into_iter().for_each(|row| keep(row, &mut self.kept, self.began_ns)),
                    Err(error) => {
                        group.has_ended = true;
                        lost = Some(error.to_string());
                    }
                }
            }
            if self.groups.values().any(|group| group.lost_records > 0) {
                self.note_full_ring();
            }
            self.groups.retain(|_, group| !group.has_ended);
            lost.iter().for_each(|reason| self.without_rows(reason));
            // An id that a fork reports is of a new thread, also where another one had it.
            new.retain(|thread: &WindowThread| !self.groups.contains_key(&Some(thread.tid)));
            self.seen.retain(|tid| new.iter().all(|thread| thread.tid != *tid));
            if new.is_empty() || !self.follows || self.state == RecordingState::Stopped {
                return;
            }
            self.follow(new);
        }
    }
}

fn mapped(record: MappingRecord) -> CodeMapping {
    let MappingRecord { pid, start, len, offset, file } = record;
    CodeMapping { pid, start, len, offset, file: String::from_utf8_lossy(&file).into_owned() }
}

fn keep(mut row: WindowRow, kept: &mut RowsByOverflow, began_ns: u64) {
    row.time_ns = row.time_ns.map(|time| time.saturating_sub(began_ns));
    kept.lost += row.flags.lost_before;
    if kept.rows.len() < kept.most {
        row.flags.lost_before += kept.dropped.remove(&row.thread).unwrap_or(0);
        kept.rows.push_back(row);
    } else {
        kept.lost += 1;
        *kept.dropped.entry(row.thread).or_default() += 1 + row.flags.lost_before;
    }
}

/// A thread with its process; where `/proc` does not tell the process, the thread's own id stands for it.
fn thread_of(tid: u32) -> WindowThread {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    WindowThread { pid: pid.unwrap_or(tid), tid }
}

/// The threads of a process.
fn threads_of(pid: u32) -> Vec<WindowThread> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let tids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    tids.map(|tid| WindowThread { pid, tid }).collect()
}

/// The threads of a process, and the processes that they created, each by its first thread.
///
/// # Source
///
/// `proc(5)`, `/proc/PID/task/TID/children`.
fn relatives(pid: u32) -> Vec<WindowThread> {
    let threads = threads_of(pid);
    let children = threads.iter().flat_map(|thread| {
        let listed = fs::read_to_string(format!("/proc/{pid}/task/{}/children", thread.tid));
        let listed = listed.unwrap_or_default();
        let ids: Vec<u32> = listed.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect();
        ids.into_iter().map(|pid| WindowThread { pid, tid: pid })
    });
    let children: Vec<WindowThread> = children.collect();
    threads.into_iter().chain(children).collect()
}

impl ThreadGroup {
    /// The rows of all records in the rings; threads that began go to `new`.
    fn collect(
        &mut self,
        order: &[SlotId],
        boundaries: &[FurtherPeriod],
        new: &mut Vec<WindowThread>,
        code_memory: &mut Vec<CodeMemoryChange>,
    ) -> Result<Vec<WindowRow>> {
        let ThreadGroup { overflows, thread, places, lost_records, .. } = self;
        let (mut rows, mut ended_ns) = (Vec::new(), None);
        overflows.drain(|taken| match taken {
            OverflowRecord::Sample(sample) => {
                rows.extend(place(places, *thread, &sample.at).sample(&sample, order, boundaries))
            }
            OverflowRecord::Lost { at, records } => {
                *lost_records += records;
                place(places, *thread, &at).lost_records += records;
            }
            OverflowRecord::Throttled { at, .. } | OverflowRecord::Unthrottled { at, .. } => {
                place(places, *thread, &at).flags.throttled = true;
            }
            OverflowRecord::Forked(ForkRecord { task: TaskRecord { pid, tid, .. }, parent_pid }) => {
                new.push(WindowThread { pid, tid });
                let forked =
                    (pid != parent_pid).then_some(CodeMemoryChange::Forked { pid, parent: parent_pid });
                code_memory.extend(forked);
            }
            OverflowRecord::Mapped(mapping) => code_memory.push(CodeMemoryChange::Mapped(mapped(mapping))),
            OverflowRecord::Executed { pid } => code_memory.push(CodeMemoryChange::Executed { pid }),
            OverflowRecord::Ended { task, .. } => {
                let is_own = thread.is_some_and(|own| own.tid == task.tid);
                ended_ns = ended_ns.or(is_own.then_some(task.time_ns));
            }
            OverflowRecord::SwitchedOut { at } => place(places, *thread, &at).switched_out(),
            OverflowRecord::SwitchedIn { at, cpu } => place(places, *thread, &at).switched_in(cpu),
        })?;
        if let Some(ended_ns) = ended_ns {
            rows.extend(self.last_rows(order, boundaries, ended_ns)?);
            self.has_ended = true;
        }
        Ok(rows)
    }

    /// The rows from the last boundaries to the end at this time.
    fn last_rows(
        &mut self,
        order: &[SlotId],
        boundaries: &[FurtherPeriod],
        ended_ns: u64,
    ) -> Result<Vec<WindowRow>> {
        let reading = self.overflows.counts()?;
        // A record of losses comes with the next record that has room: of the last ones there is none.
        let unreported = self.overflows.lost()?.unwrap_or(0).saturating_sub(self.lost_records);
        self.lost_records += unreported;
        let mut rows = Vec::new();
        for (at, counts) in by_place(&reading) {
            place(&mut self.places, self.thread, &at).lost_records += unreported;
            let end = WindowFinish { cause: WindowCause::End, time_ns: Some(ended_ns), address: None };
            rows.extend(place(&mut self.places, self.thread, &at).row(counts, end, order, boundaries));
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
            lost_records: 0,
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

    fn sample(
        &mut self,
        sample: &OverflowSample,
        order: &[SlotId],
        boundaries: &[FurtherPeriod],
    ) -> Option<WindowRow> {
        let reached = boundaries.iter().position(|boundary| boundary.slot == sample.slot).unwrap_or(0);
        self.cpu = sample.cpu;
        let counts = GroupCounts {
            values: sample.values.iter().copied().collect(),
            enabled_ns: sample.time_enabled_ns?,
            running_ns: sample.time_running_ns?,
        };
        let (time_ns, address) = (sample.time_ns, sample.ip);
        let end = WindowFinish { cause: WindowCause::Boundary(reached), time_ns, address };
        self.row(counts, end, order, boundaries)
    }

    /// The row since the last boundary; none if nothing was counted since.
    fn row(
        &mut self,
        now: GroupCounts,
        end: WindowFinish,
        order: &[SlotId],
        boundaries: &[FurtherPeriod],
    ) -> Option<WindowRow> {
        let enabled_ns = now.enabled_ns.saturating_sub(self.enabled_ns);
        let running_ns = now.running_ns.saturating_sub(self.running_ns);
        let count = |slot: &SlotId| match now.values.get(slot) {
            Some(value) => {
                let before = self.values.get(slot).copied().unwrap_or(0);
                counted(*value, before, self.flags.throttled)
            }
            None => {
                Count::NotCounted { reason: MissingReason::NotOnPmu { pmu: self.at.counted_by().to_owned() } }
            }
        };
        let counts: Vec<Count> = order.iter().map(count).collect();
        let nothing = enabled_ns == 0 && counts.iter().all(|count| count.value().unwrap_or(0) == 0);
        let switches = self.flags.switches.map(|_| 0);
        let fresh = WindowFlags { switches, migrations: switches, ..WindowFlags::default() };
        let mut flags = std::mem::replace(&mut self.flags, fresh);
        let lost_records = std::mem::take(&mut self.lost_records);
        if lost_records > 0 {
            let ended_by_one = u64::from(matches!(end.cause, WindowCause::Boundary(_)));
            let passed = periods_passed(&self.values, &now.values, boundaries);
            flags.lost_before = passed.saturating_sub(ended_by_one).min(lost_records);
            // Switches may be among the lost records.
            (flags.switches, flags.migrations) = (None, None);
        }
        (self.values, self.enabled_ns, self.running_ns) = (now.values, now.enabled_ns, now.running_ns);
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

/// How many ends of periods are between two readings of a group. The kernel counts lost records, and not how
/// many of them are samples: the others are switches, new threads and mappings.
fn periods_passed(
    before: &BTreeMap<SlotId, u64>,
    now: &BTreeMap<SlotId, u64>,
    boundaries: &[FurtherPeriod],
) -> u64 {
    let passed = |boundary: &FurtherPeriod| {
        let periods = |values: &BTreeMap<SlotId, u64>| {
            values.get(&boundary.slot).copied().unwrap_or(0) / boundary.period_events.get()
        };
        periods(now).saturating_sub(periods(before))
    };
    boundaries.iter().map(passed).fold(0, u64::saturating_add)
}

/// The count between two values. A pinned group is on counters whenever its PMU's cores run the thread, so a
/// value is never extrapolated: on a hybrid, the time on other cores belongs to the group of their PMU.
fn counted(now: u64, before: u64, throttled: bool) -> Count {
    match now.checked_sub(before) {
        None => Count::Lost { reason: MissingReason::WentBack },
        Some(raw) if throttled => Count::Partial { raw, part: PartReason::Throttled },
        Some(raw) => Count::Exact(raw),
    }
}

impl Windowing for PerfWindows {
    fn start(&mut self) -> Result<()> {
        self.began_ns = monotonic_ns();
        self.state = RecordingState::Running;
        self.groups.values().try_for_each(|group| group.overflows.start())?;
        // Disabled events report no forks, so what began between opening and start is looked for.
        let known: BTreeSet<u32> = self.groups.values().filter_map(|group| Some(group.thread?.pid)).collect();
        if self.follows && self.lists {
            self.follow(known.into_iter().flat_map(relatives).collect());
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if self.state == RecordingState::Stopped {
            return Ok(());
        }
        self.state = RecordingState::Stopped;
        let stopped: Vec<Result<()>> = self.groups.values().map(|group| group.overflows.stop()).collect();
        let stopped_ns = monotonic_ns();
        self.collect();
        for mut group in std::mem::take(&mut self.groups).into_values() {
            match group.last_rows(&self.order, &self.boundaries, stopped_ns) {
                Ok(rows) => rows.into_iter().for_each(|row| keep(row, &mut self.kept, self.began_ns)),
                Err(error) => self.without_rows(&error.to_string()),
            }
            if group.lost_records > 0 {
                self.note_full_ring();
            }
        }
        stopped.into_iter().collect()
    }

    fn next(&mut self, until: Instant, batch: &mut RowBatch) -> Result<WindowingState> {
        loop {
            self.collect();
            let is_over = match self.state {
                RecordingState::Opened => false,
                RecordingState::Running => self.groups.is_empty(),
                RecordingState::Stopped => true,
            };
            if !self.kept.rows.is_empty() || is_over || Instant::now() >= until {
                batch.code_memory.append(&mut self.code_memory);
                batch.rows.extend(self.kept.rows.drain(..));
                batch.lost += std::mem::take(&mut self.kept.lost);
                return Ok(if is_over { WindowingState::Ended } else { WindowingState::Open });
            }
            std::thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now())));
        }
    }

    fn notes(&self) -> Vec<String> {
        let missed = (self.missed > 0).then(|| {
            let s = if self.missed == 1 { "" } else { "s" };
            format!("{} thread{s} ended before counters could be opened for rows", self.missed)
        });
        self.notes.iter().cloned().chain(missed).collect()
    }
}
