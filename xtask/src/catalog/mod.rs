//! `cargo xtask catalog --from DIR [FAMILY...]`: the tables of the catalogue from the vendors' files.
//!
//! `DIR` holds what was collected, one folder each: `events/intel` (the event folders of intel/perfmon with its
//! `mapfile.csv`), `events/amd`, `events/arm`, `events/riscv` (Linux's pmu-events folders and the vendors' own files),
//! `events/perf-generic` (the kernel's generic events by CPU), `apple`. Nothing of it is needed to build, test or run:
//! the tables are committed.

mod amd;
mod apple;
mod arm;
mod csv;
mod generic;
mod intel;
mod riscv;

use std::collections::BTreeSet;
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

const USAGE: &str = "usage: cargo xtask catalog --from DIR [FAMILY...]";

/// Writes the tables of the families that are named, or of all.
pub(crate) fn run(root: &Path, arguments: impl Iterator<Item = String>) -> Result<()> {
    let arguments: Vec<String> = arguments.collect();
    let [option, from, families @ ..] = arguments.as_slice() else { bail!(USAGE) };
    ensure!(option == "--from", USAGE);
    for family in families {
        ensure!(CONVERTERS.iter().any(|c| c.family.word() == family), "no converter for '{family}'\n{USAGE}");
    }
    let wanted = |c: &&Converter| families.is_empty() || families.iter().any(|f| f == c.family.word());
    for converter in CONVERTERS.iter().filter(wanted) {
        let word = converter.family.word();
        let tables = (converter.tables)(Path::new(from)).with_context(|| word.to_owned())?;
        write_family(&data(root).join(word), converter.family, tables)?;
    }
    Ok(())
}

/// The folder of the catalogue's tables.
fn data(root: &Path) -> PathBuf {
    root.join("crates/catalog/data")
}

/// Writes the tables of a family in place of those that are there.
fn write_family(folder: &Path, family: Family, tables: Vec<CpuTable>) -> Result<()> {
    ensure!(!tables.is_empty(), "no tables for {}", family.word());
    let mut files = BTreeSet::new();
    for table in tables {
        let table = tidied(table)?;
        ensure!(table.header.family == family, "{} is no {} table", table.header.cpu, family.word());
        ensure!(files.insert((table.header.cpu.clone(), written(&table)?)), "{} twice", table.header.cpu);
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for (cpu, text) in &files {
        let path = folder.join(cpu);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    let bytes: usize = files.iter().map(|(_, text)| text.len()).sum();
    eprintln!("{}: {} tables, {bytes} bytes", family.word(), files.len());
    Ok(())
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
    use super::*;

    #[test]
    fn a_readme_names_a_commit_and_a_kernel() {
        let hash = "6dadedf3aa483393943e044ba5ec88a4507cd040";
        assert_eq!(commit(&format!("main, commit {hash}\n(2026)")).unwrap(), hash);
        assert!(commit("commit 6dadedf3").is_err());
        assert_eq!(kernel_version("Source: Linux tools, Linux 7.2.8, tools/perf").unwrap(), "7.2.8");
        assert!(kernel_version("Linux").is_err());
    }
}
