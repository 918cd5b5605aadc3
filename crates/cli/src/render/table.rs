//! The table for people, in poop's manner.

use cyclometer::core::event::Unit;
use cyclometer::core::ladder::{Cause, CauseKind, RungState, Works};
use cyclometer::core::plan::Outcome;
use cyclometer::core::report::Step;
use cyclometer::core::{Modes, Provenance, Rung, Verdict};
use cyclometer::stats::{DerivedSummary, DroppedRun, LineSummary, PartSummary, Statistics};

use crate::output::clean;
use crate::render::paint::{Paint, Style};
use crate::render::{Results, WIDTH, columns, target, units, wrap};

/// Blanks between columns.
const GAP: usize = 2;

/// Blanks before a note that stands on lines of its own.
const NOTE_INDENT: usize = 6;

/// The table with everything that belongs below it.
pub fn render(results: &Results<'_>, verbose: bool, paint: Paint) -> String {
    let several = results.report.runs.len() > 1;
    let mut out = heading(results, paint);
    out += &layout(&rows(results, several, verbose), several, paint);
    for line in footer(results, verbose) {
        for (i, part) in wrap(&line, WIDTH - 4).iter().enumerate() {
            let indent = if i == 0 { "  " } else { "    " };
            out += &format!("{indent}{}\n", paint.paint(Style::Dim, part));
        }
    }
    out
}

fn heading(results: &Results<'_>, paint: Paint) -> String {
    let runs = match results.report.runs.len() {
        1 => "1 run".to_owned(),
        n => format!("{n} runs"),
    };
    format!("{} · {runs}\n", paint.paint(Style::Heading, &target::subject(results.report)))
}

/// One row of the table.
struct Row {
    name: String,
    cells: Cells,
    note: String,
    style: Style,
}

enum Cells {
    /// Instead of a value.
    Word(String),
    /// The value of one run.
    Value(String),
    /// Mean, deviation, least and greatest value, outliers.
    Spread([String; 5]),
}

fn rows(results: &Results<'_>, several: bool, verbose: bool) -> Vec<Row> {
    let kept = results.runs_kept();
    let mut rows = Vec::new();
    for line in results.summary.lines.iter().filter(|line| !is_folded(line)) {
        rows.push(line_row(line, several, kept, verbose));
        rows.extend(line.parts.iter().map(|part| part_row(part, &line.unit, several)));
    }
    let derived =
        results.summary.derived.iter().filter(|metric| metric.requested || metric.verdict.has_value());
    rows.extend(derived.map(|metric| derived_row(metric, several, kept)));
    say_once(&mut rows);
    rows
}

/// A long note that repeats the one above is replaced by a reference to it.
fn say_once(rows: &mut [Row]) {
    const SHORT: usize = 40;
    for i in (1..rows.len()).rev() {
        if columns(&rows[i].note) > SHORT && rows[i].note == rows[i - 1].note {
            rows[i].note = "as above".to_owned();
        }
    }
}

/// An event that nobody asked for and that has no value is told below the table.
fn is_folded(line: &LineSummary) -> bool {
    !line.requested && line.statistics.mean.is_none()
}

fn line_row(line: &LineSummary, several: bool, kept: usize, verbose: bool) -> Row {
    let mark = line.provenance.map_or("", Provenance::mark);
    let mut notes = vec![verdict_note(line.verdict, line.reason.as_deref(), line.statistics.mean.is_some())];
    notes.push(runs_note(line.values.len(), kept));
    if line.requested || verbose {
        notes.extend(line.notes.iter().cloned());
    }
    if verbose {
        notes.push(source_note(line));
    }
    Row {
        name: clean(&line.name),
        cells: cells(&line.statistics, &line.unit, mark, line.verdict, several),
        note: join(notes),
        style: style(line.verdict),
    }
}

fn part_row(part: &PartSummary, unit: &Unit, several: bool) -> Row {
    Row {
        name: format!("  {}", clean(&part.pmu)),
        cells: cells(&part.statistics, unit, "", part.verdict, several),
        note: join(vec![
            format!("{} of the time", units::percent(part.share)),
            verdict_note(part.verdict, part.reason.as_deref(), part.statistics.mean.is_some()),
        ]),
        style: style(part.verdict),
    }
}

