//! The embedded tables: their size, and a table for every CPU that detection names.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use std::collections::BTreeSet;
use std::path::Path;

use cyclometer_catalog::cpus::{cpu, cpus, tables};
use cyclometer_catalog::select::select;
use cyclometer_core::syntax::parse_event;

/// Most bytes that all tables together may have.
const MOST_BYTES: usize = 3_000_000;

#[test]
fn all_tables_together_are_small() {
    let bytes = tables().len();
    assert!(bytes < MOST_BYTES, "{bytes}");
    assert!(cpus().len() > 100 && cpus().flat_map(|cpu| cpu.events()).count() > 25_000, "tables are missing");
}

/// Events are typed in the vendor's spelling. No grammar reads that of Cascade Lake's offcore responses, so
/// perf's is used.
#[test]
fn every_event_of_every_cpu_can_be_typed() {
    let mut wrong = Vec::new();
    for cpu in cpus() {
        for entry in cpu.events() {
            let typed = entry.name().replace(":request=", ".").replace(":response=", ".");
            let found = parse_event(&typed).and_then(|request| select(cpu, &request));
            let names: Vec<String> =
                found.map(|found| found.into_iter().map(|one| one.name).collect()).unwrap_or_default();
            if names != [entry.name()] {
                wrong.push(format!("{} {typed}: {names:?}", cpu.id()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} events, among them {:#?}", wrong.len(), &wrong[..wrong.len().min(10)]);
}

/// A source file of detection, without its tests.
fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../detect/src").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.split("#[cfg(test)]").next().unwrap().to_owned()
}

/// The texts between quotation marks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// The text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    text.split_once(from).unwrap().1.split_once(to).unwrap().0
}

/// The ids of Intel's generations, those of hybrids by core type.
fn intel() -> Vec<String> {
    let text = source("intel.rs");
    let rows = between(&text, "const GENERATIONS", "\n];").replace("Generation {", "generation(");
    let mut ids = Vec::new();
    for row in rows.split("generation(").skip(1) {
        let id = quoted(row).next().unwrap();
        let kinds = [("core(", "/core"), ("atom(", "/atom"), ("low_power(", "/lowpower"), ("only(", "")];
        let before = ids.len();
        for (_, suffix) in kinds
            .iter()
            .filter(|(kind, _)| row.contains(&format!("[{kind}")) || row.contains(&format!(" {kind}")))
        {
            ids.push(format!("{id}{suffix}"));
        }
        assert!(ids.len() > before, "no core types in {row}");
    }
    ids
}

fn ids(file: &str, from: &str, is_id: impl Fn(&str) -> bool) -> Vec<String> {
    let text = source(file);
    let rows = text.split_once(from).unwrap().1;
    quoted(rows).filter(|word| is_id(word)).map(str::to_owned).collect()
}

/// The ids of Arm's cores: those in `Some`, since a core without an event file has none.
fn arm() -> Vec<String> {
    let text = source("arm.rs");
    let rows = between(&text, "const CORES", "\n];");
    rows.split("Some(\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

/// The ids of RISC-V cores: the text behind the two patterns.
fn riscv() -> Vec<String> {
    let text = source("riscv.rs");
    let rows = between(&text, "const CORES", "\n];");
    let row = |row: &str| quoted(row).nth(2).map(str::to_owned);
    rows.lines().filter_map(row).collect()
}

#[test]
fn every_cpu_that_detection_can_name_has_a_table() {
    let amd = ids("amd.rs", "fn identify", |word| word.starts_with("amdzen"));
    let apple = ids("apple.rs", "const CHIPS", |word| word.starts_with("apple-"));
    let named: [(Vec<String>, usize); 5] = [(intel(), 48), (amd, 6), (arm(), 45), (riscv(), 9), (apple, 5)];
    for (ids, least) in named {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        assert!(ids.len() >= least, "only {ids:?}");
        for id in ids {
            assert!(cpu(&id).is_ok(), "no table for {id}");
        }
    }
}
