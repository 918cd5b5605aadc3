//! Apple's PMU registers from user mode: a bus of the register driver.
//!
//! The bus itself ([`SysregBus`]) is the same everywhere and knows no instruction; what executes them is a [`Port`], which
//! only Apple's machines have ([`SysregAccess`]).

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

pub use bus::{Denied, Port, SysregBus};
pub use host::SysregAccess;
