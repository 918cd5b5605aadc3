//! The truth about a hidden event, and whether an answer is right.

use std::fmt;

use cyclometer_core::concept::Nature;
use cyclometer_core::{CounterId, CounterMask};
use cyclometer_inference::{ConceptSum, Identifiability, MaskFinding};
use cyclometer_semantics::{
    Activity, ActivityProgress, ConceptTerm, CountingRule, EventSemantics, InterruptNoise, Meaning, Weight,
};

use super::hidden_chip::{HiddenChip, SweptTable};

/// The kind of a hidden event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum HiddenKind {
    Single,
    Sum,
    Scaled,
    Noisy,
    WrongPaths,
    Saturating,
    Threshold,
    State,
    Duration,
    Differing,
    Dead,
}

impl HiddenKind {
    /// Whether its counts are those of a weighted sum of concepts on every counter.
    pub(crate) const fn is_sum(self) -> bool {
        matches!(self, HiddenKind::Single | HiddenKind::Sum | HiddenKind::Scaled | HiddenKind::Noisy)
    }
}

impl fmt::Display for HiddenKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            HiddenKind::Single => "one concept",
            HiddenKind::Sum => "sum of concepts",
            HiddenKind::Scaled => "multiple or fraction",
            HiddenKind::Noisy => "with interrupt noise",
            HiddenKind::WrongPaths => "wrong paths too",
            HiddenKind::Saturating => "saturating",
            HiddenKind::Threshold => "threshold, edges",
            HiddenKind::State => "state",
            HiddenKind::Duration => "duration",
            HiddenKind::Differing => "differs by counter",
            HiddenKind::Dead => "dead",
        })
    }
}

/// The meaning of a code on each counter.
pub(crate) struct HiddenTruth<'a> {
    chip: &'a HiddenChip,
    swept: &'a SweptTable,
    rows: &'a [EventSemantics],
}

impl<'a> HiddenTruth<'a> {
    pub(crate) fn of(chip: &'a HiddenChip, swept: &'a SweptTable, code: u32) -> HiddenTruth<'a> {
        HiddenTruth { chip, swept, rows: swept.semantics.of(code) }
    }

    /// Its kind. A code that no kernel moves on any counter is dead.
    pub(crate) fn kind(&self) -> HiddenKind {
        if self.moved().next().is_none() {
            return HiddenKind::Dead;
        }
        let [EventSemantics { meaning, .. }] = self.rows else { return HiddenKind::Differing };
        match meaning.rule {
            CountingRule::AtMost { .. } => HiddenKind::Saturating,
            CountingRule::Threshold { .. } => HiddenKind::Threshold,
            CountingRule::Alternates { .. } | CountingRule::After { .. } => HiddenKind::State,
            CountingRule::Events if meaning.wrong_paths != 0 => HiddenKind::WrongPaths,
            CountingRule::Events => kind_of_sum(meaning),
        }
    }

    /// Whether the kernels can tell each concept that it counts from everything else.
    pub(crate) fn is_identifiable(&self, report: &Identifiability) -> bool {
        self.kind().is_sum()
            && self
                .rows
                .iter()
                .flat_map(|row| row.meaning.terms())
                .all(|term| report.is_identifiable(term.concept))
    }

    /// Whether an event that counts the sum counts the same in every kernel and size, on each counter on
    /// which this one counts; never for a dead code.
    pub(crate) fn counts_as(&self, sum: &ConceptSum) -> bool {
        let Some(found) = meaning_of(sum) else { return false };
        let alike = |row: &EventSemantics| self.counts_alike(&row.meaning, &found);
        self.moved().next().is_some() && self.moved().all(alike)
    }

    /// The rows that some kernel moves.
    fn moved(&self) -> impl Iterator<Item = &EventSemantics> {
        self.rows.iter().filter(|row| self.counts(&row.meaning).any(|count| count > 0))
    }

    /// Whether the counters that were found are those that count.
    pub(crate) fn has_mask(&self, finding: &MaskFinding) -> bool {
        let differing = finding.differs.iter().map(|(counter, _)| *counter).collect();
        let on =
            |mask: CounterMask| mask.iter().map(|counter| self.meaning(counter)).collect::<Vec<Meaning>>();
        let (belonging, dead, differing) = (on(finding.belongs), on(finding.dead), on(differing));
        let all = belonging.len() + dead.len() + differing.len() == self.chip.counters().count();
        let Some(first) = belonging.first() else { return false };
        let moved = |meaning: &Meaning| self.counts(meaning).any(|count| count > 0);
        all && moved(first)
            && belonging.iter().all(|meaning| self.counts_alike(meaning, first))
            && differing.iter().all(|meaning| moved(meaning) && !self.counts_alike(meaning, first))
            && !dead.iter().any(moved)
    }

    fn meaning(&self, counter: CounterId) -> Meaning {
        let row = self.rows.iter().find(|row| row.counters.contains(counter));
        row.map_or(Meaning::DEAD, |row| row.meaning)
    }

    /// The counts of an undisturbed run of each kernel and size.
    fn counts(&self, meaning: &Meaning) -> impl Iterator<Item = u64> {
        let meaning = meaning.with_noise(InterruptNoise::default());
        let runs = self.swept.activities.iter().flat_map(|activity| self.swept.sizes.map(|n| (activity, n)));
        runs.map(move |(activity, n)| run_count(&meaning, activity, n))
    }

    /// Whether both count the same. Fractions of events are cut off for each term.
    fn counts_alike(&self, one: &Meaning, other: &Meaning) -> bool {
        let cut_off = (one.terms().count() + other.terms().count()) as u64;
        self.counts(one).zip(self.counts(other)).all(|(one, other)| one.abs_diff(other) <= cut_off)
    }
}

