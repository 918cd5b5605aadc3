//! What a hidden event counts, and whether an answer is right.

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
        all && belonging.iter().all(|meaning| self.counts_alike(meaning, first))
            && differing.iter().all(|meaning| !self.counts_alike(meaning, first))
            && dead.iter().all(|meaning| self.counts(meaning).all(|count| count == 0))
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
