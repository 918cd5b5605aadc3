//! The meaning of an event: which concepts a counter adds up, and by which rule.

use cyclometer_core::Concept;

use crate::activity::{Activity, ActivityProgress, FRACTION_BITS, quotient, spread};

/// The most concepts of a sum.
pub const MOST_TERMS: usize = 8;

/// A weight in quarters, from 1/4 to 4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Weight(u8);

impl Weight {
    /// Every event once.
    pub const ONE: Weight = Weight(4);

    /// The most quarters.
    pub const MOST_QUARTERS: u8 = 16;

    /// So many quarters; `None` unless they are 1 to 16.
    pub const fn quarters(quarters: u8) -> Option<Weight> {
        if quarters == 0 || quarters > Weight::MOST_QUARTERS { None } else { Some(Weight(quarters)) }
    }

    /// The weight as a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / 4.0
    }

    /// The weight in quarters.
    pub const fn in_quarters(self) -> u8 {
        self.0
    }

    const fn in_thousandths(self) -> u64 {
        self.0 as u64 * 250
    }
}

/// A concept and its weight in a sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConceptTerm {
    /// The concept.
    pub concept: Concept,
    /// The number of counts for each of its events.
    pub weight: Weight,
}

/// The unit of which a rule looks at the events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountUnit {
    /// A cycle.
    Cycle,
    /// An iteration of the activity, at its end.
    Iteration,
}

/// The counts that follow from the events of the sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CountingRule {
    /// Each event counts.
    #[default]
    Events,
    /// Cycles or iterations count, by the number of events in them.
    Threshold {
        /// The least number of events.
        events: u32,
        /// The unit that counts.
        per: CountUnit,
        /// Units with fewer events count instead.
        below: bool,
        /// Only the first of consecutive such units counts.
        edges: bool,
    },
    /// At most so many events of a unit count.
    AtMost {
        /// The number of events.
        events: u32,
        /// The unit.
        per: CountUnit,
    },
    /// So many events count, the next so many do not, and so on.
    Alternates {
        /// The number of events, at least 1.
        events: u64,
    },
    /// Events count once a concept has happened so often since the thread began.
    After {
        /// The concept.
        concept: Concept,
        /// Its events.
        events: u64,
    },
}

/// Counts that no concept explains and that only ever add.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InterruptNoise {
    /// Counts added for each interrupt.
    pub per_interrupt: u16,
    /// Counts added in a million cycles, at even distances.
    pub per_million_cycles: u16,
}

/// The counts of a counter that has an event. The default counts nothing: a dead event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meaning {
    terms: [Option<ConceptTerm>; MOST_TERMS],
    /// Events of wrong paths that are added for a thousand mispredicted branches.
    pub wrong_paths: u16,
    /// The rule.
    pub rule: CountingRule,
    /// Counts beside the rule.
    pub noise: InterruptNoise,
}

/// More than any meaning counts in a cycle: eight concepts, 16 times each, with a weight of 4, the events of
/// wrong paths of 16 mispredicted branches, and noise.
const MOST_COUNTS_A_CYCLE: u128 = 2048;

/// Counts are computed in thousandths, which both quarters and wrong paths have.
const THOUSANDTHS: u64 = 1000;

impl Meaning {
    /// Counts nothing, whatever happens.
    pub const DEAD: Meaning = Meaning {
        terms: [None; MOST_TERMS],
        wrong_paths: 0,
        rule: CountingRule::Events,
        noise: InterruptNoise { per_interrupt: 0, per_million_cycles: 0 },
    };

    /// The sum of concepts, each event once.
    ///
    /// # Panics
    ///
    /// If there are more than [`MOST_TERMS`].
    pub const fn sum(concepts: &[Concept]) -> Meaning {
        let mut meaning = Meaning::DEAD;
        let mut at = 0;
        while at < concepts.len() {
            meaning.terms[at] = Some(ConceptTerm { concept: concepts[at], weight: Weight::ONE });
            at += 1;
        }
        meaning
    }

