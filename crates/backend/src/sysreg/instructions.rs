//! A port that executes instructions.

use cyclometer_core::{Error, ErrorKind, MissingReason};
use cyclometer_sys::apple::{self, AppleRegisters, NoAccess};

use super::bus::{Port, PortDenied};

/// The registers of the thread's CPU, and an object that must live as long as they are used.
pub(super) struct Instructions<T> {
    pub(super) registers: AppleRegisters,
    /// Dropped last, as the access may end with it.
    pub(super) held: T,
    /// The evidence that another user has used the PMU meanwhile.
    pub(super) disturbance: fn(&T) -> Option<MissingReason>,
}

impl<T> Port for Instructions<T> {
    fn read(&mut self, register: [u8; 5]) -> Result<u64, PortDenied> {
        self.registers.read(register).map_err(denied)
    }

    fn write(&mut self, register: [u8; 5], value: u64) -> Result<(), PortDenied> {
        self.registers.write(register, value).map_err(denied)
    }

    fn barrier(&mut self) {
        self.registers.barrier();
    }

    fn cpu_now(&self) -> u32 {
        self.registers.cpu_now()
    }

    fn bound_to(&self) -> Option<u32> {
        self.registers.bound_to()
    }

    fn switches(&self) -> Option<u64> {
        self.registers.switches()
    }

    fn bind(&mut self, process: u32, cpu: u32) -> std::io::Result<()> {
        apple::bind(process, cpu)
    }

    fn disturbance(&mut self) -> Option<MissingReason> {
        (self.disturbance)(&self.held)
    }
}

fn denied(denied: apple::Denied) -> PortDenied {
    match denied {
        apple::Denied::NotListed => PortDenied::NoRegister,
        apple::Denied::Closed => PortDenied::Closed,
    }
}

/// Why there are no registers, and the remedy.
pub(super) fn no_access(why: NoAccess) -> Error {
    let kind = match &why {
        NoAccess::NotApple { .. } => ErrorKind::ArchUnsupported,
        NoAccess::Unbindable { .. } => ErrorKind::NoSuchTarget,
        NoAccess::Closed => ErrorKind::KernelPatchNeeded,
        _ => ErrorKind::Os,
    };
    Error::new(kind, format!("cannot use Apple's PMU registers: {why}")).with_source(why)
}
