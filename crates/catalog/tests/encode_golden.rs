//! Encodings of events on CPUs of every vendor: perf's words, the counters, the register writes.
//!
//! A file below `tests/golden/encode` has the name of the CPU, with `-` for `/`. A line without indentation
//! is an event as a user writes it; the indented lines after it are its encoding. Lines with `#` are
//! comments. `UPDATE_GOLDEN=1 cargo test -p cyclometer-catalog --test main encode_golden` rewrites the
//! indented lines; to add an event, add its line.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use cyclometer_catalog::cpus::cpus;
use cyclometer_catalog::encode::{EventEncoding, encode};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::pmu::Family;
use cyclometer_core::syntax::parse_event;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/encode")
}

/// The golden file of a CPU, if it has one.
fn golden(cpu: &Cpu<'_>) -> Option<(PathBuf, String)> {
    let path = folder().join(format!("{}.txt", cpu.id().replace('/', "-")));
    let text = fs::read_to_string(&path).ok()?;
    Some((path, text))
}

/// The file with all indented lines rewritten.
fn written(cpu: Cpu<'_>, old: &str) -> String {
    let mut text = String::new();
    for line in old.lines().filter(|line| !line.starts_with(' ')) {
        writeln!(text, "{line}").unwrap();
        if !line.is_empty() && !line.starts_with('#') {
            text += &shown(cpu, line);
        }
    }
    text
}

fn shown(cpu: Cpu<'_>, event: &str) -> String {
    match parse_event(event).and_then(|request| encode(cpu, &request, None)) {
        Ok(encodings) => encodings.iter().map(block).collect(),
        Err(error) => format!("    refused: {error}\n    help: {}\n", error.recovery()),
    }
}

fn block(encoding: &EventEncoding<'_>) -> String {
    let mut text = String::new();
    let name = &encoding.selected.name;
    match &encoding.perf {
        Ok(words) => {
            write!(text, "    {name}: config {:#x}", words.config).unwrap();
            let others = [("config1", words.config1), ("config2", words.config2)];
            for (word, value) in others.into_iter().filter(|(_, value)| *value != 0) {
                write!(text, ", {word} {value:#x}").unwrap();
            }
            text.push('\n');
        }
        Err(error) => writeln!(text, "    {name}: {error}").unwrap(),
    }
    match encoding.counters.is_empty() {
        true => text.push_str("    counters: not known\n"),
        false => writeln!(text, "    counters: {}", encoding.counters).unwrap(),
    }
    match &encoding.registers {
        Ok(writes) => {
            for write in writes {
                let (name, address, value) = (write.name(), write.address, write.value);
                writeln!(text, "    {name} {address} = {value:#x} (mask {:#x})", write.mask).unwrap();
            }
        }
        Err(error) => writeln!(text, "    registers: {error}").unwrap(),
    }
    for note in &encoding.selected.notes {
        writeln!(text, "    note: {note}").unwrap();
    }
    text
}

/// The first line in which two texts differ.
fn difference(old: &str, new: &str) -> String {
    let lines = old.lines().map(Some).chain(std::iter::repeat(None));
    let other = new.lines().map(Some).chain(std::iter::repeat(None));
    let longest = old.lines().count().max(new.lines().count());
    let first = lines.zip(other).take(longest).enumerate().find(|(_, (a, b))| a != b);
    first.map_or_else(
        || "line ends differ".to_owned(),
        |(i, (a, b))| {
            format!("line {}: expected {:?}, got {:?}", i + 1, a.unwrap_or("(end)"), b.unwrap_or("(end)"))
        },
    )
}

#[test]
fn events_become_the_words_and_registers_that_are_written_down() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for cpu in cpus() {
        let Some((path, old)) = golden(&cpu) else { continue };
        let new = written(cpu, &old);
        if update {
            fs::write(&path, &new).unwrap();
        } else if old != new {
            wrong.push(format!("{}: {}", path.display(), difference(&old, &new)));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE_GOLDEN=1 accepts what was found", wrong.join("\n"));
}

#[test]
fn every_golden_file_is_that_of_a_cpu_and_every_family_has_three() {
    let goldens = |family: Family| {
        cpus().filter(|cpu| cpu.family() == family).filter(|cpu| golden(cpu).is_some()).count()
    };
    let files = fs::read_dir(folder()).unwrap().count();
    let counts = Family::ALL.map(goldens);
    assert_eq!(files, counts.iter().sum::<usize>(), "a file that is named as no CPU");
    for (family, count) in Family::ALL.into_iter().zip(counts) {
        assert!(count >= 3, "{}: {count}", family.word());
    }
}
/// Each generic name of the kernel means its own line of the table, and never another one that would fit.
///
/// RISC-V is excluded: its table has codes of the firmware interface, which are no raw words.
#[test]
fn a_generic_event_is_what_the_table_says_of_its_name() {
    let mut wrong = Vec::new();
    for cpu in cpus().filter(|cpu| cpu.family() != Family::RiscV) {
        for generic in cpu.generic() {
            let found = encode(cpu, &parse_event(&generic.name).unwrap(), None).unwrap();
            let words = found[0].perf.as_ref().map(|words| (words.config, words.config1));
            if words != Ok((generic.config, generic.config1)) {
                wrong.push(format!("{} {}: {words:x?}, not {:#x}", cpu.id(), generic.name, generic.config));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