    /// The weighted sum; `None` if it has more than [`MOST_TERMS`] terms, or a concept twice.
    pub fn weighted(terms: &[ConceptTerm]) -> Option<Meaning> {
        let twice = |at: usize| terms[..at].iter().any(|term| term.concept == terms[at].concept);
        if terms.len() > MOST_TERMS || (0..terms.len()).any(twice) {
            return None;
        }
        let mut meaning = Meaning::DEAD;
        meaning.terms.iter_mut().zip(terms).for_each(|(place, term)| *place = Some(*term));
        Some(meaning)
    }

    /// The same with so many events of wrong paths for a thousand mispredicted branches: a speculative twin.
    #[must_use]
    pub const fn with_wrong_paths(mut self, events: u16) -> Meaning {
        self.wrong_paths = events;
        self
    }

    /// The same by another rule.
    #[must_use]
    pub const fn by(mut self, rule: CountingRule) -> Meaning {
        self.rule = rule;
        self
    }

    /// The same with noise.
    #[must_use]
    pub const fn with_noise(mut self, noise: InterruptNoise) -> Meaning {
        self.noise = noise;
        self
    }

    /// The terms of the sum.
    pub fn terms(&self) -> impl Iterator<Item = ConceptTerm> {
        self.terms.into_iter().map_while(|term| term)
    }

    /// Whether it never counts.
    pub fn is_dead(&self) -> bool {
        self.terms[0].is_none() && self.wrong_paths == 0 && self.noise == InterruptNoise::default()
    }

    /// Whether the terms explain every count but noise: each event of the sum counts, without wrong paths.
    pub fn is_plain_sum(&self) -> bool {
        self.terms[0].is_some() && self.rule == CountingRule::Events && self.wrong_paths == 0
    }

    /// Whether it counts each event of these concepts once, and nothing else.
    pub fn is_sum_of(&self, concepts: &[Concept]) -> bool {
        let ones = self.terms().all(|term| term.weight == Weight::ONE);
        let same = self.terms().map(|term| term.concept).eq(concepts.iter().copied());
        self.is_plain_sum() && self.noise == InterruptNoise::default() && ones && same
    }

    /// Concepts with their weights in thousandths.
    fn weights(&self) -> impl Iterator<Item = (Concept, u64)> {
        let wrong = (Concept::Mispredicts, u64::from(self.wrong_paths));
        let terms = self.terms().map(|term| (term.concept, term.weight.in_thousandths()));
        terms.chain((self.wrong_paths != 0).then_some(wrong))
    }

    /// The count in the next `cycles`, all of the same activity.
    pub fn counted(&self, progress: &ActivityProgress, activity: &Activity, cycles: u64) -> u64 {
        let at = Position { meaning: self, progress, activity };
        at.by_rule(cycles).saturating_add(at.noise(cycles))
    }

    /// The fewest cycles, at most `limit`, in which it counts at least `target`; `None` if it does not.
    pub fn cycles_until(
        &self,
        progress: &ActivityProgress,
        activity: &Activity,
        target: u128,
        limit: u64,
    ) -> Option<u64> {
        if target > MOST_COUNTS_A_CYCLE * (u128::from(limit) + 1) {
            return None;
        }
        first_cycle(limit, |cycles| u128::from(self.counted(progress, activity, cycles)) >= target)
    }

    /// The count of an interrupt that is about to be added to `progress`.
    pub fn counted_at_interrupt(&self, progress: &ActivityProgress, activity: &Activity) -> u64 {
        let own: u64 =
            self.weights().filter(|(concept, _)| *concept == Concept::Interrupts).map(|(_, w)| w).sum();
        let counted = match self.rule {
            CountingRule::Events if own > 0 => {
                let before = Position { meaning: self, progress, activity }.thousandths(0);
                quotient(before + u128::from(own), THOUSANDTHS) - quotient(before, THOUSANDTHS)
            }
            _ => 0,
        };
        counted as u64 + u64::from(self.noise.per_interrupt)
    }
}

