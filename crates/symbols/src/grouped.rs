//! The counts of instructions, added up by what they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use cyclometer_core::SlotId;
use cyclometer_core::code::{CodeCall, CodeCounts, CodeObject, CodePath, CodePlace};

use crate::call_graph::CallGraph;
use crate::code_name::CodeName;
use crate::object_file::{FunctionSymbol, ObjectFile};

/// The kind of code that counts are added up by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Functions.
    Function,
    /// Lines of source code.
    Line,
    /// Files of code: the program and its libraries.
    Object,
}

impl Grouping {
    /// Every grouping.
    pub const ALL: [Grouping; 3] = [Grouping::Function, Grouping::Line, Grouping::Object];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Grouping::Function => "function",
            Grouping::Line => "line",
            Grouping::Object => "object",
        }
    }
}

/// The counts of one function, line or file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountsOfCode {
    /// Its name.
    pub name: CodeName,
    /// The count of each slot.
    pub counts: Vec<u64>,
}

/// Counts by function, line or file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountsByCode {
    /// The kind of code that they are added up by.
    pub grouping: Grouping,
    /// The slots, in the order of [`CountsOfCode::counts`].
    pub slots: Vec<SlotId>,
    /// A row for each, largest first. Their counts add up to [`CountsByCode::totals`].
    pub rows: Vec<CountsOfCode>,
    /// The sum over all rows of each slot; `None` where it does not fit in 64 bits.
    pub totals: Vec<Option<u64>>,
    /// Calls between functions, most first; none where counts are not by function.
    pub calls: Vec<CallsOfFunction>,
    /// Inclusive counts, where the counts have call paths and are not by line.
    pub graph: Option<CallGraph>,
    /// Files whose names are missing, and why.
    pub notes: Vec<String>,
}

/// The calls of one function by another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallsOfFunction {
    /// The function with the call instructions.
    pub caller: CodeName,
    /// The function that they lead to; `None`: the target was in a register or in memory, and is unknown.
    pub callee: Option<CodeName>,
    /// The number of calls.
    pub times: u64,
}

/// Adds up counts. `is_unchanged` says whether a file is still the one that was counted; names of a replaced
/// file would be wrong.
pub fn group(
    counts: &CodeCounts,
    grouping: Grouping,
    is_unchanged: impl Fn(&CodeObject) -> bool,
) -> CountsByCode {
    let slots = counts.slots.len();
    let mut groups = Groups {
        grouping,
        rows: HashMap::new(),
        calls: HashMap::new(),
        notes: Vec::new(),
        is_full: vec![false; slots],
        entered: HashMap::new(),
    };
    let mut of_objects: BTreeMap<Option<usize>, (&[CodePlace], &[CodeCall])> = BTreeMap::new();
    for places in counts.places.chunk_by(|one, other| one.object == other.object) {
        of_objects.entry(places[0].object).or_default().0 = places;
    }
    if grouping == Grouping::Function {
        for calls in counts.calls.chunk_by(|one, other| one.object == other.object) {
            of_objects.entry(calls[0].object).or_default().1 = calls;
        }
    }
    let mut entered: BTreeMap<Option<usize>, BTreeSet<u64>> = BTreeMap::new();
    for path in counts.paths.iter().filter(|_| grouping != Grouping::Line) {
        entered.entry(path.object).or_default().insert(path.offset);
        of_objects.entry(path.object).or_default();
    }
    for (index, (places, calls)) in of_objects {
        let object = index.and_then(|index| counts.objects.get(index));
        let file = groups.add(object, places, calls, &is_unchanged);
        for offset in entered.remove(&index).unwrap_or_default() {
            let name = name_of(object, file.as_ref().and_then(|file| file.function(offset)));
            groups.entered.insert((index, offset), name);
        }
    }
    let name = |path: &CodePath| {
        let unknown = || name_of(None, None);
        groups.entered.get(&(path.object, path.offset)).cloned().unwrap_or_else(unknown)
    };
    let graph = (!groups.entered.is_empty()).then(|| CallGraph::of(&counts.paths, name));
    let calls = groups.calls.into_iter();
    let mut calls: Vec<CallsOfFunction> =
        calls.map(|((caller, callee), times)| CallsOfFunction { caller, callee, times }).collect();
    calls.sort_by(|one, other| {
        let names = (&one.caller, &one.callee).cmp(&(&other.caller, &other.callee));
        other.times.cmp(&one.times).then(names)
    });
    let mut rows: Vec<CountsOfCode> =
        groups.rows.into_iter().map(|(name, counts)| CountsOfCode { name, counts }).collect();
    rows.sort_by(|one, other| other.counts.cmp(&one.counts).then_with(|| one.name.cmp(&other.name)));
    let total = |slot: usize| match groups.is_full[slot] {
        true => None,
        false => rows.iter().try_fold(0_u64, |sum, row| sum.checked_add(row.counts[slot])),
    };
    let totals = (0..slots).map(total).collect();
    CountsByCode { grouping, slots: counts.slots.clone(), totals, rows, calls, graph, notes: groups.notes }
}

