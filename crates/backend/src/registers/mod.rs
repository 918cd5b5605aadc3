//! One driver of PMU registers over several buses.
//!
//! What a driver writes and reads is a program that `arch` makes ([`cyclometer_arch::RegisterProgram`]); how a register is
//! reached is a bus's matter: a device file, an instruction, a simulated chip. So the code that is tested on simulated
//! chips is the code that runs on metal.

mod windows;

pub use windows::{
    CpuWindows, End, Fired, Loss, LossReason, Outcome, OverflowSource, Row, ThreadWindow, WindowCount,
    WindowSetup, Windows,
};

use cyclometer_arch::{Registers, Step};
use cyclometer_core::Result;

/// A way to registers, with what a driver needs beside reading and writing them.
pub trait Bus: Registers {
    /// Time since some moment, in ns, on the clock of the machine whose registers these are.
    fn now_ns(&self) -> u64;

    /// Keeps what is to be written to a CPU's registers when we cannot do it ourselves any more, as we were killed. Called
    /// before the first of them is written; a later call replaces the steps of an earlier one.
    ///
    /// # Errors
    ///
    /// Where nobody can keep it: then nothing may be written.
    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()>;

    /// The registers of a CPU are as they were: there is nothing to keep for it any more.
    fn let_go(&mut self, cpu: u32);
}