/// The fewest cycles, at most `limit`, for which a condition holds that holds for all larger numbers.
fn first_cycle(limit: u64, is_true: impl Fn(u64) -> bool) -> Option<u64> {
    if !is_true(limit) {
        return None;
    }
    let (mut below, mut enough) = (0, limit);
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if is_true(middle) { enough = middle } else { below = middle }
    }
    Some(enough)
}

/// A meaning, with the activity that it counts and the progress of that.
struct Position<'a> {
    meaning: &'a Meaning,
    progress: &'a ActivityProgress,
    activity: &'a Activity,
}

impl Position<'_> {
    fn by_rule(&self, cycles: u64) -> u64 {
        match self.meaning.rule {
            CountingRule::Events => self.events(cycles),
            CountingRule::Threshold { events, per, below, edges } => {
                self.threshold(events, per, below, edges, cycles)
            }
            CountingRule::AtMost { events, per } => {
                let units = self.units(per, cycles);
                if self.whole_rate(per) >= events.into() {
                    u64::from(events).saturating_mul(units.number)
                } else {
                    self.events(cycles)
                }
            }
            CountingRule::Alternates { events } => {
                let counted = |all: u128| alternating(all, events.max(1).into());
                (counted(self.events_since_begin(cycles)) - counted(self.events_since_begin(0))) as u64
            }
            CountingRule::After { concept, events } => self.after(concept, events, cycles),
        }
    }

    /// Thousandths of counts since the beginning, of whole events, when `cycles` more have passed.
    fn thousandths(&self, cycles: u64) -> u128 {
        let of = |(concept, weight): (Concept, u64)| {
            u128::from(weight) * u128::from(self.progress.events_after(self.activity, concept, cycles))
        };
        self.meaning.weights().map(of).sum()
    }

    fn events_since_begin(&self, cycles: u64) -> u128 {
        quotient(self.thousandths(cycles), THOUSANDTHS)
    }

    fn events(&self, cycles: u64) -> u64 {
        (self.events_since_begin(cycles) - self.events_since_begin(0)) as u64
    }

    fn after(&self, concept: Concept, events: u64, cycles: u64) -> u64 {
        let has_happened = |cycles| self.progress.events_after(self.activity, concept, cycles) >= events;
        let start = if has_happened(0) { Some(0) } else { first_cycle(cycles, has_happened) };
        start.map_or(0, |start| (self.events_since_begin(cycles) - self.events_since_begin(start)) as u64)
    }

    fn noise(&self, cycles: u64) -> u64 {
        let each = u128::from(self.meaning.noise.per_million_cycles);
        if each == 0 {
            return 0;
        }
        let after = |cycles| {
            let passed = self.progress.events_after(self.activity, Concept::Cycles, cycles);
            each * u128::from(passed) / 1_000_000
        };
        (after(cycles) - after(0)) as u64
    }

    /// The rate of the sum in an iteration, in thousandths of 2⁻³².
    fn rate(&self) -> u128 {
        self.meaning
            .weights()
            .map(|(concept, w)| u128::from(w) * u128::from(self.activity.fixed(concept)))
            .sum()
    }

    fn unit_cycles(&self, per: CountUnit) -> u64 {
        match per {
            CountUnit::Cycle => self.activity.cycles().into(),
            CountUnit::Iteration => 1,
        }
    }

    /// The whole part of the events of a unit.
    fn whole_rate(&self, per: CountUnit) -> u128 {
        whole(quotient(self.rate(), self.unit_cycles(per)))
    }

    /// The units that end in the next `cycles`, and the events of the sum in them.
    fn units(&self, per: CountUnit, cycles: u64) -> Units {
        let length = self.activity.cycles();
        let begun: u128 =
            self.meaning.weights().map(|(concept, w)| u128::from(w) * self.progress.begun(concept)).sum();
        let (now, then) = (self.progress.since_begin(0), self.progress.since_begin(cycles));
        // Whole iterations only: an iteration counts at its end.
        let (now, then, number) = match per {
            CountUnit::Cycle => (now, then, cycles),
            CountUnit::Iteration => {
                let iterations = then / u128::from(length);
                (0, iterations * u128::from(length), iterations as u64)
            }
        };
        let level = |passed| whole(begun + spread(self.rate(), passed, length));
        Units { number, events: level(then) - level(now) }
    }

    /// Each unit has as many events as the rate's whole part, or one more.
    fn threshold(&self, least: u32, per: CountUnit, below: bool, edges: bool, cycles: u64) -> u64 {
        let (whole, least) = (self.whole_rate(per), u128::from(least));
        let units = self.units(per, cycles);
        let at_least = match least {
            least if least <= whole => units.number,
            least if least > whole + 1 => 0,
            _ => (units.events - whole * u128::from(units.number)) as u64,
        };
        let meeting = if below { units.number - at_least } else { at_least };
        // Units that meet the condition and those that do not are spread evenly: each run of the rarer is
        // one unit.
        let one = u128::from(self.unit_cycles(per) * THOUSANDTHS) << FRACTION_BITS;
        let is_rarer = whole < least && 2 * (self.rate() % one) < one;
        match edges {
            true if is_rarer == below => units.number - meeting,
            _ => meeting,
        }
    }
}

