//! Markdown: a table to paste into an issue or a pull request.

use cyclometer::core::Provenance;
use cyclometer::core::event::Unit;
use cyclometer::stats::Statistics;

use crate::output::clean;
use crate::render::table::NOT_COUNTABLE;
use crate::render::{Results, target, units};

/// A heading and a table with a row for each metric.
pub fn render(results: &Results<'_>) -> String {
    let runs = results.report.runs.len();
    let mut out = format!("### {} · {runs} run{}\n\n", code(&target::subject(results.report)), plural(runs));
    out += "| metric | mean | σ | min | max | n | count | provenance | note |\n";
    out += "|:---|---:|---:|---:|---:|---:|:---|:---|:---|\n";
    for line in &results.summary.lines {
        let who = line.provenance.map(Provenance::word).unwrap_or_default();
        let reason = note(line.reason.as_deref(), line.is_of_the_translation());
        out += &row(&line.name, &line.statistics, &line.unit, line.verdict.word(), who, &reason);
    }
    for metric in &results.summary.derived {
        let who: Vec<&str> = metric.provenances.iter().map(|who| who.word()).collect();
        let reason = note(metric.reason.as_deref(), metric.is_of_the_translation);
        let state = metric.statistics.mean.map_or(NOT_COUNTABLE, |_| metric.verdict.word());
        out += &row(&metric.name, &metric.statistics, &metric.unit, state, &who.join(", "), &reason);
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

fn row(name: &str, statistics: &Statistics, unit: &Unit, verdict: &str, who: &str, reason: &str) -> String {
    let one = statistics.n == 1;
    let shown = |value: f64| if one { units::precise(value, unit) } else { units::short(value, unit) };
    let number = |value: Option<f64>| value.map_or("–".to_owned(), shown);
    let cells = [
        code(&clean(name)),
        number(statistics.mean),
        number(statistics.stddev),
        number(statistics.min),
        number(statistics.max),
        statistics.n.to_string(),
        verdict.replace('_', " "),
        who.to_owned(),
        escaped(&clean(reason)),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// As code; a pipe would end the cell even there.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}

fn escaped(text: &str) -> String {
    let special = ['\\', '`', '*', '_', '[', ']', '<', '>', '|', '#'];
    text.chars().flat_map(|c| special.contains(&c).then_some('\\').into_iter().chain([c])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{golden, metrics, several_runs};

    #[test]
    fn nothing_in_a_text_ends_its_cell() {
        assert_eq!(code("a|b`c"), "`a\\|b'c`");
        assert_eq!(escaped("<b>|"), "\\<b\\>\\|");
    }

    #[test]
    fn a_metric_is_a_row_with_its_verdict() {
        let (show, requests) = metrics(1);
        golden("metrics.md", &show.show_with(&requests, render));
    }

    #[test]
    fn a_report_becomes_a_table() {
        golden("several.md", &several_runs().show(render));
    }
}
