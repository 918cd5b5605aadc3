//! Counts by function, line or file of code.

use std::collections::HashSet;

use cyclometer_toolkit::HostCodeFiles;
use cyclometer_toolkit::core::code::{CodeCounts, CodeOwner, OwnerKind};
use cyclometer_toolkit::core::{Result, Rung};
use cyclometer_toolkit::stats::{LineSummary, Summary};
use cyclometer_toolkit::symbols::{
    CallGraph, CallsOfFunction, CodeName, CountsByCode, CountsOfCode, Grouping, group, group_with_inlined,
};
use serde_json::{Value, json};

use crate::call_paths::{EXPLANATION, InclusiveRows, RowInclusive, edges_json};
use crate::code_names::LEAST_NAME;
pub use crate::code_names::{base, displayed, file_of, shortened};
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, table, units};

/// The counts by code that are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeView {
    /// The kind of code that they are added up by.
    pub grouping: Grouping,
    /// Whether inlined functions have rows of their own; only by function.
    pub has_inlined: bool,
    /// The processes or threads that have rows of their own; `None`: all are added up.
    pub owners: Option<OwnerKind>,
    /// Most rows of the table; 0: all.
    pub top: usize,
}

/// Counts by code, with the names of their events.
#[derive(Debug)]
pub struct ByCode {
    counts: CountsByCode,
    /// The name of each slot, as in the table of the whole command.
    events: Vec<String>,
    view: CodeView,
    /// Whether calls between functions are shown.
    has_calls: bool,
    /// Whether the rows add up to the count of the command.
    is_complete: bool,
    /// Whether a model made the counts.
    is_modelled: bool,
    notes: Vec<String>,
}

impl ByCode {
    /// Finds the names of counts. `counted` is `None` where the software PMU has run nothing.
    pub fn of(counted: Option<Result<CodeCounts>>, view: CodeView, summary: &Summary) -> ByCode {
        let (counts, missing) = match counted {
            Some(Ok(counts)) => (counts, None),
            Some(Err(error)) => (CodeCounts::default(), Some(error.to_string())),
            None => (CodeCounts::default(), Some("the software PMU did not run the command".to_owned())),
        };
        let counts = match view.has_inlined {
            true => group_with_inlined(&counts, &HostCodeFiles),
            false => group(&counts, view.grouping, &HostCodeFiles),
        };
        let counts = with_entered_rows(counts);
        let lines: Vec<Option<&LineSummary>> =
            counts.slots.iter().map(|slot| summary.lines.iter().find(|line| line.slot == *slot)).collect();
        let events: Vec<String> =
            lines.iter().map(|line| line.map(|line| line.name.clone()).unwrap_or_default()).collect();
        let missing = missing.map(|why| format!("where counts were made is unknown: {why}"));
        let incomplete =
            lines.iter().zip(&counts.totals).filter_map(|(line, sum)| incomplete((*line)?, *sum));
        let incomplete = by_text(incomplete);
        let is_complete = missing.is_none() && incomplete.is_empty();
        let is_left_out = |line: &&LineSummary| {
            line.rung == Some(Rung::Soft) && !counts.slots.contains(&line.slot) && missing.is_none()
        };
        let unpathed = unpathed(&counts);
        let left_out = summary.lines.iter().filter(is_left_out);
        let left_out =
            left_out.map(|line| format!("{}: the size of a set is no sum, and has no rows", line.name));
        let others = incomplete.into_iter().chain(left_out).chain(unpathed).collect::<Vec<_>>();
        let notes = missing.into_iter().chain(others).chain(counts.notes.iter().cloned()).collect();
        ByCode { counts, events, view, has_calls: false, is_complete, is_modelled: false, notes }
    }

    /// With calls between functions, or without.
    pub fn with_calls(self, has_calls: bool) -> ByCode {
        ByCode { has_calls, ..self }
    }

    /// Counts that a model made.
    pub fn modelled(self) -> ByCode {
        ByCode { is_modelled: true, ..self }
    }

    /// The counts.
    pub fn counts(&self) -> &CountsByCode {
        &self.counts
    }

