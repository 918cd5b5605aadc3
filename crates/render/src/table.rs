//! The table for people.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use cyclometer_toolkit::core::count::CONFIDENCE;
use cyclometer_toolkit::core::event::Unit;
use cyclometer_toolkit::core::{LaunchKind, MissingReason, NoInterval, Provenance, Verdict};
use cyclometer_toolkit::stats::{
    DerivedSummary, Determinism, Failures, LineSummary, MeanInterval, PartSummary, Statistics,
};

use crate::footer::{self, is_folded};
use crate::marks::{holds, marked};
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{Results, WIDTH, columns, target, units, wrap};

/// Blanks before a note that stands on lines of its own.
const NOTE_INDENT: usize = 6;

/// Blanks behind a name, and before a note in the same line.
const GAP: u16 = 2;

/// The table with everything that belongs below it.
pub fn render(results: &Results<'_>, verbose: bool, paint: Paint) -> String {
    let several = results.report.runs.len() > 1;
    let table = layout(&rows(results, several, verbose), several, paint);
    heading(results, paint)
        + &table
        + &medians(results, paint)
        + &remarks(results, verbose, paint, &mut Vec::new())
        + &results.regions.map(|regions| regions.tables(results, verbose, paint)).unwrap_or_default()
}

/// The table alone, below a heading.
pub fn render_below(heading: &str, results: &Results<'_>, verbose: bool, paint: Paint) -> String {
    let several = results.report.runs.len() > 1;
    format!("{}\n", paint.paint(Style::Heading, heading))
        + &layout(&rows(results, several, verbose), several, paint)
}

/// The same as one of several tables: remarks below earlier tables are not repeated.
pub fn render_among(results: &Results<'_>, verbose: bool, paint: Paint, said: &mut Vec<String>) -> String {
    let several = results.report.runs.len() > 1;
    let table = layout(&rows(results, several, verbose), several, paint);
    heading(results, paint) + &table + &remarks(results, verbose, paint, said)
}

/// The remarks below a table that have not been printed before.
fn remarks(results: &Results<'_>, verbose: bool, paint: Paint, said: &mut Vec<String>) -> String {
    let mut out = String::new();
    for line in footer::lines(results, verbose) {
        if !said.contains(&line) {
            out += &remark(&line, paint);
            said.push(line);
        }
    }
    out
}

