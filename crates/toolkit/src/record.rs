//! RecordRun: a row of counts for each window of a run, as `cyclometer record` does.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use cyclometer_backend::kdebug::least_period;
use cyclometer_backend::{Launcher, code_mappings, thread_name};
use cyclometer_core::code_memory::{CodeMemory, CodeMemoryChange};
use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::Reading;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::report::Run;
use cyclometer_core::skipped::{SkipReason, Skipped};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowFlags, WindowRow, WindowSpec, WindowThread,
};
use cyclometer_core::{
    Count, Error, ErrorKind, MissingReason, Modes, Part, Plan, Provenance, Recovery, Report, Result, Rung,
    Scope, Slot, SlotId, Unit,
};
use cyclometer_session::{Moment, Observer};
use cyclometer_stats::{difference, latest, settle, settle_interval, settle_slices};

use crate::Stat;

/// Describes a recording; nothing is opened before [`RecordRun::run`].
#[derive(Clone, Debug)]
pub struct RecordRun {
    stat: Stat,
    end: RowEnd,
}

/// Where rows end.
#[derive(Clone, PartialEq, Eq, Debug)]
enum RowEnd {
    /// After so many events; the first event is the leader.
    Events(Vec<Leader>),
    /// After this time.
    Interval(Duration),
    /// After this time of kperf's timer.
    KperfTimer(Duration),
}

/// An event at which windows end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leader {
    /// Its name, with modifiers as in a list of events. An event that is not in the list is added to it.
    pub event: String,
    /// Events from one boundary to the next.
    pub period: NonZeroU64,
}

/// A column of a recording.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedColumn {
    /// The event of the plan.
    pub slot: SlotId,
    /// The name with the modes that are counted, as `instructions:u`.
    pub name: String,
    /// The unit of scaled values.
    pub unit: Unit,
    /// The factor from a count to the unit.
    pub scale: f64,
    /// The source of the counts.
    pub source: Rung,
    /// How the source obtains them.
    pub provenance: Provenance,
    /// The modes that are counted; `None` where modes do not apply.
    pub modes: Option<Modes>,
    /// Remarks for readers of the values.
    pub notes: Vec<String>,
}

/// The recipient of a recording's rows.
pub trait RecordingSink {
    /// The columns of all rows, before the first of them.
    ///
    /// # Errors
    ///
    /// Those of the sink: nothing more is recorded, and the command goes on.
    fn begin(&mut self, columns: &[RecordedColumn], spec: &WindowSpec, plan: &Plan) -> Result<()>;

    /// The name of a thread, before its first rows and again after it executed another program. Where the
    /// source of the rows reports no names, a thread that ended before its rows were taken has none.
    ///
    /// # Errors
    ///
    /// As [`RecordingSink::begin`].
    fn thread_name(&mut self, thread: WindowThread, name: &str) -> Result<()> {
        let _ = (thread, name);
        Ok(())
    }

    /// Changes of executable memory, before the rows whose addresses they explain.
    ///
    /// # Errors
    ///
    /// As [`RecordingSink::begin`].
    fn code_memory(&mut self, changes: &[CodeMemoryChange]) -> Result<()> {
        let _ = changes;
        Ok(())
    }

    /// Rows, and how many were lost since the rows before.
    ///
    /// # Errors
    ///
    /// As [`RecordingSink::begin`].
    fn rows(&mut self, rows: &[WindowRow], lost: u64) -> Result<()>;
}

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The run, with the totals.
    pub report: Report,
    /// Where rows ended.
    pub spec: WindowSpec,
    /// The columns.
    pub columns: Vec<RecordedColumn>,
    /// The count of each column over the whole run.
    pub totals: Vec<Count>,
    /// The part of each total that no row has, except the row [`WindowCause::Unassigned`].
    pub unassigned: Vec<Count>,
    /// Number of rows, without those that were lost.
    pub rows: u64,
    /// Rows that were lost.
    pub lost_rows: u64,
    /// Events that have no column, each with the reason.
    pub without_column: Vec<(String, String)>,
    /// Notes of the source on what windows contain.
    pub notes: Vec<String>,
    /// The error of the sink that ended the recording early.
    pub sink_error: Option<Error>,
}

