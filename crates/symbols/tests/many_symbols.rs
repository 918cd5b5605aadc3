//! A file with a million functions, and what becomes of it when it is damaged.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use cyclometer_symbols::{ObjectError, ObjectFile};

/// Bytes of each function, and where the first one is in the file and in memory.
const STEP: u64 = 16;
const CODE: u64 = 0x1000;
const ADDRESS: u64 = 0x40_0000;
/// Sizes of the parts of an ELF file for 64 bits.
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SYMBOL: u64 = 24;

/// A file for x86-64 with functions called so, one after the other. Its code is a hole.
///
/// # Source
///
/// System V gABI, chapters "Object Files" and "Program Loading".
fn elf(functions: u64, name: impl Fn(u64) -> String) -> Vec<u8> {
    let (mut symbols, mut names) = (vec![0; SYMBOL as usize], vec![0]);
    for index in 0..functions {
        // A global function of the first section.
        symbols.extend((names.len() as u32).to_le_bytes());
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend([ADDRESS + index * STEP, STEP].map(u64::to_le_bytes).concat());
        names.extend(name(index).into_bytes());
        names.push(0);
    }
    let (code_len, symbols_at) = (functions * STEP, HEADER + SEGMENT);
    let names_at = symbols_at + symbols.len() as u64;
    let sections_at = names_at + names.len() as u64;
    let words = |words: &[u64]| words.iter().copied().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let halves = |halves: &[u32]| halves.iter().copied().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    // Magic number; an executable of x86-64 with one segment and four sections, whose names are unknown.
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend(halves(&[0x003e_0002, 1]));
    file.extend(words(&[ADDRESS, HEADER, sections_at]));
    file.extend(halves(&[0, 0x0038_0040, 0x0040_0001, 0x0003_0004]));
    file.extend(halves(&[1, 5]));
    file.extend(words(&[CODE, ADDRESS, ADDRESS, code_len, code_len, 0x1000]));
    file.extend(symbols);
    let symbols_len = names_at - symbols_at;
    file.extend(&names);
    let section = |kind: u32, flags: u64, place: [u64; 3], link: [u32; 2], entry: u64| {
        let [address, at, len] = place;
        [halves(&[0, kind]), words(&[flags, address, at, len]), halves(&link), words(&[1, entry])].concat()
    };
    file.extend(section(0, 0, [0; 3], [0; 2], 0));
    file.extend(section(1, 6, [ADDRESS, CODE, code_len], [0; 2], 0));
    file.extend(section(2, 0, [0, symbols_at, symbols_len], [3, 1], SYMBOL));
    file.extend(section(3, 0, [0, names_at, names.len() as u64], [0; 2], 0));
    file
}

fn opened(path: &Path, content: &[u8]) -> Result<ObjectFile, ObjectError> {
    fs::write(path, content).unwrap();
    ObjectFile::open(path, true)
}

#[test]
fn a_million_functions_have_their_names_and_those_of_one_name_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large");
    const FUNCTIONS: u64 = 1_000_000;
    let name = |index: u64| match index % 4 {
        0 => format!("_ZN3foo3barILi{index}EEvv"),
        1 => format!("function{index}"),
        // Pairs of functions of one name.
        2 => {
            let text = format!("f{}", index / 8);
            format!("_ZN4core3fmt{}{text}17h{index:016x}E", text.len())
        }
        _ => format!("_ZN1a1f{index}Ev"),
    };
    let file = opened(&path, &elf(FUNCTIONS, name)).unwrap();
    let named = |index: u64| file.function(CODE + index * STEP + 3).unwrap().name.to_string();
    assert_eq!(named(1), "function1");
    assert_eq!(named(999_997), "function999997");
    assert_eq!(named(2), "core::fmt::f0::h0000000000000002");
    assert_eq!(named(6), "core::fmt::f0::h0000000000000006");
    assert_eq!(named(10), "core::fmt::f1::h000000000000000a");
    assert!(file.function(CODE + FUNCTIONS * STEP).is_none(), "there is no code behind the last one");
    assert!(file.line(CODE).is_none() && file.unread_lines().is_none());
}

#[test]
fn a_damaged_table_of_symbols_gives_fewer_names_or_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let whole = elf(100, |index| format!("function{index}"));
    let name_at = |file: &ObjectFile| file.function(CODE).map(|function| function.name.to_string());
    assert_eq!(name_at(&opened(&path, &whole).unwrap()).as_deref(), Some("function0"));
    let first = (HEADER + SEGMENT + SYMBOL) as usize;
    let damaged = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        opened(&path, &content)
    };
    // The name is behind all names; the function is at the end of all addresses, and larger than these.
    assert_eq!(name_at(&damaged(first, &[0xff; 4]).unwrap()), None);
    let huge = damaged(first + 8, &[0xff; 16]).unwrap();
    assert_eq!(huge.function(CODE + STEP).unwrap().name.as_ref(), "function1");
    // The list of sections is behind the end of the file, then the file is cut within it, and is none.
    assert!(damaged(40, &[0xff; 8]).is_err());
    for len in [0, 3, 63, whole.len() - 1, whole.len() - 200] {
        let error = opened(&path, &whole[..len]).unwrap_err();
        assert!(error.to_string().starts_with("it is no file of code"), "{len}: {error}");
    }
    let missing = ObjectFile::open(&folder.path().join("none"), true).unwrap_err();
    assert!(missing.to_string().starts_with("it cannot be read"), "{missing}");
    let no_file = ObjectFile::open(folder.path(), true).unwrap_err();
    assert!(matches!(no_file, ObjectError::NoFile), "{no_file}");
}
