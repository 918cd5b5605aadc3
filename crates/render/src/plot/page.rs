//! Pages with a picture: no other files to load.

use serde_json::{Value, json};

use super::chart::{ChartPanel, LaneChart, RecordingChart, phase_letter};
use super::envelope::envelope;
use super::markup::escaped;
use super::recording::{PLOT, across, svg};
use cyclometer_toolkit::core::Unit;

/// Numbers of a page for a reader who zooms, over all panels; more would make it slow to load.
const MOST_NUMBERS: usize = 60_000;

/// Parts of the axis that a reader who zooms can tell apart.
const FINE: (usize, usize) = (1024, 8192);

/// A page.
pub fn page(title: &str, head: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>{head}</head>\n<body>\n{body}</body></html>\n"
    )
}

/// A recording with zoom and a read-out below the pointer.
pub fn recording(chart: &RecordingChart) -> String {
    let panels: usize = chart.lanes.iter().map(|lane| lane.panels.len()).sum();
    let fine = (MOST_NUMBERS / panels.max(1)).clamp(FINE.0, FINE.1);
    let lanes = chart.lanes.iter().filter(|lane| lane.windows() > 0);
    let data = json!({
        "axis": chart.axis_words(),
        "time": chart.axis_unit() == Unit::Nanoseconds,
        "left": PLOT.0,
        "width": PLOT.1,
        "lanes": lanes.map(|lane| lane_data(lane, fine)).collect::<Vec<Value>>(),
    });
    // No text of the recording ends the script.
    let data = data.to_string().replace('<', "\\u003c");
    let head = format!(
        "<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <style>{}</style>",
        include_str!("page.css")
    );
    let body = format!(
        "{}<div id=\"readout\" hidden></div>\n<script id=\"data\" type=\"application/json\">{data}</script>\n<script>\n{}</script>\n",
        svg(chart, Some(fine)),
        include_str!("page.js")
    );
    page(&chart.title, &head, &body)
}

fn lane_data(lane: &LaneChart, fine: usize) -> Value {
    let scale = across(lane);
    let empty = vec![None; lane.windows()];
    let edges: Vec<f64> = envelope(&lane.edges, &empty, fine)
        .iter()
        .map(|bucket| rounded(scale.place(bucket.range.1)))
        .collect();
    let segments = lane.phases.segments.iter().map(|segment| {
        json!([rounded(scale.place(lane.edges[segment.windows.end])), phase_letter(segment.phase)])
    });
    json!({
        "from": scale.from.0,
        "to": scale.from.1,
        "windows": lane.windows(),
        "edges": edges,
        "ends": lane.edges[1..].len() > fine,
        "phases": if lane.phases.phases.len() > 1 { segments.collect() } else { Vec::new() },
        "panels": lane.panels.iter().map(|panel| panel_data(lane, panel, fine)).collect::<Vec<Value>>(),
    })
}

fn panel_data(lane: &LaneChart, panel: &ChartPanel, fine: usize) -> Value {
    let buckets = envelope(&lane.edges, &panel.values, fine);
    let texts = |value: fn(super::envelope::BucketValues) -> f64| -> Vec<Option<f64>> {
        buckets.iter().map(|bucket| bucket.values.map(|values| significant(value(values)))).collect()
    };
    let is_bucketed = panel.values.len() > fine;
    json!({
        "name": panel.name,
        "per": panel.per,
        "mean": texts(|values| values.mean),
        "low": is_bucketed.then(|| texts(|values| values.low)),
        "high": is_bucketed.then(|| texts(|values| values.high)),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Four significant digits.
fn significant(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.3e}").parse().unwrap_or(value)
}
