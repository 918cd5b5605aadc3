//! The counts by code of two commands, matched by name: which functions or files changed.
//!
//! A function of one program is the function of the same name in the other. Programs and libraries are built
//! in other folders and under other names, functions move to another file, and compilers cut parts off under
//! names of their own, so matches are looked for in steps, each among what the steps before have left:
//!
//! 1. Files: by path; by the last part of the path; by the number of functions that they share, which is at
//!    least half of those of the smaller one; the last program of each side. Functions that compilers and
//!    linkers put into every file are not looked at.
//! 2. Functions of matched files by name.
//!
//! An inlined function with counts of its own is matched by its name and by that of the function around it.
//!
//! 3. Functions of any file by name, then by name without a compiler's ending (`.part.0`), where each side
//!    has one.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::code_name::CodeName;
use crate::grouped::{CountsByCode, Grouping};

/// The counts by code over several runs of one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeSeries {
    /// The kind of code that they are added up by.
    pub grouping: Grouping,
    /// Whether inlined functions have rows of their own.
    pub has_inlined: bool,
    /// The name of each event.
    pub events: Vec<String>,
    /// The number of runs.
    pub runs: usize,
    /// For each function or file the counts of each run, in the order of the events.
    pub rows: BTreeMap<CodeName, Vec<Vec<u64>>>,
    /// The events that are left out; the notes have the reason for each.
    pub left_out: Vec<String>,
    /// Why names are missing, and why events and runs are left out.
    pub notes: Vec<String>,
}

impl CodeSeries {
    /// The counts of no run.
    pub fn new(grouping: Grouping, events: Vec<String>) -> CodeSeries {
        let (rows, left_out, notes) = Default::default();
        CodeSeries { grouping, has_inlined: false, events, runs: 0, rows, left_out, notes }
    }

    /// The same with inlined functions as parts of the functions around them; `None` where a sum does not fit
    /// in 64 bits.
    pub fn without_inlined(self) -> Option<CodeSeries> {
        let mut rows: BTreeMap<CodeName, Vec<Vec<u64>>> = BTreeMap::new();
        for (name, counts) in self.rows {
            let name = match name.inlined_into {
                Some(around) => CodeName { function: Some(around), inlined_into: None, ..name },
                None => name,
            };
            match rows.entry(name) {
                Entry::Vacant(row) => {
                    row.insert(counts);
                }
                Entry::Occupied(mut row) => {
                    for (sum, count) in row.get_mut().iter_mut().flatten().zip(counts.iter().flatten()) {
                        *sum = sum.checked_add(*count)?;
                    }
                }
            }
        }
        Some(CodeSeries { rows, has_inlined: false, ..self })
    }

    /// Adds a run. Code that it did not execute has a count of zero in it.
    pub fn add(&mut self, run: CountsByCode) {
        let none = || vec![0; self.events.len()];
        for row in run.rows {
            let counts = self.rows.entry(row.name).or_default();
            counts.resize_with(self.runs, none);
            counts.push(row.counts);
        }
        self.runs += 1;
        self.rows.values_mut().for_each(|counts| counts.resize_with(self.runs, none));
        for note in run.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    /// The sum over all rows of an event in each run; `None` where it does not fit in 64 bits.
    pub fn totals(&self, event: usize) -> Vec<Option<u64>> {
        let of_run =
            |run: usize| self.rows.values().try_fold(0_u64, |sum, row| sum.checked_add(row[run][event]));
        (0..self.runs).map(of_run).collect()
    }
}

/// The note on an event that is left out, with the reason.
pub fn left_out_note(event: &str, reason: &str) -> String {
    format!("{event} is not compared by code: {reason}")
}

/// How the code of two commands was matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeMatch {
    /// By name, in files that belong together.
    Same,
    /// By name, in a file that does not belong to that of the other.
    Moved,
    /// By the name without a compiler's ending.
    Renamed,
    /// One side did not execute it, or does not have it.
    OneSide,
}

impl CodeMatch {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            CodeMatch::Same => "same",
            CodeMatch::Moved => "moved",
            CodeMatch::Renamed => "renamed",
            CodeMatch::OneSide => "one_side",
        }
    }
}

/// The counts of an event on both sides, for each run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeCountsOfSides {
    /// The runs of A.
    pub a: Vec<u64>,
    /// The runs of B.
    pub b: Vec<u64>,
}