impl RecordRun {
    /// A recording with a row for every `period` events of the leader. The measurement has one run and no
    /// warm-ups, and its list of events has the leader's.
    pub fn every(stat: Stat, leader: Leader) -> RecordRun {
        RecordRun { stat, end: RowEnd::Events(vec![leader]) }
    }

    /// A recording with a row for each length of time.
    pub fn interval(stat: Stat, interval: Duration) -> RecordRun {
        RecordRun { stat, end: RowEnd::Interval(interval) }
    }

    /// A recording with a row for each thread that has a CPU when kperf's timer expires, which is every
    /// `period`; at least [`least_timer_period`]. kperf counts all events of the measurement.
    pub fn kperf_timer(stat: Stat, period: Duration) -> RecordRun {
        RecordRun { stat: stat.backend(Some(Rung::Kperf)), end: RowEnd::KperfTimer(period) }
    }

    /// Ends windows also at this event; an interval is not combined with events.
    pub fn also(mut self, leader: Leader) -> RecordRun {
        if let RowEnd::Events(leaders) = &mut self.end {
            leaders.push(leader);
        }
        self
    }

    /// Records.
    ///
    /// # Errors
    ///
    /// Those of [`Stat::run`] and [`RecordRun::check`]; `ErrorKind::EventUnsupported` for a leader whose
    /// source has no windows of this target.
    pub fn run(&self, launcher: &Launcher, sink: &mut dyn RecordingSink) -> Result<Recorded> {
        let (stat, spec) = self.planned()?;
        let mut recorder = Recorder::new(sink, spec);
        let report = stat.run(launcher, &mut recorder)?;
        let mut recorded = recorder.finish(report);
        recorded.notes.extend(self.raised_period());
        Ok(recorded)
    }

    /// Whether every leader is counted here, by a source that can have windows.
    ///
    /// # Errors
    ///
    /// `ErrorKind::UnknownEvent` for a leader that is no event, `ErrorKind::InvalidInput` for several events
    /// in place of one, and `ErrorKind::EventUnsupported` for one that is not counted here, or not by such a
    /// source.
    pub fn check(&self) -> Result<()> {
        self.planned().map(|_| ())
    }

    /// The measurement with its leaders, and where rows end.
    fn planned(&self) -> Result<(Stat, WindowSpec)> {
        let mut stat = self.stat.clone().runs(1).warmups(0);
        Ok(match &self.end {
            RowEnd::Interval(interval) => {
                let spec = WindowSpec::new(WindowBoundary::Interval(*interval));
                (stat.interval(*interval), spec)
            }
            RowEnd::Events(leaders) => {
                for leader in leaders {
                    stat = stat.leading(&leader.event)?;
                }
                let plan = stat.plan()?;
                let boundaries = leaders.iter().map(|leader| boundary(&stat, leader, &plan));
                let boundaries = boundaries.collect::<Result<_>>()?;
                let spec = WindowSpec { boundaries, most_rows: WindowSpec::MOST_ROWS };
                (stat.windows(spec.clone()), spec)
            }
            RowEnd::KperfTimer(period) => {
                is_counted(&stat.plan()?)?;
                let period = (*period).max(least_timer_period());
                let spec = WindowSpec::new(WindowBoundary::Timer { source: Rung::Kperf, period });
                (stat.windows(spec.clone()), spec)
            }
        })
    }

    /// The note that the timer's period is longer than the requested one.
    fn raised_period(&self) -> Option<String> {
        let (RowEnd::KperfTimer(period), least) = (&self.end, least_timer_period()) else { return None };
        let us = least.as_micros();
        (*period < least).then(|| format!("the period is {us} µs, the shortest that macOS's timer has"))
    }
}

/// Whether kperf counts an event of a plan.
fn is_counted(plan: &Plan) -> Result<()> {
    let reason = |line: &PlanLine| match &line.outcome {
        Outcome::NotCounted(count) => count.reason(),
        _ => None,
    };
    if plan.lines.is_empty() || plan.lines.iter().any(|line| reason(line).is_none()) {
        return Ok(());
    }
    let reason = plan.lines.iter().find_map(reason).unwrap_or_default();
    Err(Error::new(ErrorKind::EventUnsupported, format!("rows cannot end at kperf's timer: {reason}"))
        .with_recovery(Recovery::fix("record a row for each length of time: --interval 10")))
}

