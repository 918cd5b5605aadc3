//! The hypotheses about an event: sums of few concepts by exhaustive search, larger ones by least squares.

use cyclometer_core::Concept;

use crate::cover::{SearchLimits, TermIndex, covers};
use crate::hypothesis::{EventSlopes, Hypothesis, SHOWN_LOSS, Vocabulary};
use crate::large_sum::large_sums;
use crate::sum::TermWeight;

/// Hypotheses within this distance of the best one's criterion are possible too.
const BAND: f64 = 10.0;

const SHORT: SearchLimits = SearchLimits { terms: 3, trials: 20_000, solutions: 2_000 };

/// The search for larger sums, if few concepts can be part of them.
const LONG: SearchLimits = SearchLimits { terms: 6, ..SHORT };

/// The most concepts for that.
const FEW_CONCEPTS: usize = 10;

/// The hypotheses that fit an event.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Hypotheses {
    /// All that are within the band of the best, best first.
    pub(crate) fitting: Vec<Hypothesis>,
    /// Whether every sum of up to three concepts, or six of a few, was considered.
    pub(crate) complete: bool,
    /// Whether a sum that adds mispredictions to other concepts fits about as well as the best, at whatever
    /// price: an event that counts those concepts on wrong paths too would look the same.
    pub(crate) wrong_paths: bool,
    /// The concepts that may be part of the event: where they move, the event does.
    pub(crate) admissible: Vec<Concept>,
}

/// All hypotheses of up to three terms, or larger sums if none of those fits.
pub(crate) fn hypotheses(vocabulary: &Vocabulary, target: &EventSlopes) -> Hypotheses {
    let factors = TermWeight::ALL.map(TermWeight::factor);
    let bounds = target.bounds(vocabulary);
    let fitting_of = |sums: &[Vec<TermIndex>]| -> Vec<Hypothesis> {
        sums.iter().filter_map(|terms| target.hypothesis(vocabulary, terms)).collect()
    };
    let mut found = covers(&vocabulary.columns, &factors, &bounds, SHORT);
    let mut fitting = fitting_of(&found.sums);
    if fitting.is_empty() && found.admissible.len() <= FEW_CONCEPTS {
        found = covers(&vocabulary.columns, &factors, &bounds, LONG);
        fitting = fitting_of(&found.sums);
    }
    if fitting.is_empty() {
        fitting = fitting_of(&large_sums(vocabulary, target, &found.admissible));
    }
    fitting.sort_by(|a, b| a.criterion.total_cmp(&b.criterion));
    let limit = fitting.first().map_or(0.0, |best| best.criterion + BAND);
    let best_loss = fitting.first().map_or(0.0, |best| best.loss);
    let wrong_paths = fitting
        .iter()
        .any(|hypothesis| adds_mispredicts(hypothesis) && hypothesis.loss < best_loss + SHOWN_LOSS);
    fitting.retain(|hypothesis| hypothesis.criterion <= limit);
    let admissible = found.admissible.iter().map(|&column| vocabulary.concepts[column]).collect();
    Hypotheses { fitting, complete: found.complete, wrong_paths, admissible }
}

/// Whether mispredictions are counted beside other concepts, or more than once.
fn adds_mispredicts(hypothesis: &Hypothesis) -> bool {
    let terms = hypothesis.sum.terms();
    let several = |weight: TermWeight| terms.len() > 1 || weight > TermWeight::One;
    terms.iter().any(|&(concept, weight)| concept == Concept::Mispredicts && several(weight))
}
