//! The counts of instructions, added up by what they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use cyclometer_core::SlotId;
use cyclometer_core::code::{CodeCall, CodeCounts, CodeObject, CodeOwner, CodePath, CodePlace};

use crate::call_graph::CallGraph;
use crate::code_files::CodeFiles;
use crate::code_name::CodeName;
use crate::named_object::NamedObject;
use crate::object_file::{DebugPart, ObjectFile};

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
    /// Those of the slots that count instructions, which call paths count too.
    pub instructions: Vec<SlotId>,
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

impl CountsByCode {
    /// The index of the first slot that counts instructions.
    pub fn instructions_column(&self) -> Option<usize> {
        self.slots.iter().position(|slot| self.instructions.contains(slot))
    }
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

/// Adds up counts. `files` has what names are from.
pub fn group(counts: &CodeCounts, grouping: Grouping, files: &impl CodeFiles) -> CountsByCode {
    grouped(counts, grouping, false, files)
}

/// Adds up counts by function. Functions that compilers have inlined have counts of their own, apart for
/// each function that they are inlined into ([`CodeName::inlined_into`]), as far as debug information has
/// them. An instruction belongs to the innermost of them.
pub fn group_with_inlined(counts: &CodeCounts, files: &impl CodeFiles) -> CountsByCode {
    grouped(counts, Grouping::Function, true, files)
}

fn grouped(
    counts: &CodeCounts,
    grouping: Grouping,
    has_inlined: bool,
    files: &impl CodeFiles,
) -> CountsByCode {
    let slots = counts.slots.len();
    let mut groups = Groups {
        grouping,
        has_inlined,
        rows: Vec::new(),
        row_of: HashMap::new(),
        calls: HashMap::new(),
        notes: Vec::new(),
        is_full: vec![false; slots],
        entered: HashMap::new(),
        unnamed_memory: 0,
        without_debug: Vec::new(),
    };
    let mut entered = entries_of_paths(counts, grouping);
    for (index, (places, calls)) in by_object(counts, grouping) {
        let object = index.and_then(|index| counts.objects.get(index));
        let named = groups.add(object, (places, calls), &counts.owners, files);
        for offset in entered.remove(&index).unwrap_or_default() {
            groups.entered.insert((index, offset), named.name(offset));
        }
    }
    let name = |path: &CodePath| groups.entered.get(&(path.object, path.offset)).cloned().unwrap_or_default();
    let graph = (!groups.entered.is_empty()).then(|| CallGraph::of(&counts.paths, name));
    let calls = calls_in_order(groups.calls);
    let rows = rows_in_order(groups.rows);
    let total = |slot: usize| match groups.is_full[slot] {
        true => None,
        false => rows.iter().try_fold(0_u64, |sum, row| sum.checked_add(row.counts[slot])),
    };
    let totals: Vec<Option<u64>> = (0..slots).map(total).collect();
    let all = totals.first().copied().flatten().unwrap_or(0);
    if groups.unnamed_memory > all / WORTH_A_NOTE {
        groups.notes.push(UNNAMED_MEMORY.to_owned());
    }
    groups.notes.extend(without_debug_note(groups.without_debug, all));
    CountsByCode {
        grouping,
        slots: counts.slots.clone(),
        instructions: counts.instructions.clone(),
        totals,
        rows,
        calls,
        graph,
        notes: groups.notes,
    }
}

/// The executed code and the calls of each object; `None` is code of no file.
type ByObject<'a> = BTreeMap<Option<usize>, (&'a [CodePlace], &'a [CodeCall])>;

fn by_object(counts: &CodeCounts, grouping: Grouping) -> ByObject<'_> {
    let mut found = ByObject::new();
    for places in counts.places.chunk_by(|one, other| one.object == other.object) {
        found.entry(places[0].object).or_default().0 = places;
    }
    if grouping == Grouping::Function {
        for calls in counts.calls.chunk_by(|one, other| one.object == other.object) {
            found.entry(calls[0].object).or_default().1 = calls;
        }
    }
    for path in counts.paths.iter().filter(|_| grouping != Grouping::Line) {
        found.entry(path.object).or_default();
    }
    found
}

