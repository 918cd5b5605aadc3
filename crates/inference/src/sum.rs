//! Weighted sums of concepts: what a hypothesis says that an event counts.

use std::fmt;

use cyclometer_core::Concept;

/// How many events one happening of a concept makes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TermWeight {
    /// ¼: every fourth one counts.
    Quarter,
    /// ½: every second one counts.
    Half,
    /// 1: each counts once.
    One,
    /// 2: each counts twice.
    Two,
    /// 4: each counts four times.
    Four,
}

impl TermWeight {
    /// All weights, in ascending order.
    pub const ALL: [TermWeight; 5] =
        [TermWeight::Quarter, TermWeight::Half, TermWeight::One, TermWeight::Two, TermWeight::Four];

    /// The factor.
    pub const fn factor(self) -> f64 {
        match self {
            TermWeight::Quarter => 0.25,
            TermWeight::Half => 0.5,
            TermWeight::One => 1.0,
            TermWeight::Two => 2.0,
            TermWeight::Four => 4.0,
        }
    }

    /// The weight nearest to a factor by ratio.
    pub(crate) fn nearest(factor: f64) -> TermWeight {
        let distance = |weight: &TermWeight| (factor.max(f64::MIN_POSITIVE) / weight.factor()).log2().abs();
        let by_distance = |a: &TermWeight, b: &TermWeight| distance(a).total_cmp(&distance(b));
        TermWeight::ALL.into_iter().min_by(by_distance).unwrap_or(TermWeight::One)
    }
}

/// The mark of its factor in a formula: `1/4`, `1/2`, nothing for 1, `2`, `4`.
impl fmt::Display for TermWeight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TermWeight::Quarter => "1/4",
            TermWeight::Half => "1/2",
            TermWeight::One => "1",
            TermWeight::Two => "2",
            TermWeight::Four => "4",
        })
    }
}

/// A sum of concepts, each with a weight.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConceptSum {
    terms: Vec<(Concept, TermWeight)>,
}

impl ConceptSum {
    /// A sum of terms, which are put in the order of concepts. A concept that is named twice keeps its
    /// first weight.
    pub fn new(mut terms: Vec<(Concept, TermWeight)>) -> ConceptSum {
        terms.sort_by_key(|(concept, _)| *concept);
        terms.dedup_by_key(|(concept, _)| *concept);
        ConceptSum { terms }
    }

    /// The terms, in the order of concepts.
    pub fn terms(&self) -> &[(Concept, TermWeight)] {
        &self.terms
    }

    /// The concepts of the terms.
    pub fn concepts(&self) -> impl Iterator<Item = Concept> + '_ {
        self.terms.iter().map(|(concept, _)| *concept)
    }
}

/// The formula: `loads + 2 × stores`.
impl fmt::Display for ConceptSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (concept, weight)) in self.terms.iter().enumerate() {
            f.write_str(if index > 0 { " + " } else { "" })?;
            match weight {
                TermWeight::One => write!(f, "{concept}")?,
                weight => write!(f, "{weight} × {concept}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_as_formulas_in_the_order_of_concepts() {
        let sum =
            ConceptSum::new(vec![(Concept::Stores, TermWeight::Two), (Concept::Loads, TermWeight::One)]);
        assert_eq!(sum.to_string(), "loads + 2 × stores");
        assert_eq!(ConceptSum::new(vec![(Concept::Loads, TermWeight::Quarter)]).to_string(), "1/4 × loads");
    }

    #[test]
    fn the_nearest_weight_is_by_ratio() {
        for (factor, weight) in
            [(0.0, TermWeight::Quarter), (0.34, TermWeight::Quarter), (0.36, TermWeight::Half)]
        {
            assert_eq!(TermWeight::nearest(factor), weight);
        }
        for (factor, weight) in [(1.4, TermWeight::One), (1.5, TermWeight::Two), (100.0, TermWeight::Four)] {
            assert_eq!(TermWeight::nearest(factor), weight);
        }
    }
}
