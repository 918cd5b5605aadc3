//! A recording on a terminal: for each rate a row of blocks, then phases, marks and the axis.

use super::chart::{ChartPanel, LaneChart, RecordingChart, phase_letter};
use super::envelope::{PlotBucket, part_of, parts};
use super::markup::cut;
use super::scale::{PlotScale, ticks, trimmed, value_range};
use crate::paint::{Paint, Style};
use crate::{columns, units, wrap};

/// Columns before the blocks, for the values of the axis.
const GUTTER: usize = 12;

/// Rows of blocks of a rate.
const ROWS: usize = 3;

/// Steps of one character.
const STEPS: usize = 8;

/// The least width, in columns.
const LEAST_WIDTH: usize = 40;

/// A window without a value; there is a block for zero.
const MISSING: char = '·';

/// Phases of one letter, and the sign of the others.
const LETTERS: usize = 26;
const OTHER: char = '+';

/// Blocks from an eighth to the full height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The recording, in lines of at most `width` columns.
pub fn render(chart: &RecordingChart, width: usize, paint: Paint) -> String {
    let width = width.max(LEAST_WIDTH);
    let mut out = paint.paint(Style::Heading, &cut(&chart.title, width)) + "\n";
    if !chart.subtitle.is_empty() {
        out += &lines(&chart.subtitle, width);
    }
    for lane in chart.lanes.iter().filter(|lane| lane.windows() > 0) {
        out += "\n";
        out += &lane_text(chart, lane, width, paint);
    }
    let mut below = chart.remarks.clone();
    if !chart.others.is_empty() {
        below.push(format!("not shown: {}; --thread TID shows one", chart.others.join(", ")));
    }
    if !below.is_empty() {
        out += "\n";
    }
    below.iter().for_each(|remark| out += &lines(remark, width));
    out
}

fn lines(text: &str, width: usize) -> String {
    wrap(text, width).into_iter().map(|line| line + "\n").collect()
}

fn lane_text(chart: &RecordingChart, lane: &LaneChart, width: usize, paint: Paint) -> String {
    let room = width - GUTTER;
    let title = cut(&lane.title(), width.saturating_sub(columns(&lane.summary()) + 3).max(12));
    let head = format!("{} · {}", paint.paint(Style::Heading, &title), lane.summary());
    let mut out = head + "\n";
    for panel in &lane.panels {
        out += &panel_text(lane, panel, room);
    }
    if lane.phases.phases.len() > 1 {
        out += &row("phase", &phase_row(lane, room));
        if lane.phases.phases.len() > LETTERS {
            out += &row("", &format!("{OTHER}: a phase beyond Z; cyclometer phases shows each"));
        }
    }
    for (mark, of_window) in &lane.marks {
        let line = mark_row(lane, of_window, room);
        out += &row(mark.word(), &paint.paint(Style::Caution, &line));
    }
    out + &axis(chart, lane, room, paint)
}

/// A row with its label.
fn row(label: &str, text: &str) -> String {
    format!("{label:>width$} {text}", width = GUTTER - 1).trim_end().to_owned() + "\n"
}

fn panel_text(lane: &LaneChart, panel: &ChartPanel, room: usize) -> String {
    let Some((low, high)) = panel.range() else {
        return format!("{}: no window has a value\n", heading(panel));
    };
    let overall = panel.overall.map(|value| panel.text(value)).unwrap_or_default();
    let spread = match low < high {
        true => format!("{overall}   {} … {}", panel.text(low), panel.text(high)),
        false => overall,
    };
    let width = (GUTTER + room).saturating_sub(columns(&spread) + 2);
    let name = cut(&heading(panel), width);
    let mut out = format!("{}{:>pad$}\n", name, spread, pad = GUTTER + room - columns(&name));
    let range = value_range(low, high);
    let scale = PlotScale { from: range, to: (0.0, (ROWS * STEPS) as f64) };
    let buckets = parts(&lane.edges, &panel.values, lane.range, room);
    for line in (0..ROWS).rev() {
        let label = match line {
            0 => panel.text(range.0),
            top if top == ROWS - 1 => panel.text(range.1),
            _ => String::new(),
        };
        let blocks: String = buckets.iter().map(|bucket| block(lane, bucket, line, scale)).collect();
        out += &row(&trimmed(&label), &blocks);
    }
    out
}

fn heading(panel: &ChartPanel) -> String {
    format!("{}, {}", panel.name, panel.per)
}

/// The character of a column in one line: a block up to the mean, and shade in the lines above it up to the
/// greatest value.
fn block(lane: &LaneChart, bucket: &PlotBucket, line: usize, scale: PlotScale) -> char {
    let Some(values) = bucket.values else {
        let is_missing = line == 0 && lane.meets(bucket.range);
        return if is_missing { MISSING } else { ' ' };
    };
    let steps = |value: f64| (scale.place(value).round().max(1.0) as usize).saturating_sub(line * STEPS);
    match (steps(values.mean).min(STEPS), steps(values.high)) {
        (0, 0) => ' ',
        (0, _) => '░',
        (mean, _) => BLOCKS[mean - 1],
    }
}

/// The letter of the phase that most of a column belongs to; a phase beyond Z has two, and a column one.
fn phase_row(lane: &LaneChart, room: usize) -> String {
    let (first, last) = lane.range;
    let letter = |column: usize| {
        let middle = first + (last - first) * (column as f64 + 0.5) / room as f64;
        if !lane.meets((middle, middle)) {
            return ' ';
        }
        let window = lane.edges.partition_point(|edge| *edge <= middle).saturating_sub(1);
        let phase = lane.phase_of(window.min(lane.windows() - 1)).unwrap_or(0);
        phase_letter(phase).parse().unwrap_or(OTHER)
    };
    (0..room).map(letter).collect()
}

fn mark_row(lane: &LaneChart, of_window: &[bool], room: usize) -> String {
    let mut columns = vec![' '; room];
    for (i, _) in of_window.iter().enumerate().filter(|(_, is_marked)| **is_marked) {
        let middle = f64::midpoint(lane.edges[i], lane.edges[i + 1]);
        columns[part_of(lane.range, middle, room)] = '▴';
    }
    columns.into_iter().collect()
}

/// The values of the axis below the columns where they are.
fn axis(chart: &RecordingChart, lane: &LaneChart, room: usize, paint: Paint) -> String {
    let range = lane.range;
    let scale = PlotScale { from: range, to: (0.0, room as f64 - 1.0) };
    let (mut line, mut labels) = (vec!['─'; room], String::new());
    for tick in ticks(range, room / 16) {
        let at = scale.place(tick).round() as usize;
        let label = trimmed(&units::short(tick, &chart.axis_unit()));
        let start = at.saturating_sub(columns(&label) / 2).min(room.saturating_sub(columns(&label)));
        if labels.is_empty() || start > columns(&labels) {
            line[at.min(room - 1)] = '┴';
            labels += &" ".repeat(start - columns(&labels));
            labels += &label;
        }
    }
    let line: String = line.into_iter().collect();
    let name = chart.axis_words();
    let last = match room.checked_sub(columns(&labels) + columns(name) + 2) {
        Some(_) => format!("{labels}  {name}"),
        None => labels,
    };
    row("", &paint.paint(Style::Dim, &line)) + &row("", &last)
}
