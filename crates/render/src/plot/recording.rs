//! A recording as SVG: for each thread or CPU the phases, a panel for each rate, and the marks.
//!
//! The curves, bands and marks are in an inner `<svg>` of their own. Its view box is the range that is shown,
//! and the script of the page zooms by changing it.

use std::fmt::Write;

use super::chart::{ChartPanel, LaneChart, PHASE_COLOURS, RecordingChart, phase_letter};
use super::envelope::{PlotBucket, envelope};
use super::markup::{FONTS, cut, escaped, swatch, text_of};
use super::scale::{PlotScale, ticks, trimmed, value_range};
use crate::units;

/// Width of the picture, in its own units.
const WIDTH: f64 = 960.0;
/// The left edge of texts.
const LEFT: f64 = 16.0;
/// Beginning and width of what is drawn over the axis.
pub const PLOT: (f64, f64) = (252.0, 692.0);
/// Parts of the axis in a picture that cannot be zoomed.
const COARSE: usize = 692;
/// Height of the head of the picture, and of that of a lane.
const HEAD: f64 = 56.0;
const LANE_HEAD: f64 = 46.0;
/// Height of the phases, of a panel with the room above it, and of a row of marks.
const STRIP: f64 = 16.0;
const PANEL: f64 = 84.0;
const PANEL_GAP: f64 = 12.0;
const MARK: f64 = 16.0;
/// Height of the axis.
const AXIS: f64 = 38.0;
/// Height of a line of remarks.
const LINE: f64 = 17.0;
/// Most characters of a title, of a label at the left and of a remark.
const MOST_TITLE: usize = 110;
const MOST_LABEL: usize = 27;
const MOST_REMARK: usize = 130;
/// Most phases in a legend.
const MOST_LEGEND: usize = 10;

/// The style sheet, for light and dark.
const STYLE: &str = include_str!("recording.css");

/// The picture; with `fine` there are as many parts of the axis for a reader who zooms.
pub fn svg(chart: &RecordingChart, fine: Option<usize>) -> String {
    let drawn = || chart.lanes.iter().filter(|lane| lane.windows() > 0);
    let remarks = remarks(chart);
    let height = HEAD + drawn().map(lane_height).sum::<f64>() + LINE * remarks.len() as f64 + 16.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"{FONTS}\" font-size=\"12\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n",
        escaped(&chart.title)
    );
    let title = escaped(&cut(&chart.title, MOST_TITLE));
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{LEFT}\" y=\"24\" font-size=\"14\" font-weight=\"600\">{title}</text>"
    );
    out += &text_of("dim", LEFT, 43.0, "start", &subtitle(chart));
    let mut y = HEAD;
    for (i, lane) in drawn().enumerate() {
        out += &lane_group(chart, lane, i, y, fine);
        y += lane_height(lane);
    }
    for (i, remark) in remarks.iter().enumerate() {
        out += &text_of("dim", LEFT, y + LINE * (i as f64 + 1.0), "start", &cut(remark, MOST_REMARK));
    }
    out + "</svg>\n"
}

fn subtitle(chart: &RecordingChart) -> String {
    let envelopes = "line: mean; grey: least to greatest where windows share a pixel";
    let parts = [chart.subtitle.as_str(), envelopes];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ")
}

fn remarks(chart: &RecordingChart) -> Vec<String> {
    let others = format!("not shown: {}; --thread TID shows one", chart.others.join(", "));
    let others = (!chart.others.is_empty()).then_some(others);
    chart.remarks.iter().cloned().chain(others).collect()
}

fn has_phases(lane: &LaneChart) -> bool {
    lane.phases.phases.len() > 1
}

/// Heights of the head and of the strip of phases.
fn head_height(lane: &LaneChart) -> f64 {
    if has_phases(lane) { LANE_HEAD } else { LANE_HEAD - LINE }
}

