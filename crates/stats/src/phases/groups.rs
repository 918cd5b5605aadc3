//! Groups of segments that are the same work.

use std::ops::Range;

use super::scale::Points;

/// The difference of a rate, in units of its noise, from which two segments are different phases.
const DIFFERENT: f64 = 1.5;

/// A group of segments, with the mean of its windows.
struct SegmentGroup {
    segments: Vec<usize>,
    windows: usize,
    mean: Vec<f64>,
}

/// The phase of each segment, numbered in the order in which phases first appear.
///
/// The two closest groups become one until each two differ in a rate. The distance is the largest difference
/// of a rate, so that one rate is enough to tell phases apart.
pub(super) fn groups(points: &Points, segments: &[Range<usize>]) -> Vec<usize> {
    let group = |(i, windows): (usize, &Range<usize>)| SegmentGroup {
        segments: vec![i],
        windows: windows.len(),
        mean: points.mean(windows.start, windows.end),
    };
    let mut groups: Vec<SegmentGroup> = segments.iter().enumerate().map(group).collect();
    while let Some((a, b)) = closest(&groups) {
        let other = groups.swap_remove(b);
        groups[a].absorb(other);
    }
    groups.sort_by_key(|group| group.segments.iter().copied().min());
    let mut phase_of = vec![0; segments.len()];
    for (phase, group) in groups.iter().enumerate() {
        group.segments.iter().for_each(|segment| phase_of[*segment] = phase);
    }
    phase_of
}

/// The two closest groups, the first index being the lower; `None` if all differ.
fn closest(groups: &[SegmentGroup]) -> Option<(usize, usize)> {
    let pairs = (0..groups.len()).flat_map(|a| (a + 1..groups.len()).map(move |b| (a, b)));
    let distances = pairs.map(|(a, b)| (groups[a].distance(&groups[b]), a, b));
    let (distance, a, b) = distances.min_by(|x, y| x.0.total_cmp(&y.0))?;
    (distance < DIFFERENT).then_some((a, b))
}

impl SegmentGroup {
    fn distance(&self, other: &SegmentGroup) -> f64 {
        self.mean.iter().zip(&other.mean).fold(0.0, |most, (a, b)| f64::max(most, (a - b).abs()))
    }

    fn absorb(&mut self, other: SegmentGroup) {
        let (own, its) = (self.windows as f64, other.windows as f64);
        for (mean, more) in self.mean.iter_mut().zip(&other.mean) {
            *mean = (*mean * own + more * its) / (own + its);
        }
        self.segments.extend(other.segments);
        self.windows += other.windows;
    }
}
