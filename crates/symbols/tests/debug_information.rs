//! Inlined functions and lines from debug information, whole and damaged.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use addr2line::Context;
use cyclometer_symbols::{DebugPart, ObjectFile};
use cyclometer_test_support::{has, skip};
use gimli::{EndianRcSlice, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

type Bytes = EndianRcSlice<RunTimeEndian>;

/// The offset in a file of an address of its code.
fn file_offset(file: &object::File<'_>, address: u64) -> Option<u64> {
    let mut sections = file.sections();
    let holds = |section: &object::Section<'_, '_>| {
        address.checked_sub(section.address()).is_some_and(|from| from < section.size())
    };
    let section = sections.find(|section| section.kind() == object::SectionKind::Text && holds(section))?;
    Some(section.file_range()?.0 + (address - section.address()))
}

/// The name of the innermost inlined function at an address, by the frames of addr2line.
fn innermost_frame(context: &Context<Bytes>, address: u64) -> Option<String> {
    let mut frames = context.find_frames(address).skip_all_loads().unwrap();
    let first = frames.next().unwrap()?;
    frames.next().unwrap()?;
    let raw = first.function?.raw_name().unwrap().into_owned();
    Some(format!("{:#}", rustc_demangle::demangle(&raw)))
}

/// This program is a peer: it has inlined functions wherever the standard library has them.
#[test]
fn inlined_functions_are_those_of_the_frames_of_addr2line() {
    let path = std::env::current_exe().unwrap();
    let content = fs::read(&path).unwrap();
    let file = object::File::parse(&*content).unwrap();
    let section = |id: gimli::SectionId| -> Result<Bytes, object::Error> {
        let found = file.section_by_name(id.name());
        let data = found.map(|section| section.uncompressed_data()).transpose()?.unwrap_or_default();
        Ok(Bytes::new(data.into(), RunTimeEndian::Little))
    };
    let context = Context::from_dwarf(gimli::Dwarf::load(section).unwrap()).unwrap();
    let ours = ObjectFile::open(&path, DebugPart::InlinedFunctions).unwrap();
    let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let (mut inlined, mut others, mut names) = (0, 0, BTreeSet::new());
    for symbol in functions.step_by(40) {
        for address in (symbol.address()..symbol.address() + symbol.size()).step_by(3) {
            let Some(offset) = file_offset(&file, address) else { continue };
            let found = ours.inlined_function(offset);
            assert_eq!(found.as_deref(), innermost_frame(&context, address).as_deref(), "{address:#x}");
            match found {
                Some(name) => {
                    inlined += 1;
                    names.insert(name.to_string());
                }
                None => others += 1,
            }
        }
    }
    assert!(inlined > 1000 && others > 1000 && names.len() > 50, "{inlined} {others} {}", names.len());
    assert_eq!(ours.missing(), None);
}

/// Functions that are inlined into others, on lines of their own.
const PROGRAM: &str = r#"
static volatile int sink;
static inline __attribute__((always_inline)) void inner(int n) {
    sink += n;
    sink ^= n;
}
static inline __attribute__((always_inline)) void middle(int n) {
    inner(n + 1);
    inner(n + 2);
}
__attribute__((noinline)) void outer(int n) {
    middle(n);
    sink--;
}
int main(void) { outer(1); inner(5); return 0; }
"#;

/// The program, compiled in a folder; `None`: there is no compiler.
fn compiled(folder: &Path) -> Option<PathBuf> {
    if !has("gcc") || !has("objcopy") {
        skip("gcc or objcopy is not installed");
        return None;
    }
    fs::write(folder.join("program.c"), PROGRAM).unwrap();
    let options = ["-O2", "-g", "-gdwarf-5", "-no-pie", "-o", "program", "program.c"];
    assert!(Command::new("gcc").args(options).current_dir(folder).status().unwrap().success());
    Some(folder.join("program"))
}

/// The names of functions and of inlined functions, and the numbers of lines, that look-ups find at all code
/// of the program, with the reasons why some may be missing.
#[derive(Debug, PartialEq)]
struct FoundNames {
    functions: BTreeSet<String>,
    inlined: BTreeSet<String>,
    lines: BTreeSet<u32>,
    /// Reasons for lines and for inlined functions.
    reasons: [Option<String>; 2],
}

fn found(path: &Path) -> FoundNames {
    let content = fs::read(path).unwrap();
    let file = object::File::parse(&*content).unwrap();
    let text = file.section_by_name(".text").unwrap().file_range().unwrap();
    let opened =
        [DebugPart::Lines, DebugPart::InlinedFunctions].map(|part| ObjectFile::open(path, part).unwrap());
    let [lines, inlined] = &opened;
    let offsets = text.0..text.0 + text.1;
    let names = offsets.clone().filter_map(|offset| inlined.function(offset));
    let functions = names.map(|function| function.name.to_string()).collect();
    let inlined_names = offsets.clone().filter_map(|offset| inlined.inlined_function(offset));
    let inlined_names = inlined_names.map(|name| name.to_string()).collect();
    let all_lines = offsets.filter_map(|offset| lines.line(offset)?.line).collect();
    let reasons = opened
        .each_ref()
        .map(|file| file.unread().map(|why| why.to_string()).or_else(|| file.missing().map(str::to_owned)));
    FoundNames { functions, inlined: inlined_names, lines: all_lines, reasons }
}

/// The place of a section in a file.
fn place(content: &[u8], name: &str) -> std::ops::Range<usize> {
    let file = object::File::parse(content).unwrap();
    let (start, len) = file.section_by_name(name).unwrap().file_range().unwrap();
    start as usize..(start + len) as usize
}

/// Changes a copy of the program.
fn changed(program: &Path, change: impl FnOnce(&mut Vec<u8>)) -> FoundNames {
    let mut content = fs::read(program).unwrap();
    change(&mut content);
    let path = program.with_file_name("changed");
    fs::write(&path, content).unwrap();
    found(&path)
}

const DAMAGED: &str = "its debug information is damaged";

#[test]
fn whole_debug_information_has_lines_and_inlined_functions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let found = found(&program);
    assert_eq!(found.inlined, BTreeSet::from(["inner", "middle"].map(str::to_owned)), "{found:?}");
    assert!(found.functions.contains("outer") && found.functions.contains("main"), "{found:?}");
    assert!([4, 5, 13].iter().all(|line| found.lines.contains(line)), "{found:?}");
    assert_eq!(found.reasons, [None, None]);
}