fn derived_row(metric: &DerivedSummary, several: bool, kept: usize) -> Row {
    let mark = metric.provenances.iter().map(|who| who.mark()).max().unwrap_or_default();
    let has_value = metric.statistics.mean.is_some();
    let reason = metric.reason.as_deref().map(|reason| if has_value { clean(reason) } else { gist(reason) });
    let note = verdict_note(metric.verdict, reason.as_deref(), has_value);
    let runs = if metric.values.is_empty() { String::new() } else { runs_note(metric.values.len(), kept) };
    Row {
        name: clean(&metric.name),
        cells: cells(&metric.statistics, &metric.unit, mark, metric.verdict, several),
        note: join(vec![note, runs]),
        style: style(metric.verdict),
    }
}

fn cells(statistics: &Statistics, unit: &Unit, mark: &str, verdict: Verdict, several: bool) -> Cells {
    let Some(mean) = statistics.mean else {
        return Cells::Word(verdict.to_string());
    };
    let mark = if mark.is_empty() { String::new() } else { format!(" {mark}") };
    if !several {
        return Cells::Value(units::precise(mean, unit) + &mark);
    }
    let short = |value: Option<f64>| value.map(|value| units::short(value, unit)).unwrap_or_default();
    let outliers = match statistics.outliers {
        0 => "0".to_owned(),
        n => format!("{n} ({})", units::percent(n as f64 / statistics.n as f64)),
    };
    let deviation = short(statistics.stddev) + &mark;
    Cells::Spread([short(Some(mean)), deviation, short(statistics.min), short(statistics.max), outliers])
}

fn verdict_note(verdict: Verdict, reason: Option<&str>, has_value: bool) -> String {
    let reason = clean(reason.unwrap_or_default());
    match verdict {
        Verdict::Exact => String::new(),
        // The verdict stands where the value would.
        _ if !has_value => reason,
        other => format!("{other}: {reason}"),
    }
}

fn runs_note(counted: usize, kept: usize) -> String {
    if counted == kept || counted == 0 {
        String::new()
    } else {
        format!("counted in {counted} of {kept} runs")
    }
}

