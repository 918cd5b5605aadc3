//! The chips that are simulated: their facts, and what their events count.

use cyclometer_arch::Chip;
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer_core::machine::{self, Architecture, Capabilities, CoreType, CpuId, Os, PmuFacts, Vendor};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, CpuSet, Ladder, Machine, Rung};

use crate::quantity::Quantity;

/// The quantities that an event select counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventRow {
    /// The event.
    pub select: u16,
    /// Its unit mask; 0 where there is none.
    pub umask: u8,
    /// The general counters that count it; on others it counts nothing.
    pub general: u64,
    /// The quantities in the core, added up.
    pub counts: &'static [Quantity],
}

/// A simulated chip.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Its name, that of its table of events.
    pub id: &'static str,
    /// The facts of its chip.
    pub chip: Chip,
    /// Cycles in a microsecond.
    pub mhz: u64,
    /// The fewest and the most cycles from an overflow to its interrupt.
    pub skid_cycles: (u64, u64),
    /// Its events; an event select that is not among them counts nothing.
    pub events: &'static [EventRow],
    /// The quantities of its fixed counters.
    pub fixed: &'static [(u8, Quantity)],
    /// The registers that it has beside those of its counters.
    pub(crate) extra: &'static [ExtraRegisterKind],
    /// How many fields PERF_METRICS has; 0: it is not there.
    pub(crate) metrics: usize,
}

impl Model {
    /// Every model.
    pub const ALL: &'static [Model] = &[
        apple("apple-m1", APPLE_8BIT, 8, 48, M1_EVENTS),
        apple("apple-m2", APPLE_8BIT, 8, 64, M1_EVENTS),
        apple("apple-m3", APPLE_16BIT, 16, 64, M3_EVENTS),
        apple("apple-m4", APPLE_16BIT, 16, 64, M4_EVENTS),
        intel("skylake", 4, CounterMask::first(4, 3), SKYLAKE_EVENTS, FIXED_3, 0),
        intel("icelake", 5, CounterMask::first(8, 4), ICELAKE_EVENTS, FIXED_4, 4),
        intel("sapphirerapids", 5, CounterMask::first(8, 4), SAPPHIRE_RAPIDS_EVENTS, FIXED_4, 8),
        amd("amdzen2", 1, ZEN2_EVENTS),
        amd("amdzen4", 2, ZEN4_EVENTS),
        NEOVERSE_N1,
    ];

    /// The model of that name.
    pub fn find(id: &str) -> Option<&'static Model> {
        Model::ALL.iter().find(|model| model.id == id)
    }

    /// The result of detection on a machine with so many of its CPUs: a PMU and nothing else, neither an
    /// operating system nor any other source of counts.
    pub fn machine(&self, cpus: u32) -> Machine {
        let cpus: CpuSet = (0..cpus.max(1)).collect();
        let none =
            || Err(Cause::new(CauseKind::OtherSystem, "a simulated machine has its PMU and nothing else"));
        let counters = self.chip.counters;
        let core = CoreType {
            cpu_id: Some(self.id.to_owned()),
            microarchitecture: None,
            cpus: cpus.clone(),
            pmu: PmuFacts {
                version: Some(self.chip.pmu_version).filter(|version| *version != 0),
                counters,
                counter_width_bits: self.chip.counter_width_bits,
                implemented: Some(self.events.iter().map(|row| (row.select, row.umask)).collect()),
                source: "the simulation".to_owned(),
            },
            kernel_pmu: None,
        };
        Machine {
            os: Os::Other,
            kernel_release: None,
            architecture: self.architecture(),
            cpu: machine::MachineCpu {
                vendor: self.vendor(),
                id: CpuId::Unknown,
                name: Some(format!("simulated {}", self.id)),
            },
            core_types: vec![core],
            online: cpus,
            smt_active: None,
            energy: Vec::new(),
            hypervisor: None,
            container: None,
            pmus: Vec::new(),
            access: machine::AccessRights::default(),
            capabilities: Capabilities {
                architecture: format!("simulated {}", self.id),
                counter_count: counters.general_bits().count_ones(),
                fixed_counters: counters.fixed_bits().count_ones(),
                counter_width_bits: self.chip.counter_width_bits,
                user_mode_access: false,
                needs_kernel_patch: false,
            },
            ladder: Ladder {
                rungs: vec![RungState { rung: Rung::Sim, works: Works::Yes, causes: Vec::new() }],
                perf_hardware: none(),
                perf_software: none(),
                perf_kernel_mode: none(),
                perf_cpu_wide: none(),
            },
        }
    }

    fn architecture(&self) -> Architecture {
        match self.chip.family {
            Family::Intel | Family::Amd => Architecture::X86_64,
            Family::Apple | Family::Arm => Architecture::Aarch64,
            Family::RiscV => Architecture::Riscv64,
        }
    }

    fn vendor(&self) -> Vendor {
        match self.chip.family {
            Family::Intel => Vendor::Intel,
            Family::Amd => Vendor::Amd,
            Family::Apple => Vendor::Apple,
            Family::Arm => Vendor::Arm,
            Family::RiscV => Vendor::Other("RISC-V".to_owned()),
        }
    }

    /// The quantities of a select and unit mask on a general counter.
    pub(crate) fn counted(&self, select: u16, umask: u8, counter: u8) -> Option<&'static [Quantity]> {
        let row = self.events.iter().find(|row| (row.select, row.umask) == (select, umask))?;
        (row.general >> counter & 1 == 1).then_some(row.counts)
    }

    /// The quantity of a fixed counter.
    pub(crate) fn counted_fixed(&self, counter: u8) -> Option<&'static [Quantity]> {
        let (_, quantity) = self.fixed.iter().find(|(n, _)| *n == counter)?;
        Quantity::ALL.iter().find(|one| *one == quantity).map(std::slice::from_ref)
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = CounterId> {
        self.chip.counters.iter()
    }

    /// The first cycle that is not before a moment: its time, rounded down to nanoseconds, is not before it
    /// either.
    pub(crate) fn cycles_at(&self, ns: u64) -> u64 {
        let cycles = (u128::from(ns) * u128::from(self.mhz)).div_ceil(1000);
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    /// So many nanoseconds in cycles, at least 1.
    pub(crate) fn cycles(&self, ns: u64) -> u64 {
        let cycles = u128::from(ns) * u128::from(self.mhz) / 1000;
        u64::try_from(cycles).unwrap_or(u64::MAX).max(1)
    }
}

