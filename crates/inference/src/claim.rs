//! Claims: does an event count what its label says?
//!
//! A claim is a choice of sums, as a label may mean several things. A sum is refuted by slopes beyond the
//! tolerance that inference has for hypotheses. A claim is confirmed only where nothing else explains the
//! slopes; everything in between stays undecided.

use std::fmt;

use cyclometer_core::Concept;
use cyclometer_core::concept::Nature;

use crate::hypothesis::{Errors, EventSlopes, Hypothesis, Prediction, tolerance};
use crate::inference::Inference;
use crate::signature::EventSignature;
use crate::slope::SlopeShape;
use crate::sum::ConceptSum;
use crate::table::{KernelIndex, KernelRole};
use crate::verdict::{Ambiguity, Doubt, Identification, Irregularity, Judgement};

/// The difference of two predictions, as a share, that is rounding.
const ROUNDING: f64 = 1e-9;

/// One meaning of a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClaimedCount {
    /// The event counts this sum.
    Sum(ConceptSum),
    /// The event counts some of this sum and not all of it, although kernels do both.
    Part(ConceptSum),
}

/// The comparison of a claim with the slopes of its event.
#[derive(Clone, PartialEq, Debug)]
pub enum ClaimFinding {
    /// The event counts what is claimed, and nothing else explains its slopes.
    Agrees,
    /// The event does not count what is claimed.
    Disagrees(ClaimRefutation),
    /// The slopes do not decide.
    Undecided(ClaimDoubt),
}

/// The reason why a claim is wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ClaimRefutation {
    /// The slope of a kernel is not the one that the claim predicts.
    Slope {
        /// The kernel in which they differ most.
        kernel: KernelIndex,
        /// The predicted events per iteration, of the meaning that fits best.
        predicted: f64,
        /// The measured ones.
        measured: f64,
    },
    /// The claim is a part, and the event counts the whole.
    Whole,
}

/// The reason why a claim stays undecided.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum ClaimDoubt {
    /// The claim names no concept.
    NoConcept,
    /// No kernel moves the event, nor anything that is claimed.
    NotMoved,
    /// Kernels may have any number of this concept, so that nothing is predicted.
    NotPredicted(Concept),
    /// The claim is a part, and the slopes are no more than the whole.
    PartOnly,
    /// The claim fits, and so does this sum.
    FitsToo(ConceptSum),
    /// The claim fits, and is the only sum that does; but not for certain.
    NotCertain(Doubt),
    /// The claim is within tolerance, and no sum was found that explains the event.
    WithinTolerance,
    /// The claim fits, and the event is in proportion to cycles, which no kernel foretells exactly.
    CyclesOnly,
    /// The measurement says too little: noise, or too few sizes.
    Inconclusive,
}

/// The comparison of one meaning.
enum MeaningFit {
    Refuted(ClaimRefutation, f64),
    Fits,
    Open(ClaimDoubt),
}

