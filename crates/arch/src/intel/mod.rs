//! Intel: MSR numbers and bits of architectural performance monitoring, versions 1 to 6.

pub(crate) mod code;
pub(crate) mod layout;
pub(crate) mod shared;

pub use code::{PRECISE_INSTRUCTIONS, extra_registers};

pub use crate::x86::{CMASK_SHIFT, EDGE, EN, INT, INV, OS, USR};

use cyclometer_core::CounterMask;
use cyclometer_core::event::ExtraRegisterKind;

use crate::chip::Chip;
use crate::field::set_bits;
use crate::presence::Presence;
use crate::register_access::Access;
use crate::register_name::RegisterName;

/// IA32_PERFEVTSEL0; the others follow, one MSR each.
///
/// # Source
///
/// Intel SDM volume 4, table of architectural MSRs.
pub const PERFEVTSEL0: u32 = 0x186;
/// IA32_PMC0; a write keeps 32 bits, sign-extended.
///
/// # Source
///
/// Intel SDM volume 4, table of architectural MSRs.
pub const PMC0: u32 = 0xc1;
/// IA32_A_PMC0: the same counter, written in its full width; there if PERF_CAPABILITIES has bit 13.
///
/// # Source
///
/// Intel SDM volume 4, IA32_A_PMCx; Linux `msr-index.h`, `MSR_IA32_PMC0`.
pub const A_PMC0: u32 = 0x4c1;
/// IA32_FIXED_CTR0.
///
/// # Source
///
/// Intel SDM volume 4, table of architectural MSRs.
pub const FIXED_CTR0: u32 = 0x309;
/// IA32_PERF_METRICS.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_PERF_METRICS`.
pub const PERF_METRICS: u32 = 0x329;
/// IA32_PERF_CAPABILITIES.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_IA32_PERF_CAPABILITIES`.
pub const PERF_CAPABILITIES: u32 = 0x345;
/// IA32_FIXED_CTR_CTRL.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_CORE_PERF_FIXED_CTR_CTRL`.
pub const FIXED_CTR_CTRL: u32 = 0x38d;
/// IA32_PERF_GLOBAL_STATUS.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_CORE_PERF_GLOBAL_STATUS`.
pub const GLOBAL_STATUS: u32 = 0x38e;
/// IA32_PERF_GLOBAL_CTRL.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_CORE_PERF_GLOBAL_CTRL`.
pub const GLOBAL_CTRL: u32 = 0x38f;
/// IA32_PERF_GLOBAL_STATUS_RESET, up to version 3 called IA32_PERF_GLOBAL_OVF_CTRL.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_CORE_PERF_GLOBAL_OVF_CTRL`.
pub const GLOBAL_STATUS_RESET: u32 = 0x390;
/// IA32_PERF_GLOBAL_STATUS_SET, from version 4 on.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_CORE_PERF_GLOBAL_STATUS_SET`.
pub const GLOBAL_STATUS_SET: u32 = 0x391;
/// IA32_PERF_GLOBAL_INUSE, from version 4 on; read-only.
///
/// # Source
///
/// Intel SDM volume 3, figure "IA32_PERF_GLOBAL_INUSE MSR and Architectural Perfmon Version 4"; KVM unit
/// tests `lib/x86/msr.h`.
pub const GLOBAL_INUSE: u32 = 0x392;
/// IA32_PEBS_ENABLE.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_IA32_PEBS_ENABLE`.
pub const PEBS_ENABLE: u32 = 0x3f1;
/// IA32_DEBUGCTL, which also says whether an interrupt of the PMU freezes the counters.
///
/// # Source
///
/// Intel SDM volume 4, table of architectural MSRs; Linux `msr-index.h`, `MSR_IA32_DEBUGCTLMSR`.
pub const DEBUGCTL: u32 = 0x1d9;
/// Bit of IA32_DEBUGCTL: an interrupt of the PMU freezes the counters.
///
/// # Source
///
/// Intel SDM volume 4, IA32_DEBUGCTL; Linux `msr-index.h`, `DEBUGCTLMSR_FREEZE_PERFMON_ON_PMI`.
pub const FREEZE_PERFMON_ON_PMI: u64 = 1 << 12;
/// Bit of GLOBAL_STATUS, from version 4 on: the counters are frozen. Clearing it lets them count.
///
/// # Source
///
/// Intel SDM volume 4, IA32_PERF_GLOBAL_STATUS, CTR_Frz.
pub const CTR_FRZ: u64 = 1 << 59;
/// The most general counters that the numbers from IA32_PERFEVTSEL0 and IA32_PMC0 have room for: the MSRs
/// behind them belong to others.
///
/// # Source
///
/// Intel perfmon event files: the most that a core has, counters 0 to 9 (Lion Cove). Intel SDM volume 4:
/// IA32_PERF_STATUS (0x198) and IA32_MISC_ENABLE (0x1A0) are not far behind.
pub const MOST_GENERAL: u8 = 10;
/// The most fixed counters that are known, by number.
///
/// # Source
///
/// Intel perfmon event files: fixed counters 0 to 6 (Skymont).
pub const MOST_FIXED: u8 = 7;
/// IA32_PMC_GP0_CTR of version 6; counter n has 4 MSRs from 0x1900 + 4n: counter, then configuration A (the
/// event select), B (reload), C (PEBS).
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_IA32_PMC_V6_GP0_CTR`.
pub const V6_GP0_CTR: u32 = 0x1900;
/// IA32_PMC_FX0_CTR of version 6; fixed counter n has 4 MSRs from 0x1980 + 4n.
///
/// # Source
///
/// Linux `msr-index.h`, `MSR_IA32_PMC_V6_FX0_CTR`.
pub const V6_FX0_CTR: u32 = 0x1980;

/// Bit of an event select: count for all threads of the core; versions 3 and 4.
///
/// # Source
///
/// As [`USR`].
pub const ANY: u64 = 1 << 21;
/// Bit of an event select: compare with the counter mask for equality; version 6.
///
/// # Source
///
/// Linux `perf_event.h`, `ARCH_PERFMON_EVENTSEL_EQ`.
pub const EQ: u64 = 1 << 36;
/// The lowest bit of the second unit mask in an event select; version 6.
///
/// # Source
///
/// Linux `perf_event.h`, `ARCH_PERFMON_EVENTSEL_UMASK2`.
pub const UMASK2_SHIFT: u32 = 40;

/// Bit of a fixed counter's four in FIXED_CTR_CTRL: count in the kernel.
///
/// # Source
///
/// Intel SDM volume 3, figure "Layout of IA32_FIXED_CTR_CTRL MSR", as for the bits that follow.
pub const FIXED_OS: u64 = 1;
/// Bit of a fixed counter's four: count in user mode.
///
/// # Source
///
/// As [`FIXED_OS`].
pub const FIXED_USR: u64 = 2;
/// Bit of a fixed counter's four: count for all threads of the core; versions 3 and 4.
///
/// # Source
///
/// As [`FIXED_OS`].
pub const FIXED_ANY: u64 = 4;
/// Bit of a fixed counter's four: interrupt at an overflow.
///
/// # Source
///
/// As [`FIXED_OS`].
pub const FIXED_PMI: u64 = 8;

/// The bit of fixed counter 0 in GLOBAL_CTRL and GLOBAL_STATUS.
///
/// # Source
///
/// Intel SDM volume 3, figure "Layout of IA32_PERF_GLOBAL_CTRL MSR".
pub const GLOBAL_FIXED_SHIFT: u32 = 32;
/// The bit of PERF_METRICS in GLOBAL_CTRL and GLOBAL_STATUS.
///
/// # Source
///
/// Linux `perf_event.h`, `GLOBAL_CTRL_EN_PERF_METRICS`.
pub const GLOBAL_METRICS_BIT: u32 = 48;
/// The fixed counter that counts slots, which PERF_METRICS are shares of.
///
/// # Source
///
/// Linux `perf_event.h`, `INTEL_PMC_IDX_FIXED_SLOTS`.
pub const SLOTS: u8 = 3;

/// Type of a fixed counter in what `rdpmc` takes.
///
/// # Source
///
/// Intel SDM volume 2, RDPMC; Linux `perf_event.h`, `INTEL_PMC_FIXED_RDPMC_BASE`.
pub const RDPMC_FIXED: u32 = 0x4000_0000;
/// The operand of `rdpmc` for PERF_METRICS.
///
/// # Source
///
/// Intel SDM volume 2, RDPMC; Linux `perf_event.h`, `INTEL_PMC_FIXED_RDPMC_METRICS`.
pub const RDPMC_METRICS: u32 = 0x2000_0000;

/// The unit mask of the first of the eight pseudo events of PERF_METRICS (event select 0).
///
/// # Source
///
/// Linux `perf_event.h`, `INTEL_TD_METRIC_RETIRING` (0x8000) to `INTEL_TD_METRIC_MEM_BOUND` (0x8700).
pub const METRICS_UMASK: u8 = 0x80;

/// The number of the fixed counter that stands for the first share of slots; PERF_METRICS has eight, and no
/// counter counts them.
///
/// # Source
///
/// Linux `perf_event.h`, `INTEL_PMC_IDX_METRIC_BASE`: the first fixed counter and 16.
pub const METRICS_BASE: u8 = 16;
/// The denominator of a share of slots in PERF_METRICS.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `icl_get_metrics_event_value`.
pub const METRICS_WHOLE: u64 = 0xff;

/// Counters that layouts have room for where a chip's own are not known.
pub(crate) const ALL_COUNTERS: CounterMask = CounterMask::first(32, 16);

/// An MSR of Intel's PMU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Register {
    /// IA32_PERFEVTSELn.
    EventSelect(u8),
    /// IA32_PMCn.
    Counter(u8),
    /// IA32_A_PMCn.
    FullWidthCounter(u8),
    /// IA32_FIXED_CTRn.
    FixedCounter(u8),
    /// IA32_FIXED_CTR_CTRL.
    FixedControl,
    /// IA32_PERF_GLOBAL_STATUS.
    GlobalStatus,
    /// IA32_PERF_GLOBAL_CTRL.
    GlobalControl,
    /// IA32_PERF_GLOBAL_STATUS_RESET.
    GlobalStatusReset,
    /// IA32_PERF_GLOBAL_STATUS_SET.
    GlobalStatusSet,
    /// IA32_PERF_GLOBAL_INUSE.
    GlobalInUse,
    /// IA32_PERF_METRICS.
    Metrics,
    /// IA32_PERF_CAPABILITIES.
    Capabilities,
    /// IA32_PEBS_ENABLE.
    PebsEnable,
    /// IA32_DEBUGCTL.
    DebugControl,
    /// A register that refines events.
    Extra(ExtraRegisterKind),
    /// IA32_PMC_GPn_CTR of version 6.
    V6Counter(u8),
    /// IA32_PMC_GPn_CFG_A of version 6: the event select.
    V6EventSelect(u8),
    /// IA32_PMC_FXn_CTR of version 6.
    V6FixedCounter(u8),
    /// IA32_PMC_GPn_CFG_B of version 6: which counters reload this one.
    V6Reload(u8),
    /// IA32_PMC_FXn_CFG_B of version 6.
    V6FixedReload(u8),
    /// IA32_PMC_GPn_CFG_C of version 6: PEBS.
    V6Pebs(u8),
    /// IA32_PMC_FXn_CFG_C of version 6.
    V6FixedPebs(u8),
}

impl Register {
    /// The registers of a chip.
    pub fn all(chip: &Chip) -> Vec<Register> {
        let counters = chip.counters_or(ALL_COUNTERS);
        let general = || set_bits(counters.general_bits()).filter(|n| *n < 32);
        let fixed = || set_bits(counters.fixed_bits()).filter(|n| *n < 16);
        let mut all: Vec<Register> = general().map(Register::EventSelect).collect();
        all.extend(general().map(Register::Counter));
        all.extend(general().map(Register::FullWidthCounter));
        all.extend(fixed().map(Register::FixedCounter));
        all.extend([Register::FixedControl, Register::GlobalStatus, Register::GlobalControl]);
        all.extend([Register::GlobalStatusReset, Register::GlobalStatusSet, Register::GlobalInUse]);
        all.extend([Register::Metrics, Register::Capabilities, Register::PebsEnable, Register::DebugControl]);
        all.extend(ExtraRegisterKind::ALL.map(Register::Extra));
        all.extend(general().map(Register::V6Counter));
        all.extend(general().map(Register::V6EventSelect));
        all.extend(general().map(Register::V6Reload));
        all.extend(general().map(Register::V6Pebs));
        all.extend(fixed().map(Register::V6FixedCounter));
        all.extend(fixed().map(Register::V6FixedReload));
        all.extend(fixed().map(Register::V6FixedPebs));
        all.retain(|register| register.presence().is_on(chip.pmu_version));
        all
    }

    /// Which chips have it.
    ///
    /// # Source
    ///
    /// Intel SDM volume 3, "Architectural Performance Monitoring Version 2" to "Version 4"; Linux
    /// `arch/x86/events/intel/core.c`, `intel_pmu_init` (versions 5 and 6).
    pub(crate) const fn presence(self) -> Presence {
        match self {
            Register::EventSelect(_) | Register::Counter(_) | Register::DebugControl => Presence::ALWAYS,
            Register::FullWidthCounter(_) => Presence::ALWAYS.needing("IA32_PERF_CAPABILITIES bit 13"),
            Register::FixedCounter(_)
            | Register::FixedControl
            | Register::GlobalStatus
            | Register::GlobalControl
            | Register::GlobalStatusReset => Presence::since(2),
            Register::GlobalStatusSet | Register::GlobalInUse => Presence::since(4),
            Register::Metrics => Presence::since(5).needing("IA32_PERF_CAPABILITIES bit 15"),
            Register::Capabilities => Presence::ALWAYS.needing("CPUID 1 ECX bit 15"),
            Register::PebsEnable => Presence::ALWAYS.needing("PEBS"),
            Register::Extra(_) => Presence::ALWAYS.needing("cores with events that refer to it"),
            Register::V6Reload(_) | Register::V6FixedReload(_) => {
                Presence::since(6).needing("auto counter reload (CPUID 23H)")
            }
            Register::V6Pebs(_) | Register::V6FixedPebs(_) => {
                Presence::since(6).needing("architectural PEBS (CPUID 23H)")
            }
            Register::V6Counter(_) | Register::V6EventSelect(_) | Register::V6FixedCounter(_) => {
                Presence::since(6)
            }
        }
    }

    /// The document that describes its layout.
    pub(crate) const fn source(self) -> &'static str {
        match self {
            Register::EventSelect(_) => "Intel SDM volume 3, IA32_PERFEVTSELx",
            Register::Counter(_) => "Intel SDM volume 4, IA32_PMCx",
            Register::FullWidthCounter(_) => "Intel SDM volume 4, IA32_A_PMCx",
            Register::FixedCounter(_) => "Intel SDM volume 4, IA32_FIXED_CTRx",
            Register::FixedControl => "Intel SDM volume 3, IA32_FIXED_CTR_CTRL",
            Register::GlobalStatus => "Intel SDM volume 4, IA32_PERF_GLOBAL_STATUS",
            Register::GlobalControl => "Intel SDM volume 4, IA32_PERF_GLOBAL_CTRL",
            Register::GlobalStatusReset => "Intel SDM volume 4, IA32_PERF_GLOBAL_STATUS_RESET",
            Register::GlobalStatusSet => "Intel SDM volume 4, IA32_PERF_GLOBAL_STATUS_SET",
            Register::GlobalInUse => "Intel SDM volume 4, IA32_PERF_GLOBAL_INUSE",
            Register::Metrics => {
                "Intel SDM volume 4, IA32_PERF_METRICS; Linux arch/x86/include/asm/perf_event.h, \
                 INTEL_TD_METRIC_*"
            }
            Register::Capabilities => {
                "Intel SDM volume 4, IA32_PERF_CAPABILITIES; Linux arch/x86/include/asm/msr-index.h, \
                 PERF_CAP_*"
            }
            Register::PebsEnable => "Intel SDM volume 4, IA32_PEBS_ENABLE",
            Register::DebugControl => "Intel SDM volume 4, IA32_DEBUGCTL",
            Register::Extra(_) => {
                "intel/perfmon, MSRIndex; Linux arch/x86/include/asm/msr-index.h, arch/x86/events/intel/core.c"
            }
            Register::V6Counter(_)
            | Register::V6EventSelect(_)
            | Register::V6FixedCounter(_)
            | Register::V6Reload(_)
            | Register::V6FixedReload(_)
            | Register::V6Pebs(_)
            | Register::V6FixedPebs(_) => {
                "Linux arch/x86/include/asm/msr-index.h, MSR_IA32_PMC_V6_*, ARCH_PEBS_*; \
                 arch/x86/events/intel/core.c"
            }
        }
    }

    /// Its address.
    pub const fn msr(self) -> u32 {
        match self {
            Register::EventSelect(n) => PERFEVTSEL0 + n as u32,
            Register::Counter(n) => PMC0 + n as u32,
            Register::FullWidthCounter(n) => A_PMC0 + n as u32,
            Register::FixedCounter(n) => FIXED_CTR0 + n as u32,
            Register::FixedControl => FIXED_CTR_CTRL,
            Register::GlobalStatus => GLOBAL_STATUS,
            Register::GlobalControl => GLOBAL_CTRL,
            Register::GlobalStatusReset => GLOBAL_STATUS_RESET,
            Register::GlobalStatusSet => GLOBAL_STATUS_SET,
            Register::GlobalInUse => GLOBAL_INUSE,
            Register::Metrics => PERF_METRICS,
            Register::Capabilities => PERF_CAPABILITIES,
            Register::PebsEnable => PEBS_ENABLE,
            Register::DebugControl => DEBUGCTL,
            Register::Extra(kind) => kind.msr(),
            Register::V6Counter(n) => V6_GP0_CTR + 4 * n as u32,
            Register::V6EventSelect(n) => V6_GP0_CTR + 4 * n as u32 + 1,
            Register::V6FixedCounter(n) => V6_FX0_CTR + 4 * n as u32,
            Register::V6Reload(n) => V6_GP0_CTR + 4 * n as u32 + 2,
            Register::V6FixedReload(n) => V6_FX0_CTR + 4 * n as u32 + 2,
            Register::V6Pebs(n) => V6_GP0_CTR + 4 * n as u32 + 3,
            Register::V6FixedPebs(n) => V6_FX0_CTR + 4 * n as u32 + 3,
        }
    }

    /// Its name.
    pub const fn name(self) -> RegisterName {
        match self {
            Register::EventSelect(n) => RegisterName::numbered("IA32_PERFEVTSEL", n),
            Register::Counter(n) => RegisterName::numbered("IA32_PMC", n),
            Register::FullWidthCounter(n) => RegisterName::numbered("IA32_A_PMC", n),
            Register::FixedCounter(n) => RegisterName::numbered("IA32_FIXED_CTR", n),
            Register::FixedControl => RegisterName::one("IA32_FIXED_CTR_CTRL"),
            Register::GlobalStatus => RegisterName::one("IA32_PERF_GLOBAL_STATUS"),
            Register::GlobalControl => RegisterName::one("IA32_PERF_GLOBAL_CTRL"),
            Register::GlobalStatusReset => RegisterName::one("IA32_PERF_GLOBAL_STATUS_RESET"),
            Register::GlobalStatusSet => RegisterName::one("IA32_PERF_GLOBAL_STATUS_SET"),
            Register::GlobalInUse => RegisterName::one("IA32_PERF_GLOBAL_INUSE"),
            Register::Metrics => RegisterName::one("IA32_PERF_METRICS"),
            Register::Capabilities => RegisterName::one("IA32_PERF_CAPABILITIES"),
            Register::PebsEnable => RegisterName::one("IA32_PEBS_ENABLE"),
            Register::DebugControl => RegisterName::one("IA32_DEBUGCTL"),
            Register::Extra(kind) => RegisterName::one(kind.name()),
            Register::V6Counter(n) => RegisterName::numbered("IA32_PMC_GP", n).with_tail("_CTR"),
            Register::V6EventSelect(n) => RegisterName::numbered("IA32_PMC_GP", n).with_tail("_CFG_A"),
            Register::V6FixedCounter(n) => RegisterName::numbered("IA32_PMC_FX", n).with_tail("_CTR"),
            Register::V6Reload(n) => RegisterName::numbered("IA32_PMC_GP", n).with_tail("_CFG_B"),
            Register::V6FixedReload(n) => RegisterName::numbered("IA32_PMC_FX", n).with_tail("_CFG_B"),
            Register::V6Pebs(n) => RegisterName::numbered("IA32_PMC_GP", n).with_tail("_CFG_C"),
            Register::V6FixedPebs(n) => RegisterName::numbered("IA32_PMC_FX", n).with_tail("_CFG_C"),
        }
    }

    pub(crate) const fn aliases(self) -> &'static [&'static str] {
        match self {
            Register::EventSelect(_) => &["PERF_EVTSEL", "EVNTSEL", "P6_EVNTSEL", "ARCH_PERFMON_EVENTSEL"],
            Register::Counter(_) => &["PERFCTR", "P6_PERFCTR", "ARCH_PERFMON_PERFCTR"],
            Register::FixedCounter(_) => &["CORE_PERF_FIXED_CTR", "PERF_FIXED_CTR"],
            Register::FixedControl => &["PERF_FIXED_CTR_CTRL", "CORE_PERF_FIXED_CTR_CTRL"],
            Register::GlobalStatus => &["GLOBAL_STATUS", "CORE_PERF_GLOBAL_STATUS"],
            Register::GlobalControl => &["GLOBAL_CTRL", "CORE_PERF_GLOBAL_CTRL"],
            Register::GlobalStatusReset => &[
                "GLOBAL_STATUS_RESET",
                "GLOBAL_OVF_CTRL",
                "PERF_GLOBAL_OVF_CTRL",
                "CORE_PERF_GLOBAL_OVF_CTRL",
            ],
            Register::GlobalStatusSet => &["GLOBAL_STATUS_SET", "CORE_PERF_GLOBAL_STATUS_SET"],
            Register::GlobalInUse => &["GLOBAL_INUSE", "CORE_PERF_GLOBAL_INUSE"],
            Register::DebugControl => &["DEBUGCTLMSR"],
            Register::Extra(ExtraRegisterKind::LoadLatency) => &["PEBS_LD_LAT"],
            _ => &[],
        }
    }

    /// The operations that a driver may use; `None`: none.
    pub(crate) const fn access(self) -> Option<Access> {
        match self {
            Register::EventSelect(n)
            | Register::Counter(n)
            | Register::FullWidthCounter(n)
            | Register::V6Counter(n)
            | Register::V6EventSelect(n) => {
                if n < MOST_GENERAL {
                    Some(Access::ALL)
                } else {
                    None
                }
            }
            Register::FixedCounter(n) | Register::V6FixedCounter(n) if n < MOST_FIXED => Some(Access::ALL),
            Register::FixedControl
            | Register::GlobalControl
            | Register::GlobalStatusReset
            | Register::Metrics
            | Register::Extra(_) => Some(Access::ALL),
            Register::DebugControl => Some(Access::Write { bits: FREEZE_PERFMON_ON_PMI }),
            Register::GlobalStatus
            | Register::GlobalInUse
            | Register::Capabilities
            | Register::PebsEnable => Some(Access::Read),
            _ => None,
        }
    }
}