fn source_note(line: &LineSummary) -> String {
    let chosen = match (line.rung, &line.resolution) {
        (Some(rung), Some(resolution)) => format!("{rung}: {}, scope {}", clean(resolution), line.scope),
        _ => String::new(),
    };
    let skipped = line.skipped.iter().map(|other| format!("not {}: {}", other.rung, clean(&other.reason)));
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

/// The widths that all rows have in common, in columns.
#[derive(Default)]
struct Widths {
    name: usize,
    value: usize,
    spread: [usize; 5],
}

const NAME: &str = "metric";
const ONE: &str = "value";
const SEVERAL: [&str; 3] = ["mean ± σ", "min … max", "outliers"];

fn layout(rows: &[Row], several: bool, paint: Paint) -> String {
    let widths = widths(rows, several);
    let mut out = paint.paint(Style::Dim, heads(&widths, several).trim_end()) + "\n";
    for row in rows {
        let cells = cells_text(&row.cells, &widths, several);
        let shown = cells.trim_end();
        let fits = 2 + widths.name + GAP + columns(&cells) + GAP + columns(&row.note) <= WIDTH;
        out += &format!("  {:name$}  {}", row.name, paint.paint(row.style, shown), name = widths.name);
        if fits && !row.note.is_empty() {
            let blanks = columns(&cells) - columns(shown) + GAP;
            out += &format!("{:blanks$}{}", "", row.note);
        }
        out.push('\n');
        if !fits {
            out += &note_lines(&row.note, paint);
        }
    }
    out
}

/// A note that does not fit behind its row.
fn note_lines(note: &str, paint: Paint) -> String {
    let lines = wrap(note, WIDTH - NOTE_INDENT);
    lines.iter().map(|line| format!("{:NOTE_INDENT$}{}\n", "", paint.paint(Style::Dim, line))).collect()
}

fn widths(rows: &[Row], several: bool) -> Widths {
    let mut widths = Widths { name: columns(NAME), ..Widths::default() };
    for row in rows {
        widths.name = widths.name.max(columns(&row.name));
        match &row.cells {
            Cells::Word(text) | Cells::Value(text) => widths.value = widths.value.max(columns(text)),
            Cells::Spread(parts) => {
                for (width, part) in widths.spread.iter_mut().zip(parts) {
                    *width = (*width).max(columns(part));
                }
            }
        }
    }
    if several {
        let [mean, deviation, min, max, outliers] = &mut widths.spread;
        let lacks = |head: &str, a: usize, b: usize| (columns(head)).saturating_sub(a + 3 + b);
        *deviation += lacks(SEVERAL[0], *mean, *deviation);
        *max += lacks(SEVERAL[1], *min, *max);
        *outliers = (*outliers).max(columns(SEVERAL[2]));
        *deviation += widths.value.saturating_sub(*mean + 3 + *deviation);
    } else {
        widths.value = widths.value.max(columns(ONE));
    }
    widths
}

fn heads(widths: &Widths, several: bool) -> String {
    let name = format!("  {NAME:name$}  ", name = widths.name);
    if !several {
        return format!("{name}{ONE:>value$}", value = widths.value);
    }
    let [mean, deviation, min, max, outliers] = widths.spread;
    let pair = |head: &str, sign: char, left: usize, right: usize| {
        let before = head.split(sign).next().map_or(0, columns);
        let lead = (left + 1).saturating_sub(before);
        let text = format!("{}{head}", " ".repeat(lead));
        format!("{text:width$}", width = left + 3 + right)
    };
    let spread = [pair(SEVERAL[0], '±', mean, deviation), pair(SEVERAL[1], '…', min, max)].join("  ");
    format!("{name}{spread}  {:>outliers$}", SEVERAL[2])
}

fn cells_text(cells: &Cells, widths: &Widths, several: bool) -> String {
    match cells {
        Cells::Word(text) if several => text.clone(),
        Cells::Word(text) | Cells::Value(text) => format!("{text:>value$}", value = widths.value),
        Cells::Spread([mean, deviation, min, max, outliers]) => {
            let [w_mean, w_deviation, w_min, w_max, w_outliers] = widths.spread;
            let sign = if deviation.is_empty() { ' ' } else { '±' };
            format!(
                "{mean:>w_mean$} {sign} {deviation:w_deviation$}  {min:>w_min$} … {max:w_max$}  \
                 {outliers:>w_outliers$}"
            )
        }
    }
}

fn footer(results: &Results<'_>, verbose: bool) -> Vec<String> {
    let mut lines = ending(results);
    lines.extend(folded(results));
    lines.extend(hint(results));
    lines.extend(legend(results));
    let shown = |step: &&Step| verbose || changes_a_name(results, step);
    lines.extend(results.report.steps.iter().filter(shown).map(step_text));
    lines
}

/// How the session ended, where that is worth a word.
fn ending(results: &Results<'_>) -> Vec<String> {
    let only = results.summary.only_dropped;
    let mut lines: Vec<String> = results.summary.dropped.iter().map(|run| dropped_text(run, only)).collect();
    if let (Some(signal), []) = (results.report.interrupted, lines.as_slice()) {
        lines.push(format!("interrupted by signal {signal}: this is what was measured until then"));
    }
    let early = if results.report.runs.len() > 1 { "ended early: " } else { "" };
    lines.extend(results.report.failure.as_ref().map(|failure| format!("{early}{}", clean(failure))));
    lines
}

fn dropped_text(dropped: &DroppedRun, only: bool) -> String {
    let what = if only { "is shown for want of a better one" } else { "is left out" };
    format!("run {} {what}: {}", dropped.run + 1, clean(&dropped.reason))
}

/// One line for all events that nobody asked for and that have no value, by reason.
fn folded(results: &Results<'_>) -> Option<String> {
    let mut by_reason: Vec<(String, Vec<String>)> = Vec::new();
    for line in results.summary.lines.iter().filter(|line| is_folded(line)) {
        let reason = gist(line.reason.as_deref().unwrap_or_default());
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(clean(&line.name)),
            None => by_reason.push((reason, vec![clean(&line.name)])),
        }
    }
    let groups: Vec<String> =
        by_reason.iter().map(|(reason, names)| format!("{} ({reason})", names.join(", "))).collect();
    let more = "`cyclometer doctor` says more";
    (!groups.is_empty()).then(|| format!("not counted here: {}; {more}", groups.join("; ")))
}