impl Inference<'_> {
    /// Compares the verdict on an event with the meanings of its label.
    pub fn check_claim(&self, judgement: &Judgement, meanings: &[ClaimedCount]) -> ClaimFinding {
        if meanings.is_empty() {
            return ClaimFinding::Undecided(ClaimDoubt::NoConcept);
        }
        if matches!(&judgement.verdict, Identification::Irregular(why) if why.is_inconclusive()) {
            return ClaimFinding::Undecided(ClaimDoubt::Inconclusive);
        }
        let mut closest: Option<(ClaimRefutation, f64)> = None;
        let mut doubt = None;
        let mut fits = false;
        for meaning in meanings {
            match self.compare(&judgement.signature, meaning) {
                MeaningFit::Fits => fits = true,
                MeaningFit::Open(open) => doubt = doubt.or(Some(open)),
                MeaningFit::Refuted(why, excess) if closest.is_none_or(|(_, least)| excess < least) => {
                    closest = Some((why, excess));
                }
                MeaningFit::Refuted(..) => {}
            }
        }
        match (fits, doubt, closest) {
            (true, ..) => self.confirm(&judgement.verdict, meanings),
            (false, Some(doubt), _) => ClaimFinding::Undecided(doubt),
            (false, None, Some((why, _))) => ClaimFinding::Disagrees(why),
            (false, None, None) => ClaimFinding::Undecided(ClaimDoubt::NoConcept),
        }
    }

    /// The finding on a claim that no slope refutes.
    fn confirm(&self, verdict: &Identification, meanings: &[ClaimedCount]) -> ClaimFinding {
        let claimed = |hypothesis: &Hypothesis| {
            meanings.iter().any(|meaning| match meaning {
                ClaimedCount::Sum(sum) => self.same_slopes(sum, &hypothesis.sum),
                ClaimedCount::Part(_) => false,
            })
        };
        let other = |hypotheses: &[Hypothesis]| hypotheses.iter().find(|one| !claimed(one)).cloned();
        let doubt = match verdict {
            Identification::Identified(hypothesis) if claimed(hypothesis) => return ClaimFinding::Agrees,
            Identification::Identified(hypothesis) => ClaimDoubt::FitsToo(hypothesis.sum.clone()),
            Identification::Ambiguous(Ambiguity { hypotheses, not_listed, doubts, .. }) => {
                match (other(hypotheses), not_listed, doubts.first()) {
                    (Some(other), ..) => ClaimDoubt::FitsToo(other.sum),
                    (None, 0, None) => return ClaimFinding::Agrees,
                    (None, _, Some(doubt)) => ClaimDoubt::NotCertain(doubt.clone()),
                    (None, _, None) => ClaimDoubt::NotCertain(Doubt::SearchIncomplete),
                }
            }
            Identification::NoSignal => ClaimDoubt::NotMoved,
            Identification::Irregular(Irregularity::CycleLike { .. }) => ClaimDoubt::CyclesOnly,
            Identification::Unexplained(_) | Identification::Irregular(_) => ClaimDoubt::WithinTolerance,
        };
        ClaimFinding::Undecided(doubt)
    }

    fn compare(&self, signature: &EventSignature, meaning: &ClaimedCount) -> MeaningFit {
        let (ClaimedCount::Sum(sum) | ClaimedCount::Part(sum)) = meaning;
        if let Some(concept) = sum.concepts().find(|concept| self.is_not_predicted(*concept)) {
            return MeaningFit::Open(ClaimDoubt::NotPredicted(concept));
        }
        let slopes = EventSlopes::new(self.vocabulary(), signature);
        match meaning {
            ClaimedCount::Sum(sum) => self.compare_sum(signature, &slopes, sum),
            ClaimedCount::Part(whole) => self.compare_part(signature, &slopes, whole),
        }
    }

    fn compare_sum(&self, signature: &EventSignature, slopes: &EventSlopes, sum: &ConceptSum) -> MeaningFit {
        let mut errors = [Errors::default(), Errors::default()];
        let mut worst = (f64::NEG_INFINITY, None);
        for (kernel, slope, half_width, prediction) in self.predictions(signature, slopes, sum) {
            let held_out = self.table().kernel(kernel).role == KernelRole::HeldOut;
            errors[usize::from(held_out)].add(slope, half_width, prediction);
            let excess = prediction.error(slope) / (half_width + prediction.tolerance());
            if excess > worst.0 {
                let why = ClaimRefutation::Slope { kernel, predicted: prediction.events, measured: slope };
                worst = (excess, Some(why));
            }
        }
        match worst {
            (excess, Some(why)) if !errors.iter().all(Errors::within_tolerance) => {
                MeaningFit::Refuted(why, excess)
            }
            _ => MeaningFit::Fits,
        }
    }

    /// A part is refuted by the whole, and by more than that.
    fn compare_part(
        &self,
        signature: &EventSignature,
        slopes: &EventSlopes,
        whole: &ConceptSum,
    ) -> MeaningFit {
        let moved = signature.responding().next().is_some();
        if let (true, MeaningFit::Fits) = (moved, self.compare_sum(signature, slopes, whole)) {
            return MeaningFit::Refuted(ClaimRefutation::Whole, 0.0);
        }
        let above = |(kernel, slope, half_width, prediction): (KernelIndex, f64, f64, Prediction)| {
            let excess = (slope - prediction.events) / (half_width + prediction.tolerance());
            let why = ClaimRefutation::Slope { kernel, predicted: prediction.events, measured: slope };
            (excess > 2.0 && !prediction.open).then_some((excess, why))
        };
        let more = self.predictions(signature, slopes, whole).filter_map(above);
        match more.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((excess, why)) => MeaningFit::Refuted(why, excess),
            None => MeaningFit::Open(ClaimDoubt::PartOnly),
        }
    }

    /// Slope, half-width and prediction of each kernel that was measured, and whose count is proportional.
    fn predictions<'s>(
        &'s self,
        signature: &'s EventSignature,
        slopes: &'s EventSlopes,
        sum: &'s ConceptSum,
    ) -> impl Iterator<Item = (KernelIndex, f64, f64, Prediction)> + 's {
        let leak = if sum.concepts().any(|one| tolerance(one) > 0.0) { slopes.leak() } else { 0.0 };
        (0..self.table().kernels().len()).map(KernelIndex).filter_map(move |kernel| {
            let shape = signature.slope(kernel)?.shape;
            let (slope, half_width) = slopes.slope(kernel.0)?;
            let proportional = matches!(shape, SlopeShape::Linear | SlopeShape::Untested);
            let prediction = Prediction::of(self.table(), sum, kernel);
            proportional.then_some((kernel, slope, half_width + leak, prediction))
        })
    }

    /// Whether no kernel says anything of a concept: a duration, or interrupts, which come by themselves,
    /// and no kernel has a number of it.
    fn is_not_predicted(&self, concept: Concept) -> bool {
        let comes_by_itself = concept.nature() == Nature::Duration || concept == Concept::Interrupts;
        comes_by_itself && self.table().column(concept).iter().all(|number| *number == 0.0)
    }

    /// Whether two sums predict the same for every kernel.
    fn same_slopes(&self, one: &ConceptSum, other: &ConceptSum) -> bool {
        let same = |kernel| {
            let [a, b] = [one, other].map(|sum| Prediction::of(self.table(), sum, kernel));
            let rounding = ROUNDING * a.events.max(b.events);
            !a.open && !b.open && (a.events - b.events).abs() <= rounding
        };
        one == other || (0..self.table().kernels().len()).map(KernelIndex).all(same)
    }
}

