//! Sums of more than three concepts, by non-negative least squares.
//!
//! Trying all sums of four and more takes too long. Their weights are estimated at once as non-negative
//! numbers, rounded to the weights that hypotheses have, and checked as every hypothesis is. Neighbours of
//! the result, with one weight changed or one concept exchanged, left out or added, are candidates too: if
//! one of them fits as well, the event is ambiguous.

use crate::cover::{Bounds, MatrixColumn, SearchLimits, TermIndex, covers};
use crate::hypothesis::{EventSlopes, Vocabulary};
use crate::sum::TermWeight;

/// Weights below this are no part of a sum.
const LEAST_WEIGHT: f64 = 0.12;

/// The most terms of a sum.
const MOST_TERMS: usize = 8;

/// The error up to which a concept is the sum of others, in events per iteration.
const EXACTLY: f64 = 1e-9;

const SIMPLIFICATION: SearchLimits = SearchLimits { terms: 8, trials: 1000, solutions: 16 };

/// Columns with a weight at any time of the estimation.
const MOST_ACTIVE: usize = 14;

/// Steps of the estimation.
const MOST_STEPS: usize = 28;

/// The gradient, in standard deviations, at which the estimation ends.
const LEAST_GRADIENT: f64 = 1e-3;

/// The sum of four or more of the `admissible` columns that is nearest to an event, and its neighbours; none
/// if the event does not have such a sum.
pub(crate) fn large_sums(
    vocabulary: &Vocabulary,
    target: &EventSlopes,
    admissible: &[usize],
) -> Vec<Vec<TermIndex>> {
    let weights = least_squares(vocabulary, target, admissible);
    let sum: Vec<TermIndex> = weights
        .into_iter()
        .filter(|(_, weight)| *weight >= LEAST_WEIGHT)
        .map(|(column, weight)| (column, TermWeight::nearest(weight) as usize))
        .collect();
    if sum.len() < 4 || target.hypothesis(vocabulary, &sum).is_none() {
        return Vec::new();
    }
    let sum = simplified(vocabulary, sum, admissible);
    if sum.len() > MOST_TERMS {
        return Vec::new();
    }
    let mut sums = neighbours(&sum, admissible);
    sums.push(sum);
    sums
}

/// The non-negative weights of the columns with the least squared errors; columns without weight are left
/// out.
///
/// # Source
///
/// C. L. Lawson, R. J. Hanson: Solving Least Squares Problems, 1974, chapter 23.
fn least_squares(vocabulary: &Vocabulary, target: &EventSlopes, admissible: &[usize]) -> Vec<(usize, f64)> {
    let bounds = target.bounds(vocabulary);
    // Bounds of held-out kernels are infinite.
    let slope = |kernel: usize| target.slope(kernel).filter(|_| bounds[kernel].lower.is_finite());
    // Errors count in standard deviations, which are about a fiftieth of a slope.
    let precision: Vec<f64> = (0..bounds.len())
        .map(|kernel| slope(kernel).map_or(0.0, |(value, half_width)| 1.0 / half_width.hypot(0.02 * value)))
        .collect();
    let slopes: Vec<f64> = (0..bounds.len())
        .map(|kernel| slope(kernel).map_or(0.0, |(value, _)| value * precision[kernel]))
        .collect();
    let columns: Vec<Vec<f64>> =
        admissible.iter().map(|&column| scaled(&vocabulary.exact_column(column), &precision)).collect();
    let mut active =
        ActiveSet { columns: &columns, slopes: &slopes, chosen: Vec::new(), weights: Vec::new() };
    for _ in 0..MOST_STEPS {
        let Some(steepest) = active.steepest() else { break };
        if active.chosen.len() == MOST_ACTIVE || !active.add(steepest) {
            break;
        }
    }
    active.chosen.iter().map(|&column| admissible[column]).zip(active.weights).collect()
}

fn scaled(column: &MatrixColumn, precision: &[f64]) -> Vec<f64> {
    let mut scaled = vec![0.0; precision.len()];
    for entry in &column.entries {
        scaled[entry.kernel] = entry.least * precision[entry.kernel];
    }
    scaled
}

/// The columns that have a weight, which is positive.
struct ActiveSet<'a> {
    columns: &'a [Vec<f64>],
    slopes: &'a [f64],
    chosen: Vec<usize>,
    weights: Vec<f64>,
}

