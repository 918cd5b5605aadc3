//! Changes by function or file of code: table, Markdown, JSON, and what a gate says of them.

use cyclometer_toolkit::stats::compare::{GateOutcome, Ruling};
use cyclometer_toolkit::symbols::{
    CodeChange, CodeChanges, CodeCountsOfSides, CodeMatch, CodeName, CodeSeries, changes, mean,
};
use serde_json::{Value, json};

use crate::by_code::{INLINED, displayed, file_of, shortened};
use crate::code_names::{file_label, function_label};
use crate::markdown::{code, escaped};
use crate::paint::{Paint, Style};
use crate::table::remark;
use crate::text::clean;
use crate::{WIDTH, columns, units};

/// Functions that a gate names.
const NAMED_BY_GATES: usize = 3;

/// Columns of a name that there are at least.
const LEAST_NAME: usize = 20;

/// The changes by code of one command against the reference.
#[derive(Clone, PartialEq, Debug)]
pub struct CodeVersus {
    changes: CodeChanges,
    /// Most rows of the table; 0: all.
    top: usize,
    notes: Vec<String>,
}

impl CodeVersus {
    /// Compares two commands.
    pub fn of(a: &CodeSeries, b: &CodeSeries, top: usize) -> CodeVersus {
        let changes = changes(a, b);
        let sides = [("A", a), ("B", b)];
        let of_sides = sides.iter().flat_map(|(side, series)| {
            let once = (series.runs == 1)
                .then(|| format!("{side}: one run was counted, so whether its counts repeat is unknown"));
            series.notes.iter().map(move |note| format!("{side}: {note}")).chain(once)
        });
        let files = changes
            .renamed_files
            .iter()
            .map(|(a, b)| format!("{} of A is compared with {} of B", last_part(a), last_part(b)));
        let notes = of_sides.chain(lacking(a, "A", b)).chain(lacking(b, "B", a)).chain(files).collect();
        CodeVersus { changes, top, notes }
    }

    /// A table for each event.
    pub fn table(&self, paint: Paint) -> String {
        let events = (0..self.changes.events.len()).map(|event| self.of_event(event, paint));
        let notes = self.notes.iter().map(|note| remark(&clean(note), paint));
        let none = format!("  by {}: not compared\n", self.changes.grouping.word());
        let none = self.changes.events.is_empty().then(|| paint.paint(Style::Heading, &none));
        let inlined = self.shows_inlined().then(|| remark(INLINED, paint));
        none.into_iter().chain(events).chain(inlined).chain(notes).collect()
    }

    /// Whether a row of a table is of an inlined function.
    fn shows_inlined(&self) -> bool {
        let shown = |event: usize| {
            let largest = self.changes.largest(event);
            let shown = self.shown(largest.len());
            largest.into_iter().take(shown)
        };
        let mut rows = (0..self.changes.events.len()).flat_map(shown);
        rows.any(|change| {
            let name = change.b.as_ref().or(change.a.as_ref());
            name.is_some_and(|name| name.inlined_into.is_some())
        })
    }

    fn of_event(&self, event: usize, paint: Paint) -> String {
        let largest = self.changes.largest(event);
        let mut out = format!("  {}\n", paint.paint(Style::Heading, &self.summary(event, largest.len())));
        if largest.is_empty() {
            return out;
        }
        let (rows, others) = largest.split_at(self.shown(largest.len()));
        let mut lines: Vec<([String; 4], String, Style)> = rows
            .iter()
            .map(|change| {
                (self.cells(event, &change.counts[event]), String::new(), style(&change.counts[event]))
            })
            .collect();
        if !others.is_empty() {
            let sum = sum(others, event);
            lines.push((
                self.cells(event, &sum),
                format!("{} more; --top 0 shows them", others.len()),
                Style::Dim,
            ));
        }
        let heads = ["A", "B", "change", "share"].map(str::to_owned);
        let width = |column: usize| {
            let cells = lines.iter().map(|(cells, ..)| &cells[column]).chain([&heads[column]]);
            cells.map(|cell| columns(cell)).max().unwrap_or(0)
        };
        let widths = [0, 1, 2, 3].map(width);
        let used: usize = widths.iter().map(|width| width + 2).sum();
        let room = WIDTH.saturating_sub(used + 2).max(LEAST_NAME);
        let line = |cells: &[String; 4]| {
            let cells = cells.iter().zip(widths);
            cells
                .map(|(cell, width)| format!("  {}{cell}", " ".repeat(width - columns(cell))))
                .collect::<String>()
        };
        out += &paint.paint(Style::Dim, &format!("{}  {}", line(&heads), self.changes.grouping.word()));
        out.push('\n');
        for (i, (cells, text, style)) in lines.iter().enumerate() {
            let name = rows.get(i).map_or_else(|| text.clone(), |change| self.name(change, room));
            out += &format!("{}  {name}\n", paint.paint(*style, &line(cells)));
        }
        let estimated = rows.iter().any(|change| change.counts[event].exact().is_none());
        if estimated {
            out += &remark("≈: the count differs between runs of one command; means", paint);
        }
        out
    }

