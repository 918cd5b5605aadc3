//! Rows of counts while a command runs.

use cyclometer::core::event::Unit;
use cyclometer::core::exec::Reading;
use cyclometer::core::plan::{Plan, PlanLine};
use cyclometer::core::{Scope, SlotId};
use cyclometer::stats::{label, settle_interval};

use crate::output::clean;
use crate::render::units;

/// The heads of the columns.
pub const HEADER: &str = "#     time s                 count unit  event\n";

/// A row for each event that is counted in this pass: what happened between two readings.
pub fn rows(elapsed_ns: u64, now: &Reading, before: &Reading, plan: &Plan, asked: Scope) -> String {
    let time = format!("{:12.6}", elapsed_ns as f64 / 1e9);
    let lines = plan.lines.iter().enumerate();
    lines
        .filter(|(index, _)| now.cells.iter().any(|cell| cell.slot == SlotId(*index)))
        .map(|(index, line)| format!("{time} {}\n", row(line, now, before, SlotId(index), asked)))
        .collect()
}

fn row(line: &PlanLine, now: &Reading, before: &Reading, slot: SlotId, asked: Scope) -> String {
    let count = settle_interval(line, now, before, slot, asked);
    let scale = line.candidate().map_or(1.0, |candidate| candidate.scale);
    let value = match count.value() {
        Some(value) => number(value as f64 * scale, &line.event.unit),
        None => count.verdict().to_string(),
    };
    let note = count.reason().map(|reason| format!("  ({})", clean(&reason))).unwrap_or_default();
    let unit = clean(line.event.unit.symbol());
    format!("{value:>21} {unit:5} {}{note}", clean(&label(line))).trim_end().to_owned()
}

fn number(value: f64, unit: &Unit) -> String {
    let whole = matches!(unit, Unit::Count | Unit::Nanoseconds | Unit::Bytes);
    if whole { units::grouped(value) } else { format!("{value:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{golden, several_runs};

    #[test]
    fn rows_show_what_happened_since_the_last_row() {
        let report = several_runs().report;
        let before = &report.runs[0].reading;
        let mut now = before.clone();
        for cell in &mut now.cells {
            cell.raw += 1500;
            cell.time_enabled_ns += 100;
            cell.time_running_ns += 100;
        }
        let text = HEADER.to_owned() + &rows(100_123_456, &now, before, &report.plan, Scope::Tree);
        golden("interval.txt", &text);
    }
}
