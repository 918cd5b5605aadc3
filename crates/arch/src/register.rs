//! Registers of every family: names, addresses, finding one by what a user calls it.

use std::fmt;

use cyclometer_core::pmu::{ConfigWord, Family};
use cyclometer_core::syntax::parse_number;

use crate::chip::Chip;
use crate::error::{EncodeError, UnknownRegister};
use crate::presence::Presence;
use crate::register_name::RegisterName;
use crate::{amd, apple, arm, intel, riscv};

/// A register, or a word that is laid out as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// A word of `perf_event_attr` for the core PMU.
    Perf(ConfigWord),
    /// The operand of the instruction `rdpmc` in ECX.
    RdpmcIndex,
    /// An MSR of Intel.
    Intel(intel::Register),
    /// An MSR of AMD.
    Amd(amd::Register),
    /// A system register of PMUv3.
    Arm(arm::Register),
    /// A CSR of RISC-V.
    RiscV(riscv::Register),
    /// A system register of Apple, or a word that macOS makes one of.
    Apple(apple::Register),
}

/// Where a register is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RegisterAddress {
    /// A model-specific register of x86.
    Msr(u32),
    /// A system register of Arm: op0, op1, CRn, CRm, op2.
    SysReg([u8; 5]),
    /// A control and status register of RISC-V.
    Csr(u16),
}

impl RegisterAddress {
    /// Reads `S3_1_C15_C5_0`, in either case.
    fn parse_sysreg(text: &str) -> Option<RegisterAddress> {
        let mut parts = text.split('_');
        let mut number = |start: &str| parts.next()?.strip_prefix(start)?.parse().ok();
        let address = [number("s")?, number("")?, number("c")?, number("c")?, number("")?];
        parts.next().is_none().then_some(RegisterAddress::SysReg(address))
    }

    /// The number of an MSR or CSR.
    pub(crate) const fn number(self) -> Option<u64> {
        match self {
            RegisterAddress::Msr(n) => Some(n as u64),
            RegisterAddress::Csr(n) => Some(n as u64),
            RegisterAddress::SysReg(_) => None,
        }
    }
}

impl fmt::Display for RegisterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterAddress::Msr(n) => write!(f, "{n:#x}"),
            RegisterAddress::Csr(n) => write!(f, "{n:#x}"),
            RegisterAddress::SysReg([op0, op1, crn, crm, op2]) => {
                write!(f, "S{op0}_{op1}_C{crn}_C{crm}_{op2}")
            }
        }
    }
}

/// One write of a register: which bits are to have which values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterWrite {
    /// The register.
    pub register: Register,
    /// Where it is.
    pub address: RegisterAddress,
    /// The values of the bits.
    pub value: u64,
    /// The bits that are meant; the others keep what they have, or are 0 where nothing else is counted.
    pub mask: u64,
}

impl Register {
    /// Whether it selects the event of a general counter on AMD: a PERF_CTLn, legacy or extended.
    pub const fn is_amd_event_select(self) -> bool {
        matches!(self, Register::Amd(amd::Register::EventSelect(_) | amd::Register::LegacyEventSelect(_)))
    }
}

impl RegisterWrite {
    /// A write of the bits of `mask`.
    ///
    /// # Errors
    ///
    /// A word that is no register has nothing to be written.
    pub(crate) fn of(
        register: impl Into<Register>,
        value: u64,
        mask: u64,
    ) -> Result<RegisterWrite, EncodeError> {
        let register = register.into();
        let address = register.address().ok_or(EncodeError::NoRegister)?;
        Ok(RegisterWrite { register, address, value, mask })
    }

    /// The register's name.
    pub fn name(&self) -> String {
        self.register.name().to_string()
    }
}

