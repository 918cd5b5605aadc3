//! `cargo xtask catalog --from DIR [FAMILY...]`: the tables of the catalogue from the vendors' files.
//!
//! `DIR` holds what was collected, one folder each: `events/intel` (the event folders of intel/perfmon with
//! its `mapfile.csv`), `events/amd`, `events/arm`, `events/riscv` (Linux's pmu-events folders and the
//! vendors' own files), `events/perf-generic` (the kernel's generic events by CPU), `apple`. Nothing of it is
//! needed to build, test or run: the tables are committed.

mod amd;
mod apple;
mod arm;
#[cfg(test)]
mod committed;
#[cfg(test)]
mod committed_arm;
#[cfg(test)]
mod converters;
mod csv;
pub(crate) mod docs;
mod generic;
mod intel;
mod metrics;
mod riscv;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use cyclometer_catalog::table::{CpuTable, text};
use cyclometer_core::pmu::Family;

/// Makes all tables of one family. Their order, and the order within them, is put right afterwards.
struct Converter {
    family: Family,
    tables: fn(from: &Path) -> Result<Vec<CpuTable>>,
}

const CONVERTERS: &[Converter] = &[
    Converter { family: Family::Intel, tables: intel::tables },
    Converter { family: Family::Amd, tables: amd::tables },
    Converter { family: Family::Arm, tables: arm::tables },
    Converter { family: Family::RiscV, tables: riscv::tables },
    Converter { family: Family::Apple, tables: apple::tables },
];

/// The word for the tables of metrics, beside those of the families.
const METRICS: &str = "metrics";

const USAGE: &str = "usage: cargo xtask catalog --from DIR [FAMILY... | metrics]";

/// Writes the tables of the families that are named, or of all.
pub(crate) fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let [option, from, families @ ..] = arguments.as_slice() else { bail!(USAGE) };
    ensure!(option == "--from", USAGE);
    for family in families {
        let known = family == METRICS || CONVERTERS.iter().any(|c| c.family.word() == family);
        ensure!(known, "no converter for '{family}'\n{USAGE}");
    }
    let wanted = |c: &&Converter| families.is_empty() || families.iter().any(|f| f == c.family.word());
    for converter in CONVERTERS.iter().filter(wanted) {
        let word = converter.family.word();
        let tables = (converter.tables)(Path::new(from)).with_context(|| word.to_owned())?;
        write_family(&data(root).join(word), converter.family, tables)?;
    }
    if families.is_empty() || families.iter().any(|family| family == METRICS) {
        metrics::write(root, Path::new(from)).context(METRICS)?;
    }
    Ok(())
}

/// The folder of the catalogue's tables.
fn data(root: &Path) -> PathBuf {
    root.join("crates/catalog/data")
}

/// Writes the tables of a family in place of those that are there. Equal files stay untouched.
fn write_family(folder: &Path, family: Family, tables: Vec<CpuTable>) -> Result<()> {
    ensure!(!tables.is_empty(), "no tables for {}", family.word());
    let mut files = BTreeMap::new();
    for table in tables {
        let table = tidied(table)?;
        ensure!(table.header.family == family, "{} is no {} table", table.header.cpu, family.word());
        let twice = files.insert(folder.join(&table.header.cpu), written(&table)?);
        ensure!(twice.is_none(), "{} is there twice", table.header.cpu);
    }
    for path in files_below(folder)?.into_iter().filter(|path| !files.contains_key(path)) {
        fs::remove_file(&path).with_context(|| path.display().to_string())?;
    }
    for (path, text) in &files {
        write_if_changed(path, text).with_context(|| path.display().to_string())?;
    }
    let bytes: usize = files.values().map(String::len).sum();
    eprintln!("{}: {} tables, {bytes} bytes", family.word(), files.len());
    Ok(())
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    Ok(fs::write(path, text)?)
}

/// Every file below a folder, in order; none where there is no folder.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        match path.is_dir() {
            true => files.extend(files_below(&path)?),
            false => files.push(path),
        }
    }
    files.sort();
    Ok(files)
}