impl fmt::Display for HiddenTruth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for EventSemantics { counters, meaning, .. } in self.rows {
            let weighted = |term: ConceptTerm| format!("{} × {}", term.weight.value(), term.concept);
            let sum: Vec<String> = meaning.terms().map(weighted).collect();
            write!(f, "[{counters}: {}", sum.join(" + "))?;
            if meaning.wrong_paths != 0 {
                write!(f, ", {} ‰ on wrong paths", meaning.wrong_paths)?;
            }
            match meaning.rule {
                CountingRule::Events => f.write_str("]")?,
                rule => write!(f, ", {rule:?}]")?,
            }
        }
        Ok(())
    }
}

fn run_count(meaning: &Meaning, activity: &Activity, iterations: u64) -> u64 {
    meaning.counted(&ActivityProgress::default(), activity, iterations * u64::from(activity.cycles()))
}

fn kind_of_sum(meaning: &Meaning) -> HiddenKind {
    let mut terms = meaning.terms();
    let (first, others) = (terms.next(), terms.count());
    match first {
        _ if meaning.terms().any(|term| term.concept.nature() == Nature::Duration) => HiddenKind::Duration,
        _ if meaning.noise != InterruptNoise::default() => HiddenKind::Noisy,
        Some(term) if others == 0 && term.weight != Weight::ONE => HiddenKind::Scaled,
        _ if others == 0 => HiddenKind::Single,
        _ => HiddenKind::Sum,
    }
}

