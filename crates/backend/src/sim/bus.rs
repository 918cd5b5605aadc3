//! The registers of a simulated machine.

use std::cell::RefCell;
use std::rc::Weak;
use std::time::{Duration, Instant};

use cyclometer_arch::{Fault, PmuReg, Registers, Step};
use cyclometer_core::window::WindowThread;
use cyclometer_core::{CpuSet, Error, ErrorKind, Result};
use cyclometer_sim::{Activity, Concept, Happening, Phase, SimMachine, ThreadId, Workload};

use crate::registers::{Bound, Bus, InterruptHandler, ThreadSwitch};

/// The id of the process that all threads of a simulated machine belong to.
pub(super) const PROCESS: u32 = 1;

/// The CPU on which threads run: the first.
const HOME: u32 = 0;

/// Number of cycles that are executed to see that counters move.
const EXERCISE_CYCLES: u64 = 4096;

/// The limit on the simulated time that these cycles may take, in ns: other threads may have the CPU first.
const EXERCISE_NS: u64 = 100_000_000;

/// The registers of a simulated machine.
pub struct SimBus {
    machine: SimMachine,
    /// The recipients of interrupts and switches.
    handlers: Vec<Weak<RefCell<dyn InterruptHandler>>>,
    /// The time of this process that corresponds to the start of the simulation.
    start: Instant,
}

impl SimBus {
    /// The registers of this machine.
    pub fn new(machine: SimMachine) -> SimBus {
        SimBus { machine, handlers: Vec::new(), start: Instant::now() }
    }

    /// The machine.
    pub fn machine(&self) -> &SimMachine {
        &self.machine
    }

    /// The machine. Time that passes on it directly is not seen by handlers: [`SimBus::advance`].
    pub fn machine_mut(&mut self) -> &mut SimMachine {
        &mut self.machine
    }

    /// The simulated time, as a time of this process.
    pub(super) fn clock(&self) -> Instant {
        self.start + Duration::from_nanos(self.machine.now_ns())
    }

    /// A time of this process, in ns of the simulation.
    pub(super) fn at_ns(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Simulates until an event of the machine, of which the handlers hear, at most until a time in ns of the
    /// simulation. Whether the event was that the time was reached.
    pub fn advance(&mut self, until_ns: u64) -> bool {
        let happening = self.machine.next(until_ns);
        for handler in self.handlers.clone().iter().filter_map(Weak::upgrade) {
            match happening {
                Happening::Interrupt { cpu, .. } => handler.borrow_mut().on_interrupt(self, cpu),
                Happening::Switch { cpu, from, to } => {
                    let has_ended = from.is_some_and(|from| self.machine.is_done(from));
                    let (from, to) = (from.map(named), to.map(named));
                    handler.borrow_mut().on_switch(self, ThreadSwitch { cpu, from, to, has_ended });
                }
                _ => {}
            }
        }
        happening == Happening::Reached
    }

    /// Starts a thread on the CPU where children run.
    pub(super) fn spawn(&mut self, workload: Workload) -> Result<ThreadId> {
        Ok(self.machine.spawn(workload, &[HOME])?)
    }
}

impl Registers for SimBus {
    fn read(&mut self, cpu: u32, register: PmuReg) -> std::result::Result<u64, Fault> {
        self.machine.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        self.machine.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.machine.barrier(cpu);
    }
}

impl Bus for SimBus {
    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    fn pass(&mut self, ns: u64) {
        let until = self.machine.now_ns().saturating_add(ns);
        while self.machine.now_ns() < until {
            self.advance(until);
        }
    }

    /// Nothing to keep: the machine ends with this process.
    fn keep(&mut self, _cpu: u32, _restoring: &[Step]) -> Result<()> {
        Ok(())
    }

    fn let_go(&mut self, _cpu: u32) {}

    fn exercise(&mut self, cpu: u32) -> Result<()> {
        let instructions = Activity::IDLE.with(Concept::Instructions, 1.0);
        let phase = Phase { cycles: EXERCISE_CYCLES, activity: instructions };
        let workload = Workload { phases: vec![phase], rounds: Some(1), noise: 0.0 };
        let thread = self.machine.spawn(workload, &[cpu])?;
        let until = self.machine.now_ns().saturating_add(EXERCISE_NS);
        while !self.machine.is_done(thread) && self.machine.now_ns() < until {
            self.advance(until);
        }
        match self.machine.is_done(thread) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::CounterBusy, format!("CPU {cpu} has no time for us"))),
        }
    }

    fn bind(&mut self, _child: u32, _among: &CpuSet) -> Result<Bound> {
        Ok(Bound { cpu: HOME, company: None })
    }

    fn deliver(&mut self, handler: Weak<RefCell<dyn InterruptHandler>>) -> std::result::Result<(), String> {
        self.handlers.retain(|known| known.strong_count() > 0);
        self.handlers.push(handler);
        Ok(())
    }

    /// Switches that have happened and were not delivered are delivered first.
    fn thread_on(&mut self, cpu: u32) -> Option<WindowThread> {
        let now = self.machine.now_ns();
        while !self.advance(now) {}
        self.machine.thread_on(cpu).map(named)
    }
}

/// A thread of the machine by its ids.
fn named(thread: ThreadId) -> WindowThread {
    let tid = u32::try_from(thread.index()).unwrap_or(u32::MAX).saturating_add(1);
    WindowThread { pid: PROCESS, tid }
}