    /// The name of each slot of the counts.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// How the counts were made, for those who see no notes.
    pub fn provenance(&self) -> &'static str {
        match self.is_complete {
            _ if self.is_modelled => "modelled, of caches and branch predictors",
            true => "counted exactly by the software PMU",
            false => "counted by the software PMU, of the processes that have a count",
        }
    }

    /// The reasons why counts or names are missing.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The table, below that of the whole command.
    pub fn table(&self, paint: Paint) -> String {
        let mut out = String::from("\n");
        if !self.counts.rows.is_empty() {
            out += &self.rows(paint);
        }
        if self.has_calls {
            out += &self.calls(paint);
        }
        self.notes.iter().for_each(|note| out += &table::remark(&clean(note), paint));
        out
    }

    fn rows(&self, paint: Paint) -> String {
        let shown = match self.view.top {
            0 => self.counts.rows.len(),
            top => top.min(self.counts.rows.len()),
        };
        let inclusive = InclusiveRows::of(&self.counts);
        let in_order = self.in_order(inclusive.as_ref());
        let (rows, others) = in_order.split_at(shown);
        let columns = self.columns(rows, inclusive.is_some());
        let mut out = format!("{}\n", paint.paint(Style::Heading, &self.heading_row(&columns)));
        for (row, inclusive_row) in rows {
            let share = match (inclusive_row, &inclusive) {
                (Some(row), Some(all)) => {
                    row.count.map_or_else(|| "–".to_owned(), |count| share_of(count, all.total()))
                }
                _ => self.share(row.counts[0]),
            };
            out += &format!(
                "{}{}  {share:>7}{}  {}\n",
                columns.cells(|slot| number(row.counts[slot])),
                columns.inclusive_cell(&inclusive_row.map(RowInclusive::text).unwrap_or_default()),
                columns.owner_cell(&shown_owner(row)),
                displayed(&row.name, self.counts.grouping, columns.name)
            );
        }
        if !others.is_empty() {
            let text = self.others_row(others, &columns);
            out += &format!("{}\n", paint.paint(Style::Dim, &text));
        }
        let all = inclusive.as_ref().map(|all| format!("{} ", number(all.total()))).unwrap_or_default();
        let share = self.share(self.counts.totals[0].unwrap_or(0));
        let totals = columns.cells(|slot| self.total(slot));
        out += &format!("{totals}{}  {share:>7}  total\n", columns.inclusive_cell(&all));
        out + &self.remarks(rows, &columns, paint)
    }

    /// All rows, those with the greatest inclusive counts first if there are any.
    fn in_order(&self, inclusive: Option<&InclusiveRows<'_>>) -> Vec<RowOfCode<'_>> {
        let row = |row| (row, inclusive.map(|inclusive| inclusive.row(row, self.instructions(row))));
        let mut in_order: Vec<RowOfCode<'_>> = self.counts.rows.iter().map(row).collect();
        in_order.sort_by_key(|(_, inclusive)| std::cmp::Reverse(inclusive.and_then(|row| row.count)));
        in_order
    }

    fn total(&self, slot: usize) -> String {
        self.counts.totals[slot].map_or("–".to_owned(), number)
    }

    /// The columns for these rows; events for which there is no room are left out.
    fn columns(&self, rows: &[RowOfCode<'_>], has_inclusive: bool) -> CodeColumns {
        let width = |slot: usize| {
            let values = rows.iter().map(|(row, _)| number(row.counts[slot]).len());
            let others = [self.total(slot).chars().count(), self.events[slot].chars().count()];
            values.chain(others).max().unwrap_or(0)
        };
        let mut counts: Vec<usize> = (0..self.events.len()).map(width).collect();
        let inclusive = has_inclusive.then(|| {
            let values = rows.iter().filter_map(|(_, row)| row.map(|row| row.text().chars().count()));
            values.chain([INCLUSIVE.len() + 1]).max().unwrap_or(0) + 2
        });
        let owner = self.view.owners.map(|kind| {
            let labels = rows.iter().map(|(row, _)| shown_owner(row).chars().count());
            labels.chain([owner_word(kind).len()]).max().unwrap_or(0)
        });
        let further_width = inclusive.unwrap_or(0) + owner.map_or(0, |width| width + 2);
        let mut left = WIDTH - LEAST_NAME - 11 - further_width;
        let fits = counts.iter().take_while(|width| {
            let fits = left >= **width + 2;
            left = left.saturating_sub(**width + 2);
            fits
        });
        let fits = fits.count().max(1);
        counts.truncate(fits);
        let used: usize = counts.iter().map(|width| width + 2).sum::<usize>() + 9 + further_width;
        CodeColumns { counts, inclusive, owner, name: WIDTH.saturating_sub(used + 2).max(LEAST_NAME) }
    }

    fn heading_row(&self, columns: &CodeColumns) -> String {
        let inclusive = match columns.inclusive {
            None => " ".to_owned(),
            Some(_) => columns.inclusive_cell(&format!("{INCLUSIVE} ")),
        };
        let events = columns.cells(|slot| self.events[slot].clone());
        let owner = columns.owner_cell(self.view.owners.map_or("", owner_word));
        format!("{events}{inclusive}   share{owner}  {}", self.counts.grouping.word())
    }

    /// The row for those that are not shown. Inclusive counts of several rows have no sum.
    fn others_row(&self, others: &[RowOfCode<'_>], columns: &CodeColumns) -> String {
        let sum =
            |slot: usize| others.iter().try_fold(0_u64, |sum, (row, _)| sum.checked_add(row.counts[slot]));
        let share = match columns.inclusive {
            None => self.share(sum(0).unwrap_or(0)),
            Some(_) => String::new(),
        };
        format!(
            "{}{}  {share:>7}  {} more; --top 0 shows them",
            columns.cells(|slot| sum(slot).map_or("–".to_owned(), number)),
            columns.inclusive_cell(""),
            others.len()
        )
    }

    /// The remarks below the rows.
    fn remarks(&self, rows: &[RowOfCode<'_>], columns: &CodeColumns, paint: Paint) -> String {
        let mut out = String::new();
        if rows.iter().any(|(_, row)| row.is_some_and(|row| row.is_partial)) {
            out += &table::remark(EXPLANATION, paint);
        }
        if rows.iter().any(|(row, _)| row.name.inlined_into.is_some()) {
            out += &table::remark(INLINED, paint);
        }
        let hidden = &self.events[columns.counts.len()..];
        if !hidden.is_empty() {
            let names = hidden.join(", ");
            out += &table::remark(&format!("no room for {names}: --json and --export-csv have them"), paint);
        }
        out
    }

    /// The calls, with inclusive counts if there are any, the most first.
    fn shown_calls(&self) -> Vec<ShownCalls<'_>> {
        match &self.counts.graph {
            Some(graph) => ShownCalls::of_graph(graph),
            None => self.counts.calls.iter().map(ShownCalls::counted).collect(),
        }
    }

    fn calls(&self, paint: Paint) -> String {
        let calls = self.shown_calls();
        let all: u128 = calls.iter().map(|calls| u128::from(calls.times)).sum();
        let (shown, others) =
            calls.split_at(if self.view.top == 0 { calls.len() } else { self.view.top.min(calls.len()) });
        let number = |times: u128| units::grouped(times as f64);
        let share = |times: u128| format!("{:.1} %", 100.0 * times as f64 / all.max(1) as f64);
        let width = number(all).len().max("calls".len());
        // Inclusive counts take the place of the share of calls.
        let largest = calls.iter().filter_map(|calls| calls.inclusive).max();
        let second_width = largest.map_or(7, |most| number(most.into()).len().max(INCLUSIVE.len()));
        let second = |calls: &ShownCalls<'_>| match calls.inclusive {
            Some(inclusive) => number(inclusive.into()),
            None => share(calls.times.into()),
        };
        let row = |times: u128, second: &str, text: &str| {
            format!("  {:>width$}  {second:>second_width$}  {text}\n", number(times))
        };
        let room = WIDTH.saturating_sub(width + second_width + 6 + " → ".chars().count());
        let name = if largest.is_some() { INCLUSIVE } else { "share" };
        let heading = format!("  {:>width$}  {name:>second_width$}  caller → callee", "calls");
        let mut out = format!("\n{}\n", paint.paint(Style::Heading, &heading));
        for calls in shown {
            let callee = |room| match &calls.callee {
                Some(callee) => displayed(callee, Grouping::Function, room),
                None => shortened(INDIRECT, room),
            };
            // The caller has half of the room, and what the callee leaves.
            let caller_room = (room / 2).max(room.saturating_sub(callee(room / 2).chars().count()));
            let caller = displayed(calls.caller, Grouping::Function, caller_room);
            let callee = callee(room.saturating_sub(caller.chars().count()).max(room / 2));
            out += &row(calls.times.into(), &second(calls), &format!("{caller} → {callee}"));
        }
        let rest = |sum: u128| if largest.is_some() { String::new() } else { share(sum) };
        if !others.is_empty() {
            let sum = others.iter().map(|calls| u128::from(calls.times)).sum();
            let text = row(sum, &rest(sum), &format!("{} more; --top 0 shows them", others.len()));
            out += &paint.paint(Style::Dim, text.trim_end());
            out.push('\n');
        }
        out + &row(all, &rest(all), "total")
    }

    /// The instructions of a row, if they are counted.
    fn instructions(&self, row: &CountsOfCode) -> Option<u64> {
        row.counts.get(self.counts.instructions_column()?).copied()
    }

    /// The share of the first event.
    fn share(&self, count: u64) -> String {
        match self.counts.totals.first() {
            Some(Some(total)) if *total > 0 => share_of(count, *total),
            _ => "–".to_owned(),
        }
    }

    /// As `by` in `schemas/stat-1.json`.
    pub fn json(&self) -> Value {
        let inclusive = InclusiveRows::of(&self.counts);
        let row = |row: &CountsOfCode| {
            let CodeName { function, line, .. } = &row.name;
            let mut value = json!({
                "object": file_of(&row.name),
                "function": function,
                "file": line.as_ref().map(|line| &line.file),
                "line": line.as_ref().and_then(|line| line.line),
                "counts": row.counts,
            });
            if let (true, Value::Object(object)) = (self.has_inlined(), &mut value) {
                object.insert("inlined_into".to_owned(), json!(row.name.inlined_into));
            }
            if let (Some(owner), Value::Object(object)) = (&row.name.owner, &mut value) {
                let CodeOwner { name, pid, tid } = owner;
                object.insert("process".to_owned(), json!({ "name": name, "pid": pid, "tid": tid }));
            }
            if let (Some(inclusive), Value::Object(object)) = (&inclusive, &mut value) {
                let row = inclusive.row(row, self.instructions(row));
                object.insert("inclusive".to_owned(), row.count.into());
                object.insert("partial".to_owned(), row.is_partial.into());
            }
            value
        };
        let mut value = json!({
            "grouping": self.counts.grouping.word(),
            "events": self.events,
            "totals": self.counts.totals,
            "rows": self.counts.rows.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        if let (true, Value::Object(object)) = (self.has_calls, &mut value) {
            let calls = match &self.counts.graph {
                Some(graph) => edges_json(graph),
                None => self.counts.calls.iter().map(|calls| self.calls_json(calls)).collect(),
            };
            object.insert("calls".to_owned(), calls);
        }
        value
    }

    fn calls_json(&self, calls: &CallsOfFunction) -> Value {
        let name = |name: &CodeName| json!({ "object": file_of(name), "function": name.function });
        let mut caller = name(&calls.caller);
        if let (Some(CodeOwner { name, pid, tid }), Value::Object(object)) =
            (&calls.caller.owner, &mut caller)
        {
            object.insert("process".to_owned(), json!({ "name": name, "pid": pid, "tid": tid }));
        }
        if let (true, Value::Object(object)) = (self.has_inlined(), &mut caller) {
            object.insert("inlined_into".to_owned(), json!(calls.caller.inlined_into));
        }
        json!({ "caller": caller, "callee": calls.callee.as_ref().map(name), "times": calls.times })
    }

    /// Whether inlined functions have rows of their own.
    pub fn has_inlined(&self) -> bool {
        self.view.has_inlined
    }

    /// The processes or threads that have rows of their own; `None`: all are added up.
    pub fn owners(&self) -> Option<OwnerKind> {
        self.view.owners
    }

    /// Whether there are inclusive counts.
    pub fn has_inclusive(&self) -> bool {
        self.counts.graph.is_some()
    }

    /// For CSV: each event's line of the summary with a count, and the names of its file, its function and
    /// its line. With inlined functions there is the function that each is inlined into; with processes or
    /// threads apart, their names and ids. With inclusive
    /// counts, instructions have those too, and whether they are partial.
    pub fn values<'a>(
        &'a self,
        summary: &'a Summary,
    ) -> impl Iterator<Item = (&'a LineSummary, u64, Vec<String>)> {
        let inclusive = InclusiveRows::of(&self.counts);
        let of_row = move |row: &'a CountsOfCode| {
            let CodeName { object, function, inlined_into, line, owner } = &row.name;
            let line = line.as_ref().map(|line| match line.line {
                Some(number) => format!("{}:{number}", line.file),
                None => line.file.clone(),
            });
            let inlined_into = self.has_inlined().then_some(inlined_into);
            let names = [object, function, &line].into_iter().chain(inlined_into);
            let owner = self.view.owners.map(|_| {
                let id = |id: Option<u32>| id.map(|id| id.to_string()).unwrap_or_default();
                let owner = owner.as_ref();
                let name = owner.map(|owner| owner.name.clone()).unwrap_or_default();
                [name, id(owner.map(|owner| owner.pid)), id(owner.and_then(|owner| owner.tid))]
            });
            let names = names.map(|name| name.clone().unwrap_or_default());
            let names: Vec<String> = names.chain(owner.into_iter().flatten()).collect();
            let of_instructions = inclusive.as_ref().map(|inclusive| {
                let row = inclusive.row(row, self.instructions(row));
                [row.count.map(|count| count.to_string()).unwrap_or_default(), row.is_partial.to_string()]
            });
            let slots = self.counts.slots.iter().zip(&row.counts);
            slots.filter_map(move |(slot, count)| {
                let line = summary.lines.iter().find(|line| line.slot == *slot)?;
                let counts_instructions = self.counts.instructions.contains(slot);
                let further = of_instructions.as_ref().map(|fields| match counts_instructions {
                    true => fields.clone(),
                    false => Default::default(),
                });
                Some((line, *count, names.iter().cloned().chain(further.into_iter().flatten()).collect()))
            })
        };
        self.counts.rows.iter().flat_map(of_row)
    }
}

/// Most columns of the name and id of a process or thread.
const MOST_OF_OWNER: usize = 23;

/// The name of a process or thread, and its id.
pub fn owner_label(owner: Option<&CodeOwner>) -> String {
    owner.map_or_else(String::new, |CodeOwner { name, pid, tid }| {
        clean(&format!("{name} {}", tid.unwrap_or(*pid))).trim_start().to_owned()
    })
}

/// The process or thread of a row, as far as the table has room.
fn shown_owner(row: &CountsOfCode) -> String {
    shortened(&owner_label(row.name.owner.as_ref()), MOST_OF_OWNER)
}

fn owner_word(kind: OwnerKind) -> &'static str {
    match kind {
        OwnerKind::Process => "process",
        OwnerKind::Thread => "thread",
    }
}

