//! Linux: the module of `kernel/apple-pmu` opens the registers while its device is open.

use std::io;
use std::sync::Arc;

use cyclometer_core::{Error, ErrorKind, MissingReason, Recovery, Result};
use cyclometer_sys::apple::AppleRegisters;
use cyclometer_sys::apple_pmu_device::{ABI, Device, PATH};

use super::bus::SysregBus;
use super::instructions::{Instructions, no_access};

/// Access to Apple's registers on every CPU of this machine, as long as this or one of its buses lives.
///
/// The module saves the registers before, and restores them when the last descriptor is closed. The kernel
/// closes it when this process is killed.
#[derive(Clone, Debug)]
pub struct SysregAccess {
    device: Arc<Device>,
}

impl SysregAccess {
    /// Opens the device of the module.
    ///
    /// # Errors
    ///
    /// The module is not loaded, or has another version; missing rights; perf or another program holds the
    /// PMU.
    pub fn open() -> Result<SysregAccess> {
        let device = Device::open().map_err(refused)?;
        let info = device.info().map_err(refused)?;
        if info.abi != ABI {
            let found = info.abi;
            let text = format!("{PATH} speaks version {found} of its interface, this program version {ABI}");
            let hint = "build the module and this program from the same release";
            return Err(Error::new(ErrorKind::Os, text).with_recovery(Recovery::fix(hint)));
        }
        Ok(SysregAccess { device: Arc::new(device) })
    }

    /// The registers of a CPU, to which the calling thread is bound as long as the bus lives. With `None`,
    /// the registers of its present CPU.
    ///
    /// # Errors
    ///
    /// A CPU that does not exist or may not be used; a CPU to which the module gave no access.
    pub fn bus(&self, cpu: Option<u32>) -> Result<SysregBus> {
        let registers = AppleRegisters::probe(cpu).map_err(no_access)?;
        let port = Instructions { registers, held: Arc::clone(&self.device), disturbance };
        SysregBus::new(Box::new(port)).map_err(|_| no_access(cyclometer_sys::apple::NoAccess::Closed))
    }

    /// Whether perf has begun to count on any CPU since the device was opened: then counts are not reliable.
    /// `None` where that is unknown.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn was_disturbed(&self) -> Result<Option<bool>> {
        Ok(Some(self.device.status().map_err(refused)?.perf != 0))
    }
}

/// The reason that perf has begun to count since the device was opened: it uses the same counters.
fn disturbance(device: &Arc<Device>) -> Option<MissingReason> {
    match device.status() {
        Ok(status) if status.perf == 0 => None,
        Ok(_) => Some(MissingReason::PerfHasBegun),
        Err(error) => {
            let text = format!("{PATH} does not tell any more whether perf counts: {error}");
            Some(MissingReason::Reported(text))
        }
    }
}

/// Error numbers of Linux.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/errno.h`, `errno-base.h`.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EUSERS: i32 = 87;
}

/// The meaning of the device's refusal. The module's README documents it.
fn refused(error: io::Error) -> Error {
    let (kind, text, recovery) = match error.raw_os_error() {
        Some(errno::ENOENT) => (
            ErrorKind::KernelPatchNeeded,
            format!("there is no {PATH}: the module apple_pmu_el0 is not loaded"),
            Recovery::GrantAccess {
                command: "sudo modprobe apple_pmu_el0 (build it first: kernel/apple-pmu/README.md)"
                    .to_owned(),
            },
        ),
        Some(errno::EACCES | errno::EPERM) => (
            ErrorKind::PermissionDenied,
            format!("cannot open {PATH}: {error}"),
            Recovery::fix(
                "run it as root, with CAP_SYS_RAWIO; a kernel that is locked down refuses it even then",
            ),
        ),
        Some(errno::EUSERS) => (
            ErrorKind::CounterBusy,
            format!("{PATH} is open in another process, and the registers cannot be shared"),
            Recovery::fix("sudo fuser -v /dev/apple_pmu_el0 names the process; end it first"),
        ),
        Some(errno::EBUSY) => (
            ErrorKind::CounterBusy,
            "perf counts on some CPU, and the registers cannot be shared".to_owned(),
            ErrorKind::CounterBusy.strategy(),
        ),
        _ => (ErrorKind::Os, format!("{PATH}: {error}"), Recovery::None),
    };
    Error::new(kind, text).with_recovery(recovery).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_remedy() {
        let check = |errno: i32, kind: ErrorKind, recovery: &str| {
            let error = refused(io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.recovery().to_string().contains(recovery), "{}", error.recovery());
        };
        check(errno::ENOENT, ErrorKind::KernelPatchNeeded, "modprobe apple_pmu_el0");
        check(errno::EACCES, ErrorKind::PermissionDenied, "as root");
        check(errno::EPERM, ErrorKind::PermissionDenied, "locked down");
        check(errno::EUSERS, ErrorKind::CounterBusy, "fuser");
        check(errno::EBUSY, ErrorKind::CounterBusy, "try again");
        check(19, ErrorKind::Os, "");
    }
}
