//! AMD: MSR numbers and bits, from K7 to PerfMonV2.

mod code;

pub(crate) use code::{check, counter_register, events, needs_two_counters, perf_events, program, remark};

use cyclometer_core::CounterMask;

use crate::chip::Chip;
use crate::field::{FieldSpec, each_counter, set_bits};
use crate::presence::Presence;
use crate::register_access::Access;
use crate::register_name::RegisterName;
use crate::x86::{
    self, CMASK_FIELD, EN_FIELD, INT_FIELD, INV_FIELD, NOT_PERFS, OS_FIELD, UMASK_FIELD, USR_FIELD,
};

pub use crate::x86::{CMASK_SHIFT, EDGE, EN, INT, INV, OS, USR};

/// PERF_LEGACY_CTL0; the first four follow, one MSR each.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_K7_EVNTSEL0`.
pub const LEGACY_CTL0: u32 = 0xc001_0000;
/// PERF_LEGACY_CTR0.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_K7_PERFCTR0`.
pub const LEGACY_CTR0: u32 = 0xc001_0004;
/// PERF_CTL0 of the extended registers; PERF_CTLn is at +2n, PERF_CTRn behind it.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_F15H_PERF_CTL`.
pub const PERF_CTL0: u32 = 0xc001_0200;
/// PERF_CTR0 of the extended registers.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_F15H_PERF_CTR`.
pub const PERF_CTR0: u32 = 0xc001_0201;
/// PerfCntrGlobalStatus, with PerfMonV2.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_AMD64_PERF_CNTR_GLOBAL_STATUS`.
pub const GLOBAL_STATUS: u32 = 0xc000_0300;
/// PerfCntrGlobalCtl, with PerfMonV2.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_AMD64_PERF_CNTR_GLOBAL_CTL`.
pub const GLOBAL_CTL: u32 = 0xc000_0301;
/// PerfCntrGlobalStatusClr, with PerfMonV2.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_AMD64_PERF_CNTR_GLOBAL_STATUS_CLR`.
pub const GLOBAL_STATUS_CLR: u32 = 0xc000_0302;
/// PerfCntrGlobalStatusSet, with PerfMonV2.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_AMD64_PERF_CNTR_GLOBAL_STATUS_SET`.
pub const GLOBAL_STATUS_SET: u32 = 0xc000_0303;

/// DebugCtl, which also says whether an interrupt of the PMU freezes branch records.
///
/// # Source
///
/// AMD APM volume 2, DebugCtl; Linux `msr-index.h`, `MSR_IA32_DEBUGCTLMSR`.
pub const DEBUG_CTL: u32 = 0x1d9;

/// PERF_CTL: count in guests; with [`HOST_ONLY`], everywhere.
///
/// # Source
///
/// As [`USR`].
pub const GUEST_ONLY: u64 = 1 << 40;

/// PERF_CTL: count in the host; with [`GUEST_ONLY`], everywhere.
///
/// # Source
///
/// As [`USR`].
pub const HOST_ONLY: u64 = 1 << 41;

/// The lowest bit of the event's upper four bits in PERF_CTL.
///
/// # Source
///
/// As [`USR`].
pub const EVENT_HIGH_SHIFT: u32 = 32;

/// The event that makes a counter take the upper half of the even counter before it.
///
/// # Source
///
/// Linux `arch/x86/events/perf_event.h`, `AMD_MERGE_EVENT`.
pub const MERGE_EVENT: u16 = 0xfff;
/// The event that needs it: retired SSE and AVX operations, of which more than 15 can come in a cycle.
///
/// # Source
///
/// Linux `arch/x86/events/amd/core.c`, `amd_is_pair_event_code`.
pub const LARGE_INCREMENT_EVENT: u16 = 0x003;
/// The first index of `rdpmc` that is a counter of the data fabric.
///
/// # Source
///
/// Linux `arch/x86/events/amd/uncore.c`, `RDPMC_BASE_NB`.
pub const RDPMC_FABRIC: u32 = 6;
/// The first index of `rdpmc` that is a counter of the L3 cache.
///
/// # Source
///
/// Linux `arch/x86/events/amd/uncore.c`, `RDPMC_BASE_LLC`.
pub const RDPMC_L3: u32 = 10;

