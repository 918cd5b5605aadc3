//! A command that runs natively on the CPU.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_core::exec::{CounterUsage, Exit, ExitStatus, KillCause, Layout, Signalled, Waited};
use cyclometer_core::{Child, Error, ErrorKind, Result};
use cyclometer_sys::counter_accounts::CounterAccounts;
use cyclometer_sys::process::{self, Ended, Pending, PidFd, Reap, SIGINT, SIGKILL, SIGQUIT, Status, Witness};

use super::vigil::{News, Vigil};
use super::{Signals, failure};
use crate::cgroup::memory;
use crate::{selfcounts, usage};

/// How often to check whether a child has ended, where the kernel does not report it.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often to check whether the tracer of an ended child has reaped it, so that its parent can.
///
/// # Source
///
/// `ptrace(2)`, "Death under ptrace": the tracer is notified before the real parent.
const TRACER_HEARS_IN: Duration = Duration::from_micros(50);

/// A child of this process.
#[derive(Debug)]
pub(crate) struct NativeChild {
    pending: Pending,
    program: OsString,
    vigil: Vigil,
    witness: Witness,
    /// A signal that came before the release, which the next wait reports.
    early: Option<i32>,
    released: Option<Instant>,
    exit: Option<Exit>,
    memory: memory::GroupBefore,
    /// The system's accounts of counters, which are read between its end and its reaping.
    accounts: Option<Arc<dyn CounterAccounts>>,
    /// The child has ended, and its tracer has not released it yet.
    awaits_tracer: bool,
}

impl NativeChild {
    /// Its process id.
    pub(crate) fn process(&self) -> u32 {
        self.pending.pid()
    }

    pub(super) fn new(pending: Pending, program: &OsStr, signals: Option<Signals>) -> NativeChild {
        let (watch, witness) = signals.map(|signals| (signals.watch, signals.witness)).unzip();
        let vigil = Vigil { end: None, signals: watch, look_every: Some(LOOK_EVERY) };
        let witness = witness.unwrap_or_default();
        NativeChild {
            pending,
            program: program.to_owned(),
            vigil,
            witness,
            early: None,
            released: None,
            exit: None,
            memory: memory::GroupBefore::now(),
            accounts: None,
            awaits_tracer: false,
        }
    }

    /// The same child, whose last account of counters is read.
    pub(super) fn with_accounts(mut self, accounts: Option<Arc<dyn CounterAccounts>>) -> NativeChild {
        self.accounts = accounts;
        self
    }

    /// Whether a signal that has just come to this process has come to the command too. It has if the signal
    /// went to our whole process group, and the command is still in that group. Where that is unknown, SIGINT
    /// and SIGQUIT are assumed to come from a terminal.
    fn has_got(&self, signal: i32) -> bool {
        let in_our_group = process::group_of(self.process()).is_ok_and(|group| group == process::own_group());
        in_our_group && self.witness.saw(signal).unwrap_or(matches!(signal, SIGINT | SIGQUIT))
    }

    /// Sends the command a signal that came before it began, as it may not have existed then. At its gate the
    /// command cannot get a signal twice: the first one ends it.
    fn pass_on_early_signal(&mut self) {
        self.early = self.vigil.signals.as_ref().and_then(|watch| watch.take());
        if let Some(signal) = self.early {
            self.signal(signal);
        }
    }

    /// The account of counters of the child once it has ended; `None` while it runs.
    fn last_account(&self, how: Reap) -> io::Result<Option<Option<CounterUsage>>> {
        let Some(accounts) = &self.accounts else { return Ok(Some(None)) };
        let has_ended = process::has_ended(self.process(), how)?;
        Ok(has_ended.then(|| selfcounts::at_end(accounts.as_ref(), self.process())))
    }

