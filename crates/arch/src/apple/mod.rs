//! Apple silicon: system registers and bits from A14 (M1) on.

mod code;
mod layout;

pub use code::{KpcWord, kpc_word};
pub(crate) use code::{check, events, perf_code, perf_events, program};
pub(crate) use layout::{layout, perf_layout, selector_bits};

use cyclometer_core::CounterMask;

use crate::chip::Chip;
use crate::field::set_bits;
use crate::presence::Presence;
use crate::register_access::Access;
use crate::register_name::RegisterName;

/// The lowest counter that an event can be chosen for; the two below are fixed: cycles, instructions.
///
/// # Source
///
/// xnu `osfmk/arm64/kpc.c`; Linux `drivers/perf/apple_m1_cpu_pmu.c`.
pub const FIRST_CONFIGURABLE: u8 = 2;
/// Counters of one PMESR register.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMESR0 and PMESR1.
pub const COUNTERS_PER_PMESR: u8 = 4;

/// PMCR0's interrupt mode.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMCR0; xnu `monotonic_arm64.c`.
pub const PMCR0_MODE: u64 = 7 << 8;
/// PMCR0: overflows raise a FIQ, as both kernels have it.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, `PMCR0_IMODE_FIQ`.
pub const PMCR0_MODE_FIQ: u64 = 4 << 8;
/// PMCR0: EL0 may use the PMU's registers.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMCR0.
pub const PMCR0_USER: u64 = 1 << 30;

/// PMCR0: an interrupt is pending, and no other comes before it is written as 0.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMCR0.
pub const PMCR0_ACTIVE: u64 = 1 << 11;
/// PMCR0: an interrupt stops the counters.
///
/// # Source
///
/// AsahiLinux/docs, system-registers.md, PMCR0.
pub const PMCR0_STOP: u64 = 1 << 20;

/// Bit of a kpc config word: count at EL0 in 32-bit code; no current chip does.
///
/// # Source
///
/// xnu `osfmk/kern/kpc.h`, as for the bits that follow.
pub const KPC_EL0_32: u64 = 0x1_0000;
/// Bit of a kpc config word: count at EL0.
///
/// # Source
///
/// As [`KPC_EL0_32`].
pub const KPC_EL0: u64 = 0x2_0000;
/// Bit of a kpc config word: count at EL1.
///
/// # Source
///
/// As [`KPC_EL0_32`].
pub const KPC_EL1: u64 = 0x4_0000;
/// Bit of a kpc config word: count at EL3.
///
/// # Source
///
/// As [`KPC_EL0_32`].
pub const KPC_EL3: u64 = 0x8_0000;

/// The bits of PMCR0 that a driver has a use for: enable, interrupts, their mode, stop, user access.
const CONTROL_BITS: u64 =
    0x3_0000_00ff | 0x3000_000f_f000 | PMCR0_MODE | PMCR0_ACTIVE | PMCR0_STOP | PMCR0_USER;

/// PMC0 to PMC9; the first two are fixed.
pub(crate) const ALL_COUNTERS: CounterMask = CounterMask::from_bits(0x3fc, 0b11);

/// A system register of Apple's PMU, or a word of macOS that is laid out as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// PMCR0: enable, interrupts, user access.
    Control,
    /// PMCR1: the exception levels in which counters count.
    Modes,
    /// PMCR2: watchpoints.
    Watchpoints,
    /// PMCR3: breakpoints, address match.
    Breakpoints,
    /// PMCR4: opcode match.
    OpcodeMatch,
    /// PMESRn, n up to 1: events.
    EventSelect(u8),
    /// OPMATn, n up to 1.
    OpcodeValue(u8),
    /// OPMSKn, n up to 1.
    OpcodeMask(u8),
    /// PMSR: overflow flags.
    Status,
    /// The captured program counter. The name is ours.
    PcCapture,
    /// PMMMAP.
    MemoryMap,
    /// PMTRHLDn, n is 2, 4 or 6.
    Threshold(u8),
    /// PMCn, n up to 9.
    Counter(u8),
    /// Word n of what `kpc_set_config` takes for configurable counters: no register.
    KpcConfig(u8),
}

