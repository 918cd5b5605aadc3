//! Apple's PMU registers from user mode: a bus of the register driver.
//!
//! The bus itself ([`SysregBus`]) is the same on every system and contains no instructions. A [`Port`]
//! executes them, which only Apple's machines have ([`SysregAccess`]).

mod bus;
#[cfg(not(all(target_arch = "aarch64", any(target_os = "linux", target_os = "macos"))))]
#[path = "elsewhere.rs"]
mod host;
#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
#[path = "linux.rs"]
mod host;
#[cfg(all(target_arch = "aarch64", target_os = "macos"))]
#[path = "macos.rs"]
mod host;
#[cfg(all(target_arch = "aarch64", any(target_os = "linux", target_os = "macos")))]
mod instructions;

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_core::{Result, Rung, Source};

use crate::registers::{CorePmu, RegisterSource};

pub use bus::{Port, PortDenied, SysregBus};
pub use host::SysregAccess;

/// The driver on Apple's registers of one CPU, to which it binds the calling thread; with `None`, of the
/// thread's present CPU. `cores` are the machine's PMUs.
///
/// # Errors
///
/// Those of [`SysregAccess::open`] and [`SysregAccess::bus`].
pub fn source(cores: Vec<CorePmu>, cpu: Option<u32>) -> Result<Box<dyn Source>> {
    let bus = SysregAccess::open()?.bus(cpu)?;
    Ok(Box::new(RegisterSource::new(Rung::Sysreg, cores, Rc::new(RefCell::new(bus)))))
}