/// The explanation of inlined functions.
pub const INLINED: &str = "(in F): inlined into F";

/// The heading of inclusive counts.
const INCLUSIVE: &str = "inclusive";

fn share_of(count: u64, total: u64) -> String {
    format!("{:.1} %", 100.0 * count as f64 / total.max(1) as f64)
}

/// Counts with a row for each function that was entered, and may have executed nothing there.
fn with_entered_rows(mut counts: CountsByCode) -> CountsByCode {
    let Some(graph) = &counts.graph else { return counts };
    let known: HashSet<&CodeName> = counts.rows.iter().map(|row| &row.name).collect();
    let missing = graph.functions.iter().map(|function| &function.name);
    let missing: Vec<CodeName> = missing.filter(|name| !known.contains(name)).cloned().collect();
    let none = vec![0; counts.slots.len()];
    counts.rows.extend(missing.into_iter().map(|name| CountsOfCode { name, counts: none.clone() }));
    counts
}

/// A note, where the call paths do not have all instructions.
fn unpathed(counts: &CountsByCode) -> Option<String> {
    let graph = counts.graph.as_ref()?;
    let all = (*counts.totals.get(counts.instructions_column()?)?)?;
    let text = format!(
        "inclusive counts have {} of {} instructions",
        units::grouped(graph.total as f64),
        units::grouped(all as f64)
    );
    (graph.total != all).then_some(text)
}

