//! Verdicts beside truths, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use cyclometer_core::concept::Concept;
use cyclometer_inference::{
    ConceptSum, Doubt, FamilyOutcome, Hypothesis, Identification, Judgement, TermWeight, error_bound_95,
    leave_one_family_out, shuffled_labels,
};

use super::found::Found;
use super::hidden_chip::{HiddenChip, SweptEvent, SweptTable};
use super::threshold_method::ThresholdScore;
use super::truth::{HiddenKind, HiddenTruth};

/// The least share of identifiable events that have to be identified.
const LEAST_RECALL: f64 = 0.9;

/// How often the names of the kernels are shuffled.
const SHUFFLES: usize = 2;

/// How often an answer of some certainty is right.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AnswerTally {
    pub(crate) answers: usize,
    /// The first hypothesis counts as the event does.
    pub(crate) first: usize,
    /// Some hypothesis does, alone or with a concept that the verdict says may be counted too.
    pub(crate) some: usize,
}

/// The hypotheses of an answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Certainty {
    /// Verdict A.
    Identified,
    /// Verdict B with one hypothesis, which is doubted.
    Doubted,
    /// Verdict B with two or three hypotheses.
    Few,
    /// Verdict B with more of them, all listed.
    Many,
    /// Verdict B with more hypotheses than are listed.
    NotAllListed,
}

/// The events that the other kernels identify without one family of kernels.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FamilyTally {
    /// Families that were left out, over all events of verdict A.
    pub(crate) checks: usize,
    pub(crate) right: usize,
    /// The event is identified rightly, and some kernel that was left out is not predicted.
    pub(crate) not_predicted: usize,
    /// The event is identified as another, and the kernels that were left out refute that.
    pub(crate) refuted: usize,
    /// The event is identified as another, and nothing refutes that.
    pub(crate) wrong: usize,
    pub(crate) undecided: usize,
}

/// Counted verdicts.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) letters: BTreeMap<(HiddenKind, char), usize>,
    /// Verdicts A that name a sum that counts as the event does in every kernel, but is not its own.
    pub(crate) equals: BTreeMap<HiddenKind, usize>,
    wrong: Vec<String>,
    /// Live sums of concepts, and those that were identified.
    pub(crate) sums: Found,
    /// Those of them that the kernels can tell from everything else, and those that were identified.
    pub(crate) identifiable: Found,
    /// Identifiable events that were not identified, with the verdict.
    missed: Vec<String>,
    /// Sums of which no listed hypothesis counts the same, and dead codes that are not E.
    lacking: Vec<String>,
    pub(crate) masks: Found,
    wrong_masks: Vec<String>,
    pub(crate) calibration: BTreeMap<Certainty, AnswerTally>,
    pub(crate) threshold: ThresholdScore,
    pub(crate) shuffled: usize,
    shuffled_identified: Vec<String>,
    pub(crate) families: FamilyTally,
    pub(crate) tables: usize,
    pub(crate) codes: usize,
    pub(crate) sweep_time: Duration,
    /// The time of each judgement of a live event.
    judging_times: Vec<Duration>,
}

impl Tally {
    /// The tally of a swept table.
    pub(crate) fn of(chip: &HiddenChip, swept: &SweptTable, seed: u64) -> Tally {
        let mut tally =
            Tally { tables: 1, codes: swept.events.len(), sweep_time: swept.sweep_time, ..Tally::default() };
        for event in &swept.events {
            let name = format!("{}, seed {seed}, event {:#x}", chip.model.id, event.code);
            tally.event(chip, &HiddenTruth::of(chip, swept, event.code), event, &name);
        }
        let judgements: Vec<Judgement> = swept.events.iter().map(|event| event.judgement.clone()).collect();
        let control = shuffled_labels(&chip.table, &judgements, seed, SHUFFLES);
        tally.shuffled = control.judged;
        let identified = control.identified.iter();
        let named = identified.map(|(number, sum)| {
            format!("{}, seed {seed}: {} as {sum}", chip.model.id, judgements[*number].event)
        });
        tally.shuffled_identified = named.collect();
        tally
    }