/// Skids are such that an interrupt comes after as many instructions as drivers report or allow for: a few
/// hundred on Intel, a thousand on Apple and Arm, ten thousand on Zen.
///
/// # Source
///
/// UNCSecLab/hpc, its sampling table (5 to 205 instructions); rr `src/PerfCounters*.h` (allowed skid).
const SKID_INTEL: (u64, u64) = (4, 60);
const SKID_AMD: (u64, u64) = (40, 3000);
const SKID_ARM: (u64, u64) = (10, 300);

const fn apple(
    id: &'static str,
    mhz: u64,
    selector_bits: u32,
    width: u32,
    events: &'static [EventRow],
) -> Model {
    let chip = Chip {
        family: Family::Apple,
        pmu_version: 0,
        selector_bits,
        counter_width_bits: width,
        overflow_bit: width - 1,
        counters: CounterMask::from_bits(0x3fc, 0b11),
    };
    Model { id, chip, mhz, skid_cycles: SKID_ARM, events, fixed: APPLE_FIXED, extra: &[], metrics: 0 }
}

/// Clocks are round numbers near those of the chips.
const APPLE_8BIT: u64 = 3200;
const APPLE_16BIT: u64 = 4000;

const fn intel(
    id: &'static str,
    pmu_version: u32,
    counters: CounterMask,
    events: &'static [EventRow],
    fixed: &'static [(u8, Quantity)],
    metrics: usize,
) -> Model {
    let chip = Chip {
        family: Family::Intel,
        pmu_version,
        selector_bits: 8,
        counter_width_bits: 48,
        overflow_bit: 48,
        counters,
    };
    Model { id, chip, mhz: 3000, skid_cycles: SKID_INTEL, events, fixed, extra: INTEL_EXTRA, metrics }
}

const fn amd(id: &'static str, pmu_version: u32, events: &'static [EventRow]) -> Model {
    let chip = Chip {
        family: Family::Amd,
        pmu_version,
        selector_bits: 12,
        counter_width_bits: 48,
        overflow_bit: 48,
        counters: CounterMask::first(6, 0),
    };
    Model { id, chip, mhz: 3400, skid_cycles: SKID_AMD, events, fixed: &[], extra: &[], metrics: 0 }
}

const NEOVERSE_N1: Model = Model {
    id: "neoverse-n1",
    chip: Chip {
        family: Family::Arm,
        pmu_version: 3,
        selector_bits: 16,
        counter_width_bits: 32,
        overflow_bit: 32,
        counters: CounterMask::from_bits(0x3f, 1 << 31),
    },
    mhz: 3000,
    skid_cycles: SKID_ARM,
    events: NEOVERSE_EVENTS,
    fixed: &[(31, Quantity::Cycles)],
    extra: &[],
    metrics: 0,
};