/// The table sorted by name, without the vendor's words.
fn tidied(mut table: CpuTable) -> Result<CpuTable> {
    ensure!(!table.header.sources.is_empty(), "{} names no source", table.header.cpu);
    ensure!(!table.header.licence.is_empty(), "{} names no licence", table.header.cpu);
    table.events.iter_mut().for_each(|event| event.about.clear());
    table.events.sort_by(|a, b| a.name.cmp(&b.name));
    table.generic.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(table)
}

/// The table as text that reads back.
fn written(table: &CpuTable) -> Result<String> {
    let written = text::write(table);
    let read = text::read(&written).with_context(|| table.header.cpu.clone())?;
    ensure!(read == *table, "{} does not read back as it was written", table.header.cpu);
    Ok(written)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

/// The commit that a folder's README names: its first word of 40 hexadecimal digits.
fn commit(readme: &str) -> Result<String> {
    let mut words = readme.split(|c: char| !c.is_ascii_alphanumeric());
    let commit = words.find(|word| word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit()));
    Ok(commit.context("the README names no commit")?.to_owned())
}

/// The kernel's version that a folder's README names: what first follows the word `Linux` and is one.
fn kernel_version(readme: &str) -> Result<String> {
    let words: Vec<&str> = readme.split_whitespace().collect();
    let version =
        words.windows(2).filter(|pair| pair[0] == "Linux").map(|pair| pair[1].trim_end_matches([',', '.']));
    let mut numbers = version.filter(|word| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
    Ok(numbers.next().context("the README names no version of Linux")?.to_owned())
}

#[cfg(test)]
mod tests {
    use cyclometer_catalog::table::{Header, TableEvent};

    use super::*;

    fn table(cpu: &str, names: &[&str]) -> CpuTable {
        let event = |name: &&str| TableEvent {
            name: (*name).to_owned(),
            about: "somebody's words".to_owned(),
            ..TableEvent::default()
        };
        let header = Header {
            cpu: cpu.to_owned(),
            sources: vec!["a book".to_owned()],
            licence: "free".to_owned(),
            ..Header::default()
        };
        CpuTable { header, events: names.iter().map(event).collect(), generic: Vec::new() }
    }

    fn written_to(folder: &Path, tables: Vec<CpuTable>) -> Vec<String> {
        write_family(folder, Family::Intel, tables).unwrap();
        let files = files_below(folder).unwrap();
        files.iter().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
    }

    #[test]
    fn tables_replace_those_that_are_there_and_hold_no_sentence() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(written_to(folder.path(), vec![table("old", &["A"])]), ["old"]);
        let tables = vec![table("new/core", &["B", "A"]), table("new/atom", &[])];
        assert_eq!(written_to(folder.path(), tables), ["new/atom", "new/core"]);
        let text = fs::read_to_string(folder.path().join("new/core")).unwrap();
        assert!(text.ends_with("[events]\nA\nB\n"), "{text}");
    }

    #[test]
    fn a_table_without_source_or_licence_or_twice_is_refused() {
        let refused = |tables: Vec<CpuTable>| {
            let folder = tempfile::tempdir().unwrap();
            write_family(folder.path(), Family::Intel, tables).unwrap_err().to_string()
        };
        let mut no_source = table("a", &[]);
        no_source.header.sources.clear();
        assert_eq!(refused(vec![no_source]), "a names no source");
        let mut no_licence = table("a", &[]);
        no_licence.header.licence.clear();
        assert_eq!(refused(vec![no_licence]), "a names no licence");
        assert_eq!(refused(vec![table("a", &[]), table("a", &["B"])]), "a is there twice");
        assert_eq!(refused(vec![]), "no tables for intel");
        assert_eq!(refused(vec![table("a", &["B", "b"])]), "a");
    }

    #[test]
    fn a_readme_names_a_commit_and_a_kernel() {
        let hash = "6dadedf3aa483393943e044ba5ec88a4507cd040";
        assert_eq!(commit(&format!("main, commit {hash}\n(2026)")).unwrap(), hash);
        assert!(commit("commit 6dadedf3").is_err());
        assert_eq!(kernel_version("Source: Linux tools, Linux 7.2.8, tools/perf").unwrap(), "7.2.8");
        assert!(kernel_version("Linux").is_err());
    }
}