    fn shown(&self, all: usize) -> usize {
        if self.top == 0 { all } else { self.top.min(all) }
    }

    /// `instructions:u by function: 5 of 203 changed, +1,234 in all`
    fn summary(&self, event: usize, changed: usize) -> String {
        let CodeChanges { grouping, events, totals, .. } = &self.changes;
        let all = self.changes.changes.len() + self.changes.unchanged;
        let name = clean(&events[event]);
        match changed {
            0 => format!("{name} by {}: none of {all} changed", grouping.word()),
            n => format!(
                "{name} by {}: {n} of {all} changed, {} in all",
                grouping.word(),
                signed(&totals[event])
            ),
        }
    }

    fn cells(&self, event: usize, counts: &CodeCountsOfSides) -> [String; 4] {
        let side = |runs: &[u64]| units::grouped(mean(runs));
        [side(&counts.a), side(&counts.b), signed(counts), self.share(event, counts)]
    }

    /// The share of the whole change.
    fn share(&self, event: usize, counts: &CodeCountsOfSides) -> String {
        let total = self.changes.totals[event].change();
        if total == 0.0 {
            return "–".to_owned();
        }
        let percent = 100.0 * counts.change() / total;
        match percent.abs() {
            small if small < 0.05 => "0.0 %".to_owned(),
            large if large >= 1e4 => "–".to_owned(),
            _ => format!("{percent:.1} %"),
        }
    }

    fn name(&self, change: &CodeChange, room: usize) -> String {
        let name = change.b.as_ref().or(change.a.as_ref());
        let Some(remark) = remark_on(change) else {
            return name.map(|name| displayed(name, self.changes.grouping, room)).unwrap_or_default();
        };
        let remark = shortened(&clean(&remark), room / 2);
        let room = room.saturating_sub(columns(&remark) + 1);
        let name = name.map(|name| displayed(name, self.changes.grouping, room)).unwrap_or_default();
        format!("{name} {remark}")
    }

    /// The text behind the reason of a gate that failed: the three largest changes in its direction.
    pub fn of_gate(&self, gate: &GateOutcome) -> Option<String> {
        let event = self.changes.events.iter().position(|event| *event == gate.compared.name)?;
        let total = self.changes.totals[event].change();
        let largest = self.changes.largest(event);
        let with_it = largest.iter().filter(|change| change.counts[event].change() * total > 0.0);
        let text = |change: &&&CodeChange| {
            let name = change.b.as_ref().or(change.a.as_ref())?;
            let name = displayed(name, self.changes.grouping, usize::MAX);
            let counts = &change.counts[event];
            Some(format!("{name} {} ({})", signed(counts), self.share(event, counts)))
        };
        let named: Vec<String> = with_it.take(NAMED_BY_GATES).filter_map(|change| text(&change)).collect();
        let failed = gate.ruling == Ruling::Failed && !named.is_empty();
        failed.then(|| format!("; most of it: {}", named.join(", ")))
    }

    /// A table for each event.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        if self.changes.events.is_empty() {
            out += &format!("by {}: not compared\n\n", self.changes.grouping.word());
        }
        for event in 0..self.changes.events.len() {
            let largest = self.changes.largest(event);
            out += &format!("{}\n\n", escaped(&self.summary(event, largest.len())));
            if largest.is_empty() {
                continue;
            }
            out += &format!(
                "| {} | A | B | change | share |\n|:--|--:|--:|--:|--:|\n",
                self.changes.grouping.word()
            );
            for change in &largest[..self.shown(largest.len())] {
                let cells = self.cells(event, &change.counts[event]).map(|cell| escaped(&cell));
                out += &format!("| {} | {} |\n", code(&self.name(change, usize::MAX)), cells.join(" | "));
            }
            out.push('\n');
        }
        self.notes.iter().for_each(|note| out += &format!("- {}\n", escaped(&clean(note))));
        if !self.notes.is_empty() {
            out.push('\n');
        }
        out
    }

    /// As `by` of a comparison in `schemas/compare-1.json`.
    pub fn json(&self) -> Value {
        let CodeChanges { grouping, has_inlined, events, totals, changes, unchanged, .. } = &self.changes;
        let name = |name: &Option<CodeName>| {
            let name = name.as_ref()?;
            let names = json!({ "object": file_of(name), "function": name.function });
            Some(with_inlined(names, name, *has_inlined))
        };
        let counts = |counts: &CodeCountsOfSides| {
            json!({
                "a": counts.a,
                "b": counts.b,
                "change": counts.change(),
                "is_exact": counts.exact().is_some(),
            })
        };
        let change = |change: &CodeChange| {
            json!({
                "a": name(&change.a),
                "b": name(&change.b),
                "match": change.matched.word(),
                "counts": change.counts.iter().map(counts).collect::<Vec<_>>(),
            })
        };
        let sorted = match events.is_empty() {
            true => Vec::new(),
            false => {
                let first = self.changes.largest(0);
                let others = changes.iter().filter(|change| !first.contains(change));
                first.iter().copied().chain(others).map(change).collect()
            }
        };
        json!({
            "grouping": grouping.word(),
            "events": events,
            "totals": totals.iter().map(counts).collect::<Vec<_>>(),
            "changes": sorted,
            "unchanged": unchanged,
            "notes": self.notes,
        })
    }
}

