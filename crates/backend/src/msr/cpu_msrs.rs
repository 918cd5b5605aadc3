//! The registers of one CPU, behind a device.

use std::fmt::Debug;
use std::io;

use cyclometer_sys::msr::MsrDevice;

/// The registers of one CPU.
pub(super) trait CpuMsrs: Debug + Send {
    fn read(&self, address: u32) -> io::Result<u64>;
    fn write(&self, address: u32, value: u64) -> io::Result<()>;
}

impl CpuMsrs for MsrDevice {
    fn read(&self, address: u32) -> io::Result<u64> {
        MsrDevice::read(self, address)
    }

    fn write(&self, address: u32, value: u64) -> io::Result<()> {
        MsrDevice::write(self, address, value)
    }
}