/// The shortest period of [`RecordRun::kperf_timer`]: the kernel raises shorter ones, and does not say so.
///
/// # Source
///
/// xnu `osfmk/kperf/kptimer.c`, on arm64.
pub fn least_timer_period() -> Duration {
    least_period(false)
}

fn boundary(stat: &Stat, leader: &Leader, plan: &Plan) -> Result<WindowBoundary> {
    let index = stat.position_of(&leader.event)?;
    let obstacle = |reason: &str| {
        let text = format!("rows cannot end at {}: {reason}", leader.event);
        let fix = "record a row for each length of time: --interval 10";
        Error::new(ErrorKind::EventUnsupported, text).with_recovery(Recovery::fix(fix))
    };
    let Some(line) = index.and_then(|index| plan.lines.get(index)) else {
        return Err(obstacle("it is not among the events"));
    };
    if let Outcome::NotCounted(count) = &line.outcome {
        return Err(obstacle(&count.reason().unwrap_or_default()));
    }
    match line.candidate().map(|candidate| candidate.rung) {
        // Accounts and clocks have no interrupts; a better source was skipped for a reason.
        Some(Rung::SelfCounts) if line.skipped.iter().any(is_of_whole_cpus) => {
            Err(obstacle("macOS's sums raise no interrupt; as root, choose the counters: --backend kperf"))
        }
        Some(Rung::Gpu) => Err(obstacle("the driver of a GPU raises no interrupt")),
        Some(Rung::Os | Rung::SelfCounts) => match line.skipped.iter().find(|s| !s.is_of_other_system()) {
            Some(skipped) => Err(obstacle(&format!("{}: {}", skipped.rung, skipped.reason))),
            None => Err(obstacle("accounts of the operating system raise no interrupt")),
        },
        _ => Ok(WindowBoundary::Events { slot: SlotId(index.unwrap_or_default()), period: leader.period }),
    }
}

/// Whether kperf works, and was skipped because it counts whole CPUs.
fn is_of_whole_cpus(skipped: &Skipped) -> bool {
    skipped.reason == SkipReason::CountsWholeCpus
}

/// The first address of kernels of 64 bits: user space ends below.
const FIRST_OF_KERNEL: u64 = 1 << 63;

/// How long the mappings of a process are taken for complete. Reading them takes some tens of µs.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Passes rows on, and adds them up.
struct Recorder<'a> {
    sink: &'a mut dyn RecordingSink,
    spec: WindowSpec,
    columns: Option<Columns>,
    rows: u64,
    lost_rows: u64,
    /// The last reading of an interval, and the number of slices until then.
    before: Reading,
    slices: usize,
    /// Threads whose names the sink knows, as far as they have one.
    named: BTreeSet<WindowThread>,
    code_memory: CodeMemory,
    /// When the mappings of a process were read.
    looked_at: BTreeMap<u32, Instant>,
    notes: Vec<String>,
    /// The part of each total that no row has; empty until the run ends.
    unassigned: Vec<Count>,
    sink_error: Option<Error>,
}

/// The columns of a recording.
struct Columns {
    columns: Vec<RecordedColumn>,
    without_column: Vec<(String, String)>,
    /// The sum of each column over all rows; `None` if a row has no value.
    sums: Vec<Option<u64>>,
}