/// The offsets, in each object, of the functions of call paths.
fn entries_of_paths(counts: &CodeCounts, grouping: Grouping) -> BTreeMap<Option<usize>, BTreeSet<u64>> {
    let mut entries: BTreeMap<Option<usize>, BTreeSet<u64>> = BTreeMap::new();
    for path in counts.paths.iter().filter(|_| grouping != Grouping::Line) {
        entries.entry(path.object).or_default().insert(path.offset);
    }
    entries
}

/// The most frequent calls first.
fn calls_in_order(calls: HashMap<(CodeName, Option<CodeName>), u64>) -> Vec<CallsOfFunction> {
    let call = |((caller, callee), times)| CallsOfFunction { caller, callee, times };
    let mut calls: Vec<CallsOfFunction> = calls.into_iter().map(call).collect();
    calls.sort_by(|one, other| {
        let names = (&one.caller, &one.callee).cmp(&(&other.caller, &other.callee));
        other.times.cmp(&one.times).then(names)
    });
    calls
}

/// The greatest counts first.
fn rows_in_order(mut rows: Vec<CountsOfCode>) -> Vec<CountsOfCode> {
    rows.sort_by(|one, other| other.counts.cmp(&one.counts).then_with(|| one.name.cmp(&other.name)));
    rows
}

/// The part of the first count from which code without names is worth a note: one in so many.
const WORTH_A_NOTE: u64 = 100;

/// The note about code that processes made and did not name.
const UNNAMED_MEMORY: &str = "[no file] has code that was made at run time and has no names: start node with \
     --perf-basic-prof, Java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, others so that they write /tmp/perf-PID.map";

/// A note about files of code without debug information, each with its first count, where inlined functions
/// were asked for.
fn without_debug_note(mut files: Vec<(String, u64)>, all: u64) -> Option<String> {
    files.retain(|(_, count)| *count > all / WORTH_A_NOTE);
    files.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    let paths: Vec<String> = files.into_iter().map(|(path, _)| path).collect();
    let why = "no inlined functions: no debug information; compile with -g";
    (!paths.is_empty()).then(|| format!("{}: {why}", paths.join(", ")))
}

/// The first address of a function, the function that is inlined into it, and the index of the process or
/// thread.
type RowKey = (Option<u64>, Option<Rc<str>>, Option<usize>);

struct Groups {
    grouping: Grouping,
    /// Whether inlined functions are apart.
    has_inlined: bool,
    rows: Vec<CountsOfCode>,
    /// The index of the row of a name.
    row_of: HashMap<CodeName, usize>,
    /// The number of calls, by caller and callee.
    calls: HashMap<(CodeName, Option<CodeName>), u64>,
    notes: Vec<String>,
    /// Whether the sum of a row does not fit in 64 bits, for each slot.
    is_full: Vec<bool>,
    /// The names of functions, by the place where they were entered.
    entered: HashMap<(Option<usize>, u64), CodeName>,
    /// The first count of code that processes made and that has no name.
    unnamed_memory: u64,
    /// The files without debug information, each with its first count, where inlined functions are apart.
    without_debug: Vec<(String, u64)>,
}

