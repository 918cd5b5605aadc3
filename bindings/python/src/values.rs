//! Values as dictionaries with the fields of `python/perf_monitor/engine.py`.

use cyclometer_toolkit::core::SlotId;
use cyclometer_toolkit::core::exec::CounterAt;
use cyclometer_toolkit::{Count, Measured, Sample, Samples, Value};
use pyo3::prelude::*;

/// The count of one event.
#[derive(IntoPyObject)]
pub(crate) struct CountRecord {
    name: String,
    event: String,
    /// `exact`, `scaled`, `partial`, `not counted`, `not supported`, `lost`.
    verdict: String,
    number: Option<f64>,
    raw: Option<u64>,
    half_width: Option<f64>,
    unit: String,
    provenance: Option<&'static str>,
    source: Option<String>,
    scope: &'static str,
    reason: Option<String>,
    notes: Vec<String>,
}

impl CountRecord {
    fn of(value: &Value) -> CountRecord {
        CountRecord {
            name: value.name.clone(),
            event: value.event.clone(),
            verdict: value.count.verdict().to_string(),
            number: value.number(),
            raw: value.count.value(),
            half_width: half_width(value),
            unit: value.unit.symbol().to_owned(),
            provenance: value.provenance.map(cyclometer_toolkit::Provenance::word),
            source: value.rung.map(|rung| rung.to_string()),
            scope: value.scope.word(),
            reason: value.reason(),
            notes: value.notes.clone(),
        }
    }
}

/// Half the width of a value's interval, in its unit; `None` if it is unknown.
fn half_width(value: &Value) -> Option<f64> {
    let raw = match &value.count {
        Count::Exact(_) => value.net.map_or(0.0, |net| net.half_width),
        Count::Scaled { interval, .. } => interval.half_width()? as f64,
        _ => return None,
    };
    Some(raw * value.scale)
}

/// The counts of a label's regions.
#[derive(IntoPyObject)]
pub(crate) struct Total {
    label: String,
    thread: Option<String>,
    calls: u64,
    values: Vec<CountRecord>,
}

impl Total {
    pub(crate) fn of(measured: &Measured) -> Total {
        Total {
            label: measured.label.clone(),
            thread: measured.thread.as_ref().map(ToString::to_string),
            calls: measured.calls,
            values: measured.values.iter().map(CountRecord::of).collect(),
        }
    }
}

/// The count of a counter in the event's unit, its enabled time and its running time, in ns.
type ScaledCounter = (f64, u64, u64);

/// One sample.
#[derive(IntoPyObject)]
pub(crate) struct SampleRow {
    number: u64,
    at_ns: u64,
    skew_ns: u64,
    late_ns: u64,
    /// For each event the counts of its counters since sampling began; `None` if one could not be read.
    counters: Vec<Option<Vec<ScaledCounter>>>,
}

/// The samples.
#[derive(IntoPyObject)]
pub(crate) struct SampledRows {
    rows: Vec<SampleRow>,
    lost: u64,
    missed: u64,
    /// For each event the reason why it was not sampled; `None` if it was.
    refused: Vec<Option<String>>,
}

impl SampledRows {
    /// Samples of events with these scales.
    pub(crate) fn of(samples: &Samples, scales: &[f64]) -> SampledRows {
        let of_events: Vec<Vec<usize>> = (0..scales.len()).map(|i| places(samples, SlotId(i))).collect();
        let rows = samples.rows.iter().map(|row| SampleRow {
            number: row.number,
            at_ns: row.at_ns,
            skew_ns: row.skew_ns,
            late_ns: row.late_ns,
            counters: of_events.iter().zip(scales).map(|(own, scale)| counters(row, own, *scale)).collect(),
        });
        SampledRows {
            rows: rows.collect(),
            lost: samples.lost,
            missed: samples.missed,
            refused: (0..scales.len()).map(|i| why_not(samples, SlotId(i))).collect(),
        }
    }
}

/// The indices of an event's values in a sample.
fn places(samples: &Samples, slot: SlotId) -> Vec<usize> {
    (0..samples.counters.len()).filter(|i| samples.counters[*i].slot == slot).collect()
}

/// The counts of one event's counters; `None` if it has none or one could not be read.
fn counters(row: &Sample, own: &[usize], scale: f64) -> Option<Vec<ScaledCounter>> {
    let counter = |i: &usize| {
        let raw = row.values.get(*i).filter(|raw| !raw.is_lost)?;
        Some((raw.value as f64 * scale, raw.time_enabled_ns, raw.time_running_ns))
    };
    own.iter().map(counter).collect::<Option<Vec<ScaledCounter>>>().filter(|found| !found.is_empty())
}

/// The reason why an event has no samples.
fn why_not(samples: &Samples, slot: SlotId) -> Option<String> {
    if samples.counters.iter().any(|counter: &CounterAt| counter.slot == slot) {
        return None;
    }
    let refused = samples.refused.iter().find(|(own, _)| *own == slot);
    Some(refused.map_or_else(|| "it is not counted here".to_owned(), |(_, reason)| reason.to_string()))
}

/// One source of the ladder.
#[derive(IntoPyObject)]
pub(crate) struct SourceStep {
    event: Option<String>,
    tried: String,
    works: bool,
    text: String,
}

impl SourceStep {
    pub(crate) fn of(step: &cyclometer_toolkit::LadderStep) -> SourceStep {
        let (event, tried) = (step.event.clone(), step.tried.clone());
        SourceStep { event, tried, works: step.is_taken(), text: step.to_string() }
    }
}

/// The totals of every label.
pub(crate) fn totals(measured: &[Measured]) -> Vec<Total> {
    measured.iter().map(Total::of).collect()
}
