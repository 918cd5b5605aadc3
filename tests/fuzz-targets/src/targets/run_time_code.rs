//! Files in which programs name code that they made while they ran.

use std::path::PathBuf;

use cyclometer_core::SlotId;
use cyclometer_core::code::{CodeCall, CodeCounts, CodeObject, CodePlace, ProcessMemory};
use cyclometer_symbols::{CodeFiles, CountsByCode, Grouping, NameFile, group};

/// The first bytes of a jitdump: `JiTD`, in the byte order of x86-64.
const DUMP_MAGIC: [u8; 4] = 0x4a69_5444_u32.to_le_bytes();

/// A file that names the code of every process.
struct OneNameFile<'a>(&'a [u8]);

impl CodeFiles for OneNameFile<'_> {
    fn counted_file(&self, _object: &CodeObject) -> Option<PathBuf> {
        None
    }

    fn name_files(&self, _memory: ProcessMemory) -> Vec<NameFile> {
        vec![NameFile { path: "/tmp/perf-1.map".to_owned(), content: Ok(self.0.to_vec()) }]
    }
}

/// Counts of one at every 8 bytes around the code of the corpus, and at the ends of memory.
fn counts() -> CodeCounts {
    let pages = [0, 0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x7f10_a000_0000, 0x7fff_ffff_0000];
    let offsets = pages.iter().flat_map(|page| (0..0x300).step_by(8).map(move |offset| page + offset));
    let offsets: Vec<u64> = offsets.chain([u64::MAX - 0x100, u64::MAX - 1, u64::MAX]).collect();
    let place = |offset: u64| CodePlace { object: Some(0), offset, owner: None, counts: [1].into() };
    let call =
        |offset: u64| CodeCall { object: Some(0), offset, distance: Some(offset), owner: None, times: 1 };
    let memory = Some(ProcessMemory { pid: 1, since_ns: 0 });
    CodeCounts {
        slots: vec![SlotId(0)],
        objects: vec![CodeObject { memory, ..CodeObject::default() }],
        places: offsets.iter().copied().map(place).collect(),
        calls: offsets.iter().copied().map(call).collect(),
        ..CodeCounts::default()
    }
}

/// Names of counts. No count is lost, and no name has control characters.
fn named(bytes: &[u8]) -> CountsByCode {
    let counts = counts();
    let by_function = group(&counts, Grouping::Function, &OneNameFile(bytes));
    assert_eq!(by_function.totals, [Some(counts.places.len() as u64)]);
    let calls: u64 = by_function.calls.iter().map(|calls| calls.times).sum();
    assert_eq!(calls, counts.calls.len() as u64);
    let names = by_function.rows.iter().filter_map(|row| row.name.function.as_deref());
    names.for_each(|name| assert!(!name.is_empty() && !name.chars().any(char::is_control), "{name:?}"));
    by_function
}

/// A map of any lines.
pub(super) fn perf_map(bytes: &[u8]) {
    named(bytes);
}

/// A dump of any records, whose magic number random changes must not take away.
pub(super) fn jitdump(bytes: &[u8]) {
    named(bytes);
    named(&[&DUMP_MAGIC, bytes.get(4..).unwrap_or_default()].concat());
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_names_code() {
        for (target, expected) in [("perf_map", 4), ("jitdump", 2)] {
            let files = crate::corpus::of(target).unwrap();
            let most = files
                .iter()
                .map(|file| named(file).rows.iter().filter(|row| row.name.function.is_some()).count());
            assert!(most.clone().all(|names| names >= 2) && most.max() >= Some(expected), "{target}");
        }
    }
}
