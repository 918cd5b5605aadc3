//! The meaning of the `msr` driver's error numbers, with the command that helps.

use std::fs;
use std::io;
use std::path::Path;

use cyclometer_arch::{Fault, PmuReg};

/// Error numbers of the driver.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/errno-base.h`. For the meanings: `arch/x86/kernel/msr.c`, `msr_open`,
/// `msr_read`, `msr_write`, `filter_write`.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const ENOENT: i32 = 2;
    pub(super) const EIO: i32 = 5;
    pub(super) const ENXIO: i32 = 6;
    pub(super) const EACCES: i32 = 13;
}

/// The access to a register that was attempted on a CPU.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    pub(super) cpu: u32,
    pub(super) register: PmuReg,
    pub(super) what: MsrOperation,
}

#[derive(Clone, Copy)]
pub(super) enum MsrOperation {
    Open,
    Read,
    /// `before` is the value that the register held before, where it could be read.
    Write {
        value: u64,
        before: Option<u64>,
    },
}

/// State of the system that explains a refusal; it is read only after one.
#[derive(Clone, Debug, Default)]
pub(super) struct MsrEnvironment {
    /// The driver is there.
    pub(super) has_driver: bool,
    /// The machine has that CPU.
    pub(super) has_cpu: bool,
    /// `/sys/kernel/security/lockdown`: `none [integrity] confidentiality`.
    pub(super) lockdown: String,
    /// `/sys/module/msr/parameters/allow_writes`: `on`, `off`, `default`.
    pub(super) allow_writes: String,
}

impl MsrEnvironment {
    pub(super) fn of_kernel(cpu: u32) -> MsrEnvironment {
        let text = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        MsrEnvironment {
            has_driver: Path::new("/sys/class/msr").is_dir(),
            has_cpu: Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).is_dir(),
            lockdown: text("/sys/kernel/security/lockdown"),
            allow_writes: text("/sys/module/msr/parameters/allow_writes"),
        }
    }

    /// The sockets show which CPUs exist; nothing is locked down.
    #[cfg(feature = "fake-devices")]
    pub(super) fn of_fake(folder: &Path, cpu: u32) -> MsrEnvironment {
        MsrEnvironment {
            has_driver: folder.is_dir(),
            has_cpu: folder.join(format!("msr.{cpu}")).exists(),
            ..MsrEnvironment::default()
        }
    }

    /// The level of lockdown, if the kernel is locked down.
    fn locked_down(&self) -> Option<&str> {
        let level = self.lockdown.split_once('[')?.1.split_once(']')?.0;
        (level != "none").then_some(level)
    }
}

/// The fault that an error means.
pub(super) fn fault(attempt: Attempt, error: &io::Error, around: &MsrEnvironment) -> Fault {
    let Attempt { cpu, register, what } = attempt;
    let writing = matches!(what, MsrOperation::Write { .. });
    let system = |is_forbidden, reason| Fault::System { register, writing, reason, is_forbidden };
    match (what, error.raw_os_error()) {
        (MsrOperation::Open, Some(errno::ENOENT)) if !around.has_driver => {
            system(false, NO_DRIVER.to_owned())
        }
        (MsrOperation::Open, Some(errno::ENOENT)) if around.has_cpu => system(false, no_device(cpu)),
        (_, Some(errno::ENOENT | errno::ENXIO)) => Fault::NoCpu { cpu },
        (MsrOperation::Open, Some(errno::EACCES)) => system(true, NOT_ROOT.to_owned()),
        (MsrOperation::Open | MsrOperation::Read, Some(errno::EPERM)) => {
            system(true, NO_CAPABILITY.to_owned())
        }
        (MsrOperation::Write { .. }, Some(errno::EPERM)) => system(true, forbidden(around)),
        (MsrOperation::Open, Some(errno::EIO)) | (MsrOperation::Read, Some(errno::EIO)) => {
            Fault::NoRegister { register }
        }
        (MsrOperation::Write { before: None, .. }, Some(errno::EIO)) => Fault::NoRegister { register },
        (MsrOperation::Write { value, before: Some(before) }, Some(errno::EIO)) => {
            reserved(register, value, before)
        }
        _ => system(false, error.to_string()),
    }
}

const NO_DRIVER: &str = "the msr driver is not loaded; run: modprobe msr";
const NOT_ROOT: &str = "/dev/cpu/*/msr is root's; run the program as root";
const NO_CAPABILITY: &str =
    "the kernel wants CAP_SYS_RAWIO, which this process lacks even as root (a container?)";

