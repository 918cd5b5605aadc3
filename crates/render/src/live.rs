//! The latest interval of a measurement and the ones before it, drawn again at each interval on a terminal.

use std::collections::VecDeque;

use cyclometer_toolkit::core::Verdict;
use cyclometer_toolkit::core::event::Unit;

use super::interval::{IntervalValue, IntervalValues};
use super::plot::markup::cut;
use super::{columns, units};
use crate::text::clean;

/// Intervals that are kept for the histories.
const KEPT: usize = 240;

/// Columns of a name, of a value and of a rate, each with a blank behind it.
const NAME: usize = 24;
const VALUE: usize = 12;
const RATE: usize = 12;

/// The least width, in columns.
const LEAST_WIDTH: usize = 60;

/// An interval without a value; there is a block for the lowest value.
const MISSING: char = '·';

/// Blocks from an eighth to the full height.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last intervals of a measurement, at most `KEPT`, as a table with a row for each event and metric.
#[derive(Debug, Default)]
pub struct LiveTable {
    intervals: VecDeque<IntervalValues>,
}

impl LiveTable {
    /// Takes the next interval.
    pub fn add(&mut self, interval: IntervalValues) {
        if self.intervals.len() == KEPT {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
    }

    /// The table, in lines of at most `width` columns; empty before the first interval.
    ///
    /// A history goes from the lowest to the highest value that it shows, the latest interval last.
    pub fn text(&self, width: usize) -> String {
        let Some(latest) = self.intervals.back() else { return String::new() };
        let width = width.max(LEAST_WIDTH);
        let room = width - NAME - VALUE - RATE - 3;
        let seconds = |ns: u64| ns as f64 / 1e9;
        let time = format!("{:.1} s, last {:.3} s", seconds(latest.end_ns), seconds(latest.length_ns));
        let mut out = line(&cut(&time, NAME), "value", "per second", "history");
        for (position, event) in latest.events.iter().enumerate() {
            let history = self.history(room, |interval| {
                interval.events.get(position).filter(|one| one.name == event.name).and_then(|one| one.value)
            });
            out += &line(&name(event), &shown(event), &per_second(event, latest.length_ns), &history);
        }
        for (position, metric) in latest.metrics.iter().enumerate() {
            let history = self.history(room, |interval| {
                interval.metrics.get(position).filter(|one| one.name == metric.name).and_then(|one| one.value)
            });
            out += &line(&name(metric), &shown(metric), "", &history);
        }
        out
    }

    /// The values of the last intervals as blocks.
    fn history(&self, room: usize, value: impl Fn(&IntervalValues) -> Option<f64>) -> String {
        let first = self.intervals.len().saturating_sub(room);
        let values: Vec<Option<f64>> = self.intervals.iter().skip(first).map(value).collect();
        let known = || values.iter().flatten().copied();
        let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        let block = |value: f64| {
            let place = if low < high { (value - low) / (high - low) } else { 0.0 };
            BLOCKS[((place * 7.0).round() as usize).min(7)]
        };
        values.iter().map(|value| value.map_or(MISSING, block)).collect()
    }
}

fn line(name: &str, value: &str, rate: &str, history: &str) -> String {
    let pad = NAME.saturating_sub(columns(name));
    let row = format!("{name}{:pad$} {value:>VALUE$} {rate:>RATE$} {history}", "");
    row.trim_end().to_owned() + "\n"
}

fn name(value: &IntervalValue) -> String {
    cut(&clean(&value.name), NAME)
}

/// The value with the sign of an estimate, or the word of its verdict.
fn shown(value: &IntervalValue) -> String {
    match value.value {
        Some(number) if value.verdict == Verdict::Scaled => {
            "~".to_owned() + &units::short(number, &value.unit)
        }
        Some(number) => units::short(number, &value.unit),
        None => cut(&value.verdict.to_string(), VALUE),
    }
}

/// The value per second of the interval. A time per second is the number of CPUs that were in use, or their
/// share.
fn per_second(value: &IntervalValue, length_ns: u64) -> String {
    let Some(number) = value.value.filter(|_| length_ns > 0) else { return String::new() };
    match value.unit {
        Unit::Nanoseconds => units::short(number / length_ns as f64, &Unit::Ratio),
        _ => units::short(number * 1e9 / length_ns as f64, &value.unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, value: Option<f64>, unit: Unit) -> IntervalValue {
        let verdict = if value.is_some() { Verdict::Exact } else { Verdict::Lost };
        IntervalValue { name: name.to_owned(), value, unit, verdict, reason: None }
    }

    fn interval(n: u64, counts: &[IntervalValue], metrics: &[IntervalValue]) -> IntervalValues {
        IntervalValues {
            run: 0,
            warmup: false,
            end_ns: n * 500_000_000,
            length_ns: 500_000_000,
            events: counts.to_vec(),
            metrics: metrics.to_vec(),
        }
    }

    #[test]
    fn a_row_has_the_last_value_its_rate_and_its_history() {
        let mut table = LiveTable::default();
        assert_eq!(table.text(80), "");
        for n in 1..=3 {
            let events = [
                value("instructions", Some(n as f64 * 1e9), Unit::Count),
                value("busy", Some(2.5e8), Unit::Nanoseconds),
            ];
            table.add(interval(n, &events, &[value("ipc", Some(4.0 - n as f64), Unit::Ratio)]));
        }
        let text = table.text(80);
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..4], ["1.5", "s,", "last", "0.500"]);
        assert_eq!(rows[1], ["instructions", "3.00G", "6.00G", "▁▅█"], "{text}");
        assert_eq!(rows[2], ["busy", "250", "ms", "0.500", "▁▁▁"], "{text}");
        assert_eq!(rows[3], ["ipc", "1.00", "█▅▁"], "{text}");
    }

    #[test]
    fn what_was_not_counted_is_a_word_and_a_gap_never_a_zero() {
        let mut table = LiveTable::default();
        table.add(interval(1, &[value("cycles", Some(1.0), Unit::Count)], &[]));
        table.add(interval(2, &[value("cycles", None, Unit::Count)], &[]));
        let text = table.text(80);
        let row: Vec<&str> = text.lines().nth(1).unwrap_or_default().split_whitespace().collect();
        assert_eq!(row, ["cycles", "lost", "▁·"], "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_old_intervals_are_dropped() {
        let mut table = LiveTable::default();
        for n in 0..1000 {
            let long = "a_name_that_is_much_longer_than_its_column_\u{1b}[31m";
            table.add(interval(n, &[value(long, Some(n as f64), Unit::Bytes)], &[]));
        }
        assert_eq!(table.intervals.len(), KEPT);
        for width in [1, 60, 80, 200, 1000] {
            let text = table.text(width);
            assert!(text.lines().all(|line| columns(line) <= width.max(LEAST_WIDTH)), "{width}: {text}");
            assert!(!text.contains('\u{1b}'));
        }
    }

    #[test]
    fn a_history_follows_its_event_where_a_pass_counts_others() {
        let mut table = LiveTable::default();
        table.add(interval(1, &[value("loads", Some(9.0), Unit::Count)], &[]));
        table.add(interval(2, &[value("stores", Some(1.0), Unit::Count)], &[]));
        assert!(table.text(80).contains("·▁"), "{}", table.text(80));
    }
}
