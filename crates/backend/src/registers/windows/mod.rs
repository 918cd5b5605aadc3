//! Windows of a given number of events: the interrupt of an overflow ends one and begins the next.
//!
//! A counter is preset to N events below its overflow. The interrupt of the overflow is the end of a window;
//! the counts of all counters in it are a [`Row`]. This module does no I/O and reads no clock. The caller
//! reports interrupts and switches, and registers are behind [`Registers`], so that the same code runs on
//! silicon and on simulated chips. `docs/internals/overflow-windows.md` describes the protocol and the
//! meaning of a row.

mod cpu;
mod row;
mod setup;
mod thread;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use cyclometer_arch::Registers;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

pub use cpu::CpuWindows;
pub use row::{CounterLoss, Fired, LossReason, Outcome, Row, WindowCount, WindowEnd};
pub use setup::{OverflowSource, WindowSetup};
pub use thread::ThreadWindow;

/// The windows of threads on several CPUs.
///
/// `T` identifies a thread: a thread id of the system, or of a simulated machine. To record a whole CPU, pass
/// the CPU's number as its thread and report no switches.
#[derive(Clone, Debug)]
pub struct Windows<T> {
    setup: Arc<WindowSetup>,
    cpus: BTreeMap<u32, CpuWindows<T>>,
    /// Windows of threads that are on no CPU.
    parked: BTreeMap<T, ThreadWindow<T>>,
    /// The threads that are counted; `None`: all.
    followed: Option<BTreeSet<T>>,
}

impl<T: Copy + Ord + Debug> Windows<T> {
    /// Windows of every thread that a switch reports.
    pub fn of_all(setup: WindowSetup) -> Windows<T> {
        Windows { setup: Arc::new(setup), cpus: BTreeMap::new(), parked: BTreeMap::new(), followed: None }
    }

    /// Windows of these threads; while others run, the counters are stopped.
    pub fn of_threads(setup: WindowSetup, threads: impl IntoIterator<Item = T>) -> Windows<T> {
        Windows { followed: Some(threads.into_iter().collect()), ..Windows::of_all(setup) }
    }

    /// Counts one more thread, which no switch has reported yet: a new one.
    pub fn follow(&mut self, thread: T) {
        if let Some(followed) = &mut self.followed {
            followed.insert(thread);
        }
    }

    /// The setup of every CPU.
    pub fn setup(&self) -> &WindowSetup {
        &self.setup
    }

    /// The windows of a CPU.
    pub fn on(&self, cpu: u32) -> Option<&CpuWindows<T>> {
        self.cpus.get(&cpu)
    }

    /// The windows that are open, on CPUs and of threads that have none.
    pub fn open(&self) -> impl Iterator<Item = &ThreadWindow<T>> {
        self.cpus.values().filter_map(CpuWindows::window).chain(self.parked.values())
    }

    fn is_followed(&self, thread: T) -> bool {
        self.followed.as_ref().is_none_or(|followed| followed.contains(&thread))
    }

    fn cpu(&mut self, cpu: u32) -> Result<&mut CpuWindows<T>> {
        self.cpus.get_mut(&cpu).ok_or_else(|| {
            let message = format!("CPU {cpu} is not recorded");
            let hint = "begin the recording on every CPU on which the threads may run".to_owned();
            Error::new(ErrorKind::NoSuchTarget, message).with_recovery(Recovery::FixInput { hint })
        })
    }

    /// Begins recording a CPU, on which `running` runs now.
    ///
    /// # Errors
    ///
    /// A CPU that is recorded already; a thread that is on another CPU; the errors of [`CpuWindows::begin`].
    pub fn begin(&mut self, on: &mut dyn Registers, cpu: u32, running: Option<T>) -> Result<Outcome<T>> {
        if self.cpus.contains_key(&cpu) {
            let hint = "name each CPU once".to_owned();
            return Err(Error::new(ErrorKind::InvalidInput, format!("CPU {cpu} is recorded already"))
                .with_recovery(Recovery::FixInput { hint }));
        }
        self.is_nowhere(running)?;
        let windows = CpuWindows::begin(Arc::clone(&self.setup), on, cpu)?;
        self.cpus.insert(cpu, windows);
        self.bring(on, cpu, running)
    }

