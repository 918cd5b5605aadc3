//! RISC-V: cores by the three machine ids.

use cyclometer_core::machine::{CoreType, CpuId, MachineCpu, Vendor};

use crate::detected::{self, DetectedCpu, DetectionContext, core_type, no_counters};
use crate::facts::FactSource;
use crate::text;

/// The three machine ids of a hart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ids {
    mvendorid: u64,
    marchid: u64,
    mimpid: u64,
}

/// JEDEC vendor codes as `mvendorid` holds them.
///
/// # Source
///
/// Linux 7.2 `arch/riscv/include/asm/vendorid_list.h`; StarFive and OpenHW:
/// `tools/perf/pmu-events/arch/riscv/mapfile.csv`.
const VENDORS: [(u64, &str); 6] = [
    (0x31e, "Andes"),
    (0x489, "SiFive"),
    (0x5b7, "T-Head"),
    (0x602, "OpenHW"),
    (0x67e, "StarFive"),
    (0x710, "SpacemiT"),
];

/// `mvendorid`, patterns of `marchid` and `mimpid`, CPU id, name; the first that fits wins.
///
/// In a pattern `*` stands for one or more hexadecimal digits at the end, `[..]` for one digit of a set.
///
/// # Source
///
/// Linux 7.2 `tools/perf/pmu-events/arch/riscv/mapfile.csv`; the id is the folder with `-` for `/`.
const CORES: &[(u64, &str, &str, &str, &str)] = &[
    (0x489, "0x8000000000000007", "0x*", "sifive-bullet", "Bullet (U74 class)"),
    (0x489, "0x8000000000000[1-9a-e]07", "0x[78ac]*", "sifive-bullet-07", "Bullet (07)"),
    (0x489, "0x8000000000000[1-9a-e]07", "0xd*", "sifive-bullet-0d", "Bullet (0d)"),
    (0x489, "0x8000000000000008", "0x*", "sifive-p550", "P550"),
    (0x489, "0x8000000000000[1-6]08", "0x[9b]*", "sifive-p650", "P650"),
    (0x5b7, "0x0", "0x0", "thead-c900-legacy", "C9xx"),
    (0x5b7, "0x80000000090c0d00", "0x2047000", "thead-c900-legacy", "C9xx"),
    (0x602, "0x3", "0x0", "openhwgroup-cva6", "CVA6"),
    (0x67e, "0x80000000db0000[89]0", "0x*", "starfive-dubhe-80", "Dubhe 80"),
    (0x31e, "0x8000000000008a45", "0x*", "andes-ax45", "AX45"),
];

/// The CPU and its core types, by the ids of each hart in `/proc/cpuinfo`.
pub(crate) fn detect(facts: &dyn FactSource, around: &DetectionContext<'_>) -> DetectedCpu {
    let cpuinfo = facts.read("/proc/cpuinfo").unwrap_or_default();
    let groups = groups(&cpuinfo, around);
    let Some(ids) = groups.first().map(|(ids, _)| *ids) else { return detected::unknown(around) };
    let name = text::field(&cpuinfo, "uarch").map(text::clean).filter(|name| !name.is_empty());
    let Ids { mvendorid, marchid, mimpid } = ids;
    let cpu = MachineCpu { vendor: vendor(mvendorid), id: CpuId::RiscV { mvendorid, marchid, mimpid }, name };
    DetectedCpu { cpu, core_types: groups.into_iter().map(|(ids, cpus)| describe(ids, cpus)).collect() }
}

fn vendor(mvendorid: u64) -> Vendor {
    let known = VENDORS.iter().find(|(code, _)| *code == mvendorid);
    let unknown = || if mvendorid == 0 { "unknown".to_owned() } else { format!("mvendorid {mvendorid:#x}") };
    Vendor::Other(known.map_or_else(unknown, |(_, name)| (*name).to_owned()))
}

