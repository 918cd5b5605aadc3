//! From the observations of one event to its verdict.

use cyclometer_core::Concept;
use cyclometer_core::concept::Nature;

use crate::doubts::doubts;
use crate::hypothesis::{EventSlopes, Hypothesis, Prediction, Vocabulary};
use crate::mask::mask;
use crate::observation::{EventObservations, ObservationError};
use crate::search::{Hypotheses, hypotheses};
use crate::signature::EventSignature;
use crate::slope::{SlopeEstimator, SlopeShape, median};
use crate::sum::ConceptSum;
use crate::table::{KernelIndex, KernelRole, KernelTable};
use crate::verdict::{Ambiguity, Doubt, Identification, Irregularity, Judgement, Response, Split};

/// Typical noise, as a share of slopes, above which nothing is concluded.
const MOST_RELATIVE_NOISE: f64 = 0.15;

/// The share of sizes with unsteady repeats above which nothing is concluded.
const MOST_UNSTEADY: f64 = 0.2;

/// Half-widths of slopes, in events per iteration, above which the absence of a signal is not concluded.
const COARSEST_SILENCE: f64 = 0.05;

/// The relative error up to which slopes are in proportion to measured cycles.
const DURATION_TOLERANCE: f64 = 0.1;

/// Kernels in which an event and cycles have to be in proportion.
const LEAST_DURATION_KERNELS: usize = 5;

/// Judges events by the kernels of a table.
///
/// Judging is a pure function of table and observations.
#[derive(Clone, Debug)]
pub struct Inference<'a> {
    table: &'a KernelTable,
    vocabulary: Vocabulary,
}

