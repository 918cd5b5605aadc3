//! AMD's tables from the folders of Linux's pmu-events.
//!
//! Their `match` lines are the patterns of Linux's map, where the first that fits wins: of two generations of
//! one family the older names its models and the newer takes the rest.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cyclometer_catalog::table::{CpuTable, Header, TableEvent};
use cyclometer_core::CounterWidth;
use cyclometer_core::pmu::Family;
use cyclometer_import::amd;

use super::generic::{self, GenericFiles};
use super::{kernel_version, read};

/// One generation: its folder, and what the folder does not say.
struct ZenGeneration {
    id: &'static str,
    title: &'static str,
    /// 2 from PerfMonV2 on (`CPUID` 0x8000_0022), else 1.
    pmu_version: u32,
    /// Its line in the file of generic hardware events.
    generic: &'static str,
}

/// # Source
///
/// PerfMonV2: AMD APM volume 3, `CPUID` Fn8000_0022, and Linux `arch/x86/events/amd/core.c`: Zen 4 and later.
const GENERATIONS: &[ZenGeneration] = &[
    generation("amdzen1", "Zen, Zen+", 1, "amd-zen1"),
    generation("amdzen2", "Zen 2", 1, "amd-zen2-zen3"),
    generation("amdzen3", "Zen 3", 1, "amd-zen2-zen3"),
    generation("amdzen4", "Zen 4", 2, "amd-zen4-zen5-zen6"),
    generation("amdzen5", "Zen 5", 2, "amd-zen4-zen5-zen6"),
    generation("amdzen6", "Zen 6", 2, "amd-zen4-zen5-zen6"),
];

/// The Zen 1 of Hygon, which has no line in Linux's map.
const HYGON: &str = "HygonGenuine-24-[[:xdigit:]]+";

const fn generation(
    id: &'static str,
    title: &'static str,
    pmu_version: u32,
    generic: &'static str,
) -> ZenGeneration {
    ZenGeneration { id, title, pmu_version, generic }
}

/// Width of every counter in bits.
///
/// # Source
///
/// AMD APM volume 2, section "Performance Counter MSRs".
const WIDTH_BITS: u32 = 48;

/// Bits of the event select.
const SELECTOR_BITS: u32 = 12;

/// Makes the tables.
pub(super) fn tables(from: &Path) -> Result<Vec<CpuTable>> {
    let folder = from.join("events/amd");
    let kernel = kernel_version(&read(&folder.join("README.md"))?)?;
    let map = read(&folder.join("mapfile.csv"))?;
    let files = GenericFiles::read(&from.join("events/perf-generic"))?;
    GENERATIONS.iter().map(|generation| table(generation, &folder, &map, &kernel, &files)).collect()
}

fn table(
    generation: &ZenGeneration,
    folder: &Path,
    map: &str,
    kernel: &str,
    files: &GenericFiles,
) -> Result<CpuTable> {
    let rows: Vec<MapfileLine<'_>> =
        map.lines().filter_map(row).filter(|row| row.folder == generation.id).collect();
    let version = rows.first().with_context(|| format!("mapfile.csv has no {}", generation.id))?.version;
    let mut matches: Vec<String> = rows.iter().map(|row| row.pattern.to_owned()).collect();
    if generation.id == "amdzen1" {
        matches.push(HYGON.to_owned());
    }
    let header = Header {
        cpu: generation.id.to_owned(),
        title: generation.title.to_owned(),
        family: Family::Amd,
        matches,
        pmu_version: Some(generation.pmu_version),
        selector_bits: Some(SELECTOR_BITS),
        counter_width: Some(CounterWidth::carrying(WIDTH_BITS)),
        counters: amd::COUNTERS,
        version: version.trim_start_matches('v').to_owned(),
        date: String::new(),
        sources: vec![
            format!("Linux {kernel} tools/perf/pmu-events/arch/x86/{}", generation.id),
            generic::source(kernel, "amd"),
        ],
        licence: "GPL-2.0 (names and numbers only)".to_owned(),
    };
    let events = events(&folder.join(generation.id))?;
    Ok(CpuTable { header, events, generic: files.of(generation.generic, "amd-zen")? })
}

/// A line of `mapfile.csv`: `AuthenticAMD-23-[[:xdigit:]]+,v1,amdzen2,core`.
struct MapfileLine<'a> {
    pattern: &'a str,
    version: &'a str,
    folder: &'a str,
}

fn row(line: &str) -> Option<MapfileLine<'_>> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let [pattern, version, folder, "core", ..] = fields[..] else { return None };
    pattern.starts_with("AuthenticAMD-").then_some(MapfileLine { pattern, version, folder })
}

/// The core events of all files of a folder.
fn events(folder: &Path) -> Result<Vec<TableEvent>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut events: Vec<TableEvent> = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
        let bytes = fs::read(path).with_context(|| path.display().to_string())?;
        events.extend(amd::core_events(&bytes).with_context(|| path.display().to_string())?);
    }
    ensure!(!events.is_empty(), "{} has no events", folder.display());
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_line_of_a_core_has_pattern_version_and_folder() {
        let row = row("AuthenticAMD-25-[[:xdigit:]]+,v1,amdzen4,core").unwrap();
        assert_eq!(
            (row.pattern, row.version, row.folder),
            ("AuthenticAMD-25-[[:xdigit:]]+", "v1", "amdzen4")
        );
    }

    #[test]
    fn other_lines_of_the_map_are_no_cores() {
        for line in ["Family-model,Version,Filename,EventType", "GenuineIntel-6-97,v1,alderlake,core", ""] {
            assert!(row(line).is_none(), "{line}");
        }
    }
}