/// Whole events of thousandths in steps of 2⁻³².
fn whole(thousandths: u128) -> u128 {
    quotient(thousandths >> FRACTION_BITS, THOUSANDTHS)
}

struct Units {
    number: u64,
    events: u128,
}

/// The events that count of `all`, where each `events` that count are followed by as many that do not.
fn alternating(all: u128, events: u128) -> u128 {
    all / (2 * events) * events + (all % (2 * events)).min(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOADS: Meaning = Meaning::sum(&[Concept::Loads]);

    fn activity(loads: f64, stores: f64) -> Activity {
        Activity::IDLE.with(Concept::Loads, loads).with(Concept::Stores, stores)
    }

    fn of(meaning: Meaning, activity: &Activity, cycles: u64) -> u64 {
        meaning.counted(&ActivityProgress::default(), activity, cycles)
    }

    const fn cycles(events: u32, below: bool, edges: bool) -> CountingRule {
        CountingRule::Threshold { events, per: CountUnit::Cycle, below, edges }
    }

    #[test]
    fn a_threshold_counts_cycles_and_not_events() {
        let activity = activity(2.5, 0.0);
        let counted = |events, below| of(LOADS.by(cycles(events, below, false)), &activity, 1000);
        assert_eq!(of(LOADS, &activity, 1000), 2500);
        assert_eq!([1, 2, 3, 4].map(|events| counted(events, false)), [1000, 1000, 500, 0]);
        assert_eq!([2, 3, 4].map(|events| counted(events, true)), [0, 500, 1000]);
    }

    #[test]
    fn edges_are_the_beginnings_of_runs() {
        let edges = |rate, below| of(LOADS.by(cycles(1, below, true)), &activity(rate, 0.0), 1000);
        // A quarter of the cycles have a load: 250 runs of them, and as many runs of cycles without.
        assert_eq!([edges(0.25, false), edges(0.25, true)], [250, 250]);
        assert_eq!([edges(0.75, false), edges(0.75, true)], [250, 250]);
        assert_eq!([edges(0.0, false), edges(1.0, true)], [0, 0]);
    }

    #[test]
    fn weights_are_quarters_of_whole_events() {
        let term = |concept, quarters| ConceptTerm { concept, weight: Weight::quarters(quarters).unwrap() };
        let activity = Activity::of_iteration(3, &[(Concept::Loads, 3.0), (Concept::Stores, 1.0)]);
        let sum = Meaning::weighted(&[term(Concept::Loads, 1), term(Concept::Stores, 8)]).unwrap();
        assert_eq!(of(sum, &activity, 3 * 100), 75 + 200);
        assert_eq!(of(sum, &activity, 3), 2, "three quarters of a count are none");
        assert!([0, 17].iter().all(|quarters| Weight::quarters(*quarters).is_none()));
        assert!(Meaning::weighted(&[term(Concept::Loads, 1); 2]).is_none(), "one concept twice");
    }

    #[test]
    fn saturation_and_thresholds_of_an_iteration_look_at_the_iteration() {
        let activity = Activity::of_iteration(10, &[(Concept::Loads, 6.0)]);
        let at_most = |events, per| of(LOADS.by(CountingRule::AtMost { events, per }), &activity, 1005);
        assert_eq!([at_most(4, CountUnit::Iteration), at_most(7, CountUnit::Iteration)], [400, 603]);
        assert_eq!(at_most(4, CountUnit::Cycle), 603, "no cycle has four loads");
        let least = |events| {
            let rule =
                CountingRule::Threshold { events, per: CountUnit::Iteration, below: false, edges: false };
            of(LOADS.by(rule), &activity, 1009)
        };
        assert_eq!([least(1), least(6), least(7)], [100, 100, 0]);
    }

    #[test]
    fn state_makes_counts_depend_on_what_was_before() {
        let activity = activity(1.0, 0.5);
        let counted = |rule, cycles| of(LOADS.by(rule), &activity, cycles);
        let alternates = CountingRule::Alternates { events: 100 };
        assert_eq!([50, 100, 150, 200, 250].map(|n| counted(alternates, n)), [50, 100, 100, 100, 150]);
        let after = CountingRule::After { concept: Concept::Stores, events: 100 };
        assert_eq!([199, 200, 300].map(|n| counted(after, n)), [0, 0, 100]);
        let never = CountingRule::After { concept: Concept::Calls, events: 1 };
        assert_eq!(counted(never, 10_000), 0);
    }

    #[test]
    fn wrong_paths_add_events_for_mispredicted_branches() {
        let activity = Activity::of_iteration(10, &[(Concept::Loads, 4.0), (Concept::Mispredicts, 0.5)]);
        assert_eq!(of(LOADS.with_wrong_paths(2500), &activity, 10_000), 4000 + 1250);
        assert!(!LOADS.with_wrong_paths(1).is_plain_sum() && LOADS.is_plain_sum());
    }

    #[test]
    fn no_meaning_counts_more_in_a_cycle_than_the_bound_that_spares_a_search() {
        let most = Weight::quarters(Weight::MOST_QUARTERS).unwrap();
        let mut concepts = vec![Concept::Mispredicts];
        concepts
            .extend(Concept::ALL.iter().copied().filter(|concept| *concept != Concept::Mispredicts).take(7));
        let terms: Vec<ConceptTerm> =
            concepts.iter().map(|concept| ConceptTerm { concept: *concept, weight: most }).collect();
        let noise = InterruptNoise { per_interrupt: 0, per_million_cycles: u16::MAX };
        let meaning = Meaning::weighted(&terms).unwrap().with_wrong_paths(u16::MAX).with_noise(noise);
        let busy = concepts.iter().fold(Activity::IDLE, |activity, concept| activity.with(*concept, 16.0));
        for cycles in [1, 1000] {
            let counted = u128::from(of(meaning, &busy, cycles));
            let found = meaning.cycles_until(&ActivityProgress::default(), &busy, counted, cycles);
            assert_eq!(found, Some(cycles), "{counted}");
        }
    }

    #[test]
    fn noise_only_adds_and_an_interrupt_counts_once() {
        let activity = activity(1.0, 0.0);
        let noisy = LOADS.with_noise(InterruptNoise { per_interrupt: 2, per_million_cycles: 5 });
        assert_eq!(of(noisy, &activity, 1_000_000), 1_000_005);
        let mut progress = ActivityProgress::default();
        assert_eq!(noisy.counted_at_interrupt(&progress, &activity), 2);
        assert_eq!(LOADS.counted_at_interrupt(&progress, &activity), 0);
        let interrupts = Meaning::sum(&[Concept::Interrupts]);
        assert_eq!(interrupts.counted_at_interrupt(&progress, &activity), 1);
        progress.interrupt();
        assert_eq!(progress.events(&activity, Concept::Interrupts), 1);
        assert_eq!(interrupts.counted(&progress, &activity, 1000), 0);
    }

    fn rules() -> impl Strategy<Value = CountingRule> {
        let unit = || prop_oneof![Just(CountUnit::Cycle), Just(CountUnit::Iteration)];
        prop_oneof![
            Just(CountingRule::Events),
            (0u32..6, unit(), any::<bool>(), any::<bool>()).prop_map(|(events, per, below, edges)| {
                CountingRule::Threshold { events, per, below, edges }
            }),
            (0u32..6, unit()).prop_map(|(events, per)| CountingRule::AtMost { events, per }),
            (1u64..500).prop_map(|events| CountingRule::Alternates { events }),
            (0u64..2000).prop_map(|events| CountingRule::After { concept: Concept::Stores, events }),
        ]
    }

    fn meanings() -> impl Strategy<Value = Meaning> {
        (1u8..=16, 1u8..=16, 0u16..3000, rules(), 0u16..900).prop_map(|(a, b, wrong, rule, noise)| {
            let term = |concept, n| ConceptTerm { concept, weight: Weight::quarters(n).unwrap() };
            Meaning::weighted(&[term(Concept::Loads, a), term(Concept::Stores, b)])
                .unwrap()
                .with_wrong_paths(wrong)
                .by(rule)
                .with_noise(InterruptNoise { per_interrupt: 1, per_million_cycles: noise })
        })
    }

    fn activities() -> impl Strategy<Value = Activity> {
        (1u32..30, 0.0f64..6.0, 0.0f64..2.0, 0.0f64..0.5).prop_map(|(cycles, loads, stores, misses)| {
            let of = |rate: f64| rate * f64::from(cycles);
            let amounts = [
                (Concept::Loads, of(loads)),
                (Concept::Stores, of(stores)),
                (Concept::Mispredicts, of(misses)),
            ];
            Activity::of_iteration(cycles, &amounts)
        })
    }

    proptest! {
        #[test]
        fn pieces_count_what_the_whole_counts(
            meaning in meanings(), activity in activities(), cuts in prop::collection::vec(1u64..5000, 1..20),
        ) {
            let whole = of(meaning, &activity, cuts.iter().sum());
            let (mut progress, mut pieces) = (ActivityProgress::default(), 0);
            for cut in &cuts {
                pieces += meaning.counted(&progress, &activity, *cut);
                progress.advance(&activity, *cut);
            }
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(progress.events(&activity, Concept::Cycles), cuts.iter().sum::<u64>());
        }

        #[test]
        fn pieces_of_two_activities_count_what_their_wholes_count(
            meaning in meanings(), first in activities(), second in activities(), cycles in 1u64..3000,
            cut in 0u64..3000,
        ) {
            let both = |cuts: &[u64]| {
                let (mut progress, mut pieces) = (ActivityProgress::default(), 0);
                for (activity, cuts) in [(&first, cuts), (&second, &[cycles])] {
                    for cut in cuts {
                        pieces += meaning.counted(&progress, activity, *cut);
                        progress.advance(activity, *cut);
                    }
                    progress.cut_iteration(activity);
                }
                pieces
            };
            let cut = cut.min(cycles);
            prop_assert_eq!(both(&[cycles]), both(&[cut, cycles - cut]));
        }

        #[test]
        fn a_cycle_without_events_is_no_reason_for_a_count(meaning in meanings(), cycles in 0u64..1000) {
            let quiet = Meaning { noise: InterruptNoise::default(), ..meaning };
            let below = matches!(meaning.rule, CountingRule::Threshold { below: true, .. });
            let none = matches!(meaning.rule, CountingRule::Threshold { events: 0, .. });
            prop_assume!(!below && !none);
            prop_assert_eq!(of(quiet, &Activity::IDLE, cycles), 0);
        }

        #[test]
        fn the_cycle_of_a_count_is_the_first_that_has_it(
            meaning in meanings(), activity in activities(), target in 1u128..10_000,
        ) {
            let progress = ActivityProgress::default();
            let counted = |cycles| u128::from(of(meaning, &activity, cycles));
            match meaning.cycles_until(&progress, &activity, target, 20_000) {
                Some(cycles) => prop_assert!(counted(cycles) >= target && counted(cycles - 1) < target),
                None => prop_assert!(counted(20_000) < target),
            }
        }
    }
}
