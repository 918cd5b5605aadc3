//! Random orders from a small generator with a seed, so that an order can be repeated.

/// Pseudorandom numbers, the same for the same seed on every machine. Not for secrets.
///
/// # Source
///
/// G. L. Steele, D. Lea, C. H. Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014
/// (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of `seed`. Any seed is valid, also zero.
    pub fn seeded(seed: u64) -> Random {
        Random { state: seed }
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// One of `0..limit`, each with the same probability to within `limit` / 2⁶⁴; 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.word()) * limit as u128) >> 64) as usize
    }

    /// `0..n` in random order, every order with the same probability (to within that of
    /// [`below`](Self::below)).
    ///
    /// # Source
    ///
    /// R. Durstenfeld: "Algorithm 235: Random permutation", Communications of the ACM 7, 1964.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for last in (1..n).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_those_of_the_published_generator() {
        // The first outputs for the seed 1234567, as in Rosetta Code's task "Pseudo-random
        // numbers/Splitmix64".
        let mut random = Random::seeded(1_234_567);
        assert_eq!(random.word(), 6_457_827_717_110_365_317);
        assert_eq!(random.word(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn every_order_comes_about_equally_often() {
        let mut random = Random::seeded(3);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..24_000 {
            *seen.entry(random.permutation(4)).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Five standard deviations of a binomial distribution with 24,000 draws and p = 1/24.
        assert!(seen.values().all(|times| (845..=1155).contains(times)), "{seen:?}");
    }

    #[test]
    fn nothing_has_one_order_and_no_number_below_it() {
        let mut random = Random::seeded(0);
        assert_eq!(random.permutation(0), []);
        assert_eq!(random.permutation(1), [0]);
        assert_eq!(random.below(0), 0);
        assert_eq!(random.below(1), 0);
    }

    proptest! {
        #[test]
        fn a_permutation_has_each_number_once(seed: u64, n in 0usize..200) {
            let mut order = Random::seeded(seed).permutation(n);
            order.sort_unstable();
            prop_assert_eq!(order, (0..n).collect::<Vec<_>>());
        }

        #[test]
        fn numbers_are_below_the_limit(seed: u64, limit in 1usize..) {
            prop_assert!(Random::seeded(seed).below(limit) < limit);
        }

        #[test]
        fn the_same_seed_gives_the_same_order(seed: u64) {
            prop_assert_eq!(Random::seeded(seed).permutation(20), Random::seeded(seed).permutation(20));
        }
    }
}
