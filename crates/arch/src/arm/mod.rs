//! Arm PMUv3: system registers and bits.

mod code;

pub(crate) use code::{check, events, perf_events, program};

use cyclometer_core::pmu::ConfigWord;
use cyclometer_core::{CounterMask, CounterWidth};

use crate::chip::Chip;
use crate::field::{FieldSpec, each_counter, set_bits};
use crate::presence::Presence;
use crate::register_access::Access;
use crate::register_name::RegisterName;

/// The fixed counter that is PMCCNTR_EL0, as numbers of counters go.
///
/// # Source
///
/// Arm ARM, PMCNTENSET_EL0: bit 31 is the cycle counter.
pub const CYCLE_COUNTER: u8 = 31;
/// The fixed counter that is PMICNTR_EL0 (FEAT_PMUv3_ICNTR).
///
/// # Source
///
/// Arm ARM, PMCNTENSET_EL0: bit 32 is the instruction counter.
pub const INSTRUCTION_COUNTER: u8 = 32;
/// The event that the cycle counter counts.
///
/// # Source
///
/// Arm ARM, common events, CPU_CYCLES.
pub const CPU_CYCLES: u16 = 0x11;
/// The event that the instruction counter counts.
///
/// # Source
///
/// Arm ARM, common events, INST_RETIRED.
pub const INST_RETIRED: u16 = 0x08;