impl Register {
    /// The registers of a chip.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let counters = chip.counters_or(ALL_COUNTERS);
        let general = || set_bits(counters.general_bits()).filter(|n| (FIRST_CONFIGURABLE..10).contains(n));
        let mut all = vec![
            Register::Control,
            Register::Modes,
            Register::Watchpoints,
            Register::Breakpoints,
            Register::OpcodeMatch,
        ];
        all.extend([0, 1].map(Register::EventSelect));
        all.extend([0, 1].map(Register::OpcodeValue));
        all.extend([0, 1].map(Register::OpcodeMask));
        all.extend([Register::Status, Register::PcCapture, Register::MemoryMap]);
        all.extend([2, 4, 6].map(Register::Threshold));
        all.extend(set_bits(counters.fixed_bits() & 0b11).map(Register::Counter));
        all.extend(general().map(Register::Counter));
        all.extend(general().map(|n| Register::KpcConfig(n - FIRST_CONFIGURABLE)));
        all
    }

    /// Its encoding (op0, op1, CRn, CRm, op2); `None` of what is no register.
    pub const fn encoding(self) -> Option<[u8; 5]> {
        Some(match self {
            Register::Control => [3, 1, 15, 0, 0],
            Register::Modes => [3, 1, 15, 1, 0],
            Register::Watchpoints => [3, 1, 15, 2, 0],
            Register::Breakpoints => [3, 1, 15, 3, 0],
            Register::OpcodeMatch => [3, 1, 15, 4, 0],
            Register::EventSelect(n) => [3, 1, 15, 5 + n, 0],
            Register::OpcodeValue(n) => [3, 1, 15, 7 + n, 0],
            Register::OpcodeMask(n) => [3, 1, 15, 9 + n, 0],
            Register::Status => [3, 1, 15, 13, 0],
            Register::PcCapture => [3, 1, 15, 14, 1],
            Register::MemoryMap => [3, 2, 15, 15, 0],
            Register::Threshold(n) => [3, 2, 15, 15 - n / 2, 0],
            // PMC8 is C9: C8 is skipped.
            Register::Counter(n) => [3, 2, 15, if n < 8 { n } else { n + 1 }, 0],
            Register::KpcConfig(_) => return None,
        })
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::Control => RegisterName::one("PMCR0"),
            Register::Modes => RegisterName::one("PMCR1"),
            Register::Watchpoints => RegisterName::one("PMCR2"),
            Register::Breakpoints => RegisterName::one("PMCR3"),
            Register::OpcodeMatch => RegisterName::one("PMCR4"),
            Register::EventSelect(n) => RegisterName::numbered("PMESR", n),
            Register::OpcodeValue(n) => RegisterName::numbered("OPMAT", n),
            Register::OpcodeMask(n) => RegisterName::numbered("OPMSK", n),
            Register::Status => RegisterName::one("PMSR"),
            Register::PcCapture => RegisterName::one("PMC_PC_CAPTURE"),
            Register::MemoryMap => RegisterName::one("PMMMAP"),
            Register::Threshold(n) => RegisterName::numbered("PMTRHLD", n),
            Register::Counter(n) => RegisterName::numbered("PMC", n),
            Register::KpcConfig(n) => RegisterName::numbered("kpc_config", n),
        }
    }

    /// Which chips have it.
    pub(crate) const fn presence(self) -> Presence {
        match self {
            Register::KpcConfig(_) => Presence::ALWAYS.needing("macOS"),
            Register::PcCapture => Presence::ALWAYS.needing("A14, M1 to M4"),
            _ => Presence::ALWAYS,
        }
    }

    /// The document that describes its layout or its address.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Register::Control => {
                "AsahiLinux/docs system-registers.md, PMCR0; Linux arch/arm64/include/asm/apple_m1_pmu.h; xnu \
                 osfmk/arm64/monotonic_arm64.c, kpc.c"
            }
            Register::Modes => {
                "AsahiLinux/docs system-registers.md, PMCR1; Linux arch/arm64/include/asm/apple_m1_pmu.h"
            }
            Register::Watchpoints => "AsahiLinux/docs system-registers.md, PMCR2",
            Register::Breakpoints => "AsahiLinux/docs system-registers.md, PMCR3",
            Register::OpcodeMatch => "AsahiLinux/docs system-registers.md, PMCR4",
            Register::EventSelect(_) => {
                "AsahiLinux/docs system-registers.md, PMESR0 and PMESR1; xnu pexpert/pexpert/arm64/H15.h, \
                 CPMU_16BIT_EVENTS"
            }
            Register::OpcodeValue(_) => "AsahiLinux/docs system-registers.md, OPMAT0 and OPMAT1",
            Register::OpcodeMask(_) => "AsahiLinux/docs system-registers.md, OPMSK0 and OPMSK1",
            Register::Status => "AsahiLinux/docs system-registers.md, PMSR; xnu osfmk/arm64/kpc.c",
            Register::PcCapture => "xnu osfmk/arm64/kpc.c, kpc_pmi_handler",
            Register::MemoryMap => "AsahiLinux/docs system-registers.md, PMMMAP",
            Register::Threshold(_) => "AsahiLinux/docs system-registers.md, PMTRHLD2, PMTRHLD4, PMTRHLD6",
            Register::Counter(_) => {
                "AsahiLinux/docs system-registers.md, PMC0 to PMC9; xnu pexpert/pexpert/arm64/H13.h to H16.h"
            }
            Register::KpcConfig(_) => "xnu osfmk/kern/kpc.h, osfmk/arm64/kpc.c",
        }
    }

    /// The operations that a driver may use; `None`: none. Registers whose bits nobody has published are left
    /// alone.
    pub(crate) const fn access(self) -> Option<Access> {
        match self {
            Register::Control => Some(Access::Write { bits: CONTROL_BITS }),
            Register::Modes | Register::EventSelect(_) | Register::Counter(_) => Some(Access::ALL),
            Register::Status | Register::PcCapture => Some(Access::Read),
            _ => None,
        }
    }

    pub(crate) const fn aliases(self) -> &'static [&'static str] {
        match self {
            Register::KpcConfig(_) => &["kpc"],
            _ => &[],
        }
    }
}
