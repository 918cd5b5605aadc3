//! Reasons against the only hypothesis that fits.
//!
//! A sum that fits all kernels may be wrong all the same: because few kernels take part, because a term of
//! it could be absent, or another concept could be present, without any slope showing it, or because an event
//! that is no sum behaves like one in these kernels. Each such reason keeps an event from being identified.

use cyclometer_core::Concept;

use crate::cover::TermIndex;
use crate::hypothesis::{EventSlopes, Prediction, SHOWN_LOSS, Vocabulary, choose_log2, tolerance};
use crate::identifiability::{CONFIRMING_KERNELS, multiples};
use crate::search::Hypotheses;
use crate::signature::{EventSignature, Linearity};
use crate::slope::gcd;
use crate::sum::{ConceptSum, TermWeight};
use crate::table::{KernelIndex, KernelRole, KernelTable};
use crate::verdict::Doubt;

/// Bits by which a pattern has to exceed the choice of a sum: one chance fit in a thousand events.
const MARGIN_BITS: f64 = 10.0;

/// Bits that a predicted slope gives beyond the pattern of responding kernels: it is right within a tenth
/// by chance in one of eight cases.
const BITS_PER_SLOPE: f64 = 3.0;

/// Errors of differences, in events, that rounding and an interrupt explain.
const EXACT_EVENTS: f64 = 3.0;

/// The shortest alternation that matters, in events.
const LEAST_ALTERNATION_EVENTS: u64 = 8;

/// The doubts about the best hypothesis.
pub(crate) fn doubts(
    table: &KernelTable,
    vocabulary: &Vocabulary,
    target: &EventSlopes,
    signature: &EventSignature,
    found: &Hypotheses,
) -> Vec<Doubt> {
    let Some(best) = found.fitting.first() else { return Vec::new() };
    let sum = &best.sum;
    let measured = MeasuredKernels { table, signature };
    let mut doubts = Vec::new();
    doubts.extend(sum.concepts().filter(|concept| !measured.is_confirmed(*concept)).map(Doubt::NotHeldOut));
    doubts.extend(sum.concepts().filter(|concept| measured.multiples(*concept) < 2).map(Doubt::OneMultiple));
    doubts.extend(measured.chance(vocabulary, target, sum));
    doubts.extend((!found.complete).then_some(Doubt::SearchIncomplete));
    doubts.extend((signature.linearity() == Linearity::Untested).then_some(Doubt::LinearityUntested));
    doubts.extend(signature.responding().any(|slope| slope.may_start_late).then_some(Doubt::MayStartLate));
    doubts.extend(measured.fraction(sum));
    let wrong_paths = found.wrong_paths.then_some(Doubt::WrongPaths);
    let terms = columns_of(vocabulary, sum);
    doubts.extend(wrong_paths.or_else(|| hidden(vocabulary, target, &terms)));
    doubts.extend(halved(vocabulary, target, &terms));
    doubts
}

/// The kernels that were measured for an event.
struct MeasuredKernels<'a> {
    table: &'a KernelTable,
    signature: &'a EventSignature,
}