/// The sum as a meaning; `None` for one with more terms than a meaning has.
fn meaning_of(sum: &ConceptSum) -> Option<Meaning> {
    let term = |(concept, weight): &(_, cyclometer_inference::TermWeight)| {
        let weight = Weight::quarters((4.0 * weight.factor()) as u8)?;
        Some(ConceptTerm { concept: *concept, weight })
    };
    Meaning::weighted(&sum.terms().iter().map(term).collect::<Option<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::concept::Concept;
    use cyclometer_inference::TermWeight;
    use cyclometer_semantics::{CountUnit, Semantics, SemanticsShape};
    use cyclometer_sim::Model;
    use cyclometer_sweep::SweepSettings;

    const LOADS: Meaning = Meaning::sum(&[Concept::Loads]);

    /// The truth of event 1 with these meanings on general counters, on a chip with counters 0 to 3.
    fn with_truth(rows: &[(u64, Meaning)], check: impl FnOnce(&HiddenTruth<'_>)) {
        let chip = HiddenChip::new(Model::find("skylake").unwrap()).unwrap();
        let no_codes = SemanticsShape { codes: 1..1, ..chip.shape() };
        let mut swept = chip.sweep(1, &no_codes, &SweepSettings::default()).unwrap();
        let row = |(general, meaning): &(u64, Meaning)| EventSemantics {
            code: 1,
            counters: CounterMask::from_bits(*general, 0),
            meaning: *meaning,
        };
        let rows: Vec<EventSemantics> = rows.iter().map(row).collect();
        swept.semantics = Semantics::new(&rows).unwrap().into();
        check(&HiddenTruth::of(&chip, &swept, 1));
    }

    fn sum(terms: &[(Concept, TermWeight)]) -> ConceptSum {
        ConceptSum::new(terms.to_vec())
    }

    fn loads() -> ConceptSum {
        sum(&[(Concept::Loads, TermWeight::One)])
    }

    fn finding(belongs: u64, dead: u64, differs: &[u8]) -> MaskFinding {
        let mask = |general| CounterMask::from_bits(general, 0);
        let differs = differs.iter().map(|&counter| (CounterId::General(counter), 0.5)).collect();
        MaskFinding { observable: true, belongs: mask(belongs), dead: mask(dead), differs }
    }

    #[test]
    fn only_a_sum_that_counts_the_same_in_every_kernel_is_right() {
        with_truth(&[(0b1111, LOADS)], |truth| {
            assert!(truth.counts_as(&loads()));
            assert!(!truth.counts_as(&sum(&[(Concept::Stores, TermWeight::One)])));
            assert!(!truth.counts_as(&sum(&[(Concept::Loads, TermWeight::Two)])));
            let more = [(Concept::Loads, TermWeight::One), (Concept::Faults, TermWeight::One)];
            assert!(!truth.counts_as(&sum(&more)));
        });
        with_truth(&[(0b11, LOADS.with_wrong_paths(500))], |truth| {
            assert!(!truth.counts_as(&loads()));
            let half = (Concept::Mispredicts, TermWeight::Half);
            assert!(truth.counts_as(&sum(&[(Concept::Loads, TermWeight::One), half])));
        });
    }

    #[test]
    fn a_limit_that_no_kernel_reaches_does_not_make_a_name_wrong() {
        let at_most = |events| LOADS.by(CountingRule::AtMost { events, per: CountUnit::Iteration });
        with_truth(&[(1, at_most(1_000_000))], |truth| {
            assert_eq!((truth.kind(), truth.counts_as(&loads())), (HiddenKind::Saturating, true));
        });
        with_truth(&[(1, at_most(2))], |truth| assert!(!truth.counts_as(&loads())));
    }

    #[test]
    fn a_code_that_no_kernel_moves_is_dead_and_counts_as_nothing() {
        with_truth(&[], |truth| {
            assert_eq!(truth.kind(), HiddenKind::Dead);
            assert!(!truth.counts_as(&loads()) && !truth.counts_as(&sum(&[])));
        });
        with_truth(&[(1, Meaning::DEAD)], |truth| assert_eq!(truth.kind(), HiddenKind::Dead));
    }

    #[test]
    fn masks_are_exact_or_wrong() {
        with_truth(&[(0b0110, LOADS)], |truth| {
            assert!(truth.has_mask(&finding(0b0110, 0b1001, &[])));
            for wrong in [
                finding(0b0010, 0b1101, &[]),
                finding(0b0111, 0b1000, &[]),
                finding(0b0110, 0b1000, &[0]),
                finding(0b0110, 0b0001, &[]),
                finding(0b1001, 0b0110, &[]),
                finding(0, 0b1111, &[]),
            ] {
                assert!(!truth.has_mask(&wrong), "{wrong:?}");
            }
        });
    }

    #[test]
    fn counters_that_count_something_else_have_to_be_told_apart() {
        let half = ConceptTerm { concept: Concept::Loads, weight: Weight::quarters(2).unwrap() };
        with_truth(&[(0b0011, LOADS), (0b1100, Meaning::weighted(&[half]).unwrap())], |truth| {
            assert_eq!(truth.kind(), HiddenKind::Differing);
            assert!(truth.has_mask(&finding(0b0011, 0, &[2, 3])));
            assert!(truth.has_mask(&finding(0b1100, 0, &[0, 1])));
            assert!(!truth.has_mask(&finding(0b1111, 0, &[])));
            assert!(!truth.has_mask(&finding(0b0011, 0b1100, &[])));
            assert!(!truth.counts_as(&loads()), "not on counters 2 and 3");
        });
    }
}
