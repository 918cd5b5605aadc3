//! Clocks and accounting of the operating system, which are always available.

mod accounts;
mod energy;
mod procfs;
mod subject;

use std::time::{Duration, Instant};

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::{At, Cell, CounterAt, Exit, Raw, ReadWay, Reading, RefusalKind, Usage};
use cyclometer_core::reason::{EventFamily, RefusalReason};
use cyclometer_core::{
    Counting, MissingReason, Part, PartReason, Refusal, Result, Rung, Slot, SlotId, Source, Target,
};

use accounts::Accounts;
use energy::EnergyMeter;
use subject::Subject;

/// Reads what the system accounts for: times, faults, switches, peak resident set, energy.
///
/// # Source
///
/// `getrusage(2)`; `proc_pid_stat(5)`, `proc_pid_status(5)`, `proc_stat(5)`; Linux
/// `Documentation/admin-guide/cgroup-v2.rst`, `Documentation/ABI/testing/sysfs-class-powercap`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsSource;

impl OsSource {
    /// The source.
    pub fn new() -> OsSource {
        OsSource
    }
}

impl Source for OsSource {
    fn rung(&self) -> Rung {
        Rung::Os
    }

    fn open(&self, slots: &[Slot], on: &Target) -> std::result::Result<Box<dyn Counting>, Refusal> {
        let subject = Subject::of(on)?;
        let (mut lines, mut meters) = (Vec::new(), Vec::new());
        for slot in slots {
            for (part, what) in slot.parts.iter().enumerate() {
                match what {
                    Part::Energy(zone) => meters.push(EnergyMeter::open(slot, part, zone)?),
                    what => lines.push(line(slot, part, what, &subject)?),
                }
            }
        }
        Ok(Box::new(OsCounting {
            lines,
            meters,
            subject,
            base: None,
            last: None,
            started: None,
            stopped: false,
            exit: None,
            missed: None,
        }))
    }
}

fn line(
    slot: &Slot,
    part: usize,
    what: &Part,
    subject: &Subject,
) -> std::result::Result<RequestedMetric, Refusal> {
    match what {
        Part::Os(metric) if subject.accounts_for(*metric) => {
            Ok(RequestedMetric { slot: slot.id, part, metric: *metric })
        }
        Part::Os(_) => {
            Err(Refusal::of_slot(slot.id, RefusalKind::TargetNotSupported, subject.without(&slot.name)))
        }
        _ => {
            let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of: EventFamily::Os };
            Err(Refusal::of_slot(slot.id, RefusalKind::Invalid, reason))
        }
    }
}

/// One requested value.
#[derive(Clone, Copy, Debug)]
struct RequestedMetric {
    slot: SlotId,
    part: usize,
    metric: OsMetric,
}

/// The last reading, and its time.
#[derive(Clone, Copy, Debug)]
struct LastReading {
    /// Values since the start.
    accounts: Accounts,
    elapsed: Duration,
}

struct OsCounting {
    lines: Vec<RequestedMetric>,
    /// The counters of energy, behind the lines.
    meters: Vec<EnergyMeter>,
    subject: Subject,
    base: Option<Accounts>,
    last: Option<LastReading>,
    started: Option<Instant>,
    stopped: bool,
    exit: Option<Exit>,
    /// Time from the last reading of a target that has gone to the first failed one.
    missed: Option<Duration>,
}

/// Below 1 s the granularity of times in ticks matters.
const TICKS_SHOW_BELOW_NS: u64 = 1_000_000_000;

impl OsCounting {
    /// Reads again until it is stopped or the target has ended; a value that cannot be read any more keeps
    /// its last state.
    fn refresh(&mut self) {
        if self.stopped || self.exit.is_some() {
            return;
        }
        self.meters.iter_mut().for_each(EnergyMeter::refresh);
        let (Some(started), Some(base)) = (self.started, self.base) else { return };
        let Some(now) = self.subject.take() else {
            let last = self.last.map(|last| last.elapsed);
            self.missed = self.missed.or_else(|| Some(started.elapsed().saturating_sub(last?)));
            return;
        };
        let last = self.last.map(|last| last.accounts);
        let accounts = now.since(base).or(last).with_peak_of(last);
        (self.last, self.missed) = (Some(LastReading { accounts, elapsed: started.elapsed() }), None);
    }

    fn cell(&self, line: RequestedMetric) -> Option<Cell> {
        let (value, elapsed_ns) = match line.metric {
            OsMetric::WallTime => (Some(self.wall_ns()?), self.wall_ns()?),
            metric => self.accounted(metric)?,
        };
        let lost = value.is_none().then(|| MissingReason::EndedUnread { target: self.subject.to_string() });
        let time = if lost.is_some() { 0 } else { elapsed_ns.max(1) };
        let at = At { part: line.part, tid: self.subject.tid(), ..At::default() };
        let (slot, raw) = (line.slot, value.unwrap_or(0));
        let partial = value.and_then(|value| self.partial(line.metric, value));
        Some(Cell { slot, at, raw, time_enabled_ns: time, time_running_ns: time, lost, partial })
    }

