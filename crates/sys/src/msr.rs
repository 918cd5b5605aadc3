//! Model-specific registers through Linux's `msr` driver.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The device of one CPU, open for reading and writing.
///
/// The driver executes `rdmsr` and `wrmsr` on that CPU, on whichever CPU the caller runs.
#[derive(Debug)]
pub struct MsrDevice(File);

impl MsrDevice {
    /// Opens `/dev/cpu/N/msr`.
    ///
    /// # Errors
    ///
    /// The operating system's: `ENOENT` without the driver or the CPU, `EACCES` without the right to the
    /// file, `EPERM` without `CAP_SYS_RAWIO`, `ENXIO` for a CPU that is offline, `EIO` for one without such
    /// registers.
    ///
    /// # Source
    ///
    /// `msr(4)`; Linux `arch/x86/kernel/msr.c`, `msr_open`.
    pub fn open(cpu: u32) -> io::Result<MsrDevice> {
        let mut how = OpenOptions::new();
        how.read(true).write(true).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW);
        how.open(format!("/dev/cpu/{cpu}/msr")).map(MsrDevice)
    }

    /// Reads a register, by one system call.
    ///
    /// # Errors
    ///
    /// The operating system's: `EIO` where the CPU faults.
    ///
    /// # Source
    ///
    /// `msr(4)`: the offset is the register's number, and 8 bytes are its value.
    pub fn read(&self, address: u32) -> io::Result<u64> {
        let mut value = [0; 8];
        let length = self.0.read_at(&mut value, address.into())?;
        whole(length)?;
        Ok(u64::from_ne_bytes(value))
    }

    /// Writes a register, by one system call.
    ///
    /// # Errors
    ///
    /// The operating system's: `EIO` where the CPU faults, `EPERM` where the kernel is locked down or its
    /// parameter `msr.allow_writes` is off.
    ///
    /// # Source
    ///
    /// `msr(4)`; Linux `arch/x86/kernel/msr.c`, `msr_write`, `filter_write`.
    pub fn write(&self, address: u32, value: u64) -> io::Result<()> {
        let length = self.0.write_at(&value.to_ne_bytes(), address.into())?;
        whole(length)
    }
}

/// Fails unless a register was read or written as a whole.
fn whole(length: usize) -> io::Result<()> {
    if length == 8 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in place of a device, with the same offsets and values.
    fn file() -> MsrDevice {
        MsrDevice(tempfile::tempfile().unwrap())
    }

    #[test]
    fn the_number_of_a_register_is_the_offset_of_its_value() {
        let device = file();
        device.write(0xc001_0200, 0x0000_0002_0043_038f).unwrap();
        assert_eq!(device.read(0xc001_0200).unwrap(), 0x0000_0002_0043_038f);
        assert_eq!(device.read(0xc001_01f8).unwrap(), 0);
    }

    #[test]
    fn half_a_register_is_an_error() {
        let device = file();
        assert_eq!(device.read(0x186).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        device.0.write_at(&[1, 2, 3], 0x186).unwrap();
        assert_eq!(device.read(0x186).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_cpu_that_cannot_be_has_no_device() {
        let error = MsrDevice::open(u32::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
