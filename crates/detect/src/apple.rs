//! Apple: chips by `hw.cpufamily` on macOS and by MIDR on Linux.

use cyclometer_core::machine::{CoreType, CpuId, MachineCpu, PmuFacts, Vendor};
use cyclometer_core::{CounterMask, CpuSet, Machine, Rung};

use crate::detected::{DetectedCpu, DetectionContext, core_type, no_counters};
use crate::facts::{FactSource, KpcCounters};
use crate::text;

/// A family of chips with one event database and one register layout.
struct AppleChip {
    /// `hw.cpufamily`.
    cpufamily: u32,
    /// Event table.
    id: &'static str,
    /// Microarchitecture of the performance cores.
    performance: &'static str,
    /// Microarchitecture of the efficiency cores.
    efficiency: &'static str,
    /// Width of the counters in bits; `None` when not known. One bit less counts: the top one raises the
    /// interrupt.
    width_bits: Option<u32>,
}

const fn chip(
    cpufamily: u32,
    id: &'static str,
    [performance, efficiency]: [&'static str; 2],
    width_bits: Option<u32>,
) -> AppleChip {
    AppleChip { cpufamily, id, performance, efficiency, width_bits }
}

/// Chips by CPU family. Phone chips have the id of the Mac chip whose event database has the same content.
///
/// # Source
///
/// xnu `osfmk/mach/machine.h`, `pexpert/pexpert/arm64/H13.h` to `H16.h`; jiegec/apple-pmu README (from M5 on
/// and A18, the only source); Linux `drivers/perf/apple_m1_cpu_pmu.c` for the names of cores.
const CHIPS: &[AppleChip] = &[
    chip(0x1b58_8bb3, "apple-m1", ["Firestorm", "Icestorm"], Some(48)),
    chip(0xda33_d83d, "apple-m2", ["Avalanche", "Blizzard"], Some(64)),
    chip(0x8765_edea, "apple-m3", ["Everest", "Sawtooth"], Some(64)),
    chip(0x2876_f5b5, "apple-m3", ["Everest", "Sawtooth"], Some(64)),
    chip(0xfa33_415e, "apple-m3", ["Everest", "Sawtooth"], Some(64)),
    chip(0x5f4d_ea93, "apple-m3", ["Everest", "Sawtooth"], Some(64)),
    chip(0x7201_5832, "apple-m3", ["Everest", "Sawtooth"], Some(64)),
    chip(0x6f51_29ac, "apple-m4", ["Donan P-core", "Donan E-core"], Some(64)),
    chip(0x17d5_b93a, "apple-m4", ["Brava P-core", "Brava E-core"], Some(64)),
    chip(0x2045_26d0, "apple-m4", ["Tupai P-core", "Tupai E-core"], None),
    chip(0x75d4_acb9, "apple-m4", ["Tahiti P-core", "Tahiti E-core"], None),
    chip(0x1d5a_87e8, "apple-m5", ["Hidra P-core", "Hidra E-core"], Some(64)),
    chip(0xf76c_5b1a, "apple-m5", ["Sotra P-core", "Sotra M-core"], Some(64)),
    chip(0x01d7_a72b, "apple-m5", ["Tilos P-core", "Tilos E-core"], None),
    chip(0xab34_5f09, "apple-m5", ["Thera P-core", "Thera E-core"], None),
];

/// MIDR part numbers (implementer 0x61), the efficiency cores' and the performance cores', and the family.
///
/// # Source
///
/// xnu `osfmk/arm/cpuid.h`; Linux 7.2 `arch/arm64/include/asm/cputype.h`.
const PARTS: &[([u32; 2], u32)] = &[
    ([0x20, 0x21], 0x1b58_8bb3),
    ([0x22, 0x23], 0x1b58_8bb3),
    ([0x24, 0x25], 0x1b58_8bb3),
    ([0x28, 0x29], 0x1b58_8bb3),
    ([0x30, 0x31], 0xda33_d83d),
    ([0x32, 0x33], 0xda33_d83d),
    ([0x34, 0x35], 0xda33_d83d),
    ([0x38, 0x39], 0xda33_d83d),
    ([0x40, 0x41], 0x8765_edea),
    ([0x42, 0x43], 0xfa33_415e),
    ([0x44, 0x45], 0x5f4d_ea93),
    ([0x48, 0x49], 0x7201_5832),
    ([0x50, 0x51], 0x2876_f5b5),
    ([0x52, 0x53], 0x6f51_29ac),
    ([0x54, 0x55], 0x17d5_b93a),
    ([0x58, 0x59], 0x17d5_b93a),
];

/// The counters of every chip from M1 to M5: PMC2 to PMC9, and PMC0 (cycles), PMC1 (instructions) fixed.
///
/// # Source
///
/// xnu `pexpert/pexpert/arm64/H13.h` to `H16.h`, `CORE_NCTRS` 10; kpep `fixed_counters` 3,
/// `config_counters` 1020.
const COUNTERS: CounterMask = CounterMask::from_bits(0x3fc, 0b11);

/// The counters of a macOS guest: the two fixed ones.
///
/// # Source
///
/// xnu `pexpert/pexpert/arm64/board_config.h`, `VMAPPLE`: `CORE_NCTRS` 2.
const GUEST_COUNTERS: CounterMask = CounterMask::from_bits(0, 0b11);

/// The counters that the power manager has until all are requested: PMC5 to PMC7.
///
/// # Source
///
/// kpep `power_counters`, 224, on every chip from M1 to M5.
pub(crate) const POWER_COUNTERS: CounterMask = CounterMask::from_bits(0xe0, 0);

/// Limits the counters of core types to those that kperf offers. A chip that is not in the table has those of
/// all others, where kperf offers as many.
pub(crate) fn limit_to_offered(cores: &mut [CoreType], offered: KpcCounters) {
    for pmu in cores.iter_mut().map(|core| &mut core.pmu) {
        let known = Some(pmu.counters).filter(|counters| !counters.is_empty());
        let all = known.unwrap_or(COUNTERS);
        let has_offered =
            |counters: &CounterMask| counters.general_bits().count_ones() == offered.configurable;
        let Some(counters) = [all, all.without(POWER_COUNTERS)].into_iter().find(has_offered) else {
            continue;
        };
        pmu.counters = counters;
        if known.is_none() {
            pmu.source = "kperf".to_owned();
        }
    }
}

/// The names of counters: `PMC5 to PMC7`, or `PMC2, PMC5` where there are gaps.
pub(crate) fn names(counters: CounterMask) -> String {
    let bits = counters.general_bits();
    let numbers: Vec<u32> = (0..64).filter(|n| bits >> n & 1 == 1).collect();
    match numbers.as_slice() {
        [first, .., last] if last - first + 1 == bits.count_ones() => format!("PMC{first} to PMC{last}"),
        all => all.iter().map(|n| format!("PMC{n}")).collect::<Vec<_>>().join(", "),
    }
}

/// Other counters of the power manager than those of the chips in the table, by the event database of the
/// host (`power_counters`). Nothing changes where kperf offers all counters, or another number of them.
pub fn with_power_counters(machine: &mut Machine, power: CounterMask) {
    let left = COUNTERS.without(power);
    let usual = COUNTERS.without(POWER_COUNTERS);
    let is_limited = |core: &CoreType| core.pmu.counters == usual;
    if power == POWER_COUNTERS || left.len() != usual.len() || !machine.core_types.iter().any(is_limited) {
        return;
    }
    machine.core_types.iter_mut().filter(|core| is_limited(core)).for_each(|core| core.pmu.counters = left);
    let kperf = machine.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Kperf);
    for cause in kperf.flat_map(|state| &mut state.causes) {
        cause.text = cause.text.replace(&names(POWER_COUNTERS), &names(power));
    }
}