impl CodeCountsOfSides {
    /// The change from A to B; of runs that differ, that of their means.
    pub fn change(&self) -> f64 {
        match self.exact() {
            Some(change) => change as f64,
            None => mean(&self.b) - mean(&self.a),
        }
    }

    /// The change, if all runs of A have one count and all runs of B have one.
    pub fn exact(&self) -> Option<i128> {
        let one = |runs: &[u64]| runs.first().copied().filter(|first| runs.iter().all(|run| run == first));
        let (a, b) = (one(&self.a)?, one(&self.b)?);
        Some(i128::from(b) - i128::from(a))
    }

    /// Whether there is any difference between the sides or between runs.
    fn differs(&self) -> bool {
        self.exact() != Some(0)
    }
}

/// The mean of some counts; that of none is zero.
pub fn mean(counts: &[u64]) -> f64 {
    counts.iter().map(|count| *count as f64).sum::<f64>() / counts.len().max(1) as f64
}

/// A function or file whose counts differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeChange {
    /// Its name in A; `None`: A has none.
    pub a: Option<CodeName>,
    /// Its name in B; `None`: B has none.
    pub b: Option<CodeName>,
    /// How the two were matched.
    pub matched: CodeMatch,
    /// The counts of each event of [`CodeChanges::events`].
    pub counts: Vec<CodeCountsOfSides>,
}

/// The differences between the counts by code of two commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeChanges {
    /// The kind of code that is compared.
    pub grouping: Grouping,
    /// Whether inlined functions have rows of their own on either side.
    pub has_inlined: bool,
    /// The events that both have.
    pub events: Vec<String>,
    /// The sums over all rows of each event; a sum that does not fit in 64 bits is left out.
    pub totals: Vec<CodeCountsOfSides>,
    /// The functions or files that differ, in no order.
    pub changes: Vec<CodeChange>,
    /// The number of functions or files that are the same.
    pub unchanged: usize,
    /// The files that were matched although their names differ, of A and of B.
    pub renamed_files: Vec<(String, String)>,
}

impl CodeChanges {
    /// The changes of an event, largest first.
    pub fn largest(&self, event: usize) -> Vec<&CodeChange> {
        let size = |change: &CodeChange| change.counts[event].change().abs();
        let mut changes: Vec<&CodeChange> =
            self.changes.iter().filter(|change| change.counts[event].differs()).collect();
        changes.sort_by(|one, other| {
            let by_size = size(other).total_cmp(&size(one));
            by_size.then_with(|| (&one.b, &one.a).cmp(&(&other.b, &other.a)))
        });
        changes
    }
}

/// Compares the code of two commands by the events that both have. There are none where a side has no run.
pub fn changes(a: &CodeSeries, b: &CodeSeries) -> CodeChanges {
    let has_runs = a.runs > 0 && b.runs > 0;
    let index_in_b = |event: &String| b.events.iter().position(|other| has_runs && other == event);
    let events: Vec<(usize, usize)> =
        a.events.iter().enumerate().filter_map(|(i, event)| Some((i, index_in_b(event)?))).collect();
    let column = |rows: Option<&Vec<Vec<u64>>>, runs: usize, event: usize| match rows {
        Some(rows) => rows.iter().map(|run| run[event]).collect(),
        None => vec![0; runs],
    };
    let files = matched_files(a, b);
    let mut renamed_files: Vec<(String, String)> = files
        .iter()
        .filter(|(of_a, of_b)| base(of_a) != base(of_b))
        .map(|(of_a, of_b)| ((*of_a).to_owned(), (*of_b).to_owned()))
        .collect();
    renamed_files.sort();
    let all = matches(a, b, &files).into_iter().map(|(of_a, of_b, matched)| {
        let rows = (of_a.and_then(|name| a.rows.get(name)), of_b.and_then(|name| b.rows.get(name)));
        let counts = events.iter().map(|(in_a, in_b)| CodeCountsOfSides {
            a: column(rows.0, a.runs, *in_a),
            b: column(rows.1, b.runs, *in_b),
        });
        CodeChange { a: of_a.cloned(), b: of_b.cloned(), matched, counts: counts.collect() }
    });
    let (changes, same): (Vec<CodeChange>, Vec<CodeChange>) =
        all.partition(|change| change.counts.iter().any(CodeCountsOfSides::differs));
    let totals = events.iter().map(|(in_a, in_b)| CodeCountsOfSides {
        a: a.totals(*in_a).into_iter().flatten().collect(),
        b: b.totals(*in_b).into_iter().flatten().collect(),
    });
    CodeChanges {
        grouping: a.grouping,
        has_inlined: a.has_inlined || b.has_inlined,
        totals: totals.collect(),
        events: events.iter().map(|(in_a, _)| a.events[*in_a].clone()).collect(),
        changes,
        unchanged: same.len(),
        renamed_files,
    }
}

