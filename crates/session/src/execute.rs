//! One execution: release, wait, read.

use std::time::{Duration, Instant};

use cyclometer_core::exec::{Cell, Exit, ExitStatus, Reading, Signalled, Waited};
use cyclometer_core::report::Run;
use cyclometer_core::{Child, LaunchKind, MissingReason, Result, SlotId, Target};

use crate::open::OpenedPass;
use crate::open_source::OpenSource;
use crate::ready::Ready;
use crate::rotation::PassRotation;
use crate::windows::{DRAIN_EVERY, OpenWindows};
use crate::{ExecutedRun, Execution, Moment, RunningSession, nanos, nothing};

/// The signal that the terminal sends on Ctrl-C.
const SIGINT: i32 = 2;

/// The terminal's signal for Ctrl-\.
const SIGQUIT: i32 = 3;

impl RunningSession<'_, '_> {
    pub(crate) fn execute(&mut self, execution: Execution) -> Result<ExecutedRun> {
        let Ready { mut child, mut opened, launch } = self.ready(execution)?;
        if self.job.command.is_none() && opened.sources.is_empty() {
            return Err(nothing::counted(&self.report.plan, self.means.machine, self.job.target.as_ref()));
        }
        start(&mut opened.sources)?;
        opened.windows.iter_mut().try_for_each(OpenWindows::start)?;
        child.release()?;
        let pass = self.pass_of(execution);
        let (exit, interrupted) = self.attend(child.as_mut(), &mut opened, pass)?;
        self.stop_windows(&mut opened.windows);
        let mut reading = finish(&mut opened, &exit);
        self.last_windows(&mut opened.windows);
        if !execution.warmup {
            let code = opened.sources.iter_mut().filter_map(|source| source.counting.take_code());
            code.for_each(|code| self.observer.code(code));
        }
        let rotation = opened.rotation.take();
        let ended = now(child.as_ref());
        let slices = rotation.map(|rotation| rotation.end(&mut reading, &opened.sources, ended));
        let run = Run {
            index: execution.index,
            launch: if child.clock().is_some() { LaunchKind::Simulated } else { launch },
            layout: child.layout(),
            cpu_baseline: child.cpu_baseline(),
            pass,
            exit: exit.status,
            dropped_because: None,
            wall_ns: exit.wall_ns,
            reading,
            slices: slices.unwrap_or_default(),
        };
        Ok(ExecutedRun { run, interrupted, kill_cause: child.kill_cause() })
    }

    /// Waits for the end of the command. Meanwhile it reads at every interval, rotates groups and passes
    /// signals on.
    fn attend(
        &mut self,
        child: &mut dyn Child,
        opened: &mut OpenedPass,
        pass: usize,
    ) -> Result<(Exit, Option<i32>)> {
        let started = now(child);
        opened.rotation.iter_mut().for_each(|rotation| rotation.start(started));
        let mut rows = IntervalTimer::new(started, self.settings.interval);
        let mut keeping = IntervalTimer::new(started, self.keeps_values(opened));
        let mut draining = IntervalTimer::new(started, opened.windows.as_ref().map(|_| DRAIN_EVERY));
        let mut interrupted = None;
        loop {
            let slice_ends = opened.rotation.as_deref().and_then(PassRotation::due);
            let next = [rows.due, keeping.due, draining.due, slice_ends].into_iter().flatten().min();
            match child.wait(next)? {
                Waited::Exited(exit) => {
                    let interrupted = interrupted.or_else(|| self.killed_by_terminal(&exit));
                    return Ok((exit, interrupted));
                }
                Waited::TimedOut => {
                    let passed = now(child);
                    if draining.strikes(passed) {
                        self.drain_windows(&mut opened.windows);
                    }
                    let row = rows.strikes(passed);
                    // A row holds whole slices.
                    if row || slice_ends.is_some_and(|end| end <= passed) {
                        next_group(opened, &|| now(child));
                    }
                    if keeping.strikes(passed) || row {
                        let reading = read_now(opened);
                        if row {
                            self.tell(nanos(now(child) - started), pass, &reading, opened);
                        }
                    }
                }
                Waited::Interrupted(Signalled { signal, .. }) if self.job.command.is_none() => {
                    let wall_ns = nanos(now(child) - started);
                    let exit = Exit { status: None, wall_ns, usage: None };
                    return Ok((exit, Some(signal)));
                }
                Waited::Interrupted(signalled) => {
                    if !signalled.reached_command {
                        child.signal(signalled.signal);
                    }
                    interrupted = Some(signalled.signal);
                }
            }
        }
    }

