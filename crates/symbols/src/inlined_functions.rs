//! Functions that a compiler has inlined, from debug information.
//!
//! # Problem
//!
//! The instructions of an inlined function lie in the function around it, whose name the symbol table has.
//! Debug information has the address ranges of each inlined function, which nest. `addr2line` finds the whole
//! chain of them, but recurses for each level, so that a damaged file can use up the stack. It also
//! reads the line tables, which names do not need.
//!
//! # Solution
//!
//! The entries of a unit are read one after the other, once, when an address of the unit is looked up. Their
//! ranges are made disjoint ([`innermost`]), and the name of an entry is found when it is needed. So time
//! and memory follow from the code that was executed.
//!
//! # Source
//!
//! DWARF Debugging Information Format, Version 5, sections 2.15 to 2.17 and 3.3.8.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use gimli::{
    AbbreviationsCacheStrategy, Attribute, AttributeValue, DebugInfoOffset, Dwarf, EndianRcSlice,
    RangeListsOffset, RunTimeEndian, Unit, UnitRef,
};

use crate::demangled::demangled;
use crate::innermost::{at, innermost};

/// The bytes of a section.
pub(crate) type SectionBytes = EndianRcSlice<RunTimeEndian>;

/// The most ranges of inlined functions that are read from one file: damaged files can have as many as the
/// square of their length.
const MOST_RANGES: usize = 16_000_000;

/// The most entries on the way from an inlined function to its name.
const MOST_STEPS: usize = 16;

/// The reason why debug information is missing, in words that follow the path.
pub(crate) const DAMAGED: &str = "its debug information is damaged";

/// The inlined functions of a file.
pub(crate) struct InlinedFunctions {
    dwarf: Dwarf<SectionBytes>,
    /// Ascending by offset.
    units: Vec<DebugUnit>,
    /// Addresses with the index of their unit, ascending and disjoint.
    ranges: Vec<(Range<u64>, u32)>,
    /// The names that were looked up, by the offset of the inlined function's entry.
    names: RefCell<HashMap<usize, Option<Rc<str>>>>,
    /// The ranges that may still be read.
    left: Cell<usize>,
    missing: Cell<Option<MissingInlined>>,
}

/// The reason why inlined functions of a file are missing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MissingInlined {
    /// The names are in a file that several files share.
    Supplementary,
    /// The compiler has put the debug information into files of its own.
    Split,
    /// The debug information is damaged.
    Damaged,
}

impl MissingInlined {
    /// The reason, in words that follow the path.
    pub(crate) fn text(self) -> &'static str {
        match self {
            MissingInlined::Supplementary => {
                "names of its debug information are in another file, which is not read"
            }
            MissingInlined::Split => {
                "its debug information is in .dwo files, which are not read: compile without -gsplit-dwarf"
            }
            MissingInlined::Damaged => DAMAGED,
        }
    }
}

/// A unit of debug information, which is that of a file of source code.
struct DebugUnit {
    unit: Unit<SectionBytes>,
    inlined: OnceCell<InlinedRanges>,
}

/// The inlined functions of a unit.
#[derive(Default)]
struct InlinedRanges {
    /// The offsets of their entries in the section.
    entries: Vec<usize>,
    /// Addresses with the index of their innermost function, ascending and disjoint.
    ranges: Vec<(Range<u64>, u32)>,
}

/// A range of an inlined function.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NestedRange {
    start: u64,
    /// The number of inlined functions around it.
    level: usize,
    end: u64,
    /// The index of its function.
    function: u32,
}

impl InlinedFunctions {
    /// Finds the units of debug information.
    pub(crate) fn of(mut dwarf: Dwarf<SectionBytes>) -> InlinedFunctions {
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let (units, ranges, names) = (Vec::new(), Vec::new(), RefCell::default());
        let (left, missing) = (Cell::new(MOST_RANGES), Cell::new(None));
        let mut functions = InlinedFunctions { dwarf, units, ranges, names, left, missing };
        let mut unit_ranges = Vec::new();
        if functions.read_units(&mut unit_ranges).is_err() {
            functions.note_missing(MissingInlined::Damaged);
        }
        // The ranges of units are disjoint, unless a file is damaged.
        unit_ranges.sort_by_key(|(range, unit): &(Range<u64>, u32)| (range.start, *unit));
        let parts = innermost(unit_ranges.iter().map(|(range, _)| range.clone()));
        functions.ranges =
            parts.into_iter().map(|(range, index)| (range, unit_ranges[index as usize].1)).collect();
        functions
    }

