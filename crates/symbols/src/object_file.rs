//! The symbols of a file of code.

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use gimli::{Dwarf, RunTimeEndian};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::debug_sections::{UnreadSection, section_data};
use crate::function_names::FunctionNames;
use crate::inlined_functions::{DAMAGED, InlinedFunctions, MissingInlined, SectionBytes};
use crate::innermost::{at, innermost};
use crate::line_tables::LineTables;
use crate::linkage_stubs::{LinkageStub, linkage_stubs};
use crate::separate::debug_file;
use crate::source_line::SourceLine;

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
    /// The name in the source code. Functions of one file have different names: what tells those apart that
    /// have one in the source code is behind it, as in `helper [a.c]`.
    pub name: Rc<str>,
    /// The address of its first byte, as the file has it.
    pub start: u64,
    /// The address after its last byte.
    pub end: u64,
}

/// A function without its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FunctionRange {
    start: u64,
    end: u64,
    /// Its number among the names.
    number: u32,
}

/// The part of a file's debug information that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DebugPart {
    /// None.
    None,
    /// The lines of source code.
    Lines,
    /// The functions that were inlined.
    InlinedFunctions,
}

/// The debug information of a file.
enum DebugInformation {
    Lines(LineTables),
    Inlined(Box<InlinedFunctions>),
}