fn strip_height(lane: &LaneChart) -> f64 {
    if has_phases(lane) { STRIP } else { 0.0 }
}

fn panels_height(lane: &LaneChart) -> f64 {
    strip_height(lane) + (PANEL + PANEL_GAP) * lane.panels.len() as f64 + 4.0
}

fn body_height(lane: &LaneChart) -> f64 {
    panels_height(lane) + MARK * lane.marks.len() as f64
}

fn lane_height(lane: &LaneChart) -> f64 {
    head_height(lane) + body_height(lane) + AXIS
}

/// The vertical range of a panel, below the top of its lane's body.
fn panel_range(lane: &LaneChart, panel: usize) -> (f64, f64) {
    let top = strip_height(lane) + PANEL_GAP + (PANEL + PANEL_GAP) * panel as f64;
    (top, top + PANEL)
}

/// From the values of the axis to the picture.
pub fn across(lane: &LaneChart) -> PlotScale {
    PlotScale { from: lane.range, to: (0.0, PLOT.1) }
}

/// From the values of a panel to its part of the picture, with some room above and below.
fn vertical((low, high): (f64, f64), (top, bottom): (f64, f64)) -> PlotScale {
    PlotScale { from: value_range(low, high), to: (bottom - 3.0, top + 6.0) }
}

fn lane_group(chart: &RecordingChart, lane: &LaneChart, index: usize, y: f64, fine: Option<usize>) -> String {
    let top = y + head_height(lane);
    let height = body_height(lane);
    let mut out = format!("<g class=\"lane\" data-lane=\"{index}\">\n");
    let _ = writeln!(
        out,
        "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\"/>\n\
         <text class=\"dim\" x=\"{LEFT}\" y=\"{}\"><tspan class=\"ink\" font-weight=\"600\">{}</tspan> · {}</text>",
        WIDTH - LEFT,
        y + 20.0,
        escaped(&cut(&lane.title(), MOST_TITLE / 2)),
        escaped(&lane.summary())
    );
    out += &legend(lane, y + 10.0);
    for (i, panel) in lane.panels.iter().enumerate() {
        out += &panel_labels(panel, top + panel_range(lane, i).0);
    }
    for (i, (mark, of_window)) in lane.marks.iter().enumerate() {
        let number = of_window.iter().filter(|is_marked| **is_marked).count();
        let of = units::grouped(lane.windows() as f64);
        let words = format!("{}: {} of {of}", mark.word(), units::grouped(number as f64));
        let at = top + panels_height(lane) + MARK * i as f64 + 12.0;
        out += &text_of("dim", LEFT, at, "start", &words);
    }
    let _ = writeln!(
        out,
        "<svg class=\"plot\" x=\"{}\" y=\"{top}\" width=\"{}\" height=\"{height}\" viewBox=\"0 0 {} {height}\" \
         preserveAspectRatio=\"none\">",
        PLOT.0, PLOT.1, PLOT.1
    );
    out += &bands(lane, height);
    for (i, panel) in lane.panels.iter().enumerate() {
        out += &curves(lane, panel, panel_range(lane, i), fine);
    }
    for (i, (_, of_window)) in lane.marks.iter().enumerate() {
        let at = panels_height(lane) + MARK * i as f64;
        out += &marks(lane, of_window, at + 3.0, at + MARK - 3.0, fine.unwrap_or(COARSE));
    }
    out += "</svg>\n";
    out += &letters(lane, top);
    out += &axis(chart, lane, top + height);
    out + "</g>\n"
}

/// Swatches with the letter and the share of each phase.
fn legend(lane: &LaneChart, y: f64) -> String {
    if !has_phases(lane) {
        return String::new();
    }
    let phases = &lane.phases.phases;
    let shown = phases.len().min(MOST_LEGEND);
    let step = PLOT.1 / MOST_LEGEND as f64;
    let mut out = String::new();
    for (i, phase) in phases.iter().take(shown).enumerate() {
        let x = PLOT.0 + step * i as f64;
        out += &swatch(x, y + 18.0, colour(i));
        let words = format!("{} {}", phase_letter(i), units::percent(phase.share));
        out += &text_of("ink", x + 16.0, y + 28.0, "start", &words);
    }
    out
}

