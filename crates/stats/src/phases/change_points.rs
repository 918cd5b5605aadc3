//! Change points: the segmentation with the least cost (PELT), first over sums of neighbouring windows.

use super::scale::Points;

/// Most steps of the first search; more windows than that are taken together.
pub const MOST_STEPS: usize = 4096;

/// The penalty of a change, in units of (rates + 1) · ln(windows). 1 would be the Bayesian information
/// criterion; neighbouring windows of real programs are not independent, so more is demanded.
const PENALTY: f64 = 3.0;

/// The windows at which segments begin, without the first.
pub(super) fn change_points(points: &Points) -> Vec<usize> {
    if points.rates() == 0 {
        return Vec::new();
    }
    let windows = points.len();
    let step = windows.div_ceil(MOST_STEPS);
    let steps = windows.div_ceil(step);
    let at = |step_number: usize| (step_number * step).min(windows);
    let penalty = PENALTY * (points.rates() + 1) as f64 * (windows as f64).ln();
    let coarse = segmentation(steps, penalty, |from, to| points.cost(at(from), at(to)));
    let coarse: Vec<usize> = coarse.into_iter().map(at).collect();
    let changes = if step == 1 { coarse } else { refined(points, &coarse, step) };
    without_single_windows(points, &changes)
}

/// A segment of one window becomes part of the neighbour that it fits better. It is a window with the end of
/// one phase and the beginning of another, or an outlier.
fn without_single_windows(points: &Points, changes: &[usize]) -> Vec<usize> {
    let mut bounds = vec![0];
    for (i, end) in changes.iter().copied().chain([points.len()]).enumerate() {
        let (start, next) = (bounds[bounds.len() - 1], changes.get(i + 1).copied().unwrap_or(points.len()));
        let before = bounds.len().checked_sub(2).map(|before| points.added_cost(bounds[before], start, end));
        let after = (end < next).then(|| points.added_cost(start, end, next));
        match (end - start, before, after) {
            (2.., ..) | (_, None, None) => bounds.push(end),
            (_, Some(before), Some(after)) if before > after => {}
            (_, None, Some(_)) => {}
            _ => *bounds.last_mut().unwrap_or(&mut 0) = end,
        }
    }
    bounds.retain(|bound| (1..points.len()).contains(bound));
    bounds
}

/// PELT: the best last change of each prefix, among those that can still be best.
fn segmentation(steps: usize, penalty: f64, cost: impl Fn(usize, usize) -> f64) -> Vec<usize> {
    let mut best = vec![-penalty; steps + 1];
    let mut last_change = vec![0; steps + 1];
    let mut candidates: Vec<usize> = Vec::new();
    for end in 1..=steps {
        candidates.push(end - 1);
        let costs: Vec<f64> = candidates.iter().map(|from| best[*from] + cost(*from, end)).collect();
        let (choice, least) = least(&costs);
        best[end] = least + penalty;
        last_change[end] = candidates[choice];
        let mut costs = costs.iter();
        candidates.retain(|_| costs.next().is_some_and(|cost| *cost <= least + penalty));
    }
    let mut changes = Vec::new();
    let mut end = steps;
    while last_change[end] > 0 {
        end = last_change[end];
        changes.push(end);
    }
    changes.reverse();
    changes
}

/// The index of the least value, the first of equal ones, and the value.
fn least(values: &[f64]) -> (usize, f64) {
    let least = values.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    least.map_or((0, 0.0), |(index, value)| (index, *value))
}

/// Each change moved to the window that fits best, between the middles of its two segments.
fn refined(points: &Points, changes: &[usize], step: usize) -> Vec<usize> {
    let mut bounds = vec![0];
    bounds.extend(changes);
    bounds.push(points.len());
    for i in 1..bounds.len() - 1 {
        let (start, change, end) = (bounds[i - 1], bounds[i], bounds[i + 1]);
        let nearest = change.saturating_sub(step).max(start + 1)..(change + step + 1).min(end);
        let cost = |at: usize| points.cost(start, at) + points.cost(at, end);
        bounds[i] = nearest.min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(change);
    }
    bounds[1..bounds.len() - 1].to_vec()
}