impl Register {
    /// The registers of a chip that can be decoded, and perf's words.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let words = [ConfigWord::Config, ConfigWord::Config1, ConfigWord::Config2];
        let mut all: Vec<Register> = words.into_iter().map(Register::Perf).collect();
        match chip.family {
            Family::Intel => {
                all.push(Register::RdpmcIndex);
                all.extend(intel::Register::all(chip).into_iter().map(Register::Intel));
            }
            Family::Amd => {
                all.push(Register::RdpmcIndex);
                all.extend(amd::Register::all(chip).into_iter().map(Register::Amd));
            }
            Family::Arm => all.extend(arm::Register::all(chip).into_iter().map(Register::Arm)),
            Family::RiscV => all.extend(riscv::Register::all(chip).into_iter().map(Register::RiscV)),
            Family::Apple => all.extend(apple::Register::all(chip).into_iter().map(Register::Apple)),
        }
        all
    }

    /// Finds a register by its name, another name of it, or its address; upper and lower case are the same.
    ///
    /// `PERFEVTSEL0`, `IA32_PERFEVTSEL0`, `0x186`, `config`, `PMESR0`, `S3_1_C15_C5_0`. Also those that
    /// Intel's chips have with Hyper-Threading off only, which [`Register::all`] leaves out.
    ///
    /// # Errors
    ///
    /// The names that there are.
    pub fn parse(chip: &Chip, name: &str) -> Result<Register, UnknownRegister> {
        let all = Register::all(chip);
        let more = intel::shared::registers(chip).into_iter().map(Register::Intel);
        let mut each = all.iter().copied().chain(more);
        let lower = name.trim().to_ascii_lowercase();
        let found = match (RegisterAddress::parse_sysreg(&lower), parse_number(&lower)) {
            (Some(address), _) => each.find(|register| register.address() == Some(address)),
            (_, Some(number)) => {
                each.find(|register| register.address().and_then(RegisterAddress::number) == Some(number))
            }
            _ => each.find(|register| register.answers_to(&folded(&lower))),
        };
        found.ok_or_else(|| UnknownRegister { name: name.to_owned(), known: ranges(&all) })
    }

    fn answers_to(self, name: &str) -> bool {
        let own = self.name();
        let others = self.aliases().iter().map(|stem| own.with_stem(stem));
        std::iter::once(own).chain(others).any(|known| folded(&known.to_string()) == name)
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::Perf(ConfigWord::Config) => RegisterName::one("config"),
            Register::Perf(ConfigWord::Config1) => RegisterName::one("config1"),
            Register::Perf(ConfigWord::Config2) => RegisterName::one("config2"),
            Register::RdpmcIndex => RegisterName::one("rdpmc"),
            Register::Intel(register) => register.name(),
            Register::Amd(register) => register.name(),
            Register::Arm(register) => register.name(),
            Register::RiscV(register) => register.name(),
            Register::Apple(register) => register.name(),
        }
    }

    /// Other names, without the number and what stands behind it.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Register::Perf(ConfigWord::Config) => &["perf", "raw", "perf_config"],
            Register::RdpmcIndex => &["ecx", "rdpmc_index"],
            Register::Intel(register) => register.aliases(),
            Register::Amd(register) => register.aliases(),
            Register::Apple(register) => register.aliases(),
            _ => &[],
        }
    }

    /// Where it is; `None` for what is no register of the chip.
    pub const fn address(self) -> Option<RegisterAddress> {
        match self {
            Register::Perf(_) | Register::RdpmcIndex => None,
            Register::Intel(register) => Some(RegisterAddress::Msr(register.msr())),
            Register::Amd(register) => Some(RegisterAddress::Msr(register.msr())),
            Register::Arm(register) => Some(RegisterAddress::SysReg(register.encoding())),
            Register::RiscV(register) => Some(RegisterAddress::Csr(register.csr())),
            Register::Apple(register) => match register.encoding() {
                Some(encoding) => Some(RegisterAddress::SysReg(encoding)),
                None => None,
            },
        }
    }

    /// The document that describes its layout.
    pub const fn source(self) -> &'static str {
        match self {
            Register::Perf(_) => {
                "Linux arch/x86/events/{intel,amd}/core.c, drivers/perf/*, format attributes"
            }
            Register::RdpmcIndex => "Intel SDM volume 2, RDPMC; AMD APM volume 3, RDPMC",
            Register::Intel(register) => register.source(),
            Register::Amd(register) => register.source(),
            Register::Arm(register) => register.source(),
            Register::RiscV(register) => register.source(),
            Register::Apple(register) => register.source(),
        }
    }

    /// Which chips of the family have it.
    pub const fn presence(self) -> Presence {
        match self {
            Register::Perf(_) | Register::RdpmcIndex => Presence::ALWAYS,
            Register::Intel(register) => register.presence(),
            Register::Amd(register) => register.presence(),
            Register::Arm(register) => register.presence(),
            Register::RiscV(register) => register.presence(),
            Register::Apple(register) => register.presence(),
        }
    }
}

impl From<intel::Register> for Register {
    fn from(register: intel::Register) -> Register {
        Register::Intel(register)
    }
}

impl From<amd::Register> for Register {
    fn from(register: amd::Register) -> Register {
        Register::Amd(register)
    }
}

impl From<arm::Register> for Register {
    fn from(register: arm::Register) -> Register {
        Register::Arm(register)
    }
}

impl From<riscv::Register> for Register {
    fn from(register: riscv::Register) -> Register {
        Register::RiscV(register)
    }
}

impl From<apple::Register> for Register {
    fn from(register: apple::Register) -> Register {
        Register::Apple(register)
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name().fmt(f)
    }
}

