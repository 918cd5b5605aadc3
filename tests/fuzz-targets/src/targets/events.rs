//! Events, their tables, and what is computed from them.

use cyclometer_catalog::claims::ClaimTable;
use cyclometer_catalog::cpus::cpu;
use cyclometer_catalog::encode::encode;
use cyclometer_catalog::table::blob::write;
use cyclometer_catalog::table::{Blob, text};
use cyclometer_core::Concept;
use cyclometer_core::syntax::parse_events;
use cyclometer_import::read_file;
use cyclometer_semantics::{Activity, ActivityProgress, Semantics};
use cyclometer_stats::formula::{Formula, Inputs};

use super::choice;

/// One CPU of each layout.
const CPUS: [&str; 6] =
    ["skylake", "pantherlake/core", "amdzen5", "neoverse-n1", "sifive-bullet", "apple-m4"];

/// The most events of a list that are encoded: a list may have thousands of one event.
const MOST_ENCODED: usize = 40;

/// A list in the grammar of event lists, which begins with a byte for the CPU.
pub(super) fn event_list(bytes: &[u8]) {
    let Some((which, list)) = choice(bytes) else { return };
    let Ok(list) = std::str::from_utf8(list) else { return };
    let (Ok(requests), Ok(cpu)) = (parse_events(list), cpu(CPUS[which % CPUS.len()])) else { return };
    for request in requests.iter().take(MOST_ENCODED) {
        if let Ok(encodings) = encode(cpu, request, None) {
            assert!(!encodings.is_empty());
        }
    }
}

/// A table is written so that it reads back the same, and survives the conversion to bytes and back.
pub(super) fn table(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let Ok(table) = text::read(input) else { return };
    assert_eq!(text::read(&text::write(&table)).as_ref(), Ok(&table));
    let Ok(bytes) = write(std::slice::from_ref(&table)) else { return };
    let Some(blob) = Blob::new(&bytes) else { panic!("what was written is no blob") };
    let Some(cpu) = blob.cpus().next() else { panic!("the CPU is missing") };
    for event in &table.events {
        assert_eq!(cpu.event(&event.name).map(|found| found.code()), Some(event.code));
    }
}

/// A table or an error.
pub(super) fn perfmon(bytes: &[u8]) {
    let _ = read_file(bytes, "file", Some("pantherlake/core"));
    let _ = read_file(bytes, "file", None);
}

/// A table or an error, for a CPU that the first byte chooses.
pub(super) fn pmu_events(bytes: &[u8]) {
    let Some((which, file)) = choice(bytes) else { return };
    let _ = read_file(file, "file", Some(["amdzen4", "neoverse-n1", "riscv", "skylake"][which % 4]));
    let _ = read_file(file, "file", None);
}

/// A table or an error.
pub(super) fn kpep(bytes: &[u8]) {
    let _ = read_file(bytes, "file", Some("apple-m1"));
    let _ = read_file(bytes, "file", None);
}

/// One value for every name; a name of odd length has none.
struct AnyInput(f64);

impl Inputs for AnyInput {
    fn value(&self, name: &str) -> Result<f64, String> {
        if name.len().is_multiple_of(2) { Ok(self.0) } else { Err("not counted".to_owned()) }
    }

    fn literal(&self, _: &str) -> Option<f64> {
        Some(self.0)
    }

    fn is_cpu(&self, id: &str) -> Option<bool> {
        id.len().is_multiple_of(2).then_some(true)
    }
}

/// A finite number or a reason; the first eight bytes are the value of all names.
pub(super) fn formula(bytes: &[u8]) {
    let Some((value, text)) = bytes.split_first_chunk::<8>() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(formula) = Formula::parse(text) else { return };
    if let Ok(result) = formula.evaluate(&AnyInput(f64::from_le_bytes(*value))) {
        assert!(result.is_finite());
    }
}

/// A table reads back the same, and each of its meanings counts the same in two parts as in one.
pub(super) fn semantics(bytes: &[u8]) {
    let Ok(semantics) = Semantics::parse(bytes) else { return };
    assert_eq!(Semantics::parse(semantics.to_text().as_bytes()).as_ref(), Ok(&semantics));
    let activity = Activity::of_iteration(
        7,
        &[(Concept::Instructions, 20.0), (Concept::Loads, 2.5), (Concept::Mispredicts, 0.125)],
    );
    for row in semantics.rows() {
        let (mut progress, meaning) = (ActivityProgress::default(), row.meaning);
        let whole = meaning.counted(&progress, &activity, 1000);
        let first = meaning.counted(&progress, &activity, 333);
        progress.advance(&activity, 333);
        assert_eq!(first + meaning.counted(&progress, &activity, 667), whole);
    }
}

/// A table of claims or an error.
pub(super) fn claims(bytes: &[u8]) {
    let Ok(table) = ClaimTable::parse("file", bytes) else { return };
    for claim in &table.claims {
        assert!(table.about(claim.code).is_some());
    }
}
