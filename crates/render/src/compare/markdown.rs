//! Markdown: a table for each comparison.

use cyclometer_toolkit::interleaved::EarlyEnd;
use cyclometer_toolkit::stats::Failures;

use super::Contest;
use super::code::CodeVersus;
use super::delta::{self, change_text, gate_reason};
use super::level::unit_of;
use crate::markdown::{code, escaped};
use crate::units;

/// The tables, with the gates below.
pub fn render(contest: &Contest<'_>) -> String {
    let mut out = String::new();
    for versus in &contest.versus {
        let (a, b) = (contest.reference_name(), &contest.arms[versus.arm].name);
        let failed = |failures: Failures| {
            failures.text().map(|text| format!(" · **{}**", escaped(&text))).unwrap_or_default()
        };
        let (of_a, of_b) = (contest.reference_failures(), Failures::of(contest.report(versus.arm)));
        out += &format!("A: {}{}  \nB: {}{}\n\n", plain(&a), failed(of_a), plain(b), failed(of_b));
        out += "| metric | A | B | change | 95 % interval | finding |\n|:--|--:|--:|--:|--:|:--|\n";
        for one in &versus.metrics {
            let unit = unit_of(&one.unit);
            let level =
                |median: Option<f64>| median.map(|median| units::short(median, &unit)).unwrap_or_default();
            let change = one.change.map(|change| change_text(change, &unit)).unwrap_or_default();
            let interval = delta::interval(one, &unit);
            let cells = [
                one.name.clone(),
                level(one.a.median),
                level(one.b.median),
                change,
                if one.change.is_some() { interval } else { String::new() },
                one.finding.word().replace('_', " "),
            ];
            out += &format!("| {} |\n", cells.map(|cell| escaped(&cell)).join(" | "));
        }
        out.push('\n');
        out += &versus.code.as_ref().map(CodeVersus::markdown).unwrap_or_default();
        for gate in &versus.gates {
            let (condition, reason) = (plain(&gate.gate), escaped(&gate_reason(gate, versus)));
            out += &format!("- {condition}: {}{reason}\n", gate.ruling.word());
        }
        if !versus.gates.is_empty() {
            out.push('\n');
        }
    }
    if let Some(end) = contest.comparison.ended.as_ref().filter(|end| **end != EarlyEnd::Budget) {
        out += &format!("**{}**\n\n", escaped(&delta::ended(end)));
    }
    out
}

/// As code, in one line.
fn plain(text: &str) -> String {
    code(&crate::text::clean(text))
}