    fn read_units(&mut self, ranges: &mut Vec<(Range<u64>, u32)>) -> gimli::Result<()> {
        let mut headers = self.dwarf.units();
        while let Some(header) = headers.next()? {
            let mut own = Vec::new();
            let found = self.dwarf.unit(header).and_then(|unit| {
                self.unit_ranges(unit.unit_ref(&self.dwarf), |range| own.push(range))?;
                Ok(unit)
            });
            let Ok(unit) = found else {
                self.note_missing(MissingInlined::Damaged);
                continue;
            };
            let index = self.units.len() as u32;
            ranges.extend(own.into_iter().map(|range| (range, index)));
            self.units.push(DebugUnit { unit, inlined: OnceCell::new() });
        }
        Ok(())
    }

    fn unit_ranges(&self, unit: UnitRef<'_, SectionBytes>, add: impl FnMut(Range<u64>)) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(()) };
        let mut addresses = AddressAttributes::default();
        for specification in abbreviation.attributes() {
            addresses.read(unit, &entries.read_attribute(*specification)?)?;
        }
        self.ranges_of(addresses, unit, add)
    }

    /// Notes a reason; the graver one stays.
    fn note_missing(&self, why: MissingInlined) {
        self.missing.set(self.missing.get().max(Some(why)));
    }

    /// The reason why functions are missing, as far as the look-ups so far show it.
    pub(crate) fn missing(&self) -> Option<MissingInlined> {
        self.missing.get()
    }

    /// The name of the innermost inlined function at an address; `None`: the code is that of a function that
    /// is not inlined.
    pub(crate) fn name(&self, address: u64) -> Option<Rc<str>> {
        let unit = &self.units[at(&self.ranges, address)? as usize];
        let inlined = unit.inlined.get_or_init(|| self.read_inlined(&unit.unit));
        let entry = inlined.entries[at(&inlined.ranges, address)? as usize];
        let known = self.names.borrow().get(&entry).cloned();
        known.unwrap_or_else(|| {
            let name = self.entry_name(entry).unwrap_or_else(|why| {
                self.note_missing(why);
                None
            });
            self.names.borrow_mut().insert(entry, name.clone());
            name
        })
    }

    fn read_inlined(&self, unit: &Unit<SectionBytes>) -> InlinedRanges {
        if unit.dwo_id.is_some() {
            self.note_missing(MissingInlined::Split);
        }
        let (mut entries, mut ranges) = (Vec::new(), Vec::new());
        if self.read_entries(unit.unit_ref(&self.dwarf), &mut entries, &mut ranges).is_err() {
            // The entries before the damage are right.
            self.note_missing(MissingInlined::Damaged);
        }
        ranges.sort_unstable();
        let parts = innermost(ranges.iter().map(|range| range.start..range.end));
        let ranges = parts.into_iter().map(|(part, index)| (part, ranges[index as usize].function)).collect();
        InlinedRanges { entries, ranges }
    }

