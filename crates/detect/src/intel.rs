//! Intel: generations by family, model and stepping; counters by `CPUID` 0xA and 0x23.

use cyclometer_core::machine::{CoreType, PmuFacts};
use cyclometer_core::{CounterMask, CpuSet};

use crate::cpuid::{self, Signature};
use crate::detected::{DetectionContext, core_type, no_counters};
use crate::facts::FactSource;

/// Core type of a performance core in `CPUID` 0x1A, EAX bits 31 to 24.
const CORE: u32 = 0x40;
/// Core type of an efficiency core.
const ATOM: u32 = 0x20;

/// One generation: which CPUs, what perf's event folder is called, what cores it has.
struct IntelGeneration {
    family: u32,
    models: &'static [u32],
    /// Steppings as a bit mask.
    steppings: u16,
    id: &'static str,
    kinds: &'static [CoreKind],
}

/// A type of core of a generation. Generations with one type have one entry without a suffix.
struct CoreKind {
    /// `core`, `atom`, `lowpower`, as in the kernel's device names; empty if there is one type only.
    suffix: &'static str,
    /// `CPUID` 0x1A, EAX bits 31 to 24.
    core_type: u32,
    /// `CPUID` 0x1A, EAX bits 23 to 0.
    native_model: u32,
    microarchitecture: Option<&'static str>,
}

const ALL: u16 = u16::MAX;

const fn generation(models: &'static [u32], id: &'static str, kinds: &'static [CoreKind]) -> IntelGeneration {
    IntelGeneration { family: 6, models, steppings: ALL, id, kinds }
}

const fn only(microarchitecture: &'static str) -> CoreKind {
    CoreKind { suffix: "", core_type: 0, native_model: 0, microarchitecture: Some(microarchitecture) }
}

const fn core(native_model: u32, microarchitecture: &'static str) -> CoreKind {
    CoreKind { suffix: "core", core_type: CORE, native_model, microarchitecture: Some(microarchitecture) }
}

const fn atom(native_model: u32, microarchitecture: &'static str) -> CoreKind {
    CoreKind { suffix: "atom", core_type: ATOM, native_model, microarchitecture: Some(microarchitecture) }
}

const fn low_power(native_model: u32, microarchitecture: &'static str) -> CoreKind {
    CoreKind { suffix: "lowpower", core_type: ATOM, native_model, microarchitecture: Some(microarchitecture) }
}

/// The kinds of a hybrid that is not in the table.
const UNKNOWN_HYBRID: &[CoreKind] = &[
    CoreKind { suffix: "core", core_type: CORE, native_model: 0, microarchitecture: None },
    CoreKind { suffix: "atom", core_type: ATOM, native_model: 0, microarchitecture: None },
];

