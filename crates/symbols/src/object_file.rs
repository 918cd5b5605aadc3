//! The symbols of a file of code.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use addr2line::Context;
use gimli::{EndianRcSlice, RunTimeEndian};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::demangled::demangled;
use crate::separate::debug_file;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 30;

/// The reason why a file has no names.
#[derive(Debug)]
pub enum ObjectError {
    /// The file cannot be read.
    Io(io::Error),
    /// The file is no regular file, or has more than 4 GiB.
    NoFile,
    /// The file is damaged, or of a format that is not known.
    Format(String),
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObjectError::Io(error) => write!(f, "it cannot be read: {error}"),
            ObjectError::NoFile => f.write_str("it is no regular file, or too large"),
            ObjectError::Format(error) => write!(f, "it is no file of code: {error}"),
        }
    }
}

impl std::error::Error for ObjectError {}

/// A function of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionSymbol {
    /// The name in the source code.
    pub name: String,
    /// The address of its first byte, as the file has it.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
}

/// A line of source code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// The line, from 1; `None`: the compiler gives none.
    pub line: Option<u32>,
}

type LineTables = Context<EndianRcSlice<RunTimeEndian>>;

/// The symbols of a file, and where its lines are.
pub struct ObjectFile {
    segments: Vec<LoadedSegment>,
    /// Ascending by start; no two have the same start.
    functions: Vec<FunctionSymbol>,
    lines: Option<LineTables>,
}

impl fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectFile").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LoadedSegment {
    file_offset: u64,
    len: u64,
    address: u64,
}

impl ObjectFile {
    /// Reads the functions of a file, from its separate file with debug information if it has one; with
    /// `lines`, its lines too.
    ///
    /// # Errors
    ///
    /// [`ObjectError`]. A file without symbols has none, which is no error; damaged debug information is as
    /// none.
    pub fn open(path: &Path, lines: bool) -> Result<ObjectFile, ObjectError> {
        let metadata = fs::metadata(path).map_err(ObjectError::Io)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(ObjectError::NoFile);
        }
        let content = fs::read(path).map_err(ObjectError::Io)?;
        let parsed = |content| object::File::parse(content).map_err(|e| ObjectError::Format(e.to_string()));
        let file = parsed(&*content)?;
        let segments = segments(&file);
        let has_all = file.symbol_table().is_some() && (!lines || file.has_debug_symbols());
        let separate = if has_all { None } else { debug_file(path, &file) };
        let other = separate.as_deref().map(object::File::parse).and_then(Result::ok);
        let own = functions(&file);
        // A separate file has all symbols; one with line tables only has none.
        let functions = match other.as_ref().map(functions) {
            Some(more) if more.len() >= own.len() => more,
            _ => own,
        };
        let lines = lines.then(|| {
            let of = |file: &object::File<'_>| file.has_debug_symbols().then(|| line_tables(file)).flatten();
            of(&file).or_else(|| other.as_ref().and_then(of))
        });
        Ok(ObjectFile { segments, functions, lines: lines.flatten() })
    }

    /// The address of an offset in the file; `None` where nothing is mapped from there.
    pub fn address(&self, offset: u64) -> Option<u64> {
        let within = |segment: &&LoadedSegment| {
            offset.checked_sub(segment.file_offset).is_some_and(|from| from < segment.len)
        };
        let segment = self.segments.iter().find(within)?;
        segment.address.checked_add(offset - segment.file_offset)
    }

    /// The function at an offset in the file.
    pub fn function(&self, offset: u64) -> Option<&FunctionSymbol> {
        let address = self.address(offset)?;
        let index = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(index.checked_sub(1)?)?;
        (address < function.end).then_some(function)
    }

    /// The line at an offset in the file.
    pub fn line(&self, offset: u64) -> Option<SourceLine> {
        let location = self.lines.as_ref()?.find_location(self.address(offset)?).ok()??;
        let file = location.file?.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        Some(SourceLine { file, line: location.line.filter(|line| *line > 0) })
    }
}

