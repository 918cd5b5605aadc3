//! Tests of many metrics at once, and drift.

/// Adjusts probabilities by Benjamini and Hochberg, in the given order: the smallest rate of false
/// discoveries at which each one would count as a discovery.
///
/// # Source
///
/// Y. Benjamini, Y. Hochberg, "Controlling the False Discovery Rate", Journal of the Royal Statistical
/// Society B 57, 1995.
pub fn false_discovery_rates(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    let mut rates = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (i, place) in order.into_iter().enumerate() {
        let rank = p.len() - i;
        least = least.min(p[place] * p.len() as f64 / rank as f64);
        rates[place] = least;
    }
    rates
}

/// Spearman's rank correlation of values with their order, −1 to 1; `None` below three values, or where all
/// are equal.
///
/// Equal values have the mean of their ranks.
pub fn drift(values: &[f64]) -> Option<f64> {
    if values.len() < 3 {
        return None;
    }
    let ranks = ranks(values);
    let middle = (values.len() as f64 - 1.0) / 2.0;
    let (mut together, mut own, mut order) = (0.0, 0.0, 0.0);
    for (i, rank) in ranks.iter().enumerate() {
        let (x, y) = (i as f64 - middle, rank - middle);
        together += x * y;
        order += x * x;
        own += y * y;
    }
    (own > 0.0).then(|| together / (own * order).sqrt())
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |value: &f64| {
        let below = sorted.partition_point(|other| other < value);
        let not_above = sorted.partition_point(|other| other <= value);
        (below + not_above - 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_those_of_the_procedure() {
        let rates = false_discovery_rates(&[0.01, 0.04, 0.03, 0.005, 0.9]);
        for (found, expected) in rates.iter().zip([0.025, 0.05, 0.05, 0.025, 0.9]) {
            assert!((found - expected).abs() < 1e-12, "{rates:?}");
        }
        assert_eq!(false_discovery_rates(&[]), [0.0; 0]);
        assert_eq!(false_discovery_rates(&[0.3]), [0.3]);
    }

    #[test]
    fn drift_is_seen_in_either_direction() {
        assert_eq!(drift(&[1.0, 2.0, 3.0, 50.0]), Some(1.0));
        assert_eq!(drift(&[9.0, 7.0, 1.0]), Some(-1.0));
        assert_eq!(drift(&[5.0; 8]), None);
        assert_eq!(drift(&[1.0, 2.0]), None);
        assert!(drift(&[1.0, 3.0, 2.0, 1.0, 3.0, 2.0]).unwrap().abs() < 0.5);
    }

    proptest! {
        #[test]
        fn a_rate_is_never_below_its_probability_and_keeps_the_order(
            p in proptest::collection::vec(0f64..=1.0, 0..30),
        ) {
            let rates = false_discovery_rates(&p);
            for (i, rate) in rates.iter().enumerate() {
                prop_assert!(*rate >= p[i] - 1e-12 && *rate <= 1.0);
                prop_assert!(rates.iter().zip(&p).all(|(other, q)| *q < p[i] || other >= rate));
            }
        }

        #[test]
        fn drift_is_a_correlation(values in proptest::collection::vec(-10i32..10, 3..40)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!(drift(&values).is_none_or(|rho| (-1.0..=1.0 + 1e-12).contains(&rho.max(-1.0))));
        }
    }
}