const INTEL_EXTRA: &[ExtraRegisterKind] = &[
    ExtraRegisterKind::OffcoreResponse0,
    ExtraRegisterKind::OffcoreResponse1,
    ExtraRegisterKind::LoadLatency,
    ExtraRegisterKind::Frontend,
];

const APPLE_FIXED: &[(u8, Quantity)] = &[(0, Quantity::Cycles), (1, Quantity::Instructions)];

const FIXED_3: &[(u8, Quantity)] =
    &[(0, Quantity::Instructions), (1, Quantity::Cycles), (2, Quantity::ReferenceCycles)];

const FIXED_4: &[(u8, Quantity)] = &[
    (0, Quantity::Instructions),
    (1, Quantity::Cycles),
    (2, Quantity::ReferenceCycles),
    (3, Quantity::Slots),
];

const fn row(select: u16, umask: u8, general: u64, counts: &'static [Quantity]) -> EventRow {
    EventRow { select, umask, general, counts }
}

const CYCLES: &[Quantity] = &[Quantity::Cycles];
const INSTRUCTIONS: &[Quantity] = &[Quantity::Instructions];
const UOPS: &[Quantity] = &[Quantity::Uops];
const BRANCHES: &[Quantity] = &[Quantity::Branches];
const BRANCH_MISSES: &[Quantity] = &[Quantity::BranchMisses];
const LOADS: &[Quantity] = &[Quantity::Loads];
const STORES: &[Quantity] = &[Quantity::Stores];
const LOADS_AND_STORES: &[Quantity] = &[Quantity::Loads, Quantity::Stores];
const L1D_MISSES: &[Quantity] = &[Quantity::L1dLoadMisses];
const TLB_MISSES: &[Quantity] = &[Quantity::L1dTlbMisses];
const L1I_MISSES: &[Quantity] = &[Quantity::L1iMisses];
const LLC_REFERENCES: &[Quantity] = &[Quantity::LlcReferences];
const LLC_MISSES: &[Quantity] = &[Quantity::LlcMisses];
const FLOAT_OPERATIONS: &[Quantity] = &[Quantity::FloatOperations];

/// # Source
///
/// The tables `apple-m1` to `apple-m4` of the catalogue, which name theirs.
const M1_EVENTS: &[EventRow] = &[
    row(0x01, 0, 0x80, UOPS),
    row(0x02, 0, 0x3fc, CYCLES),
    row(0x8c, 0, 0x80, INSTRUCTIONS),
    row(0x8d, 0, 0xe0, BRANCHES),
    row(0x95, 0, 0xe0, LOADS),
    row(0x96, 0, 0x80, STORES),
    row(0x9b, 0, 0x80, LOADS_AND_STORES),
    row(0xa1, 0, 0x3fc, TLB_MISSES),
    row(0xa3, 0, 0x3fc, L1D_MISSES),
    row(0xcb, 0, 0xe0, BRANCH_MISSES),
    row(0xdb, 0, 0x3fc, L1I_MISSES),
];

const M3_EVENTS: &[EventRow] = &[
    row(0x01, 0, 0x80, UOPS),
    row(0x02, 0, 0x3fc, CYCLES),
    row(0x8c, 0, 0x80, INSTRUCTIONS),
    row(0x8d, 0, 0xe0, BRANCHES),
    row(0x95, 0, 0xe0, LOADS),
    row(0x96, 0, 0x80, STORES),
    row(0x9b, 0, 0x80, LOADS_AND_STORES),
    row(0x5a1, 0, 0x3fc, TLB_MISSES),
    row(0x5a3, 0, 0x3fc, L1D_MISSES),
    row(0xcb, 0, 0xe0, BRANCH_MISSES),
    row(0x1db, 0, 0x3fc, L1I_MISSES),
];

const M4_EVENTS: &[EventRow] = &[
    row(0x3a, 0, 0xfc, UOPS),
    row(0x11, 0, 0x3fc, CYCLES),
    row(0x08, 0, 0xfc, INSTRUCTIONS),
    row(0x21, 0, 0xfc, BRANCHES),
    row(0x895, 0, 0xfc, LOADS),
    row(0x896, 0, 0x80, STORES),
    row(0x89b, 0, 0x80, LOADS_AND_STORES),
    row(0x5a1, 0, 0x3fc, TLB_MISSES),
    row(0x5a3, 0, 0x3fc, L1D_MISSES),
    row(0x22, 0, 0xfc, BRANCH_MISSES),
    row(0x4006, 0, 0x3fc, L1I_MISSES),
];