/// The most core counters that the extended registers have room for.
///
/// # Source
///
/// AMD APM volume 2: PERF_CTL0 to PERF_CTL5.
pub const MOST_COUNTERS: u8 = 6;
/// How many counters the legacy registers have.
///
/// # Source
///
/// AMD APM volume 2: PERF_LEGACY_CTL0 to PERF_LEGACY_CTL3.
pub const LEGACY_COUNTERS: u8 = 4;

pub(crate) const ALL_COUNTERS: CounterMask = CounterMask::first(6, 0);

/// An MSR of AMD's PMU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// PERF_CTLn of the extended registers.
    EventSelect(u8),
    /// PERF_CTRn of the extended registers.
    Counter(u8),
    /// PERF_LEGACY_CTLn, n up to 3.
    LegacyEventSelect(u8),
    /// PERF_LEGACY_CTRn, n up to 3.
    LegacyCounter(u8),
    /// PerfCntrGlobalStatus.
    GlobalStatus,
    /// PerfCntrGlobalCtl.
    GlobalControl,
    /// PerfCntrGlobalStatusClr.
    GlobalStatusClear,
    /// PerfCntrGlobalStatusSet.
    GlobalStatusSet,
    /// DebugCtl.
    DebugControl,
}

impl Register {
    /// The registers of a chip.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let general = || set_bits(chip.counters_or(ALL_COUNTERS).general_bits()).filter(|n| *n < 16);
        let legacy = || general().filter(|n| *n < 4);
        let mut all = Vec::new();
        if is_extended(chip) {
            all.extend(general().map(Register::EventSelect));
            all.extend(general().map(Register::Counter));
        }
        all.extend(legacy().map(Register::LegacyEventSelect));
        all.extend(legacy().map(Register::LegacyCounter));
        all.extend([Register::GlobalStatus, Register::GlobalControl]);
        all.extend([Register::GlobalStatusClear, Register::GlobalStatusSet, Register::DebugControl]);
        all.retain(|register| register.presence().is_on(chip.pmu_version));
        all
    }

    /// Which chips have it.
    ///
    /// # Source
    ///
    /// AMD APM volume 2: CPUID Fn8000_0001 ECX\[PerfCtrExtCore\], Fn8000_0022 EAX\[PerfMonV2\].
    pub(crate) const fn presence(self) -> Presence {
        match self {
            Register::EventSelect(_) | Register::Counter(_) => {
                Presence::ALWAYS.needing("PerfCtrExtCore (CPUID 8000_0001 ECX bit 23)")
            }
            Register::LegacyEventSelect(_) | Register::LegacyCounter(_) | Register::DebugControl => {
                Presence::ALWAYS
            }
            Register::GlobalStatus
            | Register::GlobalControl
            | Register::GlobalStatusClear
            | Register::GlobalStatusSet => Presence::since(2),
        }
    }

    /// The document that describes its layout.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Register::EventSelect(_) => "AMD APM volume 2, PERF_CTLn",
            Register::Counter(_) => "AMD APM volume 2, PERF_CTRn",
            Register::LegacyEventSelect(_) => "AMD APM volume 2, PERF_LEGACY_CTLn",
            Register::LegacyCounter(_) => "AMD APM volume 2, PERF_LEGACY_CTRn",
            Register::GlobalStatus => "AMD APM volume 2, PerfCntrGlobalStatus",
            Register::GlobalControl => "AMD APM volume 2, PerfCntrGlobalCtl",
            Register::GlobalStatusClear => "AMD APM volume 2, PerfCntrGlobalStatusClr",
            Register::GlobalStatusSet => "AMD APM volume 2, PerfCntrGlobalStatusSet",
            Register::DebugControl => "AMD APM volume 2, DebugCtl",
        }
    }

    /// Its address.
    pub const fn msr(self) -> u32 {
        match self {
            Register::EventSelect(n) => PERF_CTL0 + 2 * n as u32,
            Register::Counter(n) => PERF_CTR0 + 2 * n as u32,
            Register::LegacyEventSelect(n) => LEGACY_CTL0 + n as u32,
            Register::LegacyCounter(n) => LEGACY_CTR0 + n as u32,
            Register::GlobalStatus => GLOBAL_STATUS,
            Register::GlobalControl => GLOBAL_CTL,
            Register::GlobalStatusClear => GLOBAL_STATUS_CLR,
            Register::GlobalStatusSet => GLOBAL_STATUS_SET,
            Register::DebugControl => DEBUG_CTL,
        }
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::EventSelect(n) => RegisterName::numbered("PERF_CTL", n),
            Register::Counter(n) => RegisterName::numbered("PERF_CTR", n),
            Register::LegacyEventSelect(n) => RegisterName::numbered("PERF_LEGACY_CTL", n),
            Register::LegacyCounter(n) => RegisterName::numbered("PERF_LEGACY_CTR", n),
            Register::GlobalStatus => RegisterName::one("PERF_CNTR_GLOBAL_STATUS"),
            Register::GlobalControl => RegisterName::one("PERF_CNTR_GLOBAL_CTL"),
            Register::GlobalStatusClear => RegisterName::one("PERF_CNTR_GLOBAL_STATUS_CLR"),
            Register::GlobalStatusSet => RegisterName::one("PERF_CNTR_GLOBAL_STATUS_SET"),
            Register::DebugControl => RegisterName::one("DebugCtl"),
        }
    }

    pub(crate) const fn aliases(self) -> &'static [&'static str] {
        match self {
            Register::EventSelect(_) => &["PerfEvtSel", "F15H_PERF_CTL"],
            Register::Counter(_) => &["F15H_PERF_CTR"],
            Register::LegacyEventSelect(_) => &["K7_EVNTSEL", "PERF_CTL", "PerfEvtSel"],
            Register::LegacyCounter(_) => &["K7_PERFCTR", "PERF_CTR"],
            Register::GlobalStatus => &["GLOBAL_STATUS", "AMD64_PERF_CNTR_GLOBAL_STATUS"],
            Register::GlobalControl => &["GLOBAL_CTL", "GLOBAL_CTRL", "AMD64_PERF_CNTR_GLOBAL_CTL"],
            Register::GlobalStatusClear => &["GLOBAL_STATUS_CLR", "AMD64_PERF_CNTR_GLOBAL_STATUS_CLR"],
            Register::GlobalStatusSet => &["GLOBAL_STATUS_SET", "AMD64_PERF_CNTR_GLOBAL_STATUS_SET"],
            Register::DebugControl => &["DEBUGCTLMSR", "IA32_DEBUGCTL"],
        }
    }
}