    fn reap(&mut self, how: Reap) -> Result<Option<Waited>> {
        let account = self.last_account(how).map_err(|e| self.failed("wait for", e))?;
        let Some(counters) = account else { return Ok(None) };
        let ended = process::reap(self.pending.pid(), how).map_err(|e| self.failed("wait for", e))?;
        let Some(ended) = ended else { return Ok(None) };
        let wall = self.released.map_or(Duration::ZERO, |released| released.elapsed());
        let before = self.pending.used_before_exec();
        let mut exit = exit_of(ended, *before.as_ref().unwrap_or(&Default::default()), wall);
        exit.usage.iter_mut().for_each(|usage| usage.counters = counters);
        self.exit = Some(exit.clone());
        match before {
            Ok(_) => Ok(Some(Waited::Exited(exit))),
            Err(e) => Err(failure::executing(&self.program, e)),
        }
    }

    /// The kernel has reported the end, so a wait for the end would return at once.
    fn await_tracer(&mut self) {
        self.awaits_tracer = true;
        self.vigil.end = None;
        self.vigil.look_every = Some(TRACER_HEARS_IN);
    }

    fn failed(&self, verb: &str, e: io::Error) -> Error {
        let name = failure::shown(&self.program);
        Error::new(ErrorKind::Os, format!("cannot {verb} '{name}': {e}")).with_source(e)
    }

    /// Kills and reaps a child that still exists.
    fn end(&mut self) {
        if self.exit.is_none() {
            let _ = process::signal(self.pending.pid(), SIGKILL);
            let _ = self.reap(Reap::Block);
        }
    }
}

/// `before` is the usage of the process before it executed the command.
fn exit_of(ended: Ended, before: process::ResourceUsage, wall: Duration) -> Exit {
    let status = match ended.status {
        Status::Code(code) => ExitStatus::Code(code),
        Status::Signal(signal) => ExitStatus::Signal(signal),
    };
    let usage = usage::shared(ended.usage.since(before));
    let wall_ns = u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX);
    Exit { status: Some(status), wall_ns, usage: Some(usage) }
}

impl Child for NativeChild {
    fn pid(&self) -> Option<u32> {
        Some(self.process())
    }

    fn release(&mut self) -> Result<()> {
        self.pass_on_early_signal();
        self.released = Some(Instant::now());
        self.pending.release();
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        if let Some(signal) = self.early.take() {
            return Ok(Waited::Interrupted(Signalled { signal, reached_command: true }));
        }
        if let Some(exit) = &self.exit {
            return Ok(Waited::Exited(exit.clone()));
        }
        if until.is_none() && self.vigil.signals.is_none() {
            return Ok(self.reap(Reap::Block)?.unwrap_or(Waited::TimedOut));
        }
        if self.vigil.end.is_none() && !self.awaits_tracer {
            self.vigil.end = PidFd::process(self.process()).ok();
        }
        loop {
            match self.vigil.next(until).map_err(|e| self.failed("wait for", e))? {
                News::Ended => match self.reap(Reap::Poll)? {
                    Some(waited) => return Ok(waited),
                    // The kernel notifies the tracer first.
                    None => self.await_tracer(),
                },
                News::Look => {
                    if let Some(waited) = self.reap(Reap::Poll)? {
                        return Ok(waited);
                    }
                }
                News::Time => return Ok(Waited::TimedOut),
                News::Signal(signal) => {
                    let reached_command = self.has_got(signal);
                    return Ok(Waited::Interrupted(Signalled { signal, reached_command }));
                }
            }
        }
    }

    fn signal(&mut self, signal: i32) {
        // The kernel may have given a reaped child's id to another process.
        if self.exit.is_none() {
            let _ = process::signal(self.process(), signal);
        }
    }

    fn layout(&self) -> Option<Layout> {
        self.pending.layout_fixed().then_some(Layout::Fixed)
    }

    fn kill_cause(&self) -> Option<KillCause> {
        // A shell whose own child was killed exits with the status that stands for the signal.
        let killed = ExitStatus::Signal(SIGKILL).shell_code();
        let status = self.exit.as_ref()?.status?;
        if status.shell_code() == killed { self.memory.shortage() } else { None }
    }
}

impl Drop for NativeChild {
    fn drop(&mut self) {
        self.end();
    }
}
