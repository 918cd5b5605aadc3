//! Statistics over the values of runs.

/// Threshold of the modified z-score beyond which a value is an outlier. It is in standard deviations as
/// estimated by the median absolute deviation: 10 × 1.4826 MAD.
///
/// Times of programs have long tails. The textbook's threshold of 3.5, made for the normal distribution,
/// calls a part of the tail outliers in every measurement. A value ten deviations away has another cause.
/// Outliers are shown and never left out.
///
/// # Source
///
/// B. Iglewicz and D. Hoaglin, "How to Detect and Handle Outliers", ASQC 1993, for the score; hyperfine
/// `src/outlier_detection.rs` for the threshold.
const OUTLIER_SCORE: f64 = 10.0;

/// The 97.5 % quantile of the normal distribution.
pub(crate) const NORMAL: f64 = 1.959_963_984_540_054;

/// Median absolute deviation of a normal distribution, in standard deviations (the same source).
const MAD_OF_NORMAL: f64 = 0.6745;

/// Standard deviation of a normal distribution, in mean absolute deviations: √(π / 2).
///
/// Replaces the median absolute deviation if that is zero, which means that more than half of the values are
/// equal.
const SIGMA_BY_MEAN_DEVIATION: f64 = 1.253_314;

/// Fewest values among which a value can be an outlier.
pub const LEAST_TO_JUDGE: usize = 5;

/// Statistics of the values of several runs, in the unit of the values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Statistics {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean; `None` without values, or when a value that belongs to it is missing.
    pub mean: Option<f64>,
    /// Sample standard deviation (n − 1); `None` for fewer than two values.
    pub stddev: Option<f64>,
    /// The middle value, or the mean of the two.
    pub median: Option<f64>,
    /// The least value.
    pub min: Option<f64>,
    /// The greatest value.
    pub max: Option<f64>,
    /// Number of values far from the others, by the modified z-score; `None` for fewer than five: of three
    /// values, two are close by chance.
    pub outliers: Option<usize>,
    /// The 95 % confidence interval of the median of all possible runs, for any distribution; `None` for
    /// fewer than six values.
    pub median_interval: Option<(f64, f64)>,
}

impl Statistics {
    /// Statistics of complete values.
    pub fn of(values: &[f64]) -> Statistics {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (sorted.first(), sorted.last()) else {
            return Statistics::default();
        };
        let mean = mean(&sorted).clamp(min, max);
        let median = median(&sorted);
        Statistics {
            n: sorted.len(),
            mean: Some(mean),
            stddev: stddev(&sorted, mean),
            median: Some(median),
            min: Some(min),
            max: Some(max),
            outliers: outliers(&sorted, median),
            median_interval: median_interval(&sorted),
        }
    }