impl Register {
    /// The operations that a driver may use; `None`: none.
    pub(crate) const fn access(self) -> Option<Access> {
        match self {
            Register::EventSelect(n) | Register::Counter(n) => {
                if n < MOST_COUNTERS {
                    Some(Access::ALL)
                } else {
                    None
                }
            }
            Register::LegacyEventSelect(n) | Register::LegacyCounter(n) => {
                if n < LEGACY_COUNTERS {
                    Some(Access::ALL)
                } else {
                    None
                }
            }
            Register::GlobalControl | Register::GlobalStatusClear => Some(Access::ALL),
            Register::GlobalStatus | Register::DebugControl => Some(Access::Read),
            Register::GlobalStatusSet => None,
        }
    }
}

/// Whether the interleaved registers are there: with more counters than the legacy registers have.
///
/// # Source
///
/// AMD APM volume 2: PerfCtrExtCore (CPUID 8000_0001 ECX bit 23) gives six counters from family 15h on.
fn is_extended(chip: &Chip) -> bool {
    chip.counters_or(ALL_COUNTERS).general_bits() > 0xf
}

const EVENT: FieldSpec = FieldSpec::bits(0, 7, "EVENT", "event select, bits 0 to 7").always();
const E: FieldSpec = FieldSpec::bit(18, "EDGE", "counts rising edges");
const EVENT_HIGH: FieldSpec = FieldSpec::bits(32, 35, "EVENT_HIGH", "event select, bits 8 to 11");