struct Groups {
    grouping: Grouping,
    rows: HashMap<CodeName, Vec<u64>>,
    /// The number of calls, by caller and callee.
    calls: HashMap<(CodeName, Option<CodeName>), u64>,
    notes: Vec<String>,
    /// Whether the sum of a row does not fit in 64 bits, for each slot.
    is_full: Vec<bool>,
    /// The names of functions, by the place where they were entered.
    entered: HashMap<(Option<usize>, u64), CodeName>,
}

fn name_of(object: Option<&CodeObject>, function: Option<&FunctionSymbol>) -> CodeName {
    CodeName {
        object: object.map(|object| object.path.clone()),
        function: function.map(|function| function.name.clone()),
        line: None,
    }
}

impl Groups {
    /// Adds the counts of a file, and gives the file with its names.
    fn add(
        &mut self,
        object: Option<&CodeObject>,
        places: &[CodePlace],
        calls: &[CodeCall],
        is_unchanged: &impl Fn(&CodeObject) -> bool,
    ) -> Option<ObjectFile> {
        let file = object.and_then(|object| self.open(object, is_unchanged));
        // A function is looked up once for all of its instructions.
        let mut names: BTreeMap<u64, CodeName> = BTreeMap::new();
        for place in places {
            let function = file.as_ref().and_then(|file| file.function(place.offset));
            let line = match self.grouping {
                Grouping::Line => file.as_ref().and_then(|file| file.line(place.offset)),
                _ => None,
            };
            let name = || CodeName {
                object: object.map(|object| object.path.clone()),
                function: function.map(|function| function.name.clone()),
                line: line.clone(),
            };
            let name = match (self.grouping, function) {
                (Grouping::Function, Some(function)) => {
                    names.entry(function.start).or_insert_with(name).clone()
                }
                _ => name(),
            };
            self.count(name, &place.counts);
        }
        let name = |function: Option<&FunctionSymbol>| name_of(object, function);
        for call in calls {
            let caller = name(file.as_ref().and_then(|file| file.function(call.offset)));
            let callee =
                |distance| name(file.as_ref().and_then(|file| file.function_from(call.offset, distance)));
            let sum = self.calls.entry((caller, call.distance.map(callee))).or_default();
            *sum = sum.saturating_add(call.times);
        }
        file
    }

    fn count(&mut self, name: CodeName, counts: &[u64]) {
        let sums = self.rows.entry(name).or_insert_with(|| vec![0; counts.len()]);
        for ((sum, count), is_full) in sums.iter_mut().zip(counts).zip(&mut self.is_full) {
            *is_full |= sum.checked_add(*count).is_none();
            *sum = sum.saturating_add(*count);
        }
    }

    /// The file with its names; `None`, with a note, where they are missing.
    fn open(
        &mut self,
        object: &CodeObject,
        is_unchanged: &impl Fn(&CodeObject) -> bool,
    ) -> Option<ObjectFile> {
        if self.grouping == Grouping::Object || object.path.is_empty() {
            return None;
        }
        if !is_unchanged(object) {
            self.notes.push(format!("{}: no names: it was replaced since, or cannot be read", object.path));
            return None;
        }
        match ObjectFile::open(Path::new(&object.path), self.grouping == Grouping::Line) {
            Ok(file) => {
                if file.has_compressed_lines() {
                    let remedy = "objcopy --decompress-debug-sections FILE expands them";
                    let path = &object.path;
                    self.notes.push(format!("{path}: no lines: its debug sections are compressed; {remedy}"));
                }
                Some(file)
            }
            Err(error) => {
                self.notes.push(format!("{}: no names: {error}", object.path));
                None
            }
        }
    }
}
