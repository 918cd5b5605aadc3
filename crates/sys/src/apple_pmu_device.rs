//! `/dev/apple_pmu_el0`: the module that opens the registers of Apple's PMU to user mode.
//!
//! # Source
//!
//! `kernel/apple-pmu/uapi/apple_pmu_el0.h`, which the tests compare with this file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// The device.
pub const PATH: &str = "/dev/apple_pmu_el0";

/// The version of the interface that this file implements.
pub const ABI: u32 = 1;

/// The properties of the chip's PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[doc(alias = "apple_pmu_el0_info")]
pub struct Info {
    /// The module's version of the interface.
    pub abi: u32,
    /// The counters: bit n is PMCn.
    pub counters: u32,
    /// Bits of an event in PMESR0 and PMESR1: 8 or 16.
    pub selector_bits: u32,
    /// Bits of a counter; the highest one is the overflow flag.
    pub counter_bits: u32,
}

/// The configuration of every CPU. Bit n of a mask is PMCn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[doc(alias = "apple_pmu_el0_config")]
pub struct PmuConfig {
    /// The counters that count: the union of the two below.
    pub enable: u32,
    /// Those that count at EL0.
    pub user: u32,
    /// Those that count in the kernel.
    pub kernel: u32,
    /// 0.
    pub reserved: u32,
    /// PMESR0 and PMESR1, as the chip has them.
    pub pmesr: [u64; 2],
}

/// Numbers of online CPUs by state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
#[doc(alias = "apple_pmu_el0_status")]
pub struct CpuStates {
    /// EL0 may use the registers.
    pub granted: u32,
    /// EL0 may not: perf was counting when the CPU came online.
    pub refused: u32,
    /// Granted CPUs on which perf has begun to count: counts cannot be trusted.
    pub perf: u32,
    /// Granted CPUs whose PMCR0, PMCR1, PMESR0 or PMESR1 differ from the configuration; 0 before a
    /// configuration.
    pub changed: u32,
}

/// The letter of the device's requests.
const MAGIC: u32 = 0xb8;

/// The number of a request, as `_IOC` makes it on arm64, x86 and RISC-V.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/ioctl.h`.
const fn request(direction: u32, number: u32, size: usize) -> u32 {
    direction << 30 | (size as u32) << 16 | MAGIC << 8 | number
}

/// `_IOC_WRITE`: the kernel reads our memory.
const WRITE: u32 = 1;
/// `_IOC_READ`: the kernel writes to our memory.
const READ: u32 = 2;

const INFO: u32 = request(READ, 0, size_of::<Info>());
const CONFIGURE: u32 = request(WRITE, 1, size_of::<PmuConfig>());
const STATUS: u32 = request(READ, 2, size_of::<CpuStates>());

/// An open device. For its lifetime, every CPU's registers are open to user mode of every process. When it is
/// closed, by us or by the end of the process, the module restores the former register values.
#[derive(Debug)]
pub struct Device(File);

impl Device {
    /// Opens the device, which stops the counters of every CPU.
    ///
    /// # Errors
    ///
    /// The module's: `ENOENT` (not loaded), `EACCES`, `EPERM` (root alone, and CAP_SYS_RAWIO, and no
    /// lockdown), `EUSERS` (another descriptor is open), `EBUSY` (perf is counting), `ENODEV` (the machine
    /// restarts).
    pub fn open() -> io::Result<Device> {
        OpenOptions::new().read(true).write(true).open(PATH).map(Device)
    }

    /// Returns the properties of the chip's PMU.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn info(&self) -> io::Result<Info> {
        let mut info = Info::default();
        // SAFETY: the request writes as many bytes as its number says, which is the size of `Info`; any bits
        // are valid.
        answered(unsafe { libc::ioctl(self.0.as_raw_fd(), INFO as _, &raw mut info) })?;
        Ok(info)
    }

    /// Stops and clears the counters of every CPU, and starts them with this configuration.
    ///
    /// # Errors
    ///
    /// The module's: `EINVAL` for a configuration that the chip does not support, `EBUSY` when perf has begun
    /// to count.
    pub fn configure(&self, config: &PmuConfig) -> io::Result<()> {
        let config: *const PmuConfig = config;
        // SAFETY: the request reads as many bytes as its number says, which is the size of `PmuConfig`.
        answered(unsafe { libc::ioctl(self.0.as_raw_fd(), CONFIGURE as _, config) })
    }

    /// Returns the states of the CPUs.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn status(&self) -> io::Result<CpuStates> {
        let mut status = CpuStates::default();
        // SAFETY: the request writes as many bytes as its number says, which is the size of `CpuStates`; any
        // bits are valid.
        answered(unsafe { libc::ioctl(self.0.as_raw_fd(), STATUS as _, &raw mut status) })?;
        Ok(status)
    }
}