/// The medians of values that vary, with intervals, where the runs are enough for those.
fn medians(results: &Results<'_>, paint: Paint) -> String {
    let lines = results.summary.lines.iter().filter(|line| !is_folded(line) && line.interval.is_none());
    let lines = lines.map(|line| (&line.name, &line.unit, &line.statistics));
    let derived =
        results.summary.derived.iter().map(|metric| (&metric.name, &metric.unit, &metric.statistics));
    let varies = |statistics: &Statistics| statistics.min < statistics.max;
    let shown = lines.chain(derived).filter(|(_, _, statistics)| varies(statistics));
    let rows: Vec<[String; 5]> =
        shown.filter_map(|(name, unit, statistics)| median_row(name, unit, statistics)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let width = |column: usize| rows.iter().map(|row| columns(&row[column])).max().unwrap_or(0);
    let [names, medians, lows] = [width(0).max(6), width(1).max(6), width(2)];
    let head = format!("{:names$}  {:>medians$}  95 % interval", "metric", "median");
    let row = |[name, median, low, dots, high]: &[String; 5]| {
        format!("  {name:names$}  {median:>medians$}  {low:>lows$} {dots} {high}\n")
    };
    format!("  {}\n", paint.paint(Style::Dim, &head)) + &rows.iter().map(row).collect::<String>()
}

fn median_row(name: &str, unit: &Unit, statistics: &Statistics) -> Option<[String; 5]> {
    let (median, (low, high)) = (statistics.median?, statistics.median_interval?);
    let [low, high] = units::range(low, high, unit);
    Some([clean(name), units::short(median, unit), low, "…".to_owned(), high])
}

/// A remark below a table.
pub fn remark(text: &str, paint: Paint) -> String {
    let indent = |i| if i == 0 { "  " } else { "    " };
    let parts = wrap(text, WIDTH - 4);
    let line = |(i, part): (usize, &String)| format!("{}{}\n", indent(i), paint.paint(Style::Dim, part));
    parts.iter().enumerate().map(line).collect()
}

fn heading(results: &Results<'_>, paint: Paint) -> String {
    let runs = match results.report.runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    let runs = runs + &translated_runs(results);
    let failed = failed_runs(results).map(|failed| format!(", {}", paint.paint(Style::Bad, &failed)));
    let subject = paint.paint(Style::Heading, &target::subject(results));
    format!("{subject} · {runs}{}\n", failed.unwrap_or_default())
}

/// How many of the runs were translated; empty when none was.
fn translated_runs(results: &Results<'_>) -> String {
    let runs = &results.report.runs;
    match runs.iter().filter(|run| run.launch == LaunchKind::Translated).count() {
        0 => String::new(),
        1 if runs.len() == 1 => ", translated".to_owned(),
        n if n == runs.len() => ", all translated".to_owned(),
        n => format!(", {n} of them translated"),
    }
}

/// How many of the runs that count failed.
fn failed_runs(results: &Results<'_>) -> Option<String> {
    let runs = results.report.runs.len();
    match Failures::of(results.report).count() {
        0 => None,
        1 if runs == 1 => Some("failed".to_owned()),
        n if n == runs => Some("all failed".to_owned()),
        n => Some(format!("{n} of them failed")),
    }
}

/// One row of the table.
struct TableRow {
    name: String,
    cells: Cells,
    /// The source of the count, unless that is hardware or the kernel.
    mark: &'static str,
    note: String,
    style: Style,
}

enum Cells {
    /// Instead of a value.
    Word(String),
    /// A text for each column of [`ONE`] or [`SEVERAL`], the mark excepted.
    Numbers(Vec<String>),
}

impl Cells {
    /// The text of the last column; empty if a word replaces the numbers.
    fn last(&self) -> &str {
        match self {
            Cells::Word(_) => "",
            Cells::Numbers(texts) => texts.last().map_or("", String::as_str),
        }
    }

    /// Whether the value of one run has the width of its interval behind it.
    fn has_interval(&self) -> bool {
        matches!(self, Cells::Numbers(texts) if texts.len() > 1)
    }
}

fn rows(results: &Results<'_>, several: bool, verbose: bool) -> Vec<TableRow> {
    let mut rows = Vec::new();
    for line in results.summary.lines.iter().filter(|line| !is_folded(line)) {
        rows.push(line_row(line, several, results.runs_for(line.slot), verbose));
        rows.extend(parts_that_ran(line, verbose).map(|part| part_row(part, line, several)));
    }
    let shown = |metric: &&DerivedSummary| metric.asked || metric.statistics.mean.is_some();
    let derived = results.summary.derived.iter().filter(shown);
    rows.extend(derived.map(|metric| derived_row(metric, several, runs_for_derived(metric, results))));
    say_once(&mut rows);
    rows
}

/// The core types of a hybrid between which the time was divided, none when all was spent on one; the units
/// of a device; the summands of a sum.
fn parts_that_ran(line: &LineSummary, verbose: bool) -> impl Iterator<Item = &PartSummary> {
    let ran = |part: &&PartSummary| part.share > 0.0;
    let divided = line.parts.iter().filter(ran).count() > 1;
    let is_shown = move |part: &&PartSummary| divided && (verbose || part.summand.is_none());
    line.parts.iter().filter(ran).filter(is_shown)
}

/// A long note that repeats the one above is replaced by a reference to it.
fn say_once(rows: &mut [TableRow]) {
    const SHORT: usize = 40;
    for i in (1..rows.len()).rev() {
        if columns(&rows[i].note) > SHORT && rows[i].note == rows[i - 1].note {
            rows[i].note = "as above".to_owned();
        }
    }
}

fn line_row(line: &LineSummary, several: bool, kept: usize, verbose: bool) -> TableRow {
    let mut notes = vec![match &line.interval {
        Some(interval) => interval_note(line, interval, several, verbose),
        None => verdict_note(line.verdict, line.reason.as_deref(), line.statistics.mean.is_some()),
    }];
    notes.push(runs_note(line.values.len(), kept, line.statistics.mean.is_some()));
    notes.push(translation_note(line.is_of_the_translation()));
    notes.push(determinism_note(line.determinism.filter(|_| several && line.statistics.mean.is_some())));
    if verbose {
        notes.push(source_note(line));
    }
    TableRow {
        name: clean(&line.name),
        cells: line_cells(line, several),
        mark: marked(line).map_or("", Provenance::mark),
        note: join(notes),
        style: style(line.verdict),
    }
}

/// The numbers of a line; a count that several runs agree on is shown to its last digit, once.
fn line_cells(line: &LineSummary, several: bool) -> Cells {
    match (line.determinism, line.statistics.mean) {
        (Some(Determinism::Deterministic), Some(value)) if several => {
            let mut texts = vec![units::precise(value, &line.unit)];
            texts.resize(SEVERAL.len() - 1, String::new());
            Cells::Numbers(texts)
        }
        (_, Some(value)) if !several => {
            let mut texts = vec![units::precise(value, &line.unit)];
            if let Some(Ok(interval)) = &line.interval {
                texts.extend([SIGN.to_owned(), half_width(units::precise(interval.half_width, &line.unit))]);
            }
            Cells::Numbers(texts)
        }
        // The deviation of estimates without a known error does not describe the runs.
        _ if matches!(line.interval, Some(Err(_))) => {
            let statistics = Statistics { stddev: None, ..line.statistics.clone() };
            cells(&statistics, &line.unit, line.verdict, several)
        }
        _ => cells(&line.statistics, &line.unit, line.verdict, several),
    }
}

/// `12,345 (95 %)`
fn half_width(distance: String) -> String {
    format!("{distance} ({})", units::percent(CONFIDENCE))
}

/// The data that an estimate is based on, and its possible error where the table has no column for that.
fn interval_note(
    line: &LineSummary,
    interval: &Result<MeanInterval, NoInterval>,
    several: bool,
    verbose: bool,
) -> String {
    let observed = clean(line.reason.as_deref().unwrap_or_default());
    let rotated = line.values.iter().any(|value| value.rotation_group.is_some());
    match interval {
        Ok(interval) if several => {
            let distance = half_width(units::short(interval.half_width, &line.unit));
            format!("mean ± {distance}, {observed}")
        }
        Ok(_) => observed,
        Err(reason) if rotated || verbose => {
            format!("{}: {observed}; no interval: {}", line.verdict, clean(&reason.to_string()))
        }
        Err(_) => format!("{}: {observed}", line.verdict),
    }
}

fn part_row(part: &PartSummary, line: &LineSummary, several: bool) -> TableRow {
    let pmu = part.pmu.as_deref().unwrap_or_default();
    let name = match &part.summand {
        None => pmu.to_owned(),
        Some(event) if line.is_hybrid => format!("{pmu}/{event}/"),
        Some(event) => event.clone(),
    };
    let share = line.is_hybrid.then(|| units::percent(part.share));
    TableRow {
        name: format!("  {}", clean(&name)),
        cells: cells(&part.statistics, &line.unit, part.verdict, several),
        mark: "",
        note: join(vec![
            share.map(|share| format!("{share} of the time")).unwrap_or_default(),
            verdict_note(part.verdict, part.reason.as_deref(), part.statistics.mean.is_some()),
        ]),
        style: style(part.verdict),
    }
}

fn runs_for_derived(metric: &DerivedSummary, results: &Results<'_>) -> usize {
    results.runs_of(metric.values.first().and_then(|value| results.launch_of_pass(value.pass)))
}

/// Stands for the value of a metric that has none: its inputs may all have been counted.
pub const NOT_COUNTABLE: &str = "not countable";

fn derived_row(metric: &DerivedSummary, several: bool, kept: usize) -> TableRow {
    let has_value = metric.statistics.mean.is_some();
    let note = verdict_note(metric.verdict, metric.reason.as_deref(), has_value);
    TableRow {
        name: clean(&metric.name),
        cells: match has_value {
            true => cells(&metric.statistics, &metric.unit, metric.verdict, several),
            false => Cells::Word(NOT_COUNTABLE.to_owned()),
        },
        mark: match has_value {
            true => {
                let marked = metric.provenances.iter().filter(|who| holds(**who, metric.verdict));
                marked.map(|who| who.mark()).max().unwrap_or_default()
            }
            false => "",
        },
        note: join(vec![
            note,
            runs_note(metric.values.len(), kept, has_value),
            translation_note(metric.is_of_the_translation),
        ]),
        style: style(metric.verdict),
    }
}

fn cells(statistics: &Statistics, unit: &Unit, verdict: Verdict, several: bool) -> Cells {
    let Some(mean) = statistics.mean else {
        return Cells::Word(verdict.to_string());
    };
    if !several {
        return Cells::Numbers(vec![units::precise(mean, unit)]);
    }
    let [mean, sign, deviation] = units::spread(mean, statistics.stddev, unit);
    let (min, max) = (statistics.min.unwrap_or_default(), statistics.max.unwrap_or_default());
    let [min, max] = units::range(min, max, unit);
    let outliers = match statistics.outliers {
        None => String::new(),
        Some(0) => "0".to_owned(),
        Some(n) => format!("{n} ({})", units::percent(n as f64 / statistics.n as f64)),
    };
    Cells::Numbers(vec![mean, sign, deviation, min, "…".to_owned(), max, outliers])
}

fn verdict_note(verdict: Verdict, reason: Option<&str>, has_value: bool) -> String {
    let reason = clean(reason.unwrap_or_default());
    match verdict {
        Verdict::Exact => String::new(),
        // The verdict replaces the missing value.
        _ if !has_value => reason,
        other => format!("{other}: {reason}"),
    }
}

/// In how many of the runs an event had its pass.
fn runs_note(counted: usize, kept: usize, has_value: bool) -> String {
    match has_value {
        _ if counted == kept || counted == 0 => String::new(),
        true => format!("counted in {counted} of {kept} runs"),
        false => format!("in the passes of {counted} of {kept} runs"),
    }
}

/// The kernel's accounting of a translated run includes the translation, so it is not the program's own.
fn translation_note(is_of_the_translation: bool) -> String {
    if is_of_the_translation { "translated".to_owned() } else { String::new() }
}

fn determinism_note(determinism: Option<Determinism>) -> String {
    match determinism {
        Some(Determinism::Deterministic) => "deterministic".to_owned(),
        Some(Determinism::Varies) => "varies".to_owned(),
        Some(_) => "not checked: counted once".to_owned(),
        None => String::new(),
    }
}

fn source_note(line: &LineSummary) -> String {
    let chosen = match (line.rung, &line.resolution) {
        (Some(rung), Some(resolution)) => format!("{rung}: {}, scope {}", clean(resolution), line.scope),
        _ => String::new(),
    };
    let said = line.not_planned.as_ref().and_then(MissingReason::unused_source);
    let others = line.skipped.iter().filter(|other| said != Some(&other.reason));
    let skipped = others.map(|other| format!("not {}: {}", other.rung, clean(&other.reason.to_string())));
    join([chosen].into_iter().chain(skipped).collect())
}

fn join(notes: Vec<String>) -> String {
    notes.into_iter().filter(|note| !note.is_empty()).collect::<Vec<_>>().join("; ")
}

fn style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::Exact => Style::Good,
        Verdict::Scaled | Verdict::Partial => Style::Caution,
        _ => Style::Bad,
    }
}

