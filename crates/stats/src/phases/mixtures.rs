//! Phases that are a mixture: the rate changes faster than the search can follow.
//!
//! | windows of a phase | median distance from its mean, in ranges of the rate |
//! |---|---|
//! | noise of a normal distribution | 0.15 |
//! | noise of a uniform distribution | 0.26 |
//! | two kinds of work in turn | 0.5 |

use super::scale::{range, sorted_median};
use super::{LEAST_FOR_INTERVAL, PhaseSegment};

/// The median distance, in ranges of the rate, from which a phase is a mixture.
const MIXED: f64 = 0.3;

/// The range, in units of the greatest value, below which it does not matter.
const LEAST_RANGE: f64 = 0.05;

/// Whether a phase with an interval is a mixture as far as this rate goes.
pub(super) fn has_mixture(rate: &[f64], segments: &[PhaseSegment]) -> bool {
    let mut sorted = rate.to_vec();
    sorted.sort_by(f64::total_cmp);
    let largest = rate.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    let range = range(&sorted);
    let phases = segments.iter().map(|segment| segment.phase + 1).max().unwrap_or(0);
    let is_mixed = |phase: usize| {
        let own = segments.iter().filter(|segment| segment.phase == phase);
        let values: Vec<f64> = own.flat_map(|segment| &rate[segment.windows.clone()]).copied().collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.len() >= LEAST_FOR_INTERVAL
            && sorted_median(values.iter().map(|value| (value - mean).abs()).collect()) > MIXED * range
    };
    range > LEAST_RANGE * largest && (0..phases).any(is_mixed)
}