fn no_device(cpu: u32) -> String {
    format!("the msr driver is loaded, but there is no /dev/cpu/{cpu}/msr here (a container?)")
}

/// Why the kernel forbids writes.
fn forbidden(around: &MsrEnvironment) -> String {
    match around.locked_down() {
        Some(level) => format!(
            "the kernel is locked down ({level}): registers cannot be written until it is booted without \
             lockdown, which Secure Boot may rotation_group on"
        ),
        None if around.allow_writes == "off" => {
            "the kernel forbids it; run: echo on > /sys/module/msr/parameters/allow_writes".to_owned()
        }
        None => "the kernel forbids writing of registers (lockdown, or msr.allow_writes)".to_owned(),
    }
}

/// The CPU accepts the register but not the value. The refused bits are among those that were 0 before.
fn reserved(register: PmuReg, value: u64, before: u64) -> Fault {
    let new = value & !before;
    Fault::Reserved { register, bits: if new == 0 { value } else { new } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_arch::{Register, intel};
    use cyclometer_sim::Model;

    fn select() -> PmuReg {
        let chip = &Model::find("skylake").unwrap().chip;
        PmuReg::of(chip, Register::Intel(intel::Register::EventSelect(0))).unwrap()
    }

    fn told(what: MsrOperation, errno: i32, around: MsrEnvironment) -> String {
        let attempt = Attempt { cpu: 3, register: select(), what };
        fault(attempt, &io::Error::from_raw_os_error(errno), &around).to_string()
    }

    const WRITE: MsrOperation = MsrOperation::Write { value: 0x43_00c0, before: Some(0x40_0000) };

    fn around(lockdown: &str, allow_writes: &str) -> MsrEnvironment {
        let (lockdown, allow_writes) = (lockdown.to_owned(), allow_writes.to_owned());
        MsrEnvironment { has_driver: true, has_cpu: true, lockdown, allow_writes }
    }

    #[test]
    fn each_refusal_is_told_with_its_cure() {
        let unlocked = || around("[none] integrity confidentiality", "default");
        let check = |what, errno, around, expected: &str| {
            let told = told(what, errno, around);
            assert!(told.contains(expected), "{told}");
        };
        check(
            MsrOperation::Open,
            2,
            MsrEnvironment::default(),
            "IA32_PERFEVTSEL0: the msr driver is not loaded; run: modprobe msr",
        );
        check(MsrOperation::Open, 2, unlocked(), "there is no /dev/cpu/3/msr here");
        check(MsrOperation::Open, 2, MsrEnvironment { has_cpu: false, ..unlocked() }, "there is no CPU 3");
        check(MsrOperation::Open, 6, unlocked(), "there is no CPU 3");
        check(MsrOperation::Open, 13, unlocked(), "run the program as root");
        check(MsrOperation::Open, 1, unlocked(), "CAP_SYS_RAWIO");
        check(MsrOperation::Read, 5, unlocked(), "the CPU has no register IA32_PERFEVTSEL0");
        check(
            WRITE,
            1,
            around("none [integrity] confidentiality", "on"),
            "cannot write IA32_PERFEVTSEL0: the kernel is locked down (integrity)",
        );
        check(WRITE, 1, around("", "off"), "echo on > /sys/module/msr/parameters/allow_writes");
        check(WRITE, 1, unlocked(), "lockdown, or msr.allow_writes");
        check(WRITE, 5, unlocked(), "bits 0x300c0 of IA32_PERFEVTSEL0 are reserved");
        check(MsrOperation::Write { value: 1, before: None }, 5, unlocked(), "the CPU has no register");
        check(WRITE, 28, unlocked(), "cannot write IA32_PERFEVTSEL0: No space left");
    }

    #[test]
    fn want_of_a_permission_is_told_from_other_failures() {
        let is_forbidden = |what, errno| {
            let attempt = Attempt { cpu: 0, register: select(), what };
            let fault = fault(attempt, &io::Error::from_raw_os_error(errno), &around("", "off"));
            matches!(fault, Fault::System { is_forbidden: true, .. })
        };
        assert!(
            is_forbidden(MsrOperation::Open, 13)
                && is_forbidden(MsrOperation::Open, 1)
                && is_forbidden(WRITE, 1)
        );
        assert!(!is_forbidden(MsrOperation::Open, 24) && !is_forbidden(WRITE, 28));
    }
}
