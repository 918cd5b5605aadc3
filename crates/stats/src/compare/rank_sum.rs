//! The exact rank-sum distribution, for two samples without pairs, such as a run of today and a baseline.

use super::signed_rank::{LEVEL, PairedEstimate, ends, median};
use crate::statistics::NORMAL;

/// The greatest product of both numbers of values for which the exact distribution is computed. Beyond it the
/// normal approximation agrees to three digits.
const MOST_EXACT: usize = 2_500;

/// Estimates the shift from `a` to `b`: the median of all differences between a value of one and a value of
/// the other. The exact interval and the two-sided probability of ranks at least as extreme come with it.
/// `None` if one sample is empty.
///
/// Ties count against a change, as with pairs.
///
/// # Source
///
/// H. B. Mann, D. R. Whitney, "On a Test of Whether one of Two Random Variables is Stochastically Larger than
/// the Other", 1947; J. L. Hodges, E. L. Lehmann, "Estimates of Location Based on Rank Tests", 1963.
pub fn shift(a: &[f64], b: &[f64]) -> Option<PairedEstimate> {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_by(f64::total_cmp);
    let estimate = median(&differences)?;
    let table = RankSum::of(a.len(), b.len());
    let interval = table.cut().map(|cut| ends(&differences, cut));
    let not_above = differences.partition_point(|difference| *difference <= 0.0);
    let not_below = differences.len() - differences.partition_point(|difference| *difference < 0.0);
    let p = interval.map(|_| (2.0 * table.at_most(not_above.min(not_below))).min(1.0));
    Some(PairedEstimate { estimate, interval, p })
}

/// The distribution of the number of positive differences, if both samples come from one population.
enum RankSum {
    Exact(Vec<f64>),
    Normal { mean: f64, deviation: f64 },
}

impl RankSum {
    fn of(m: usize, n: usize) -> RankSum {
        if m * n > MOST_EXACT {
            let product = m as f64 * n as f64;
            let deviation = (product * (m + n + 1) as f64 / 12.0).sqrt();
            return RankSum::Normal { mean: product / 2.0, deviation };
        }
        let mut total = 0.0;
        let chances = chances(m, n).into_iter().map(|chance| {
            total += chance;
            f64::min(total, 1.0)
        });
        RankSum::Exact(chances.collect())
    }

    fn at_most(&self, statistic: usize) -> f64 {
        match self {
            RankSum::Exact(chances) => chances.get(statistic).copied().unwrap_or(1.0),
            RankSum::Normal { mean, deviation } => normal((statistic as f64 + 0.5 - mean) / deviation),
        }
    }

    /// The index of the ends of the interval at [`LEVEL`] among the ordered differences; `None` where the
    /// samples are too small for this level.
    fn cut(&self) -> Option<usize> {
        let outside = (1.0 - LEVEL) / 2.0;
        match self {
            RankSum::Exact(chances) => {
                chances.iter().take_while(|chance| **chance <= outside).count().checked_sub(1)
            }
            RankSum::Normal { mean, deviation } => Some((mean - NORMAL * deviation - 0.5).floor() as usize),
        }
    }
}

/// The probability of every number of positive differences, by recursion over the greatest of all values.
/// That value is of `b` with probability n / (m + n), and is then above all values of `a`.
fn chances(m: usize, n: usize) -> Vec<f64> {
    // The distributions for this many values of `a` and, by index, of `b`.
    let mut row: Vec<Vec<f64>> = vec![vec![1.0]; n + 1];
    for of_a in 1..=m {
        let mut next: Vec<Vec<f64>> = vec![vec![1.0]];
        for of_b in 1..=n {
            let (a_last, b_last) = (&row[of_b], &next[of_b - 1]);
            let share = of_b as f64 / (of_a + of_b) as f64;
            let mut chance = vec![0.0; of_a * of_b + 1];
            a_last.iter().enumerate().for_each(|(sum, other)| chance[sum] += other * (1.0 - share));
            b_last.iter().enumerate().for_each(|(sum, other)| chance[sum + of_a] += other * share);
            next.push(chance);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

/// The normal distribution function.
fn normal(z: f64) -> f64 {
    libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distribution by enumeration of every choice of ranks for `b`.
    fn enumerated(m: usize, n: usize) -> Vec<f64> {
        let mut counts = vec![0.0; m * n + 1];
        let chosen = (0u32..1 << (m + n)).filter(|set| set.count_ones() as usize == n);
        let mut all = 0.0;
        for of_b in chosen {
            let mut sum = 0;
            for rank in (0..m + n).filter(|rank| of_b >> rank & 1 == 1) {
                sum += (0..rank).filter(|below| of_b >> below & 1 == 0).count();
            }
            counts[sum] += 1.0;
            all += 1.0;
        }
        counts.into_iter().map(|count| count / all).collect()
    }

    #[test]
    fn the_distribution_is_that_of_enumeration() {
        for (m, n) in [(1, 1), (1, 5), (2, 3), (4, 4), (5, 7), (8, 3), (8, 8)] {
            let (found, expected) = (chances(m, n), enumerated(m, n));
            assert_eq!(found.len(), expected.len());
            let distance = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(distance < 1e-12, "{m} {n}: {distance}");
        }
    }

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        // Two-sided 5 %: the greatest U that rejects.
        for (m, n, critical) in [(4, 4, 0), (5, 5, 2), (8, 10, 17), (10, 10, 23), (20, 20, 127)] {
            assert_eq!(RankSum::of(m, n).cut(), Some(critical), "{m} {n}");
        }
        assert_eq!(RankSum::of(3, 3).cut(), None);
        assert_eq!(RankSum::of(1, 20).cut(), None, "one value says nothing of its spread");
    }

    #[test]
    fn the_normal_distribution_is_that_of_printed_tables() {
        for (z, chance) in
            [(0.0, 0.5), (NORMAL, 0.975), (-1.0, 0.158_655_253_931_457), (-6.0, 9.865_876_45e-10)]
        {
            assert!((normal(z) - chance).abs() < 1e-9 * chance, "{z}: {}", normal(z));
        }
    }

    #[test]
    fn the_normal_one_goes_on_where_the_exact_one_ends() {
        let exact = RankSum::of(50, 50);
        let RankSum::Exact(chances) = &exact else { panic!("2,500 are exact") };
        let deviation = (2_500.0 * 101.0 / 12.0f64).sqrt();
        let close = RankSum::Normal { mean: 1_250.0, deviation };
        for u in [900, 1_000, 1_249, 1_400] {
            assert!((chances[u] - close.at_most(u)).abs() < 1e-3, "{u}");
        }
        assert!(exact.cut().unwrap().abs_diff(close.cut().unwrap()) <= 1);
        assert!(matches!(RankSum::of(100, 100), RankSum::Normal { .. }));
    }

    #[test]
    fn a_shift_is_found_and_equal_samples_have_none() {
        let a: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let b: Vec<f64> = a.iter().map(|a| a + 50.0).collect();
        let found = shift(&a, &b).unwrap();
        assert_eq!(found.estimate, 50.0);
        assert!(found.p.unwrap() < 1e-4);
        assert_eq!(shift(&a, &a).unwrap().p, Some(1.0));
        assert_eq!(shift(&[], &a), None);
        assert_eq!(shift(&[1.0], &[2.0]).unwrap().interval, None);
    }
}
