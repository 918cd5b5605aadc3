//! Negative controls: the frequency of wrong verdicts A.
//!
//! Two controls need no second machine. With *shuffled labels* each kernel gets the known work of another
//! one, so every event that is identified is a false one. With *one family left out* an event is identified
//! by the other kernels, and has to predict those of the family.

use cyclometer_core::Random;

use crate::hypothesis::{MICRO_ARCHITECTURAL_TOLERANCE, Prediction};
use crate::inference::Inference;
use crate::sum::ConceptSum;
use crate::table::{KernelIndex, KernelRole, KernelTable};
use crate::verdict::{Identification, Judgement};

/// Verdicts under shuffled labels.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ShuffledLabels {
    /// Shuffles.
    pub rounds: usize,
    /// Events that were judged, over all rounds: those that respond to some kernel and are regular.
    pub judged: usize,
    /// Events that were identified, all of them by chance: the number of the judgement, and the sum.
    pub identified: Vec<(usize, ConceptSum)>,
}

impl ShuffledLabels {
    /// False identifications in one sweep, on average, as a share of the `identified` events of the true
    /// labels: the empirical false-discovery rate; `None` if nothing was identified.
    pub fn false_discovery_rate(&self, identified: usize) -> Option<f64> {
        let by_chance = self.identified.len() as f64 / self.rounds.max(1) as f64;
        (identified > 0).then(|| (by_chance / identified as f64).min(1.0))
    }
}

/// Judges the events again, `rounds` times, with the known work of a random kernel for each kernel.
pub fn shuffled_labels(
    table: &KernelTable,
    judgements: &[Judgement],
    seed: u64,
    rounds: usize,
) -> ShuffledLabels {
    let mut random = Random::seeded(seed);
    let mut control = ShuffledLabels { rounds, ..ShuffledLabels::default() };
    for _ in 0..rounds {
        let shuffled = table.relabelled(&random.permutation(table.kernels().len()));
        let inference = Inference::new(&shuffled);
        for (number, judgement) in judgements.iter().enumerate().filter(|(_, judgement)| is_live(judgement)) {
            control.judged += 1;
            let again =
                inference.judge_signatures(judgement.event.clone(), vec![judgement.signature.clone()]);
            if let Identification::Identified(hypothesis) = again.verdict {
                control.identified.push((number, hypothesis.sum));
            }
        }
    }
    control
}

fn is_live(judgement: &Judgement) -> bool {
    matches!(judgement.verdict.letter(), 'A' | 'B' | 'C')
}

/// The verdict without one family of kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct FamilyCheck {
    /// The family that was left out.
    pub family: String,
    /// The verdict of the other kernels.
    pub outcome: FamilyOutcome,
}

/// The verdict on an event without one family.
#[derive(Clone, PartialEq, Debug)]
pub enum FamilyOutcome {
    /// The other kernels identify the event.
    Identified {
        /// The sum.
        sum: ConceptSum,
        /// Whether it predicts every kernel of the family that was left out within twice the tolerance.
        predicts: bool,
    },
    /// The other kernels do not identify the event: the letter of the verdict.
    Undecided(char),
}

/// Judges an event once for each family with fitting kernels, without the kernels of that family.
pub fn leave_one_family_out(table: &KernelTable, judgement: &Judgement) -> Vec<FamilyCheck> {
    let fitting = |family: &&str| {
        table.with_role(KernelRole::Fitting).any(|kernel| table.kernel(kernel).family == **family)
    };
    table.families().into_iter().filter(fitting).map(|family| without(table, judgement, family)).collect()
}

fn without(table: &KernelTable, judgement: &Judgement, family: &str) -> FamilyCheck {
    let left_out: Vec<KernelIndex> = (0..table.kernels().len())
        .map(KernelIndex)
        .filter(|kernel| table.kernel(*kernel).family == family)
        .collect();
    let mut signature = judgement.signature.clone();
    for kernel in &left_out {
        signature.slopes[kernel.0] = None;
    }
    // Concepts that only this family moves are unknown without it.
    let rest = table.with_roles(|kernel| match kernel.family == family {
        true => KernelRole::HeldOut,
        false => kernel.role,
    });
    let verdict = rest
        .map(|rest| Inference::new(&rest).judge_signatures(judgement.event.clone(), vec![signature]).verdict);
    let outcome = match verdict {
        Some(Identification::Identified(hypothesis)) => {
            let predicts = left_out.iter().all(|kernel| predicts(table, judgement, &hypothesis.sum, *kernel));
            FamilyOutcome::Identified { sum: hypothesis.sum, predicts }
        }
        Some(verdict) => FamilyOutcome::Undecided(verdict.letter()),
        None => FamilyOutcome::Undecided('C'),
    };
    FamilyCheck { family: family.to_owned(), outcome }
}

fn predicts(table: &KernelTable, judgement: &Judgement, sum: &ConceptSum, kernel: KernelIndex) -> bool {
    let Some(slope) = judgement.signature.slope(kernel) else { return true };
    let prediction = Prediction::of(table, sum, kernel);
    let allowed = 2.0 * (slope.half_width + MICRO_ARCHITECTURAL_TOLERANCE * prediction.nearly);
    prediction.error(slope.value) <= allowed
}

/// The upper end of the one-sided 95 % interval for a probability, after `wrong` of `all` trials were wrong.
/// 0 of 1,000 gives 0.3 %.
///
/// # Source
///
/// C. J. Clopper, E. S. Pearson: The use of confidence or fiducial limits illustrated in the case of the
/// binomial, Biometrika 26 (1934).
pub fn error_bound_95(wrong: usize, all: usize) -> f64 {
    if wrong >= all {
        return 1.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match at_most(wrong, all, middle) > 0.05 {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// The probability of at most `few` of `all` at probability `p` each, 0 < p < 1.
fn at_most(few: usize, all: usize, p: f64) -> f64 {
    let mut log_term = all as f64 * (1.0 - p).ln();
    let mut sum = 0.0;
    for count in 0..=few {
        sum += log_term.exp();
        log_term += ((all - count) as f64 / (count + 1) as f64).ln() + (p / (1.0 - p)).ln();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_clopper_and_pearson() {
        let check = |wrong, all, expected: f64| {
            let bound = error_bound_95(wrong, all);
            assert!((bound - expected).abs() < 5e-5, "{wrong} of {all}: {bound}");
        };
        check(0, 1000, 0.002_99);
        check(0, 1, 0.95);
        check(1, 10, 0.394_16);
        check(5, 100, 0.102_25);
        check(3, 3, 1.0);
        check(0, 0, 1.0);
    }
}
