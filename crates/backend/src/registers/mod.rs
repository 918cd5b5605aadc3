//! One driver of PMU registers over several buses.
//!
//! What a driver writes and reads is a program that `arch` makes ([`cyclometer_arch::RegisterProgram`]); how a register is
//! reached is a bus's matter: a device file, an instruction, a simulated chip. So the code that is tested on simulated
//! chips is the code that runs on metal.
//!
//! On each CPU the driver goes through these steps: it looks whether somebody else uses the PMU; has the registers that it
//! will write saved where they outlive it ([`Bus::keep`]); writes the program; reads it back; sees once that the counters
//! move; lets them count; adds up what they counted whenever it is read, in the counter's width, and finds out whether the
//! control registers are still its own; stops; and writes back what was there.

mod chips;
mod driver;
pub mod journal;
mod left;
mod owner;
mod probe;
mod program;
mod short;
mod source;
mod windows;

use cyclometer_arch::{Chip, Coded, Registers, Step};
use cyclometer_core::{CpuSet, Error, Result};

pub use chips::Chips;
pub use left::{LeftRegisters, LeftState, Restoration, Restored};
pub use owner::in_use;
pub use short::{Ended, Loss, OnCpu, ShortCounts, ShortLimits, Window, count_short, rewritten};
pub use source::RegisterSource;
pub use windows::{
    CounterLoss, CpuWindows, Fired, LossReason, Outcome, OverflowSource, Row, ThreadWindow, WindowCount,
    WindowEnd, WindowSetup, Windows,
};

/// A way to registers, with what a driver needs beside reading and writing them.
pub trait Bus: Registers {
    /// Time since some moment, in ns, on the clock of the machine whose registers these are.
    fn now_ns(&self) -> u64;

    /// Lets so much time pass on that clock, in ns, without sleeping.
    fn pass(&mut self, ns: u64) {
        let until = self.now_ns().saturating_add(ns);
        while self.now_ns() < until {
            std::hint::spin_loop();
        }
    }

    /// Keeps what is to be written to a CPU's registers when we cannot do it ourselves any more, as we were killed. Called
    /// before the first of them is written; a later call replaces the steps of an earlier one.
    ///
    /// # Errors
    ///
    /// Where nobody can keep it: then nothing may be written.
    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()>;

    /// The registers of a CPU are as they were: there is nothing to keep for it any more.
    fn let_go(&mut self, cpu: u32);

    /// Executes some instructions on a CPU in user mode, at least a thousand cycles long.
    ///
    /// # Errors
    ///
    /// Where nothing of ours can run on that CPU.
    fn exercise(&mut self, cpu: u32) -> Result<()>;

    /// Lets a child that has executed nothing yet, and what it will start, run on one CPU only, which is one of `among`.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn bind(&mut self, child: u32, among: &CpuSet) -> Result<Bound>;

    /// Whether a child is still bound to that CPU, as far as that can be told; asked while it is counted.
    fn is_bound(&mut self, child: u32, cpu: u32) -> bool {
        let _ = (child, cpu);
        true
    }

    /// What says that counts since the registers were opened are good for nothing, if something does.
    fn disturbance(&mut self) -> Option<String> {
        None
    }

    /// Why the registers of a CPU are in use, where somebody has left word: another process of ours, or one that died.
    fn claimed(&mut self, cpu: u32) -> Option<Error> {
        let _ = cpu;
        None
    }
}

/// Why a PMU that takes writes counts nothing, and what to do.
const NOT_OURS: &str = "a hypervisor, or the kernel, does not let us have the PMU; another source may count \
                        (`cyclometer doctor`)";

/// Where a child runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The CPU.
    pub cpu: u32,
    /// What else is counted there, in words (`everything that ran on CPU 3`); `None` where nothing else runs.
    pub company: Option<String>,
}

/// The PMU of some CPUs, as drivers must know it.
#[derive(Clone, PartialEq, Debug)]
pub struct CorePmu {
    /// Its name, as events have it.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// How it is laid out.
    pub chip: Chip,
    /// What counts cycles on a general counter, to see that it moves; `None` where nothing is known to.
    pub cycles: Option<Coded>,
}