/// The names of code with the function that it is inlined into, where such functions have rows of their own.
fn with_inlined(mut names: Value, name: &CodeName, has_inlined: bool) -> Value {
    if let Some(object) = names.as_object_mut().filter(|_| has_inlined) {
        object.insert("inlined_into".to_owned(), json!(name.inlined_into));
    }
    names
}

/// As `by` of a command in `schemas/compare-1.json`, which a later `--baseline` reads.
pub fn series_json(series: &CodeSeries) -> Value {
    let row = |(name, runs): (&CodeName, &Vec<Vec<u64>>)| {
        let first = runs.first();
        let differs = runs.iter().any(|run| Some(run) != first);
        let mut row = json!({
            "object": file_of(name),
            "function": name.function,
            "file": null,
            "line": null,
            "counts": first,
        });
        if differs && let Value::Object(object) = &mut row {
            object.insert("runs".to_owned(), json!(runs));
        }
        with_inlined(row, name, series.has_inlined)
    };
    json!({
        "grouping": series.grouping.word(),
        "events": series.events,
        "runs": series.runs,
        "rows": series.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": series.notes,
    })
}

/// Notes on the events of one side that the other has no counts by code of.
fn lacking<'a>(
    of: &'a CodeSeries,
    side: &'a str,
    other: &'a CodeSeries,
) -> impl Iterator<Item = String> + use<'a> {
    let is_told = |event: &String| of.runs == 0 || of.left_out.contains(event);
    let lacks = move |event: &&String| !of.events.contains(event) && !is_told(event);
    let note = move |event| format!("{side}: it has no counts of {event} by {}", of.grouping.word());
    other.events.iter().filter(lacks).map(note)
}

/// How the sides of a change differ beyond their counts.
fn remark_on(change: &CodeChange) -> Option<String> {
    match (&change.a, &change.b, change.matched) {
        (None, _, _) => Some("(only B)".to_owned()),
        (_, None, _) => Some("(only A)".to_owned()),
        (Some(a), _, CodeMatch::Moved) => Some(format!("(A: in {})", base(a))),
        (Some(a), _, CodeMatch::Renamed) => Some(format!("(A: {})", function_label(a).unwrap_or_default())),
        _ => None,
    }
}

