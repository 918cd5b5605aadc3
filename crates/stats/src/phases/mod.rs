//! Phases: parts of a run in which a program does the same work, found in the rates of its windows.
//!
//! # Problem
//!
//! A recording has a row for every N events. A program reads, computes and writes, and each of these shows as
//! a stretch of rows with similar rates. [`phases`] finds the stretches, and which of them are the same work.
//!
//! ```text
//!   misses per    ▂▂▂▂▂▂▂▂▇▇▇▇▇▇▇▇▇▂▂▂▂▂▂▂▂▂▂▂▇▇▇▇▇▇▇▇▇
//!   1,000 instr.  └─ 0..8 ─┘└─ 8..17 ─┘└─ 17..28 ─┘└─ 28..37 ─┘    segments
//!                     A          B           A           B         phases
//! ```
//!
//! # Method
//!
//! 1. `scale`: each rate is divided by its noise, which the differences of neighbours show, or by a tenth
//!    of its range where the noise is less. So a rate that hardly moves makes no phase, and one outlier none
//!    either.
//! 2. `change_points`: the segmentation with the least sum of squares plus a penalty for each change
//!    (PELT). A single window is no segment.
//! 3. `groups`: segments with similar means are one phase.
//! 4. `mixtures`: a phase whose windows are far from its mean is no phase, but changes that the search could
//!    not tell from noise.
//!
//! # Source
//!
//! R. Killick, P. Fearnhead, I. A. Eckley: Optimal detection of changepoints with a linear computational
//! cost, Journal of the American Statistical Association 107 (2012).

mod change_points;
mod groups;
mod mixtures;
mod scale;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::rotation::quantile::t_95;
use crate::statistics::Statistics;

pub use change_points::MOST_STEPS;

/// The rates of the windows of one thread, in their order.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WindowRates {
    /// The share of each window in the whole, in any unit: its instructions, or its time. Positive.
    pub weights: Vec<f64>,
    /// The rates, each with one value for each window; `None` where the window lacks a count.
    pub columns: Vec<Vec<Option<f64>>>,
    /// The divisor of each rate in each window, so that the mean over windows is the ratio of their sums; the
    /// weights where a rate has none here.
    pub divisors: Vec<Vec<f64>>,
}

impl WindowRates {
    /// The weights for means of a column.
    fn weights_of(&self, column: usize) -> &[f64] {
        self.divisors.get(column).unwrap_or(&self.weights)
    }
}

/// The phases of a thread.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Phases {
    /// The stretches of windows, in order, without gaps.
    pub segments: Vec<PhaseSegment>,
    /// The phases, in the order in which they first appear.
    pub phases: Vec<PhaseSummary>,
    /// Columns that were not used, because too many of their values are missing or not finite.
    pub unused_columns: Vec<usize>,
    /// Columns that change faster than phases can be found: a phase with its mean is a mixture of different
    /// work. With more than [`MOST_STEPS`] windows shorter windows do not help, but a shorter run.
    pub fast_columns: Vec<usize>,
}

/// A stretch of windows that belong to one phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhaseSegment {
    /// The windows.
    pub windows: Range<usize>,
    /// The phase, an index into [`Phases::phases`].
    pub phase: usize,
}

/// One phase.
#[derive(Clone, PartialEq, Debug)]
pub struct PhaseSummary {
    /// Number of its windows.
    pub windows: usize,
    /// Number of its segments.
    pub segments: usize,
    /// Its share in the weights of all windows, 0 to 1.
    pub share: f64,
    /// The mean of each rate over its windows, by divisor, with the 95 % interval; `None` where no window of
    /// the phase has a value.
    pub rates: Vec<Option<PhaseRate>>,
}

/// A rate of a phase.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PhaseRate {
    /// The mean, in the unit of the column.
    pub mean: f64,
    /// The 95 % confidence interval of the mean; `None` for fewer than [`LEAST_FOR_INTERVAL`] windows, and
    /// where the divisor is zero in nearly all of them.
    pub interval: Option<(f64, f64)>,
}

/// Fewest windows of a phase for the interval of a mean.
pub const LEAST_FOR_INTERVAL: usize = 25;

/// Fewest means of batches that say how far the mean may be off. A batch in which nothing happened has none.
const LEAST_BATCHES: usize = 3;

/// Fewest windows in which phases are looked for; all of fewer windows are one phase.
pub const LEAST_WINDOWS: usize = 8;

/// Largest share of missing values in a column that is used.
const MOST_MISSING: f64 = 0.1;

