//! Why NVIDIA's management library does not answer, and the remedy.

use std::fmt;
use std::time::Duration;

use crate::ladder::{Cause, CauseKind};
use crate::refusal::RefusalKind;

/// A return code of NVML other than success.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct NvmlReturn(pub u32);

/// The meaning of a return code to a user.
struct ReturnMeaning {
    code: u32,
    name: &'static str,
    kind: CauseKind,
    text: &'static str,
    mend: Option<&'static str>,
}

const fn meaning(code: u32, name: &'static str, kind: CauseKind, text: &'static str) -> ReturnMeaning {
    ReturnMeaning { code, name, kind, text, mend: None }
}

impl ReturnMeaning {
    const fn mend(self, command: &'static str) -> ReturnMeaning {
        ReturnMeaning { mend: Some(command), ..self }
    }
}

/// The command that shows what the kernel's driver reports about a device.
const KERNEL_LOG: &str = "sudo dmesg | grep -i nvrm";

/// Every code.
///
/// # Source
///
/// NVML API Reference Guide, `nvmlReturn_t`.
const MEANINGS: [ReturnMeaning; 31] = {
    use CauseKind::{DriverFault, HeldByAnother, MemoryLimit, NoDevice, NoDriver, NoLibrary};
    use CauseKind::{NoPermission, UnsupportedByDevice, VersionMismatch};
    [
        meaning(1, "UNINITIALIZED", DriverFault, "the library was not initialised"),
        meaning(2, "INVALID_ARGUMENT", UnsupportedByDevice, "the library refuses the request as invalid"),
        meaning(3, "NOT_SUPPORTED", UnsupportedByDevice, "the device does not report it"),
        meaning(4, "NO_PERMISSION", NoPermission, "this user may not read it").mend("sudo cyclometer doctor"),
        meaning(5, "ALREADY_INITIALIZED", DriverFault, "the library was initialised twice"),
        meaning(6, "NOT_FOUND", NoDevice, "there is no such device or instance"),
        meaning(7, "INSUFFICIENT_SIZE", DriverFault, "the answer is longer than expected"),
        meaning(8, "INSUFFICIENT_POWER", DriverFault, "a power cable of the device is not connected"),
        meaning(9, "DRIVER_NOT_LOADED", NoDriver, "the kernel driver nvidia is not loaded")
            .mend("sudo modprobe nvidia"),
        meaning(10, "TIMEOUT", DriverFault, "the driver did not answer the library in time")
            .mend(KERNEL_LOG),
        meaning(11, "IRQ_ISSUE", DriverFault, "the kernel has a problem with an interrupt of the device")
            .mend(KERNEL_LOG),
        meaning(12, "LIBRARY_NOT_FOUND", NoLibrary, "NVML cannot find another library of the driver"),
        meaning(13, "FUNCTION_NOT_FOUND", VersionMismatch, "this version of the driver lacks the function"),
        meaning(14, "CORRUPTED_INFOROM", DriverFault, "the device's information memory is corrupted")
            .mend(KERNEL_LOG),
        meaning(15, "GPU_IS_LOST", DriverFault, "the device has fallen off the bus").mend(KERNEL_LOG),
        meaning(16, "RESET_REQUIRED", DriverFault, "the device needs a reset")
            .mend("sudo nvidia-smi --gpu-reset"),
        meaning(17, "OPERATING_SYSTEM", NoPermission, "the operating system or a container blocks the driver")
            .mend("ls -l /dev/nvidia*"),
        meaning(
            18,
            "LIB_RM_VERSION_MISMATCH",
            VersionMismatch,
            "the library and the loaded kernel driver have different versions; after an update, reboot or load \
             the new driver",
        )
        .mend("sudo rmmod nvidia_uvm nvidia && sudo modprobe nvidia"),
        meaning(19, "IN_USE", HeldByAnother, "another program holds the device"),
        meaning(20, "MEMORY", MemoryLimit, "the library has no memory left"),
        meaning(21, "NO_DATA", UnsupportedByDevice, "the driver has no data for it yet"),
        meaning(22, "VGPU_ECC_NOT_SUPPORTED", UnsupportedByDevice, "a virtual GPU does not report it with ECC on"),
        meaning(23, "INSUFFICIENT_RESOURCES", DriverFault, "the driver ran out of resources"),
        meaning(24, "FREQ_NOT_SUPPORTED", UnsupportedByDevice, "the device does not support this clock"),
        meaning(25, "ARGUMENT_VERSION_MISMATCH", VersionMismatch, "the driver has another version of the request"),
        meaning(26, "DEPRECATED", VersionMismatch, "the driver has dropped the function"),
        meaning(27, "NOT_READY", DriverFault, "the driver is not ready yet"),
        meaning(28, "GPU_NOT_FOUND", NoDevice, "the driver found no GPU"),
        meaning(29, "INVALID_STATE", DriverFault, "the device is in a state that does not allow it"),
        meaning(30, "RESET_TYPE_NOT_SUPPORTED", UnsupportedByDevice, "the device does not support this reset"),
        meaning(999, "UNKNOWN", DriverFault, "the driver reports an internal error").mend(KERNEL_LOG),
    ]
};

