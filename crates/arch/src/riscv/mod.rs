//! RISC-V: CSR numbers, the event selectors behind the SBI, and perf's config.

mod code;

pub(crate) use code::{config, events, perf_events, program};

use cyclometer_core::{CounterMask, CounterWidth};

use crate::chip::Chip;
use crate::field::{FieldSpec, each_counter, set_bits};
use crate::presence::Presence;
use crate::register_access::Access;
use crate::register_name::RegisterName;

/// CSR of mhpmevent0; events start with mhpmevent3.
///
/// # Source
///
/// RISC-V Privileged Architecture, "Hardware Performance Monitor", mhpmevent3.
pub const MHPMEVENT0: u16 = 0x320;
/// CSR of cycle, which user mode reads; hpmcounterN is at + N.
///
/// # Source
///
/// RISC-V Unprivileged Architecture, extensions Zicntr and Zihpm.
pub const CYCLE: u16 = 0xc00;
/// CSR of mcountinhibit.
///
/// # Source
///
/// RISC-V Privileged Architecture, mcountinhibit.
pub const MCOUNTINHIBIT: u16 = 0x320;
/// CSR of scountovf, with Sscofpmf.
///
/// # Source
///
/// RISC-V Sscofpmf extension, scountovf.
pub const SCOUNTOVF: u16 = 0xda0;

/// Bits of a raw event in perf's config.
///
/// # Source
///
/// Linux `drivers/perf/riscv_pmu_sbi.c`, format `event` (`config:0-55`).
pub const EVENT_BITS: u32 = 56;
/// The lowest bit of perf's `firmware` field: 0 hardware, 2 SBI firmware, 3 platform firmware.
///
/// # Source
///
/// Linux `drivers/perf/riscv_pmu_sbi.c`, format `firmware` (`config:62-63`).
pub const FIRMWARE_SHIFT: u32 = 62;

/// Bit of mhpmevent: do not count in machine mode.
///
/// # Source
///
/// RISC-V Sscofpmf extension, mhpmevent, as for the bits that follow.
pub const MINH: u64 = 1 << 62;
/// Bit of mhpmevent: do not count in supervisor mode.
///
/// # Source
///
/// As [`MINH`].
pub const SINH: u64 = 1 << 61;
/// Bit of mhpmevent: do not count in user mode.
///
/// # Source
///
/// As [`MINH`].
pub const UINH: u64 = 1 << 60;
/// Bit of mhpmevent: no interrupt at an overflow; hardware sets it at one.
///
/// # Source
///
/// As [`MINH`].
pub const OF: u64 = 1 << 63;

pub(crate) const ALL_COUNTERS: CounterMask = CounterMask::from_bits(0xffff_fff8, 0b101);

/// A CSR of the performance monitor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// mhpmeventN, which machine mode (the firmware) writes.
    EventSelect(u8),
    /// cycle, instret, hpmcounterN as user mode reads them.
    Counter(u8),
    /// mcountinhibit.
    Inhibit,
    /// scountovf.
    Overflow,
}