/// Missing names have a reason, and functions have their names from the symbol table.
fn check_damaged(what: &str, whole: &FoundNames, found: &FoundNames) {
    assert_eq!(found.functions, whole.functions, "{what}");
    let is_less = [found.lines.len() < whole.lines.len(), found.inlined.len() < whole.inlined.len()];
    for (is_less, reason) in is_less.into_iter().zip(&found.reasons) {
        assert!(!is_less || reason.is_some(), "{what}: {found:?}");
    }
    assert!(is_less.contains(&true), "{what}: the change makes a difference: {found:?}");
    assert!(found.reasons.iter().flatten().all(|reason| reason.contains("debug")), "{what}: {found:?}");
}

#[test]
fn damaged_debug_information_leaves_the_names_of_the_symbol_table_and_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let whole = found(&program);
    let set = |content: &mut [u8], at: usize, bytes: &[u8]| {
        content[at..at + bytes.len()].copy_from_slice(bytes);
    };
    let info = |content: &[u8]| place(content, ".debug_info");
    let check = |what: &str, change: &dyn Fn(&mut Vec<u8>)| {
        check_damaged(what, &whole, &changed(&program, change));
    };
    check("a wrong version", &|content| {
        let at = info(content).start + 4;
        set(content, at, &[0xff, 0]);
    });
    check("a unit that is longer than the section", &|content| {
        let at = info(content).start;
        set(content, at, &[0xff, 0xff, 0xff, 0x7f]);
    });
    check("no abbreviation of that number", &|content| {
        let at = info(content).start + 12;
        set(content, at, &[0x7f; 4]);
    });
    check("abbreviations behind the end of their section", &|content| {
        let at = info(content).start + 8;
        set(content, at, &[0xff, 0xff, 0xff, 0x0f]);
    });
    check("abbreviations of nonsense", &|content| {
        let range = place(content, ".debug_abbrev");
        content[range].fill(0x81);
    });
    check("a truncated section", &|content| {
        let range = info(content);
        let cut = range.start + range.len() / 3;
        shorten_section(content, ".debug_info", (cut - range.start) as u64);
    });
    check("entries of nonsense after the first ones", &|content| {
        let range = info(content);
        content[range.start + 60..range.end].fill(0x7f);
    });
    check("a line program of nonsense", &|content| {
        let range = place(content, ".debug_line");
        content[range.start + 10..range.end].fill(0xff);
    });
    check("no text of names", &|content| shorten_section(content, ".debug_str", 1));
}

/// Gives a section of an ELF file for 64 bits another size.
///
/// # Source
///
/// System V gABI, chapters "ELF Header" and "Sections".
fn shorten_section(content: &mut [u8], name: &str, size: u64) {
    let index = {
        let file = object::File::parse(&*content).unwrap();
        file.section_by_name(name).unwrap().index().0
    };
    let headers = u64::from_le_bytes(content[40..48].try_into().unwrap()) as usize;
    let at = headers + index * 64 + 32;
    content[at..at + 8].copy_from_slice(&size.to_le_bytes());
}