type Matched<'a> = (Option<&'a CodeName>, Option<&'a CodeName>, CodeMatch);

/// Every row of both sides, once.
fn matches<'a>(a: &'a CodeSeries, b: &'a CodeSeries, files: &HashMap<&'a str, &'a str>) -> Vec<Matched<'a>> {
    let mut left_b: BTreeSet<&CodeName> = b.rows.keys().collect();
    let (mut found, mut left_a) = (Vec::new(), Vec::new());
    for name in a.rows.keys() {
        let file = name.object.as_deref().map(|file| files.get(file).copied());
        let in_b = file != Some(None);
        let wanted = CodeName { object: file.flatten().map(str::to_owned), ..name.clone() };
        match left_b.get(&wanted).copied().filter(|_| in_b) {
            Some(other) => {
                left_b.remove(other);
                found.push((Some(name), Some(other), CodeMatch::Same));
            }
            None => left_a.push(name),
        }
    }
    for (matched, part) in [(CodeMatch::Moved, whole as fn(&str) -> &str), (CodeMatch::Renamed, stem)] {
        let one_each = unique(left_a.iter().copied(), part);
        let others = unique(left_b.iter().copied(), part);
        left_a.retain(|name| {
            let key = key_of(name, part).filter(|key| one_each.get(key) == Some(&Some(*name)));
            let Some(Some(other)) = key.and_then(|key| others.get(&key)) else { return true };
            left_b.remove(other);
            found.push((Some(*name), Some(*other), matched));
            false
        });
    }
    found.extend(left_a.into_iter().map(|name| (Some(name), None, CodeMatch::OneSide)));
    found.extend(left_b.into_iter().map(|name| (None, Some(name), CodeMatch::OneSide)));
    found
}

/// A part of the name of a function, and of the one that it is inlined into.
type MatchKey<'a> = (&'a str, Option<&'a str>);

/// The key of a row; `None` for functions that most files have.
fn key_of(name: &CodeName, part: fn(&str) -> &str) -> Option<MatchKey<'_>> {
    let function = name.function.as_deref().filter(|function| is_own(function))?;
    Some((part(function), name.inlined_into.as_deref().map(part)))
}

/// The rows by a part of their functions' names; `None` where several rows have it. Functions that most files
/// have are left out.
fn unique<'a>(
    names: impl Iterator<Item = &'a CodeName>,
    part: fn(&str) -> &str,
) -> HashMap<MatchKey<'a>, Option<&'a CodeName>> {
    let mut all: HashMap<MatchKey<'_>, Option<&CodeName>> = HashMap::new();
    for name in names {
        if let Some(key) = key_of(name, part) {
            all.entry(key).and_modify(|known| *known = None).or_insert(Some(name));
        }
    }
    all
}

fn whole(name: &str) -> &str {
    name
}

/// The endings that GCC and LLVM give to copies and parts of functions.
const ENDINGS: [&str; 9] =
    ["part", "constprop", "isra", "cold", "lto_priv", "llvm", "localalias", "resolver", "specialized"];

/// A name without what tells functions of one name apart, and without a compiler's endings: `sort.part.0`,
/// `sort [clone .part.0]` and `sort [a.c]` are of `sort`.
fn stem(name: &str) -> &str {
    let name = crate::same_names::unqualified(name);
    let marked = |at: &usize| {
        let rest = &name[at + 1..];
        ENDINGS.contains(&rest.split_once('.').map_or(rest, |(ending, _)| ending))
    };
    let name = name.split_once(" [clone ").map_or(name, |(name, _)| name);
    name.match_indices('.').map(|(at, _)| at).find(marked).map_or(name, |at| &name[..at])
}

/// Functions that most programs and libraries have, so that they do not tell which files belong together.
const EVERYWHERE: [&str; 9] = [
    "_init",
    "_fini",
    "_start",
    "main",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "_dl_relocate_static_pie",
];

/// Whether a function is of its file alone.
fn is_own(function: &str) -> bool {
    !EVERYWHERE.contains(&function) && !function.ends_with("@plt")
}

