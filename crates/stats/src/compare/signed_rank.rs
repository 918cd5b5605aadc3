//! The exact distribution of Wilcoxon's signed-rank statistic, and estimates for paired differences from it.

/// Fewest pairs that allow a statement at 95 %: with five pairs, even the most extreme case has a probability
/// of 2 / 32.
pub const LEAST_PAIRS: usize = 6;

/// Most pairs for which the exact distribution is computed.
pub const MOST_PAIRS: usize = 1000;

/// Level of the intervals.
pub const LEVEL: f64 = 0.95;

/// The distribution of the signed-rank statistic under "differences are symmetric about zero".
///
/// The statistic is the number of positive Walsh averages, which is the sum of the ranks of the positive
/// differences.
///
/// # Source
///
/// F. Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1, 1945; J. W. Tukey, "The
/// Simplest Signed-Rank Tests", 1949, for the Walsh averages.
#[derive(Clone, PartialEq, Debug)]
pub struct SignedRank {
    pairs: usize,
    /// The probability that the statistic is at most the index.
    at_most: Vec<f64>,
}

impl SignedRank {
    /// The distribution for this many pairs, at most [`MOST_PAIRS`].
    pub fn of(pairs: usize) -> SignedRank {
        let pairs = pairs.min(MOST_PAIRS);
        let greatest = pairs * (pairs + 1) / 2;
        let mut chance = vec![0.0; greatest + 1];
        chance[0] = 1.0;
        let mut reached = 0;
        for rank in 1..=pairs {
            reached += rank;
            // The difference of this rank is positive with probability 1/2, and then adds its rank.
            for sum in (0..=reached).rev() {
                let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
                chance[sum] = (chance[sum] + with) / 2.0;
            }
        }
        let mut total = 0.0;
        let sums = chance.into_iter().map(|chance| {
            total += chance;
            f64::min(total, 1.0)
        });
        SignedRank { pairs, at_most: sums.collect() }
    }

    /// The probability that the statistic is at most `statistic`.
    pub fn at_most(&self, statistic: usize) -> f64 {
        self.at_most.get(statistic).copied().unwrap_or(1.0)
    }

    /// The number of ordered Walsh averages at each end that lie outside of the interval at [`LEVEL`], less
    /// one. The interval's ends have this index from below and from above. `None` below [`LEAST_PAIRS`].
    fn cut(&self) -> Option<usize> {
        let outside = (1.0 - LEVEL) / 2.0;
        self.at_most.iter().take_while(|chance| **chance <= outside).count().checked_sub(1)
    }
}

/// The estimates from paired differences.
#[derive(Clone, PartialEq, Debug)]
pub struct PairedEstimate {
    /// The Hodges–Lehmann estimate: the median of the Walsh averages.
    pub estimate: f64,
    /// The interval at [`LEVEL`]; `None` below [`LEAST_PAIRS`].
    pub interval: Option<(f64, f64)>,
    /// The two-sided probability of differences at least as extreme, if there were none in truth; `None`
    /// below [`LEAST_PAIRS`].
    pub p: Option<f64>,
}

/// Estimates the centre of paired differences; `None` without any.
///
/// The interval is closed, and the probability is the smallest level at which the interval excludes zero. So
/// differences and averages that are zero count against a change: with ties the statement is weaker, never
/// stronger, than the level says.
pub fn paired(differences: &[f64], table: &SignedRank) -> Option<PairedEstimate> {
    debug_assert_eq!(differences.len(), table.pairs);
    let walsh = walsh_averages(differences);
    let (estimate, interval) = (median(&walsh)?, table.cut().map(|cut| ends(&walsh, cut)));
    let p = interval.map(|_| two_sided(&walsh, table));
    Some(PairedEstimate { estimate, interval, p })
}

fn two_sided(walsh: &[f64], table: &SignedRank) -> f64 {
    let not_above = walsh.partition_point(|average| *average <= 0.0);
    let not_below = walsh.len() - walsh.partition_point(|average| *average < 0.0);
    (2.0 * table.at_most(not_above.min(not_below))).min(1.0)
}

/// The means of all pairs of values, including each value with itself, in order.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, first) in values.iter().enumerate() {
        averages.extend(values[i..].iter().map(|second| mean_of(*first, *second)));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

/// Bound for the rounding error of a logarithm of a ratio, as a share of the value it was computed from, with
/// a margin.
const ROUNDING: f64 = 1e-12;

/// The mean. Values that cancel except for rounding, such as the logarithms of 2 / 3 and 6 / 4, are a tie.
fn mean_of(a: f64, b: f64) -> f64 {
    let mean = a / 2.0 + b / 2.0;
    if mean.abs() <= ROUNDING * (a.abs() + b.abs()) { 0.0 } else { mean }
}

/// The values at this index from below and from above.
pub(super) fn ends(sorted: &[f64], cut: usize) -> (f64, f64) {
    (sorted[cut], sorted[sorted.len() - 1 - cut])
}

