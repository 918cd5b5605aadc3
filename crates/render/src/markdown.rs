//! Markdown: a table to paste into an issue or a pull request.

use cyclometer_toolkit::core::Provenance;
use cyclometer_toolkit::core::event::Unit;
use cyclometer_toolkit::stats::{Failures, LineSummary, Statistics};

use crate::regions::Regions;
use crate::table::NOT_COUNTABLE;
use crate::text::clean;
use crate::{Results, target, units};

/// A heading and a table with a row for each metric.
pub fn render(results: &Results<'_>) -> String {
    let runs = results.report.runs.len();
    let failed = Failures::of(results.report).text().map(|text| format!("**{}**\n\n", escaped(&text)));
    let heading = format!("### {} · {runs} run{}\n\n", code(&target::subject(results)), plural(runs));
    let heading = heading + &failed.unwrap_or_default();
    let regions = results.regions.map(Regions::all).unwrap_or_default().iter().map(|counted| {
        let (label, heading) = (code(&clean(&counted.region.label)), escaped(&counted.heading()));
        format!("\n#### Region {label}: {heading}\n\n") + &table(&counted.shown(results))
    });
    heading + &table(results) + &regions.collect::<String>()
}

/// A row for each metric.
fn table(results: &Results<'_>) -> String {
    let mut out = String::new();
    let estimated = results.summary.lines.iter().any(|line| half_width(line).is_some());
    let (head, rule) = if estimated { (" ± (95 %) |", "---:|") } else { ("", "") };
    out += &format!("| metric | mean |{head} σ | min | max | n | count | provenance | note |\n");
    out += &format!("|:---|---:|{rule}---:|---:|---:|---:|:---|:---|:---|\n");
    for line in &results.summary.lines {
        let who = line.provenance.map(Provenance::word).unwrap_or_default();
        let reason = note(line.reason.as_deref(), line.is_of_the_translation());
        let numbers = Numbers::of(&line.statistics, &line.unit, estimated.then(|| half_width(line)));
        out += &row(&line.name, numbers, line.verdict.word(), who, &reason);
    }
    for metric in &results.summary.derived {
        let who: Vec<&str> = metric.provenances.iter().map(|who| who.word()).collect();
        let reason = note(metric.reason.as_deref(), metric.is_of_the_translation);
        let state = metric.statistics.mean.map_or(NOT_COUNTABLE, |_| metric.verdict.word());
        let numbers = Numbers::of(&metric.statistics, &metric.unit, estimated.then_some(None));
        out += &row(&metric.name, numbers, state, &who.join(", "), &reason);
    }
    out
}

/// Why a value is not exact, and whether it is that of a translated run.
fn note(reason: Option<&str>, is_of_the_translation: bool) -> String {
    let translated = is_of_the_translation.then_some("translated");
    reason.into_iter().chain(translated).collect::<Vec<_>>().join("; ")
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// The width of the interval of an estimate, up or down.
fn half_width(line: &LineSummary) -> Option<f64> {
    line.interval.as_ref()?.as_ref().ok().map(|interval| interval.half_width)
}

/// The cells of a row that have numbers.
struct Numbers(Vec<String>);

impl Numbers {
    /// `half_width`: the content of that column, in a table that has it.
    fn of(statistics: &Statistics, unit: &Unit, half_width: Option<Option<f64>>) -> Numbers {
        let one = statistics.n == 1;
        let shown = |value: f64| if one { units::precise(value, unit) } else { units::short(value, unit) };
        let number = |value: Option<f64>| value.map_or("–".to_owned(), shown);
        let mut cells = vec![number(statistics.mean)];
        cells.extend(half_width.map(number));
        cells.extend([statistics.stddev, statistics.min, statistics.max].map(number));
        cells.push(statistics.n.to_string());
        Numbers(cells)
    }
}

fn row(name: &str, Numbers(numbers): Numbers, verdict: &str, who: &str, reason: &str) -> String {
    let mut cells = vec![code_cell(&clean(name))];
    cells.extend(numbers);
    cells.extend([verdict.replace('_', " "), who.to_owned(), escaped(&clean(reason))]);
    format!("| {} |\n", cells.join(" | "))
}

/// As code in a cell of a table, which a pipe would end even there.
fn code_cell(text: &str) -> String {
    code(&text.replace('|', "\\|"))
}

/// As code: between more backquotes than follow each other in the text.
///
/// # Source
///
/// CommonMark 0.31, 6.1 "Code spans": a space at both ends is left out.
pub fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Text that Markdown takes as it is.
pub fn escaped(text: &str) -> String {
    let special = ['\\', '`', '*', '_', '[', ']', '<', '>', '|', '#'];
    text.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failing_runs, golden, metrics, rotated, several_runs};

    #[test]
    fn nothing_in_a_text_ends_its_cell() {
        assert_eq!(code_cell("a|b`c"), "``a\\|b`c``");
        assert_eq!(code("a|b"), "`a|b`", "outside tables a pipe is a pipe");
        assert_eq!(code("`true`"), "`` `true` ``");
        assert_eq!(code("a ```b`` c"), "````a ```b`` c````");
        assert_eq!(escaped("<b>|"), "\\<b\\>\\|");
    }

    #[test]
    fn a_metric_is_a_row_with_its_verdict() {
        let (show, requests) = metrics(1);
        golden("metrics.md", &show.show_with(&requests, render));
    }

    #[test]
    fn an_estimate_has_its_interval_in_a_column() {
        golden("turns.md", &rotated(&[200]).show(render));
    }

    #[test]
    fn runs_that_failed_are_told_below_the_heading() {
        golden("failing.md", &failing_runs().show(render));
    }

    #[test]
    fn a_report_becomes_a_table() {
        golden("several.md", &several_runs().show(render));
    }
}
