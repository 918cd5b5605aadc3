//! Hypotheses about one event: the sums of concepts that its slopes allow, and how well each of them fits.
//!
//! A sum predicts a slope for each kernel. The measured slope may be off by its own interval, and by the
//! tolerance of those concepts that a kernel foretells only nearly. Hypotheses are compared by the extended
//! Bayesian information criterion: squared errors in standard deviations, plus a price for each term that
//! grows with the number of terms that could have been chosen.
//!
//! # Source
//!
//! J. Chen, Z. Chen: Extended Bayesian information criteria for model selection with large model spaces,
//! Biometrika 95 (2008).

use cyclometer_core::Concept;
use cyclometer_core::concept::Nature;

use crate::cover::{Bounds, ColumnEntry, MatrixColumn};
use crate::signature::EventSignature;
use crate::sum::{ConceptSum, TermWeight};
use crate::table::{KernelIndex, KernelRole, KernelTable};

/// The tolerance of micro-architectural concepts, as a share: two standard deviations.
pub const MICRO_ARCHITECTURAL_TOLERANCE: f64 = 0.05;

/// Limits of the search are at this many tolerances; the criterion decides within them.
const WIDEST: f64 = 2.0;

/// The least half-width of a slope, in events per iteration.
const RESOLUTION: f64 = 1e-3;

/// Events that interrupts add in a cycle or an instruction at most. In long runs that is more than repeats
/// show.
const INTERRUPT_RATE: f64 = 5e-6;

/// The share of an event's largest slope that a micro-architectural concept may leak into other kernels, and
/// the most of it in events per iteration.
const LEAK_SHARE: f64 = 1e-3;
const MOST_LEAK: f64 = 5e-3;

/// The increase of squared errors, in standard deviations, from which another term shows.
pub(crate) const SHOWN_LOSS: f64 = 9.0;

/// The mean squared error in standard deviations up to which a sum fits.
const LARGEST_MEAN_LOSS: f64 = 2.0;

/// A sum of concepts that an event may count.
#[derive(Clone, PartialEq, Debug)]
pub struct Hypothesis {
    /// The sum.
    pub sum: ConceptSum,
    /// The extended Bayesian information criterion, without unit: less is better, 10 more is much worse.
    pub criterion: f64,
    /// The largest error over fitting kernels, as a share of the larger of slope and prediction; errors
    /// within the interval of a slope are 0.
    pub fitting_error: f64,
    /// The same over held-out kernels; `None` if none was measured.
    pub held_out_error: Option<f64>,
    /// Whether every held-out kernel that was measured is predicted within tolerance.
    pub predicts_held_out: bool,
    /// The sum of squared errors over fitting kernels, in standard deviations.
    pub(crate) loss: f64,
}

/// The number of a concept in an iteration of a kernel.
#[derive(Clone, Copy, Debug)]
struct ForetoldNumber {
    events: f64,
    estimate: bool,
}

/// The concepts of a table as columns.
#[derive(Clone, Debug)]
pub(crate) struct Vocabulary {
    /// The concepts that fitting kernels move, durations excepted.
    pub(crate) concepts: Vec<Concept>,
    /// For each of them the fitting kernels.
    pub(crate) columns: Vec<MatrixColumn>,
    /// For each of them all kernels.
    dense: Vec<Vec<ForetoldNumber>>,
    /// For each kernel whether it is held out.
    held_out: Vec<bool>,
    /// For each kernel the least half-width of slopes.
    resolution: Vec<f64>,
}

impl Vocabulary {
    pub(crate) fn new(table: &KernelTable) -> Vocabulary {
        let held_out: Vec<bool> =
            table.kernels().iter().map(|kernel| kernel.role == KernelRole::HeldOut).collect();
        let counted = |concept: &Concept| {
            let fitting = |(kernel, _): (KernelIndex, f64)| !held_out[kernel.0];
            concept.nature() != Nature::Duration && table.foretold(*concept).any(fitting)
        };
        let concepts: Vec<Concept> = table.moved_concepts().filter(counted).collect();
        let columns = concepts.iter().map(|&concept| {
            let entry = |kernel: usize| {
                let number = table.column(concept)[kernel];
                match table.is_estimate(concept, KernelIndex(kernel)) {
                    true => Some(ColumnEntry::unknown(kernel)),
                    false if number > 0.0 => {
                        Some(ColumnEntry::around(kernel, number, WIDEST * tolerance(concept)))
                    }
                    false => None,
                }
            };
            let fitting = (0..held_out.len()).filter(|&kernel| !held_out[kernel]);
            MatrixColumn { entries: fitting.filter_map(entry).collect() }
        });
        let in_kernels = |concept: &Concept| -> Vec<ForetoldNumber> {
            let foretold = |kernel: usize| ForetoldNumber {
                events: table.column(*concept)[kernel],
                estimate: table.is_estimate(*concept, KernelIndex(kernel)),
            };
            (0..held_out.len()).map(foretold).collect()
        };
        Vocabulary {
            columns: columns.collect(),
            dense: concepts.iter().map(in_kernels).collect(),
            concepts,
            held_out,
            resolution: resolution(table),
        }
    }