    fn event(&mut self, chip: &HiddenChip, truth: &HiddenTruth<'_>, event: &SweptEvent, name: &str) {
        let kind = truth.kind();
        let SweptEvent { judgement, observed, .. } = event;
        let letter = judgement.verdict.letter();
        *self.letters.entry((kind, letter)).or_default() += 1;
        let identified = judgement.verdict.identified().map(|hypothesis| &hypothesis.sum);
        let is_right = identified.is_some_and(|sum| truth.counts_as(sum));
        if let Some(sum) = identified {
            if !is_right {
                self.wrong.push(format!("{name}: {truth} is called {sum}"));
            } else if !kind.is_sum() {
                *self.equals.entry(kind).or_default() += 1;
            }
            self.without_families(chip, truth, judgement);
        }
        if kind == HiddenKind::Dead && letter != 'E' {
            self.lacking.push(format!("{name}: dead {truth} has verdict {}", verdict(judgement)));
        }
        if kind.is_sum() {
            self.sums.count(true, is_right);
        }
        if truth.is_identifiable(&chip.identifiability) {
            self.identifiable.count(true, is_right);
            if !is_right {
                self.missed.push(format!("{name}: {truth} has verdict {}", verdict(judgement)));
            }
        }
        if kind != HiddenKind::Dead {
            self.judging_times.push(event.judging_time);
            let has_mask = truth.has_mask(&judgement.mask);
            self.masks.count(true, has_mask);
            if !has_mask {
                self.wrong_masks
                    .push(format!("{name}: {truth}, {kind} {letter}: found {:?}", judgement.mask));
            }
        }
        if kind.is_sum() {
            self.calibrate(truth, judgement, name);
        }
        self.threshold.add(ThresholdScore::of_event(&chip.table, observed, truth, identified));
    }

    fn calibrate(&mut self, truth: &HiddenTruth<'_>, judgement: &Judgement, name: &str) {
        let (certainty, hypotheses) = match &judgement.verdict {
            Identification::Identified(hypothesis) => {
                (Certainty::Identified, std::slice::from_ref(hypothesis))
            }
            Identification::Ambiguous(ambiguity) => {
                let certainty = match (ambiguity.not_listed, ambiguity.hypotheses.len()) {
                    (0, 1) => Certainty::Doubted,
                    (0, 2..=3) => Certainty::Few,
                    (0, _) => Certainty::Many,
                    _ => Certainty::NotAllListed,
                };
                (certainty, ambiguity.hypotheses.as_slice())
            }
            _ => {
                self.lacking.push(format!("{name}: {truth} has verdict {}", verdict(judgement)));
                return;
            }
        };
        let calibration = self.calibration.entry(certainty).or_default();
        let hidden = hidden_concepts(&judgement.verdict);
        let is_right = |hypothesis: &Hypothesis| truth.counts_as(&hypothesis.sum);
        let first = hypotheses.first().is_some_and(is_right);
        let some = hypotheses.iter().any(|hypothesis| {
            let more = hidden.iter().map(|concept| (*concept, TermWeight::One));
            let terms =
                |more: (Concept, TermWeight)| hypothesis.sum.terms().iter().copied().chain([more]).collect();
            is_right(hypothesis) || more.map(terms).any(|terms| truth.counts_as(&ConceptSum::new(terms)))
        });
        calibration.answers += 1;
        calibration.first += usize::from(first);
        calibration.some += usize::from(some);
        if !some {
            self.lacking.push(format!("{name}: {truth} has verdict {}", verdict(judgement)));
        }
    }

    fn without_families(&mut self, chip: &HiddenChip, truth: &HiddenTruth<'_>, judgement: &Judgement) {
        let tally = &mut self.families;
        for check in leave_one_family_out(&chip.table, judgement) {
            tally.checks += 1;
            let outcome = match check.outcome {
                FamilyOutcome::Undecided(_) => &mut tally.undecided,
                FamilyOutcome::Identified { sum, predicts } => match (truth.counts_as(&sum), predicts) {
                    (true, true) => &mut tally.right,
                    (true, false) => &mut tally.not_predicted,
                    (false, false) => &mut tally.refuted,
                    (false, true) => &mut tally.wrong,
                },
            };
            *outcome += 1;
        }
    }

    /// Adds another tally.
    pub(crate) fn add(&mut self, other: Tally) {
        for (key, count) in other.letters {
            *self.letters.entry(key).or_default() += count;
        }
        for (kind, count) in other.equals {
            *self.equals.entry(kind).or_default() += count;
        }
        for (certainty, counts) in other.calibration {
            let own = self.calibration.entry(certainty).or_default();
            own.answers += counts.answers;
            own.first += counts.first;
            own.some += counts.some;
        }
        self.wrong.extend(other.wrong);
        self.missed.extend(other.missed);
        self.lacking.extend(other.lacking);
        self.wrong_masks.extend(other.wrong_masks);
        self.shuffled_identified.extend(other.shuffled_identified);
        self.sums.add(other.sums);
        self.identifiable.add(other.identifiable);
        self.masks.add(other.masks);
        self.threshold.add(other.threshold);
        self.shuffled += other.shuffled;
        self.families.add(other.families);
        self.tables += other.tables;
        self.codes += other.codes;
        self.sweep_time += other.sweep_time;
        self.judging_times.extend(other.judging_times);
    }

    /// Verdicts A that are wrong, each as a sentence.
    pub(crate) fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Sums that no hypothesis of their verdict explains, and dead codes that are not E, each as a sentence.
    pub(crate) fn lacking(&self) -> &[String] {
        &self.lacking
    }