/// # Source
///
/// The tables `skylake`, `icelake` and `sapphirerapids` of the catalogue, which name theirs.
const SKYLAKE_EVENTS: &[EventRow] = &[
    row(0x3c, 0x00, 0xf, CYCLES),
    row(0xc0, 0x00, 0xf, INSTRUCTIONS),
    row(0xc2, 0x02, 0xf, UOPS),
    row(0xc4, 0x00, 0xf, BRANCHES),
    row(0xc5, 0x00, 0xf, BRANCH_MISSES),
    row(0xd0, 0x81, 0xf, LOADS),
    row(0xd0, 0x82, 0xf, STORES),
    row(0xd1, 0x08, 0xf, L1D_MISSES),
    row(0x2e, 0x4f, 0xf, LLC_REFERENCES),
    row(0x2e, 0x41, 0xf, LLC_MISSES),
];

const ICELAKE_EVENTS: &[EventRow] = &[
    row(0x3c, 0x00, 0xff, CYCLES),
    row(0xc0, 0x00, 0xff, INSTRUCTIONS),
    row(0xc2, 0x02, 0xff, UOPS),
    row(0xc4, 0x00, 0xff, BRANCHES),
    row(0xc5, 0x00, 0xff, BRANCH_MISSES),
    row(0xd0, 0x81, 0xf, LOADS),
    row(0xd0, 0x82, 0xf, STORES),
    row(0xd1, 0x08, 0xf, L1D_MISSES),
];

const SAPPHIRE_RAPIDS_EVENTS: &[EventRow] = &[
    row(0x3c, 0x00, 0xff, CYCLES),
    row(0xc0, 0x00, 0xff, INSTRUCTIONS),
    row(0xc2, 0x02, 0xff, UOPS),
    row(0xc4, 0x00, 0xff, BRANCHES),
    row(0xc5, 0x00, 0xff, BRANCH_MISSES),
    row(0xd0, 0x81, 0xf, LOADS),
    row(0xd0, 0x82, 0xf, STORES),
    row(0xd1, 0x08, 0xf, L1D_MISSES),
    row(0x2e, 0x4f, 0xff, LLC_REFERENCES),
    row(0x2e, 0x41, 0xff, LLC_MISSES),
];

/// # Source
///
/// The tables `amdzen2` and `amdzen4` of the catalogue, which name theirs.
const ZEN2_EVENTS: &[EventRow] = &[
    row(0x76, 0, 0x3f, CYCLES),
    row(0xc0, 0, 0x3f, INSTRUCTIONS),
    row(0xc1, 0, 0x3f, UOPS),
    row(0xc2, 0, 0x3f, BRANCHES),
    row(0xc3, 0, 0x3f, BRANCH_MISSES),
    row(0x29, 1, 0x3f, LOADS),
    row(0x29, 2, 0x3f, STORES),
    row(0x03, 0xff, 0x15, FLOAT_OPERATIONS),
];

const ZEN4_EVENTS: &[EventRow] = &[
    row(0x76, 0, 0x3f, CYCLES),
    row(0xc0, 0, 0x3f, INSTRUCTIONS),
    row(0xc1, 0, 0x3f, UOPS),
    row(0xc2, 0, 0x3f, BRANCHES),
    row(0xc3, 0, 0x3f, BRANCH_MISSES),
    row(0x29, 1, 0x3f, LOADS),
    row(0x29, 2, 0x3f, STORES),
    row(0x03, 0x1f, 0x15, FLOAT_OPERATIONS),
];

/// # Source
///
/// The table `neoverse-n1` of the catalogue, which names its own.
const NEOVERSE_EVENTS: &[EventRow] = &[
    row(0x11, 0, 0x3f, CYCLES),
    row(0x08, 0, 0x3f, INSTRUCTIONS),
    row(0x21, 0, 0x3f, BRANCHES),
    row(0x22, 0, 0x3f, BRANCH_MISSES),
    row(0x10, 0, 0x3f, BRANCH_MISSES),
    row(0x04, 0, 0x3f, LOADS_AND_STORES),
    row(0x13, 0, 0x3f, LOADS_AND_STORES),
    row(0x70, 0, 0x3f, LOADS),
    row(0x71, 0, 0x3f, STORES),
    row(0x03, 0, 0x3f, L1D_MISSES),
    row(0x05, 0, 0x3f, TLB_MISSES),
    row(0x01, 0, 0x3f, L1I_MISSES),
    row(0x36, 0, 0x3f, LLC_REFERENCES),
    row(0x37, 0, 0x3f, LLC_MISSES),
];
