//! One driver of PMU registers over several buses.
//!
//! The driver executes programs that `arch` makes ([`cyclometer_arch::RegisterProgram`]). The bus defines how
//! a register is reached: by a device file, an instruction or a simulated chip. So the code that is tested on
//! simulated chips is the code that runs on hardware.
//!
//! On each CPU the driver goes through these steps. It checks whether another user uses the PMU. It has the
//! registers that it will write saved by a process or file that outlives it ([`Bus::keep`]). It writes the
//! program, reads it back, and checks once that the counters move. It starts the counters. At each read it
//! adds up the counts in the counter's width, and checks that the control registers are still its own. It
//! stops, and restores the previous values.

mod chips;
#[cfg(feature = "registers")]
mod driver;
#[cfg(feature = "registers")]
pub mod journal;
mod left;
#[cfg(feature = "registers")]
mod owner;
#[cfg(feature = "registers")]
mod probe;
#[cfg(feature = "registers")]
mod program;
#[cfg(feature = "registers")]
mod short;
#[cfg(feature = "registers")]
mod source;
#[cfg(feature = "registers")]
mod windowing;
#[cfg(feature = "registers")]
mod windows;

use std::cell::RefCell;
use std::rc::Weak;

use cyclometer_arch::{Chip, Coded, Registers, Step};
use cyclometer_core::window::WindowThread;
use cyclometer_core::{CpuSet, Error, MissingReason, PartReason, Result};

pub use chips::Chips;
pub use left::{LeftRegisters, LeftState, Restoration, Restored};
#[cfg(feature = "registers")]
pub use owner::in_use;
#[cfg(feature = "registers")]
pub use short::{OnCpu, RepetitionEnd, ShortCounts, ShortLimits, Window, WindowLoss, count_short, rewritten};
#[cfg(feature = "registers")]
pub use source::RegisterSource;
#[cfg(feature = "registers")]
pub use windows::{
    CounterLoss, CpuWindows, Fired, LossReason, Outcome, OverflowSource, Row, ThreadWindow, WindowCount,
    WindowEnd, WindowSetup, Windows,
};

/// Access to registers, with the other operations that a driver needs.
pub trait Bus: Registers {
    /// Time since an arbitrary moment, in ns, on the clock of the machine whose registers these are.
    fn now_ns(&self) -> u64;

    /// Waits for so much time on that clock, in ns, without sleeping.
    fn pass(&mut self, ns: u64) {
        let until = self.now_ns().saturating_add(ns);
        while self.now_ns() < until {
            std::hint::spin_loop();
        }
    }

    /// Keeps the steps that restore a CPU's registers when this process is killed and cannot. Called before
    /// the first register is written; a later call replaces the steps of an earlier one.
    ///
    /// # Errors
    ///
    /// Where the steps cannot be kept: then no register may be written.
    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()>;

    /// The registers of a CPU are restored: their steps need not be kept any more.
    fn let_go(&mut self, cpu: u32);

    /// Executes some instructions on a CPU in user mode, for at least a thousand cycles.
    ///
    /// # Errors
    ///
    /// Where this process cannot run on that CPU.
    fn exercise(&mut self, cpu: u32) -> Result<()>;

    /// Binds a child that has executed nothing yet, with its future descendants, to one CPU of `among`.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    fn bind(&mut self, child: u32, among: &CpuSet) -> Result<Bound>;

    /// Whether a child is still bound to that CPU, as far as that is known. Called while it is counted.
    fn is_bound(&mut self, child: u32, cpu: u32) -> bool {
        let _ = (child, cpu);
        true
    }

    /// The reason why counts since the registers were opened are invalid, if there is one.
    fn disturbance(&mut self) -> Option<MissingReason> {
        None
    }

    /// Delivers interrupts of the PMU and switches of threads to a handler, as long as the handler exists.
    ///
    /// # Errors
    ///
    /// The reason why they do not reach this process, in words.
    fn deliver(&mut self, handler: Weak<RefCell<dyn InterruptHandler>>) -> std::result::Result<(), String> {
        let _ = handler;
        Err("the kernel does not pass interrupts of counters on to user space".to_owned())
    }

    /// The thread that has a CPU now; `None` where there is none, or where switches are not delivered.
    fn thread_on(&mut self, cpu: u32) -> Option<WindowThread> {
        let _ = cpu;
        None
    }

    /// Why the registers of a CPU are in use, according to a journal: another process of ours, or one that
    /// died.
    fn claimed(&mut self, cpu: u32) -> Option<Error> {
        let _ = cpu;
        None
    }
}

/// The recipient of interrupts and switches. No event is counted for a thread before it returns.
pub trait InterruptHandler {
    /// The PMU of a CPU interrupts.
    fn on_interrupt(&mut self, bus: &mut dyn Bus, cpu: u32);

    /// A CPU switches threads. The registers are those of the old one.
    fn on_switch(&mut self, bus: &mut dyn Bus, switch: ThreadSwitch);
}

/// A switch of a CPU from one thread to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadSwitch {
    /// The CPU.
    pub cpu: u32,
    /// The thread that had it; `None`: the CPU was idle.
    pub from: Option<WindowThread>,
    /// The thread that gets it; `None`: the CPU becomes idle.
    pub to: Option<WindowThread>,
    /// Whether the old thread has ended.
    pub has_ended: bool,
}

/// Why a PMU that accepts writes counts nothing, and the remedy.
#[cfg(feature = "registers")]
const NOT_OURS: &str = "a hypervisor, or the kernel, does not let us have the PMU; another source may count \
                        (`cyclometer doctor`)";

/// The CPU to which a child is bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The CPU.
    pub cpu: u32,
    /// The other work that is counted there, in words (`everything that ran on CPU 3`); `None` where nothing
    /// else runs.
    pub company: Option<PartReason>,
}

/// The PMU of some CPUs, as drivers need it.
#[derive(Clone, PartialEq, Debug)]
pub struct CorePmu {
    /// Its name, as in events.
    pub name: String,
    /// The CPUs.
    pub cpus: CpuSet,
    /// The layout of its registers.
    pub chip: Chip,
    /// The event that counts cycles on a general counter, to see that it moves; `None` where none is known.
    pub cycles: Option<Coded>,
}
