//! Rows of counts while a command runs.

use cyclometer_toolkit::Moment;
use cyclometer_toolkit::core::count::CONFIDENCE;
use cyclometer_toolkit::core::event::Unit;
use cyclometer_toolkit::core::exec::Reading;
use cyclometer_toolkit::core::plan::Plan;
use cyclometer_toolkit::core::report::{Run, Slice};
use cyclometer_toolkit::core::{Count, Interval, LaunchKind, Report, Scope, SlotId, Verdict};
use cyclometer_toolkit::stats::{
    DerivedSummary, MetricRequest, difference, label, settle_interval, settle_slices, summarise_with,
};
use serde_json::{Value, json};

use crate::text::clean;
use crate::units;

/// The heads of the columns.
pub const HEADER: &str = "#     time s                 count unit  event\n";

/// The part of a run between two moments.
pub struct Between<'a> {
    /// The later moment.
    pub now: &'a Moment<'a>,
    /// The reading at the earlier moment.
    pub before: &'a Reading,
    /// The earlier moment, in ns since the start of the run.
    pub before_ns: u64,
    /// The slices since then.
    pub slices: &'a [Slice],
}

/// A row for each event that is counted in this pass, with its count between two moments.
pub fn rows(between: &Between<'_>, plan: &Plan, asked: Scope) -> String {
    let time = format!("{:12.6}", between.now.elapsed_ns as f64 / 1e9);
    counted(between, plan).map(|slot| format!("{time} {}\n", row(between, plan, slot, asked))).collect()
}

/// The values of a part of a run, for JSON.
#[derive(Clone, Debug)]
pub struct IntervalValues {
    /// The number of the run, from 0; warm-ups have their own.
    pub run: u32,
    /// Whether it is a warm-up.
    pub warmup: bool,
    /// Its end, in ns since the start of the run.
    pub end_ns: u64,
    /// Its length, in ns.
    pub length_ns: u64,
    /// The events that are counted in its pass: name, value in its unit, verdict and reason.
    pub events: Vec<IntervalValue>,
    /// The metrics that were asked for.
    pub metrics: Vec<IntervalValue>,
}

/// A value of a part of a run.
#[derive(Clone, Debug)]
pub struct IntervalValue {
    /// The event or the metric.
    pub name: String,
    /// The value; `None` if there is none.
    pub value: Option<f64>,
    /// The unit of the value.
    pub unit: Unit,
    /// How far it can be trusted.
    pub verdict: Verdict,
    /// Why it is not exact.
    pub reason: Option<String>,
}

/// The metrics of the part of a run between two moments. A metric that needs an event of another pass has
/// no value.
pub fn metrics(
    between: &Between<'_>,
    plan: &Plan,
    asked: Scope,
    requests: &[MetricRequest],
) -> Vec<DerivedSummary> {
    if requests.is_empty() {
        return Vec::new();
    }
    let Between { now, before, before_ns, slices } = between;
    let run = Run {
        index: 0,
        launch: LaunchKind::Native,
        layout: None,
        cpu_baseline: None,
        pass: now.pass,
        exit: None,
        dropped_because: None,
        wall_ns: now.elapsed_ns.saturating_sub(*before_ns),
        reading: difference(now.reading, before),
        slices: slices.to_vec(),
    };
    let report = Report {
        command: None,
        target: None,
        plan: plan.clone(),
        runs: vec![run],
        steps: Vec::new(),
        interrupted: None,
        failure: None,
    };
    let all = summarise_with(&report, asked, requests).derived;
    all.into_iter().filter(|metric| metric.asked).collect()
}