impl Columns {
    /// The events of the pass: for intervals all, for windows those of the leader's source.
    fn of(spec: &WindowSpec, plan: &Plan) -> Columns {
        let slots = plan.passes.first().map(|pass| pass.slots.as_slice()).unwrap_or_default();
        let leader = spec.boundaries.iter().find_map(|boundary| match boundary {
            WindowBoundary::Events { slot, .. } => slots.iter().find(|held| held.id == *slot),
            WindowBoundary::Interval(_) | WindowBoundary::Timer { .. } => None,
        });
        let timer = spec.boundaries.iter().find_map(|boundary| match boundary {
            WindowBoundary::Timer { source, .. } => Some(*source),
            _ => None,
        });
        let source = leader.map(|leader| leader.rung).or(timer);
        let is_peak = |slot: &Slot| slot.parts.iter().any(|part| matches!(part, Part::Os(OsMetric::PeakRss)));
        let has_column = |slot: &&Slot| match source {
            _ if is_peak(slot) => false,
            Some(source) => slot.rung == source && slot.twin_of.is_none(),
            None => true,
        };
        let own = slots.iter().filter(has_column);
        let columns: Vec<RecordedColumn> =
            own.filter_map(|slot| column(slot.id, plan.lines.get(slot.id.0)?)).collect();
        let has_none = |index: usize| columns.iter().all(|column| column.slot != SlotId(index));
        let lines = plan.lines.iter().enumerate().filter(|(index, _)| has_none(*index));
        let without_column = lines.map(|(index, line)| (line.label(), reason(line, index, plan, source)));
        let without_column = without_column.collect();
        let sums = vec![Some(0); columns.len()];
        Columns { columns, without_column, sums }
    }

    fn add(&mut self, row: &WindowRow) {
        for (sum, count) in self.sums.iter_mut().zip(&row.counts) {
            *sum = sum.and_then(|sum| sum.checked_add(count.value()?));
        }
    }
}

/// Why an event has no column.
fn reason(line: &PlanLine, index: usize, plan: &Plan, source: Option<Rung>) -> String {
    let in_pass = plan.passes.iter().flat_map(|pass| &pass.slots).find(|slot| slot.id == SlotId(index));
    match (&line.outcome, in_pass, source) {
        (Outcome::NotCounted(count), ..) => count.reason().unwrap_or_default(),
        (_, Some(slot), _) if slot.twin_of.is_some() => "another column has the same event".to_owned(),
        (_, Some(slot), Some(source)) => {
            format!("{} counts it, and the windows are those of {source}", slot.rung)
        }
        (_, Some(_), None) => "a peak is no sum of rows".to_owned(),
        _ => "it is counted in another run".to_owned(),
    }
}

fn column(slot: SlotId, line: &PlanLine) -> Option<RecordedColumn> {
    let candidate = line.candidate()?;
    Some(RecordedColumn {
        slot,
        name: line.label(),
        unit: line.event.unit.clone(),
        scale: candidate.scale,
        source: candidate.rung,
        provenance: candidate.provenance,
        modes: line.effective_modes(),
        notes: line.event.notes.clone(),
    })
}

