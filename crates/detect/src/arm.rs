//! Arm on Linux: core types by MIDR.

use cyclometer_core::machine::{CoreType, CpuId, MachineCpu, PmuFacts, Vendor};
use cyclometer_core::{CounterMask, CpuSet};

use crate::detected::{self, DetectedCpu, DetectionContext, core_type, no_counters};
use crate::facts::FactSource;
use crate::{apple, text};

/// Implementer codes of MIDR_EL1, bits 31 to 24.
///
/// # Source
///
/// Arm ARM, MIDR_EL1, "Implementer"; those missing there: Linux 7.2 `arch/arm64/include/asm/cputype.h`.
const IMPLEMENTERS: [(u32, &str); 14] = [
    (0x41, "Arm"),
    (0x42, "Broadcom"),
    (0x43, "Cavium"),
    (0x46, "Fujitsu"),
    (0x48, "HiSilicon"),
    (0x4e, "NVIDIA"),
    (0x50, "Applied Micro"),
    (0x51, "Qualcomm"),
    (0x53, "Samsung"),
    (0x56, "Marvell"),
    (0x61, "Apple"),
    (0x6d, "Microsoft"),
    (0x70, "Phytium"),
    (0xc0, "Ampere"),
];

/// A core: implementer, part number, CPU id, name.
type ArmCore = (u32, u32, Option<&'static str>, &'static str);

/// Cores by implementer and part number (MIDR_EL1 bits 15 to 4).
///
/// # Source
///
/// Arm's own: ARM-software/data `cpus.json`, 2025-01-17, and telemetry-solution, 2026-04-23 (C1). Others:
/// Linux 7.2 `tools/perf/pmu-events/arch/arm64/mapfile.csv` and `arch/arm64/include/asm/cputype.h`. Ids are
/// the core's name in the manner of perf's folders; a core without an event file has none.
const CORES: &[ArmCore] = &[
    (0x41, 0xd01, Some("cortex-a32"), "Cortex-A32"),
    (0x41, 0xd02, Some("cortex-a34"), "Cortex-A34"),
    (0x41, 0xd03, Some("cortex-a53"), "Cortex-A53"),
    (0x41, 0xd04, Some("cortex-a35"), "Cortex-A35"),
    (0x41, 0xd05, Some("cortex-a55"), "Cortex-A55"),
    (0x41, 0xd06, Some("cortex-a65"), "Cortex-A65"),
    (0x41, 0xd07, Some("cortex-a57"), "Cortex-A57"),
    (0x41, 0xd08, Some("cortex-a72"), "Cortex-A72"),
    (0x41, 0xd09, Some("cortex-a73"), "Cortex-A73"),
    (0x41, 0xd0a, Some("cortex-a75"), "Cortex-A75"),
    (0x41, 0xd0b, Some("cortex-a76"), "Cortex-A76"),
    (0x41, 0xd0c, Some("neoverse-n1"), "Neoverse N1"),
    (0x41, 0xd0d, Some("cortex-a77"), "Cortex-A77"),
    (0x41, 0xd0e, Some("cortex-a76ae"), "Cortex-A76AE"),
    (0x41, 0xd13, Some("cortex-r52"), "Cortex-R52"),
    (0x41, 0xd15, Some("cortex-r82"), "Cortex-R82"),
    (0x41, 0xd16, None, "Cortex-R52+"),
    (0x41, 0xd40, Some("neoverse-v1"), "Neoverse V1"),
    (0x41, 0xd41, Some("cortex-a78"), "Cortex-A78"),
    (0x41, 0xd42, None, "Cortex-A78AE"),
    (0x41, 0xd43, Some("cortex-a65ae"), "Cortex-A65AE"),
    (0x41, 0xd44, Some("cortex-x1"), "Cortex-X1"),
    (0x41, 0xd46, Some("cortex-a510"), "Cortex-A510"),
    (0x41, 0xd47, Some("cortex-a710"), "Cortex-A710"),
    (0x41, 0xd48, Some("cortex-x2"), "Cortex-X2"),
    (0x41, 0xd49, Some("neoverse-n2"), "Neoverse N2"),
    (0x41, 0xd4a, Some("neoverse-e1"), "Neoverse E1"),
    (0x41, 0xd4b, Some("cortex-a78c"), "Cortex-A78C"),
    (0x41, 0xd4c, Some("cortex-x1c"), "Cortex-X1C"),
    (0x41, 0xd4d, Some("cortex-a715"), "Cortex-A715"),
    (0x41, 0xd4e, Some("cortex-x3"), "Cortex-X3"),
    (0x41, 0xd4f, Some("neoverse-v2"), "Neoverse V2"),
    (0x41, 0xd80, Some("cortex-a520"), "Cortex-A520"),
    (0x41, 0xd81, Some("cortex-a720"), "Cortex-A720"),
    (0x41, 0xd82, Some("cortex-x4"), "Cortex-X4"),
    (0x41, 0xd83, Some("neoverse-v3ae"), "Neoverse V3AE"),
    (0x41, 0xd84, Some("neoverse-v3"), "Neoverse V3"),
    (0x41, 0xd88, None, "Cortex-A520AE"),
    (0x41, 0xd89, None, "Cortex-A720AE"),
    (0x41, 0xd8a, Some("c1-nano"), "C1-Nano"),
    (0x41, 0xd8b, Some("c1-pro"), "C1-Pro"),
    (0x41, 0xd8c, Some("c1-ultra"), "C1-Ultra"),
    (0x41, 0xd8e, Some("neoverse-n3"), "Neoverse N3"),
    (0x41, 0xd90, Some("c1-premium"), "C1-Premium"),
    (0x42, 0x100, Some("cortex-a53"), "Brahma B53"),
    (0x42, 0x516, Some("thunderx2"), "ThunderX2 (Vulcan)"),
    (0x43, 0x0af, Some("thunderx2"), "ThunderX2"),
    (0x46, 0x001, Some("a64fx"), "A64FX"),
    (0x46, 0x003, Some("monaka"), "MONAKA"),
    (0x48, 0xd01, Some("hip08"), "Kunpeng 920 (TSV110)"),
    (0x4e, 0x010, Some("t410"), "Olympus"),
    (0x50, 0x000, Some("emag"), "eMAG"),
    (0x6d, 0xd49, Some("neoverse-n2"), "Neoverse N2 (Azure Cobalt 100)"),
    (0xc0, 0xac3, Some("ampereone"), "AmpereOne"),
    (0xc0, 0xac4, Some("ampereonex"), "AmpereOneX"),
];