/// A name without what people leave out: the exception level, underscores, the vendors' prefixes.
fn folded(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let level = ["_el0", "_el1"].into_iter().find_map(|level| lower.strip_suffix(level));
    let plain: String = level.unwrap_or(&lower).chars().filter(char::is_ascii_alphanumeric).collect();
    let without = |name: String, prefix| name.strip_prefix(prefix).map(str::to_owned).unwrap_or(name);
    ["sys", "msr", "ia32", "imp", "apl"].into_iter().fold(plain, without)
}

/// The names, with those that differ in their number only as one: `IA32_PERFEVTSEL0..3`.
fn ranges(all: &[Register]) -> Vec<String> {
    let mut ranges: Vec<(RegisterName, Option<u8>)> = Vec::new();
    for name in all.iter().map(|register| register.name()) {
        match ranges.last_mut() {
            Some((first, last))
                if (first.stem, first.tail) == (name.stem, name.tail) && name.index.is_some() =>
            {
                *last = name.index;
            }
            _ => ranges.push((name, None)),
        }
    }
    let shown = |(first, last): &(RegisterName, Option<u8>)| match last {
        Some(last) => {
            format!("{}{}..{last}{}", first.stem, first.index.unwrap_or_default(), first.tail)
        }
        None => first.to_string(),
    };
    ranges.iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{m1, neoverse, skylake, u74, zen4};

    fn check(chip: &Chip, names: &[&str], address: &str) {
        for name in names {
            let found = Register::parse(chip, name).unwrap_or_else(|error| panic!("{error}"));
            let at = found.address().map_or_else(|| found.to_string(), |address| address.to_string());
            assert_eq!(at, address, "{name}");
        }
    }

    #[test]
    fn a_register_is_found_by_every_name_of_it() {
        check(&skylake(), &["PERFEVTSEL0", "ia32_perfevtsel0", "0x186", "390", "PerfEvtSel0"], "0x186");
        check(&skylake(), &["PERFEVTSEL1", "IA32_PERFEVTSEL1"], "0x187");
        check(
            &skylake(),
            &["FIXED_CTR_CTRL", "PERF_FIXED_CTR_CTRL", "MSR_CORE_PERF_FIXED_CTR_CTRL"],
            "0x38d",
        );
        check(&skylake(), &["GLOBAL_CTRL", "IA32_PERF_GLOBAL_CTRL", "0x38F"], "0x38f");
        check(&skylake(), &["GLOBAL_OVF_CTRL", "IA32_PERF_GLOBAL_STATUS_RESET", "0x390"], "0x390");
        check(&skylake(), &["OFFCORE_RSP_0", "MSR_OFFCORE_RSP_0", "0x1a6"], "0x1a6");
        check(&skylake(), &["config", "raw", "CONFIG"], "config");
        check(&skylake(), &["rdpmc", "ecx"], "rdpmc");
        check(&zen4(), &["PERF_CTL0", "PerfEvtSel0", "0xc0010200"], "0xc0010200");
        check(&zen4(), &["GLOBAL_CTL", "PERF_CNTR_GLOBAL_CTL", "0xc0000301"], "0xc0000301");
        check(&m1(), &["PMESR0", "S3_1_C15_C5_0", "s3_1_c15_c5_0", "SYS_APL_PMESR0_EL1"], "S3_1_C15_C5_0");
        check(&neoverse(), &["PMCR", "PMCR_EL0", "S3_3_C9_C12_0"], "S3_3_C9_C12_0");
        check(&neoverse(), &["PMEVTYPER5", "pmevtyper5_el0"], "S3_3_C14_C12_5");
        check(&u74(), &["mhpmevent3", "0x323"], "0x323");
    }

    #[test]
    fn what_is_no_register_is_refused_with_those_there_are() {
        for name in ["PERFEVTSEL8", "", "PMESR0", "0x2", "S3_1_C15_C5", "S3_1_C15_C5_0_0"] {
            let error = Register::parse(&skylake(), name).unwrap_err();
            assert!(error.known.contains(&"IA32_PERFEVTSEL0..7".to_owned()), "{error}");
            assert!(error.known.contains(&"IA32_PERF_GLOBAL_CTRL".to_owned()), "{error}");
        }
    }

    #[test]
    fn names_and_addresses_are_unique_within_a_chip() {
        for chip in crate::testing::chips() {
            let all = Register::all(&chip);
            for (i, one) in all.iter().enumerate() {
                assert_eq!(Register::parse(&chip, &one.to_string()), Ok(*one));
                let same = all[i + 1..].iter().find(|other| {
                    other.name() == one.name() || one.address().is_some() && other.address() == one.address()
                });
                assert_eq!(same, None, "{one}");
            }
        }
    }
}
