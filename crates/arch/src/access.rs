//! The registers that a driver may use, and the seam behind which they are: silicon or a simulated chip.

use std::fmt;

use cyclometer_core::{Error, ErrorKind};

use crate::chip::Chip;
use crate::error::NotListed;
use crate::register::{Register, RegisterAddress};
use crate::register_access::Access;

/// A register of a PMU that a driver may use: an entry of the allow-list.
///
/// It is made here only, from a chip and a register that the chip has, so that neither a plan, nor an event
/// file, nor a user can name another register of the machine.
///
/// ```
/// use cyclometer_arch::{Chip, ChipCounters, PmuReg, Register, intel};
/// use cyclometer_core::CounterMask;
///
/// let counters = ChipCounters::of(CounterMask::first(4, 3));
/// let chip = Chip { pmu_version: Some(4), counters, ..Chip::default() };
/// let select = |n| PmuReg::of(&chip, Register::Intel(intel::Register::EventSelect(n)));
/// assert_eq!(select(0)?.to_string(), "IA32_PERFEVTSEL0");
/// assert!(select(26).is_err()); // 0x1a0 is IA32_MISC_ENABLE
/// # Ok::<(), cyclometer_arch::NotListed>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PmuReg {
    register: Register,
    address: RegisterAddress,
    access: Access,
}

impl PmuReg {
    /// The entry of a register.
    ///
    /// # Errors
    ///
    /// A register that the chip does not have or that is on no list: one whose bits are not known, one that
    /// switches on more than counting, a word that is no register.
    pub fn of(chip: &Chip, register: Register) -> Result<PmuReg, NotListed> {
        let refused = || NotListed { register: register.to_string() };
        let there = Register::all(chip).contains(&register);
        let (address, access) = register.address().zip(listed(register)).ok_or_else(refused)?;
        if there { Ok(PmuReg { register, address, access }) } else { Err(refused()) }
    }

    /// The whole list of a chip.
    pub fn all(chip: &Chip) -> Vec<PmuReg> {
        Register::all(chip).into_iter().filter_map(|register| PmuReg::of(chip, register).ok()).collect()
    }

    /// The register.
    pub const fn register(self) -> Register {
        self.register
    }

    /// Where it is.
    pub const fn address(self) -> RegisterAddress {
        self.address
    }

    /// The operations that it allows.
    pub const fn access(self) -> Access {
        self.access
    }

    /// The document that describes its layout.
    pub const fn source(self) -> &'static str {
        self.register.source()
    }
}

impl fmt::Display for PmuReg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.register.fmt(f)
    }
}

const fn listed(register: Register) -> Option<Access> {
    match register {
        Register::Perf(_) | Register::RdpmcIndex => None,
        Register::Intel(register) => register.access(),
        Register::Amd(register) => register.access(),
        Register::Arm(register) => register.access(),
        Register::RiscV(register) => register.access(),
        Register::Apple(register) => register.access(),
    }
}

/// The registers of a machine's CPUs.
///
/// Values are whole registers; what a write means is the register's matter. Nothing is cached and nothing is
/// retried.
pub trait Registers {
    /// Reads a register of a CPU.
    ///
    /// # Errors
    ///
    /// The CPU's answer instead of a value.
    fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault>;

    /// Writes a register of a CPU. Without a fault the value need not have arrived: some hypervisors drop it.
    ///
    /// # Errors
    ///
    /// The CPU's answer instead of taking the value.
    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault>;

    /// Waits until what was written to a CPU's registers acts: `isb` on Arm and Apple, nothing on x86, where
    /// `wrmsr` of these registers serialises.
    fn barrier(&mut self, cpu: u32);
}

