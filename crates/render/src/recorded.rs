//! The summary of a recording: printed when it ends.

use cyclometer_toolkit::core::gauge::is_gauge;
use cyclometer_toolkit::core::{Count, Verdict};
use cyclometer_toolkit::{Recorded, RecordedColumn};

use crate::text::clean;
use crate::{WIDTH, columns, hanging, units};

/// Windows, lost rows and totals, at most 80 columns.
pub fn text(recorded: &Recorded, place: Option<&str>, ends: &str, is_attached: bool) -> String {
    let rows = units::grouped(recorded.rows as f64);
    let s = if recorded.rows == 1 { "" } else { "s" };
    let what = if is_attached { "the target" } else { "the command" };
    let place = place.map(|place| format!(", in {}", clean(place))).unwrap_or_default();
    let mut out = format!("\n{rows} row{s}, one {}{place}\n", clean(ends));
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
        out += &reasoned(&format!("  {}: no column: ", clean(name)), reason);
    }
    for note in &recorded.notes {
        out += &reasoned("  ", note);
    }
    if let Some(failure) = &recorded.report.failure {
        out += &reasoned(&format!("  {what} ended early: "), &failure.to_string());
    }
    out
}

/// Least columns that are left for a text beside its head.
const LEAST_BESIDE: usize = 30;

/// A text behind its head, or below it where there is no room.
fn reasoned(head: &str, text: &str) -> String {
    match columns(head) {
        beside if beside <= WIDTH - LEAST_BESIDE || text.is_empty() => {
            hanging(head, &clean(text), str::to_owned)
        }
        _ => format!("{}\n", head.trim_end()) + &hanging("      ", &clean(text), str::to_owned),
    }
}

/// The total of a column, and how much of it no row has.
fn total_line(column: &RecordedColumn, total: &Count, unassigned: &Count, width: usize) -> String {
    let name = clean(&column.name);
    let Some(value) = total.value() else {
        let reason = total.reason().unwrap_or_default();
        return reasoned(&format!("  {name:width$}  {}: ", total.verdict()), &reason);
    };
    let mark = column.provenance.mark();
    let shown = units::precise(value as f64 * column.scale, &column.unit);
    let verdict = match total.verdict() {
        Verdict::Exact => String::new(),
        verdict => format!("  {verdict}"),
    };
    let line = format!("  {name:width$}  {shown:>16} {mark}{verdict}");
    let left = match unassigned {
        // A mean is no sum of rows: there is no rest, and its own remark is of more use.
        _ if is_gauge(Some(column.source), &column.unit) => total.reason().unwrap_or_default(),
        Count::Exact(0) => String::new(),
        Count::Exact(left) => {
            let share = *left as f64 / value.max(1) as f64;
            // A rest that rounds to 0 % is not none.
            let share = if share <= 0.005 { "less than 1 %".to_owned() } else { units::percent(share) };
            format!("{share} in no window")
        }
        other => other.reason().unwrap_or_default(),
    };
    reasoned(&format!("{}  ", line.trim_end()), &left)
}

#[cfg(test)]
mod tests {
    use cyclometer_toolkit::core::SlotId;
    use cyclometer_toolkit::core::window::{WindowBoundary, WindowSpec};
    use cyclometer_toolkit::{Provenance, Rung, Unit};

    use super::*;
    use crate::testing::one_run;

    fn column(name: &str) -> RecordedColumn {
        RecordedColumn {
            slot: SlotId(0),
            name: name.to_owned(),
            unit: Unit::Count,
            scale: 1.0,
            source: Rung::Soft,
            provenance: Provenance::Counted,
            modes: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_small_rest_in_no_window_is_not_shown_as_none() {
        let shown = |left| total_line(&column("loads:u"), &Count::Exact(1000), &Count::Exact(left), 7);
        assert!(shown(5).ends_with("  less than 1 % in no window\n"), "{}", shown(5));
        assert!(shown(6).ends_with("  1 % in no window\n"), "{}", shown(6));
        assert!(!shown(0).contains("in no window"), "{}", shown(0));
    }

    #[test]
    fn long_names_reasons_and_notes_are_broken_at_80_columns() {
        let long = "a reason of many words ".repeat(9);
        let lost = Count::Lost { reason: long.clone().into() };
        let raw = "cpu/event=0xc0,umask=0x0f,cmask=1/:u";
        let recorded = Recorded {
            report: one_run().report,
            spec: WindowSpec::new(WindowBoundary::Interval(std::time::Duration::from_millis(5))),
            columns: vec![column("loads:u"), column(raw), column("stores:u")],
            totals: vec![Count::Exact(9), lost.clone(), Count::Exact(5)],
            unassigned: vec![lost, Count::Exact(0), Count::Exact(0)],
            rows: 2,
            lost_rows: 0,
            without_column: vec![("cycles".to_owned(), long.clone()), (raw.repeat(2), long.clone())],
            notes: vec![long.clone()],
            sink_error: None,
        };
        let shown = text(&recorded, Some("r"), "every 5 ms", false);
        assert!(shown.starts_with("\n2 rows, one every 5 ms, in r\n"), "{shown}");
        let is_fitting = |line: &&str| columns(line) <= WIDTH || line.contains(&raw.repeat(2));
        assert!(shown.lines().all(|line| is_fitting(&line)), "{shown}");
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert_eq!(words.join(" ").matches(long.trim()).count(), 5, "{shown}");
        assert!(shown.lines().any(|line| line.ends_with(" 5 ≡")), "{shown}");
    }
}
