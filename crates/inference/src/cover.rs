//! The exhaustive search: all short sums of columns that stay within the bounds of every kernel.
//!
//! # Problem
//!
//! Sixty concepts with five weights make 300 single terms, 44,000 sums of two and 4.3 million of three. Each
//! would be compared with forty kernels, for every event.
//!
//! # Method
//!
//! Every term only adds. So a partial sum that is above the upper bound of a kernel is never part of a
//! solution, and a concept that moves in a kernel where the event does not is out at once: what is left of
//! 300 terms are often ten. A partial sum that is below the lower bound of a kernel needs a term that moves
//! that kernel; the search branches over those terms only, for the kernel that has the fewest, as exact
//! cover does (D. E. Knuth, "Dancing links", 2000). Nothing within the bounds is left out.
//!
//! Each number of a column is an interval. Its lower end counts towards upper bounds, its upper end towards
//! lower bounds.

use std::collections::BTreeSet;

/// One column of the matrix: the kernels that (may) move it, in ascending order.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MatrixColumn {
    pub(crate) entries: Vec<ColumnEntry>,
}

/// The number of a column in one kernel: an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct ColumnEntry {
    pub(crate) kernel: usize,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// The upper end of a number that is not known, large beside all slopes and small enough to add exactly.
const UNKNOWN: f64 = 1e6;

impl ColumnEntry {
    /// A number with a relative tolerance.
    pub(crate) fn around(kernel: usize, number: f64, tolerance: f64) -> ColumnEntry {
        ColumnEntry { kernel, least: number * (1.0 - tolerance), most: number * (1.0 + tolerance) }
    }

    /// Any number.
    pub(crate) fn unknown(kernel: usize) -> ColumnEntry {
        ColumnEntry { kernel, least: 0.0, most: UNKNOWN }
    }
}

/// The bounds of a sum in one kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bounds {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Bounds {
    /// The bounds of a kernel that was not measured.
    pub(crate) const NONE: Bounds = Bounds { lower: f64::NEG_INFINITY, upper: f64::INFINITY };
}

/// A column and one of the factors, both by number.
pub(crate) type TermIndex = (usize, usize);

/// The effort that a search may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SearchLimits {
    /// Terms of a sum.
    pub(crate) terms: usize,
    /// Trials of a term.
    pub(crate) trials: usize,
    /// Solutions.
    pub(crate) solutions: usize,
}

/// The sums that a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Covers {
    /// Each sum, its terms in ascending order.
    pub(crate) sums: Vec<Vec<TermIndex>>,
    /// Whether these are all: no limit ended the search.
    pub(crate) complete: bool,
    /// The columns that fit below the upper bounds with the smallest factor.
    pub(crate) admissible: Vec<usize>,
}

/// All sums of at most `limits.terms` columns, each times one of `factors` (ascending), that are within
/// `bounds`, one for each kernel.
pub(crate) fn covers(
    columns: &[MatrixColumn],
    factors: &[f64],
    bounds: &[Bounds],
    limits: SearchLimits,
) -> Covers {
    let mut search = CoverSearch::new(columns, factors, bounds, limits);
    search.descend(0, None);
    let mut admissible: Vec<usize> = search.terms.iter().map(|term| term.index.0).collect();
    admissible.dedup();
    Covers { sums: search.found.into_iter().collect(), complete: search.complete, admissible }
}

struct CoverTerm {
    index: TermIndex,
    factor: f64,
}

struct CoverSearch<'a> {
    columns: &'a [MatrixColumn],
    bounds: &'a [Bounds],
    limits: SearchLimits,
    /// The terms that fit on their own, by column.
    terms: Vec<CoverTerm>,
    /// For each kernel the terms that move it.
    movers: Vec<Vec<usize>>,
    /// The kernels with a positive lower bound, those with the fewest movers first.
    needy: Vec<usize>,
    /// The partial sum, shrunk for upper bounds.
    least: Vec<f64>,
    /// The partial sum, grown for lower bounds.
    most: Vec<f64>,
    chosen: Vec<usize>,
    trials: usize,
    found: BTreeSet<Vec<TermIndex>>,
    complete: bool,
}