impl<'a> Recorder<'a> {
    fn new(sink: &'a mut dyn RecordingSink, spec: WindowSpec) -> Recorder<'a> {
        let before = Reading::default();
        Recorder {
            sink,
            spec,
            columns: None,
            rows: 0,
            lost_rows: 0,
            before,
            slices: 0,
            named: BTreeSet::new(),
            code_memory: CodeMemory::default(),
            looked_at: BTreeMap::new(),
            notes: Vec::new(),
            unassigned: Vec::new(),
            sink_error: None,
        }
    }

    /// The columns; the first call tells the sink of them.
    fn columns(&mut self, plan: &Plan) -> &mut Columns {
        if self.columns.is_none() {
            let columns = Columns::of(&self.spec, plan);
            self.sink_error = self.sink.begin(&columns.columns, &self.spec, plan).err();
            self.columns = Some(columns);
        }
        self.columns.get_or_insert_with(|| Columns::of(&self.spec, plan))
    }

    /// Passes rows on, unless the sink has failed.
    fn pass_on(&mut self, rows: &[WindowRow], lost: u64, plan: &Plan) {
        self.pass_on_batch(&RowBatch { rows: rows.to_vec(), lost, ..RowBatch::default() }, plan);
    }

    /// Passes on what explains rows, then the rows, unless the sink has failed.
    fn pass_on_batch(&mut self, batch: &RowBatch, plan: &Plan) {
        let RowBatch { names, code_memory, rows, lost } = batch;
        let columns = self.columns(plan);
        rows.iter().for_each(|row| columns.add(row));
        let of_source = rows.iter().find(|row| row.cause == WindowCause::Unassigned);
        of_source.into_iter().for_each(|row| self.unassigned.clone_from(&row.counts));
        self.lost_rows += lost;
        if self.sink_error.is_some() || *batch == RowBatch::default() {
            return;
        }
        let told = self.tell_code(code_memory, rows).and_then(|()| self.name_threads(names, rows));
        if let Err(error) = told {
            self.sink_error = Some(error);
            return;
        }
        match self.sink.rows(rows, *lost) {
            Ok(()) => {
                self.rows += rows.iter().filter(|row| row.cause != WindowCause::Unassigned).count() as u64;
            }
            Err(error) => self.sink_error = Some(error),
        }
    }

    /// Tells the sink the changes of executable memory. A source that reports none, or not that of processes
    /// which were there before, leaves addresses without a mapping: those of the process are read then.
    fn tell_code(&mut self, changes: &[CodeMemoryChange], rows: &[WindowRow]) -> Result<()> {
        changes.iter().for_each(|change| self.code_memory.apply(change));
        if !changes.is_empty() {
            self.sink.code_memory(changes)?;
        }
        for pid in self.processes_without_mapping(rows) {
            let found = code_mappings(pid).into_iter().map(CodeMemoryChange::Mapped).collect::<Vec<_>>();
            found.iter().for_each(|change| self.code_memory.apply(change));
            if !found.is_empty() {
                self.sink.code_memory(&found)?;
            }
        }
        Ok(())
    }

    /// Processes with an address that is in no known mapping, unless they were looked at just before.
    fn processes_without_mapping(&mut self, rows: &[WindowRow]) -> BTreeSet<u32> {
        let unknown = rows.iter().filter_map(|row| {
            let (pid, address) = (row.thread?.pid, row.address?);
            (address < FIRST_OF_KERNEL && self.code_memory.place(pid, address).is_none()).then_some(pid)
        });
        let unknown: BTreeSet<u32> = unknown.collect();
        let now = Instant::now();
        let is_due = |pid: &u32| {
            let before = self.looked_at.get(pid);
            before.is_none_or(|before| now.duration_since(*before) > LOOK_AGAIN)
        };
        let due: BTreeSet<u32> = unknown.into_iter().filter(is_due).collect();
        self.looked_at.extend(due.iter().map(|pid| (*pid, now)));
        due
    }

    /// Tells the sink the names of threads that are new, or execute another program. Those that the source
    /// does not report are read now.
    fn name_threads(&mut self, names: &[(WindowThread, String)], rows: &[WindowRow]) -> Result<()> {
        for (thread, name) in names {
            self.named.insert(*thread);
            self.sink.thread_name(*thread, name)?;
        }
        for row in rows {
            let Some(thread) = row.thread else { continue };
            if row.cause == WindowCause::Exec {
                self.named.remove(&thread);
            } else if self.named.insert(thread)
                && let Some(name) = thread_name(thread)
            {
                self.sink.thread_name(thread, &name)?;
            }
        }
        Ok(())
    }

    /// The row between two moments.
    fn interval_row(&mut self, moment: &Moment<'_>, plan: &Plan, cause: WindowCause) {
        let slots: Vec<SlotId> = self.columns(plan).columns.iter().map(|column| column.slot).collect();
        let slices = moment.slices.get(self.slices..).unwrap_or_default();
        let since = difference(moment.reading, &self.before);
        let count = |slot: &SlotId| {
            settle_slices(plan, moment.pass, slices, &since, *slot, Scope::Tree).unwrap_or_else(|| {
                settle_interval(&plan.lines[slot.0], moment.reading, &self.before, *slot, Scope::Tree)
            })
        };
        let row = WindowRow {
            thread: None,
            cpu: None,
            time_ns: Some(moment.elapsed_ns),
            address: None,
            cause,
            counts: slots.iter().map(count).collect(),
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags::default(),
        };
        self.before = latest(moment.reading, &self.before);
        self.slices = moment.slices.len();
        self.pass_on(&[row], 0, plan);
    }

    fn is_by_time(&self) -> bool {
        matches!(self.spec.boundaries[..], [WindowBoundary::Interval(_)])
    }

    /// A row with the events that no window has, if there are any.
    fn unassigned(&mut self, run: &Run, plan: &Plan) {
        let Some(columns) = &self.columns else { return };
        // A source that knows what its windows lack has a row for it.
        if !self.unassigned.is_empty() {
            return;
        }
        let (mut counts, mut notes) = (Vec::new(), Vec::new());
        for (column, rows) in columns.columns.iter().zip(&columns.sums) {
            let line = &plan.lines[column.slot.0];
            let total = settle(line, &run.reading, column.slot, Scope::Tree);
            counts.push(unassigned(line, &total, *rows));
            notes.extend(launch_note(column, &total, *rows));
        }
        self.notes.extend(notes);
        self.unassigned.clone_from(&counts);
        let says_something = |count: &Count| !matches!(count, Count::Exact(0) | Count::NotCounted { .. });
        if !counts.iter().any(says_something) {
            return;
        }
        let row = WindowRow {
            thread: None,
            cpu: None,
            time_ns: Some(run.wall_ns),
            address: None,
            cause: WindowCause::Unassigned,
            counts,
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags::default(),
        };
        self.pass_on(&[row], 0, plan);
    }

    fn finish(self, report: Report) -> Recorded {
        let Recorder { columns, rows, lost_rows, notes, unassigned, sink_error, spec, .. } = self;
        let Columns { columns, without_column, .. } =
            columns.unwrap_or_else(|| Columns::of(&spec, &report.plan));
        let total = |column: &RecordedColumn| match report.runs.first() {
            Some(run) => settle(&report.plan.lines[column.slot.0], &run.reading, column.slot, Scope::Tree),
            None => Count::NotCounted { reason: MissingReason::RunNotEnded },
        };
        let totals = columns.iter().map(total).collect();
        Recorded {
            totals,
            unassigned,
            spec,
            columns,
            rows,
            lost_rows,
            without_column,
            notes,
            sink_error,
            report,
        }
    }
}

/// A note that rows of an account have more than its total.
fn launch_note(column: &RecordedColumn, total: &Count, rows: Option<u64>) -> Option<String> {
    let more = rows?.checked_sub(total.value()?).filter(|more| *more > 0)?;
    (column.source == Rung::Os).then(|| {
        let RecordedColumn { name, unit, .. } = column;
        let unit = if *unit == Unit::Count { String::new() } else { format!(" {}", unit.symbol()) };
        format!(
            "{name}: the rows have {more}{unit} more than the total: they contain the launch of the command"
        )
    })
}

/// The part of a total that the rows do not have. The accounts of a command contain its launch, which the
/// total does not: the rows may have a little more.
fn unassigned(line: &PlanLine, total: &Count, rows: Option<u64>) -> Count {
    let is_account = line.candidate().is_some_and(|candidate| candidate.rung == Rung::Os);
    if line.candidate().is_some_and(|candidate| candidate.gauge().is_some()) {
        return Count::NotCounted { reason: MissingReason::MeanOfRows };
    }
    if let Count::Scaled { .. } = total {
        return Count::NotCounted { reason: MissingReason::EstimatedTotal };
    }
    match (total.value(), rows) {
        (Some(total), Some(rows)) => match total.checked_sub(rows) {
            Some(left) => Count::Exact(left),
            None if is_account => Count::Exact(0),
            None => Count::Lost { reason: MissingReason::RowsAboveRun { rows, run: total } },
        },
        (None, _) => total.clone(),
        (_, None) => Count::Lost { reason: MissingReason::RowWithoutCount },
    }
}

impl Observer for Recorder<'_> {
    fn interval(&mut self, moment: &Moment<'_>, plan: &Plan) {
        if self.is_by_time() {
            self.interval_row(moment, plan, WindowCause::Boundary(0));
        }
    }

    fn windows(&mut self, batch: &RowBatch, plan: &Plan) {
        self.pass_on_batch(batch, plan);
    }

    fn window_notes(&mut self, notes: Vec<String>) {
        self.notes.extend(notes);
    }

    fn run_finished(&mut self, run: &Run, plan: &Plan) {
        if self.is_by_time() {
            let moment = Moment {
                elapsed_ns: run.wall_ns,
                pass: run.pass,
                reading: &run.reading,
                slices: &run.slices,
            };
            self.interval_row(&moment, plan, WindowCause::End);
        }
        self.unassigned(run, plan);
    }
}