impl fmt::Display for ClaimDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimDoubt::NoConcept => f.write_str("no concept for the label"),
            ClaimDoubt::NotMoved => f.write_str("no kernel moves the event or what the label says"),
            ClaimDoubt::NotPredicted(concept) => write!(f, "no kernel has a known number of {concept}"),
            ClaimDoubt::PartOnly => f.write_str("the label is a part of that; no kernel shows which part"),
            ClaimDoubt::FitsToo(sum) => write!(f, "the label fits, and so does {sum}"),
            ClaimDoubt::NotCertain(doubt) => write!(f, "the label fits; {doubt}"),
            ClaimDoubt::WithinTolerance => {
                f.write_str("the label is within tolerance, but no sum explains it")
            }
            ClaimDoubt::CyclesOnly => f.write_str("the label fits, as other kinds of cycles may"),
            ClaimDoubt::Inconclusive => f.write_str("the counts differ too much between repeats"),
        }
    }
}

#[cfg(test)]
mod tests {
    use cyclometer_core::CounterId;

    use super::*;
    use crate::observation::{CounterObservations, EventObservations, Observation};
    use crate::sum::TermWeight;
    use crate::table::{KernelTable, TableKernel};

    /// Kernels with loads, stores and misses per iteration; misses of the last one are an estimate.
    const KERNELS: [(&str, [f64; 3]); 8] = [
        ("nops", [0.0, 0.0, 0.0]),
        ("loads", [2.0, 0.0, 0.0]),
        ("more_loads", [5.0, 0.0, 0.0]),
        ("stores", [0.0, 3.0, 0.0]),
        ("more_stores", [0.0, 7.0, 0.0]),
        ("misses", [4.0, 0.0, 1.0]),
        ("more_misses", [4.0, 0.0, 4.0]),
        ("both", [1.0, 1.0, 0.0]),
    ];
    const CONCEPTS: [Concept; 3] = [Concept::Loads, Concept::Stores, Concept::L1dLoadMisses];

    fn table() -> KernelTable {
        let kernel = |(index, (name, numbers)): (usize, &(&str, [f64; 3]))| TableKernel {
            name: (*name).to_owned(),
            family: "memory".to_owned(),
            role: if index == 7 { KernelRole::HeldOut } else { KernelRole::Fitting },
            per_iteration: CONCEPTS.into_iter().zip(*numbers).collect(),
            estimates: if index == 7 { vec![Concept::L1dLoadMisses] } else { Vec::new() },
        };
        KernelTable::new(KERNELS.iter().enumerate().map(kernel).collect()).unwrap()
    }

    fn sum(concepts: &[Concept]) -> ClaimedCount {
        ClaimedCount::Sum(concept_sum(concepts))
    }

    fn concept_sum(concepts: &[Concept]) -> ConceptSum {
        ConceptSum::new(concepts.iter().map(|one| (*one, TermWeight::One)).collect())
    }

