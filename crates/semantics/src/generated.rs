//! Hidden tables: unseen semantics, from a seed.
//!
//! A table has every kind of event that a chip can have, plain ones and ones that no weighted sum explains,
//! so that a method that explains events can be judged by its answers.

use std::ops::Range;

use cyclometer_core::concept::Nature;
use cyclometer_core::{Concept, CounterId, CounterMask, Random};

use crate::meaning::{ConceptTerm, CountUnit, CountingRule, InterruptNoise, Meaning, Weight};
use crate::table::{EventSemantics, Semantics};

/// The number of events of each kind in a generated table. Codes that are left are dead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SemanticsShape {
    /// The codes, live and dead.
    pub codes: Range<u32>,
    /// The counters of the chip; events have random parts of them.
    pub counters: CounterMask,
    /// The concepts that events count.
    pub concepts: Vec<Concept>,
    /// One concept, each event once.
    pub singles: usize,
    /// Sums of two or three concepts.
    pub sums: usize,
    /// One concept, a quarter, half, twice or four times.
    pub scaled: usize,
    /// The same as an event before.
    pub duplicates: usize,
    /// One concept with events of wrong paths.
    pub speculative: usize,
    /// One concept with a count for each interrupt, or some in a million cycles.
    pub noisy: usize,
    /// One concept, at most so many of an iteration.
    pub saturating: usize,
    /// Cycles or iterations with so many events, and edges.
    pub thresholds: usize,
    /// Events whose counts depend on what was before.
    pub states: usize,
    /// Durations: concepts of which a kernel foretells no number.
    pub durations: usize,
    /// Events that count differently on different counters.
    pub differing: usize,
}

impl SemanticsShape {
    /// A table of 255 codes, about a third of them live.
    pub fn of(counters: CounterMask, concepts: &[Concept]) -> SemanticsShape {
        SemanticsShape {
            codes: 1..256,
            counters,
            concepts: concepts.to_vec(),
            singles: 24,
            sums: 16,
            scaled: 6,
            duplicates: 6,
            speculative: 5,
            noisy: 5,
            saturating: 4,
            thresholds: 5,
            states: 5,
            durations: 8,
            differing: 2,
        }
    }

    /// The number of live events, codes permitting.
    pub fn live(&self) -> usize {
        let plain = self.singles + self.sums + self.scaled + self.duplicates + self.noisy;
        let other = self.speculative + self.saturating + self.thresholds + self.states + self.durations;
        plain + other + self.differing
    }
}

impl Semantics {
    /// The table of a seed: the same for the same seed and shape. Kinds that the shape's concepts do not
    /// allow are left out.
    pub fn generated(seed: u64, shape: &SemanticsShape) -> Semantics {
        let mut generator = Generator { random: Random::seeded(seed), shape, meanings: Vec::new() };
        generator.meanings();
        let rows = generator.rows();
        // Each code is given to one event, whose rows share no counter.
        Semantics::new(&rows).unwrap_or_default()
    }
}

/// The meaning of an event on some counters, and the one on the others.
#[derive(Clone, Copy)]
struct HiddenEvent {
    meaning: Meaning,
    elsewhere: Option<Meaning>,
}

struct Generator<'a> {
    random: Random,
    shape: &'a SemanticsShape,
    meanings: Vec<HiddenEvent>,
}