    /// The numbers of a column in fitting kernels as the table has them, without tolerance.
    pub(crate) fn exact_column(&self, column: usize) -> MatrixColumn {
        let numbers = self.dense[column].iter().enumerate();
        let moved = numbers.filter(|(kernel, number)| number.events > 0.0 && !self.held_out[*kernel]);
        MatrixColumn {
            entries: moved.map(|(kernel, number)| ColumnEntry::around(kernel, number.events, 0.0)).collect(),
        }
    }

    /// The number of kernels.
    pub(crate) fn kernels(&self) -> usize {
        self.held_out.len()
    }

    /// The terms of a sum of columns, by concept.
    fn sum(&self, terms: &[(usize, usize)]) -> ConceptSum {
        ConceptSum::new(
            terms.iter().map(|&(column, weight)| (self.concepts[column], TermWeight::ALL[weight])).collect(),
        )
    }

    /// The logarithm to base 2 of the number of sums with so many terms.
    pub(crate) fn choices_log2(&self, terms: usize) -> f64 {
        let weights = TermWeight::ALL.len() as f64;
        choose_log2(self.concepts.len(), terms) + terms as f64 * weights.log2()
    }
}

/// The least half-width of slopes in each kernel, by the length of an iteration.
fn resolution(table: &KernelTable) -> Vec<f64> {
    let lengths = table.column(Concept::Cycles).iter().zip(table.column(Concept::Instructions));
    lengths.map(|(cycles, instructions)| RESOLUTION.max(INTERRUPT_RATE * cycles.max(*instructions))).collect()
}

/// The relative tolerance of a kernel's number of a concept.
pub(crate) fn tolerance(concept: Concept) -> f64 {
    match concept.nature() {
        Nature::Architectural => 0.0,
        Nature::MicroArchitectural | Nature::Duration => MICRO_ARCHITECTURAL_TOLERANCE,
    }
}

/// The logarithm to base 2 of the number of ways to choose `few` of `all`.
pub(crate) fn choose_log2(all: usize, few: usize) -> f64 {
    (0..few.min(all)).map(|one| ((all - one) as f64 / (few.min(all) - one) as f64).log2()).sum()
}

/// The slopes of an event as numbers to be explained.
#[derive(Clone, Debug)]
pub(crate) struct EventSlopes {
    /// For each kernel slope and half-width, or nothing if it was not measured.
    slopes: Vec<Option<(f64, f64)>>,
    /// Events per iteration that micro-architectural concepts may leak.
    leak: f64,
    /// Fitting kernels that were measured.
    fitting: usize,
}

/// The prediction of a sum for one kernel.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Prediction {
    /// Events per iteration.
    pub(crate) events: f64,
    /// The part of it that is foretold only nearly.
    pub(crate) nearly: f64,
    /// Whether there may be any number of events more, as some concept's number is an estimate.
    pub(crate) open: bool,
}

impl Prediction {
    pub(crate) fn of(table: &KernelTable, sum: &ConceptSum, kernel: KernelIndex) -> Prediction {
        let mut prediction = Prediction::default();
        for &(concept, weight) in sum.terms() {
            let number = ForetoldNumber {
                events: table.column(concept)[kernel.0],
                estimate: table.is_estimate(concept, kernel),
            };
            prediction.add(concept, weight, number);
        }
        prediction
    }

    fn add(&mut self, concept: Concept, weight: TermWeight, number: ForetoldNumber) {
        if number.estimate {
            self.open = true;
            return;
        }
        let events = weight.factor() * number.events;
        self.events += events;
        self.nearly += if tolerance(concept) > 0.0 { events } else { 0.0 };
    }

    /// The error of the prediction for a slope.
    pub(crate) fn error(self, slope: f64) -> f64 {
        let missing = slope - self.events;
        if self.open { (-missing).max(0.0) } else { missing.abs() }
    }

    pub(crate) fn tolerance(self) -> f64 {
        MICRO_ARCHITECTURAL_TOLERANCE * self.nearly
    }
}

