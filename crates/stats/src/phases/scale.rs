//! Rates in units of their noise.

use crate::statistics::median;

/// The share of a rate's range below which a difference is no change of phase, if the noise is even less.
const LEAST_NOISE: f64 = 0.1;

/// Values left out at each end for the range of a rate: 1 of 100, so that single outliers do not stretch it.
const TAIL: f64 = 0.01;

/// The relative size below which differences are rounding.
const ROUNDING: f64 = 1e-9;

/// A rate in units of its noise; all zero for a rate that does not change.
///
/// The noise is that of neighbours, by the median of their differences: changes of phase are few, and hardly
/// move the median.
pub(super) fn scaled(values: &[f64]) -> Vec<f64> {
    let differences = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    // The median absolute difference of two normal values is 0.6745 × √2 standard deviations.
    let noise = sorted_median(differences) / (0.6745 * std::f64::consts::SQRT_2);
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let centre = median(&sorted);
    let unit = noise.max(LEAST_NOISE * range(&sorted));
    let largest = sorted.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
    match unit > ROUNDING * largest {
        true => values.iter().map(|value| (value - centre) / unit).collect(),
        false => vec![0.0; values.len()],
    }
}

/// The median; 0 for no values.
pub(super) fn sorted_median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { 0.0 } else { median(&values) }
}

/// The range without its tails, or with them where nothing else is left.
pub(super) fn range(sorted: &[f64]) -> f64 {
    let cut = (sorted.len() as f64 * TAIL) as usize;
    let last = sorted.len() - 1;
    let inner = sorted[last - cut] - sorted[cut];
    if inner > 0.0 { inner } else { sorted[last] - sorted[0] }
}

/// Windows as points, one coordinate for each rate, with sums for the cost of any stretch.
pub(super) struct Points {
    /// Sums of each coordinate before each window.
    sums: Vec<Vec<f64>>,
    /// Sums of all squares before each window.
    squares: Vec<f64>,
}

impl Points {
    /// The points of scaled columns.
    pub(super) fn of(columns: Vec<Vec<f64>>, windows: usize) -> Points {
        let mut squares = vec![0.0; windows + 1];
        let sums = columns.iter().map(|column| running_sums(column)).collect();
        for window in 0..windows {
            let square: f64 = columns.iter().map(|column| column[window] * column[window]).sum();
            squares[window + 1] = squares[window] + square;
        }
        Points { sums, squares }
    }

    /// Number of windows.
    pub(super) fn len(&self) -> usize {
        self.squares.len() - 1
    }

    /// Number of rates.
    pub(super) fn rates(&self) -> usize {
        self.sums.len()
    }

    /// The sum of squared distances of the windows `start..end` from their mean.
    pub(super) fn cost(&self, start: usize, end: usize) -> f64 {
        let n = (end - start) as f64;
        let explained: f64 = self.sums.iter().map(|sums| (sums[end] - sums[start]).powi(2) / n).sum();
        (self.squares[end] - self.squares[start] - explained).max(0.0)
    }

    /// By how much the cost of `start..end` is greater than that of its two parts.
    pub(super) fn added_cost(&self, start: usize, middle: usize, end: usize) -> f64 {
        self.cost(start, end) - self.cost(start, middle) - self.cost(middle, end)
    }

    /// The mean of the windows `start..end`.
    pub(super) fn mean(&self, start: usize, end: usize) -> Vec<f64> {
        let n = (end - start) as f64;
        self.sums.iter().map(|sums| (sums[end] - sums[start]) / n).collect()
    }
}

fn running_sums(values: &[f64]) -> Vec<f64> {
    let mut sums = Vec::with_capacity(values.len() + 1);
    sums.push(0.0);
    let mut sum = 0.0;
    for value in values {
        sum += value;
        sums.push(sum);
    }
    sums
}