fn by_family(cpufamily: u32) -> Option<&'static AppleChip> {
    CHIPS.iter().find(|chip| chip.cpufamily == cpufamily)
}

/// The CPU and its core types on macOS.
///
/// macOS does not say which CPU number has which type of core, so on a chip with several the sets are empty.
pub(crate) fn on_macos(facts: &dyn FactSource, around: &DetectionContext<'_>) -> DetectedCpu {
    let cpufamily = text::sysctl_number(facts, "hw.cpufamily").and_then(|family| u32::try_from(family).ok());
    let chip = cpufamily.and_then(by_family);
    let id = cpufamily.map_or(CpuId::Unknown, |cpufamily| CpuId::AppleFamily { cpufamily });
    let name = facts.sysctl("machdep.cpu.brand_string").map(|name| text::clean(&name));
    let levels = text::sysctl_number(facts, "hw.nperflevels").unwrap_or(1).clamp(1, 2);
    let cpus = if levels == 1 { around.online.clone() } else { CpuSet::default() };
    let counters = if around.virtualised { GUEST_COUNTERS } else { COUNTERS };
    let names = chip.map(|chip| [chip.performance, chip.efficiency]);
    let core_types = (0..levels as usize).map(|level| {
        let id = chip.map(|chip| chip.id.to_owned());
        core_type(id, names.map(|names| names[level]), cpus.clone(), pmu_facts(chip, counters))
    });
    DetectedCpu { core_types: core_types.collect(), cpu: MachineCpu { vendor: Vendor::Apple, id, name } }
}

/// The core type with that part number, on Linux.
pub(crate) fn by_part(part: u32, cpus: CpuSet, around: &DetectionContext<'_>) -> CoreType {
    let known = PARTS.iter().find(|(parts, _)| parts.contains(&part));
    let chip = known.and_then(|(_, cpufamily)| by_family(*cpufamily));
    let is_performance = known.is_some_and(|(parts, _)| parts[1] == part);
    let name = chip.map(|chip| if is_performance { chip.performance } else { chip.efficiency });
    let pmu = match around.virtualised {
        // A Linux guest on a Mac shows Apple's MIDR but gets none of Apple's registers.
        true => no_counters("Apple's registers are not passed on to guests"),
        false => pmu_facts(chip, COUNTERS),
    };
    core_type(chip.map(|chip| chip.id.to_owned()), name, cpus, pmu)
}

fn pmu_facts(chip: Option<&AppleChip>, counters: CounterMask) -> PmuFacts {
    match chip {
        None => no_counters("not known for this chip"),
        Some(chip) => PmuFacts {
            version: None,
            counters,
            counter_width_bits: chip.width_bits,
            implemented: None,
            source: "table of Apple's chips".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_belongs_to_a_known_chip_and_none_is_listed_twice() {
        for (i, (parts, cpufamily)) in PARTS.iter().enumerate() {
            assert!(by_family(*cpufamily).is_some(), "{cpufamily:#x}");
            assert!(!PARTS[i + 1..].iter().any(|(others, _)| others.iter().any(|part| parts.contains(part))));
        }
        for (i, chip) in CHIPS.iter().enumerate() {
            assert!(!CHIPS[i + 1..].iter().any(|other| other.cpufamily == chip.cpufamily));
        }
    }

    #[test]
    fn there_are_ten_counters() {
        assert_eq!(COUNTERS.len(), 10);
    }
}
