//! Finding events by a threshold: the method of a published framework, for comparison.
//!
//! A *real* code triggers the wanted event once in each of a number of runs, a *fake* code does the same work
//! without it. Every event id is counted once during each. An id is noise if the fake code moves it on any
//! counter, and a hit if the real code moves it about as often as it runs on any counter. There are no
//! repeats, sizes or weights, and an id that counts the instruction is a hit as well as one that counts its
//! miss, because the fake code leaves the instruction out.
//!
//! # Source
//!
//! ChuhengZhou/M1_PMU_Experiments, `TEST_TIME` and `DEVIATION`.

/// The two numbers by which ids are judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThresholdRule {
    /// The number of times that each code runs (`TEST_TIME`).
    pub runs: u64,
    /// Events by which a count may differ from the expected one (`DEVIATION`): 0 of them for the fake code,
    /// one in each run for the real one.
    pub deviation: u64,
}

/// The counts of one id on all counters, in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThresholdCounts<'a> {
    /// Counts during the fake code.
    pub fake: &'a [u64],
    /// Counts during the real code.
    pub real: &'a [u64],
}

/// The answer for one id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThresholdAnswer {
    /// The fake code moves it on this counter, by number in the list.
    Noise(usize),
    /// The real code moves it as often as it runs on this counter, the first of them.
    Hit(usize),
    /// Neither.
    Miss,
}

impl ThresholdRule {
    /// The answer for one id.
    pub fn answer(self, counts: ThresholdCounts<'_>) -> ThresholdAnswer {
        let noise = counts.fake.iter().position(|&count| count > self.deviation);
        let hit = counts.real.iter().position(|&count| count.abs_diff(self.runs) <= self.deviation);
        match (noise, hit) {
            (Some(counter), _) => ThresholdAnswer::Noise(counter),
            (None, Some(counter)) => ThresholdAnswer::Hit(counter),
            (None, None) => ThresholdAnswer::Miss,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: ThresholdRule = ThresholdRule { runs: 1_000_000, deviation: 1000 };

    fn check(fake: &[u64], real: &[u64], expected: ThresholdAnswer) {
        assert_eq!(RULE.answer(ThresholdCounts { fake, real }), expected);
    }

    #[test]
    fn ids_are_noise_hits_or_misses() {
        check(&[0, 0], &[0, 1_000_900], ThresholdAnswer::Hit(1));
        check(&[0, 1000], &[999_000, 0], ThresholdAnswer::Hit(0));
        check(&[0, 1001], &[1_000_000, 0], ThresholdAnswer::Noise(1));
        check(&[0, 0], &[998_999, 1_001_001], ThresholdAnswer::Miss);
        check(&[], &[], ThresholdAnswer::Miss);
    }

    #[test]
    fn an_event_that_counts_the_instruction_is_a_hit_too() {
        let (loads, misses) = ([1_000_003], [1_000_020]);
        check(&[0], &loads, ThresholdAnswer::Hit(0));
        check(&[12], &misses, ThresholdAnswer::Hit(0));
    }
}