/// Every generation with an event file.
///
/// # Source
///
/// Models, steppings, core types, native models: intel/perfmon `mapfile.csv`, 2026-08-13. Ids: folders of
/// Linux 7.2 `tools/perf/pmu-events/arch/x86`; `novalake` is named in their manner. Microarchitectures: the
/// comments of Linux 7.2 `arch/x86/include/asm/intel-family.h`.
const GENERATIONS: &[IntelGeneration] = &[
    generation(&[0x1c, 0x26], "bonnell", &[only("Bonnell")]),
    generation(&[0x27, 0x35, 0x36], "bonnell", &[only("Saltwell")]),
    generation(&[0x1a, 0x1e, 0x1f], "nehalemep", &[only("Nehalem")]),
    generation(&[0x2e], "nehalemex", &[only("Nehalem")]),
    generation(&[0x25], "westmereep-sp", &[only("Westmere")]),
    generation(&[0x2c], "westmereep-dp", &[only("Westmere")]),
    generation(&[0x2f], "westmereex", &[only("Westmere")]),
    generation(&[0x2a], "sandybridge", &[only("Sandy Bridge")]),
    generation(&[0x2d], "jaketown", &[only("Sandy Bridge")]),
    generation(&[0x3a], "ivybridge", &[only("Ivy Bridge")]),
    generation(&[0x3e], "ivytown", &[only("Ivy Bridge")]),
    generation(&[0x3c, 0x45, 0x46], "haswell", &[only("Haswell")]),
    generation(&[0x3f], "haswellx", &[only("Haswell")]),
    generation(&[0x3d, 0x47], "broadwell", &[only("Broadwell")]),
    generation(&[0x56], "broadwellde", &[only("Broadwell")]),
    generation(&[0x4f], "broadwellx", &[only("Broadwell")]),
    generation(&[0x37, 0x4a, 0x4d, 0x5a], "silvermont", &[only("Silvermont")]),
    generation(&[0x4c], "silvermont", &[only("Airmont")]),
    generation(&[0x57], "knightslanding", &[only("Knights Landing")]),
    generation(&[0x85], "knightslanding", &[only("Knights Mill")]),
    generation(&[0x5c, 0x5f], "goldmont", &[only("Goldmont")]),
    generation(&[0x7a], "goldmontplus", &[only("Goldmont Plus")]),
    generation(&[0x86], "snowridgex", &[only("Tremont")]),
    generation(&[0x96, 0x9c], "elkhartlake", &[only("Tremont")]),
    generation(&[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6], "skylake", &[only("Skylake")]),
    IntelGeneration {
        family: 6,
        models: &[0x55],
        steppings: 0x001f,
        id: "skylakex",
        kinds: &[only("Skylake")],
    },
    IntelGeneration {
        family: 6,
        models: &[0x55],
        steppings: 0xffe0,
        id: "cascadelakex",
        kinds: &[only("Skylake")],
    },
    generation(&[0x7d, 0x7e], "icelake", &[only("Sunny Cove")]),
    generation(&[0x6a, 0x6c], "icelakex", &[only("Sunny Cove")]),
    generation(&[0xa7], "rocketlake", &[only("Cypress Cove")]),
    generation(&[0x8c, 0x8d], "tigerlake", &[only("Willow Cove")]),
    generation(&[0x8f], "sapphirerapids", &[only("Golden Cove")]),
    generation(&[0xcf], "emeraldrapids", &[only("Raptor Cove")]),
    generation(&[0xad, 0xae], "graniterapids", &[only("Redwood Cove")]),
    generation(&[0xaf], "sierraforest", &[only("Crestmont")]),
    generation(&[0xb6], "grandridge", &[only("Crestmont")]),
    generation(&[0xdd], "clearwaterforest", &[only("Darkmont")]),
    generation(&[0xbe], "alderlaken", &[only("Gracemont")]),
    generation(&[0x97, 0x9a], "alderlake", &[core(1, "Golden Cove"), atom(1, "Gracemont")]),
    generation(&[0xb7, 0xba, 0xbf], "alderlake", &[core(1, "Raptor Cove"), atom(1, "Gracemont")]),
    generation(&[0xaa, 0xac, 0xb5], "meteorlake", &[core(2, "Redwood Cove"), atom(2, "Crestmont")]),
    generation(&[0xbd], "lunarlake", &[core(3, "Lion Cove"), atom(3, "Skymont")]),
    generation(&[0xc5], "arrowlake", &[core(3, "Lion Cove"), atom(3, "Skymont"), low_power(2, "Crestmont")]),
    generation(&[0xc6], "arrowlake", &[core(3, "Lion Cove"), atom(3, "Skymont")]),
    generation(&[0xcc, 0xd5, 0xe5], "pantherlake", &[core(4, "Cougar Cove"), atom(4, "Darkmont")]),
    IntelGeneration {
        family: 18,
        models: &[0x01, 0x03],
        steppings: ALL,
        id: "novalake",
        kinds: &[core(5, "Coyote Cove"), atom(5, "Arctic Wolf")],
    },
];

fn find(signature: Signature) -> Option<&'static IntelGeneration> {
    GENERATIONS.iter().find(|generation| {
        generation.family == signature.family
            && generation.models.contains(&signature.model)
            && generation.steppings.checked_shr(signature.stepping).unwrap_or(0) & 1 == 1
    })
}

/// The core types of an Intel CPU, performance cores first.
pub(crate) fn core_types(
    facts: &dyn FactSource,
    around: &DetectionContext<'_>,
    signature: Signature,
) -> Vec<CoreType> {
    let generation = find(signature);
    let hybrid_bit = cpuid::leaf(facts, None, 7, 0).is_some_and(|registers| registers[3] >> 15 & 1 == 1);
    let kinds = match generation {
        Some(generation) => generation.kinds,
        None if hybrid_bit => UNKNOWN_HYBRID,
        None => &[],
    };
    if kinds.len() < 2 {
        let id = generation.map(|generation| generation.id.to_owned());
        let name = kinds.first().and_then(|kind| kind.microarchitecture);
        let pmu = pmu_facts(facts, None, around.virtualised);
        return vec![core_type(id, name, around.online.clone(), pmu)];
    }
    let groups = if hybrid_bit { groups(facts, around, kinds) } else { Vec::new() };
    let groups =
        if groups.is_empty() { vec![(lone_kind(facts, kinds), around.online.clone())] } else { groups };
    let corrected = hybrid_bit && !around.virtualised;
    groups
        .into_iter()
        .map(|(kind, cpus)| hybrid_type(facts, around, generation, kind, cpus, corrected))
        .collect()
}

