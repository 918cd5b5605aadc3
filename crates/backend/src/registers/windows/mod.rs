//! Windows of so many events: the interrupt of an overflow ends one and begins the next.
//!
//! A counter is set N events below its overflow. The interrupt that the overflow raises is the end of a window; what all
//! counters have counted in it is a [`Row`]. Nothing here does I/O or knows the time: interrupts and switches are told by
//! the caller, registers are behind [`Registers`], so that the same code runs on silicon and on simulated chips.
//! `docs/internals/overflow-windows.md` has the protocol and what a row says.

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
/// `T` is what names a thread: a thread id of the system, or of a simulated machine. Who records a whole CPU gives it the
/// CPU's number and tells of no switches.
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
    /// Windows of every thread of which a switch tells.
    pub fn of_all(setup: WindowSetup) -> Windows<T> {
        Windows { setup: Arc::new(setup), cpus: BTreeMap::new(), parked: BTreeMap::new(), followed: None }
    }

    /// Windows of these threads; while others run, the counters stand still.
    pub fn of_threads(setup: WindowSetup, threads: impl IntoIterator<Item = T>) -> Windows<T> {
        Windows { followed: Some(threads.into_iter().collect()), ..Windows::of_all(setup) }
    }

    /// Counts one more thread, of which no switch has told yet: a new one.
    pub fn follow(&mut self, thread: T) {
        if let Some(followed) = &mut self.followed {
            followed.insert(thread);
        }
    }

    /// What every CPU is set up with.
    pub fn setup(&self) -> &WindowSetup {
        &self.setup
    }

    /// The windows of a CPU.
    pub fn on(&self, cpu: u32) -> Option<&CpuWindows<T>> {
        self.cpus.get(&cpu)
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

    /// Begins the recording on a CPU, where `running` runs now.
    ///
    /// # Errors
    ///
    /// A CPU twice; a thread that is on another CPU; as [`CpuWindows::begin`].
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

    /// Attends to an interrupt of the PMU on a CPU.
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn on_interrupt(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.on_interrupt(on))
    }

    /// Looks whether the counters of a CPU are still ours: [`CpuWindows::look`].
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn look(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.look(on))
    }

    /// A CPU goes from one thread to another. The registers must still be as they were for the old one, and the call must
    /// be over before the new one runs.
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded: the window of `to` is lost then; a thread that was not told to be there, or that is
    /// still on another CPU: a switch was not told of, and nothing is done.
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

    /// Whether a thread is on no CPU that is recorded.
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

    /// Takes back the counters of a CPU, over whatever is there now: [`CpuWindows::retake`].
    ///
    /// # Errors
    ///
    /// A CPU that is not recorded.
    pub fn retake(&mut self, on: &mut dyn Registers, cpu: u32) -> Result<Outcome<T>> {
        Ok(self.cpu(cpu)?.retake(on))
    }

    /// A thread that is on no CPU has come to its end: its remainder, if there is one.
    ///
    /// # Errors
    ///
    /// A thread that is still on a CPU.
    pub fn end(&mut self, thread: T) -> Result<Option<Row<T>>> {
        self.is_nowhere(Some(thread))?;
        Ok(self.parked.remove(&thread).and_then(ThreadWindow::finish))
    }

    /// Stops the counters of every CPU: the rows that are left, remainders included, so that each thread's rows add up to
    /// all that it has counted.
    ///
    /// The registers stay as they are, stopped; [`cyclometer_arch::restore`] gives them back what they held before.
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
