//! The chips that are simulated: their facts, and what their events count.

use cyclometer_arch::{Chip, ChipCounters, x86_event_number};
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer_core::machine::{self, Architecture, Capabilities, CoreType, CpuId, Os, PmuFacts, Vendor};
use cyclometer_core::pmu::Family;
use cyclometer_core::{Concept, CounterId, CounterMask, CounterWidth, CpuSet, Ladder, Machine, Rung};
use cyclometer_semantics::{EventSemantics, Meaning, Semantics};

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
    pub events: &'static [EventSemantics],
    /// The concepts of its fixed counters.
    pub fixed: &'static [(u8, Concept)],
    /// The registers that it has beside those of its counters.
    pub(crate) extra: &'static [ExtraRegisterKind],
    /// How many fields PERF_METRICS has; 0: it is not there.
    pub(crate) metrics: usize,
}

impl Model {
    /// Every model.
    pub const ALL: &'static [Model] = &[
        apple("apple-m1", APPLE_8BIT, 8, 48, M1_EVENTS),
        apple("apple-m2", APPLE_8BIT, 8, 64, M2_EVENTS),
        apple("apple-m3", APPLE_16BIT, 16, 64, M3_EVENTS),
        apple("apple-m4", APPLE_16BIT, 16, 64, M4_EVENTS),
        intel("skylake", 4, CounterMask::first(4, 3), SKYLAKE_EVENTS, FIXED_3, 0),
        intel("icelake", 5, CounterMask::first(8, 4), ICELAKE_EVENTS, FIXED_4, 4),
        intel("sapphirerapids", 5, CounterMask::first(8, 4), SAPPHIRE_RAPIDS_EVENTS, FIXED_4, 8),
        amd("amdzen2", 1, ZEN2_EVENTS),
        amd("amdzen4", 2, ZEN4_EVENTS),
        NEOVERSE_N1,
    ];

    /// The width of its counters: 64 bits where its chip does not say.
    pub fn counter_width(&self) -> CounterWidth {
        self.chip.counter_width.unwrap_or(CounterWidth::carrying(64))
    }

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
        let counters = self.chip.counters.known();
        let core = CoreType {
            cpu_id: Some(self.id.to_owned()),
            microarchitecture: None,
            cpus: cpus.clone(),
            pmu: PmuFacts {
                version: self.chip.pmu_version,
                counters,
                counter_width_bits: self.chip.counter_width.map(|width| width.bits),
                implemented: Some(self.events.iter().map(|row| self.select(row.code)).collect()),
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
            gpus: cyclometer_core::gpu::Gpus::default(),
            hypervisor: None,
            container: None,
            pmus: Vec::new(),
            access: machine::AccessRights::default(),
            capabilities: Capabilities {
                architecture: format!("simulated {}", self.id),
                counter_count: counters.general_bits().count_ones(),
                fixed_counters: counters.fixed_bits().count_ones(),
                counter_width_bits: self.chip.counter_width.map(|width| width.bits),
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

    /// The meanings of its events.
    pub fn semantics(&self) -> Semantics {
        // A test holds that no model has two rows for one code and counter.
        Semantics::new(self.events).unwrap_or_default()
    }

    /// The code of an event in [`Semantics`]: [`Chip::event_number`].
    pub const fn code(&self, select: u16, umask: u8) -> u32 {
        self.chip.event_number(select, umask)
    }

    /// The select and the unit mask of a code.
    pub const fn select(&self, code: u32) -> (u16, u8) {
        self.chip.event_select(code)
    }

    /// The meaning of a fixed counter.
    pub(crate) fn fixed_meaning(&self, counter: u8) -> Option<Meaning> {
        let (_, concept) = self.fixed.iter().find(|(n, _)| *n == counter)?;
        Some(Meaning::sum(&[*concept]))
    }

    /// Its counters.
    pub(crate) fn counters(&self) -> impl Iterator<Item = CounterId> {
        self.chip.counters.known().iter()
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
    events: &'static [EventSemantics],
) -> Model {
    let chip = Chip {
        family: Family::Apple,
        pmu_version: None,
        selector_bits: Some(selector_bits),
        counter_width: Some(CounterWidth { bits: width, overflow_bit: width - 1 }),
        counters: ChipCounters::of(CounterMask::from_bits(0x3fc, 0b11)),
    };
    Model { id, chip, mhz, skid_cycles: SKID_ARM, events, fixed: APPLE_FIXED, extra: &[], metrics: 0 }
}

/// Clocks are round numbers near those of the chips.
const APPLE_8BIT: u64 = 3200;
const APPLE_16BIT: u64 = 4000;

const fn intel(
    id: &'static str,
    version: u32,
    counters: CounterMask,
    events: &'static [EventSemantics],
    fixed: &'static [(u8, Concept)],
    metrics: usize,
) -> Model {
    let chip = Chip {
        family: Family::Intel,
        pmu_version: Some(version),
        selector_bits: Some(8),
        counter_width: Some(CounterWidth::carrying(48)),
        counters: ChipCounters::of(counters),
    };
    Model { id, chip, mhz: 3000, skid_cycles: SKID_INTEL, events, fixed, extra: INTEL_EXTRA, metrics }
}

const fn amd(id: &'static str, version: u32, events: &'static [EventSemantics]) -> Model {
    let chip = Chip {
        family: Family::Amd,
        pmu_version: Some(version),
        selector_bits: Some(12),
        counter_width: Some(CounterWidth::carrying(48)),
        counters: ChipCounters::of(CounterMask::first(6, 0)),
    };
    Model { id, chip, mhz: 3400, skid_cycles: SKID_AMD, events, fixed: &[], extra: &[], metrics: 0 }
}

const NEOVERSE_N1: Model = Model {
    id: "neoverse-n1",
    chip: Chip {
        family: Family::Arm,
        pmu_version: Some(3),
        selector_bits: Some(16),
        counter_width: Some(CounterWidth::carrying(32)),
        counters: ChipCounters::of(CounterMask::from_bits(0x3f, 1 << 31)),
    },
    mhz: 3000,
    skid_cycles: SKID_ARM,
    events: NEOVERSE_EVENTS,
    fixed: &[(31, Concept::Cycles)],
    extra: &[],
    metrics: 0,
};

const INTEL_EXTRA: &[ExtraRegisterKind] = &[
    ExtraRegisterKind::OffcoreResponse0,
    ExtraRegisterKind::OffcoreResponse1,
    ExtraRegisterKind::LoadLatency,
    ExtraRegisterKind::Frontend,
];

const APPLE_FIXED: &[(u8, Concept)] = &[(0, Concept::Cycles), (1, Concept::Instructions)];

const FIXED_3: &[(u8, Concept)] =
    &[(0, Concept::Instructions), (1, Concept::Cycles), (2, Concept::ReferenceCycles)];

const FIXED_4: &[(u8, Concept)] =
    &[(0, Concept::Instructions), (1, Concept::Cycles), (2, Concept::ReferenceCycles), (3, Concept::Slots)];

/// A row of a chip without unit masks.
const fn row(select: u16, general: u64, meaning: Meaning) -> EventSemantics {
    EventSemantics { code: select as u32, counters: CounterMask::from_bits(general, 0), meaning }
}

/// A row of a chip with unit masks.
const fn masked(select: u16, umask: u8, general: u64, meaning: Meaning) -> EventSemantics {
    EventSemantics {
        code: x86_event_number(select, umask),
        counters: CounterMask::from_bits(general, 0),
        meaning,
    }
}

const fn one(concept: Concept) -> Meaning {
    Meaning::sum(&[concept])
}

/// The events of operations before they retire: those of wrong paths are among them, some for each
/// mispredicted branch.
const fn speculative(concepts: &[Concept], wrong_paths: u16) -> Meaning {
    Meaning::sum(concepts).with_wrong_paths(wrong_paths)
}

const CYCLES: Meaning = one(Concept::Cycles);
const INSTRUCTIONS: Meaning = one(Concept::Instructions);
const UOPS: Meaning = one(Concept::Uops);
const BRANCHES: Meaning = one(Concept::Branches);
const BRANCH_MISSES: Meaning = one(Concept::Mispredicts);
const LOADS: Meaning = one(Concept::Loads);
const STORES: Meaning = one(Concept::Stores);
const LOADS_AND_STORES: Meaning = Meaning::sum(&[Concept::Loads, Concept::Stores]);
const L1D_MISSES: Meaning = one(Concept::L1dLoadMisses);
const TLB_MISSES: Meaning = one(Concept::L1dTlbMisses);
const L1I_MISSES: Meaning = one(Concept::L1iMisses);
const LLC_REFERENCES: Meaning = one(Concept::LlcReferences);
const LLC_MISSES: Meaning = one(Concept::LlcMisses);
const FLOAT_OPERATIONS: Meaning = one(Concept::FloatOperations);
/// Integer instructions that are neither branches nor loads nor stores.
const INTEGER_UNIT: Meaning =
    Meaning::sum(&[Concept::IntegerAlu, Concept::IntegerMultiplies, Concept::IntegerDivides]);
/// SIMD and floating-point instructions that are neither loads nor stores.
const SIMD_UNIT: Meaning = Meaning::sum(SIMD_CONCEPTS);
const SIMD_CONCEPTS: &[Concept] = &[
    Concept::SimdInteger,
    Concept::SimdFloat,
    Concept::FloatAdds,
    Concept::FloatMultiplies,
    Concept::FloatDivides,
    Concept::FusedMultiplyAdds,
];
/// Restarts for another reason than branches and the order of memory accesses.
const OTHER_RESTARTS: Meaning = Meaning::sum(&[Concept::Faults, Concept::SystemCalls]);
const ALL_INDIRECT_MISPREDICTS: Meaning =
    Meaning::sum(&[Concept::IndirectMispredicts, Concept::ReturnMispredicts]);

/// # Source
///
/// The tables `apple-m1` to `apple-m4` of the catalogue, which name theirs.
const M1_EVENTS: &[EventSemantics] = &[
    row(0x01, 0x80, UOPS),
    row(0x02, 0x3fc, CYCLES),
    row(0x04, 0x3fc, one(Concept::ItlbMisses)),
    row(0x05, 0x3fc, TLB_MISSES),
    row(0x07, 0x3fc, one(Concept::InstructionPageWalks)),
    row(0x08, 0x3fc, one(Concept::DataPageWalks)),
    row(0x0a, 0x3fc, one(Concept::InstructionPageWalks)),
    row(0x0b, 0x3fc, one(Concept::L2TlbMisses)),
    row(0x0d, 0x3fc, one(Concept::Faults)),
    row(0x51, 0x3fc, one(Concept::FrontendStallCycles)),
    row(0x70, 0x3fc, one(Concept::BackendStallCycles)),
    row(0x76, 0x3fc, one(Concept::StallCycles)),
    row(0x7c, 0x3fc, INTEGER_UNIT.with_wrong_paths(6000)),
    row(0x7d, 0x3fc, speculative(&[Concept::Loads, Concept::Stores], 4000)),
    row(0x7e, 0x3fc, SIMD_UNIT.with_wrong_paths(1000)),
    row(0x84, 0x3fc, OTHER_RESTARTS),
    row(0x8c, 0x80, INSTRUCTIONS),
    row(0x8d, 0xe0, BRANCHES),
    row(0x8e, 0xe0, one(Concept::Calls)),
    row(0x8f, 0xe0, one(Concept::Returns)),
    row(0x90, 0xe0, one(Concept::TakenBranches)),
    row(0x93, 0xe0, one(Concept::IndirectBranches)),
    row(0x94, 0xe0, one(Concept::ConditionalBranches)),
    row(0x95, 0xe0, LOADS),
    row(0x96, 0x80, STORES),
    row(0x97, 0x80, INTEGER_UNIT),
    row(0x98, 0xe0, one(Concept::SimdLoads)),
    row(0x99, 0xe0, one(Concept::SimdStores)),
    row(0x9a, 0x80, SIMD_UNIT),
    row(0x9b, 0x80, LOADS_AND_STORES),
    row(0x9c, 0xe0, one(Concept::Barriers)),
    row(0xa0, 0x3fc, LOADS_AND_STORES),
    row(0xa1, 0x3fc, TLB_MISSES),
    row(0xa2, 0x3fc, one(Concept::L1dStoreMissesSpeculative)),
    row(0xa3, 0x3fc, one(Concept::L1dLoadMissesSpeculative)),
    row(0xa6, 0x3fc, speculative(&[Concept::Loads], 2500)),
    row(0xa7, 0x3fc, speculative(&[Concept::Stores], 1250)),
    row(0xa8, 0x3fc, one(Concept::L1dWritebacks)),
    row(0xb1, 0x3fc, one(Concept::LineCrossings)),
    row(0xb2, 0x3fc, one(Concept::PageCrossings)),
    row(0xb3, 0x3fc, one(Concept::AtomicSuccesses)),
    row(0xb4, 0x3fc, one(Concept::AtomicFailures)),
    row(0xbf, 0xe0, L1D_MISSES),
    row(0xc0, 0xe0, one(Concept::L1dStoreMisses)),
    row(0xc1, 0xe0, TLB_MISSES),
    row(0xc4, 0xe0, one(Concept::OrderViolations)),
    row(0xc5, 0xe0, one(Concept::ConditionalMispredicts)),
    row(0xc6, 0xe0, ALL_INDIRECT_MISPREDICTS),
    row(0xc8, 0xe0, one(Concept::ReturnMispredicts)),
    row(0xca, 0xe0, one(Concept::IndirectCallMispredicts)),
    row(0xcb, 0xe0, BRANCH_MISSES),
    row(0xd4, 0x3fc, one(Concept::ItlbMisses)),
    row(0xd6, 0x3fc, one(Concept::FrontendStallCycles)),
    row(0xdb, 0x3fc, L1I_MISSES),
    row(0x52, 0x3fc, one(Concept::UopsIssued)),
];

/// Those of M1 but its last, which M2 does not have.
const M2_EVENTS: &[EventSemantics] = M1_EVENTS.split_at(M1_EVENTS.len() - 1).0;

const M3_EVENTS: &[EventSemantics] = &[
    row(0x01, 0x80, UOPS),
    row(0x02, 0x3fc, CYCLES),
    row(0x8c, 0x80, INSTRUCTIONS),
    row(0x8d, 0xe0, BRANCHES),
    row(0x95, 0xe0, LOADS),
    row(0x96, 0x80, STORES),
    row(0x9b, 0x80, LOADS_AND_STORES),
    row(0x5a1, 0x3fc, TLB_MISSES),
    row(0x5a3, 0x3fc, one(Concept::L1dLoadMissesSpeculative)),
    row(0xcb, 0xe0, BRANCH_MISSES),
    row(0x1db, 0x3fc, L1I_MISSES),
    row(0x5a2, 0x3fc, one(Concept::L1dStoreMissesSpeculative)),
    row(0x8e, 0xe0, one(Concept::Calls)),
    row(0x8f, 0xe0, one(Concept::Returns)),
    row(0x90, 0xe0, one(Concept::TakenBranches)),
    row(0x93, 0xe0, one(Concept::IndirectBranches)),
    row(0x97, 0x80, INTEGER_UNIT),
    row(0x98, 0xe0, one(Concept::SimdLoads)),
    row(0x99, 0xe0, one(Concept::SimdStores)),
    row(0x9a, 0x80, SIMD_UNIT),
    row(0x9c, 0xe0, one(Concept::Barriers)),
    row(0xbf, 0xe0, L1D_MISSES),
    row(0xc0, 0xe0, one(Concept::L1dStoreMisses)),
    row(0xc1, 0xe0, TLB_MISSES),
    row(0xc5, 0xe0, one(Concept::ConditionalMispredicts)),
    row(0xc6, 0xe0, ALL_INDIRECT_MISPREDICTS),
    row(0xc8, 0xe0, one(Concept::ReturnMispredicts)),
    row(0xca, 0xe0, one(Concept::IndirectCallMispredicts)),
];

const M4_EVENTS: &[EventSemantics] = &[
    row(0x3a, 0xfc, UOPS),
    row(0x11, 0x3fc, CYCLES),
    row(0x08, 0xfc, INSTRUCTIONS),
    row(0x21, 0xfc, BRANCHES),
    row(0x895, 0xfc, LOADS),
    row(0x896, 0x80, STORES),
    row(0x89b, 0x80, LOADS_AND_STORES),
    row(0x5a1, 0x3fc, TLB_MISSES),
    row(0x5a3, 0x3fc, one(Concept::L1dLoadMissesSpeculative)),
    row(0x22, 0xfc, BRANCH_MISSES),
    row(0x4006, 0x3fc, L1I_MISSES),
    row(0x894, 0xfc, one(Concept::ConditionalBranches)),
    row(0x5a2, 0x3fc, one(Concept::L1dStoreMissesSpeculative)),
    row(0x88e, 0xfc, one(Concept::Calls)),
    row(0x88f, 0xfc, one(Concept::Returns)),
    row(0x890, 0xfc, one(Concept::TakenBranches)),
    row(0x893, 0xfc, one(Concept::IndirectBranches)),
    row(0x897, 0x80, INTEGER_UNIT),
    row(0x898, 0xfc, one(Concept::SimdLoads)),
    row(0x899, 0xfc, one(Concept::SimdStores)),
    row(0x89a, 0x80, SIMD_UNIT),
    row(0x89c, 0xfc, one(Concept::Barriers)),
    row(0x8bf, 0xfc, L1D_MISSES),
    row(0x8c0, 0xfc, one(Concept::L1dStoreMisses)),
    row(0x8c1, 0xfc, TLB_MISSES),
    row(0x8c5, 0xfc, one(Concept::ConditionalMispredicts)),
    row(0x8c6, 0xfc, ALL_INDIRECT_MISPREDICTS),
    row(0x8c8, 0xfc, one(Concept::ReturnMispredicts)),
    row(0x8ca, 0xfc, one(Concept::IndirectCallMispredicts)),
];

/// # Source
///
/// The tables `skylake`, `icelake` and `sapphirerapids` of the catalogue, which name theirs.
const SKYLAKE_EVENTS: &[EventSemantics] = &[
    masked(0x3c, 0x00, 0xf, CYCLES),
    masked(0xc0, 0x00, 0xf, INSTRUCTIONS),
    masked(0xc2, 0x02, 0xf, UOPS),
    masked(0xc4, 0x00, 0xf, BRANCHES),
    masked(0xc5, 0x00, 0xf, BRANCH_MISSES),
    masked(0xd0, 0x81, 0xf, LOADS),
    masked(0xd0, 0x82, 0xf, STORES),
    masked(0xd1, 0x08, 0xf, L1D_MISSES),
    masked(0x2e, 0x4f, 0xf, LLC_REFERENCES),
    masked(0x2e, 0x41, 0xf, LLC_MISSES),
];

const ICELAKE_EVENTS: &[EventSemantics] = &[
    masked(0x3c, 0x00, 0xff, CYCLES),
    masked(0xc0, 0x00, 0xff, INSTRUCTIONS),
    masked(0xc2, 0x02, 0xff, UOPS),
    masked(0xc4, 0x00, 0xff, BRANCHES),
    masked(0xc5, 0x00, 0xff, BRANCH_MISSES),
    masked(0xd0, 0x81, 0xf, LOADS),
    masked(0xd0, 0x82, 0xf, STORES),
    masked(0xd1, 0x08, 0xf, L1D_MISSES),
];

const SAPPHIRE_RAPIDS_EVENTS: &[EventSemantics] = &[
    masked(0x3c, 0x00, 0xff, CYCLES),
    masked(0xc0, 0x00, 0xff, INSTRUCTIONS),
    masked(0xc2, 0x02, 0xff, UOPS),
    masked(0xc4, 0x00, 0xff, BRANCHES),
    masked(0xc5, 0x00, 0xff, BRANCH_MISSES),
    masked(0xd0, 0x81, 0xf, LOADS),
    masked(0xd0, 0x82, 0xf, STORES),
    masked(0xd1, 0x08, 0xf, L1D_MISSES),
    masked(0x2e, 0x4f, 0xff, LLC_REFERENCES),
    masked(0x2e, 0x41, 0xff, LLC_MISSES),
];

/// # Source
///
/// The tables `amdzen2` and `amdzen4` of the catalogue, which name theirs.
const ZEN2_EVENTS: &[EventSemantics] = &[
    masked(0x76, 0, 0x3f, CYCLES),
    masked(0xc0, 0, 0x3f, INSTRUCTIONS),
    masked(0xc1, 0, 0x3f, UOPS),
    masked(0xc2, 0, 0x3f, BRANCHES),
    masked(0xc3, 0, 0x3f, BRANCH_MISSES),
    masked(0x29, 1, 0x3f, LOADS),
    masked(0x29, 2, 0x3f, STORES),
    masked(0x03, 0xff, 0x15, FLOAT_OPERATIONS),
];

const ZEN4_EVENTS: &[EventSemantics] = &[
    masked(0x76, 0, 0x3f, CYCLES),
    masked(0xc0, 0, 0x3f, INSTRUCTIONS),
    masked(0xc1, 0, 0x3f, UOPS),
    masked(0xc2, 0, 0x3f, BRANCHES),
    masked(0xc3, 0, 0x3f, BRANCH_MISSES),
    masked(0x29, 1, 0x3f, LOADS),
    masked(0x29, 2, 0x3f, STORES),
    masked(0x03, 0x1f, 0x15, FLOAT_OPERATIONS),
];

/// # Source
///
/// The table `neoverse-n1` of the catalogue, which names its own.
const NEOVERSE_EVENTS: &[EventSemantics] = &[
    row(0x11, 0x3f, CYCLES),
    row(0x08, 0x3f, INSTRUCTIONS),
    row(0x21, 0x3f, BRANCHES),
    row(0x22, 0x3f, BRANCH_MISSES),
    row(0x10, 0x3f, BRANCH_MISSES),
    row(0x04, 0x3f, LOADS_AND_STORES),
    row(0x13, 0x3f, LOADS_AND_STORES),
    row(0x70, 0x3f, LOADS),
    row(0x71, 0x3f, STORES),
    row(0x03, 0x3f, L1D_MISSES),
    row(0x05, 0x3f, TLB_MISSES),
    row(0x01, 0x3f, L1I_MISSES),
    row(0x36, 0x3f, LLC_REFERENCES),
    row(0x37, 0x3f, LLC_MISSES),
];