/// Finds the phases of one thread; none for no windows.
///
/// The boundaries are right to about one window where the rates of neighbouring phases differ clearly. With
/// more than some thousand windows the search begins with sums of neighbouring windows, so that phases
/// shorter than 1/4,000 of the run are not found.
///
/// # Panics
///
/// If a column, or a list of divisors, does not have as many values as there are weights.
pub fn phases(rates: &WindowRates) -> Phases {
    let windows = rates.weights.len();
    assert!(rates.columns.iter().all(|column| column.len() == windows), "a rate for each window");
    assert!(rates.divisors.iter().all(|column| column.len() == windows), "a divisor for each window");
    if windows == 0 {
        return Phases::default();
    }
    let used: Vec<Option<Vec<f64>>> = rates.columns.iter().map(|column| usable(column)).collect();
    let unused_columns = (0..used.len()).filter(|column| used[*column].is_none()).collect();
    let points =
        scale::Points::of(used.iter().flatten().map(|column| scale::scaled(column)).collect(), windows);
    let bounds = match windows {
        ..LEAST_WINDOWS => Vec::new(),
        _ => change_points::change_points(&points),
    };
    let segments = ranges(&bounds, windows);
    let of_segment = groups::groups(&points, &segments);
    let segments = of_segment.into_iter().zip(segments);
    let segments = segments.map(|(phase, windows)| PhaseSegment { windows, phase }).collect();
    let segments = joined(segments);
    let is_fast =
        |column: &usize| used[*column].as_ref().is_some_and(|rate| mixtures::has_mixture(rate, &segments));
    let fast_columns = (0..used.len()).filter(is_fast).collect();
    Phases { phases: summaries(rates, &segments), segments, unused_columns, fast_columns }
}

/// The values of a column, each missing one replaced by that before it.
fn usable(column: &[Option<f64>]) -> Option<Vec<f64>> {
    let present = |value: &Option<f64>| value.filter(|value| value.is_finite());
    let missing = column.iter().filter(|value| present(value).is_none()).count();
    let mut last = column.iter().find_map(present)?;
    (missing as f64 <= MOST_MISSING * column.len() as f64).then(|| {
        let mut filled = |value: &Option<f64>| {
            last = present(value).unwrap_or(last);
            last
        };
        column.iter().map(&mut filled).collect()
    })
}

fn ranges(bounds: &[usize], windows: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(bounds.iter().copied());
    let ends = bounds.iter().copied().chain(std::iter::once(windows));
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// Neighbours of one phase become one segment.
fn joined(segments: Vec<PhaseSegment>) -> Vec<PhaseSegment> {
    let mut joined: Vec<PhaseSegment> = Vec::with_capacity(segments.len());
    for segment in segments {
        match joined.last_mut() {
            Some(last) if last.phase == segment.phase => last.windows.end = segment.windows.end,
            _ => joined.push(segment),
        }
    }
    joined
}

fn summaries(rates: &WindowRates, segments: &[PhaseSegment]) -> Vec<PhaseSummary> {
    let phases = segments.iter().map(|segment| segment.phase + 1).max().unwrap_or(0);
    let all: f64 = rates.weights.iter().sum();
    let columns = rates.columns.iter().enumerate();
    let summary = |phase: usize| {
        let own: Vec<&PhaseSegment> = segments.iter().filter(|segment| segment.phase == phase).collect();
        let windows = || own.iter().flat_map(|segment| segment.windows.clone());
        let weight: f64 = windows().map(|window| rates.weights[window]).sum();
        PhaseSummary {
            windows: windows().count(),
            segments: own.len(),
            share: if all > 0.0 { weight / all } else { 0.0 },
            rates: columns.clone().map(|(i, column)| rate(column, rates.weights_of(i), windows())).collect(),
        }
    };
    (0..phases).map(summary).collect()
}

/// The mean of a rate over windows, by weight.
///
/// Neighbouring windows are not independent, so the interval is that of the means of about √n runs of them.
///
/// # Source
///
/// L. W. Schruben: Confidence interval estimation using standardized time series, Operations Research 31
/// (1983), section 1, for batch means.
fn rate(column: &[Option<f64>], weights: &[f64], windows: impl Iterator<Item = usize>) -> Option<PhaseRate> {
    let present = |window: usize| Some((column[window].filter(|value| value.is_finite())?, weights[window]));
    let values: Vec<(f64, f64)> = windows.filter_map(present).collect();
    let mean = weighted_mean(&values)?;
    let interval = (values.len() >= LEAST_FOR_INTERVAL).then_some(()).and_then(|()| {
        let batches = values.len().isqrt();
        let bound = |batch: usize| batch * values.len() / batches;
        let means = (0..batches).filter_map(|batch| weighted_mean(&values[bound(batch)..bound(batch + 1)]));
        let means: Vec<f64> = means.collect();
        let means = (means.len() >= LEAST_BATCHES).then(|| Statistics::of(&means))?;
        let error = means.stddev.unwrap_or(0.0) / (means.n as f64).sqrt();
        let half = t_95(means.n as f64 - 1.0) * error;
        // Rates of counts are never negative, so neither is a bound.
        let is_positive = values.iter().all(|(value, _)| *value >= 0.0);
        let low = if is_positive { (mean - half).max(0.0) } else { mean - half };
        Some((low, mean + half))
    });
    Some(PhaseRate { mean, interval })
}

fn weighted_mean(values: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = values.iter().map(|(_, weight)| weight).sum();
    (weight > 0.0).then(|| values.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight)
}