fn colour(phase: usize) -> &'static str {
    PHASE_COLOURS[phase % PHASE_COLOURS.len()]
}

fn panel_labels(panel: &ChartPanel, y: f64) -> String {
    let mut out = format!("<g><title>{}, {}</title>\n", escaped(&panel.name), panel.per);
    let _ = writeln!(
        out,
        "<text class=\"ink\" x=\"{LEFT}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
        y + 14.0,
        escaped(&cut(&panel.name, MOST_LABEL - 2))
    );
    out += &text_of("dim", LEFT, y + 31.0, "start", panel.per);
    let Some((low, high)) = panel.range() else {
        return out + &text_of("dim", LEFT, y + 50.0, "start", "no window has a value") + "</g>\n";
    };
    let overall = panel.overall.map_or_else(|| "–".to_owned(), |value| panel.text(value));
    out += &text_of("ink", LEFT, y + 51.0, "start", &format!("{overall} over all"));
    if low < high {
        let words = format!("{} … {}", panel.text(low), panel.text(high));
        out += &text_of("dim", LEFT, y + 68.0, "start", &words);
    }
    let vertical = vertical((low, high), (y, y + PANEL));
    for tick in ticks(vertical.from, 4) {
        let at = vertical.place(tick);
        let label = trimmed(&panel.text(tick));
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            PLOT.0 - 4.0,
            PLOT.0
        );
        out += &text_of("dim", PLOT.0 - 7.0, (at + 4.0).clamp(y + 8.0, y + PANEL), "end", &label);
    }
    let _ = writeln!(
        out,
        "<rect class=\"frame\" x=\"{}\" y=\"{y:.1}\" width=\"{}\" height=\"{PANEL}\"/>",
        PLOT.0, PLOT.1
    );
    out + "</g>\n"
}

/// The phases behind the panels: a strip in full colour, and a band below it.
fn bands(lane: &LaneChart, height: f64) -> String {
    if !has_phases(lane) {
        return String::new();
    }
    let scale = across(lane);
    let mut out = String::new();
    for segment in &lane.phases.segments {
        let from = scale.place(lane.edges[segment.windows.start]);
        let width = scale.place(lane.edges[segment.windows.end]) - from;
        let colour = colour(segment.phase);
        for (class, y, height) in [("strip", 0.0, STRIP), ("band", STRIP, height - STRIP)] {
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{from:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{colour}\"/>"
            );
        }
    }
    out
}

/// The letters of the phases in the strip, where there is room.
fn letters(lane: &LaneChart, y: f64) -> String {
    if !has_phases(lane) {
        return String::new();
    }
    let scale = across(lane);
    let mut out = "<g class=\"letters\" fill=\"#1a1a1a\" font-size=\"11\" font-weight=\"600\">\n".to_owned();
    for segment in &lane.phases.segments {
        let [from, to] =
            [segment.windows.start, segment.windows.end].map(|window| scale.place(lane.edges[window]));
        let letter = phase_letter(segment.phase);
        if to - from >= 6.0 + 8.0 * letter.len() as f64 {
            let x = PLOT.0 + f64::midpoint(from, to);
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{letter}</text>",
                y + 12.0
            );
        }
    }
    out + "</g>\n"
}

/// A panel's line and envelope, coarse and, for a reader who zooms, fine.
fn curves(lane: &LaneChart, panel: &ChartPanel, range: (f64, f64), fine: Option<usize>) -> String {
    let Some((low, high)) = panel.range() else { return String::new() };
    let vertical = vertical((low, high), range);
    let scale = across(lane);
    let curve = |most: usize| curve(&envelope(&lane.edges, &panel.values, most), scale, vertical);
    let coarse = curve(COARSE);
    match fine.filter(|_| panel.values.len() > COARSE) {
        None => coarse,
        Some(most) => format!(
            "<g class=\"coarse\">\n{coarse}</g>\n<g class=\"fine\" style=\"display:none\">\n{}</g>\n",
            curve(most)
        ),
    }
}