/// Calls of one function by another, as the table shows them.
struct ShownCalls<'a> {
    caller: &'a CodeName,
    callee: Option<&'a CodeName>,
    times: u64,
    inclusive: Option<u64>,
}

impl ShownCalls<'_> {
    fn of_graph(graph: &CallGraph) -> Vec<ShownCalls<'_>> {
        let name = |index: usize| &graph.functions[index].name;
        let edges = graph.edges.iter().map(|edge| ShownCalls {
            caller: name(edge.caller),
            callee: Some(name(edge.callee)),
            times: edge.calls,
            inclusive: Some(edge.inclusive),
        });
        edges.collect()
    }

    fn counted(calls: &CallsOfFunction) -> ShownCalls<'_> {
        let (caller, callee) = (&calls.caller, calls.callee.as_ref());
        ShownCalls { caller, callee, times: calls.times, inclusive: None }
    }
}

/// The callee of a call through a register or memory.
const INDIRECT: &str = "[indirect call]";

/// The name of an event and a text, where rows do not add up to the count of the whole command.
fn incomplete(line: &LineSummary, sum: Option<u64>) -> Option<(String, String)> {
    let total = line.statistics.mean;
    let text = match (total, sum) {
        (Some(total), Some(sum)) if total == sum as f64 => return None,
        (Some(_), _) => "the rows do not add up to the count of the command".to_owned(),
        (None, _) => {
            let why = line.reason.as_deref().unwrap_or("it has no count");
            format!("the rows are of the processes that have a count: {why}")
        }
    };
    Some((line.name.clone(), text))
}

