//! One execution: prepare, open, release, wait, read.

use std::time::{Duration, Instant};

use cyclometer_core::exec::{At, Cell, Exit, ExitStatus, Reading, Waited};
use cyclometer_core::report::Run;
use cyclometer_core::{Child, Error, ErrorKind, Result, SlotId, Target};

use crate::open::{OpenSource, Opened};
use crate::{Executed, Session};

/// SIGINT reaches the command from the terminal as well; other signals are passed on.
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;

impl Session<'_, '_> {
    pub(crate) fn execute(&mut self, index: u32) -> Result<Executed> {
        let mut child = self.child()?;
        let target = self.job.target.clone().unwrap_or(Target::Child(child.pid()));
        let mut opened = self.open(index, &target)?;
        start(&mut opened.sources)?;
        child.release()?;
        let (exit, interrupted) = self.attend(child.as_mut(), &mut opened)?;
        let reading = finish(&mut opened, &exit);
        let run = Run {
            index,
            launch: self.launch_kind(),
            pass: self.pass_of(index),
            exit: exit.status,
            dropped_because: None,
            wall_ns: exit.wall_ns,
            reading,
        };
        Ok(Executed { run, interrupted })
    }

    fn child(&mut self) -> Result<Box<dyn Child>> {
        match &self.job.command {
            Some(command) => self.means.launch.prepare(command),
            None => self.job.watched.take().ok_or_else(|| {
                Error::new(ErrorKind::InvalidInput, "a running process can be watched once only")
            }),
        }
    }

    /// Waits for the end; reads at every interval; passes signals on.
    fn attend(&mut self, child: &mut dyn Child, opened: &mut Opened) -> Result<(Exit, Option<i32>)> {
        let started = Instant::now();
        let mut due = self.settings.interval.map(|interval| started + interval);
        let mut interrupted = None;
        loop {
            match child.wait(due)? {
                Waited::Exited(exit) => {
                    let interrupted = interrupted.or_else(|| self.killed_by_terminal(&exit));
                    return Ok((exit, interrupted));
                }
                Waited::TimedOut => {
                    self.interval(started, opened);
                    due = due.zip(self.settings.interval).map(|(due, interval)| next_due(due, interval));
                }
                Waited::Interrupted(signal) if self.job.command.is_none() => {
                    let exit = Exit { status: None, wall_ns: nanos(started.elapsed()), usage: None };
                    return Ok((exit, Some(signal)));
                }
                Waited::Interrupted(signal) => {
                    pass_on(child, signal, interrupted.is_some());
                    interrupted = Some(signal);
                }
            }
        }
    }

    /// Ctrl-C may end the command before we hear of it ourselves; then the session ends as well.
    fn killed_by_terminal(&self, exit: &Exit) -> Option<i32> {
        match exit.status {
            Some(ExitStatus::Signal(SIGINT)) if self.settings.runs > 1 => Some(SIGINT),
            _ => None,
        }
    }

    /// Reads and tells; a source that cannot be read now has no cells in this row, and the command goes on.
    fn interval(&mut self, started: Instant, opened: &mut Opened) {
        let mut reading = Reading::default();
        for source in &mut opened.sources {
            let mut own = Reading::default();
            if source.counting.read(&mut own).is_ok() {
                reading.cells.append(&mut own.cells);
            }
        }
        self.observer.interval(nanos(started.elapsed()), &reading, &self.report.plan);
    }
}

fn start(sources: &mut [OpenSource]) -> Result<()> {
    sources.iter_mut().try_for_each(|source| source.counting.start())
}

/// Stops everything, then reads everything. A source that lost its state costs its own values only.
fn finish(opened: &mut Opened, exit: &Exit) -> Reading {
    let stopped: Vec<Result<()>> = opened.sources.iter_mut().map(|source| source.counting.stop()).collect();
    let mut reading = Reading::default();
    for (source, stopped) in opened.sources.iter_mut().zip(stopped) {
        source.counting.exited(exit);
        let mut own = Reading::default();
        match stopped.and_then(|()| source.counting.read(&mut own)) {
            Ok(()) => reading.cells.append(&mut own.cells),
            Err(error) => {
                reading.cells.extend(source.slots.iter().map(|slot| lost(*slot, error.to_string())));
            }
        }
    }
    reading.cells.extend(opened.refused.iter().map(|(slot, reason)| lost(*slot, reason.clone())));
    reading
}

fn lost(slot: SlotId, reason: String) -> Cell {
    let at = At::default();
    Cell { slot, at, raw: 0, time_enabled_ns: 0, time_running_ns: 0, lost: Some(reason) }
}

fn pass_on(child: &mut dyn Child, signal: i32, again: bool) {
    if again {
        child.signal(SIGKILL);
    } else if signal != SIGINT {
        child.signal(signal);
    }
}

/// The next point of the grid that lies ahead: a slow reader skips rows, it does not queue them.
fn next_due(due: Instant, interval: Duration) -> Instant {
    let mut next = due + interval;
    let now = Instant::now();
    while next <= now {
        next += interval;
    }
    next
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
