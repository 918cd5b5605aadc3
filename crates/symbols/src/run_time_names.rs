//! Names of code that a program made while it ran, from the files in which it names it.
//!
//! # Problem
//!
//! A compiler at run time uses an address for one function, then for another. Its file has both; the counts
//! of an address are the sum of both.
//!
//! # Solution
//!
//! The addresses are divided where any entry begins or ends. An address with one name has that name; one with
//! two or three names has all of them, as in `f or g`; one with more has none. So a count is never given to
//! a function that it may not belong to.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The most entries of a file.
const MOST_ENTRIES: usize = 4_000_000;

/// The most bytes of a name.
const LONGEST_NAME: usize = 1024;

/// The most names of one address.
const MOST_NAMES: usize = 3;

/// The names of code that a process made.
#[derive(Debug, Default)]
pub(crate) struct RunTimeNames {
    names: Vec<String>,
    /// Addresses with the indices of their names, ascending and disjoint. Only the first is always there.
    ranges: Vec<(Range<u64>, [Option<u32>; MOST_NAMES])>,
}

/// The entries of a file, in its order.
#[derive(Default)]
struct NameEntries {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    entries: Vec<(Range<u64>, u32)>,
}

impl NameEntries {
    fn add(&mut self, start: u64, len: u64, name: &[u8]) -> Result<(), String> {
        let Some(end) = start.checked_add(len).filter(|_| len > 0 && !name.is_empty()) else { return Ok(()) };
        if self.entries.len() >= MOST_ENTRIES {
            return Err(format!("it has more than {MOST_ENTRIES} entries"));
        }
        let name = String::from_utf8_lossy(&name[..name.len().min(LONGEST_NAME)]);
        let name: String = name.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        let next = self.names.len() as u32;
        let number = *self.numbers.entry(name).or_insert_with_key(|name| {
            self.names.push(name.clone());
            next
        });
        self.entries.push((start..end, number));
        Ok(())
    }

    fn finish(self) -> RunTimeNames {
        let mut edges: Vec<(u64, bool, u32)> = Vec::with_capacity(2 * self.entries.len());
        for (range, name) in self.entries {
            edges.extend([(range.start, true, name), (range.end, false, name)]);
        }
        edges.sort_unstable();
        let mut ranges: Vec<(Range<u64>, [Option<u32>; MOST_NAMES])> = Vec::new();
        let mut open: BTreeMap<u32, u32> = BTreeMap::new();
        let mut at = 0;
        for (address, begins, name) in edges {
            if at < address && (1..=MOST_NAMES).contains(&open.len()) {
                let mut names = open.keys().copied();
                ranges.push((at..address, std::array::from_fn(|_| names.next())));
            }
            at = address;
            let times = open.entry(name).or_default();
            *times = if begins { *times + 1 } else { times.saturating_sub(1) };
            if *times == 0 {
                open.remove(&name);
            }
        }
        RunTimeNames { names: self.names, ranges }
    }
}

impl RunTimeNames {
    /// The names of a file: of `perf-PID.map`, or of a jitdump, which begins with a magic number.
    ///
    /// # Errors
    ///
    /// The reason why the file has no names, in words that follow its path.
    pub(crate) fn of(content: &[u8]) -> Result<RunTimeNames, String> {
        let mut entries = NameEntries::default();
        match content.first_chunk().map(|magic| u32::from_le_bytes(*magic)) {
            Some(DUMP_MAGIC) => dump_entries(content, &mut entries)?,
            _ => map_entries(content, &mut entries)?,
        }
        Ok(entries.finish())
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The name of the code at an address, and where the range begins that has this name.
    pub(crate) fn function(&self, address: u64) -> Option<(u64, Cow<'_, str>)> {
        let index = self.ranges.partition_point(|(range, _)| range.start <= address).checked_sub(1)?;
        let (range, names) = self.ranges.get(index).filter(|(range, _)| range.contains(&address))?;
        let mut names = names.iter().flatten().map(|name| self.names[*name as usize].as_str());
        let first = names.next()?;
        let all = names.fold(Cow::Borrowed(first), |all, name| Cow::Owned(format!("{all} or {name}")));
        Some((range.start, all))
    }
}

/// The entries of lines `START SIZE NAME`, numbers in hexadecimal. The last line may be in the making.
///
/// # Source
///
/// Linux, `tools/perf/Documentation/jit-interface.txt`.
fn map_entries(content: &[u8], entries: &mut NameEntries) -> Result<(), String> {
    let number = |text: &[u8]| {
        let text = std::str::from_utf8(text).ok()?;
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
    };
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { continue };
        let mut fields = line.splitn(3, |byte| *byte == b' ');
        let (start, len) = (fields.next().and_then(number), fields.next().and_then(number));
        if let (Some(start), Some(len), Some(name)) = (start, len, fields.next()) {
            entries.add(start, len, name)?;
        }
    }
    Ok(())
}

/// `JiTD`, in the byte order of x86-64.
const DUMP_MAGIC: u32 = 0x4A69_5444;
const LOADED: u32 = 0;
const MOVED: u32 = 1;