/// What a reason begins with; the explanation behind the colon is `doctor`'s.
fn gist(reason: &str) -> String {
    clean(reason.split_once(": ").map_or(reason, |(gist, _)| gist))
}

/// The one line that says how hardware events could be counted.
fn hint(results: &Results<'_>) -> Option<String> {
    let wanted = |line: &LineSummary| line.modes.is_some() && !line.verdict.has_value();
    let ladder = &results.machine.ladder;
    if ladder.perf_hardware.is_ok() || !results.summary.lines.iter().any(wanted) {
        return None;
    }
    let works = |state: &RungState| matches!(state.works, Works::Yes | Works::Partly);
    if ladder.state(Rung::Soft).is_some_and(works) {
        return Some("to count instructions exactly, by translation: add -e instructions".to_owned());
    }
    hardware_mend(&ladder.state(Rung::Perf)?.causes)
        .map(|mend| format!("to count them, run: {}", clean(mend)))
}

/// The command that brings hardware events; none where the hardware itself is missing.
fn hardware_mend(causes: &[Cause]) -> Option<&str> {
    let missing = [
        CauseKind::NoVirtualPmu,
        CauseKind::NoPmu,
        CauseKind::HypervisorFilter,
        CauseKind::UnknownCpu,
        CauseKind::NotInKernel,
    ];
    match causes.iter().find(|cause| missing.contains(&cause.kind)) {
        Some(cause) => cause.mend.as_deref(),
        None => causes.iter().find_map(|cause| cause.mend.as_deref()),
    }
}

fn legend(results: &Results<'_>) -> Option<String> {
    let mut marked: Vec<Provenance> =
        results.summary.lines.iter().filter_map(|line| line.provenance).collect();
    marked.sort_unstable();
    marked.dedup();
    let meanings: Vec<String> = marked
        .iter()
        .filter(|who| !who.mark().is_empty())
        .map(|who| format!("{} {}", who.mark(), meaning(*who)))
        .collect();
    (!meanings.is_empty()).then(|| meanings.join(", "))
}

fn meaning(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Counted => "counted exactly by the software PMU",
        Provenance::Modelled => "from a model, not from this CPU",
        Provenance::Simulated => "simulated: no program's behaviour",
        _ => "",
    }
}

/// Whether a step left an event with other modes than asked for.
fn changes_a_name(results: &Results<'_>, step: &Step) -> bool {
    let Some(event) = &step.event else { return false };
    results.report.plan.lines.iter().any(|line| {
        let asked = line.event.modifiers.modes.unwrap_or(Modes::USER);
        let named = event == &line.event.name || event.starts_with(&format!("{}:", line.event.name));
        let counted = matches!(line.outcome, Outcome::Counted { .. });
        let effective = cyclometer::stats::effective_modes(line);
        named && counted && effective.is_some_and(|modes| modes != asked)
    })
}

fn step_text(step: &Step) -> String {
    let event = step.event.as_ref().map(|event| format!("{}: ", clean(event))).unwrap_or_default();
    format!("{event}{}; {}", clean(&step.refused), clean(&step.done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{Show, every_verdict, golden, hybrid, interrupted, one_run, several_runs};

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
    fn several_runs_with_an_outlier_and_a_dropped_one() {
        check("several.txt", &several_runs(), false);
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
    fn a_hybrid_shows_its_core_types() {
        check("hybrid.txt", &hybrid(), false);
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
        show.report.steps.push(Step {
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
        assert!(hinted(&show).contains("to count them, run: sudo sysctl kernel.perf_event_paranoid=2"));
    }

    #[test]
    fn colour_does_not_change_the_text() {
        use crate::args::ColorWhen;
        use crate::output::Channel;
        let paint = Paint::new(ColorWhen::Always, Channel::Out, None);
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