    /// Statistics of values of which some may be missing: then only their number is given.
    pub fn of_all(values: &[Option<f64>]) -> Statistics {
        let present: Vec<f64> = values.iter().copied().flatten().collect();
        match present.len() == values.len() {
            true => Statistics::of(&present),
            false => Statistics { n: present.len(), ..Statistics::default() },
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle value of sorted ones, or the mean of the two; there is at least one.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => sorted[middle - 1] / 2.0 + sorted[middle] / 2.0,
    }
}

/// The greatest number of values for which the binomial distribution is summed; beyond it the normal
/// approximation is as good.
const MOST_EXACT: usize = 1000;

/// The interval between two of the ordered values: the median lies outside in at most 5 % of all cases.
///
/// # Source
///
/// W. R. Thompson, "On Confidence Ranges for the Median and Other Expectation Distributions", Annals of
/// Mathematical Statistics 7, 1936.
fn median_interval(sorted: &[f64]) -> Option<(f64, f64)> {
    const OUTSIDE: f64 = 0.025;
    let n = sorted.len();
    let cut = if n > MOST_EXACT {
        ((n as f64 - NORMAL * (n as f64).sqrt()) / 2.0 - 0.5).floor() as usize
    } else {
        // The probability that exactly this many values lie below the median, and that at most this many do.
        let (mut exactly, mut at_most, mut below) = (0.5f64.powi(n as i32), 0.0, 0);
        while at_most + exactly <= OUTSIDE {
            at_most += exactly;
            exactly *= (n - below) as f64 / (below + 1) as f64;
            below += 1;
        }
        usize::checked_sub(below, 1)?
    };
    Some((sorted[cut], sorted[n - 1 - cut]))
}

fn stddev(values: &[f64], mean: f64) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

fn outliers(values: &[f64], median_value: f64) -> Option<usize> {
    if values.len() < LEAST_TO_JUDGE {
        return None;
    }
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - median_value).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let sigma = match median(&deviations) {
        mad if mad > 0.0 => mad / MAD_OF_NORMAL,
        _ => mean(&deviations) * SIGMA_BY_MEAN_DEVIATION,
    };
    Some(deviations.iter().filter(|deviation| **deviation > OUTLIER_SCORE * sigma).count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values_give_known_statistics() {
        let s = Statistics::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((s.n, s.mean, s.median, s.min, s.max), (8, Some(5.0), Some(4.5), Some(2.0), Some(9.0)));
        assert!((s.stddev.unwrap() - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn one_value_has_no_deviation_and_no_value_has_nothing() {
        assert_eq!(Statistics::of(&[3.0]).stddev, None);
        assert_eq!(Statistics::of(&[3.0]).mean, Some(3.0));
        assert_eq!(Statistics::of(&[]), Statistics::default());
    }

    #[test]
    fn a_missing_value_takes_the_mean_away() {
        let s = Statistics::of_all(&[Some(1.0), None, Some(3.0)]);
        assert_eq!((s.n, s.mean, s.min), (2, None, None));
    }

    #[test]
    fn outliers_are_far_from_the_others() {
        for (values, expected) in [
            (vec![10.0, 11.0, 10.5, 9.5, 10.2, 50.0], Some(1)),
            (vec![10.0, 11.0, 10.5, 9.5, 10.2, 10.9], Some(0)),
            (vec![5.0; 10], Some(0)),
            (vec![1.0, 1.1, 100.0, 1.2], None),
            ([vec![5.0; 30], vec![6.0]].concat(), Some(1)),
        ] {
            assert_eq!(Statistics::of(&values).outliers, expected, "{values:?}");
        }
    }

    #[test]
    fn the_interval_of_the_median_is_that_of_printed_tables() {
        // The ranks of the ends, as in the tables of most textbooks.
        for (n, rank) in
            [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (50, 18), (100, 40), (5000, 2431)]
        {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let expected = Some((f64::from(rank), f64::from(n + 1 - rank)));
            assert_eq!(Statistics::of(&values).median_interval, expected, "{n}");
        }
        assert_eq!(Statistics::of(&[1.0; 5]).median_interval, None);
        assert_eq!(Statistics::of(&[]).median_interval, None);
    }

    proptest! {
        #[test]
        fn mean_and_median_lie_between_the_extremes(
            values in proptest::collection::vec(-1e15f64..1e15, 1..50),
        ) {
            let s = Statistics::of(&values);
            let (min, max) = (s.min.unwrap(), s.max.unwrap());
            prop_assert!(min <= s.mean.unwrap() && s.mean.unwrap() <= max);
            prop_assert!(min <= s.median.unwrap() && s.median.unwrap() <= max);
            prop_assert!(s.stddev.is_none_or(|stddev| stddev >= 0.0 && stddev <= max - min + 1e-6));
            prop_assert!(s.outliers.is_none_or(|outliers| outliers * 2 <= s.n));
        }

        #[test]
        fn the_order_of_runs_does_not_matter(values in proptest::collection::vec(0f64..1e12, 0..30)) {
            let mut reversed = values.clone();
            reversed.reverse();
            prop_assert_eq!(Statistics::of(&values), Statistics::of(&reversed));
        }
    }
}