impl Groups {
    /// Adds the counts of a file or of memory, and gives its names.
    fn add(
        &mut self,
        object: Option<&CodeObject>,
        (places, calls): (&[CodePlace], &[CodeCall]),
        owners: &[CodeOwner],
        files: &impl CodeFiles,
    ) -> NamedObject {
        let named = object.map_or_else(NamedObject::default, |object| self.open(object, files));
        // The name of a function is looked up once for all of its instructions.
        let mut known: HashMap<RowKey, usize> = HashMap::new();
        let mut latest: Option<(RowKey, usize)> = None;
        let first = |place: &CodePlace| place.counts.first().copied().unwrap_or(0);
        let owner = |index: Option<usize>| index.and_then(|index| owners.get(index)).cloned();
        let is_memory = object.is_some_and(|object| object.memory.is_some());
        for place in places {
            let function = named.function_start(place.offset);
            if is_memory && function.is_none() && self.grouping != Grouping::Object {
                self.unnamed_memory = self.unnamed_memory.saturating_add(first(place));
            }
            if self.grouping == Grouping::Line {
                let name = CodeName { owner: owner(place.owner), ..named.name_with_line(place.offset) };
                let row = self.row(name, place.counts.len());
                self.count(row, &place.counts);
                continue;
            }
            let has_inlined = self.has_inlined && function.is_some();
            let inlined = has_inlined.then(|| named.inlined_function(place.offset)).flatten();
            let key = (function, inlined, place.owner);
            let row = match &latest {
                Some((same, row)) if *same == key => *row,
                _ => {
                    let row = *known.entry(key.clone()).or_insert_with(|| {
                        let name = self.function_name(&named, place.offset);
                        self.row(CodeName { owner: owner(place.owner), ..name }, place.counts.len())
                    });
                    latest = Some((key, row));
                    row
                }
            };
            self.count(row, &place.counts);
        }
        for call in calls {
            let owned = |name| CodeName { owner: owner(call.owner), ..name };
            let callee = |distance| owned(named.name_from(call.offset, distance));
            let caller = owned(self.function_name(&named, call.offset));
            let key = (caller, call.distance.map(callee));
            let sum = self.calls.entry(key).or_default();
            *sum = sum.saturating_add(call.times);
        }
        if let (Some(object), Some(file)) = (object, named.file()) {
            let what = if self.has_inlined { "inlined functions" } else { "lines" };
            let missing = file.missing();
            self.notes
                .extend(missing.map(|why| format!("{}: some {what} may be missing: {why}", object.path)));
            if self.has_inlined && !file.has_debug_information() && file.unread().is_none() {
                let count = places.iter().map(first).fold(0, u64::saturating_add);
                self.without_debug.push((object.path.clone(), count));
            }
        }
        named
    }

    /// The name of the function at an offset.
    fn function_name(&self, named: &NamedObject, offset: u64) -> CodeName {
        if self.has_inlined { named.name_with_inlined(offset) } else { named.name(offset) }
    }

    /// The row of a name, with so many counts.
    fn row(&mut self, name: CodeName, counts: usize) -> usize {
        let next = self.rows.len();
        let row = *self.row_of.entry(name.clone()).or_insert(next);
        if row == next {
            self.rows.push(CountsOfCode { name, counts: vec![0; counts] });
        }
        row
    }

    fn count(&mut self, row: usize, counts: &[u64]) {
        let sums = &mut self.rows[row].counts;
        for ((sum, count), is_full) in sums.iter_mut().zip(counts).zip(&mut self.is_full) {
            *is_full |= sum.checked_add(*count).is_none();
            *sum = sum.saturating_add(*count);
        }
    }

    /// A file or memory with its names. Where they are missing there is a note.
    fn open(&mut self, object: &CodeObject, files: &impl CodeFiles) -> NamedObject {
        if let Some(memory) = object.memory {
            let files = if self.grouping == Grouping::Object { Vec::new() } else { files.name_files(memory) };
            return NamedObject::of_memory(files, &mut self.notes);
        }
        let path = &object.path;
        if self.grouping == Grouping::Object || path.is_empty() {
            return NamedObject::of_file(path, None);
        }
        let Some(file) = files.counted_file(object) else {
            self.notes.push(format!("{path}: no names: it was replaced since, or cannot be read"));
            return NamedObject::of_file(path, None);
        };
        let (part, what) = match self.grouping {
            Grouping::Line => (DebugPart::Lines, "lines"),
            Grouping::Function if self.has_inlined => (DebugPart::InlinedFunctions, "inlined functions"),
            Grouping::Function | Grouping::Object => (DebugPart::None, ""),
        };
        match ObjectFile::open(&file, part) {
            Ok(file) => {
                if let Some(why) = file.unread() {
                    self.notes.push(format!("{path}: no {what}: {why}"));
                }
                NamedObject::of_file(path, Some(file))
            }
            Err(error) => {
                self.notes.push(format!("{path}: no names: {error}"));
                NamedObject::of_file(path, None)
            }
        }
    }
}
