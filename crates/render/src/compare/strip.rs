//! The distribution of the runs of both sides: a small histogram for each metric and side.

use super::{Contest, Versus};
use crate::compare::level::{level, unit_of};
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, columns};

/// Heights, from none to most of one bin.
const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Bins of a histogram.
const BINS: usize = 32;

/// Fewest runs of a side that are worth a picture.
const LEAST: usize = 3;

/// A pair of histograms for each metric that varies, on one scale from the least to the greatest value of
/// both.
pub fn render(contest: &Contest<'_>, versus: &Versus, paint: Paint) -> String {
    let rows: Vec<[String; 2]> =
        versus.metrics.iter().filter_map(|one| strips(contest, versus, &one.name)).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = "distribution of the runs, from the least to the greatest of both";
    let mut out = format!("  {}\n", paint.paint(Style::Dim, head));
    rows.iter().flatten().for_each(|row| out += &format!("{}\n", row.trim_end()));
    out
}

fn strips(contest: &Contest<'_>, versus: &Versus, name: &str) -> Option<[String; 2]> {
    let values = |all: &[cyclometer_toolkit::stats::compare::Series]| {
        all.iter().find(|series| series.name == name).map(|series| (series.present(), series.unit.clone()))
    };
    let (a, symbol) = values(contest.reference_series())?;
    let (b, _) = values(&contest.arms[versus.arm].series)?;
    let all = || a.iter().chain(&b).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if a.len() < LEAST || b.len() < LEAST || low >= high {
        return None;
    }
    let unit = unit_of(&symbol);
    let (from, to) = (level(low, &unit), level(high, &unit));
    let name = clean(name);
    let room = WIDTH - BINS - 2 * 11 - 8;
    let shown: String = name.chars().take(room).collect();
    let pad = " ".repeat(room.saturating_sub(columns(&shown)));
    let first = format!("  {shown}{pad} A {from:>10} │{}│ {to}", histogram(&a, low, high));
    let second = format!("  {:room$} B {:10} │{}│", "", "", histogram(&b, low, high));
    Some([first, second])
}

/// A character for each bin; the fullest has the full height.
pub fn histogram(values: &[f64], low: f64, high: f64) -> String {
    let mut bins = [0usize; BINS];
    for value in values {
        let place = (value - low) / (high - low) * BINS as f64;
        bins[(place as usize).min(BINS - 1)] += 1;
    }
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let height = |count: usize| (count * (HEIGHTS.len() - 1)).div_ceil(most);
    bins.iter().map(|count| HEIGHTS[height(*count)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_shows_every_value_and_the_fullest_bin_highest() {
        let text = histogram(&[0.0, 0.0, 0.0, 0.0, 50.0, 100.0], 0.0, 100.0);
        assert_eq!(columns(&text), BINS);
        assert!(text.starts_with('█') && text.ends_with('▂'), "{text}");
        assert_eq!(text.chars().filter(|c| *c != ' ').count(), 3);
    }
}