fn segments(file: &object::File<'_>) -> Vec<LoadedSegment> {
    let loaded = file.segments().map(|segment| {
        let (file_offset, len) = segment.file_range();
        LoadedSegment { file_offset, len, address: segment.address() }
    });
    // Code is in the last segment that has an offset, where data before it shares its page.
    let mut loaded: Vec<LoadedSegment> = loaded.filter(|segment| segment.len > 0).collect();
    loaded.sort_by_key(|segment| segment.file_offset);
    loaded
}

/// A symbol that may name code, and how good a name it is.
struct NamedSymbol<'a> {
    start: u64,
    size: u64,
    name: &'a [u8],
    is_function: bool,
    is_global: bool,
    is_weak: bool,
}

impl NamedSymbol<'_> {
    /// The order of several symbols with one address: the first is the name.
    fn rank(&self) -> (bool, bool, bool, bool, usize, &[u8]) {
        let is_inner = self.name.starts_with(b"_");
        (!self.is_function, is_inner, !self.is_global, self.is_weak, self.name.len(), self.name)
    }
}

/// The functions of a file: of its symbol table, or of the table for the loader if it has no other.
fn functions(file: &object::File<'_>) -> Vec<FunctionSymbol> {
    let all = match file.symbol_table() {
        Some(_) => file.symbols(),
        None => file.dynamic_symbols(),
    };
    let mut symbols: Vec<NamedSymbol<'_>> = all.filter_map(|symbol| named(file, &symbol)).collect();
    symbols.sort_by(|one, other| one.start.cmp(&other.start).then_with(|| one.rank().cmp(&other.rank())));
    let longest = |symbols: &[NamedSymbol<'_>]| symbols.iter().map(|symbol| symbol.size).max().unwrap_or(0);
    let mut groups: Vec<(u64, u64, &[u8])> = Vec::new();
    for same in symbols.chunk_by(|one, other| one.start == other.start) {
        groups.push((same[0].start, longest(same), same[0].name));
    }
    let starts: Vec<u64> = groups.iter().map(|(start, ..)| *start).chain([u64::MAX]).collect();
    let function = |(index, (start, size, name)): (usize, (u64, u64, &[u8]))| {
        // Assembly often gives no size: the function ends where the next one begins.
        let end = match size {
            0 => starts[index + 1].min(section_end(file, start)),
            size => start.saturating_add(size),
        };
        FunctionSymbol { name: demangled(name), start, end }
    };
    groups.into_iter().enumerate().map(function).collect()
}

fn named<'a>(file: &object::File<'a>, symbol: &object::Symbol<'a, '_>) -> Option<NamedSymbol<'a>> {
    let kind = symbol.kind();
    let is_function = kind == SymbolKind::Text;
    if !symbol.is_definition() || !(is_function || kind == SymbolKind::Unknown || kind == SymbolKind::Label) {
        return None;
    }
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    // Labels of the assembler and mapping symbols are no functions.
    if !is_function && (name.starts_with(b".L") || name.starts_with(b"$") || !is_code(file, symbol)) {
        return None;
    }
    let (start, size) = (symbol.address(), symbol.size());
    let (is_global, is_weak) = (symbol.is_global(), symbol.is_weak());
    Some(NamedSymbol { start, size, name, is_function, is_global, is_weak })
}

fn is_code(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> bool {
    use object::ObjectSection;
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
    section.is_some_and(|section| section.kind() == object::SectionKind::Text)
}

/// The end of the section with an address.
fn section_end(file: &object::File<'_>, address: u64) -> u64 {
    use object::ObjectSection;
    let ends = file.sections().filter_map(|section| {
        let end = section.address().checked_add(section.size())?;
        (section.address() <= address && address < end).then_some(end)
    });
    ends.max().unwrap_or(address)
}

/// The line tables of a file. Damaged ones are none.
fn line_tables(file: &object::File<'_>) -> Option<LineTables> {
    use object::ObjectSection;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: gimli::SectionId| -> Result<EndianRcSlice<RunTimeEndian>, gimli::Error> {
        let data = file.section_by_name(id.name()).and_then(|section| section.uncompressed_data().ok());
        Ok(EndianRcSlice::new(data.unwrap_or_default().into(), endian))
    };
    let dwarf = gimli::Dwarf::load(section).ok()?;
    Context::from_dwarf(dwarf).ok()
}
