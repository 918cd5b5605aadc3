//! Relations between events: equal ones, multiples, parts, and sums of others.
//!
//! They hold between measured slopes, so they are found for events that no concept explains as well, and they
//! are exact where the tolerance of kernels is not: a miss that a core makes is a miss in each event that
//! counts it.

use crate::cover::{Bounds, ColumnEntry, MatrixColumn, SearchLimits, covers};
use crate::signature::{EventSignature, Linearity};
use crate::slope::KernelSlope;
use crate::verdict::Judgement;

/// The share by which slopes of equal events may differ beyond their intervals.
const SAME_SHARE: f64 = 0.01;

/// The least number of kernels that move an event for which relations are looked for.
const LEAST_KERNELS: usize = 3;

const SUMS: SearchLimits = SearchLimits { terms: 4, trials: 20_000, solutions: 64 };

/// The factors of sums and multiples.
const FACTORS: [f64; 2] = [1.0, 2.0];

/// A relation between events, which are numbers of judgements.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Relation {
    /// These events have the same slopes: two or more, in ascending order.
    Duplicates(Vec<usize>),
    /// One event counts twice what another does.
    Double {
        /// The event.
        event: usize,
        /// The event with half of its slopes.
        of: usize,
    },
    /// Every kernel moves one event at most as often as another, and some kernel less often. Relations that
    /// follow from two others are left out.
    Subset {
        /// The event that counts less.
        part: usize,
        /// The event that counts more.
        whole: usize,
    },
    /// An event is the sum of others. Two parts are complements: each counts what the other leaves.
    Sum {
        /// The event.
        whole: usize,
        /// Two to four events, each with the number of times that it is added: 1 or 2.
        parts: Vec<(usize, u8)>,
    },
}

/// The relations between events. Only the first of several duplicates takes
/// part in the others.
///
/// Sums are searched with at most four parts; for each event those with the fewest parts are listed.
pub fn relations(judgements: &[Judgement]) -> Vec<Relation> {
    let live: Vec<usize> = (0..judgements.len()).filter(|&event| is_related(&judgements[event])).collect();
    let signature = |event: usize| &judgements[event].signature;
    let mut relations = Vec::new();
    let mut classes: Vec<Vec<usize>> = Vec::new();
    for &event in &live {
        match classes.iter_mut().find(|class| same(signature(class[0]), signature(event), 1.0)) {
            Some(class) => class.push(event),
            None => classes.push(vec![event]),
        }
    }
    relations.extend(classes.iter().filter(|class| class.len() > 1).cloned().map(Relation::Duplicates));
    let firsts: Vec<usize> = classes.iter().map(|class| class[0]).collect();
    for &event in &firsts {
        let half = firsts.iter().find(|&&of| of != event && same(signature(of), signature(event), 2.0));
        relations.extend(half.map(|&of| Relation::Double { event, of }));
    }
    relations.extend(subsets(&firsts, &signature));
    for &whole in &firsts {
        relations.extend(sums(whole, &firsts, &signature));
    }
    relations
}

fn is_related(judgement: &Judgement) -> bool {
    judgement.linearity == Linearity::Linear
        && matches!(judgement.verdict.letter(), 'A' | 'B' | 'C')
        && judgement.signature.responding().count() >= LEAST_KERNELS
}

/// Slope and half-width of both events in each kernel in which both were measured.
fn both<'a>(
    one: &'a EventSignature,
    other: &'a EventSignature,
) -> impl Iterator<Item = [(f64, f64); 2]> + 'a {
    let pairs = one.slopes.iter().zip(&other.slopes);
    pairs.filter_map(|(one, other)| {
        let (one, other) = one.as_ref().zip(other.as_ref())?;
        Some([(one.value, one.half_width), (other.value, other.half_width)])
    })
}

/// Whether `other` is `factor` times `one`.
fn same(one: &EventSignature, other: &EventSignature, factor: f64) -> bool {
    both(one, other).all(|[one, other]| {
        let allowed = factor * one.1 + other.1 + SAME_SHARE * other.0.abs().max(one.0.abs());
        (factor * one.0 - other.0).abs() <= allowed
    })
}

fn is_part(part: &EventSignature, whole: &EventSignature) -> bool {
    let allowed = |part: (f64, f64), whole: (f64, f64)| part.1 + whole.1 + SAME_SHARE * whole.0.abs();
    both(part, whole).all(|[part, whole]| part.0 <= whole.0 + allowed(part, whole))
        && both(part, whole).any(|[part, whole]| part.0 < whole.0 - allowed(part, whole))
}

/// The subsets that do not follow from two others.
fn subsets<'a>(firsts: &[usize], signature: &impl Fn(usize) -> &'a EventSignature) -> Vec<Relation> {
    let events = 0..firsts.len();
    let is_part_of: Vec<Vec<bool>> = firsts
        .iter()
        .map(|&part| firsts.iter().map(|&whole| is_part(signature(part), signature(whole))).collect())
        .collect();
    let follows = |part: usize, whole: usize| {
        events.clone().any(|middle| is_part_of[part][middle] && is_part_of[middle][whole])
    };
    let mut relations = Vec::new();
    for part in events.clone() {
        let direct = events.clone().filter(|&whole| is_part_of[part][whole] && !follows(part, whole));
        relations.extend(direct.map(|whole| Relation::Subset { part: firsts[part], whole: firsts[whole] }));
    }
    relations
}

/// The shortest sums of other events that equal an event.
fn sums<'a>(
    whole: usize,
    firsts: &[usize],
    signature: &impl Fn(usize) -> &'a EventSignature,
) -> Vec<Relation> {
    let bounds: Vec<Bounds> = signature(whole)
        .slopes
        .iter()
        .map(|slope| match slope {
            // The parts have intervals too.
            Some(slope) => Bounds {
                lower: slope.value - 4.0 * slope.half_width,
                upper: slope.value + 4.0 * slope.half_width,
            },
            None => Bounds::NONE,
        })
        .collect();
    let others: Vec<usize> = firsts.iter().copied().filter(|&event| event != whole).collect();
    let columns: Vec<MatrixColumn> = others.iter().map(|&event| column(signature(event))).collect();
    let mut found: Vec<Vec<(usize, u8)>> = covers(&columns, &FACTORS, &bounds, SUMS)
        .sums
        .iter()
        .filter(|sum| sum.len() > 1)
        .map(|sum| sum.iter().map(|&(column, factor)| (others[column], FACTORS[factor] as u8)).collect())
        .collect();
    let fewest = found.iter().map(Vec::len).min().unwrap_or(0);
    found.retain(|parts| parts.len() == fewest);
    found.into_iter().map(|parts| Relation::Sum { whole, parts }).collect()
}

fn column(signature: &EventSignature) -> MatrixColumn {
    let entry = |slope: &KernelSlope| ColumnEntry::around(slope.kernel.0, slope.value, SAME_SHARE);
    MatrixColumn { entries: signature.responding().map(entry).collect() }
}