/// The file of B that belongs to each file of A.
fn matched_files<'a>(a: &'a CodeSeries, b: &'a CodeSeries) -> HashMap<&'a str, &'a str> {
    let (functions_a, functions_b) = (by_file(a), by_file(b));
    let mut left_a: BTreeSet<&str> = functions_a.keys().copied().collect();
    let mut left_b: BTreeSet<&str> = functions_b.keys().copied().collect();
    let mut found = HashMap::new();
    let shared = |of_a: &str, of_b: &str| functions_a[of_a].intersection(&functions_b[of_b]).count();
    type Fits<'f> = &'f dyn Fn(&str, &str) -> Option<usize>;
    let by_path: Fits<'_> = &|a, b| (a == b).then_some(0);
    let by_base: Fits<'_> = &|a, b| (base(a) == base(b)).then(|| shared(a, b));
    let smaller = |of_a: &str, of_b: &str| functions_a[of_a].len().min(functions_b[of_b].len());
    let by_content: Fits<'_> =
        &|a, b| Some(shared(a, b)).filter(|shared| *shared > 0 && 2 * *shared >= smaller(a, b));
    for fits in [by_path, by_base, by_content] {
        // Files are few, so that all pairs can be looked at.
        let pairs = left_a.iter().flat_map(|a| left_b.iter().map(move |b| (*a, *b)));
        let mut pairs: Vec<(usize, &str, &str)> =
            pairs.filter_map(|(a, b)| Some((fits(a, b)?, a, b))).collect();
        pairs.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| (one.1, one.2).cmp(&(other.1, other.2))));
        for (_, of_a, of_b) in pairs {
            if left_a.contains(of_a) && left_b.contains(of_b) {
                left_a.remove(of_a);
                left_b.remove(of_b);
                found.insert(of_a, of_b);
            }
        }
    }
    // The last program of each side: one under another name of which all is new, or that has no names.
    let last_program = |left: &BTreeSet<&'a str>| {
        let mut programs = left.iter().copied().filter(|path| !is_library(path));
        programs.next().filter(|_| programs.next().is_none())
    };
    if let (Some(of_a), Some(of_b)) = (last_program(&left_a), last_program(&left_b)) {
        found.insert(of_a, of_b);
    }
    found
}

/// Whether a path names a shared library.
fn is_library(path: &str) -> bool {
    let base = base(path);
    base.ends_with(".so") || base.contains(".so.")
}