/// A column behind the names: the blanks before it, its head, where its text stands.
type Column = (u16, &'static str, CellAlignment);

/// One run: the value, for an estimate how far it may be off, and the mark of its provenance.
const ONE: &[Column] = &[
    (0, "value", CellAlignment::Right),
    (1, SIGN, CellAlignment::Left),
    (1, HALF_WIDTH, CellAlignment::Left),
    (1, MARK, CellAlignment::Left),
];

/// Several runs.
const SEVERAL: &[Column] = &[
    (0, "mean", CellAlignment::Right),
    (1, SIGN, CellAlignment::Left),
    (1, "σ", CellAlignment::Left),
    (1, MARK, CellAlignment::Left),
    (2, "min", CellAlignment::Right),
    (1, "…", CellAlignment::Left),
    (1, "max", CellAlignment::Left),
    (2, OUTLIERS, CellAlignment::Right),
];

/// Between a value and how far it may be off.
const SIGN: &str = "±";

/// The head of the column that is left out, with the sign before it, where nothing was estimated with an
/// interval.
const HALF_WIDTH: &str = "half-width";

/// The head of the column of marks, which is left out where nothing is marked.
const MARK: &str = "";

/// The head of the column that is left out where the runs are too few to judge.
const OUTLIERS: &str = "outliers";

fn layout(rows: &[TableRow], several: bool, paint: Paint) -> String {
    let room = room_for_names(rows, several);
    let table = table(rows, several, room);
    let name_columns = usize::from(2 + table.column_max_content_widths()[0] + GAP);
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let mut out = paint.paint(Style::Dim, head.trim_end()) + "\n";
    for (row, line) in rows.iter().zip(lines) {
        if columns(&row.name) > room {
            out += &format!("  {}\n", row.name);
        }
        out += &row_text(row, &line, name_columns, paint);
    }
    out
}

/// The columns that the numbers leave to names; a longer name stands on a line of its own.
fn room_for_names(rows: &[TableRow], several: bool) -> usize {
    let table = table(rows, several, 0);
    let names = usize::from(table.column_max_content_widths()[0]);
    let numbers = table.lines().next().map_or(0, |line| columns(&line)).saturating_sub(names);
    WIDTH.saturating_sub(numbers)
}

/// Names of at most `room` columns and numbers: a line for each row, notes not included.
fn table(rows: &[TableRow], several: bool, room: usize) -> Table {
    let kinds = if several { SEVERAL } else { ONE };
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["metric"].into_iter().chain(kinds.iter().map(|(_, head, _)| *head)));
    for row in rows {
        let mut texts = match &row.cells {
            Cells::Numbers(texts) => texts.iter(),
            Cells::Word(text) if !several => std::slice::from_ref(text).iter(),
            // A word replaces all the columns.
            Cells::Word(_) => [].iter(),
        };
        let text = |(_, head, _): &Column| match *head {
            MARK => row.mark,
            _ => texts.next().map_or("", String::as_str),
        };
        let name = if columns(&row.name) > room { "" } else { &row.name };
        table.add_row([name].into_iter().chain(kinds.iter().map(text)));
    }
    let mut columns = table.column_iter_mut();
    if let Some(names) = columns.next() {
        names.set_padding((2, GAP));
    }
    for (column, (blanks, head, alignment)) in columns.zip(kinds) {
        column.set_padding((*blanks, 0)).set_cell_alignment(*alignment);
        let empty = match *head {
            MARK => rows.iter().all(|row| row.mark.is_empty()),
            OUTLIERS => rows.iter().all(|row| row.cells.last().is_empty()),
            SIGN | HALF_WIDTH if !several => !rows.iter().any(|row| row.cells.has_interval()),
            _ => false,
        };
        if empty {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    table
}

/// A row with its note, behind it where there is room, else below.
fn row_text(row: &TableRow, line: &str, name_columns: usize, paint: Paint) -> String {
    let name: String = line.chars().take(name_columns).collect();
    let numbers: String = line.chars().skip(name_columns).collect();
    let (shown, width) = match &row.cells {
        Cells::Word(word) if numbers.trim().is_empty() => (word.as_str(), columns(word)),
        _ => (numbers.trim_end(), columns(&numbers)),
    };
    let blanks = width - columns(shown) + usize::from(GAP);
    let painted = name + &paint.paint(row.style, shown);
    if row.note.is_empty() {
        return painted + "\n";
    }
    // In a column with the other notes, or else nearer.
    for blanks in [blanks, usize::from(GAP)] {
        if name_columns + columns(shown) + blanks + columns(&row.note) <= WIDTH {
            return format!("{painted}{:blanks$}{}\n", "", row.note);
        }
    }
    let lines = wrap(&row.note, WIDTH - NOTE_INDENT);
    let below = lines.iter().map(|line| format!("{:NOTE_INDENT$}{}\n", "", paint.paint(Style::Dim, line)));
    painted + "\n" + &below.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::OutputStream;
    use cyclometer_toolkit::core::Modes;
    use cyclometer_toolkit::core::exec::RefusalKind;
    use cyclometer_toolkit::core::plan::IntentSubject;
    use cyclometer_toolkit::core::report::FallbackStep;

    use crate::testing::{
        Show, counted_runs, every_verdict, failing_runs, golden, hybrid, interrupted, metrics, one_run,
        remarks, rotated, several_runs, summands, three_passes, translated_run, vm_with_soft,
    };

    fn check(name: &str, show: &Show, verbose: bool) {
        let text = show.show(|results| render(results, verbose, Paint::NONE));
        for line in text.lines() {
            assert!(columns(line) <= WIDTH, "wider than {WIDTH} columns: {line}");
            assert!(!line.chars().any(char::is_control), "{line:?}");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
        golden(name, &text);
    }

    #[test]
    fn one_run_without_a_pmu() {
        check("one.txt", &one_run(), false);
    }

    #[test]
    fn metrics_that_were_asked_for_stand_below_the_counts_or_say_why_not() {
        for (name, runs) in [("metrics-one.txt", 1), ("metrics-several.txt", 3)] {
            let (show, requests) = metrics(runs);
            let text = show.show_with(&requests, |results| render(results, false, Paint::NONE));
            assert!(text.lines().all(|line| columns(line) <= WIDTH), "{text}");
            golden(name, &text);
        }
    }

    #[test]
    fn a_metric_without_a_value_has_no_mark_of_who_counted() {
        let (mut show, requests) = metrics(3);
        show.report.plan.lines[0].event.candidates[0].provenance =
            cyclometer_toolkit::core::Provenance::Counted;
        let text = show.show_with(&requests, |results| render(results, false, Paint::NONE));
        assert!(text.contains("walk_mpki:u             not countable"), "{text}");
    }

    #[test]
    fn several_runs_with_an_outlier_and_a_dropped_one() {
        check("several.txt", &several_runs(), false);
    }

    #[test]
    fn runs_that_failed_and_streams_are_told() {
        check("failing.txt", &failing_runs(), false);
    }

    #[test]
    fn where_output_went_is_told_unless_it_is_where_ours_goes() {
        let told = |stdout: OutputStream| {
            let mut show = one_run();
            show.report.command.as_mut().unwrap().stdout = stdout;
            let text = show.show(|results| render(results, false, Paint::NONE));
            text.lines().find_map(|line| line.trim().strip_prefix("standard output: ")).map(str::to_owned)
        };
        assert_eq!(told(OutputStream::Inherit), None);
        assert_eq!(told(OutputStream::Discard).unwrap(), "discarded (not through /dev/null)");
        assert_eq!(told(OutputStream::Pipe).unwrap(), "a pipe, read and discarded");
        assert_eq!(told(OutputStream::File("f".into())).unwrap(), "a file");
        assert!(told(OutputStream::Null).unwrap().starts_with("/dev/null, for which some programs"));
    }

    #[test]
    fn the_only_run_is_told_to_have_failed_once() {
        let mut show = one_run();
        show.report.runs[0].exit = Some(cyclometer_toolkit::ExitStatus::Code(3));
        let told = |show: &Show| show.show(|results| render(results, false, Paint::NONE));
        let text = told(&show);
        assert!(
            text.contains("· 1 run, failed\n") && text.contains("the run failed (exit status 3)"),
            "{text}"
        );
        show.report.failure = Some(cyclometer_toolkit::core::report::SessionFailure {
            message: "the command exited with status 3 in run 1".to_owned(),
            recovery: cyclometer_toolkit::Recovery::None,
        });
        let text = told(&show);
        assert!(!text.contains("the run failed") && text.contains("exited with status 3 in run 1"), "{text}");
    }

    #[test]
    fn every_verdict_and_provenance_of_one_run() {
        check("verdicts-one.txt", &every_verdict(1), false);
    }

    #[test]
    fn every_verdict_and_provenance_of_several_runs() {
        check("verdicts-several.txt", &every_verdict(3), false);
    }

    #[test]
    fn passes_over_runs_are_told_with_their_reason() {
        check("passes.txt", &three_passes(), false);
    }

    #[test]
    fn events_that_took_turns_have_intervals_or_say_why_not() {
        check("turns-one.txt", &rotated(&[200]), false);
        check("turns-several.txt", &rotated(&[200, 220, 240]), false);
        check("turns-few.txt", &rotated(&[30]), false);
        check("turns-short.txt", &rotated(&[1]), false);
    }

    #[test]
    fn a_pass_that_gave_no_value_is_not_told_to_have_counted() {
        let mut show = three_passes();
        for cell in show.report.runs.iter_mut().flat_map(|run| &mut run.reading.cells) {
            cell.time_running_ns = if cell.slot.0 == 1 { 0 } else { cell.time_running_ns };
        }
        let told = |show: &Show| {
            let text = show.show(|results| render(results, false, Paint::NONE));
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let text = told(&show);
        assert!(text.contains("in the passes of 3 of 7 runs"), "{text}");
        show.report.runs.truncate(1);
        let text = told(&show);
        assert!(text.contains("over 1 run, as"), "{text}");
        assert!(text.contains("the passes of some events were in no run that counts"), "{text}");
    }

    #[test]
    fn turns_of_what_already_runs_are_told_without_a_hint_that_does_not_help() {
        let mut show = rotated(&[200]);
        show.report.plan.intent.subject = IntentSubject::Running;
        show.report.plan.sharing.because = Some("4 events of cpu can only use 2 counters".into());
        let text = show.show(|results| render(results, false, Paint::NONE));
        let remark = "events shared counters in rotation, as 4 events of cpu can only use 2\n    counters\n";
        assert!(text.contains(remark), "{text}");
        assert!(!text.contains("-r "), "{text}");
    }

    #[test]
    fn estimates_without_an_interval_have_no_deviation_that_looks_like_one() {
        let text = rotated(&[6, 9]).show(|results| render(results, false, Paint::NONE));
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("instructions:u").contains('±'), "{text}");
        assert!(!line("cache-misses:u").contains('±') && line("cache-misses:u").contains('…'), "{text}");
    }

    #[test]
    fn a_long_name_stands_above_its_numbers() {
        let mut show = several_runs();
        show.report.plan.lines[6].event.name = "cpu/event=0xc5,umask=0x11,cmask=1/".into();
        check("long-name.txt", &show, false);
    }

    #[test]
    fn a_hybrid_shows_its_core_types() {
        check("hybrid.txt", &hybrid(), false);
    }

    #[test]
    fn the_summands_of_a_sum_have_no_share_of_the_time_and_only_a_scaled_one_has_a_note() {
        check("sum-verbose.txt", &summands(), true);
    }

    #[test]
    fn a_core_type_that_never_ran_has_no_row() {
        let mut show = hybrid();
        show.report.runs[0].reading.cells[0].time_running_ns = 100_000_000;
        let atom = &mut show.report.runs[0].reading.cells[1];
        (atom.raw, atom.time_running_ns) = (0, 0);
        let text = show.show(|results| render(results, false, Paint::NONE));
        assert!(text.contains("cycles:u  700,000"), "{text}");
        assert!(!text.contains("cpu_core") && !text.contains("cpu_atom"), "{text}");
    }

    #[test]
    fn remarks_are_made_once_and_where_they_matter() {
        check("remarks.txt", &remarks(), false);
        check("remarks-verbose.txt", &remarks(), true);
    }

    #[test]
    fn a_translated_run_marks_its_times_and_says_what_was_lost() {
        check("translated.txt", &translated_run(), false);
    }

    #[test]
    fn counted_runs_and_timed_runs_stand_in_one_table() {
        check("counted.txt", &counted_runs(), false);
    }

    #[test]
    fn what_was_lost_is_shown_although_nobody_asked_for_it() {
        let mut show = translated_run();
        show.report.plan.lines[6].event.requested = false;
        let text = show.show(|results| render(results, false, Paint::NONE));
        assert!(text.contains("calls:u"), "{text}");
        assert!(text.contains("detached at 0x401136: the program started a thread"), "{text}");
    }

    #[test]
    fn how_to_count_is_said_where_the_software_pmu_works_and_was_not_asked() {
        use cyclometer_toolkit::core::Rung;
        use cyclometer_toolkit::core::skipped::{SkipReason, Skipped};
        let hinted = |show: &Show| {
            let text = show.show(|results| render(results, false, Paint::NONE));
            text.contains("to count instructions exactly, by translation: -e instructions, or -r 3")
        };
        let left_out = |reason| Skipped { rung: Rung::Soft, reason };
        let mut show = one_run();
        show.machine = vm_with_soft();
        assert!(!hinted(&show), "the software PMU was not among the sources");
        show.report.plan.lines[6].skipped.push(left_out(SkipReason::TranslationOnRequest));
        assert!(hinted(&show));
        show.report.plan.intent.subject = IntentSubject::Running;
        assert!(!hinted(&show), "it counts commands only");
        show.report.plan.intent.subject = IntentSubject::Command;
        let (kind, reason) = (RefusalKind::TargetNotSupported, Box::new("a setuid program".into()));
        show.report.plan.lines[6].skipped[0] = left_out(SkipReason::Refused { kind, reason });
        assert!(!hinted(&show), "it was asked, and refused");
        show.report.plan.lines[6].skipped[0] = left_out(SkipReason::SeesUserMode);
        assert!(!hinted(&show), "a request would change nothing");
    }

    #[test]
    fn an_interrupted_run_is_shown_as_such() {
        check("interrupted.txt", &interrupted(), false);
    }

    #[test]
    fn more_is_said_on_request() {
        check("verbose.txt", &every_verdict(1), true);
    }

    #[test]
    fn a_step_that_changed_what_a_name_means_is_always_shown() {
        let mut show = hybrid();
        show.report.plan.lines[0].event.modifiers.modes = Some(Modes::USER_KERNEL);
        show.report.steps.push(FallbackStep {
            event: Some("cycles:uk".into()),
            refused: "EACCES".into(),
            done: "counted user mode only".into(),
        });
        check("narrowed.txt", &show, false);
    }

    #[test]
    fn a_command_is_hinted_at_only_where_it_helps() {
        let hinted = |show: &Show| show.show(|results| render(results, false, Paint::NONE));
        let mut show = one_run();
        assert!(!hinted(&show).contains("to count them"), "nothing mends a missing PMU");
        show.machine.ladder.rungs[0].causes.remove(0);
        assert!(hinted(&show).contains("to count them: sudo sysctl kernel.perf_event_paranoid=2"));
    }

    #[test]
    fn colour_does_not_change_the_text() {
        use crate::paint::ColourUse;
        use crate::paint::ShownBy;
        let paint = Paint::new(ColourUse::Always, ShownBy::Plain);
        let painted = every_verdict(3).show(|results| render(results, false, paint));
        let plain = every_verdict(3).show(|results| render(results, false, Paint::NONE));
        let mut stripped = painted.clone();
        for code in ["0", "1", "2", "31", "32", "33"] {
            stripped = stripped.replace(&format!("\x1b[{code}m"), "");
        }
        assert_ne!(painted, plain);
        assert_eq!(stripped, plain);
    }
}
