//! How far the kernels of a table can tell concepts apart, before anything is measured.

use cyclometer_core::Concept;

use crate::hypothesis::{SHOWN_LOSS, Vocabulary, tolerance};
use crate::slope::median;
use crate::table::{KernelIndex, KernelRole, KernelTable};

/// The kernels that confirm a concept that no held-out kernel moves.
pub(crate) const CONFIRMING_KERNELS: usize = 3;

/// The share up to which numbers that are foretold to the unit are in proportion.
const EXACTLY: f64 = 1e-6;

/// The share by which a held-out kernel tells concepts apart.
const SPLIT_SHARE: f64 = 0.1;

/// The part of a column that has to be left after the others were projected out, as a share of its length.
const LEAST_REST: f64 = 0.01;

/// The properties of a table that limit what can be identified with it.
///
/// Durations are left out, as no event is identified by them. Numbers that are estimates count as 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Identifiability {
    /// The concepts that fitting kernels move, in the order of declaration.
    pub concepts: Vec<Concept>,
    /// The rank of the matrix of fitting kernels and those concepts; less than their number if some column
    /// is a combination of others.
    pub rank: usize,
    /// The concepts that are combinations of others, one for each missing rank: those that a pivoted
    /// decomposition chooses last.
    pub dependent: Vec<Concept>,
    /// Pairs of concepts that all fitting kernels move in the same proportion, within their tolerances.
    pub collinear: Vec<CollinearPair>,
    /// Concepts that fewer than two kernels move with different numbers, held-out ones included: an event
    /// that counts one of them is never identified, as a threshold would look the same.
    pub one_multiple: Vec<Concept>,
    /// Concepts that no held-out kernel moves: other kernels have to confirm them.
    pub not_held_out: Vec<Concept>,
    /// Those of them that fewer than three kernels move: an event that counts one is never identified.
    pub unconfirmed: Vec<Concept>,
    /// Pairs of concepts of which the second would not show beside the first: where both happen, the first
    /// is foretold too roughly. Estimates are taken for right.
    pub hiding: Vec<(Concept, Concept)>,
    /// Concepts that no kernel moves: nothing can be said about events that count them.
    pub unmoved: Vec<Concept>,
}

/// Two concepts that are hard to tell apart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CollinearPair {
    /// The concepts, in the order of declaration.
    pub concepts: [Concept; 2],
    /// The largest difference between the two in proportion, over the fitting kernels that foretell both, as
    /// a share of the larger: 0 if these do not tell the two apart at all. It is within the tolerances.
    pub separation: f64,
    /// The held-out kernel that tells them apart best, if one does.
    pub held_out_split: Option<KernelIndex>,
}

impl Identifiability {
    /// The report on a table.
    pub fn of(table: &KernelTable) -> Identifiability {
        let vocabulary = Vocabulary::new(table);
        let columns: Vec<Vec<f64>> =
            vocabulary.concepts.iter().map(|concept| fitting_column(table, *concept)).collect();
        let (rank, dependent) = pivoted_rank(&columns);
        let held_out: Vec<KernelIndex> = table.with_role(KernelRole::HeldOut).collect();
        let of_concepts = |keep: &dyn Fn(Concept) -> bool| -> Vec<Concept> {
            vocabulary.concepts.iter().copied().filter(|concept| keep(*concept)).collect()
        };
        let not_held_out =
            of_concepts(&|concept| !table.foretold(concept).any(|(kernel, _)| held_out.contains(&kernel)));
        Identifiability {
            rank,
            dependent: dependent.into_iter().map(|column| vocabulary.concepts[column]).collect(),
            collinear: collinear(table, &vocabulary.concepts),
            one_multiple: of_concepts(&|concept| {
                let numbers: Vec<f64> = table.foretold(concept).map(|(_, number)| number).collect();
                multiples(&numbers) < 2
            }),
            unconfirmed: not_held_out
                .iter()
                .copied()
                .filter(|concept| {
                    table.foretold(*concept).count() < CONFIRMING_KERNELS || held_out.is_empty()
                })
                .collect(),
            not_held_out,
            hiding: hiding(table, &vocabulary.concepts),
            unmoved: Concept::ALL
                .iter()
                .copied()
                .filter(|concept| table.column(*concept).iter().all(|number| *number == 0.0))
                .collect(),
            concepts: vocabulary.concepts,
        }
    }