impl ActiveSet<'_> {
    /// The column that would reduce the error most, in proportion to its length; `None` at the optimum.
    fn steepest(&self) -> Option<usize> {
        let mut rest = self.slopes.to_vec();
        for (&column, weight) in self.chosen.iter().zip(&self.weights) {
            rest.iter_mut().zip(&self.columns[column]).for_each(|(rest, events)| *rest -= weight * events);
        }
        let gradient = |column: usize| {
            let column = &self.columns[column];
            dot(column, &rest) / dot(column, column).sqrt().max(f64::MIN_POSITIVE)
        };
        (0..self.columns.len())
            .filter(|column| !self.chosen.contains(column))
            .map(|column| (column, gradient(column)))
            .filter(|(_, gradient)| *gradient > LEAST_GRADIENT)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(column, _)| column)
    }

    /// Adds a column, and drops those whose weights become negative; whether that was possible.
    fn add(&mut self, column: usize) -> bool {
        self.chosen.push(column);
        self.weights.push(0.0);
        loop {
            let Some(solution) = self.solve() else { return false };
            let reached = self
                .weights
                .iter()
                .zip(&solution)
                .filter(|(_, wanted)| **wanted <= 0.0)
                .map(|(weight, wanted)| weight / (weight - wanted).max(f64::MIN_POSITIVE))
                .fold(f64::INFINITY, f64::min);
            if reached.is_infinite() {
                self.weights = solution;
                return true;
            }
            // As far as the first weight that becomes zero, which leaves.
            for (weight, wanted) in self.weights.iter_mut().zip(&solution) {
                *weight += reached * (wanted - *weight);
            }
            let kept: Vec<bool> = self.weights.iter().map(|weight| *weight > 1e-9).collect();
            if kept.last() == Some(&false) {
                return false;
            }
            let mut keep = kept.iter();
            self.chosen.retain(|_| *keep.next().unwrap_or(&true));
            self.weights.retain(|weight| *weight > 1e-9);
        }
    }

    /// The weights with the least squared errors without regard to their signs; `None` if the columns depend
    /// on each other.
    fn solve(&self) -> Option<Vec<f64>> {
        let size = self.chosen.len();
        let column = |at: usize| &self.columns[self.chosen[at]];
        let mut matrix: Vec<Vec<f64>> = (0..size)
            .map(|row| {
                let products = (0..size).map(|other| dot(column(row), column(other)));
                products.chain([dot(column(row), self.slopes)]).collect()
            })
            .collect();
        // The matrix is symmetric and positive, so pivots stay on the diagonal.
        for pivot in 0..size {
            let scale = dot(column(pivot), column(pivot));
            if matrix[pivot][pivot] <= 1e-9 * scale {
                return None;
            }
            let pivot_row = matrix[pivot].clone();
            for (_, row) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != pivot) {
                let share = row[pivot] / pivot_row[pivot];
                row.iter_mut().zip(&pivot_row).for_each(|(number, of_pivot)| *number -= share * of_pivot);
            }
        }
        Some((0..size).map(|row| matrix[row][size] / matrix[row][row]).collect())
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The sum with each concept in place of the concepts that it is the sum of: branches in place of calls,
/// returns and jumps.
fn simplified(vocabulary: &Vocabulary, mut sum: Vec<TermIndex>, admissible: &[usize]) -> Vec<TermIndex> {
    for &column in admissible {
        for weight in 0..TermWeight::ALL.len() {
            let parts: Vec<usize> =
                sum.iter().filter(|term| term.1 == weight && term.0 != column).map(|term| term.0).collect();
            if let Some(replaced) = parts_of(vocabulary, column, &parts) {
                sum.retain(|term| !(term.1 == weight && replaced.contains(&term.0)));
                sum.push((column, weight));
            }
        }
    }
    sum
}

/// The columns among `parts`, at least two, whose sum a column is.
fn parts_of(vocabulary: &Vocabulary, column: usize, parts: &[usize]) -> Option<Vec<usize>> {
    if parts.len() < 2 {
        return None;
    }
    let kernels = vocabulary.kernels();
    let mut bounds = vec![Bounds { lower: 0.0, upper: EXACTLY }; kernels];
    for entry in vocabulary.exact_column(column).entries {
        bounds[entry.kernel] = Bounds { lower: entry.least - EXACTLY, upper: entry.most + EXACTLY };
    }
    let columns: Vec<MatrixColumn> = parts.iter().map(|&part| vocabulary.exact_column(part)).collect();
    let found = covers(&columns, &[1.0], &bounds, SIMPLIFICATION);
    let sum = found.sums.iter().find(|sum| sum.len() > 1)?;
    Some(sum.iter().map(|&(at, _)| parts[at]).collect())
}

/// The sums that differ in one term.
fn neighbours(sum: &[TermIndex], admissible: &[usize]) -> Vec<Vec<TermIndex>> {
    let used = |column: usize| sum.iter().any(|term| term.0 == column);
    let others: Vec<TermIndex> = admissible
        .iter()
        .filter(|&&column| !used(column))
        .flat_map(|&column| (0..TermWeight::ALL.len()).map(move |weight| (column, weight)))
        .collect();
    let mut sums = Vec::new();
    for (index, &(column, weight)) in sum.iter().enumerate() {
        let without: Vec<TermIndex> =
            sum.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, term)| *term).collect();
        let with = |term: TermIndex| without.iter().copied().chain([term]).collect::<Vec<_>>();
        sums.extend(
            (0..TermWeight::ALL.len()).filter(|&other| other != weight).map(|other| with((column, other))),
        );
        sums.extend(others.iter().map(|&other| with(other)));
        sums.push(without);
    }
    sums.extend(others.iter().map(|&other| sum.iter().copied().chain([other]).collect()));
    sums
}
