//! Intel's tables from the files of intel/perfmon.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cyclometer_catalog::table::{CpuTable, Header};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};
use cyclometer_import::intel::{self, PerfmonFile, map};

use super::generic::{self, GenericFiles};
use super::{commit, kernel_version, read};

mod cores;

use cores::{CORES, CoreTable};

/// Makes the tables.
pub(super) fn tables(from: &Path) -> Result<Vec<CpuTable>> {
    let folder = from.join("events/intel");
    let origin = SourceVersions {
        commit: commit(&read(&folder.join("README.md"))?)?,
        kernel: kernel_version(&read(&from.join("events/perf-generic/README.md"))?)?,
    };
    let rows = map::rows(&read(&folder.join("mapfile.csv"))?).context("mapfile.csv")?;
    let rows: Vec<map::MapRow> =
        rows.into_iter().filter(|row| row.kind == "core" || row.kind == "hybridcore").collect();
    every_file_has_a_core(&rows)?;
    let files = GenericFiles::read(&from.join("events/perf-generic"))?;
    CORES.iter().map(|core| table(core, &folder, &rows, &origin, &files)).collect()
}

/// Versions of what the tables are made from.
struct SourceVersions {
    commit: String,
    kernel: String,
}

/// A file that the vendor added must not be left out without a word.
fn every_file_has_a_core(rows: &[map::MapRow]) -> Result<()> {
    let of_core = |row: &map::MapRow| CORES.iter().any(|core| core.has(row));
    let missing: BTreeSet<&str> =
        rows.iter().filter(|row| !of_core(row)).map(|row| row.file.as_str()).collect();
    ensure!(missing.is_empty(), "mapfile.csv names files that no core in cores.rs has: {missing:?}");
    Ok(())
}

fn table(
    core: &CoreTable,
    folder: &Path,
    rows: &[map::MapRow],
    origin: &SourceVersions,
    files: &GenericFiles,
) -> Result<CpuTable> {
    let matches: Vec<String> = rows.iter().filter(|row| core.has(row)).map(map::MapRow::pattern).collect();
    ensure!(!matches.is_empty(), "mapfile.csv has no row for {}", core.id);
    let path = folder.join(core.file);
    let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    let file = intel::file(&bytes, None).with_context(|| path.display().to_string())?;
    let generic = files.of(core.generic, core.generic)?;
    Ok(CpuTable { header: header(core, matches, &file, origin), events: file.events, generic })
}

fn header(core: &CoreTable, matches: Vec<String>, file: &PerfmonFile, origin: &SourceVersions) -> Header {
    let pmu = core.pmu;
    Header {
        cpu: core.id.to_owned(),
        title: core.title.to_owned(),
        family: Family::Intel,
        matches,
        pmu_version: Some(pmu.version),
        selector_bits: Some(8),
        counter_width: Some(CounterWidth::carrying(pmu.width_bits)),
        counters: CounterMask::from_bits(pmu.general, pmu.fixed),
        version: file.version.clone(),
        date: file.date.clone(),
        sources: vec![
            format!("https://github.com/intel/perfmon {} {}", origin.commit, core.file),
            generic::source(&origin.kernel, "intel"),
        ],
        licence: "BSD-3-Clause".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_map_that_no_core_has_is_an_error() {
        let rows = map::rows("header\nGenuineIntel-6-FF,V1,/XYZ/events/xyz_core.json,core,,,").unwrap();
        let error = every_file_has_a_core(&rows).unwrap_err().to_string();
        assert!(error.contains("XYZ/events/xyz_core.json"), "{error}");
    }

    #[test]
    fn the_same_file_can_be_of_a_hybrid_and_of_a_cpu_with_one_core_type() {
        let file = "/ADL/events/alderlake_gracemont_core.json";
        let rows = map::rows(&format!(
            "header\nGenuineIntel-6-97,V1,{file},hybridcore,0x20,0x1,Atom\nGenuineIntel-6-BE,V1,{file},core,,,"
        ))
        .unwrap();
        let ids = |row| -> Vec<&str> { CORES.iter().filter(|c| c.has(row)).map(|c| c.id).collect() };
        assert_eq!(ids(&rows[0]), ["alderlake/atom"]);
        assert_eq!(ids(&rows[1]), ["alderlaken"]);
    }

    #[test]
    fn ids_are_unique() {
        let ids: BTreeSet<&str> = CORES.iter().map(|core| core.id).collect();
        assert_eq!(ids.len(), CORES.len());
    }
}