/// The median of ordered values.
pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(middle).copied(),
        _ => Some(sorted.get(middle.checked_sub(1)?)? / 2.0 + sorted.get(middle)? / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The distribution by enumeration of every assignment of signs to the ranks.
    fn enumerated(pairs: usize) -> Vec<f64> {
        let mut counts = vec![0u64; pairs * (pairs + 1) / 2 + 1];
        for signs in 0u32..1 << pairs {
            let sum: usize = (0..pairs).filter(|rank| signs >> rank & 1 == 1).map(|rank| rank + 1).sum();
            counts[sum] += 1;
        }
        let mut total = 0;
        let cumulate = |count: u64| {
            total += count;
            total as f64 / f64::from(1u32 << pairs)
        };
        counts.into_iter().map(cumulate).collect()
    }

    #[test]
    fn the_distribution_is_that_of_enumeration() {
        for pairs in 0..=16 {
            let (table, expected) = (SignedRank::of(pairs), enumerated(pairs));
            assert_eq!(table.at_most.len(), expected.len());
            for (statistic, chance) in expected.iter().enumerate() {
                assert!((table.at_most(statistic) - chance).abs() < 1e-12, "{pairs} {statistic}");
            }
        }
    }

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        // Two-sided 5 %: the greatest statistic that rejects, as in the tables of most textbooks.
        for (pairs, critical) in
            [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
        {
            assert_eq!(SignedRank::of(pairs).cut(), Some(critical), "{pairs} pairs");
        }
        assert_eq!(SignedRank::of(5).cut(), None, "of five pairs there is no statement at 95 %");
        assert_eq!(SignedRank::of(0).cut(), None);
    }

    #[test]
    fn the_largest_table_is_a_distribution() {
        let table = SignedRank::of(MOST_PAIRS);
        let middle = table.at_most.len() / 2;
        assert!((table.at_most[table.at_most.len() - 1] - 1.0).abs() < 1e-9);
        assert!((table.at_most[middle] - 0.5).abs() < 1e-4, "{}", table.at_most[middle]);
        // The normal approximation with continuity: 250,250 ± 1.96 × 9,135.7.
        let cut = table.cut().unwrap();
        assert!((232_340..232_350).contains(&cut), "{cut}");
    }

    fn estimate(differences: &[f64]) -> PairedEstimate {
        paired(differences, &SignedRank::of(differences.len())).unwrap()
    }

    #[test]
    fn six_pairs_of_one_sign_are_just_enough() {
        let six = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!((six.estimate, six.interval), (3.5, Some((1.0, 6.0))));
        assert_eq!(six.p, Some(2.0 / 64.0));
        let five = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((five.estimate, five.interval, five.p), (3.0, None, None));
        assert_eq!(paired(&[], &SignedRank::of(0)), None);
    }

    #[test]
    fn zeros_and_ties_weaken_the_statement() {
        let nothing = estimate(&[0.0; 10]);
        assert_eq!((nothing.interval, nothing.p), (Some((0.0, 0.0)), Some(1.0)));
        let half = estimate(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        assert_eq!(half.p, Some(2.0 * SignedRank::of(8).at_most(6)));
        assert!(half.interval.unwrap().0 <= 0.0);
    }

    #[test]
    fn ratios_that_cancel_are_ties_in_spite_of_rounding() {
        let ratio = |a: f64, b: f64| b.ln() - a.ln();
        let up_and_down = [(2.0, 3.0, 6.0, 4.0), (192.0, 193.0, 386.0, 384.0), (7.0, 11.0, 33.0, 21.0)];
        let mut rounded = 0;
        for (a, b, c, d) in up_and_down {
            let (up, down) = (ratio(a, b), ratio(c, d));
            rounded += usize::from(up + down != 0.0);
            assert_eq!(mean_of(up, down), 0.0, "{a} {b} {c} {d}");
        }
        assert!(rounded > 0, "nothing was rounded");
        assert!(mean_of(0.01, -0.010_000_1) < 0.0);
    }

    proptest! {
        #[test]
        fn the_interval_leaves_zero_out_exactly_where_p_is_below_the_level(
            differences in proptest::collection::vec(-20i32..60, 6..30),
        ) {
            let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
            let PairedEstimate { estimate, interval, p } = estimate(&differences);
            let (low, high) = interval.unwrap();
            prop_assert!(low <= estimate && estimate <= high);
            prop_assert_eq!(low > 0.0 || high < 0.0, p.unwrap() <= 1.0 - LEVEL);
        }

        #[test]
        fn shift_and_sign_carry_over(differences in proptest::collection::vec(-1e3f64..1e3, 6..20)) {
            let plain = estimate(&differences);
            let turned: Vec<f64> = differences.iter().map(|difference| 10.0 - difference).collect();
            let turned = estimate(&turned);
            let ((low, high), (turned_low, turned_high)) = (plain.interval.unwrap(), turned.interval.unwrap());
            prop_assert!((turned.estimate - (10.0 - plain.estimate)).abs() < 1e-9);
            prop_assert!((turned_low - (10.0 - high)).abs() < 1e-9 && (turned_high - (10.0 - low)).abs() < 1e-9);
        }
    }
}
