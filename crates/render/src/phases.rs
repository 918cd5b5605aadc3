//! The phases of a recording, for people and as JSON by `schemas/phases-1.json`.

use cyclometer_toolkit::core::Unit;
use cyclometer_toolkit::recording::{RecordingEnd, RecordingHeader};
use cyclometer_toolkit::stats::phases::PhaseRate;
use serde_json::{Value, json};

use crate::lanes::{LaneAxis, LaneOwner, RecordingLanes};
use crate::paint::{Paint, Style};
use crate::plot::chart::{ChartPanel, LaneChart, RecordingChart, counted, phase_letter};
use crate::plot::markup::cut;
use crate::text::clean;
use crate::{WIDTH, columns, units, wrap};

/// Version of the schema.
pub const SCHEMA_VERSION: u32 = 1;

/// Columns of the name of a rate, and of its mean.
const NAME: usize = 47;
const MEAN: usize = 10;

/// A table for each thread: its phases, with the rates of each.
pub fn render(chart: &RecordingChart, paint: Paint) -> String {
    let mut out = paint.paint(Style::Heading, &cut(&chart.title, WIDTH)) + "\n";
    if !chart.subtitle.is_empty() {
        out += &lines(&chart.subtitle);
    }
    for lane in chart.lanes.iter().filter(|lane| lane.windows() > 0) {
        out += "\n";
        out += &table(chart, lane, paint);
    }
    let others = format!("not shown: {}; --thread TID shows one", chart.others.join(", "));
    let others = (!chart.others.is_empty()).then_some(others);
    let below: Vec<String> = chart.remarks.iter().cloned().chain(others).collect();
    if !below.is_empty() {
        out += "\n";
    }
    below.iter().for_each(|remark| out += &lines(remark));
    out
}

fn lines(text: &str) -> String {
    wrap(text, WIDTH).into_iter().map(|line| line + "\n").collect()
}

fn table(chart: &RecordingChart, lane: &LaneChart, paint: Paint) -> String {
    let title = cut(&lane.title(), WIDTH.saturating_sub(columns(&lane.summary()) + 3).max(12));
    let mut out = format!("{} · {}\n", paint.paint(Style::Heading, &title), lane.summary());
    let share = format!("share of {}", share_words(chart.axis));
    let head = format!("  phase, {share:<width$}{:>MEAN$}   95 % interval", "mean", width = NAME - 7);
    out += &(paint.paint(Style::Dim, &head) + "\n");
    for (i, phase) in lane.phases.phases.iter().enumerate() {
        let (windows, segments) = (counted(phase.windows, "window"), counted(phase.segments, "segment"));
        let name = paint.paint(Style::Heading, &phase_letter(i));
        out += &format!("  {name}  {} · {windows} in {segments}\n", units::percent(phase.share));
        let rates = lane.panels.iter().zip(&phase.rates);
        out += &rates.map(|(panel, rate)| rate_line(panel, *rate)).collect::<String>();
    }
    let unused = lane.phases.unused_columns.iter().map(|column| lane.panels[*column].name.as_str());
    let unused: Vec<&str> = unused.collect();
    if !unused.is_empty() {
        out +=
            &lines(&format!("not used to tell phases apart, as values are missing: {}", unused.join(", ")));
    }
    out
}

fn share_words(axis: LaneAxis) -> &'static str {
    match axis {
        LaneAxis::Instructions(_) => "instructions",
        LaneAxis::Time => "time",
        LaneAxis::Windows => "windows",
    }
}

fn rate_line(panel: &ChartPanel, rate: Option<PhaseRate>) -> String {
    let name = cut(&format!("{}, {}", panel.name, panel.per), NAME - 3);
    let mean = rate.map_or_else(|| "–".to_owned(), |rate| panel.text(rate.mean));
    let interval = rate.and_then(|rate| rate.interval);
    let interval = interval
        .map_or_else(String::new, |(low, high)| format!("   {} … {}", panel.text(low), panel.text(high)));
    format!("    {name:<width$}{mean:>MEAN$}{interval}\n", width = NAME - 2)
}

/// The phases as JSON.
pub fn json(recording: &RecordingLanes, chart: &RecordingChart) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "cyclometer": env!("CARGO_PKG_VERSION"),
        "recording": recording_json(&recording.header),
        "complete": matches!(recording.end, Some(RecordingEnd::Complete(_))),
        "axis": share_words(chart.axis),
        "remarks": chart.remarks,
        "lanes": chart.lanes.iter().map(lane_json).collect::<Vec<Value>>(),
    })
}

fn recording_json(header: &RecordingHeader) -> Value {
    json!({ "tool": header.tool, "command": header.command, "target": header.target })
}

fn lane_json(lane: &LaneChart) -> Value {
    let (thread, cpu) = match lane.owner {
        LaneOwner::Thread(thread) => {
            let name = lane.name.as_deref().map(clean);
            (json!({ "pid": thread.pid, "tid": thread.tid, "name": name }), Value::Null)
        }
        LaneOwner::Cpu(cpu) => (Value::Null, json!(cpu)),
        LaneOwner::Whole => (Value::Null, Value::Null),
    };
    let rates = lane.panels.iter().enumerate().map(|(i, panel)| rate_json(panel, lane, i));
    let phases = lane.phases.phases.iter().enumerate().map(|(i, phase)| {
        json!({
            "phase": phase_letter(i),
            "share": phase.share,
            "windows": phase.windows,
            "segments": phase.segments,
            "rates": phase.rates.iter().map(phase_rate_json).collect::<Vec<Value>>(),
        })
    });
    let segments = lane.phases.segments.iter().map(|segment| {
        json!({
            "phase": phase_letter(segment.phase),
            "first_window": segment.windows.start,
            "windows": segment.windows.len(),
            "from": lane.edges[segment.windows.start],
            "to": lane.edges[segment.windows.end],
        })
    });
    json!({
        "thread": thread,
        "cpu": cpu,
        "windows": lane.windows(),
        "lost_rows": lane.lost_rows,
        "rates": rates.collect::<Vec<Value>>(),
        "phases": phases.collect::<Vec<Value>>(),
        "segments": segments.collect::<Vec<Value>>(),
    })
}

fn rate_json(panel: &ChartPanel, lane: &LaneChart, column: usize) -> Value {
    let unit = match &panel.unit {
        Unit::Count => "count",
        other => other.symbol(),
    };
    json!({
        "name": panel.name,
        "per": panel.per_word,
        "unit": unit,
        "overall": panel.overall,
        "used": !lane.phases.unused_columns.contains(&column),
        "fast": lane.phases.fast_columns.contains(&column),
    })
}

fn phase_rate_json(rate: &Option<PhaseRate>) -> Value {
    let Some(rate) = rate else { return Value::Null };
    let (low, high) = rate.interval.unzip();
    json!({ "mean": rate.mean, "low": low, "high": high })
}