impl NvmlReturn {
    /// `NVML_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: NvmlReturn = NvmlReturn(3);
    /// `NVML_ERROR_FUNCTION_NOT_FOUND`.
    pub const FUNCTION_NOT_FOUND: NvmlReturn = NvmlReturn(13);

    /// Every code that the documentation names.
    pub fn all() -> impl Iterator<Item = NvmlReturn> {
        MEANINGS.iter().map(|meaning| NvmlReturn(meaning.code))
    }

    fn meaning(self) -> Option<&'static ReturnMeaning> {
        MEANINGS.iter().find(|meaning| meaning.code == self.0)
    }
}

impl fmt::Display for NvmlReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.meaning() {
            Some(meaning) => write!(f, "NVML_ERROR_{}", meaning.name),
            None => write!(f, "NVML error {}", self.0),
        }
    }
}

/// Why NVML gave no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NvmlObstacle {
    /// The library or one of its functions is missing; the dynamic linker's reason.
    NoLibrary(String),
    /// A function returned this code.
    Returned(NvmlReturn),
    /// A function did not return within this time.
    NoAnswer(Duration),
}

impl fmt::Display for NvmlObstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvmlObstacle::NoLibrary(reason) => write!(f, "NVML cannot be opened: {reason}"),
            NvmlObstacle::Returned(code) => match code.meaning() {
                Some(meaning) => write!(f, "{} ({code})", meaning.text),
                None => write!(f, "the driver reports an unknown error ({code})"),
            },
            NvmlObstacle::NoAnswer(limit) => {
                write!(f, "NVML did not answer within {} s", limit.as_secs_f64())
            }
        }
    }
}

impl NvmlObstacle {
    /// The cause for `doctor`, with the remedy.
    pub fn cause(&self) -> Cause {
        let (kind, mend) = match self {
            NvmlObstacle::NoLibrary(_) => (CauseKind::NoLibrary, None),
            NvmlObstacle::NoAnswer(_) => (CauseKind::DriverFault, Some(KERNEL_LOG)),
            NvmlObstacle::Returned(code) => {
                let known = code.meaning().map(|meaning| (meaning.kind, meaning.mend));
                known.unwrap_or((CauseKind::DriverFault, Some(KERNEL_LOG)))
            }
        };
        Cause { kind, text: self.to_string(), mend: mend.map(str::to_owned) }
    }

    /// The kind of refusal of an event.
    pub fn refusal_kind(&self) -> RefusalKind {
        match self.cause().kind {
            CauseKind::NoPermission => RefusalKind::NoPermission,
            CauseKind::NoDevice | CauseKind::UnsupportedByDevice => RefusalKind::NotSupported,
            _ => RefusalKind::Unavailable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_name_a_kind_and_a_text_of_its_own() {
        let codes: Vec<NvmlReturn> = NvmlReturn::all().collect();
        assert_eq!(codes.len(), 31);
        let texts: Vec<String> = codes.iter().map(|code| NvmlObstacle::Returned(*code).to_string()).collect();
        for (i, (code, text)) in codes.iter().zip(&texts).enumerate() {
            assert!(!texts[..i].contains(text), "{text} stands twice");
            assert!(text.ends_with(&format!("({code})")), "{text}");
            assert!(code.to_string().starts_with("NVML_ERROR_"), "{code}");
        }
        let unknown = NvmlObstacle::Returned(NvmlReturn(77));
        assert_eq!(unknown.to_string(), "the driver reports an unknown error (NVML error 77)");
        assert_eq!(unknown.cause().kind, CauseKind::DriverFault);
    }

    #[test]
    fn an_obstacle_that_can_be_lifted_has_the_command() {
        let mend = |code| NvmlObstacle::Returned(NvmlReturn(code)).cause().mend;
        assert_eq!(mend(9).as_deref(), Some("sudo modprobe nvidia"));
        assert!(mend(18).unwrap().contains("rmmod"));
        assert!(mend(3).is_none(), "no command makes a device report what it does not measure");
        assert!(NvmlObstacle::NoAnswer(Duration::from_secs(2)).cause().mend.is_some());
    }

    #[test]
    fn a_quantity_that_the_device_lacks_is_unsupported_and_all_else_is_not_counted() {
        let kind = |code| NvmlObstacle::Returned(NvmlReturn(code)).refusal_kind();
        assert_eq!(kind(3), RefusalKind::NotSupported);
        assert_eq!(kind(28), RefusalKind::NotSupported);
        for code in [4, 17] {
            assert_eq!(kind(code), RefusalKind::NoPermission, "{code}");
        }
        for code in [9, 10, 15, 18, 999, 77] {
            assert_eq!(kind(code), RefusalKind::Unavailable, "{code}");
        }
        let silent = NvmlObstacle::NoAnswer(Duration::from_secs(2));
        assert_eq!(silent.to_string(), "NVML did not answer within 2 s");
        assert_eq!(silent.refusal_kind(), RefusalKind::Unavailable);
    }
}