    /// Whether an event that counts this concept alone can be identified, if all kernels are measured.
    pub fn is_identifiable(&self, concept: Concept) -> bool {
        self.concepts.contains(&concept)
            && !self.one_multiple.contains(&concept)
            && !self.unconfirmed.contains(&concept)
            && !self.collinear.iter().any(|pair| pair.concepts.contains(&concept))
            && !self.hiding.iter().any(|(first, _)| *first == concept)
    }
}

/// The number of different positive numbers in a column; those within a tenth are the same.
pub(crate) fn multiples(column: &[f64]) -> usize {
    let mut numbers: Vec<f64> = column.iter().copied().filter(|number| *number > 0.0).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup_by(|a, b| (*a - *b).abs() <= 0.1 * b.abs());
    numbers.len()
}

/// The column over fitting kernels, with length 1.
fn fitting_column(table: &KernelTable, concept: Concept) -> Vec<f64> {
    let mut column = vec![0.0; table.kernels().len()];
    for (kernel, number) in table.foretold(concept) {
        column[kernel.0] = number;
    }
    unit(table.with_role(KernelRole::Fitting).map(|kernel| column[kernel.0]).collect())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The rank of columns of length 1, and the columns that depend on the others: Gram-Schmidt, the longest
/// rest first.
fn pivoted_rank(columns: &[Vec<f64>]) -> (usize, Vec<usize>) {
    let mut rest: Vec<(usize, Vec<f64>)> = columns.iter().cloned().enumerate().collect();
    let mut rank = 0;
    loop {
        let longest = rest
            .iter()
            .enumerate()
            .map(|(at, (_, column))| (at, dot(column, column).sqrt()))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let Some((at, length)) = longest.filter(|(_, length)| *length > LEAST_REST) else { break };
        let (_, pivot) = rest.swap_remove(at);
        rank += 1;
        for (_, column) in &mut rest {
            let share = dot(column, &pivot) / (length * length);
            for (number, of_pivot) in column.iter_mut().zip(&pivot) {
                *number -= share * of_pivot;
            }
        }
    }
    let mut dependent: Vec<usize> = rest.into_iter().map(|(column, _)| column).collect();
    dependent.sort_unstable();
    (rank, dependent)
}

fn collinear(table: &KernelTable, concepts: &[Concept]) -> Vec<CollinearPair> {
    let mut pairs = Vec::new();
    for (at, &second) in concepts.iter().enumerate() {
        for &first in &concepts[..at] {
            let concepts = [first, second];
            let separation = separation(table, concepts);
            if separation <= EXACTLY.max(2.0 * (tolerance(first) + tolerance(second))) {
                let held_out_split = held_out_split(table, concepts);
                pairs.push(CollinearPair { concepts, separation, held_out_split });
            }
        }
    }
    pairs
}

/// The largest difference of two columns in proportion, over the fitting kernels that foretell both.
fn separation(table: &KernelTable, concepts: [Concept; 2]) -> f64 {
    let foretell =
        |kernel: &KernelIndex| concepts.iter().all(|concept| !table.is_estimate(*concept, *kernel));
    let [a, b] = concepts.map(|concept| table.column(concept));
    let kernels = table.with_role(KernelRole::Fitting).filter(foretell);
    let pairs: Vec<(f64, f64)> = kernels.map(|kernel| (a[kernel.0], b[kernel.0])).collect();
    let both = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0);
    let mut ratios: Vec<f64> = both.map(|(a, b)| b / a).collect();
    let ratio = if ratios.is_empty() { 1.0 } else { median(&mut ratios) };
    let apart = |(a, b): &(f64, f64)| {
        let larger = b.max(ratio * a);
        if larger > 0.0 { (b - ratio * a).abs() / larger } else { 0.0 }
    };
    pairs.iter().map(apart).fold(0.0, f64::max)
}

/// A vector times a number, so that its length is 1; nothing stays nothing.
fn unit(numbers: Vec<f64>) -> Vec<f64> {
    let length = dot(&numbers, &numbers).sqrt().max(f64::MIN_POSITIVE);
    numbers.into_iter().map(|number| number / length).collect()
}

/// The held-out kernel whose ratio of the two concepts differs most from that of the fitting kernels.
fn held_out_split(table: &KernelTable, [a, b]: [Concept; 2]) -> Option<KernelIndex> {
    let (a, b) = (table.column(a), table.column(b));
    let fitting = || table.with_role(KernelRole::Fitting).map(|kernel| kernel.0);
    let total = |column: &[f64]| fitting().map(|kernel| column[kernel]).sum::<f64>();
    let ratio = total(b) / total(a);
    let split = |kernel: &KernelIndex| {
        let (expected, number) = (ratio * a[kernel.0], b[kernel.0]);
        (expected - number).abs() / expected.max(number).max(f64::MIN_POSITIVE)
    };
    table
        .with_role(KernelRole::HeldOut)
        .filter(|kernel| split(kernel) > SPLIT_SHARE)
        .max_by(|one, other| split(one).total_cmp(&split(other)))
}

