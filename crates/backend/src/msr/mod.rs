//! The registers of x86 CPUs through Linux's `msr` driver, and the restore daemon.
//!
//! - [`MsrBus`] reads and writes. It reports refusals of the system with cause and remedy (`faults`).
//! - Before a CPU's registers are written, the restore steps are given to the restore daemon
//!   (`restore_daemon`). They are also written to a file (`folder`), in case the daemon dies, too. At most
//!   one process has the registers of a CPU.
//! - [`left_registers`] and [`restore_registers`] handle registers that are left when both processes died.

mod binding;
mod bus;
mod cpu_msrs;
mod devices;
#[cfg(feature = "fake-devices")]
mod fake;
mod faults;
mod folder;
mod left;
mod place;
mod process;
mod restore_daemon;

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_core::{Rung, Source};

use crate::registers::{Chips, CorePmu, RegisterSource};

pub use bus::MsrBus;
pub use left::{left_registers, left_registers_in, restore_registers, restore_registers_in};
pub use place::MsrLocation;

/// The driver for this machine's registers; `cores` are its PMUs. It opens and writes nothing before counting
/// starts.
pub fn source(cores: Vec<CorePmu>) -> Option<Box<dyn Source>> {
    let chips = Chips::new(cores.iter().map(|core| (core.cpus.clone(), core.chip)).collect());
    let bus = Rc::new(RefCell::new(MsrBus::new(chips)));
    Some(Box::new(RegisterSource::new(Rung::Msr, cores, bus)))
}
