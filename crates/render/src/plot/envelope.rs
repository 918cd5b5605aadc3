//! Many windows in few pixels: the mean of those of a pixel, with the least and the greatest, so that a spike
//! of one window shows.

/// A part of the axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlotBucket {
    /// Its beginning and end on the axis.
    pub range: (f64, f64),
    /// The values of its windows; `None` where none has a value.
    pub values: Option<BucketValues>,
}

/// The values of the windows of a part of the axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BucketValues {
    /// The least.
    pub low: f64,
    /// The mean over the axis.
    pub mean: f64,
    /// The greatest.
    pub high: f64,
}

impl BucketValues {
    fn one(value: f64) -> BucketValues {
        BucketValues { low: value, mean: value, high: value }
    }
}

/// A bucket for each window if there are at most `most`, and else so many parts of the axis of equal length.
pub fn envelope(edges: &[f64], values: &[Option<f64>], most: usize) -> Vec<PlotBucket> {
    if values.len() > most {
        return parts(edges, values, range_of(edges), most);
    }
    let bucket = |(i, value): (usize, &Option<f64>)| PlotBucket {
        range: (edges[i], edges[i + 1]),
        values: value.map(BucketValues::one),
    };
    values.iter().enumerate().map(bucket).collect()
}

/// From the beginning of the first window to the end of the last.
pub fn range_of(edges: &[f64]) -> (f64, f64) {
    let first = edges.first().copied().unwrap_or(0.0);
    (first, edges.last().copied().unwrap_or(first))
}

/// So many parts of equal length of a range of the axis, each with the windows that it meets. The range holds
/// all windows.
pub fn parts(edges: &[f64], values: &[Option<f64>], range: (f64, f64), parts: usize) -> Vec<PlotBucket> {
    let edge = |part: usize| range.0 + (range.1 - range.0) * part as f64 / parts as f64;
    let mut sums = vec![PartSums::default(); parts];
    for (i, value) in values.iter().enumerate() {
        let Some(value) = *value else { continue };
        let (from, to) = (part_of(range, edges[i], parts), part_of(range, edges[i + 1], parts));
        for (part, sum) in sums.iter_mut().enumerate().take(to + 1).skip(from) {
            let overlap = edges[i + 1].min(edge(part + 1)) - edges[i].max(edge(part));
            // The next part begins where this one ends: a window that ends there is not in it.
            if overlap > 0.0 || from == to {
                sum.add(value, overlap.max(0.0));
            }
        }
    }
    let bucket = |(part, sum): (usize, PartSums)| PlotBucket {
        range: (edge(part), edge(part + 1)),
        values: sum.values(),
    };
    sums.into_iter().enumerate().map(bucket).collect()
}

/// The part of a range in which a position is.
pub fn part_of((first, last): (f64, f64), position: f64, parts: usize) -> usize {
    let share = if last > first { (position - first) / (last - first) } else { 0.0 };
    ((share * parts as f64) as usize).min(parts.saturating_sub(1))
}

#[derive(Clone, Copy, Default)]
struct PartSums {
    range: Option<(f64, f64)>,
    sum: f64,
    weight: f64,
}

impl PartSums {
    fn add(&mut self, value: f64, weight: f64) {
        let (low, high) = self.range.unwrap_or((value, value));
        self.range = Some((low.min(value), high.max(value)));
        self.sum += value * weight;
        self.weight += weight;
    }

    fn values(self) -> Option<BucketValues> {
        let (low, high) = self.range?;
        let mean = if self.weight > 0.0 { self.sum / self.weight } else { f64::midpoint(low, high) };
        Some(BucketValues { low, mean: mean.clamp(low, high), high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(windows: usize) -> Vec<f64> {
        (0..=windows).map(|i| i as f64).collect()
    }

    #[test]
    fn a_spike_of_one_window_in_many_survives() {
        let mut values = vec![Some(1.0); 100_000];
        values[54_321] = Some(900.0);
        let all = envelope(&edges(100_000), &values, 700);
        assert_eq!(all.len(), 700);
        let high = all.iter().filter_map(|bucket| bucket.values).map(|values| values.high);
        assert_eq!(high.clone().fold(0.0, f64::max), 900.0);
        assert_eq!(high.filter(|high| *high > 1.0).count(), 1);
    }

    #[test]
    fn few_windows_are_shown_as_they_are() {
        let all = envelope(&[0.0, 10.0, 11.0], &[Some(1.0), None], 700);
        assert_eq!(all[0].range, (0.0, 10.0));
        assert_eq!(all[1], PlotBucket { range: (10.0, 11.0), values: None });
    }

    #[test]
    fn a_mean_is_over_the_axis_and_a_missing_value_is_no_zero() {
        let all = parts(&[0.0, 3.0, 4.0, 8.0], &[Some(2.0), Some(6.0), None], (0.0, 8.0), 2);
        assert_eq!(all[0].values, Some(BucketValues { low: 2.0, mean: 3.0, high: 6.0 }));
        assert_eq!(all[1].values, None);
    }

    #[test]
    fn windows_without_length_and_axes_without_length_lose_no_value() {
        let all = parts(&[0.0, 4.0, 4.0, 8.0], &[Some(1.0), Some(9.0), Some(1.0)], (0.0, 8.0), 2);
        assert_eq!(all[1].values.map(|values| values.high), Some(9.0));
        let all = parts(&[5.0, 5.0], &[Some(3.0)], (5.0, 5.0), 4);
        assert_eq!(all[0].values, Some(BucketValues::one(3.0)));
        assert_eq!(parts(&[0.0], &[], (0.0, 0.0), 3).len(), 3);
    }

    #[test]
    fn one_window_fills_all_parts() {
        let all = parts(&[0.0, 1e9], &[Some(3.0)], (0.0, 1e9), 60);
        assert!(all.iter().all(|bucket| bucket.values == Some(BucketValues::one(3.0))));
    }
}