impl Generator<'_> {
    fn meanings(&mut self) {
        let shape = self.shape;
        self.add(shape.singles, Generator::single);
        self.add(shape.sums, Generator::sum);
        self.add(shape.scaled, Generator::scaled);
        self.add(shape.speculative, Generator::speculative);
        self.add(shape.noisy, Generator::noisy);
        self.add(shape.saturating, Generator::saturating);
        self.add(shape.thresholds, Generator::threshold);
        self.add(shape.states, Generator::state);
        self.add(shape.durations, Generator::duration);
        self.add(shape.duplicates, Generator::duplicate);
        for _ in 0..shape.differing {
            if let (Some(meaning), elsewhere) = (self.single(), self.scaled()) {
                self.meanings.push(HiddenEvent { meaning, elsewhere });
            }
        }
    }

    fn add(&mut self, events: usize, kind: fn(&mut Self) -> Option<Meaning>) {
        for _ in 0..events {
            if let Some(meaning) = kind(self) {
                self.meanings.push(HiddenEvent { meaning, elsewhere: None });
            }
        }
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> Option<T> {
        items.get(self.random.below(items.len())).copied()
    }

    fn concept(&mut self) -> Option<Concept> {
        let known =
            |concept: &Concept| concept.nature() != Nature::Duration && *concept != Concept::Interrupts;
        let concepts: Vec<Concept> = self.shape.concepts.iter().copied().filter(known).collect();
        self.one_of(&concepts)
    }

    fn single(&mut self) -> Option<Meaning> {
        self.concept().map(|concept| Meaning::sum(&[concept]))
    }

    fn sum(&mut self) -> Option<Meaning> {
        let mut concepts = Vec::new();
        let wanted = 2 + self.random.below(2);
        // A concept that is drawn again is not taken again.
        for _ in 0..4 * wanted {
            let concept = self.concept()?;
            if concepts.len() < wanted && !concepts.contains(&concept) {
                concepts.push(concept);
            }
        }
        (concepts.len() >= 2).then(|| Meaning::sum(&concepts))
    }

    fn scaled(&mut self) -> Option<Meaning> {
        let quarters = self.one_of(&[1, 2, 8, 16])?;
        let term = ConceptTerm { concept: self.concept()?, weight: Weight::quarters(quarters)? };
        Meaning::weighted(&[term])
    }

    fn speculative(&mut self) -> Option<Meaning> {
        let events = 200 + self.random.below(2800);
        self.single().map(|meaning| meaning.with_wrong_paths(events as u16))
    }

    fn noisy(&mut self) -> Option<Meaning> {
        let per_interrupt = 1 + self.random.below(2) as u16;
        let noise = self.one_of(&[
            InterruptNoise { per_interrupt, per_million_cycles: 0 },
            InterruptNoise { per_interrupt, per_million_cycles: 3 },
        ])?;
        self.single().map(|meaning| meaning.with_noise(noise))
    }

    fn saturating(&mut self) -> Option<Meaning> {
        let events = 1 + self.random.below(3) as u32;
        self.single().map(|meaning| meaning.by(CountingRule::AtMost { events, per: CountUnit::Iteration }))
    }

    fn threshold(&mut self) -> Option<Meaning> {
        let events = 1 + self.random.below(3) as u32;
        let rule = |per, below, edges| CountingRule::Threshold { events, per, below, edges };
        let rule = self.one_of(&[
            rule(CountUnit::Iteration, false, false),
            rule(CountUnit::Cycle, false, false),
            rule(CountUnit::Cycle, true, false),
            rule(CountUnit::Cycle, false, true),
        ])?;
        self.single().map(|meaning| meaning.by(rule))
    }

    fn state(&mut self) -> Option<Meaning> {
        let events = 1 << (6 + self.random.below(10));
        let concept = self.concept()?;
        let rules = [CountingRule::Alternates { events }, CountingRule::After { concept, events }];
        let rule = self.one_of(&rules)?;
        self.single().map(|meaning| meaning.by(rule))
    }

    fn duration(&mut self) -> Option<Meaning> {
        let durations: Vec<Concept> =
            Concept::ALL.iter().copied().filter(|concept| concept.nature() == Nature::Duration).collect();
        self.one_of(&durations).map(|concept| Meaning::sum(&[concept]))
    }

    fn duplicate(&mut self) -> Option<Meaning> {
        let before: Vec<Meaning> = self.meanings.iter().map(|event| event.meaning).collect();
        self.one_of(&before)
    }

    /// A part of the chip's counters: all, one, or some.
    fn mask(&mut self) -> CounterMask {
        let counters: Vec<CounterId> = general(self.shape.counters).collect();
        let kept = match self.random.below(3) {
            0 => counters.len(),
            1 => 1,
            _ => 1 + self.random.below(counters.len()),
        };
        let order = self.random.permutation(counters.len());
        order.into_iter().take(kept).map(|at| counters[at]).collect()
    }

    /// Gives each event a code and counters.
    fn rows(&mut self) -> Vec<EventSemantics> {
        let codes = (self.shape.codes.end.saturating_sub(self.shape.codes.start)) as usize;
        let order = self.random.permutation(codes);
        let mut rows = Vec::new();
        for (at, event) in order.into_iter().zip(self.meanings.clone()) {
            let (code, counters) = (self.shape.codes.start + at as u32, self.mask());
            let others = general(self.shape.counters.without(counters)).collect();
            rows.push(EventSemantics { code, counters, meaning: event.meaning });
            if let Some(meaning) = event.elsewhere {
                rows.push(EventSemantics { code, counters: others, meaning });
            }
        }
        rows.retain(|row| !row.counters.is_empty());
        rows
    }
}

fn general(counters: CounterMask) -> impl Iterator<Item = CounterId> {
    counters.iter().filter(|counter| matches!(counter, CounterId::General(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn shape() -> SemanticsShape {
        SemanticsShape::of(CounterMask::from_bits(0x3fc, 0b11), Concept::ALL)
    }

    #[test]
    fn a_table_has_the_events_of_its_shape_and_the_rest_is_dead() {
        let shape = shape();
        let table = Semantics::generated(5, &shape);
        let codes: BTreeSet<u32> = table.rows().iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), shape.live());
        assert!(codes.iter().all(|code| (1..256).contains(code)));
        let has = |kind: fn(&Meaning) -> bool| table.rows().iter().filter(|row| kind(&row.meaning)).count();
        assert!(has(|meaning| meaning.wrong_paths != 0) >= shape.speculative);
        assert!(has(|meaning| meaning.noise != InterruptNoise::default()) >= shape.noisy);
        assert!(has(|meaning| matches!(meaning.rule, CountingRule::AtMost { .. })) >= shape.saturating);
        assert!(has(|meaning| matches!(meaning.rule, CountingRule::Threshold { .. })) >= shape.thresholds);
        assert!(has(|meaning| meaning.terms().count() > 1) >= shape.sums);
        assert_eq!(has(Meaning::is_dead), 0);
    }

    #[test]
    fn a_shape_that_cannot_be_filled_gives_a_smaller_table() {
        let empty = SemanticsShape { concepts: Vec::new(), durations: 0, ..shape() };
        assert_eq!(Semantics::generated(1, &empty), Semantics::default());
        let short = SemanticsShape { codes: 10..13, ..shape() };
        let table = Semantics::generated(1, &short);
        assert!(table.rows().iter().all(|row| (10..13).contains(&row.code)));
        let none = SemanticsShape { counters: CounterMask::EMPTY, ..shape() };
        assert_eq!(Semantics::generated(1, &none), Semantics::default());
    }

    proptest! {
        #[test]
        fn a_seed_decides_the_table_which_survives_its_file(seed: u64) {
            let table = Semantics::generated(seed, &shape());
            prop_assert!(table.rows().len() >= shape().live());
            prop_assert_eq!(&table, &Semantics::generated(seed, &shape()));
            prop_assert_ne!(&table, &Semantics::generated(seed ^ 1, &shape()));
            prop_assert_eq!(Semantics::parse(table.to_text().as_bytes()).unwrap(), table);
        }
    }
}
