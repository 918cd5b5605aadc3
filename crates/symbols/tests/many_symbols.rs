//! A file with a million functions, and what becomes of it when it is damaged.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use cyclometer_symbols::{DebugPart, ObjectError, ObjectFile};
use cyclometer_test_support::elf_program::{ElfProgram, FUNCTION_LEN};

fn opened(path: &Path, content: &[u8]) -> Result<ObjectFile, ObjectError> {
    fs::write(path, content).unwrap();
    ObjectFile::open(path, DebugPart::Lines)
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
    let ElfProgram { bytes, code_at, .. } = ElfProgram::new(FUNCTIONS, name, &[]);
    let file = opened(&path, &bytes).unwrap();
    let named = |index: u64| file.function(code_at + index * FUNCTION_LEN + 3).unwrap().name.to_string();
    assert_eq!(named(1), "function1");
    assert_eq!(named(999_997), "function999997");
    assert_eq!(named(2), "core::fmt::f0::h0000000000000002");
    assert_eq!(named(6), "core::fmt::f0::h0000000000000006");
    assert_eq!(named(10), "core::fmt::f1::h000000000000000a");
    assert!(
        file.function(code_at + FUNCTIONS * FUNCTION_LEN).is_none(),
        "there is no code behind the last one"
    );
    assert!(file.line(code_at).is_none() && file.unread().is_none());
}

#[test]
fn a_damaged_table_of_symbols_gives_fewer_names_or_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged");
    let program = ElfProgram::new(100, |index| format!("function{index}"), &[]);
    let ElfProgram { bytes: whole, code_at, first_symbol_at } = program;
    let name_at = |file: &ObjectFile| file.function(code_at).map(|function| function.name.to_string());
    assert_eq!(name_at(&opened(&path, &whole).unwrap()).as_deref(), Some("function0"));
    let first = first_symbol_at as usize;
    let damaged = |at: usize, bytes: &[u8]| {
        let mut content = whole.clone();
        content[at..at + bytes.len()].copy_from_slice(bytes);
        opened(&path, &content)
    };
    // The name is behind all names; the function is at the end of all addresses, and larger than these.
    assert_eq!(name_at(&damaged(first, &[0xff; 4]).unwrap()), None);
    let huge = damaged(first + 8, &[0xff; 16]).unwrap();
    assert_eq!(huge.function(code_at + FUNCTION_LEN).unwrap().name.as_ref(), "function1");
    // The list of sections is behind the end of the file, then the file is cut within it, and is none.
    assert!(damaged(40, &[0xff; 8]).is_err());
    for len in [0, 3, 63, whole.len() - 1, whole.len() - 200] {
        let error = opened(&path, &whole[..len]).unwrap_err();
        assert!(error.to_string().starts_with("it is no file of code"), "{len}: {error}");
    }
    let missing = ObjectFile::open(&folder.path().join("none"), DebugPart::Lines).unwrap_err();
    assert!(missing.to_string().starts_with("it cannot be read"), "{missing}");
    let no_file = ObjectFile::open(folder.path(), DebugPart::Lines).unwrap_err();
    assert!(matches!(no_file, ObjectError::NoFile), "{no_file}");
}
