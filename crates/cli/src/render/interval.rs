//! Rows of counts while a command runs.

use cyclometer::Moment;
use cyclometer::core::count::CONFIDENCE;
use cyclometer::core::event::Unit;
use cyclometer::core::exec::Reading;
use cyclometer::core::plan::Plan;
use cyclometer::core::report::Slice;
use cyclometer::core::{Count, Interval, Scope, SlotId};
use cyclometer::stats::{difference, label, settle_interval, settle_slices};

use crate::output::clean;
use crate::render::units;

/// The heads of the columns.
pub const HEADER: &str = "#     time s                 count unit  event\n";

/// The part of a run between two moments.
pub struct Between<'a> {
    /// The later moment.
    pub now: &'a Moment<'a>,
    /// The reading at the earlier moment.
    pub before: &'a Reading,
    /// The slices since then.
    pub slices: &'a [Slice],
}

/// A row for each event that is counted in this pass, with its count between two moments.
pub fn rows(between: &Between<'_>, plan: &Plan, asked: Scope) -> String {
    let now = between.now;
    let time = format!("{:12.6}", now.elapsed_ns as f64 / 1e9);
    let slots = (0..plan.lines.len()).map(SlotId);
    slots
        .filter(|slot| now.reading.cells.iter().any(|cell| cell.slot == *slot))
        .map(|slot| format!("{time} {}\n", row(between, plan, slot, asked)))
        .collect()
}

fn row(between: &Between<'_>, plan: &Plan, slot: SlotId, asked: Scope) -> String {
    let line = &plan.lines[slot.0];
    let count = count(between, plan, slot, asked);
    let scale = line.candidate().map_or(1.0, |candidate| candidate.scale);
    let shown = |value: u64| number(value as f64 * scale, &line.event.unit);
    let value = count.value().map_or_else(|| count.verdict().to_string(), shown);
    let note = note(&count, shown).map(|note| format!("  ({})", clean(&note))).unwrap_or_default();
    let unit = clean(line.event.unit.symbol());
    format!("{value:>21} {unit:5} {}{note}", clean(&label(line))).trim_end().to_owned()
}

fn count(between: &Between<'_>, plan: &Plan, slot: SlotId, asked: Scope) -> Count {
    let Between { now: Moment { pass, reading, .. }, before, slices } = between;
    let since = difference(reading, before);
    settle_slices(plan, *pass, slices, &since, slot, asked)
        .unwrap_or_else(|| settle_interval(&plan.lines[slot.0], reading, before, slot, asked))
}

/// Why the value is not exact, and how far it may be off.
fn note(count: &Count, shown: impl Fn(u64) -> String) -> Option<String> {
    let reason = count.reason()?;
    let Count::Scaled { interval, .. } = count else { return Some(reason) };
    Some(match interval {
        Interval::Known { half_width, .. } => {
            format!("± {} ({}), {reason}", shown(*half_width), units::percent(CONFIDENCE))
        }
        Interval::Unknown { reason: why } => format!("{reason}, no interval: {why}"),
        _ => reason,
    })
}

fn number(value: f64, unit: &Unit) -> String {
    let whole = matches!(unit, Unit::Count | Unit::Nanoseconds | Unit::Bytes);
    if whole { units::grouped(value) } else { format!("{value:.6}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::{golden, several_runs, turning};
    use cyclometer::core::report::Run;

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
        let moment = Moment { elapsed_ns: 100_123_456, pass: 0, reading: &now, slices: &[] };
        let between = Between { now: &moment, before, slices: &[] };
        let text = HEADER.to_owned() + &rows(&between, &report.plan, Scope::Tree);
        golden("interval.txt", &text);
    }

    #[test]
    fn rows_of_events_that_took_turns_are_of_the_slices_in_them() {
        let report = turning(&[200]).report;
        let run = &report.runs[0];
        let nothing = Reading::default();
        let of = |slices: &[Slice]| {
            let Run { pass, reading, slices: all, .. } = run;
            let moment = Moment { elapsed_ns: 100_123_456, pass: *pass, reading, slices: all };
            rows(&Between { now: &moment, before: &nothing, slices }, &report.plan, Scope::Tree)
        };
        let text = HEADER.to_owned() + &of(&run.slices) + &of(&run.slices[..10]) + &of(&run.slices[..1]);
        golden("interval-turns.txt", &text);
    }
}