/// Parts of Arm's with exactly six event counters of 32 bits, by Arm's data.
///
/// # Source
///
/// ARM-software/data `pmu/*.json`, 2025-01-17, `counters` = 6; architectures Armv8.0 and Armv8.2 have
/// PMUv3 with 32-bit event counters (64 bits come with PMUv3p5, Armv8.5).
const SIX_COUNTERS: [u32; 15] =
    [0xd01, 0xd02, 0xd03, 0xd04, 0xd05, 0xd07, 0xd08, 0xd09, 0xd0a, 0xd0b, 0xd0c, 0xd0d, 0xd41, 0xd44, 0xd4a];

/// Number of the cycle counter among the fixed counters.
const CYCLE_COUNTER: u32 = 31;

/// MIDR_EL1 in its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Midr(u32);

impl Midr {
    fn implementer(self) -> u32 {
        self.0 >> 24
    }

    fn part(self) -> u32 {
        self.0 >> 4 & 0xfff
    }

    /// Without variant and revision: the same for all cores of one type.
    fn type_of_core(self) -> (u32, u32) {
        (self.implementer(), self.part())
    }
}

/// The CPU and its core types, by the id register of each CPU.
pub(crate) fn detect(facts: &dyn FactSource, around: &DetectionContext<'_>) -> DetectedCpu {
    let groups = groups(facts, around);
    let Some((first, _)) = groups.first() else { return detected::unknown(around) };
    let cpu = MachineCpu {
        vendor: vendor(first.implementer()),
        id: CpuId::Arm { midr: first.0 },
        name: name(facts),
    };
    let core_types = groups.into_iter().map(|(midr, cpus)| describe(midr, cpus, around)).collect();
    DetectedCpu { cpu, core_types }
}

fn vendor(implementer: u32) -> Vendor {
    match implementer {
        0x41 => Vendor::Arm,
        0x61 => Vendor::Apple,
        code => match IMPLEMENTERS.iter().find(|(known, _)| *known == code) {
            Some((_, name)) => Vendor::Other((*name).to_owned()),
            None => Vendor::Other(format!("implementer {code:#04x}")),
        },
    }
}

/// The firmware's name for the processor, if it has one.
fn name(facts: &dyn FactSource) -> Option<String> {
    let cpuinfo = facts.read("/proc/cpuinfo")?;
    let name = text::clean(text::field(&cpuinfo, "model name")?);
    (!name.is_empty()).then_some(name)
}