    /// Handles an interrupt of the PMU on a CPU.
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn on_interrupt(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.on_interrupt(on))
    }

    /// Checks whether the counters of a CPU are still ours: [`CpuWindows::look`].
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn look(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.look(on))
    }

    /// Reports that a CPU switches from one thread to another. The registers must still be those of the old
    /// thread, and the call must return before the new one runs.
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded: the window of `to` is lost then. A thread that was not reported to be
    /// there, or that is still on another CPU: a switch was not reported, and nothing is done.
    pub fn on_switch(
        &mut self,
        on: &mut dyn Registers,
        cpu: u32,
        from: Option<T>,
        to: Option<T>,
    ) -> Result<Outcome<T>> {
        if let Err(error) = self.cpu(cpu) {
            self.lose_elsewhere(cpu, to);
            return Err(error);
        }
        let from = from.filter(|thread| self.is_followed(*thread));
        let there = self.cpu(cpu)?.thread();
        if there != from {
            let message = format!("CPU {cpu} is left by {from:?}, but {there:?} was said to run there");
            return Err(untold(message));
        }
        if to != from {
            self.is_nowhere(to)?;
        }
        let (window, outcome) = self.cpu(cpu)?.switch(on, None);
        if let Some(window) = window {
            self.parked.insert(window.thread(), window);
        }
        Ok(outcome.then(self.bring(on, cpu, to)?))
    }

    /// Checks that a thread is on no recorded CPU.
    fn is_nowhere(&self, thread: Option<T>) -> Result<()> {
        let Some(thread) = thread else { return Ok(()) };
        match self.cpus.values().find(|windows| windows.thread() == Some(thread)) {
            Some(windows) => {
                Err(untold(format!("thread {thread:?} gets a CPU and is still on CPU {}", windows.cpu())))
            }
            None => Ok(()),
        }
    }

    fn lose_elsewhere(&mut self, cpu: u32, thread: Option<T>) {
        let Some(thread) = thread.filter(|thread| self.is_followed(*thread)) else { return };
        self.parked.entry(thread).or_insert_with(|| ThreadWindow::new(&self.setup, thread)).lose_all(cpu);
    }

    fn bring(&mut self, on: &mut dyn Registers, cpu: u32, thread: Option<T>) -> Result<Outcome<T>> {
        let Some(thread) = thread.filter(|thread| self.is_followed(*thread)) else {
            return Ok(Outcome::default());
        };
        let window = self.parked.remove(&thread).unwrap_or_else(|| ThreadWindow::new(&self.setup, thread));
        Ok(self.cpu(cpu)?.switch(on, Some(window)).1)
    }

    /// Takes back the counters of a CPU, overwriting the present values: [`CpuWindows::retake`].
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn retake(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.retake(on))
    }

    /// Reports the end of a thread that is on no CPU; returns its remainder, if there is one.
    ///
    /// # Errors
    ///
    /// A thread that is still on a CPU.
    pub fn end(&mut self, thread: T) -> Result<Option<Row<T>>> {
        self.is_nowhere(Some(thread))?;
        Ok(self.parked.remove(&thread).and_then(ThreadWindow::finish))
    }

    /// Stops the counters of every CPU. Returns the remaining rows, including remainders, so that each
    /// thread's rows add up to all of its counts.
    ///
    /// The registers keep their values, stopped; [`cyclometer_arch::restore`] makes the steps that restore
    /// the previous ones.
    pub fn finish(mut self, on: &mut dyn Registers) -> Vec<Row<T>> {
        let mut rows = Vec::new();
        for windows in self.cpus.values_mut() {
            let (window, outcome) = windows.leave(on, WindowEnd::Finish);
            rows.extend(outcome.rows);
            self.parked.extend(window.map(|window| (window.thread(), window)));
        }
        rows.extend(self.parked.into_values().filter_map(ThreadWindow::finish));
        rows
    }
}

fn untold(message: String) -> Error {
    let hint = "tell of every switch, in order".to_owned();
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::FixInput { hint })
}
