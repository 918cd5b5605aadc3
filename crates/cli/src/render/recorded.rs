//! The summary of a recording: printed when it ends.

use std::path::Path;

use cyclometer::core::{Count, Verdict};
use cyclometer::{Recorded, RecordedColumn};

use crate::output::{clean, clean_os};
use crate::render::units;

/// Rows, lost rows and totals, at most 80 columns.
pub fn text(recorded: &Recorded, file: &Path, ends: &str, is_attached: bool) -> String {
    let rows = units::grouped(recorded.rows as f64);
    let s = if recorded.rows == 1 { "" } else { "s" };
    let what = if is_attached { "the target" } else { "the command" };
    let mut out = format!("\n{rows} row{s}, one {}, in {}\n", clean(ends), clean_os(file.as_os_str()));
    if recorded.lost_rows > 0 {
        let lost = units::grouped(recorded.lost_rows as f64);
        out += &format!("  {lost} rows were lost; the rows after them have their events\n");
    }
    let width = recorded.columns.iter().map(|column| clean(&column.name).chars().count()).max().unwrap_or(0);
    for ((column, total), unassigned) in
        recorded.columns.iter().zip(&recorded.totals).zip(&recorded.unassigned)
    {
        out += &total_line(column, total, unassigned, width);
    }
    for (name, reason) in &recorded.without_column {
        out += &format!("  {}: no column: {}\n", clean(name), clean(reason));
    }
    for note in &recorded.notes {
        out += &format!("  {}\n", clean(note));
    }
    if let Some(failure) = &recorded.report.failure {
        out += &format!("  {what} ended early: {}\n", clean(&failure.to_string()));
    }
    out
}

/// The total of a column, and how much of it no row has.
fn total_line(column: &RecordedColumn, total: &Count, unassigned: &Count, width: usize) -> String {
    let name = clean(&column.name);
    let Some(value) = total.value() else {
        let reason = total.reason().unwrap_or_default();
        return format!("  {name:width$}  {}: {}\n", total.verdict(), clean(&reason));
    };
    let mark = column.provenance.mark();
    let shown = units::precise(value as f64 * column.scale, &column.unit);
    let left = match unassigned {
        Count::Exact(0) => String::new(),
        Count::Exact(left) => {
            let share = *left as f64 / value.max(1) as f64;
            format!("  {} in no window", units::percent(share))
        }
        other => format!("  {}", clean(&other.reason().unwrap_or_default())),
    };
    let verdict = match total.verdict() {
        Verdict::Exact => String::new(),
        verdict => format!("  {verdict}"),
    };
    format!("  {name:width$}  {shown:>16} {mark}{verdict}{left}").trim_end().to_owned() + "\n"
}