/// The online CPUs by their ids, in the order of their first CPU.
fn groups(cpuinfo: &str, around: &DetectionContext<'_>) -> Vec<(Ids, Vec<u32>)> {
    let mut groups: Vec<(Ids, Vec<u32>)> = Vec::new();
    for (cpu, block) in text::cpuinfo_blocks(cpuinfo) {
        let Some(ids) = ids(block).filter(|_| around.online.contains(cpu)) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == ids) {
            Some((_, cpus)) => cpus.push(cpu),
            None => groups.push((ids, vec![cpu])),
        }
    }
    groups
}

fn ids(block: &str) -> Option<Ids> {
    let number = |key| text::integer(text::field(block, key)?);
    Some(Ids { mvendorid: number("mvendorid")?, marchid: number("marchid")?, mimpid: number("mimpid")? })
}

fn describe(ids: Ids, cpus: Vec<u32>) -> CoreType {
    let core = CORES.iter().find(|(vendor, arch, implementation, ..)| {
        ids.mvendorid == *vendor
            && fits(arch, &format!("{:#x}", ids.marchid))
            && fits(implementation, &format!("{:#x}", ids.mimpid))
    });
    let id = core.map(|(_, _, _, id, _)| (*id).to_owned());
    let pmu = no_counters("only the firmware knows the counters");
    core_type(id, core.map(|(.., name)| *name), cpus.into_iter().collect(), pmu)
}

/// Whether a number in lower-case hexadecimal fits a pattern of [`CORES`].
fn fits(pattern: &str, number: &str) -> bool {
    let Some(first) = pattern.chars().next() else { return number.is_empty() };
    let (set, rest) = match pattern.strip_prefix('[').and_then(|tail| tail.split_once(']')) {
        Some((set, rest)) => (set, rest),
        None if first == '*' => return !number.is_empty() && number.chars().all(|c| c.is_ascii_hexdigit()),
        None => pattern.split_at(first.len_utf8()),
    };
    match number.chars().next() {
        Some(digit) if in_set(set, digit) => fits(rest, &number[digit.len_utf8()..]),
        _ => false,
    }
}

/// Whether a digit is in a set such as `1-9a-e` or `78ac`.
fn in_set(set: &str, digit: char) -> bool {
    let chars: Vec<char> = set.chars().collect();
    let ranges = chars.windows(3).filter(|w| w[1] == '-').any(|w| (w[0]..=w[2]).contains(&digit));
    ranges || (digit != '-' && chars.contains(&digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(mvendorid: u64, marchid: u64, mimpid: u64) -> Option<String> {
        describe(Ids { mvendorid, marchid, mimpid }, vec![0]).cpu_id
    }

    #[test]
    fn ids_follow_the_map_file() {
        let cases = [
            ((0x489, 0x8000_0000_0000_0007, 0x0421_0427), Some("sifive-bullet")),
            ((0x489, 0x8000_0000_0000_0107, 0x7000_0000), Some("sifive-bullet-07")),
            ((0x489, 0x8000_0000_0000_0e07, 0xd123), Some("sifive-bullet-0d")),
            ((0x489, 0x8000_0000_0000_0f07, 0xd123), None),
            ((0x489, 0x8000_0000_0000_0008, 0x0620_0307), Some("sifive-p550")),
            ((0x5b7, 0, 0), Some("thead-c900-legacy")),
            ((0x5b7, 0, 1), None),
            ((0x67e, 0x8000_0000_db00_0080, 1), Some("starfive-dubhe-80")),
            ((0x67e, 0x8000_0000_db00_00a0, 1), None),
            ((0, 0, 0), None),
        ];
        for ((vendor, arch, implementation), expected) in cases {
            assert_eq!(id(vendor, arch, implementation).as_deref(), expected, "{vendor:#x} {arch:#x}");
        }
    }

    #[test]
    fn patterns_fit_whole_numbers_only() {
        for (pattern, number, expected) in [
            ("0x*", "0x0", true),
            ("0x*", "0x", false),
            ("0x[78ac]*", "0x7", false),
            ("0x[78ac]*", "0xa1", true),
            ("0x3", "0x31", false),
            ("0x[1-3]", "0x2", true),
            ("0x[1-3]", "0x-", false),
        ] {
            assert_eq!(fits(pattern, number), expected, "{pattern} {number}");
        }
    }
}