    /// The finding on an event with these slopes.
    fn finding(slopes: [f64; 8], meanings: &[ClaimedCount]) -> ClaimFinding {
        let table = table();
        let observation = |(kernel, slope): (usize, &f64), iterations: u64| Observation {
            kernel: KernelIndex(kernel),
            iterations,
            counts: vec![(slope * iterations as f64) as u64; 3],
            interrupts: vec![],
        };
        let sizes = [1001, 2002, 4004, 8008];
        let observations = sizes.iter().flat_map(|size| {
            slopes.iter().enumerate().map(|one| observation(one, *size)).collect::<Vec<_>>()
        });
        let counters = vec![CounterObservations {
            counter: Some(CounterId::General(0)),
            observations: observations.collect(),
        }];
        let inference = Inference::new(&table);
        let judgement = inference.judge(&EventObservations { event: "0x1".into(), counters }).unwrap();
        inference.check_claim(&judgement, meanings)
    }

    fn slopes_of(concept: usize) -> [f64; 8] {
        std::array::from_fn(|kernel| KERNELS[kernel].1[concept])
    }

    #[test]
    fn an_identified_event_agrees_with_one_of_several_meanings() {
        let meanings = [sum(&[Concept::Stores]), sum(&[Concept::Loads])];
        assert_eq!(finding(slopes_of(0), &meanings), ClaimFinding::Agrees);
    }

    #[test]
    fn another_sum_disagrees_and_the_kernel_says_why() {
        let found = finding(slopes_of(1), &[sum(&[Concept::Loads, Concept::Stores])]);
        let ClaimFinding::Disagrees(ClaimRefutation::Slope { kernel, predicted, measured }) = found else {
            panic!("{found:?}")
        };
        assert_eq!((kernel, predicted, measured), (KernelIndex(2), 5.0, 0.0));
    }

    #[test]
    fn a_dead_event_disagrees_if_a_kernel_moves_what_it_claims() {
        let found = finding([0.0; 8], &[sum(&[Concept::L1dLoadMisses])]);
        assert!(matches!(found, ClaimFinding::Disagrees(_)), "{found:?}");
        let found = finding([0.0; 8], &[sum(&[Concept::Barriers])]);
        assert_eq!(found, ClaimFinding::Undecided(ClaimDoubt::NotMoved));
        // One meaning that nothing moves keeps the others from being a refutation.
        let found = finding([0.0; 8], &[sum(&[Concept::Loads]), sum(&[Concept::Barriers])]);
        assert_eq!(found, ClaimFinding::Undecided(ClaimDoubt::NotMoved));
    }

    #[test]
    fn cycles_that_were_not_measured_and_interrupts_predict_nothing() {
        for concept in [Concept::StallCycles, Concept::Interrupts] {
            let found = finding(slopes_of(0), &[sum(&[concept])]);
            assert_eq!(found, ClaimFinding::Undecided(ClaimDoubt::NotPredicted(concept)));
        }
    }

    #[test]
    fn tolerance_of_misses_is_that_of_inference() {
        let nearly = slopes_of(2).map(|slope| slope * 1.04);
        let found = finding(nearly, &[sum(&[Concept::L1dLoadMisses])]);
        assert!(!matches!(found, ClaimFinding::Disagrees(_)), "{found:?}");
        let wrong = slopes_of(2).map(|slope| slope * 1.3);
        let found = finding(wrong, &[sum(&[Concept::L1dLoadMisses])]);
        assert!(matches!(found, ClaimFinding::Disagrees(_)), "{found:?}");
        // Loads are retired instructions: 4 % more are others.
        let found = finding(slopes_of(0).map(|slope| slope * 1.04), &[sum(&[Concept::Loads])]);
        assert!(matches!(found, ClaimFinding::Disagrees(_)), "{found:?}");
    }

    #[test]
    fn a_part_is_refuted_by_the_whole_and_by_more_and_never_confirmed() {
        let part = [ClaimedCount::Part(concept_sum(&[Concept::Loads]))];
        let whole = finding(slopes_of(0), &part);
        assert_eq!(whole, ClaimFinding::Disagrees(ClaimRefutation::Whole));
        let more = finding(slopes_of(1), &part);
        assert!(matches!(more, ClaimFinding::Disagrees(ClaimRefutation::Slope { .. })), "{more:?}");
        let open = ClaimFinding::Undecided(ClaimDoubt::PartOnly);
        assert_eq!(finding(slopes_of(2), &part), open);
        assert_eq!(finding([0.0; 8], &part), open);
    }

    #[test]
    fn a_label_without_concept_is_undecided() {
        assert_eq!(finding(slopes_of(0), &[]), ClaimFinding::Undecided(ClaimDoubt::NoConcept));
    }
}