/// The entries of a jitdump: code that was loaded, or moved to another address.
///
/// # Source
///
/// Linux, `tools/perf/Documentation/jitdump-specification.txt`, versions 1 and 2.
fn dump_entries(content: &[u8], entries: &mut NameEntries) -> Result<(), String> {
    const DAMAGED: &str = "its header is damaged";
    let header = word(content, 8).ok_or(DAMAGED)? as usize;
    let mut rest = content.get(header..).filter(|_| header >= 40).ok_or(DAMAGED)?;
    let mut names: HashMap<u64, &[u8]> = HashMap::new();
    // The last record may be in the making.
    while let (Some(kind), Some(len)) = (word(rest, 0), word(rest, 4)) {
        let Some(record) = rest.get(..len as usize).filter(|record| record.len() >= 16) else { break };
        rest = &rest[record.len()..];
        let at = |offset| double_word(record, offset);
        match kind {
            LOADED => {
                let (Some(start), Some(len), Some(index)) = (at(32), at(40), at(48)) else { continue };
                let name = record[56..].split(|byte| *byte == 0).next().unwrap_or_default();
                names.insert(index, name);
                entries.add(start, len, name)?;
            }
            MOVED => {
                let (Some(start), Some(len), Some(index)) = (at(40), at(48), at(56)) else { continue };
                entries.add(start, len, names.get(&index).copied().unwrap_or_default())?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn double_word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(names: &RunTimeNames, address: u64) -> Option<String> {
        names.function(address).map(|(_, name)| name.into_owned())
    }

    #[test]
    fn a_line_names_its_addresses_and_bad_lines_name_none() {
        let text = b"1000 10 JS:*f x.js:1:2\n0x2000 0x8 g\nxyz 1 h\n3000 0 i\n4000 10\n5000 10 \
            \n\nffffffffffffffff 10 j\n6000 4 a\x1b[31mb\xff\n7000 10 unfinished";
        let names = RunTimeNames::of(text).unwrap();
        let expected = [
            (0xfff, None),
            (0x1000, Some("JS:*f x.js:1:2")),
            (0x100f, Some("JS:*f x.js:1:2")),
            (0x1010, None),
            (0x2007, Some("g")),
            (0x3000, None),
            (0x5000, None),
            (0x6000, Some("a?[31mb\u{fffd}")),
            (0x7000, None),
            (u64::MAX, None),
        ];
        for (address, expected) in expected {
            assert_eq!(name(&names, address).as_deref(), expected, "{address:#x}");
        }
        assert!(RunTimeNames::of(b"").unwrap().is_empty());
    }

    #[test]
    fn an_address_that_was_used_again_has_all_of_its_names_or_none() {
        let text = b"1000 10 f\n1000 10 f\n1008 10 g\n100c 2 h\n100c 1 i\n2000 4 f\n";
        let names = RunTimeNames::of(text).unwrap();
        let found = [0x1000, 0x1008, 0x100c, 0x100d, 0x100e, 0x1010, 0x1018, 0x2000];
        let expected = ["f", "f or g", "", "f or g or h", "f or g", "g", "", "f"];
        assert_eq!(found.map(|address| name(&names, address).unwrap_or_default()), expected);
    }

    fn record(kind: u32, fields: &[u64], rest: &[u8]) -> Vec<u8> {
        let len = 16 + 8 * fields.len() + rest.len();
        let head = [kind.to_le_bytes(), (len as u32).to_le_bytes()].concat();
        let fields = [0].iter().chain(fields).flat_map(|field| field.to_le_bytes());
        head.into_iter().chain(fields).chain(rest.iter().copied()).collect()
    }

    #[test]
    fn a_dump_names_code_that_was_loaded_and_moved() {
        let head = [DUMP_MAGIC, 1, 40, 62, 0, 77, 0, 0, 0, 0].map(u32::to_le_bytes).concat();
        let load = record(LOADED, &[0, 0, 0x1000, 0x10, 5], b"f\0\x90\x90");
        let moved = record(MOVED, &[0, 0, 0x1000, 0x2000, 0x10, 5], b"");
        let unknown = record(2, &[1, 2, 3], b"");
        let whole = [head, load, unknown, moved].concat();
        let names = RunTimeNames::of(&whole).unwrap();
        let found = [0x1000, 0x100f, 0x1010, 0x2000].map(|address| name(&names, address).unwrap_or_default());
        assert_eq!(found, ["f", "f", "", "f"]);
        let names = RunTimeNames::of(&whole[..whole.len() - 1]).unwrap();
        assert_eq!((name(&names, 0x1000).as_deref(), name(&names, 0x2000)), (Some("f"), None));
        assert!(RunTimeNames::of(&whole[..8]).is_err());
    }

    proptest! {
        #[test]
        fn ranges_are_disjoint_and_names_clean_whatever_a_file_has(
            entries in prop::collection::vec((0_u64..64, 0_u64..20, "[a-c\x01]{1,2}"), 0..40),
            noise: Vec<u8>,
        ) {
            let lines = entries.iter().map(|(start, len, name)| format!("{start:x} {len:x} {name}\n"));
            let text = lines.collect::<String>().into_bytes();
            let names = RunTimeNames::of(&text).unwrap();
            prop_assert!(names.ranges.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
            for address in 0..90 {
                let of = |name: &str| name.replace('\x01', "?");
                let all: std::collections::BTreeSet<String> = entries
                    .iter()
                    .filter(|(start, len, _)| (*start..start + len).contains(&address))
                    .map(|(.., name)| of(name))
                    .collect();
                let found = names.function(address).map(|(_, name)| name.into_owned());
                let found: Option<std::collections::BTreeSet<String>> =
                    found.map(|name| name.split(" or ").map(str::to_owned).collect());
                prop_assert_eq!(found, Some(all).filter(|all| (1..=MOST_NAMES).contains(&all.len())));
            }
            for text in [[&text[..], &noise].concat(), [&DUMP_MAGIC.to_le_bytes()[..], &noise].concat()] {
                if let Ok(names) = RunTimeNames::of(&text) {
                    prop_assert!(names.names.iter().all(|name| !name.chars().any(char::is_control)));
                }
            }
        }
    }
}