const PERF_CTL: &[FieldSpec] = &[
    EVENT,
    UMASK_FIELD,
    USR_FIELD,
    OS_FIELD,
    E,
    INT_FIELD,
    EN_FIELD,
    INV_FIELD,
    CMASK_FIELD,
    EVENT_HIGH,
    FieldSpec::bit(40, "GUEST_ONLY", "counts in guests (with HOST_ONLY: everywhere)"),
    FieldSpec::bit(41, "HOST_ONLY", "counts in the host (with GUEST_ONLY: everywhere)"),
];

const PERF: &[FieldSpec] = &[
    EVENT,
    UMASK_FIELD,
    E,
    INV_FIELD,
    CMASK_FIELD,
    EVENT_HIGH,
    FieldSpec::bit(40, "GUEST_ONLY", "perf takes it from exclude_host").ignored(),
    FieldSpec::bit(41, "HOST_ONLY", "perf takes it from exclude_guest").ignored(),
];

/// The index that `rdpmc` takes in ECX: counters of the core, then of the data fabric, then of the L3 cache.
pub(crate) const RDPMC: &[FieldSpec] = &[FieldSpec::bits(
    0,
    31,
    "INDEX",
    "0 to 5 the core's counters, 6 to 9 the data fabric's, 10 to 15 the L3's",
)
.always()];

pub(crate) fn perf_layout() -> Vec<FieldSpec> {
    [PERF, &NOT_PERFS].concat()
}

const FROZEN: &[FieldSpec] = &[
    FieldSpec::bit(58, "LBRS_FROZEN", "branch records are frozen").needing(FREEZE).by(FROZEN_BY),
    FieldSpec::bit(59, "PMCS_FROZEN", "counters are frozen").needing(FREEZE).by(FROZEN_BY),
];

const FROZEN_BY: &str = "AMD APM volume 2, PerfCntrGlobalStatus; Linux arch/x86/include/asm/perf_event.h, \
                         GLOBAL_STATUS_LBRS_FROZEN_BIT, GLOBAL_STATUS_COUNTERS_FROZEN_BIT";

/// How chips say that branch records and counters can be frozen.
const FREEZE: &str = "LbrAndPmcFreeze (CPUID 8000_0022 EAX bit 2)";

/// The bits of DebugCtl that are certain. The bit that freezes counters is not: no program sets one.
const DEBUG_CONTROL: &[FieldSpec] = &[
    FieldSpec::bits(3, 5, "PB", "pins that tell of counting, on older chips"),
    FieldSpec::bit(11, "FLBRI", "an interrupt of the PMU freezes branch records")
        .needing(FREEZE)
        .by("Linux arch/x86/events/amd/lbr.c, amd_pmu_lbr_enable_all"),
    FieldSpec::bit(
        12,
        "BIT_12",
        "not told by what this table is made from; Intel's bit here freezes the counters",
    ),
];

pub(crate) fn layout(chip: &Chip, register: Register) -> Vec<FieldSpec> {
    let per_counter = |field| each_counter(chip.counters_or(ALL_COUNTERS).general_bits(), field, 0);
    match register {
        Register::EventSelect(_) | Register::LegacyEventSelect(_) => PERF_CTL.to_vec(),
        Register::Counter(_) | Register::LegacyCounter(_) => vec![FieldSpec::count(chip.counter_width)],
        Register::GlobalControl => {
            per_counter(FieldSpec::bit(0, "EN_CTR", "the counter may count, if its PERF_CTL enables it too"))
        }
        Register::GlobalStatus | Register::GlobalStatusClear | Register::GlobalStatusSet => {
            let mut fields = per_counter(FieldSpec::bit(0, "OVF_CTR", "the counter overflowed"));
            fields.extend_from_slice(FROZEN);
            fields
        }
        Register::DebugControl => [&x86::DEBUG_CONTROL[..], DEBUG_CONTROL].concat(),
    }
}