/// The online CPUs by type of core, in the order of their first CPU.
fn groups(facts: &dyn FactSource, around: &DetectionContext<'_>) -> Vec<(Midr, CpuSet)> {
    let cpuinfo = facts.read("/proc/cpuinfo").unwrap_or_default();
    let listed: Vec<(u32, Midr)> = text::cpuinfo_blocks(&cpuinfo)
        .filter_map(|(cpu, block)| Some((cpu, midr_of_block(block)?)))
        .collect();
    let of_cpu = |cpu: u32| {
        midr_register(facts, cpu).or_else(|| Some(listed.iter().find(|(listed, _)| *listed == cpu)?.1))
    };
    let mut groups: Vec<(Midr, Vec<u32>)> = Vec::new();
    for cpu in around.online.iter() {
        let Some(midr) = of_cpu(cpu) else { continue };
        match groups.iter_mut().find(|(known, _)| known.type_of_core() == midr.type_of_core()) {
            Some((_, cpus)) => cpus.push(cpu),
            None => groups.push((midr, vec![cpu])),
        }
    }
    groups.into_iter().map(|(midr, cpus)| (midr, cpus.into_iter().collect())).collect()
}

/// The register as the kernel shows it.
///
/// # Source
///
/// `Documentation/ABI/testing/sysfs-devices-system-cpu`, `regs/identification`.
fn midr_register(facts: &dyn FactSource, cpu: u32) -> Option<Midr> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1");
    let value = text::integer(&text::line(facts, &path)?)?;
    Some(Midr((value & 0xffff_ffff) as u32))
}

/// The register put together from a block of `/proc/cpuinfo`.
fn midr_of_block(block: &str) -> Option<Midr> {
    let number = |key| text::field(block, key).and_then(text::integer).and_then(|n| u32::try_from(n).ok());
    let (implementer, part) = (number("CPU implementer")? & 0xff, number("CPU part")? & 0xfff);
    let (variant, revision) =
        (number("CPU variant").unwrap_or(0) & 0xf, number("CPU revision").unwrap_or(0) & 0xf);
    Some(Midr(implementer << 24 | variant << 20 | 0xf << 16 | part << 4 | revision))
}

fn describe(midr: Midr, cpus: CpuSet, around: &DetectionContext<'_>) -> CoreType {
    let (implementer, part) = midr.type_of_core();
    if implementer == 0x61 {
        return apple::by_part(part, cpus, around);
    }
    let core = CORES.iter().find(|(known, number, ..)| (*known, *number) == (implementer, part));
    let id = core.and_then(|(_, _, id, _)| *id).map(str::to_owned);
    let pmu = pmu_facts(implementer, part, &cpus, around);
    core_type(id, core.map(|(.., name)| *name), cpus, pmu)
}

/// A PMUv3 hides its number of counters (PMCR_EL0.N) from user space, so it comes from Arm's data where that
/// names one number, and on bare metal only, because hypervisors give fewer.
fn pmu_facts(implementer: u32, part: u32, cpus: &CpuSet, around: &DetectionContext<'_>) -> PmuFacts {
    if !around.has_core_pmu(cpus) {
        return no_counters("no PMU in the kernel");
    }
    let published = implementer == 0x41 && SIX_COUNTERS.contains(&part) && !around.virtualised;
    let (general, width, source) = match published {
        true => (0b11_1111, Some(32), "Arm's published figure (PMCR_EL0.N cannot be read here)"),
        false => (0, None, "PMUv3: the number of counters cannot be read here"),
    };
    let counters = CounterMask::from_bits(general, 1 << CYCLE_COUNTER);
    PmuFacts {
        version: None,
        counters,
        counter_width_bits: width,
        implemented: None,
        source: source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_cpuinfo_gives_the_register() {
        let block = "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n";
        assert_eq!(midr_of_block(block), Some(Midr(0x413f_d0c1)));
        assert_eq!(midr_of_block("CPU part\t: 0xd0c\n"), None);
    }

    #[test]
    fn every_core_is_listed_once_under_a_known_implementer() {
        for (i, (implementer, part, ..)) in CORES.iter().enumerate() {
            assert!(IMPLEMENTERS.iter().any(|(code, _)| code == implementer), "{part:#x}");
            let twice = CORES[i + 1..].iter().any(|core| (core.0, core.1) == (*implementer, *part));
            assert!(!twice, "{implementer:#x} {part:#x}");
        }
        assert!(SIX_COUNTERS.iter().all(|part| CORES.iter().any(|core| (core.0, core.1) == (0x41, *part))));
    }
}