    fn tell(&mut self, elapsed_ns: u64, pass: usize, reading: &Reading, opened: &OpenedPass) {
        let slices = opened.rotation.as_deref().map(PassRotation::slices).unwrap_or_default();
        self.observer.interval(&Moment { elapsed_ns, pass, reading, slices }, &self.report.plan);
    }

    /// Ctrl-C or Ctrl-\ may end the command before this process gets the signal. The session then ends as
    /// well.
    fn killed_by_terminal(&self, exit: &Exit) -> Option<i32> {
        match exit.status {
            Some(ExitStatus::Signal(signal @ (SIGINT | SIGQUIT))) if self.settings.runs > 1 => Some(signal),
            _ => None,
        }
    }

    /// The interval of reads without a report to the observer.
    ///
    /// The accounting of a process that is not our child is gone when the process ends, and a source has only
    /// its last values. Narrow counters wrap.
    fn keeps_values(&self, opened: &OpenedPass) -> Option<Duration> {
        let is_somebodys =
            matches!(self.job.target, Some(Target::Process { .. } | Target::Thread(_) | Target::Several(_)));
        let pauses = opened.sources.iter().filter_map(|source| source.counting.longest_pause());
        pauses.map(|pause| pause / 2).chain(is_somebodys.then_some(KEEP_EVERY)).min()
    }
}

/// The time by which a child's waits end.
fn now(child: &dyn Child) -> Instant {
    child.clock().unwrap_or_else(Instant::now)
}

fn next_group(opened: &mut OpenedPass, now: &dyn Fn() -> Instant) {
    if let Some(rotation) = &mut opened.rotation {
        rotation.next_group(&mut opened.sources, now);
    }
}

/// Reads every source. A source that cannot be read now has no cells, and the command goes on.
fn read_now(opened: &mut OpenedPass) -> Reading {
    let mut reading = Reading::default();
    for source in &mut opened.sources {
        let mut own = Reading::default();
        if source.counting.read(&mut own).is_ok() {
            reading.cells.append(&mut own.cells);
        }
    }
    reading
}

/// The interval at which a process that is not our child is read: its end loses at most this much time.
const KEEP_EVERY: Duration = Duration::from_millis(100);

/// Points in time at a constant distance.
struct IntervalTimer {
    due: Option<Instant>,
    every: Duration,
}

impl IntervalTimer {
    fn new(started: Instant, every: Option<Duration>) -> IntervalTimer {
        IntervalTimer { due: every.map(|every| started + every), every: every.unwrap_or_default() }
    }

    /// Whether a point is due. The next one is the first that lies ahead: a slow reader skips points, and
    /// does not queue them.
    fn strikes(&mut self, now: Instant) -> bool {
        let Some(due) = self.due.filter(|due| *due <= now) else { return false };
        let mut next = due + self.every;
        while next <= now && !self.every.is_zero() {
            next += self.every;
        }
        self.due = Some(next);
        true
    }
}

fn start(sources: &mut [OpenSource]) -> Result<()> {
    sources.iter_mut().try_for_each(|source| source.counting.start())
}

/// Stops all sources, then reads all of them. A source that lost its state loses its own values only.
fn finish(opened: &mut OpenedPass, exit: &Exit) -> Reading {
    for source in &mut opened.sources {
        source.counting.exited(exit);
    }
    let stopped: Vec<Result<()>> = opened.sources.iter_mut().map(|source| source.counting.stop()).collect();
    let mut reading = Reading::default();
    for (source, stopped) in opened.sources.iter_mut().zip(stopped) {
        let mut own = Reading::default();
        match stopped.and_then(|()| source.counting.read(&mut own)) {
            Ok(()) => reading.cells.append(&mut own.cells),
            Err(error) => {
                reading.cells.extend(source.slots().map(|slot| lost(slot, error.to_string().into())));
            }
        }
    }
    reading.cells.extend(opened.refused.iter().map(|(slot, reason)| lost(*slot, reason.clone())));
    reading
}

fn lost(slot: SlotId, reason: MissingReason) -> Cell {
    Cell { lost: Some(reason), ..Cell::new(slot, 0, 0, 0) }
}
