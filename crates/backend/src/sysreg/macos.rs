//! macOS: a patched kernel has opened the registers to every process.

use cyclometer_core::Result;
use cyclometer_sys::apple::AppleRegisters;

use super::bus::SysregBus;
use super::instructions::{Instructions, no_access};

/// Access to Apple's registers on this machine.
///
/// The kernel itself overwrites PMCR0 whenever a CPU goes idle and at its own interrupts, so that counters
/// stop soon after this process. The bus restores PMCR1, PMESR0, PMESR1 and the counters, on the CPUs that
/// the thread is on then. They are not restored when this process is killed.
#[derive(Clone, Debug)]
pub struct SysregAccess(());

impl SysregAccess {
    /// Probes the registers.
    ///
    /// # Errors
    ///
    /// A kernel that has not opened them.
    pub fn open() -> Result<SysregAccess> {
        AppleRegisters::probe(None).map_err(no_access)?;
        Ok(SysregAccess(()))
    }

    /// The registers of the calling thread's present CPU.
    ///
    /// # Errors
    ///
    /// A CPU by number, as macOS binds no threads. Closed registers.
    pub fn bus(&self, cpu: Option<u32>) -> Result<SysregBus> {
        let registers = AppleRegisters::probe(cpu).map_err(no_access)?;
        let port = Instructions { registers, held: (), disturbance: |_| None };
        SysregBus::new(Box::new(port)).map_err(|_| no_access(cyclometer_sys::apple::NoAccess::Closed))
    }

    /// Whether another user of the PMU was seen; always `None`, as macOS does not report it.
    ///
    /// # Errors
    ///
    /// None.
    pub fn was_disturbed(&self) -> Result<Option<bool>> {
        Ok(None)
    }
}