#[test]
fn a_line_program_with_a_huge_file_number_has_no_lines() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let whole = found(&program);
    let other = changed(&program, |content| {
        let (start, len) = {
            let file = object::File::parse(&**content).unwrap();
            let text = file.section_by_name(".text").unwrap();
            (text.address(), text.size())
        };
        let range = place(content, ".debug_line");
        let section = gimli::DebugLine::new(&content[range.clone()], gimli::LittleEndian);
        let program = section.program(gimli::DebugLineOffset(0), 8, None, None).unwrap();
        let program_len = program.header().raw_program_buf().slice().len();
        let leb128 = |mut value: u64| {
            let mut bytes = Vec::new();
            while value >= 0x80 {
                bytes.push(value as u8 | 0x80);
                value >>= 7;
            }
            bytes.push(value as u8);
            bytes
        };
        // Set the address, the file, make a row, advance to the end of the code, end the sequence.
        let address = [&[0, 9, 2][..], &start.to_le_bytes()].concat();
        let program =
            [address, vec![4], leb128(u64::MAX >> 1), vec![1, 2], leb128(len), vec![0, 1, 1]].concat();
        let at = range.end - program_len;
        content[at..range.end].fill(1);
        content[at..at + program.len()].copy_from_slice(&program);
    });
    assert_eq!((&other.functions, &other.inlined), (&whole.functions, &whole.inlined));
    assert!(other.lines.is_empty(), "{other:?}");
}

#[test]
fn an_inlined_function_that_is_made_from_itself_has_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let whole = found(&program);
    let other = changed(&program, |content| {
        let range = place(content, ".debug_info");
        for (entry, at) in origins(content) {
            let bytes = (entry as u32).to_le_bytes();
            content[range.start + at..range.start + at + 4].copy_from_slice(&bytes);
        }
    });
    assert_eq!((&other.functions, &other.lines), (&whole.functions, &whole.lines));
    assert!(other.inlined.is_empty(), "{other:?}");
    assert_eq!(other.reasons, [None, Some(DAMAGED.to_owned())]);
}

/// The offset of each inlined function's entry in its unit, and where its reference to the function is.
fn origins(content: &[u8]) -> Vec<(usize, usize)> {
    let file = object::File::parse(content).unwrap();
    let section = |id: gimli::SectionId| -> Result<Bytes, object::Error> {
        let data = file.section_by_name(id.name()).map_or(Ok(&[][..]), |section| section.data())?;
        Ok(Bytes::new(data.into(), RunTimeEndian::Little))
    };
    let dwarf = gimli::Dwarf::load(section).unwrap();
    let header = dwarf.units().next().unwrap().unwrap();
    let unit = dwarf.unit(header).unwrap();
    let mut entries = unit.entries_raw(None).unwrap();
    let mut found = Vec::new();
    while !entries.is_empty() {
        let entry = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation().unwrap() else { continue };
        for specification in abbreviation.attributes() {
            let at = entries.next_offset();
            entries.read_attribute(*specification).unwrap();
            let is_origin = specification.name() == gimli::DW_AT_abstract_origin
                && specification.form() == gimli::DW_FORM_ref4
                && abbreviation.tag() == gimli::DW_TAG_inlined_subroutine;
            if is_origin {
                found.push((entry.0, at.0));
            }
        }
    }
    assert!(found.len() >= 4, "{found:?}");
    found
}

#[test]
fn a_million_functions_inlined_into_each_other_need_no_stack() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let content = fs::read(&program).unwrap();
    let (start, len) = {
        let file = object::File::parse(&*content).unwrap();
        let text = file.section_by_name(".text").unwrap();
        (text.address(), text.size())
    };
    // A unit with the addresses of the code, and inlined functions without addresses, each in the one before.
    let abbreviations: [u8; 15] = [1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0, 2, 0x1d, 1, 0, 0, 0];
    let mut unit = vec![5, 0, 1, 8, 0, 0, 0, 0, 1];
    unit.extend([start, len].map(u64::to_le_bytes).concat());
    unit.resize(unit.len() + 1_000_000, 2);
    let info = [&(unit.len() as u32).to_le_bytes()[..], &unit].concat();
    fs::write(folder.path().join("abbrev"), abbreviations).unwrap();
    fs::write(folder.path().join("info"), info).unwrap();
    let update = |section: &str, file: &str| format!("{section}={}", folder.path().join(file).display());
    let out = Command::new("objcopy")
        .args(["--update-section", &update(".debug_abbrev", "abbrev")])
        .args(["--update-section", &update(".debug_info", "info"), "program", "nested"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let nested = found(&folder.path().join("nested"));
    assert!(nested.inlined.is_empty() && nested.functions.contains("outer"), "{nested:?}");
}

#[test]
fn a_compressed_section_of_a_false_size_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(folder.path()) else { return };
    let whole = found(&program);
    let packed = folder.path().join("packed");
    let options = ["--compress-debug-sections=zlib", "program", "packed"];
    let out = Command::new("objcopy").args(options).current_dir(folder.path()).output().unwrap();
    if !out.status.success() {
        return skip("objcopy does not compress");
    }
    assert_eq!(found(&packed), whole);
    for size in [0, 1, 1 << 20, 1 << 40, u64::MAX] {
        let other = changed(&packed, |content| {
            // The size behind the type of the compression and a reserved word.
            let at = place(content, ".debug_info").start + 8;
            content[at..at + 8].copy_from_slice(&u64::to_le_bytes(size));
        });
        check_damaged(&format!("a size of {size}"), &whole, &other);
        let said = "its compressed debug sections are damaged, or too large".to_owned();
        assert_eq!(other.reasons, [Some(said.clone()), Some(said)]);
    }
}