/// The functions of each file, without those that most files have. Inlined functions are not looked at: many
/// files have those of a header.
fn by_file(series: &CodeSeries) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for name in series.rows.keys() {
        if let Some(object) = &name.object {
            let functions = files.entry(object).or_default();
            let around = name.inlined_into.as_deref().or(name.function.as_deref());
            functions.extend(around.filter(|function| is_own(function)));
        }
    }
    files
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grouped::CountsOfCode;

    fn name(row: &str) -> CodeName {
        let (object, function) = row.split_once(' ').unwrap_or((row, ""));
        let (function, around) = function.split_once('@').unwrap_or((function, ""));
        let [function, inlined_into] =
            [function, around].map(|name| (!name.is_empty()).then(|| name.to_owned()));
        let object = (object != "-").then(|| object.to_owned());
        CodeName { object, function, inlined_into, ..CodeName::default() }
    }

    fn run(rows: &[(&str, u64)]) -> CountsByCode {
        let rows = rows.iter().map(|(row, count)| CountsOfCode { name: name(row), counts: vec![*count] });
        CountsByCode {
            grouping: Grouping::Function,
            slots: Vec::new(),
            instructions: Vec::new(),
            rows: rows.collect(),
            totals: Vec::new(),
            calls: Vec::new(),
            graph: None,
            notes: vec!["note".to_owned()],
        }
    }

    fn series(runs: &[&[(&str, u64)]]) -> CodeSeries {
        let mut series = CodeSeries::new(Grouping::Function, vec!["instructions:u".to_owned()]);
        runs.iter().for_each(|rows| series.add(run(rows)));
        series
    }

    /// Each change as text, largest first.
    fn found(a: &[(&str, u64)], b: &[(&str, u64)]) -> Vec<String> {
        let changes = changes(&series(&[a, a]), &series(&[b]));
        let text = |name: &Option<CodeName>| match name {
            None => "none".to_owned(),
            Some(CodeName { object, function, inlined_into, .. }) => {
                let object = object.as_deref().map_or("-", base);
                let around = inlined_into.as_deref().map(|around| format!("@{around}")).unwrap_or_default();
                format!("{object} {}{around}", function.as_deref().unwrap_or("?"))
            }
        };
        let all = changes.largest(0);
        all.into_iter()
            .map(|change| {
                let counts = change.counts[0].exact().unwrap();
                format!("{} > {}: {} {counts:+}", text(&change.a), text(&change.b), change.matched.word())
            })
            .collect()
    }

    #[test]
    fn functions_are_matched_by_name_in_files_of_one_name() {
        let a = [("/old/p main", 10), ("/old/p f", 5), ("/lib/libc.so memcpy", 7), ("- ", 3)];
        let b = [("/new/p main", 10), ("/new/p f", 9), ("/lib/libc.so memcpy", 6), ("- ", 3)];
        assert_eq!(found(&a, &b), ["p f > p f: same +4", "libc.so memcpy > libc.so memcpy: same -1"]);
    }

    /// `f@g` is `f` where it is inlined into `g`.
    #[test]
    fn inlined_functions_are_matched_by_name_and_by_the_function_around_them() {
        let a =
            [("/p f@g", 10), ("/p f@h", 7), ("/p f", 5), ("/p g", 1), ("/p x@old", 3), ("/p k@m.part.0", 2)];
        let b = [("/p f@g", 30), ("/p f@h", 7), ("/p f", 6), ("/p g", 1), ("/p x@new", 3), ("/p k@m", 9)];
        let expected = [
            "p f@g > p f@g: same +20",
            "p k@m.part.0 > p k@m: renamed +7",
            "p x@old > none: one_side -3",
            "none > p x@new: one_side +3",
            "p f > p f: same +1",
        ];
        assert_eq!(found(&a, &b), expected);
        // The functions of a header in both files do not make them belong together.
        let header: &[&[(&str, u64)]] = &[&[("/a.so v@one", 1), ("/a.so one", 1), ("/a.so w@one", 1)]];
        let other: &[&[(&str, u64)]] = &[&[("/b.so v@two", 1), ("/b.so two", 1), ("/b.so w@two", 1)]];
        assert!(changes(&series(header), &series(other)).renamed_files.is_empty());
    }

    #[test]
    fn inlined_functions_become_parts_of_the_functions_around_them() {
        let mut apart =
            series(&[&[("/p f@g", 10), ("/p h@g", 7), ("/p g", 1), ("/p f", 2)], &[("/p f@g", 11)]]);
        apart.has_inlined = true;
        let whole = apart.clone().without_inlined().unwrap();
        let expected = series(&[&[("/p g", 18), ("/p f", 2)], &[("/p g", 11)]]);
        assert_eq!(whole, expected);
        assert_eq!(whole.totals(0), apart.totals(0));
        let large = series(&[&[("/p f@g", u64::MAX), ("/p g", 1)]]);
        assert_eq!(large.without_inlined(), None);
    }

    #[test]
    fn a_program_under_another_name_is_known_by_its_functions() {
        let a = [("/x/old main", 10), ("/x/old f", 5), ("/x/old", 1), ("/lib/a.so g", 1)];
        let b = [("/x/new main", 11), ("/x/new f", 5), ("/x/new", 1), ("/lib/a.so g", 1), ("/x/z.so h", 1)];
        assert_eq!(found(&a, &b), ["old main > new main: same +1", "none > z.so h: one_side +1"]);
        assert_eq!(
            found(&[("/old", 4)], &[("/new", 5)]),
            ["old ? > new ?: same +1"],
            "the last of each side"
        );
    }

    #[test]
    fn unrelated_files_are_not_matched_and_files_of_other_names_are_told() {
        let of = |a: &[(&str, u64)], b: &[(&str, u64)]| changes(&series(&[a]), &series(&[b])).renamed_files;
        let pair = |a: &str, b: &str| vec![(a.to_owned(), b.to_owned())];
        // Every file has these functions.
        let a = [("/p main", 1), ("/x.so _init", 1), ("/x.so frame_dummy", 1), ("/x.so f", 1)];
        let b = [("/p main", 1), ("/y.so _init", 1), ("/y.so frame_dummy", 1), ("/y.so g", 1)];
        assert_eq!(of(&a, &b), []);
        assert_eq!(found(&a, &b).len(), 6, "no row of a library is that of another");
        // One of three functions is few, two are enough.
        let a = [("/x.so f", 1), ("/x.so g", 1), ("/x.so h", 1)];
        let b = [("/y.so f", 1), ("/y.so i", 1), ("/y.so j", 1)];
        assert_eq!(of(&a, &b), []);
        assert_eq!(of(&a, &[("/y.so f", 1), ("/y.so g", 1), ("/y.so j", 1)]), pair("/x.so", "/y.so"));
        assert_eq!(of(&[("/a/old f", 1)], &[("/b/new g", 1)]), pair("/a/old", "/b/new"), "programs");
        assert_eq!(of(&[("/a/p f", 1)], &[("/b/p g", 1)]), [], "one name");
    }

    #[test]
    fn a_side_without_runs_has_no_changes() {
        let changes = changes(&series(&[]), &series(&[&[("/p f", 1)]]));
        assert_eq!((changes.events.len(), changes.totals.len(), changes.changes.len()), (0, 0, 0));
    }

    #[test]
    fn two_files_of_one_name_do_not_mix() {
        let a = [("/a/p f", 1), ("/b/p f", 100), ("/b/p g", 5)];
        let b = [("/b/p f", 101), ("/b/p g", 5), ("/a/p f", 1)];
        assert_eq!(found(&a, &b), ["p f > p f: same +1"]);
    }

    #[test]
    fn a_function_that_moved_or_was_cut_is_matched_where_each_side_has_one() {
        let a = [("/p main", 1), ("/p moved", 5), ("/p sort.part.0", 8), ("/p two", 1), ("/l.so x", 1)];
        let b = [("/p main", 1), ("/l.so moved", 6), ("/p sort", 5), ("/l.so x", 1), ("/l.so sort2", 1)];
        assert_eq!(
            found(&a, &b),
            [
                "p sort.part.0 > p sort: renamed -3",
                "p two > none: one_side -1",
                "p moved > l.so moved: moved +1",
                "none > l.so sort2: one_side +1",
            ]
        );
        // Two functions have the name, so neither is taken.
        let b = [("/p main", 1), ("/l.so moved", 6), ("/m.so moved", 1), ("/l.so x", 1), ("/m.so y", 1)];
        assert!(found(&a[..2], &b).contains(&"p moved > none: one_side -5".to_owned()));
    }

    #[test]
    fn changes_add_up_to_the_difference_of_the_totals() {
        let (a, b) = ([("/p f", 10), ("/p g", 1), ("/p h", 4)], [("/p f", 3), ("/p i", 50), ("/p h", 4)]);
        let changes = changes(&series(&[&a]), &series(&[&b]));
        let sum: i128 = changes.changes.iter().map(|change| change.counts[0].exact().unwrap()).sum();
        assert_eq!((Some(sum), changes.unchanged), (changes.totals[0].exact(), 1));
    }

    #[test]
    fn runs_that_differ_have_no_exact_change() {
        let (one, two) = ([("/p f", 10), ("/p g", 5)], [("/p f", 12), ("/p g", 5), ("/p once", 2)]);
        let varying = series(&[&one, &two]);
        assert_eq!(varying.rows[&name("/p once")], [[0], [2]]);
        assert_eq!(varying.notes, ["note"], "a note of each run is told once");
        let changes = changes(&varying, &series(&[&one]));
        let largest = changes.largest(0);
        assert_eq!(largest.len(), 2, "g is the same in all runs");
        assert!(largest.iter().all(|change| change.counts[0].exact().is_none()));
        assert_eq!(largest[0].counts[0].change(), -1.0);
    }

    #[test]
    fn the_stem_of_a_name_is_without_a_compilers_endings() {
        for (name, expected) in [
            ("sort", "sort"),
            ("sort.part.0", "sort"),
            ("sort.constprop.0.isra.1", "sort"),
            ("f.llvm.123", "f"),
            ("f(int) [clone .constprop.0]", "f(int)"),
            ("f(int) [clone .part.0] [clone .cold]", "f(int)"),
            ("f [a.c]", "f"),
            ("f.part.0 [a.c]", "f"),
            ("f [a.c] #2", "f"),
            ("r::f::h0123456789abcdef", "r::f"),
            ("operator new[](unsigned long)", "operator new[](unsigned long)"),
            (".text", ".text"),
            ("a.partial", "a.partial"),
            ("std::f(a.b)", "std::f(a.b)"),
            ("", ""),
        ] {
            assert_eq!(stem(name), expected);
        }
    }
}