    /// The last reading of a value.
    fn raw(&self, metric: OsMetric) -> Raw {
        let read = match metric {
            OsMetric::WallTime => self.wall_ns().map(|ns| (Some(ns), ns)),
            metric => self.accounted(metric),
        };
        match read {
            Some((Some(value), over_ns)) => Raw {
                value,
                time_enabled_ns: over_ns.max(1),
                time_running_ns: over_ns.max(1),
                is_lost: self.missed.is_some(),
            },
            _ => Raw::LOST,
        }
    }

    /// A value and the time over which it was read. No value means lost; `None` means not yet read.
    fn accounted(&self, metric: OsMetric) -> Option<(Option<u64>, u64)> {
        if let Some((exit, usage)) = self.usage() {
            let accounts = Accounts::from(usage).with_peak_of(self.last.map(|last| last.accounts));
            return Some((accounts.value(metric), exit.wall_ns));
        }
        let taken =
            self.last.and_then(|last| Some((Some(last.accounts.value(metric)?), nanos(last.elapsed))));
        let over = self.stopped || self.exit.is_some();
        taken.or_else(|| over.then_some((None, 0)))
    }

    /// The total usage of a child that has ended.
    fn usage(&self) -> Option<(&Exit, Usage)> {
        let exit = self.exit.as_ref().filter(|_| matches!(self.subject, Subject::Child(_)))?;
        Some((exit, exit.usage?))
    }

    /// Why a value is coarse or incomplete.
    fn partial(&self, metric: OsMetric, value: u64) -> Option<PartReason> {
        if metric == OsMetric::WallTime || self.usage().is_some() {
            return None;
        }
        let is_time = matches!(metric, OsMetric::UserTime | OsMetric::SystemTime | OsMetric::CpuTime);
        let coarse = self.subject.ticks().filter(|_| is_time && value < TICKS_SHOW_BELOW_NS);
        let notes = [
            coarse.map(|ticks| PartReason::InSteps { per_second: ticks.per_second }),
            self.subject.leaves_children_out().then_some(PartReason::WithoutChildren),
            self.subject.missed().or_else(|| {
                let ms = self.missed?.as_millis();
                Some(PartReason::ReadBeforeEnd { ms })
            }),
        ];
        PartReason::all(notes.into_iter().flatten())
    }

    fn wall_ns(&self) -> Option<u64> {
        match (&self.exit, self.stopped, self.last) {
            (Some(exit), _, _) => Some(exit.wall_ns),
            (None, true, Some(last)) => Some(nanos(last.elapsed)),
            _ => self.started.map(|started| nanos(started.elapsed())),
        }
    }
}

impl Counting for OsCounting {
    fn start(&mut self) -> Result<()> {
        (self.last, self.stopped, self.exit, self.missed) = (None, false, None, None);
        self.base = self.subject.base();
        self.meters.iter_mut().for_each(EnergyMeter::start);
        self.started = Some(Instant::now());
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.refresh();
        self.stopped = true;
        Ok(())
    }

    fn exited(&mut self, exit: &Exit) {
        // Only a child's usage is the final count; the end of any other target only sets the duration.
        match self.subject {
            Subject::Child(_) if !self.stopped => self.meters.iter_mut().for_each(EnergyMeter::refresh),
            Subject::Child(_) => {}
            _ => self.refresh(),
        }
        self.exit = Some(exit.clone());
    }

    fn read(&mut self, out: &mut Reading) -> Result<()> {
        self.refresh();
        out.cells.extend(self.lines.iter().filter_map(|line| self.cell(*line)));
        let over_ns = self.wall_ns().unwrap_or(0);
        out.cells.extend(self.meters.iter().map(|meter| meter.cell(over_ns)));
        Ok(())
    }

    fn longest_pause(&self) -> Option<Duration> {
        self.meters.iter().map(EnergyMeter::longest_pause).min()
    }

    fn counters(&mut self) -> Vec<CounterAt> {
        self.refresh();
        let counter = |line: &RequestedMetric| {
            let partial = self.cell(*line).and_then(|cell| cell.partial);
            let at = At { part: line.part, tid: self.subject.tid(), ..At::default() };
            CounterAt { slot: line.slot, at, way: ReadWay::Kernel(None), partial }
        };
        let mut counters: Vec<CounterAt> = self.lines.iter().map(counter).collect();
        counters.extend(self.meters.iter().map(EnergyMeter::counter));
        counters
    }

    fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
        self.refresh();
        out.extend(self.lines.iter().map(|line| self.raw(line.metric)));
        let over_ns = self.wall_ns().unwrap_or(0);
        out.extend(self.meters.iter().map(|meter| meter.raw(over_ns)));
        Ok(())
    }

    fn value(&mut self, counter: usize) -> Result<Option<u64>> {
        self.refresh();
        let meter = || self.meters.get(counter.checked_sub(self.lines.len())?).map(|meter| meter.raw(1));
        let line = self.lines.get(counter).map(|line| self.raw(line.metric));
        let raw = line.or_else(meter).unwrap_or(Raw::LOST);
        Ok((!raw.is_lost).then_some(raw.value))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
