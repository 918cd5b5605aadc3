//! On macOS: a patched kernel has opened the registers to every process.

use cyclometer_core::Result;
use cyclometer_sys::apple::AppleRegisters;

use super::bus::SysregBus;
use super::instructions::{Instructions, no_access};

/// Access to Apple's registers on this machine.
///
/// The kernel itself writes PMCR0 anew whenever a CPU goes idle and at its own interrupts, so that counters do not stay on
/// behind us. PMCR1, PMESR0, PMESR1 and the counters are written back by the bus, on the CPUs that the thread is on then;
/// nobody does it when we are killed.
#[derive(Clone, Debug)]
pub struct SysregAccess(());

impl SysregAccess {
    /// Tries the registers.
    ///
    /// # Errors
    ///
    /// A kernel that has not opened them.
    pub fn open() -> Result<SysregAccess> {
        AppleRegisters::probe(None).map_err(no_access)?;
        Ok(SysregAccess(()))
    }

    /// The registers of whatever CPU the calling thread is on.
    ///
    /// # Errors
    ///
    /// A CPU by number: macOS binds no thread. Registers that are closed.
    pub fn bus(&self, cpu: Option<u32>) -> Result<SysregBus> {
        let registers = AppleRegisters::probe(cpu).map_err(no_access)?;
        let port = Instructions { registers, held: (), disturbance: |_| None };
        SysregBus::new(Box::new(port)).map_err(|_| no_access(cyclometer_sys::apple::NoAccess::Closed))
    }

    /// Whether another user of the PMU was seen; `None`: here nothing tells.
    ///
    /// # Errors
    ///
    /// None.
    pub fn was_disturbed(&self) -> Result<Option<bool>> {
        Ok(None)
    }
}