/// A row for each metric.
pub fn metric_rows(between: &Between<'_>, metrics: &[DerivedSummary]) -> String {
    let time = format!("{:12.6}", between.now.elapsed_ns as f64 / 1e9);
    let row = |metric: &DerivedSummary| {
        let value = metric.statistics.mean.map_or_else(|| metric.verdict.to_string(), ratio);
        let reason = metric.reason.as_ref().map(|reason| format!("  ({})", clean(reason)));
        let (unit, name) = (clean(metric.unit.symbol()), clean(&metric.name));
        let text = format!("{time} {value:>21} {unit:5} {name}{}", reason.unwrap_or_default());
        format!("{}\n", text.trim_end())
    };
    metrics.iter().map(row).collect()
}

/// A number that is no count.
fn ratio(value: f64) -> String {
    format!("{value:.4}")
}

/// The values of the part of a run between two moments.
pub fn values(
    between: &Between<'_>,
    plan: &Plan,
    asked: Scope,
    metrics: &[DerivedSummary],
    (run, warmup): (u32, bool),
) -> IntervalValues {
    let now = between.now;
    let event = |slot: SlotId| {
        let line = &plan.lines[slot.0];
        let count = count(between, plan, slot, asked);
        let scale = line.candidate().map_or(1.0, |candidate| candidate.scale);
        IntervalValue {
            name: label(line),
            value: count.value().map(|value| value as f64 * scale),
            unit: line.event.unit.clone(),
            verdict: count.verdict(),
            reason: count.reason(),
        }
    };
    let metric = |metric: &DerivedSummary| IntervalValue {
        name: metric.name.clone(),
        value: metric.statistics.mean,
        unit: metric.unit.clone(),
        verdict: metric.verdict,
        reason: metric.reason.clone(),
    };
    IntervalValues {
        run,
        warmup,
        end_ns: now.elapsed_ns,
        length_ns: now.elapsed_ns.saturating_sub(between.before_ns),
        events: counted(between, plan).map(event).collect(),
        metrics: metrics.iter().map(metric).collect(),
    }
}

/// The slots that are counted in this pass.
fn counted(between: &Between<'_>, plan: &Plan) -> impl Iterator<Item = SlotId> {
    let cells = &between.now.reading.cells;
    (0..plan.lines.len()).map(SlotId).filter(move |slot| cells.iter().any(|cell| cell.slot == *slot))
}

/// As `intervals` in `schemas/stat-1.json`.
pub fn json(intervals: &[IntervalValues]) -> Value {
    let one = |value: &IntervalValue| {
        json!({
            "name": value.name,
            "value": value.value,
            "count": value.verdict.word(),
            "reason": value.reason,
        })
    };
    let all = intervals.iter().map(|interval| {
        json!({
            "run": interval.run,
            "warmup": interval.warmup,
            "end_ns": interval.end_ns,
            "length_ns": interval.length_ns,
            "events": interval.events.iter().map(one).collect::<Vec<_>>(),
            "metrics": interval.metrics.iter().map(one).collect::<Vec<_>>(),
        })
    });
    Value::Array(all.collect())
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
    let Between { now: Moment { pass, reading, .. }, before, slices, .. } = between;
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
    use crate::testing::{golden, rotated, several_runs};

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
        let between = Between { now: &moment, before, before_ns: 0, slices: &[] };
        let text = HEADER.to_owned() + &rows(&between, &report.plan, Scope::Tree);
        golden("interval.txt", &text);
    }

    #[test]
    fn rows_of_events_that_took_turns_are_of_the_slices_in_them() {
        let report = rotated(&[200]).report;
        let run = &report.runs[0];
        let nothing = Reading::default();
        let of = |slices: &[Slice]| {
            let Run { pass, reading, slices: all, .. } = run;
            let moment = Moment { elapsed_ns: 100_123_456, pass: *pass, reading, slices: all };
            rows(&Between { now: &moment, before: &nothing, before_ns: 0, slices }, &report.plan, Scope::Tree)
        };
        let text = HEADER.to_owned() + &of(&run.slices) + &of(&run.slices[..10]) + &of(&run.slices[..1]);
        golden("interval-turns.txt", &text);
    }
}