/// Bit of PMEVTYPER: do not count at EL1.
///
/// # Source
///
/// Arm ARM, PMEVTYPERn_EL0, as for the bits that follow; Linux `arm_pmuv3.h`, `ARMV8_PMU_EXCLUDE_EL1`.
pub const P: u64 = 1 << 31;
/// Bit of PMEVTYPER: do not count at EL0.
///
/// # Source
///
/// As [`P`].
pub const U: u64 = 1 << 30;
/// Bit of PMEVTYPER: count at EL2.
///
/// # Source
///
/// As [`P`].
pub const NSH: u64 = 1 << 27;
/// Bit of PMCR: counters are enabled.
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_E`.
pub const PMCR_E: u64 = 1;

/// Bit of PMCR: event counters are set to 0.
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_P`.
pub const PMCR_P: u64 = 1 << 1;
/// Bit of PMCR: the cycle counter is set to 0.
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_C`.
pub const PMCR_C: u64 = 1 << 2;
/// Bit of PMCR: the cycle counter overflows at 64 bits, not at 32.
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_LC`.
pub const PMCR_LC: u64 = 1 << 6;
/// Bit of PMCR: the cycle counter stands still where event counters are prohibited to count, or frozen.
///
/// # Source
///
/// Arm ARM, PMCR_EL0, and "Freezing event counters"; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_DP`.
pub const PMCR_DP: u64 = 1 << 5;
/// Bit of PMCR: an overflow of an event counter freezes the event counters until it is forgotten
/// (FEAT_PMUv3p7).
///
/// # Source
///
/// Arm ARM, PMCR_EL0, field FZO, and "Freezing event counters".
pub const PMCR_FZO: u64 = 1 << 9;
/// Bit of PMCR: event counters overflow at 64 bits (PMUv3p5).
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_LP`.
pub const PMCR_LP: u64 = 1 << 7;
/// The lowest bit of PMCR's field N, the number of event counters; it is 5 bits wide.
///
/// # Source
///
/// Arm ARM, PMCR_EL0; Linux `arm_pmuv3.h`, `ARMV8_PMU_PMCR_N`.
pub const PMCR_N_SHIFT: u32 = 11;

pub(crate) const ALL_COUNTERS: CounterMask = CounterMask::from_bits(0x7fff_ffff, 1 << 31 | 1 << 32);

/// A system register of PMUv3.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// PMCR_EL0.
    Control,
    /// PMCNTENSET_EL0.
    EnableSet,
    /// PMCNTENCLR_EL0.
    EnableClear,
    /// PMOVSSET_EL0.
    OverflowSet,
    /// PMOVSCLR_EL0.
    OverflowClear,
    /// PMINTENSET_EL1.
    InterruptSet,
    /// PMINTENCLR_EL1.
    InterruptClear,
    /// PMUSERENR_EL0.
    UserEnable,
    /// PMSELR_EL0.
    Select,
    /// PMCEID0_EL0.
    CommonEvents0,
    /// PMCEID1_EL0.
    CommonEvents1,
    /// PMMIR_EL1.
    MachineId,
    /// PMEVTYPERn_EL0.
    EventType(u8),
    /// PMEVCNTRn_EL0.
    Counter(u8),
    /// PMCCFILTR_EL0.
    CycleFilter,
    /// PMCCNTR_EL0.
    CycleCounter,
    /// PMICFILTR_EL0.
    InstructionFilter,
    /// PMICNTR_EL0.
    InstructionCounter,
}

impl Register {
    const ONCE: [Register; 16] = [
        Register::Control,
        Register::EnableSet,
        Register::EnableClear,
        Register::OverflowSet,
        Register::OverflowClear,
        Register::InterruptSet,
        Register::InterruptClear,
        Register::UserEnable,
        Register::Select,
        Register::CommonEvents0,
        Register::CommonEvents1,
        Register::MachineId,
        Register::CycleFilter,
        Register::CycleCounter,
        Register::InstructionFilter,
        Register::InstructionCounter,
    ];

    /// The registers of a chip.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let general = || set_bits(chip.counters_or(ALL_COUNTERS).general_bits()).filter(|n| *n < 31);
        let mut all = Register::ONCE.to_vec();
        all.extend(general().map(Register::EventType));
        all.extend(general().map(Register::Counter));
        all
    }

    /// Its encoding: op0, op1, CRn, CRm, op2.
    pub const fn encoding(self) -> [u8; 5] {
        match self {
            Register::Control => [3, 3, 9, 12, 0],
            Register::EnableSet => [3, 3, 9, 12, 1],
            Register::EnableClear => [3, 3, 9, 12, 2],
            Register::OverflowClear => [3, 3, 9, 12, 3],
            Register::Select => [3, 3, 9, 12, 5],
            Register::CommonEvents0 => [3, 3, 9, 12, 6],
            Register::CommonEvents1 => [3, 3, 9, 12, 7],
            Register::CycleCounter => [3, 3, 9, 13, 0],
            Register::UserEnable => [3, 3, 9, 14, 0],
            Register::InterruptSet => [3, 0, 9, 14, 1],
            Register::InterruptClear => [3, 0, 9, 14, 2],
            Register::OverflowSet => [3, 3, 9, 14, 3],
            Register::MachineId => [3, 0, 9, 14, 6],
            Register::InstructionCounter => [3, 3, 9, 4, 0],
            Register::InstructionFilter => [3, 3, 9, 6, 0],
            Register::Counter(n) => [3, 3, 14, 8 + (n >> 3), n & 7],
            Register::EventType(n) => [3, 3, 14, 12 + (n >> 3), n & 7],
            Register::CycleFilter => [3, 3, 14, 15, 7],
        }
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::Control => RegisterName::one("PMCR_EL0"),
            Register::EnableSet => RegisterName::one("PMCNTENSET_EL0"),
            Register::EnableClear => RegisterName::one("PMCNTENCLR_EL0"),
            Register::OverflowSet => RegisterName::one("PMOVSSET_EL0"),
            Register::OverflowClear => RegisterName::one("PMOVSCLR_EL0"),
            Register::InterruptSet => RegisterName::one("PMINTENSET_EL1"),
            Register::InterruptClear => RegisterName::one("PMINTENCLR_EL1"),
            Register::UserEnable => RegisterName::one("PMUSERENR_EL0"),
            Register::Select => RegisterName::one("PMSELR_EL0"),
            Register::CommonEvents0 => RegisterName::one("PMCEID0_EL0"),
            Register::CommonEvents1 => RegisterName::one("PMCEID1_EL0"),
            Register::MachineId => RegisterName::one("PMMIR_EL1"),
            Register::EventType(n) => RegisterName::numbered("PMEVTYPER", n).with_tail("_EL0"),
            Register::Counter(n) => RegisterName::numbered("PMEVCNTR", n).with_tail("_EL0"),
            Register::CycleFilter => RegisterName::one("PMCCFILTR_EL0"),
            Register::CycleCounter => RegisterName::one("PMCCNTR_EL0"),
            Register::InstructionFilter => RegisterName::one("PMICFILTR_EL0"),
            Register::InstructionCounter => RegisterName::one("PMICNTR_EL0"),
        }
    }
}

impl Register {
    /// Which chips have it.
    pub(crate) const fn presence(self) -> Presence {
        match self {
            Register::InstructionFilter | Register::InstructionCounter => {
                Presence::ALWAYS.needing("FEAT_PMUv3_ICNTR")
            }
            Register::MachineId => Presence::ALWAYS.needing("FEAT_PMUv3p4"),
            _ => Presence::ALWAYS,
        }
    }

    /// The document that describes its layout.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Register::Control => "Arm ARM for A-profile, PMCR_EL0",
            Register::EnableSet => "Arm ARM for A-profile, PMCNTENSET_EL0",
            Register::EnableClear => "Arm ARM for A-profile, PMCNTENCLR_EL0",
            Register::OverflowSet => "Arm ARM for A-profile, PMOVSSET_EL0",
            Register::OverflowClear => "Arm ARM for A-profile, PMOVSCLR_EL0",
            Register::InterruptSet => "Arm ARM for A-profile, PMINTENSET_EL1",
            Register::InterruptClear => "Arm ARM for A-profile, PMINTENCLR_EL1",
            Register::UserEnable => "Arm ARM for A-profile, PMUSERENR_EL0",
            Register::Select => "Arm ARM for A-profile, PMSELR_EL0",
            Register::CommonEvents0 => "Arm ARM for A-profile, PMCEID0_EL0",
            Register::CommonEvents1 => "Arm ARM for A-profile, PMCEID1_EL0",
            Register::MachineId => "Arm ARM for A-profile, PMMIR_EL1",
            Register::EventType(_) => "Arm ARM for A-profile, PMEVTYPERn_EL0",
            Register::Counter(_) => "Arm ARM for A-profile, PMEVCNTRn_EL0",
            Register::CycleFilter => "Arm ARM for A-profile, PMCCFILTR_EL0",
            Register::CycleCounter => "Arm ARM for A-profile, PMCCNTR_EL0",
            Register::InstructionFilter => "Arm ARM for A-profile, PMICFILTR_EL0",
            Register::InstructionCounter => "Arm ARM for A-profile, PMICNTR_EL0",
        }
    }

    /// The operations that a driver may use; `None`: none.
    pub(crate) const fn access(self) -> Option<Access> {
        match self {
            Register::Control => {
                Some(Access::Write { bits: PMCR_E | PMCR_DP | PMCR_LC | PMCR_LP | PMCR_FZO })
            }
            Register::EnableSet
            | Register::EnableClear
            | Register::OverflowClear
            | Register::InterruptSet
            | Register::InterruptClear
            | Register::EventType(_)
            | Register::Counter(_)
            | Register::CycleFilter
            | Register::CycleCounter
            | Register::InstructionFilter
            | Register::InstructionCounter => Some(Access::ALL),
            Register::OverflowSet
            | Register::UserEnable
            | Register::CommonEvents0
            | Register::CommonEvents1
            | Register::MachineId => Some(Access::Read),
            Register::Select => None,
        }
    }
}

/// The filter that PMEVTYPERn, PMCCFILTR and PMICFILTR have in common.
const FILTER: &[FieldSpec] = &[
    FieldSpec::bit(21, "RLH", "with NSH: Realm EL2").needing("FEAT_RME"),
    FieldSpec::bit(22, "RLU", "with U: Realm EL0").needing("FEAT_RME"),
    FieldSpec::bit(23, "RLK", "with P: Realm EL1").needing("FEAT_RME"),
    FieldSpec::bit(24, "SH", "with NSH: Secure EL2").needing("FEAT_SEL2"),
    FieldSpec::bit(26, "M", "with P: Secure EL3"),
    FieldSpec::bit(27, "NSH", "counts at EL2"),
    FieldSpec::bit(28, "NSU", "with U: Non-secure EL0"),
    FieldSpec::bit(29, "NSK", "with P: Non-secure EL1"),
    FieldSpec::bit(30, "U", "does not count at EL0"),
    FieldSpec::bit(31, "P", "does not count at EL1"),
];

const EVENT_TYPE: &[FieldSpec] = &[
    FieldSpec::bit(25, "MT", "counts for all threads of the core"),
    FieldSpec::bits(32, 43, "TH", "threshold").needing("FEAT_PMUv3_TH"),
    FieldSpec::bit(60, "TE", "counts edges of the comparison").needing("FEAT_PMUv3_EDGE"),
    FieldSpec::bits(61, 63, "TC", "comparison with the threshold").needing("FEAT_PMUv3_TH"),
];

const CONTROL: &[FieldSpec] = &[
    FieldSpec::bit(0, "E", "counters are enabled"),
    FieldSpec::bit(1, "P", "written as 1: sets the event counters to 0"),
    FieldSpec::bit(2, "C", "written as 1: sets the cycle counter to 0"),
    FieldSpec::bit(3, "D", "the cycle counter counts every 64th cycle"),
    FieldSpec::bit(4, "X", "exports events"),
    FieldSpec::bit(
        5,
        "DP",
        "the cycle counter stands still where event counters are prohibited to count or frozen",
    ),
    FieldSpec::bit(6, "LC", "the cycle counter overflows at 64 bits, not at 32"),
    FieldSpec::bit(7, "LP", "event counters overflow at 64 bits").needing("FEAT_PMUv3p5"),
    FieldSpec::bit(9, "FZO", "an overflow of an event counter freezes the event counters")
        .needing("FEAT_PMUv3p7"),
    FieldSpec::bits(11, 15, "N", "number of event counters").always(),
    FieldSpec::bits(16, 23, "IDCODE", "identification"),
    FieldSpec::bits(24, 31, "IMP", "implementer"),
    FieldSpec::bit(32, "FZS", "an event of the profiling buffer freezes the counters")
        .needing("FEAT_SPEv1p2"),
];

const USER_ENABLE: &[FieldSpec] = &[
    FieldSpec::bit(0, "EN", "EL0 may use all of the PMU's registers"),
    FieldSpec::bit(1, "SW", "EL0 may write PMSWINC_EL0"),
    FieldSpec::bit(2, "CR", "EL0 may read the cycle counter"),
    FieldSpec::bit(3, "ER", "EL0 may read event counters"),
    FieldSpec::bit(4, "UEN", "PMUACR_EL1 says which counters EL0 may use").needing("FEAT_PMUv3p9"),
    FieldSpec::bit(5, "IR", "EL0 may read the instruction counter").needing("FEAT_PMUv3_ICNTR"),
];

const MACHINE_ID: &[FieldSpec] = &[
    FieldSpec::bits(0, 7, "SLOTS", "slots in a cycle; 0 is unknown").always(),
    FieldSpec::bits(8, 15, "BUS_SLOTS", "the most BUS_ACCESS events in a bus cycle"),
    FieldSpec::bits(16, 19, "BUS_WIDTH", "bytes of a bus access: 2 to the power of the value, halved"),
    FieldSpec::bits(20, 23, "THWIDTH", "width of thresholds in bits").needing("FEAT_PMUv3_TH"),
    FieldSpec::bits(24, 27, "EDGE", "edges can be counted").needing("FEAT_PMUv3_EDGE"),
];

/// config1 of perf.
///
/// # Source
///
/// Linux `drivers/perf/arm_pmuv3.c`, format attributes.
const PERF_CONFIG1: &[FieldSpec] = &[
    FieldSpec::bit(0, "long", "counts in 64 bits"),
    FieldSpec::bit(1, "rdpmc", "user mode may read the counter"),
    FieldSpec::bit(2, "threshold_count", "counts cycles, not events, that meet the threshold"),
    FieldSpec::bits(3, 4, "threshold_compare", "comparison with the threshold").with_values(&[
        (0, "not equal"),
        (1, "equal"),
        (2, "at least"),
        (3, "less"),
    ]),
    FieldSpec::bits(5, 16, "threshold", "threshold; 0 is none"),
];

fn event_field(chip: &Chip) -> FieldSpec {
    let width = chip.selector_bits.map_or(16, |bits| bits.min(16));
    FieldSpec::bits(0, (width - 1) as u8, "evtCount", "event").always()
}

pub(crate) fn perf_layout(chip: &Chip, word: ConfigWord) -> Vec<FieldSpec> {
    match word {
        ConfigWord::Config => vec![event_field(chip)],
        ConfigWord::Config1 => PERF_CONFIG1.to_vec(),
        ConfigWord::Config2 => Vec::new(),
    }
}

pub(crate) fn layout(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    match register {
        Register::Control => CONTROL.to_vec(),
        Register::EnableSet => per_counter(chip, "EN", "the counter is enabled"),
        Register::EnableClear => per_counter(chip, "EN", "the counter is enabled; written as 1: disables it"),
        Register::OverflowSet => per_counter(chip, "OVF", "the counter overflowed"),
        Register::OverflowClear => {
            per_counter(chip, "OVF", "the counter overflowed; written as 1: forgets that")
        }
        Register::InterruptSet => per_counter(chip, "INT", "an overflow interrupts"),
        Register::InterruptClear => {
            per_counter(chip, "INT", "an overflow interrupts; written as 1: no longer")
        }
        Register::UserEnable => USER_ENABLE.to_vec(),
        Register::Select => vec![FieldSpec::bits(0, 4, "SEL", "the counter that PMXEVTYPER means").always()],
        Register::CommonEvents0 => common_events(0),
        Register::CommonEvents1 => common_events(32),
        Register::MachineId => MACHINE_ID.to_vec(),
        Register::EventType(_) => {
            let mut fields = vec![event_field(chip)];
            fields.extend_from_slice(FILTER);
            fields.extend_from_slice(EVENT_TYPE);
            fields
        }
        Register::CycleFilter | Register::InstructionFilter => FILTER.to_vec(),
        Register::Counter(_) | Register::CycleCounter | Register::InstructionCounter => {
            vec![FieldSpec::count(Some(CounterWidth::carrying(64)))]
        }
    }
}

fn per_counter(chip: &Chip, name: &'static str, meaning: &'static str) -> Vec<FieldSpec> {
    let event = chip.counters_or(ALL_COUNTERS).general_bits() & 0x7fff_ffff;
    let mut fields = each_counter(event, FieldSpec::bit(0, name, meaning), 0);
    fields.push(FieldSpec::bit(CYCLE_COUNTER, "C", "the same for the cycle counter"));
    let instructions = FieldSpec::bit(INSTRUCTION_COUNTER, "F0", "the same for the instruction counter");
    fields.push(instructions.needing("FEAT_PMUv3_ICNTR"));
    fields
}

/// The common events that a bit of PMCEID stands for: from `first` and from 0x4000 + `first`.
fn common_events(first: u16) -> Vec<FieldSpec> {
    let field = FieldSpec::bit(0, "ID", "the common event of this number (decimal) is there");
    (0..64u8).map(|bit| field.of(common_event(first, bit), bit)).collect()
}

fn common_event(first: u16, bit: u8) -> u16 {
    if bit < 32 { first + u16::from(bit) } else { 0x4000 + first + u16::from(bit) - 32 }
}