/// Why a register could not be read or written.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The machine has no such CPU.
    NoCpu {
        /// Its number.
        cpu: u32,
    },
    /// The CPU has no such register.
    NoRegister {
        /// The register.
        register: PmuReg,
    },
    /// The value has bits that must be 0.
    Reserved {
        /// The register.
        register: PmuReg,
        /// Those bits.
        bits: u64,
    },
    /// The register cannot be written.
    ReadOnly {
        /// The register.
        register: PmuReg,
    },
    /// The privilege is missing: user mode, and the PMU is closed to it.
    Privilege {
        /// The register.
        register: PmuReg,
    },
    /// The operating system refuses, or fails.
    System {
        /// The register.
        register: PmuReg,
        /// Whether it was to be written.
        writing: bool,
        /// The reason of the failure.
        reason: String,
        /// Whether that is for want of a permission.
        is_forbidden: bool,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NoCpu { cpu } => write!(f, "there is no CPU {cpu}"),
            Fault::NoRegister { register } => write!(f, "the CPU has no register {register}"),
            Fault::Reserved { register, bits } => {
                write!(f, "bits {bits:#x} of {register} are reserved and cannot be set")
            }
            Fault::ReadOnly { register } => write!(f, "{register} cannot be written"),
            Fault::Privilege { register } => write!(f, "{register} is closed to user mode"),
            Fault::System { register, writing, reason, .. } => {
                let verb = if *writing { "write" } else { "read" };
                write!(f, "cannot {verb} {register}: {reason}")
            }
        }
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let kind = match fault {
            Fault::NoCpu { .. } => ErrorKind::InvalidInput,
            Fault::NoRegister { .. } => ErrorKind::ArchUnsupported,
            Fault::Reserved { .. } | Fault::ReadOnly { .. } => ErrorKind::InvalidInput,
            Fault::Privilege { .. } | Fault::System { is_forbidden: true, .. } => ErrorKind::PermissionDenied,
            Fault::System { .. } => ErrorKind::Os,
        };
        Error::new(kind, fault.to_string()).with_source(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::ChipCounters;
    use crate::testing::{chips, m1, m3, neoverse, sapphire_rapids, skylake, u74, zen2};
    use crate::{apple, arm, intel};
    use cyclometer_core::CounterMask;

    #[test]
    fn every_entry_has_an_address_a_name_and_a_source() {
        for chip in chips() {
            let all = PmuReg::all(&chip);
            assert!(!all.is_empty(), "{chip:?}");
            for entry in all {
                assert_eq!(Some(entry.address()), entry.register().address());
                assert!(!entry.to_string().is_empty() && !entry.source().is_empty());
            }
        }
    }

    #[test]
    fn a_chip_that_claims_too_many_counters_gets_no_registers_of_others() {
        let greedy = Chip { counters: ChipCounters::of(CounterMask::first(64, 64)), ..skylake() };
        for entry in PmuReg::all(&greedy) {
            let RegisterAddress::Msr(msr) = entry.address() else { panic!("{entry}") };
            let counts = matches!(msr, 0xc1..=0xca | 0x186..=0x18f | 0x309..=0x30f | 0x4c1..=0x4ca);
            let controls = matches!(msr, 0x1d9 | 0x329 | 0x345 | 0x38d..=0x392 | 0x3f1);
            let refines = matches!(msr, 0x1a6 | 0x1a7 | 0x3e0..=0x3e3 | 0x3f6 | 0x3f7 | 0x1328 | 0x1329);
            assert!(counts || controls || refines, "{entry} {msr:#x}");
        }
    }

    #[test]
    fn a_register_of_another_family_or_another_chip_is_refused() {
        let of = |chip: &Chip, register| PmuReg::of(chip, register).map(|entry| entry.to_string());
        let select = |n| Register::Intel(intel::Register::EventSelect(n));
        assert_eq!(of(&skylake(), select(7)), Ok("IA32_PERFEVTSEL7".to_owned()));
        assert!(of(&skylake(), select(8)).is_err());
        assert!(of(&zen2(), select(0)).is_err());
        assert!(of(&m1(), Register::Apple(apple::Register::KpcConfig(0))).is_err());
        assert!(of(&m1(), Register::Apple(apple::Register::OpcodeMatch)).is_err());
        let error = PmuReg::of(&skylake(), Register::RdpmcIndex).unwrap_err();
        assert_eq!(error.to_string(), "rdpmc is no register that a driver may use on this CPU");
    }

    #[test]
    fn what_does_more_than_count_is_read_or_written_in_part_only() {
        let access = |chip: &Chip, register| PmuReg::of(chip, register).unwrap().access().writable();
        let chip = sapphire_rapids();
        assert_eq!(access(&chip, Register::Intel(intel::Register::PebsEnable)), 0);
        assert_eq!(access(&chip, Register::Intel(intel::Register::GlobalStatus)), 0);
        assert_eq!(access(&chip, Register::Intel(intel::Register::DebugControl)), 1 << 12);
        let control = access(&m3(), Register::Apple(apple::Register::Control));
        assert_eq!(control & (0b111 << 24 | 1 << 23 | 1 << 31), 0);
        assert_eq!(access(&neoverse(), Register::Arm(arm::Register::Control)), 0x2e1);
        assert!(PmuReg::all(&u74()).iter().all(|entry| entry.access() == Access::Read));
    }
}