impl MeasuredKernels<'_> {
    /// The numbers of a concept in the kernels that were measured, move it and foretell it.
    fn numbers(&self, concept: Concept) -> impl Iterator<Item = (usize, f64)> + '_ {
        let foretold = self.table.foretold(concept).map(|(kernel, number)| (kernel.0, number));
        foretold.filter(|&(kernel, _)| self.signature.slopes[kernel].is_some())
    }

    /// Whether a held-out kernel moves a concept, or three other kernels do while held-out ones do not.
    fn is_confirmed(&self, concept: Concept) -> bool {
        let is_held_out = |kernel: usize| self.table.kernels()[kernel].role == KernelRole::HeldOut;
        let mut measured =
            (0..self.table.kernels().len()).filter(|&kernel| self.signature.slopes[kernel].is_some());
        self.numbers(concept).any(|(kernel, _)| is_held_out(kernel))
            || measured.any(is_held_out) && self.numbers(concept).count() >= CONFIRMING_KERNELS
    }

    fn multiples(&self, concept: Concept) -> usize {
        let numbers: Vec<f64> = self.numbers(concept).map(|(_, number)| number).collect();
        multiples(&numbers)
    }

    /// Whether some sum of so many terms would fit by chance.
    fn chance(&self, vocabulary: &Vocabulary, target: &EventSlopes, sum: &ConceptSum) -> Option<Doubt> {
        let predicts = |kernel: usize| {
            let prediction = Prediction::of(self.table, sum, KernelIndex(kernel));
            prediction.events > 0.0 && !prediction.open && self.signature.slopes[kernel].is_some()
        };
        let moved = (0..self.table.kernels().len()).filter(|&kernel| predicts(kernel)).count();
        let terms = sum.terms().len();
        let slopes = BITS_PER_SLOPE * moved.saturating_sub(terms) as f64;
        let bits = choose_log2(target.measured(), moved.min(target.measured() - moved)) + slopes;
        let needed = vocabulary.choices_log2(terms) + MARGIN_BITS;
        (bits < needed).then_some(Doubt::ChanceFit { bits, needed })
    }

    /// A fraction that may be an alternation: an event that counts for some time, then not for the same time.
    ///
    /// An alternation of 2e events counts exactly half of every difference only if each difference is a
    /// multiple of 2e, and half of it to a few events only if each is nearly one. So exact counts tell the
    /// two apart, where the kernels foretell exact numbers.
    fn fraction(&self, sum: &ConceptSum) -> Option<Doubt> {
        let fractional = |term: &&(Concept, TermWeight)| term.1 < TermWeight::One;
        let &(concept, _) = sum.terms().iter().find(fractional)?;
        let exact = sum.concepts().all(|concept| tolerance(concept) == 0.0)
            && self.signature.responding().all(|slope| {
                let predicted = Prediction::of(self.table, sum, slope.kernel);
                predicted.error(slope.value) <= slope.half_width && slope.step_error_events <= EXACT_EVENTS
            });
        let granule = self.numbers(concept).fold(0, |granule, (kernel, number)| {
            let iterations = self.signature.slopes[kernel].map_or(0, |slope| slope.granule_iterations);
            let events = iterations as f64 * number;
            // Differences that are no whole number of events are no multiples.
            gcd(granule, if events.fract() < 1e-6 { events as u64 } else { 1 })
        });
        let apart = granule % 2 == 1 || granule < LEAST_ALTERNATION_EVENTS;
        (!(exact && apart)).then_some(Doubt::Fraction(concept))
    }
}

/// The terms of a sum by column.
fn columns_of(vocabulary: &Vocabulary, sum: &ConceptSum) -> Vec<TermIndex> {
    let column = |concept: Concept| vocabulary.concepts.iter().position(|other| *other == concept);
    let terms = sum.terms().iter();
    terms.filter_map(|&(concept, weight)| Some((column(concept)?, weight as usize))).collect()
}

/// The columns that are not part of a sum.
fn others(vocabulary: &Vocabulary, terms: &[TermIndex]) -> impl Iterator<Item = usize> {
    (0..vocabulary.concepts.len()).filter(|column| !terms.iter().any(|term| term.0 == *column))
}

/// Another concept that could be counted too and would not show, if there is one; events on wrong paths
/// where a quarter for each misprediction would not show.
fn hidden(vocabulary: &Vocabulary, target: &EventSlopes, terms: &[TermIndex]) -> Option<Doubt> {
    let loss = target.loss(vocabulary, terms);
    let hides = |column: usize, weight: TermWeight| {
        let more: Vec<TermIndex> = terms.iter().copied().chain([(column, weight as usize)]).collect();
        target.loss(vocabulary, &more) < loss + SHOWN_LOSS
    };
    let mispredicts = |column: &usize| vocabulary.concepts[*column] == Concept::Mispredicts;
    if others(vocabulary, terms).any(|column| mispredicts(&column) && hides(column, TermWeight::Quarter)) {
        return Some(Doubt::WrongPaths);
    }
    let hidden = others(vocabulary, terms).find(|&column| hides(column, TermWeight::One));
    hidden.map(|column| Doubt::Hidden(vocabulary.concepts[column]))
}

/// A concept that is counted twice or more where half of that could be another one: two loads could be a load
/// and a speculative load.
fn halved(vocabulary: &Vocabulary, target: &EventSlopes, terms: &[TermIndex]) -> Option<Doubt> {
    let loss = target.loss(vocabulary, terms);
    let doubled = terms.iter().filter(|term| term.1 >= TermWeight::Two as usize);
    let mut pairs = doubled.flat_map(|term| others(vocabulary, terms).map(move |other| (*term, other)));
    let (term, other) = pairs.find(|&(term, other)| {
        let half = term.1 - 1;
        let rest = terms.iter().copied().filter(|one| *one != term);
        let halves: Vec<TermIndex> = rest.chain([(term.0, half), (other, half)]).collect();
        target.loss(vocabulary, &halves) < loss + SHOWN_LOSS
    })?;
    Some(Doubt::HalfOf(vocabulary.concepts[term.0], vocabulary.concepts[other]))
}