/// One note for all events with the same text.
fn by_text(notes: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut all: Vec<(Vec<String>, String)> = Vec::new();
    for (name, text) in notes {
        match all.iter_mut().find(|(_, known)| *known == text) {
            Some((names, _)) => names.push(name),
            None => all.push((vec![name], text)),
        }
    }
    all.into_iter().map(|(names, text)| format!("{}: {text}", names.join(", "))).collect()
}

/// A row, with its inclusive count where there are any.
type RowOfCode<'a> = (&'a CountsOfCode, Option<RowInclusive>);

/// The widths of the columns of a table of code.
struct CodeColumns {
    /// The width of each event that is shown.
    counts: Vec<usize>,
    /// The width of the inclusive counts with the space before them; `None` without inclusive counts.
    inclusive: Option<usize>,
    /// The width of processes or threads; `None` where they are added up.
    owner: Option<usize>,
    /// The room for names.
    name: usize,
}

impl CodeColumns {
    /// The cells of the events.
    fn cells(&self, of: impl Fn(usize) -> String) -> String {
        let cell = |(slot, width): (usize, &usize)| format!("  {:>width$}", of(slot), width = *width);
        self.counts.iter().enumerate().map(cell).collect()
    }

    fn inclusive_cell(&self, text: &str) -> String {
        self.inclusive.map_or_else(String::new, |width| format!("{text:>width$}"))
    }

    fn owner_cell(&self, text: &str) -> String {
        self.owner.map_or_else(String::new, |width| format!("  {text:<width$}"))
    }
}

fn number(value: u64) -> String {
    units::grouped(value as f64)
}