/// The symbols of a file, and where its lines or inlined functions are.
pub struct ObjectFile {
    segments: Vec<LoadedSegment>,
    functions: Vec<FunctionRange>,
    names: FunctionNames,
    /// Addresses with the index of their function, ascending and disjoint.
    ranges: Vec<(Range<u64>, u32)>,
    debug: Option<DebugInformation>,
    /// Why there is debug information that is not read.
    unread: Option<UnreadSection>,
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
    /// Reads the functions of a file, from its separate file with debug information if it has one, and a part
    /// of the debug information.
    ///
    /// # Errors
    ///
    /// [`ObjectError`]. A file without symbols has none, which is no error. Debug information that cannot be
    /// read is as none, with the reason ([`ObjectFile::unread`]).
    pub fn open(path: &Path, part: DebugPart) -> Result<ObjectFile, ObjectError> {
        let metadata = fs::metadata(path).map_err(ObjectError::Io)?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return Err(ObjectError::NoFile);
        }
        let content = fs::read(path).map_err(ObjectError::Io)?;
        let parsed = |content| object::File::parse(content).map_err(|e| ObjectError::Format(e.to_string()));
        let file = parsed(&*content)?;
        let segments = segments(&file);
        let needs_debug = part != DebugPart::None;
        let has_all = file.symbol_table().is_some() && (!needs_debug || file.has_debug_symbols());
        let separate = if has_all { None } else { debug_file(path, &file) };
        let other = separate.as_deref().map(object::File::parse).and_then(Result::ok);
        let own = functions(&file);
        // A separate file has all symbols; one with line tables only has none.
        let (mut functions, mut names) = match other.as_ref().map(functions) {
            Some(more) if more.0.len() >= own.0.len() => more,
            _ => own,
        };
        for LinkageStub { symbol, addresses: Range { start, end } } in linkage_stubs(&file) {
            functions.push(FunctionRange { start, end, number: names.add_stub(symbol) });
        }
        functions.sort_by_key(|function| function.start);
        let files = [Some(&file), other.as_ref()].into_iter().flatten();
        let (mut debug, mut unread) = (None, None);
        for file in files.filter(|file| needs_debug && file.has_debug_symbols()) {
            match debug_information(file, part) {
                Ok(found) => debug = debug.or(found),
                Err(why) => unread = Some(why),
            }
        }
        let ranges = innermost(functions.iter().map(|function| function.start..function.end));
        Ok(ObjectFile { segments, functions, names, ranges, debug, unread })
    }

    /// The reason why the debug information of the file, or of its separate one, is not read.
    pub fn unread(&self) -> Option<UnreadSection> {
        self.unread
    }

    /// Whether debug information is read.
    pub fn has_debug_information(&self) -> bool {
        self.debug.is_some()
    }

    /// The reason why lines or inlined functions that were looked up may be missing, in words that follow
    /// the path.
    pub fn missing(&self) -> Option<&'static str> {
        match self.debug.as_ref()? {
            DebugInformation::Lines(lines) => lines.is_damaged().then_some(DAMAGED),
            DebugInformation::Inlined(inlined) => inlined.missing().map(MissingInlined::text),
        }
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
    pub fn function(&self, offset: u64) -> Option<FunctionSymbol> {
        let FunctionRange { start, end, number } = self.function_range(offset, 0)?;
        Some(FunctionSymbol { name: self.names.name(number), start, end })
    }

    /// The first address of the function at an offset in the file. It costs less than the name.
    pub(crate) fn function_start(&self, offset: u64) -> Option<u64> {
        self.function_range(offset, 0).map(|function| function.start)
    }

    /// The name of the function at a distance, modulo 2⁶⁴, in memory from an offset in the file.
    pub(crate) fn function_name(&self, offset: u64, distance: u64) -> Option<Rc<str>> {
        self.function_range(offset, distance).map(|function| self.names.name(function.number))
    }

    fn function_range(&self, offset: u64, distance: u64) -> Option<FunctionRange> {
        let address = self.address(offset)?.wrapping_add(distance);
        at(&self.ranges, address).map(|function| self.functions[function as usize])
    }

    /// The line at an offset in the file, if [`DebugPart::Lines`] are read.
    pub fn line(&self, offset: u64) -> Option<SourceLine> {
        match &self.debug {
            Some(DebugInformation::Lines(lines)) => lines.line(self.address(offset)?),
            _ => None,
        }
    }

    /// The name of the innermost inlined function at an offset in the file, if
    /// [`DebugPart::InlinedFunctions`] are read; `None`: the code is that of [`ObjectFile::function`] itself.
    pub fn inlined_function(&self, offset: u64) -> Option<Rc<str>> {
        match &self.debug {
            Some(DebugInformation::Inlined(inlined)) => inlined.name(self.address(offset)?),
            _ => None,
        }
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
    /// The file of source code that the symbol table has before it.
    source: Option<&'a [u8]>,
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

/// The functions of a file, by address, with their names: of its symbol table, or of the table for the
/// loader if it has no other.
fn functions(file: &object::File<'_>) -> (Vec<FunctionRange>, FunctionNames) {
    let all = match file.symbol_table() {
        Some(_) => file.symbols(),
        None => file.dynamic_symbols(),
    };
    // The local symbols of a file of source code follow its name.
    let mut source = None;
    let with_source = all.filter_map(|symbol| {
        if symbol.kind() == SymbolKind::File {
            source = symbol.name_bytes().ok().filter(|name| !name.is_empty());
        }
        let source = source.filter(|_| symbol.is_local());
        named(file, &symbol).map(|named| NamedSymbol { source, ..named })
    });
    let mut symbols: Vec<NamedSymbol<'_>> = with_source.collect();
    symbols.sort_by(|one, other| one.start.cmp(&other.start).then_with(|| one.rank().cmp(&other.rank())));
    let longest = |symbols: &[NamedSymbol<'_>]| symbols.iter().map(|symbol| symbol.size).max().unwrap_or(0);
    let mut groups: Vec<(u64, u64, &NamedSymbol<'_>)> = Vec::new();
    for same in symbols.chunk_by(|one, other| one.start == other.start) {
        groups.push((same[0].start, longest(same), &same[0]));
    }
    // A label inside of a function of known size is a target of jumps, and no function.
    let mut inside_of = 0;
    groups.retain(|(start, size, _)| {
        let is_inner_label = *size == 0 && *start < inside_of;
        inside_of = inside_of.max(start.saturating_add(*size));
        !is_inner_label
    });
    let ends = section_ends(file);
    let starts: Vec<u64> = groups.iter().map(|(start, ..)| *start).chain([u64::MAX]).collect();
    let mut names = FunctionNames::default();
    let function = |(index, (start, size, symbol)): (usize, (u64, u64, &NamedSymbol<'_>))| {
        // Assembly often gives no size: the function ends where the next one begins.
        let end = match size {
            0 => starts[index + 1].min(section_end(&ends, start)),
            size => start.saturating_add(size),
        };
        FunctionRange { start, end, number: names.add(symbol.name, symbol.source) }
    };
    let functions = groups.into_iter().enumerate().map(function).collect();
    (functions, names)
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
    Some(NamedSymbol { start, size, name, source: None, is_function, is_global, is_weak })
}

fn is_code(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> bool {
    use object::ObjectSection;
    let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
    section.is_some_and(|section| section.kind() == object::SectionKind::Text)
}

/// The addresses of sections, ascending.
fn section_ends(file: &object::File<'_>) -> Vec<Range<u64>> {
    use object::ObjectSection;
    let range = |section: object::Section<'_, '_>| {
        let start = section.address();
        Some(start..start.checked_add(section.size())?).filter(|range| start > 0 && !range.is_empty())
    };
    let mut ranges: Vec<Range<u64>> = file.sections().filter_map(range).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges
}

/// The end of the section with an address.
fn section_end(sections: &[Range<u64>], address: u64) -> u64 {
    let index = sections.partition_point(|section| section.start <= address);
    let section = index.checked_sub(1).and_then(|index| sections.get(index));
    section.filter(|section| section.contains(&address)).map_or(address, |section| section.end)
}

/// Whether lines or inlined functions need a section. Others, of variables and types, are often most of a
/// file.
fn is_needed(section: gimli::SectionId) -> bool {
    use gimli::SectionId;
    matches!(
        section,
        SectionId::DebugAbbrev
            | SectionId::DebugAddr
            | SectionId::DebugAranges
            | SectionId::DebugInfo
            | SectionId::DebugLine
            | SectionId::DebugLineStr
            | SectionId::DebugRanges
            | SectionId::DebugRngLists
            | SectionId::DebugStr
            | SectionId::DebugStrOffsets
    )
}

/// A part of the debug information of a file; `None` if it has no such sections.
fn debug_information(
    file: &object::File<'_>,
    part: DebugPart,
) -> Result<Option<DebugInformation>, UnreadSection> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let section = |id: gimli::SectionId| -> Result<SectionBytes, UnreadSection> {
        let data = if is_needed(id) { section_data(file, id.name())? } else { Cow::default() };
        Ok(SectionBytes::new(data.into(), endian))
    };
    let sections = Dwarf::load(section)?;
    Ok(match part {
        DebugPart::None => None,
        DebugPart::Lines => {
            let lines = LineTables::of(sections).map_err(|_| UnreadSection::DebugInformation)?;
            Some(DebugInformation::Lines(lines))
        }
        DebugPart::InlinedFunctions => {
            Some(DebugInformation::Inlined(Box::new(InlinedFunctions::of(sections))))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_ends_what_has_no_size() {
        let sections = [10..20, 30..40];
        assert_eq!([5, 10, 19, 20, 35].map(|address| section_end(&sections, address)), [5, 20, 20, 20, 40]);
    }
}