impl<'a> Inference<'a> {
    /// Inference with the concepts that the fitting kernels of `table` move.
    pub fn new(table: &'a KernelTable) -> Inference<'a> {
        Inference { table, vocabulary: Vocabulary::new(table) }
    }

    pub(crate) fn table(&self) -> &KernelTable {
        self.table
    }

    pub(crate) fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// The verdict on one event.
    ///
    /// # Errors
    ///
    /// [`ObservationError`] for observations that contradict themselves or the table.
    pub fn judge(&self, event: &EventObservations) -> Result<Judgement, ObservationError> {
        let mut estimator = SlopeEstimator::default();
        let signatures: Vec<EventSignature> = event
            .by_size(self.table)?
            .iter()
            .zip(&event.counters)
            .map(|(by_size, counter)| {
                EventSignature::new(self.table, counter.counter, by_size, &mut estimator)
            })
            .collect();
        Ok(self.judge_signatures(event.event.clone(), signatures))
    }

    /// The verdict on slopes, one signature for each counter; at least one.
    pub(crate) fn judge_signatures(&self, event: String, mut signatures: Vec<EventSignature>) -> Judgement {
        let (mask, representative) = mask(&signatures);
        let signature = signatures.swap_remove(representative);
        let irregularity = irregularity(&signature);
        let verdict = match irregularity {
            Some(irregularity) => Identification::Irregular(irregularity),
            None if signature.responding().next().is_none() => Identification::NoSignal,
            None => self.identify(&signature, mask.is_clear()),
        };
        Judgement {
            event,
            verdict,
            linearity: signature.linearity(),
            stability: signature.stability,
            mask,
            signature,
        }
    }

    fn identify(&self, signature: &EventSignature, mask_is_clear: bool) -> Identification {
        let target = EventSlopes::new(&self.vocabulary, signature);
        let found = hypotheses(&self.vocabulary, &target);
        let duration = self.duration(signature);
        let Some(best) = found.fitting.first() else {
            return match duration {
                Some((concept, factor)) => {
                    Identification::Irregular(Irregularity::CycleLike { concept, factor })
                }
                None => Identification::Unexplained(response(signature, found.admissible, None)),
            };
        };
        if !found.fitting.iter().any(|hypothesis| hypothesis.predicts_held_out) {
            let refuted = Some(best.clone());
            return Identification::Unexplained(response(signature, found.admissible, refuted));
        }
        let mut doubts = doubts(self.table, &self.vocabulary, &target, signature, &found);
        doubts.extend((!mask_is_clear).then_some(Doubt::MaskUnclear));
        doubts.extend(duration.map(|(concept, _)| Doubt::CycleLike(concept)));
        if found.fitting.len() == 1 && doubts.is_empty() {
            return Identification::Identified(best.clone());
        }
        let Hypotheses { mut fitting, .. } = found;
        let not_listed = fitting.len().saturating_sub(Ambiguity::MOST_LISTED);
        let split = (fitting.len() > 1).then(|| self.split(signature, &fitting[0], &fitting[1]));
        fitting.truncate(Ambiguity::MOST_LISTED);
        Identification::Ambiguous(Ambiguity { hypotheses: fitting, not_listed, split, doubts })
    }

    /// Measured cycles to which the slopes are in proportion, and the factor.
    fn duration(&self, signature: &EventSignature) -> Option<(Concept, f64)> {
        let durations = self.table.moved_concepts().filter(|concept| concept.nature() == Nature::Duration);
        durations.filter_map(|concept| Some((concept, self.proportion(signature, concept)?))).next()
    }

    fn proportion(&self, signature: &EventSignature, concept: Concept) -> Option<f64> {
        let cycles = self.table.column(concept);
        let moved = signature.slopes.iter().flatten().filter(|slope| cycles[slope.kernel.0] > 0.0);
        let mut ratios: Vec<f64> = moved.map(|slope| slope.value / cycles[slope.kernel.0]).collect();
        let kernels = ratios.len();
        let factor = median(&mut ratios);
        let fits = signature.slopes.iter().flatten().all(|slope| {
            let predicted = factor * cycles[slope.kernel.0];
            (slope.value - predicted).abs() <= slope.half_width + DURATION_TOLERANCE * predicted
        });
        (fits && factor > 0.0 && kernels >= LEAST_DURATION_KERNELS).then_some(factor)
    }

    /// The kernel that decides between two hypotheses best, kernels that hypotheses were not fitted to first.
    fn split(&self, signature: &EventSignature, one: &Hypothesis, other: &Hypothesis) -> Split {
        let sums = [&one.sum, &other.sum];
        let kernels = (0..self.table.kernels().len()).map(KernelIndex);
        let separation = |kernel: KernelIndex| {
            let [a, b] = sums.map(|sum| Prediction::of(self.table, sum, kernel));
            let apart = (a.events - b.events).abs();
            let unseen =
                signature.slope(kernel).is_none() || self.table.kernel(kernel).role == KernelRole::HeldOut;
            let resolution = 0.01 * a.events.max(b.events) + a.tolerance() + b.tolerance();
            (apart > resolution && !a.open && !b.open)
                .then(|| (unseen, apart / resolution, kernel, [a.events, b.events]))
        };
        let best = kernels.filter_map(separation).max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        match best {
            Some((_, _, kernel, predictions)) => Split::Kernel { kernel, predictions },
            None => only_in_one(sums).map_or(Split::SameSlopes, |(a, b)| Split::Inseparable(a, b)),
        }
    }
}

/// The concepts in which two sums of equal length differ, if they are one pair.
fn only_in_one([one, other]: [&ConceptSum; 2]) -> Option<(Concept, Concept)> {
    let not_in = |sum: &ConceptSum, concept: &Concept| !sum.concepts().any(|other| other == *concept);
    let mut left = one.concepts().filter(|concept| not_in(other, concept));
    let mut right = other.concepts().filter(|concept| not_in(one, concept));
    let pair = (left.next()?, right.next()?);
    (left.next().is_none() && right.next().is_none()).then_some(pair)
}

fn irregularity(signature: &EventSignature) -> Option<Irregularity> {
    let slopes = || signature.slopes.iter().flatten();
    let largest = slopes().map(|slope| slope.value.abs()).fold(0.0, f64::max);
    let coarsest = slopes().map(|slope| slope.half_width).fold(0.0, f64::max);
    let of_shape = |shape| slopes().find(|slope| slope.shape == shape).map(|slope| slope.kernel);
    if slopes().next().is_none() {
        return Some(Irregularity::NotMeasured);
    }
    if signature.unsteady_share > MOST_UNSTEADY {
        return Some(Irregularity::TooNoisy { relative_noise: f64::INFINITY });
    }
    let responds = signature.responding().next().is_some();
    if !responds && coarsest > COARSEST_SILENCE {
        return Some(Irregularity::TooNoisy { relative_noise: f64::INFINITY });
    }
    let relative_noise = signature.relative_noise;
    if responds && (relative_noise > MOST_RELATIVE_NOISE || coarsest > largest) {
        return Some(Irregularity::TooNoisy { relative_noise });
    }
    let saturating = of_shape(SlopeShape::Saturating).map(Irregularity::Saturating);
    saturating.or_else(|| of_shape(SlopeShape::NonLinear).map(Irregularity::NonLinear))
}

fn response(signature: &EventSignature, admissible: Vec<Concept>, refuted: Option<Hypothesis>) -> Response {
    Response { kernels: signature.responding().map(|slope| slope.kernel).collect(), admissible, refuted }
}