fn hybrid_type(
    facts: &dyn FactSource,
    around: &DetectionContext<'_>,
    generation: Option<&IntelGeneration>,
    kind: &CoreKind,
    cpus: CpuSet,
    corrected: bool,
) -> CoreType {
    let mut pmu = pmu_facts(facts, cpus.iter().next(), around.virtualised);
    if corrected && kind.core_type == CORE && extended(facts, cpus.iter().next()).is_none() {
        correct_common_subset(&mut pmu);
    }
    let id = generation.map(|generation| format!("{}/{}", generation.id, kind.suffix));
    core_type(id, kind.microarchitecture, cpus, pmu)
}

/// The only kind of a hybrid generation whose other cores are off or hidden: as leaf 0x1A says, else `core`.
///
/// # Source
///
/// Linux 7.2 `arch/x86/events/intel/core.c`, `adl_get_hybrid_cpu_type`: a CPU without a type is a core.
fn lone_kind(facts: &dyn FactSource, kinds: &'static [CoreKind]) -> &'static CoreKind {
    kind_by_leaf(facts, None, kinds).unwrap_or(&kinds[0])
}

/// The online CPUs by kind, in the order of `kinds`: as the kernel groups them, else by leaf 0x1A.
fn groups(
    facts: &dyn FactSource,
    around: &DetectionContext<'_>,
    kinds: &'static [CoreKind],
) -> Vec<(&'static CoreKind, CpuSet)> {
    let by_kernel = |kind: &CoreKind| {
        let name = format!("cpu_{}", kind.suffix);
        let device = around.pmus.iter().find(|pmu| pmu.name == name)?;
        Some(device.cpus.as_ref()?.intersection(around.online))
    };
    let mut groups: Vec<_> = kinds.iter().filter_map(|kind| Some((kind, by_kernel(kind)?))).collect();
    if groups.is_empty() {
        let typed: Vec<(u32, &CoreKind)> = around
            .online
            .iter()
            .filter_map(|cpu| Some((cpu, kind_by_leaf(facts, Some(cpu), kinds)?)))
            .collect();
        let of = |kind: &CoreKind| {
            typed.iter().filter(|(_, k)| std::ptr::eq(*k, kind)).map(|(cpu, _)| *cpu).collect()
        };
        groups = kinds.iter().map(|kind| (kind, of(kind))).collect();
    }
    groups.retain(|(_, cpus)| !cpus.is_empty());
    groups
}

/// The kind of a CPU by leaf 0x1A: type and native model, else the first of that type.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID` leaf 1AH "Native Model ID Enumeration".
fn kind_by_leaf(
    facts: &dyn FactSource,
    cpu: Option<u32>,
    kinds: &'static [CoreKind],
) -> Option<&'static CoreKind> {
    let [eax, ..] = cpuid::leaf(facts, cpu, 0x1a, 0)?;
    let (core_type, native_model) = (eax >> 24, eax & 0xff_ffff);
    let mut of_type = kinds.iter().filter(|kind| kind.core_type == core_type);
    let exact = of_type.clone().find(|kind| kind.native_model == native_model);
    exact.or_else(|| of_type.next())
}

/// The PMU of one CPU (`None`: any) as `CPUID` describes it.
pub(crate) fn pmu_facts(facts: &dyn FactSource, cpu: Option<u32>, virtualised: bool) -> PmuFacts {
    let Some(registers) = cpuid::leaf(facts, cpu, 0xa, 0) else { return no_counters("no CPUID 0xA") };
    let mut pmu = architectural(registers, virtualised);
    if pmu.version.is_none() {
        return pmu;
    }
    if let Some(counters) = extended(facts, cpu) {
        pmu.counters = counters;
        pmu.source = "CPUID 0x23".to_owned();
    }
    pmu
}

/// Decodes leaf 0xA.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID` leaf 0AH; volume 3B chapter "Performance Monitoring". On bare metal the
/// kernel takes versions 2 to 4 to have at least 3 fixed counters (Linux 7.2 `arch/x86/events/intel/core.c`,
/// `intel_pmu_init`, "Quirk: v2 perfmon does not report fixed-purpose events").
fn architectural([eax, _, ecx, edx]: [u32; 4], virtualised: bool) -> PmuFacts {
    let version = eax & 0xff;
    if version == 0 {
        return no_counters("CPUID 0xA: none offered");
    }
    let contiguous = match (version, edx & 0x1f) {
        (1, _) => 0,
        (2..=4, reported) if !virtualised => reported.max(3),
        (_, reported) => reported,
    };
    let bitmap = if version >= 5 { u64::from(ecx) } else { 0 };
    let counters = CounterMask::first(eax >> 8 & 0xff, contiguous).or(CounterMask::from_bits(0, bitmap));
    PmuFacts {
        version: Some(version),
        counters,
        counter_width_bits: Some(eax >> 16 & 0xff).filter(|bits| *bits != 0),
        implemented: None,
        source: "CPUID 0xA".to_owned(),
    }
}