fn base(name: &CodeName) -> String {
    file_label(name, |path| last_part(path).to_owned())
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The sum of some changes.
fn sum(changes: &[&CodeChange], event: usize) -> CodeCountsOfSides {
    let mut sums = CodeCountsOfSides::default();
    for change in changes {
        add(&mut sums.a, &change.counts[event].a);
        add(&mut sums.b, &change.counts[event].b);
    }
    sums
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(counts.len().max(sums.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
}

/// `+1,234`; `≈ +1,234` where runs of one command differ.
fn signed(counts: &CodeCountsOfSides) -> String {
    let change = counts.change();
    let about = if counts.exact().is_none() { "≈ " } else { "" };
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{about}{sign}{}", units::grouped(change))
}

fn style(counts: &CodeCountsOfSides) -> Style {
    match counts.exact() {
        None => Style::Plain,
        Some(change) if change > 0 => Style::Bad,
        Some(_) => Style::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::symbols::{Grouping, left_out_note};

    fn series(runs: &[&[(&str, &str, u64)]]) -> CodeSeries {
        let mut series = CodeSeries::new(Grouping::Function, vec!["instructions:u".to_owned()]);
        series.runs = runs.len();
        for (i, run) in runs.iter().enumerate() {
            for (object, function, count) in *run {
                let name = CodeName {
                    object: Some((*object).to_owned()),
                    function: Some((*function).to_owned()),
                    ..CodeName::default()
                };
                let rows = series.rows.entry(name).or_insert_with(|| vec![vec![0]; runs.len()]);
                rows[i][0] = *count;
            }
        }
        series
    }

    fn versus(top: usize) -> CodeVersus {
        let long = "void std::sort<std::vector<long long, std::allocator<long long> >::iterator>(int)";
        let a: &[_] = &[("/old/p", "main", 1_000_000), ("/old/p", long, 5), ("/old/p", "gone", 7)];
        let other: &[_] = &[("/old/p", "main", 1_000_000), ("/old/p", long, 9), ("/old/p", "gone", 7)];
        let b: &[_] =
            &[("/new/p", "main", 3_500_000), ("/new/p", long, 5), ("/l/libx.so", "fresh\x1b[31m", 123)];
        CodeVersus::of(&series(&[a, other]), &series(&[b, b]), top)
    }

    #[test]
    fn the_table_fits_80_columns_and_has_the_largest_change_first() {
        let text = versus(0).table(Paint::NONE);
        assert!(text.lines().all(|line| columns(line) <= WIDTH), "{text}");
        let expected = "  instructions:u by function: 4 of 4 changed, ≈ +2,500,114 in all\n";
        assert!(text.starts_with(expected), "{text}");
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(lines[0].contains("+2,500,000") && lines[0].ends_with("100.0 %  main p"), "{text}");
        assert!(lines[1].ends_with("fresh\\x1b[31m libx.so (only B)"), "{text}");
        assert!(lines[2].contains("-7") && lines[2].ends_with("gone p (only A)"), "{text}");
        assert!(lines[3].contains("≈ -2"), "{text}");
        let short = versus(1).table(Paint::NONE);
        assert!(short.contains("3 more; --top 0 shows them"), "{short}");
    }

    #[test]
    fn a_gate_that_failed_names_the_three_largest_changes_of_its_direction() {
        crate::compare::testing::shown(|machine, comparison| {
            let contest = crate::compare::testing::contest(machine, comparison);
            let gates = &contest.versus[0].gates;
            let of = |ruling| gates.iter().find(|gate| gate.ruling == ruling).unwrap().clone();
            let mut gate = of(Ruling::Failed);
            gate.compared.name = "instructions:u".to_owned();
            let text = versus(1).of_gate(&gate).unwrap();
            assert_eq!(
                text,
                "; most of it: main p +2,500,000 (100.0 %), fresh\\x1b[31m libx.so +123 (0.0 %)"
            );
            gate.compared.name = "wall_time".to_owned();
            assert_eq!(versus(1).of_gate(&gate), None, "it is no event that has counts by code");
            let mut gate = of(Ruling::Passed);
            gate.compared.name = "instructions:u".to_owned();
            assert_eq!(versus(1).of_gate(&gate), None);
        });
    }

    #[test]
    fn code_that_is_the_same_is_not_listed() {
        let a: &[_] = &[("/p", "f", 5), ("/p", "g", 6)];
        let same = CodeVersus::of(&series(&[a]), &series(&[a, a]), 20);
        let text = same.table(Paint::NONE);
        assert!(text.starts_with("  instructions:u by function: none of 2 changed\n"), "{text}");
        assert!(text.contains("A: one run was counted"), "{text}");
        assert_eq!(same.json()["changes"], json!([]));
    }

    #[test]
    fn a_side_without_counts_has_the_reason_in_place_of_a_table() {
        let mut lost = series(&[]);
        lost.events.clear();
        lost.notes.push(left_out_note("instructions:u", "no run has its count: x"));
        lost.left_out.push("instructions:u".to_owned());
        let versus = CodeVersus::of(&lost, &series(&[&[("/p", "f", 5)], &[("/p", "f", 5)]]), 20);
        let expected = "  by function: not compared\n  A: instructions:u is not compared by code:";
        let text = versus.table(Paint::NONE);
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains("changed") && !versus.markdown().contains("changed"), "{text}");
        assert!(!versus.json().to_string().contains("is_exact"), "{text}");
    }

    #[test]
    fn an_event_that_one_side_lacks_and_files_of_other_names_are_noted() {
        let mut other = series(&[&[("/old", "f", 5)], &[("/old", "f", 5)]]);
        other.events = vec!["calls:u".to_owned()];
        let b = series(&[&[("/new", "f", 5)], &[("/new", "f", 5)]]);
        let versus = CodeVersus::of(&other, &b, 20);
        let expected = [
            "A: it has no counts of instructions:u by function",
            "B: it has no counts of calls:u by function",
            "old of A is compared with new of B",
        ];
        assert_eq!(versus.notes, expected);
    }
}