/// Pairs of which the second does not show beside the first, by the tolerance of the first.
fn hiding(table: &KernelTable, concepts: &[Concept]) -> Vec<(Concept, Concept)> {
    let mut pairs = Vec::new();
    for &first in concepts.iter().filter(|concept| tolerance(**concept) > 0.0) {
        let deviation = |kernel: KernelIndex| tolerance(first) * table.column(first)[kernel.0] / 2.0;
        for &second in concepts.iter().filter(|concept| **concept != first) {
            let loss: f64 = table
                .foretold(second)
                .map(|(kernel, number)| (number / deviation(kernel).max(f64::MIN_POSITIVE)).powi(2))
                .sum();
            // On wrong paths less than one event for each misprediction counts.
            let least = if second == Concept::Mispredicts { 0.25 } else { 1.0 };
            if loss * least * least < SHOWN_LOSS {
                pairs.push((first, second));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TableKernel;
    use Concept::{Branches, Calls, Loads, Mispredicts, Returns, Stores, Uops};

    fn table(kernels: &[(bool, &[(Concept, f64)])]) -> KernelTable {
        let kernels = kernels.iter().enumerate().map(|(number, (held_out, concepts))| TableKernel {
            name: number.to_string(),
            family: String::new(),
            role: if *held_out { KernelRole::HeldOut } else { KernelRole::Fitting },
            per_iteration: concepts.to_vec(),
            estimates: vec![],
        });
        KernelTable::new(kernels.collect()).unwrap()
    }

    #[test]
    fn a_return_without_a_call_splits_the_pair() {
        let balanced: &[(bool, &[(Concept, f64)])] = &[
            (false, &[(Calls, 1.0), (Returns, 1.0)]),
            (false, &[(Calls, 2.0), (Returns, 2.0)]),
            (true, &[(Returns, 1.0)]),
        ];
        let report = Identifiability::of(&table(balanced));
        assert_eq!((report.rank, report.dependent.len()), (1, 1));
        let [pair] = report.collinear[..] else { panic!("{report:?}") };
        assert_eq!((pair.concepts, pair.held_out_split), ([Calls, Returns], Some(KernelIndex(2))));
        assert!(pair.separation < 1e-12);
        assert!(!report.is_identifiable(Calls));

        let mut split = balanced.to_vec();
        split[2].0 = false;
        let report = Identifiability::of(&table(&split));
        assert_eq!((report.rank, report.dependent, report.collinear), (2, vec![], vec![]));
    }

    #[test]
    fn a_sum_of_others_is_dependent_without_a_collinear_pair() {
        let report = Identifiability::of(&table(&[
            (false, &[(Loads, 1.0), (Branches, 1.0)]),
            (false, &[(Stores, 1.0), (Branches, 1.0)]),
            (false, &[(Loads, 2.0), (Stores, 1.0), (Branches, 3.0)]),
        ]));
        assert_eq!((report.rank, report.dependent.len(), report.collinear.len()), (2, 1, 0));
    }

    #[test]
    fn concepts_that_move_too_little_are_listed() {
        let report = Identifiability::of(&table(&[
            (false, &[(Loads, 1.0), (Stores, 1.0)]),
            (false, &[(Loads, 1.0), (Stores, 2.0)]),
            (true, &[(Stores, 1.0), (Calls, 1.0)]),
        ]));
        assert_eq!(report.concepts, [Loads, Stores]);
        assert_eq!(report.one_multiple, [Loads]);
        assert_eq!(report.not_held_out, [Loads]);
        assert!(report.is_identifiable(Stores) && !report.is_identifiable(Loads));
        assert!(report.unmoved.contains(&Branches) && !report.unmoved.contains(&Calls));
    }

    #[test]
    fn a_dense_concept_that_is_foretold_roughly_hides_a_rare_one() {
        let report = Identifiability::of(&table(&[
            (false, &[(Uops, 8.0), (Mispredicts, 0.5)]),
            (false, &[(Uops, 4.0), (Mispredicts, 0.25), (Loads, 1.0)]),
        ]));
        assert_eq!(report.hiding, [(Uops, Mispredicts)]);
    }
}
