//! A workload that replaces a command.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cyclometer_core::exec::{Exit, ExitStatus, Signalled, Waited};
use cyclometer_core::{Child, Result};
use cyclometer_sim::{ThreadId, Workload};
use cyclometer_sys::signals::Watch;

use super::bus::{PROCESS, SimBus};

/// How long to simulate before looking for signals, in ns of the simulation.
const LOOK_EVERY_NS: u64 = 10_000_000;

/// A thread of a simulated machine.
pub(super) struct SimChild {
    bus: Rc<RefCell<SimBus>>,
    workload: Workload,
    signals: Option<Arc<Watch>>,
    thread: Option<ThreadId>,
    began_ns: u64,
    /// The signal that was sent to it, of which it dies as a command would.
    killed_by: Option<i32>,
}

impl SimChild {
    pub(super) fn new(bus: Rc<RefCell<SimBus>>, workload: Workload, signals: Option<Arc<Watch>>) -> SimChild {
        SimChild { bus, workload, signals, thread: None, began_ns: 0, killed_by: None }
    }

    fn exited(&self, status: ExitStatus) -> Waited {
        let wall_ns = self.bus.borrow().machine().now_ns() - self.began_ns;
        Waited::Exited(Exit { status: Some(status), wall_ns, usage: None })
    }

    fn is_done(&self) -> bool {
        self.thread.is_none_or(|thread| self.bus.borrow().machine().is_done(thread))
    }

    /// Simulates until an event of the machine, at most until `until_ns`.
    fn go_on(&self, until_ns: u64) {
        let mut bus = self.bus.borrow_mut();
        let until = until_ns.min(bus.machine().now_ns().saturating_add(LOOK_EVERY_NS));
        bus.advance(until);
    }
}

impl Child for SimChild {
    fn pid(&self) -> Option<u32> {
        Some(PROCESS)
    }

    fn release(&mut self) -> Result<()> {
        let mut bus = self.bus.borrow_mut();
        self.began_ns = bus.machine().now_ns();
        self.thread = Some(bus.spawn(self.workload.clone())?);
        Ok(())
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<Waited> {
        let until_ns = until.map(|until| self.bus.borrow().at_ns(until));
        loop {
            if let Some(signal) = self.killed_by {
                return Ok(self.exited(ExitStatus::Signal(signal)));
            }
            if self.is_done() {
                return Ok(self.exited(ExitStatus::Code(0)));
            }
            if let Some(signal) = self.signals.as_ref().and_then(|watch| watch.take()) {
                return Ok(Waited::Interrupted(Signalled { signal, reached_command: false }));
            }
            if until_ns.is_some_and(|until| until <= self.bus.borrow().machine().now_ns()) {
                return Ok(Waited::TimedOut);
            }
            self.go_on(until_ns.unwrap_or(u64::MAX));
        }
    }

    fn clock(&self) -> Option<Instant> {
        Some(self.bus.borrow().clock())
    }

    fn signal(&mut self, signal: i32) {
        self.killed_by = Some(signal);
    }
}
