//! Sums of more than three concepts, by non-negative least squares.
//!
//! Trying all sums of four and more takes too long. Their weights are estimated at once as non-negative
//! numbers, rounded to the weights that hypotheses have, and checked as every hypothesis is. Neighbours of
//! the result, with one weight changed or one concept exchanged, left out or added, are candidates too: if one of
//! them fits as well, the event is ambiguous.

use crate::cover::{Column, TermIndex};
use crate::hypothesis::{Target, Vocabulary};
use crate::sum::Weight;

/// Weights below this are no part of a sum.
const LEAST_WEIGHT: f64 = 0.12;

/// The most terms of a sum.
const MOST_TERMS: usize = 8;

const SWEEPS: usize = 200;

/// The sum of four or more of the `admissible` columns that is nearest to an event, and its neighbours; none if the event
/// does not have such a sum.
pub(crate) fn large_sums(
    vocabulary: &Vocabulary,
    target: &Target,
    admissible: &[usize],
) -> Vec<Vec<TermIndex>> {
    let weights = least_squares(vocabulary, target, admissible);
    let sum: Vec<TermIndex> = weights
        .into_iter()
        .filter(|(_, weight)| *weight >= LEAST_WEIGHT)
        .map(|(column, weight)| (column, Weight::nearest(weight) as usize))
        .collect();
    if !(4..=MOST_TERMS).contains(&sum.len()) || target.hypothesis(vocabulary, &sum).is_none() {
        return Vec::new();
    }
    let mut sums = neighbours(&sum, admissible);
    sums.push(sum);
    sums
}

/// The non-negative weights of the columns with the least squared errors, by coordinate descent.
fn least_squares(vocabulary: &Vocabulary, target: &Target, admissible: &[usize]) -> Vec<(usize, f64)> {
    let slopes: Vec<Option<(f64, f64)>> = target
        .bounds(vocabulary)
        .iter()
        .enumerate()
        .map(|(kernel, bounds)| {
            // Bounds of held-out kernels are infinite.
            target.slope(kernel).filter(|_| bounds.lower.is_finite())
        })
        .collect();
    // Errors count in standard deviations, which are about a fiftieth of a slope.
    let precision: Vec<f64> = slopes
        .iter()
        .map(|slope| slope.map_or(0.0, |(value, half_width)| 1.0 / half_width.hypot(0.02 * value)))
        .collect();
    let mut rest: Vec<f64> =
        slopes.iter().zip(&precision).map(|(slope, p)| slope.map_or(0.0, |(value, _)| value * p)).collect();
    let columns: Vec<(usize, Vec<(usize, f64)>, f64)> = admissible
        .iter()
        .map(|&column| {
            let scaled = scaled(&vocabulary.columns[column], &precision);
            let norm = scaled.iter().map(|(_, events)| events * events).sum();
            (column, scaled, norm)
        })
        .collect();
    let mut weights = vec![0.0; columns.len()];
    for _ in 0..SWEEPS {
        let mut largest_change = 0.0f64;
        for ((_, entries, norm), weight) in columns.iter().zip(&mut weights) {
            if *norm == 0.0 {
                continue;
            }
            let gradient: f64 = entries.iter().map(|&(kernel, events)| events * rest[kernel]).sum();
            let change = f64::max(gradient / norm, -*weight);
            *weight += change;
            for &(kernel, events) in entries {
                rest[kernel] -= change * events;
            }
            largest_change = largest_change.max(change.abs());
        }
        if largest_change < 1e-3 {
            break;
        }
    }
    columns.iter().map(|(column, ..)| *column).zip(weights).collect()
}

fn scaled(column: &Column, precision: &[f64]) -> Vec<(usize, f64)> {
    column.entries.iter().map(|&(kernel, events)| (kernel, events * precision[kernel])).collect()
}

/// The sums that differ in one term.
fn neighbours(sum: &[TermIndex], admissible: &[usize]) -> Vec<Vec<TermIndex>> {
    let used = |column: usize| sum.iter().any(|term| term.0 == column);
    let others: Vec<TermIndex> = admissible
        .iter()
        .filter(|&&column| !used(column))
        .flat_map(|&column| (0..Weight::ALL.len()).map(move |weight| (column, weight)))
        .collect();
    let mut sums = Vec::new();
    for (index, &(column, weight)) in sum.iter().enumerate() {
        let without: Vec<TermIndex> =
            sum.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, term)| *term).collect();
        let with = |term: TermIndex| without.iter().copied().chain([term]).collect::<Vec<_>>();
        sums.extend(
            (0..Weight::ALL.len()).filter(|&other| other != weight).map(|other| with((column, other))),
        );
        sums.extend(others.iter().map(|&other| with(other)));
        sums.push(without);
    }
    sums.extend(others.iter().map(|&other| sum.iter().copied().chain([other]).collect()));
    sums
}