impl EventSlopes {
    pub(crate) fn new(vocabulary: &Vocabulary, signature: &EventSignature) -> EventSlopes {
        let slopes: Vec<Option<(f64, f64)>> = signature
            .slopes
            .iter()
            .zip(&vocabulary.resolution)
            .map(|(slope, least)| slope.map(|slope| (slope.value, slope.half_width.max(*least))))
            .collect();
        let largest = slopes.iter().flatten().map(|slope| slope.0).fold(0.0, f64::max);
        let fitting = slopes
            .iter()
            .zip(&vocabulary.held_out)
            .filter(|(slope, held)| slope.is_some() && !**held)
            .count();
        EventSlopes { slopes, leak: (LEAK_SHARE * largest).min(MOST_LEAK), fitting }
    }

    /// The number of kernels that were measured.
    pub(crate) fn measured(&self) -> usize {
        self.slopes.iter().flatten().count()
    }

    /// Events per iteration that micro-architectural concepts may leak into a kernel without them.
    pub(crate) fn leak(&self) -> f64 {
        self.leak
    }

    /// Slope and half-width of a kernel.
    pub(crate) fn slope(&self, kernel: usize) -> Option<(f64, f64)> {
        self.slopes[kernel]
    }

    /// The bounds of a sum in each fitting kernel.
    pub(crate) fn bounds(&self, vocabulary: &Vocabulary) -> Vec<Bounds> {
        let bounds = |(slope, held_out): (&Option<(f64, f64)>, &bool)| match slope {
            Some((value, half_width)) if !held_out => {
                let slack = WIDEST * half_width + self.leak;
                Bounds { lower: value - slack, upper: value + slack }
            }
            _ => Bounds::NONE,
        };
        self.slopes.iter().zip(&vocabulary.held_out).map(bounds).collect()
    }

    /// A sum as a hypothesis, if it fits.
    pub(crate) fn hypothesis(&self, vocabulary: &Vocabulary, terms: &[(usize, usize)]) -> Option<Hypothesis> {
        let [fitting, held_out] = self.errors(vocabulary, terms);
        if !fitting.within_tolerance() {
            return None;
        }
        let price = (self.fitting.max(2) as f64).ln() * terms.len() as f64
            + 2.0 * std::f64::consts::LN_2 * choose_log2(vocabulary.concepts.len(), terms.len());
        Some(Hypothesis {
            sum: vocabulary.sum(terms),
            criterion: fitting.loss + price,
            fitting_error: fitting.largest_share,
            held_out_error: (held_out.kernels > 0).then_some(held_out.largest_share),
            predicts_held_out: held_out.within_tolerance(),
            loss: fitting.loss,
        })
    }

    /// The sum of squared errors of a sum over all kernels, in standard deviations.
    pub(crate) fn loss(&self, vocabulary: &Vocabulary, terms: &[(usize, usize)]) -> f64 {
        let [fitting, held_out] = self.errors(vocabulary, terms);
        fitting.loss + held_out.loss
    }

    /// The errors of a sum over fitting and over held-out kernels.
    fn errors(&self, vocabulary: &Vocabulary, terms: &[(usize, usize)]) -> [Errors; 2] {
        let micro = terms.iter().any(|&(column, _)| tolerance(vocabulary.concepts[column]) > 0.0);
        let leak = if micro { self.leak } else { 0.0 };
        let mut errors = [Errors::default(), Errors::default()];
        for (kernel, slope) in self.slopes.iter().enumerate() {
            let Some((value, half_width)) = *slope else { continue };
            let prediction = vocabulary.prediction(terms, kernel);
            errors[usize::from(vocabulary.held_out[kernel])].add(value, half_width + leak, prediction);
        }
        errors
    }
}

impl Vocabulary {
    fn prediction(&self, terms: &[(usize, usize)], kernel: usize) -> Prediction {
        let mut prediction = Prediction::default();
        for &(column, weight) in terms {
            prediction.add(self.concepts[column], TermWeight::ALL[weight], self.dense[column][kernel]);
        }
        prediction
    }
}

/// The errors of a sum over some kernels.
#[derive(Default)]
pub(crate) struct Errors {
    kernels: usize,
    loss: f64,
    largest_share: f64,
    beyond: bool,
}

impl Errors {
    pub(crate) fn add(&mut self, slope: f64, half_width: f64, prediction: Prediction) {
        let error = prediction.error(slope);
        // Half-widths are three standard deviations of the noise that repeats show; interrupts shift slopes
        // by more than that. Tolerances are two.
        let variance = (half_width.powi(2) + prediction.tolerance().powi(2)) / 4.0;
        let squared = error.powi(2) / variance;
        self.kernels += 1;
        self.loss += squared;
        self.beyond |= error > WIDEST * (half_width + prediction.tolerance());
        if error > half_width {
            self.largest_share = self.largest_share.max(error / slope.abs().max(prediction.events));
        }
    }

    pub(crate) fn within_tolerance(&self) -> bool {
        !self.beyond && self.loss <= LARGEST_MEAN_LOSS * self.kernels as f64
    }
}