    fn read_entries(
        &self,
        unit: UnitRef<'_, SectionBytes>,
        functions: &mut Vec<usize>,
        ranges: &mut Vec<NestedRange>,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // The depths of the inlined functions around an entry.
        let mut around: Vec<isize> = Vec::new();
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else { continue };
            while around.last().is_some_and(|outer| *outer >= depth) {
                around.pop();
            }
            if abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut addresses = AddressAttributes::default();
            for specification in abbreviation.attributes() {
                addresses.read(unit, &entries.read_attribute(*specification)?)?;
            }
            let (function, level) = (functions.len() as u32, around.len());
            self.ranges_of(addresses, unit, |Range { start, end }| {
                ranges.push(NestedRange { start, level, end, function });
            })?;
            let entry = offset.to_debug_info_offset(&unit.header);
            functions.push(entry.map_or(usize::MAX, |entry| entry.0));
            around.push(depth);
        }
        Ok(())
    }

    /// The ranges of an entry that are not empty.
    fn ranges_of(
        &self,
        addresses: AddressAttributes,
        unit: UnitRef<'_, SectionBytes>,
        mut add: impl FnMut(Range<u64>),
    ) -> gimli::Result<()> {
        let mut add = |start, end| {
            let Some(left) = self.left.get().checked_sub(1) else {
                self.note_missing(MissingInlined::Damaged);
                return false;
            };
            self.left.set(left);
            if start < end {
                add(start..end);
            }
            true
        };
        if let Some(list) = addresses.list {
            let mut list = unit.ranges(list)?;
            while let Some(range) = list.next()? {
                if !add(range.begin, range.end) {
                    break;
                }
            }
        } else if let Some(start) = addresses.low {
            let end = addresses.len.map(|len| start.saturating_add(len)).or(addresses.high);
            add(start, end.unwrap_or(start));
        }
        Ok(())
    }

    /// The name of the function of an entry: that for the linker, of it or of an entry that it is made from,
    /// else the first one in the source code. Entries that lead in a circle have none.
    fn entry_name(&self, entry: usize) -> Result<Option<Rc<str>>, MissingInlined> {
        let damaged = |_| MissingInlined::Damaged;
        let (mut offset, mut in_source) = (entry, None);
        for _ in 0..MOST_STEPS {
            let unit = self.unit_of(offset).ok_or(MissingInlined::Damaged)?;
            let within = DebugInfoOffset(offset).to_unit_offset(&unit.header);
            let entry = unit.entry(within.ok_or(MissingInlined::Damaged)?).map_err(damaged)?;
            let (mut linkage, mut next) = (None, None);
            for attribute in entry.attrs() {
                match attribute.name() {
                    gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                        linkage = Some(text(unit, attribute)?);
                    }
                    gimli::DW_AT_name if in_source.is_none() => in_source = Some(text(unit, attribute)?),
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                        next = Some(section_offset(unit, attribute)?);
                    }
                    _ => {}
                }
            }
            if let Some(symbol) = linkage.filter(|symbol| !symbol.is_empty()) {
                return Ok(Some(demangled(&symbol).into()));
            }
            let Some(next) = next else {
                let name = in_source.filter(|name| !name.is_empty());
                return Ok(name.map(|name| demangled(&name).into()));
            };
            offset = next;
        }
        Err(MissingInlined::Damaged)
    }

    /// The unit with an offset in the section.
    fn unit_of(&self, offset: usize) -> Option<UnitRef<'_, SectionBytes>> {
        let start = |unit: &DebugUnit| unit.unit.header.debug_info_offset().map_or(0, |start| start.0);
        let index = self.units.partition_point(|unit| start(unit) <= offset).checked_sub(1)?;
        Some(self.units[index].unit.unit_ref(&self.dwarf))
    }
}

/// The bytes of a name.
fn text(
    unit: UnitRef<'_, SectionBytes>,
    attribute: &Attribute<SectionBytes>,
) -> Result<Vec<u8>, MissingInlined> {
    match attribute.value() {
        AttributeValue::DebugStrRefSup(_) => Err(MissingInlined::Supplementary),
        value => {
            let found = unit.attr_string(value).map_err(|_| MissingInlined::Damaged)?;
            Ok(found.bytes().to_vec())
        }
    }
}

/// The offset in the section of the entry that an attribute refers to.
fn section_offset(
    unit: UnitRef<'_, SectionBytes>,
    attribute: &Attribute<SectionBytes>,
) -> Result<usize, MissingInlined> {
    match attribute.value() {
        AttributeValue::UnitRef(offset) => {
            let within = offset.to_debug_info_offset(&unit.header);
            within.map(|offset| offset.0).ok_or(MissingInlined::Damaged)
        }
        AttributeValue::DebugInfoRef(offset) => Ok(offset.0),
        AttributeValue::DebugInfoRefSup(_) => Err(MissingInlined::Supplementary),
        _ => Err(MissingInlined::Damaged),
    }
}

/// The attributes of an entry that say where its code is.
#[derive(Default)]
struct AddressAttributes {
    low: Option<u64>,
    high: Option<u64>,
    len: Option<u64>,
    list: Option<RangeListsOffset<usize>>,
}

impl AddressAttributes {
    fn read(
        &mut self,
        unit: UnitRef<'_, SectionBytes>,
        attribute: &Attribute<SectionBytes>,
    ) -> gimli::Result<()> {
        match attribute.name() {
            gimli::DW_AT_low_pc => self.low = unit.attr_address(attribute.value())?,
            gimli::DW_AT_high_pc => match attribute.value() {
                AttributeValue::Udata(len) => self.len = Some(len),
                value => self.high = unit.attr_address(value)?,
            },
            gimli::DW_AT_ranges => self.list = unit.attr_ranges_offset(attribute.value())?,
            _ => {}
        }
        Ok(())
    }
}