impl<'a> CoverSearch<'a> {
    fn new(
        columns: &'a [MatrixColumn],
        factors: &[f64],
        bounds: &'a [Bounds],
        limits: SearchLimits,
    ) -> CoverSearch<'a> {
        let mut terms = Vec::new();
        for (column, content) in columns.iter().enumerate() {
            for (number, &factor) in factors.iter().enumerate() {
                let fits =
                    content.entries.iter().all(|entry| entry.least * factor <= bounds[entry.kernel].upper);
                if !fits || content.entries.is_empty() {
                    break;
                }
                terms.push(CoverTerm { index: (column, number), factor });
            }
        }
        let mut movers = vec![Vec::new(); bounds.len()];
        for (term, content) in terms.iter().enumerate() {
            for entry in &columns[content.index.0].entries {
                movers[entry.kernel].push(term);
            }
        }
        let mut needy: Vec<usize> = (0..bounds.len()).filter(|&kernel| bounds[kernel].lower > 0.0).collect();
        needy.sort_by_key(|&kernel| movers[kernel].len());
        let sums = vec![0.0; bounds.len()];
        CoverSearch {
            columns,
            bounds,
            limits,
            terms,
            movers,
            needy,
            least: sums.clone(),
            most: sums,
            chosen: Vec::new(),
            trials: 0,
            found: BTreeSet::new(),
            complete: true,
        }
    }

    /// Extends the partial sum in every way. In a sum that satisfies all bounds `extra` is the first term
    /// that may still be added.
    fn descend(&mut self, depth: usize, extra: Option<usize>) {
        let Some(&kernel) = self.needy.iter().find(|&&kernel| self.most[kernel] < self.bounds[kernel].lower)
        else {
            return self.extend(depth, extra.unwrap_or(0));
        };
        if depth == self.limits.terms || !self.complete {
            return;
        }
        let deficit = self.bounds[kernel].lower - self.most[kernel];
        let last = depth + 1 == self.limits.terms;
        for position in 0..self.movers[kernel].len() {
            let term = self.movers[kernel][position];
            if last && self.reach(term, kernel) < deficit {
                continue;
            }
            self.attempt(term, depth, None);
        }
    }

    /// Records a sum within the bounds, and looks for terms that can be added unnoticed.
    fn extend(&mut self, depth: usize, from: usize) {
        if !self.chosen.is_empty() {
            let mut sum: Vec<TermIndex> = self.chosen.iter().map(|&term| self.terms[term].index).collect();
            sum.sort_unstable();
            self.found.insert(sum);
        }
        if self.found.len() >= self.limits.solutions {
            self.complete = false;
        }
        if depth == self.limits.terms {
            return;
        }
        for term in from..self.terms.len() {
            self.attempt(term, depth, Some(term + 1));
        }
    }

    fn attempt(&mut self, term: usize, depth: usize, extra: Option<usize>) {
        self.trials += 1;
        self.complete &= self.trials <= self.limits.trials;
        let column = self.terms[term].index.0;
        let used = self.chosen.iter().any(|&chosen| self.terms[chosen].index.0 == column);
        if !self.complete || used || !self.fits(term) {
            return;
        }
        self.add(term, 1.0);
        self.chosen.push(term);
        self.descend(depth + 1, extra);
        self.chosen.pop();
        self.add(term, -1.0);
    }

    fn fits(&self, term: usize) -> bool {
        let CoverTerm { index, factor } = &self.terms[term];
        self.columns[index.0]
            .entries
            .iter()
            .all(|entry| self.least[entry.kernel] + entry.least * factor <= self.bounds[entry.kernel].upper)
    }

    /// The most that a term adds in a kernel.
    fn reach(&self, term: usize, kernel: usize) -> f64 {
        let CoverTerm { index, factor } = &self.terms[term];
        let entries = &self.columns[index.0].entries;
        let found = entries.binary_search_by_key(&kernel, |entry| entry.kernel);
        found.map_or(0.0, |at| entries[at].most * factor)
    }

    fn add(&mut self, term: usize, sign: f64) {
        let CoverTerm { index, factor } = &self.terms[term];
        for entry in &self.columns[index.0].entries {
            self.least[entry.kernel] += sign * entry.least * factor;
            self.most[entry.kernel] += sign * entry.most * factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: SearchLimits = SearchLimits { terms: 3, trials: 1_000_000, solutions: 100_000 };

    /// All sums within the bounds, by trying everything.
    fn brute(columns: &[MatrixColumn], factors: &[f64], bounds: &[Bounds]) -> BTreeSet<Vec<TermIndex>> {
        let terms: Vec<TermIndex> =
            (0..columns.len()).flat_map(|c| (0..factors.len()).map(move |f| (c, f))).collect();
        let mut sums: Vec<Vec<TermIndex>> = vec![vec![]];
        for _ in 0..3 {
            let longer: Vec<Vec<TermIndex>> = sums
                .iter()
                .flat_map(|sum| {
                    let after = sum.last().map_or(0, |last| last.0 + 1);
                    let more = terms.iter().filter(move |term| term.0 >= after);
                    more.map(move |&term| sum.iter().copied().chain([term]).collect())
                })
                .collect();
            sums.extend(longer);
        }
        let within = |sum: &Vec<TermIndex>| {
            !sum.is_empty()
                && (0..bounds.len()).all(|kernel| {
                    let part = |end: fn(&ColumnEntry) -> f64| -> f64 {
                        let of_term = |&(column, factor): &TermIndex| {
                            let entry = columns[column].entries.iter().find(|entry| entry.kernel == kernel);
                            entry.map_or(0.0, |entry| end(entry) * factors[factor])
                        };
                        sum.iter().map(of_term).sum()
                    };
                    part(|entry| entry.least) <= bounds[kernel].upper + 1e-12
                        && part(|entry| entry.most) >= bounds[kernel].lower - 1e-12
                })
        };
        sums.into_iter().filter(within).collect()
    }

    proptest! {
        #[test]
        fn the_search_finds_what_trying_everything_finds(
            numbers in prop::collection::vec(prop::collection::vec(0u8..4, 5), 6),
            tolerances in prop::collection::vec(0u8..3, 6),
            truth in prop::collection::vec((0usize..6, 0usize..3), 1..4),
            noise in 0u8..4,
        ) {
            let entry = |kernel: usize, number: u8, tolerance: u8| match tolerance {
                2 if kernel == 3 => Some(ColumnEntry::unknown(kernel)),
                _ if number == 0 => None,
                _ => Some(ColumnEntry::around(kernel, number.into(), f64::from(tolerance) * 0.125)),
            };
            let column = |(numbers, &tolerance): (&Vec<u8>, &u8)| MatrixColumn {
                entries: (0..5).filter_map(|kernel| entry(kernel, numbers[kernel], tolerance)).collect(),
            };
            let columns: Vec<MatrixColumn> = numbers.iter().zip(&tolerances).map(column).collect();
            prop_assume!(columns.iter().all(|column| !column.entries.is_empty()));
            let factors = [0.5, 1.0, 2.0];
            let bounds: Vec<Bounds> = (0..5).map(|kernel| {
                let events: f64 = truth.iter().map(|&(column, factor)| {
                    factors[factor] * f64::from(numbers[column][kernel])
                }).sum();
                let slack = f64::from(noise) * 0.25 + 0.0625;
                Bounds { lower: events - slack, upper: events + slack }
            }).collect();
            let found = covers(&columns, &factors, &bounds, LIMITS);
            prop_assert!(found.complete);
            let found: BTreeSet<_> = found.sums.into_iter().collect();
            prop_assert_eq!(found, brute(&columns, &factors, &bounds));
        }
    }

    #[test]
    fn a_limit_that_ends_the_search_is_reported() {
        let columns = vec![MatrixColumn { entries: vec![ColumnEntry::around(0, 1.0, 0.0)] }; 20];
        let bounds = [Bounds { lower: 2.5, upper: 3.5 }];
        let few = SearchLimits { trials: 10, ..LIMITS };
        assert!(!covers(&columns, &[1.0], &bounds, few).complete);
        let all = covers(&columns, &[1.0], &bounds, LIMITS);
        assert_eq!((all.complete, all.sums.len()), (true, 1140));
    }

    #[test]
    fn a_kernel_that_was_not_measured_bounds_nothing() {
        let columns = [MatrixColumn {
            entries: vec![ColumnEntry::around(0, 1.0, 0.0), ColumnEntry::around(1, 9.0, 0.0)],
        }];
        let bounds = [Bounds { lower: 0.9, upper: 1.1 }, Bounds::NONE];
        assert_eq!(covers(&columns, &[1.0], &bounds, LIMITS).sums, [vec![(0, 0)]]);
    }
}