/// The counters of leaf 0x23, if the CPU has it: two bit masks, which can have holes.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID` leaf 23H; it is there when leaf 7, sub-leaf 1, has EAX bit 8.
fn extended(facts: &dyn FactSource, cpu: Option<u32>) -> Option<CounterMask> {
    let sub_leaves = cpuid::leaf(facts, None, 7, 0)?[0];
    let present = sub_leaves >= 1 && cpuid::leaf(facts, cpu, 7, 1)?[0] >> 8 & 1 == 1;
    let has_counters = present && cpuid::leaf(facts, cpu, 0x23, 0)?[0] >> 1 & 1 == 1;
    let [general, fixed, ..] = has_counters.then(|| cpuid::leaf(facts, cpu, 0x23, 1))??;
    (general != 0).then(|| CounterMask::from_bits(general.into(), fixed.into()))
}

/// Leaf 0xA of Alder and Raptor Lake gives what both core types have: 6 general and 3 fixed counters.
/// Their performance cores have 2 general and 1 fixed counter more.
///
/// # Source
///
/// Linux 7.2 `arch/x86/events/intel/core.c`, `intel_pmu_init`, "Initialize big core specific PerfMon
/// capabilities".
fn correct_common_subset(pmu: &mut PmuFacts) {
    if pmu.counters == CounterMask::first(6, 3) {
        pmu.counters = CounterMask::first(8, 4);
        pmu.source = "CPUID 0xA, corrected for performance cores as Linux does".to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(family: u32, model: u32, stepping: u32) -> Option<&'static str> {
        find(Signature { family, model, stepping }).map(|generation| generation.id)
    }

    #[test]
    fn one_model_can_be_two_generations_by_stepping() {
        for stepping in 0..16 {
            let expected = if stepping < 5 { "skylakex" } else { "cascadelakex" };
            assert_eq!(id(6, 0x55, stepping), Some(expected));
        }
    }

    #[test]
    fn families_are_told_apart() {
        assert_eq!(id(6, 0x8f, 8), Some("sapphirerapids"));
        assert_eq!(id(18, 0x01, 0), Some("novalake"));
        assert_eq!(id(6, 0x01, 0), None);
        assert_eq!(id(15, 0x8f, 0), None);
    }

    #[test]
    fn no_model_is_in_two_generations() {
        for (i, a) in GENERATIONS.iter().enumerate() {
            for b in &GENERATIONS[i + 1..] {
                let shared = a.models.iter().any(|model| b.models.contains(model));
                assert!(
                    !(shared && a.family == b.family && a.steppings & b.steppings != 0),
                    "{} {}",
                    a.id,
                    b.id
                );
            }
        }
    }

    #[test]
    fn leaf_a_is_decoded_for_every_version() {
        let check = |registers, virtualised, version, general, fixed| {
            let facts = architectural(registers, virtualised);
            assert_eq!(facts.version, Some(version));
            assert_eq!(facts.counters, CounterMask::from_bits(general, fixed));
        };
        // Skylake: version 4, 4 counters of 48 bits, 3 fixed.
        check([0x0730_0404, 0, 0, 0x603], false, 4, 0xf, 0b111);
        // A version 2 that reports no fixed counters has three on metal, none in a guest.
        check([0x0730_0402, 0, 0, 0], false, 2, 0xf, 0b111);
        check([0x0730_0402, 0, 0, 0], true, 2, 0xf, 0);
        // Ice Lake: version 5, 8 counters, 4 fixed; version 5 has a bitmap too.
        check([0x0830_0805, 0, 0xf, 0x8604], false, 5, 0xff, 0xf);
        check([0x0830_0805, 0, 0x10, 0x8602], true, 5, 0xff, 0b10011);
        check([0x0728_0201, 0, 0, 0x3], false, 1, 0b11, 0);
    }

    #[test]
    fn version_zero_is_no_pmu() {
        assert_eq!(architectural([0; 4], true).counters, CounterMask::EMPTY);
        assert_eq!(architectural([0; 4], true).version, None);
    }
}