fn curve(buckets: &[PlotBucket], across: PlotScale, vertical: PlotScale) -> String {
    let (mut line, mut area) = (String::new(), String::new());
    for run in buckets.split(|bucket| bucket.values.is_none()).filter(|run| !run.is_empty()) {
        line += &steps(run, across, |values| vertical.place(values.mean), 'M');
        let has_width = |bucket: &PlotBucket| bucket.values.is_some_and(|values| values.low < values.high);
        for wide in run.chunk_by(|a, b| has_width(a) == has_width(b)).filter(|part| has_width(&part[0])) {
            area += &steps(wide, across, |values| vertical.place(values.high), 'M');
            let back: Vec<PlotBucket> = wide.iter().rev().map(reversed).collect();
            area += &steps(&back, across, |values| vertical.place(values.low), 'L');
            area += "Z";
        }
    }
    let mut out = String::new();
    if !area.is_empty() {
        let _ = writeln!(out, "<path class=\"env\" d=\"{area}\"/>");
    }
    let _ = writeln!(out, "<path class=\"line\" d=\"{line}\"/>");
    out
}

fn reversed(bucket: &PlotBucket) -> PlotBucket {
    PlotBucket { range: (bucket.range.1, bucket.range.0), ..*bucket }
}

/// A line with a horizontal step for each bucket, from its first point on.
fn steps(
    buckets: &[PlotBucket],
    across: PlotScale,
    place: impl Fn(super::envelope::BucketValues) -> f64,
    first: char,
) -> String {
    let mut out = String::new();
    for (i, bucket) in buckets.iter().enumerate() {
        let Some(y) = bucket.values.map(&place) else { continue };
        let (from, to) = (across.place(bucket.range.0), across.place(bucket.range.1));
        let _ = match i {
            0 => write!(out, "{first}{from:.2} {y:.1}H{to:.2}"),
            _ => write!(out, "V{y:.1}H{to:.2}"),
        };
    }
    out
}

/// A rectangle for each stretch of marked windows; those that share a part of the axis are one.
fn marks(lane: &LaneChart, of_window: &[bool], top: f64, bottom: f64, most: usize) -> String {
    let scale = across(lane);
    let least = PLOT.1 / most as f64;
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    for (i, _) in of_window.iter().enumerate().filter(|(_, is_marked)| **is_marked) {
        let (from, to) = (scale.place(lane.edges[i]), scale.place(lane.edges[i + 1]));
        match stretches.last_mut() {
            Some(last) if from - last.1 < least => last.1 = last.1.max(to),
            _ => stretches.push((from, to)),
        }
    }
    let mut path = String::new();
    for (from, to) in stretches {
        let _ = write!(path, "M{from:.2} {top}H{to:.2}V{bottom}H{from:.2}Z");
    }
    format!("<path class=\"mark\" d=\"{path}\"/>\n")
}

fn axis(chart: &RecordingChart, lane: &LaneChart, y: f64) -> String {
    let scale = across(lane);
    let mut out = format!("<g class=\"axis\" data-y=\"{y}\">\n");
    for tick in ticks(scale.from, 6) {
        let x = PLOT.0 + scale.place(tick);
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{y:.1}\" y2=\"{:.1}\"/>",
            y + 4.0
        );
        let label = trimmed(&units::short(tick, &chart.axis_unit()));
        out += &text_of("dim", x, y + 17.0, "middle", &label);
    }
    out + "</g>\n" + &text_of("dim", LEFT, y + 17.0, "start", chart.axis_words())
}