    /// The median time of judging a live event; 0 if there is none.
    pub(crate) fn judging_time(&self) -> Duration {
        let mut times = self.judging_times.clone();
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }

    /// The number of verdicts A with shuffled labels.
    pub(crate) const fn shuffled_identified(&self) -> usize {
        self.shuffled_identified.len()
    }

    /// The number of live events.
    pub(crate) fn live(&self) -> usize {
        self.counted(|kind, _| kind != HiddenKind::Dead)
    }

    /// The number of verdicts A.
    pub(crate) fn identified(&self) -> usize {
        self.counted(|_, letter| letter == 'A')
    }

    /// Dead codes, and codes that were found to be dead.
    pub(crate) fn dead(&self) -> Found {
        let is_dead = |kind| kind == HiddenKind::Dead;
        Found {
            wanted: self.counted(|kind, _| is_dead(kind)),
            found: self.counted(|_, letter| letter == 'E'),
            right: self.counted(|kind, letter| is_dead(kind) && letter == 'E'),
        }
    }

    /// The share of verdicts A that may be wrong, with 95 % confidence.
    pub(crate) fn error_bound(&self) -> f64 {
        error_bound_95(self.wrong.len(), self.identified())
    }

    fn counted(&self, is_wanted: impl Fn(HiddenKind, char) -> bool) -> usize {
        let wanted = self.letters.iter().filter(|((kind, letter), _)| is_wanted(*kind, *letter));
        wanted.map(|(_, count)| count).sum()
    }

    /// The limits that were missed, each with the events that missed it.
    pub(crate) fn missed_limits(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut none_of = |what: &str, events: &[String]| {
            if !events.is_empty() {
                missed.push(format!("{} {what}:\n  {}", events.len(), events.join("\n  ")));
            }
        };
        none_of("wrong verdicts A", &self.wrong);
        none_of("wrong masks", &self.wrong_masks);
        none_of("verdicts A with shuffled labels", &self.shuffled_identified);
        if self.identifiable.recall() < LEAST_RECALL {
            let recall = self.identifiable.recall();
            missed.push(format!(
                "recall {recall:.3}, at least {LEAST_RECALL} is required:\n  {}",
                self.missed.join("\n  ")
            ));
        }
        missed
    }
}

impl FamilyTally {
    fn add(&mut self, other: FamilyTally) {
        self.checks += other.checks;
        self.right += other.right;
        self.not_predicted += other.not_predicted;
        self.refuted += other.refuted;
        self.wrong += other.wrong;
        self.undecided += other.undecided;
    }
}

/// Concepts that a verdict B says may be counted too.
fn hidden_concepts(verdict: &Identification) -> Vec<Concept> {
    let Identification::Ambiguous(ambiguity) = verdict else { return Vec::new() };
    let hidden = |doubt: &Doubt| match doubt {
        Doubt::Hidden(concept) => Some(*concept),
        _ => None,
    };
    ambiguity.doubts.iter().filter_map(hidden).collect()
}

fn verdict(judgement: &Judgement) -> String {
    let letter = judgement.verdict.letter();
    match &judgement.verdict {
        Identification::Ambiguous(ambiguity) => {
            let sums: Vec<String> =
                ambiguity.hypotheses.iter().take(3).map(|one| one.sum.to_string()).collect();
            let doubts: Vec<String> = ambiguity.doubts.iter().map(ToString::to_string).collect();
            let more = ambiguity.hypotheses.len() + ambiguity.not_listed - sums.len();
            format!("{letter}: {} and {more} more; {}", sums.join(" or "), doubts.join(", "))
        }
        Identification::Unexplained(response) => match &response.refuted {
            Some(hypothesis) => format!("{letter}: refuted {}", hypothesis.sum),
            None => format!("{letter}: no sum fits"),
        },
        Identification::Irregular(irregularity) => format!("{letter}: {irregularity:?}"),
        _ => letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missed_limit_is_named_with_its_events() {
        let mut tally = Tally::default();
        assert_eq!(tally.missed_limits(), [""; 0], "nothing was judged");
        tally.wrong.push("event 0x1: loads is called stores".into());
        tally.wrong_masks.push("event 0x2".into());
        tally.shuffled_identified.push("event 0x3".into());
        tally.identifiable = Found { wanted: 10, found: 8, right: 8 };
        let missed = tally.missed_limits();
        assert_eq!(missed.len(), 4, "{missed:#?}");
        assert!(missed[0].starts_with("1 wrong verdicts A:\n  event 0x1"));
        assert!(missed.iter().any(|limit| limit.starts_with("recall 0.800")));
    }

    #[test]
    fn nine_of_ten_are_enough() {
        let identifiable = Found { wanted: 10, found: 9, right: 9 };
        assert_eq!(Tally { identifiable, ..Tally::default() }.missed_limits(), [""; 0]);
    }
}