impl Register {
    /// The registers of a chip.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let counters = chip.counters_or(ALL_COUNTERS);
        let events = set_bits(counters.general_bits()).filter(|n| (3..32).contains(n));
        let readable = set_bits(counters.general_bits() | counters.fixed_bits()).filter(|n| *n < 32);
        let mut all: Vec<Register> = events.map(Register::EventSelect).collect();
        all.extend(readable.map(Register::Counter));
        all.extend([Register::Inhibit, Register::Overflow]);
        all
    }

    /// Which chips have it.
    pub(crate) const fn presence(self) -> Presence {
        match self {
            Register::EventSelect(_) | Register::Inhibit => Presence::ALWAYS.needing("machine mode"),
            Register::Counter(_) => Presence::ALWAYS.needing("Zicntr, Zihpm"),
            Register::Overflow => Presence::ALWAYS.needing(SSCOFPMF),
        }
    }

    /// The document that describes its layout.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Register::EventSelect(_) => "RISC-V Privileged Architecture, mhpmevent3",
            Register::Counter(_) => "RISC-V Unprivileged Architecture, extensions Zicntr and Zihpm",
            Register::Inhibit => "RISC-V Privileged Architecture, mcountinhibit",
            Register::Overflow => "RISC-V Sscofpmf extension, scountovf",
        }
    }

    /// Its number.
    pub const fn csr(self) -> u16 {
        match self {
            Register::EventSelect(n) => MHPMEVENT0 + n as u16,
            Register::Counter(n) => CYCLE + n as u16,
            Register::Inhibit => MCOUNTINHIBIT,
            Register::Overflow => SCOUNTOVF,
        }
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::EventSelect(n) => RegisterName::numbered("mhpmevent", n),
            Register::Counter(0) => RegisterName::one("cycle"),
            Register::Counter(1) => RegisterName::one("time"),
            Register::Counter(2) => RegisterName::one("instret"),
            Register::Counter(n) => RegisterName::numbered("hpmcounter", n),
            Register::Inhibit => RegisterName::one("mcountinhibit"),
            Register::Overflow => RegisterName::one("scountovf"),
        }
    }
}

impl Register {
    /// The operations that a driver may use; `None`: none. Machine mode writes the event selectors, a driver
    /// cannot.
    pub(crate) const fn access(self) -> Option<Access> {
        match self {
            Register::Counter(_) | Register::Overflow => Some(Access::Read),
            Register::EventSelect(_) | Register::Inhibit => None,
        }
    }
}

const EVENT: FieldSpec = FieldSpec::bits(0, 55, "EVENT", "event, as the core defines it").always();

const FIRMWARE: FieldSpec = FieldSpec::bits(62, 63, "FIRMWARE", "who counts").with_values(&[
    (0, "a counter of the hardware"),
    (2, "the SBI firmware"),
    (3, "the platform's firmware"),
]);

const SSCOFPMF: &str = "Sscofpmf";
const SSCOFPMF_BY: &str = "RISC-V Sscofpmf extension, mhpmevent";

const MHPMEVENT: &[FieldSpec] = &[
    EVENT,
    FieldSpec::bit(58, "VUINH", "does not count in virtual user mode").needing(SSCOFPMF).by(SSCOFPMF_BY),
    FieldSpec::bit(59, "VSINH", "does not count in virtual supervisor mode")
        .needing(SSCOFPMF)
        .by(SSCOFPMF_BY),
    FieldSpec::bit(60, "UINH", "does not count in user mode").needing(SSCOFPMF).by(SSCOFPMF_BY),
    FieldSpec::bit(61, "SINH", "does not count in supervisor mode").needing(SSCOFPMF).by(SSCOFPMF_BY),
    FieldSpec::bit(62, "MINH", "does not count in machine mode").needing(SSCOFPMF).by(SSCOFPMF_BY),
    FieldSpec::bit(63, "OF", "overflowed; no further interrupt").needing(SSCOFPMF).by(SSCOFPMF_BY),
];

pub(crate) fn perf_layout() -> Vec<FieldSpec> {
    vec![EVENT, FIRMWARE]
}

pub(crate) fn layout(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    match register {
        Register::EventSelect(_) => MHPMEVENT.to_vec(),
        Register::Counter(_) => vec![FieldSpec::count(Some(CounterWidth::carrying(64)))],
        Register::Inhibit => per_counter(chip, FieldSpec::bit(0, "INHIBIT", "the counter stands still")),
        Register::Overflow => per_counter(chip, FieldSpec::bit(0, "OF", "the counter overflowed")),
    }
}

fn per_counter(chip: &Chip, field: FieldSpec) -> Vec<FieldSpec> {
    let counters = chip.counters_or(ALL_COUNTERS);
    each_counter((counters.general_bits() | counters.fixed_bits()) & 0xffff_ffff, field, 0)
}