fn answered(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    const HEADER: &str = include_str!("../../../kernel/apple-pmu/uapi/apple_pmu_el0.h");

    /// Names and sizes of a struct's fields in the header, in order.
    fn fields(name: &str) -> Vec<(String, usize)> {
        let body = HEADER.split_once(&format!("struct {name} {{\n")).unwrap().1.split_once("};").unwrap().0;
        let field = |line: &str| {
            let (kind, field) = line.trim().strip_suffix(';').unwrap().split_once(' ').unwrap();
            let (field, times) = match field.strip_suffix(']').and_then(|field| field.split_once('[')) {
                Some((field, times)) => (field, times.parse().unwrap()),
                None => (field, 1),
            };
            let size = match kind {
                "__u32" => 4,
                "__u64" => 8,
                other => panic!("{other}"),
            };
            (field.to_owned(), size * times)
        };
        body.lines().map(field).collect()
    }

    /// Compares a struct with the header's, field by field.
    fn check(name: &str, size: usize, ours: &[(&str, usize)]) {
        let theirs = fields(name);
        assert_eq!(theirs.len(), ours.len(), "{name}");
        let mut offset = 0;
        for ((field, bytes), (our_field, our_offset)) in theirs.iter().zip(ours) {
            assert_eq!((field.as_str(), offset), (*our_field, *our_offset), "{name}");
            offset += bytes;
        }
        assert_eq!(offset, size, "{name}");
    }

    #[test]
    fn structs_are_those_of_the_header() {
        let at = |name, offset| (name, offset);
        check(
            "apple_pmu_el0_info",
            size_of::<Info>(),
            &[
                at("abi", offset_of!(Info, abi)),
                at("counters", offset_of!(Info, counters)),
                at("selector_bits", offset_of!(Info, selector_bits)),
                at("counter_bits", offset_of!(Info, counter_bits)),
            ],
        );
        check(
            "apple_pmu_el0_config",
            size_of::<PmuConfig>(),
            &[
                at("enable", offset_of!(PmuConfig, enable)),
                at("user", offset_of!(PmuConfig, user)),
                at("kernel", offset_of!(PmuConfig, kernel)),
                at("reserved", offset_of!(PmuConfig, reserved)),
                at("pmesr", offset_of!(PmuConfig, pmesr)),
            ],
        );
        check(
            "apple_pmu_el0_status",
            size_of::<CpuStates>(),
            &[
                at("granted", offset_of!(CpuStates, granted)),
                at("refused", offset_of!(CpuStates, refused)),
                at("perf", offset_of!(CpuStates, perf)),
                at("changed", offset_of!(CpuStates, changed)),
            ],
        );
    }

    /// The definition of a macro of the header.
    fn defined(name: &str) -> &'static str {
        let line = HEADER.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
        line.split_once(name).unwrap().1.trim()
    }

    #[test]
    fn requests_are_those_of_the_header() {
        assert_eq!(defined("APPLE_PMU_EL0_PATH"), format!("{PATH:?}"));
        assert_eq!(defined("APPLE_PMU_EL0_ABI"), ABI.to_string());
        assert_eq!(defined("APPLE_PMU_EL0_IOC_MAGIC"), format!("{MAGIC:#04X}").replace("0X", "0x"));
        let made = |direction, number, name| {
            format!("{direction}(APPLE_PMU_EL0_IOC_MAGIC, {number}, struct apple_pmu_el0_{name})")
        };
        assert_eq!(defined("APPLE_PMU_EL0_INFO"), made("_IOR", 0, "info"));
        assert_eq!(defined("APPLE_PMU_EL0_CONFIGURE"), made("_IOW", 1, "config"));
        assert_eq!(defined("APPLE_PMU_EL0_STATUS"), made("_IOR", 2, "status"));
        assert_eq!((INFO, CONFIGURE, STATUS), (0x8010_b800, 0x4020_b801, 0x8010_b802));
    }

    #[test]
    fn without_the_module_there_is_no_device() {
        // With the module loaded, opening would open the registers to all processes, so a user has to request
        // that test.
        if !std::path::Path::new(PATH).exists() {
            assert_eq!(Device::open().unwrap_err().raw_os_error(), Some(libc::ENOENT));
        }
    }

    #[test]
    fn another_file_is_refused_and_not_misread() {
        let null = Device(OpenOptions::new().read(true).write(true).open("/dev/null").unwrap());
        // An emulator of user mode does not know the requests.
        let refused =
            |error: io::Error| [Some(libc::ENOTTY), Some(libc::ENOSYS)].contains(&error.raw_os_error());
        assert!(null.info().is_err_and(refused));
        assert!(null.status().is_err_and(refused));
        assert!(null.configure(&PmuConfig::default()).is_err_and(refused));
    }
}
