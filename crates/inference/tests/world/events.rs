//! Hidden events, and the counters that count them.

use cyclometer_core::concept::Nature;
use cyclometer_core::{Concept, CounterId, Random};
use cyclometer_inference::{
    ConceptSum, CounterObservations, EventObservations, Identifiability, KernelIndex, KernelTable,
    Observation, TermWeight,
};

/// The kind of a hidden event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HiddenKind {
    Single,
    Sum,
    Scaled,
    Duplicate,
    StallLike,
    OutsideVocabulary,
    WrongPaths,
    AtMostPerIteration,
    ThresholdPerIteration,
    Limit,
    After,
    Alternates,
    EveryOtherRun,
    Dead,
}

/// An event that nobody has seen.
#[derive(Clone, Debug)]
pub struct Hidden {
    pub kind: HiddenKind,
    /// The sum, if it is one or is made from one.
    pub sum: ConceptSum,
    /// A number that the kind needs.
    pub number: f64,
    /// Events for each interrupt.
    pub per_interrupt: u64,
    /// Counters that count it, as bits.
    pub mask: u64,
    seed: u64,
}

/// The counters of the machine.
pub const COUNTERS: u8 = 8;

/// Counts of hidden events, with the noise of a seed.
pub struct Machine<'a> {
    table: &'a KernelTable,
    /// For each concept and kernel the factor by which the core differs from the table.
    deviations: Vec<Vec<f64>>,
    random: Random,
    /// Interrupts in a million iterations.
    pub interrupts: f64,
    /// Relative noise of every reading.
    pub reading_noise: f64,
    pub repeats: usize,
    /// The smallest size.
    pub iterations: u64,
}

impl<'a> Machine<'a> {
    pub fn new(table: &'a KernelTable, seed: u64) -> Machine<'a> {
        let mut random = Random::seeded(seed);
        let deviations = Concept::ALL
            .iter()
            .map(|concept| {
                let kernels = table.kernels().iter();
                kernels
                    .map(|_| if exact(*concept) { 1.0 } else { 1.0 + 0.02 * signed(&mut random) })
                    .collect()
            })
            .collect();
        Machine {
            table,
            deviations,
            random,
            interrupts: 150.0,
            reading_noise: 0.0,
            repeats: 5,
            iterations: 1021,
        }
    }

    fn concept(&mut self) -> Concept {
        let counts = |concept: &Concept| concept.nature() != Nature::Duration;
        let concepts: Vec<Concept> = self.table.moved_concepts().filter(counts).collect();
        concepts[self.random.below(concepts.len())]
    }

    fn sum_of(&mut self, terms: usize, weights: &[TermWeight]) -> ConceptSum {
        let mut sum = ConceptSum::new(vec![]);
        while sum.terms().len() < terms {
            let weight = weights[self.random.below(weights.len())];
            let term = (self.concept(), weight);
            sum = ConceptSum::new(sum.terms().iter().copied().chain([term]).collect());
        }
        sum
    }

    /// A hidden event of a kind.
    pub fn hidden(&mut self, kind: HiddenKind) -> Hidden {
        let sum = match kind {
            HiddenKind::Sum => {
                let terms = 2 + self.random.below(2);
                self.sum_of(terms, &[TermWeight::One, TermWeight::One, TermWeight::One, TermWeight::Two])
            }
            HiddenKind::Scaled => self.sum_of(
                1,
                &[TermWeight::Quarter, TermWeight::Half, TermWeight::Two, TermWeight::Two, TermWeight::Four],
            ),
            _ => self.sum_of(1, &[TermWeight::One]),
        };
        let number = match kind {
            HiddenKind::WrongPaths => 0.2 + 2.8 * unit(&mut self.random),
            HiddenKind::AtMostPerIteration => [1.0, 2.0, 3.0][self.random.below(3)],
            HiddenKind::ThresholdPerIteration => [2.0, 3.0][self.random.below(2)],
            HiddenKind::Limit => 200.0 + 4000.0 * unit(&mut self.random),
            HiddenKind::After | HiddenKind::Alternates => f64::from(1u32 << (6 + self.random.below(8))),
            _ => 0.0,
        };
        let mask = match self.random.below(3) {
            0 => 0xff,
            1 => 1 << self.random.below(8),
            _ => 1 + self.random.below(254) as u64,
        };
        let per_interrupt = [0, 0, 1, 2][self.random.below(4)];
        Hidden { kind, sum, number, per_interrupt, mask, seed: self.random.word() }
    }

    /// The table of events of a machine with about as many of each kind as chips have.
    pub fn hidden_table(&mut self) -> Vec<Hidden> {
        use HiddenKind::*;
        let kinds = [
            (Single, 31),
            (Sum, 20),
            (Scaled, 6),
            (StallLike, 12),
            (OutsideVocabulary, 4),
            (WrongPaths, 5),
            (AtMostPerIteration, 4),
            (ThresholdPerIteration, 4),
            (Limit, 3),
            (After, 4),
            (Alternates, 4),
            (EveryOtherRun, 2),
            (Dead, 20),
        ];
        let mut events: Vec<Hidden> = Vec::new();
        for (kind, number) in kinds {
            for _ in 0..number {
                events.push(self.hidden(kind));
            }
        }
        for _ in 0..6 {
            let original = events[self.random.below(57)].clone();
            events.push(Hidden { kind: HiddenKind::Duplicate, ..original });
        }
        events
    }

    /// Events per iteration that the core makes of a sum.
    fn rate(&self, sum: &ConceptSum, kernel: usize) -> f64 {
        let term = |&(concept, weight): &(Concept, TermWeight)| {
            weight.factor() * self.table.column(concept)[kernel] * self.deviations[concept as usize][kernel]
        };
        sum.terms().iter().map(term).sum()
    }

    /// Events of a run.
    fn events(&self, hidden: &Hidden, kernel: usize, iterations: u64, run: usize) -> f64 {
        let n = iterations as f64;
        let rate = self.rate(&hidden.sum, kernel);
        // Random numbers that belong to the event and the kernel.
        let mut own = Random::seeded(hidden.seed ^ (kernel as u64) << 32);
        match hidden.kind {
            HiddenKind::Dead => 0.0,
            HiddenKind::StallLike => {
                let share = unit(&mut own);
                n * (1.0 + 5.0 * unit(&mut own)) * if share < 0.3 { 0.0 } else { share }
            }
            HiddenKind::OutsideVocabulary => {
                let moved = own.below(6) == 0;
                if moved { n * [0.5, 1.0, 2.0][own.below(3)] } else { 0.0 }
            }
            HiddenKind::WrongPaths => {
                n * (rate
                    + hidden.number
                        * self.rate(&ConceptSum::new(vec![(Concept::Mispredicts, TermWeight::One)]), kernel))
            }
            HiddenKind::AtMostPerIteration => n * rate.min(hidden.number),
            HiddenKind::ThresholdPerIteration => {
                if rate >= hidden.number {
                    n
                } else {
                    0.0
                }
            }
            HiddenKind::Limit => (n * rate).min(hidden.number),
            HiddenKind::After => (n * rate - hidden.number).max(0.0),
            HiddenKind::Alternates => {
                let all = n * rate;
                let pairs = (all / (2.0 * hidden.number)).floor();
                pairs * hidden.number + (all - 2.0 * pairs * hidden.number).min(hidden.number)
            }
            HiddenKind::EveryOtherRun => n * rate * (run % 2) as f64,
            _ => n * rate,
        }
    }

    /// Whether the event equals the sum in every kernel, so that no method can tell that it is none.
    pub fn looks_like_its_sum(&self, hidden: &Hidden) -> bool {
        let rates = || (0..self.table.kernels().len()).map(|kernel| self.rate(&hidden.sum, kernel));
        match hidden.kind {
            HiddenKind::Single | HiddenKind::Sum | HiddenKind::Scaled | HiddenKind::Duplicate => true,
            HiddenKind::AtMostPerIteration => rates().all(|rate| rate <= hidden.number * 1.05),
            // No run is so long that it stops counting.
            HiddenKind::Alternates => {
                rates().all(|rate| rate * (3.0 + 8.0 * self.iterations as f64) <= hidden.number)
            }
            _ => false,
        }
    }

    /// Whether the table allows the sum to be identified: its concepts can be, and no fraction of a number
    /// that is foretold roughly is among them, nor mispredictions, which may be wrong paths of the other
    /// terms. In this table pipeline flushes equal mispredictions plus order violations.
    pub fn is_identifiable(&self, report: &Identifiability, hidden: &Hidden) -> bool {
        let terms = hidden.sum.terms();
        let alone = terms.len() == 1;
        terms.iter().all(|&(concept, weight)| {
            report.is_identifiable(concept)
                && (weight >= TermWeight::One || exact(concept))
                && (alone && weight == TermWeight::One || concept != Concept::Mispredicts)
                && concept != Concept::PipelineFlushes
        })
    }

    /// The core does what the table says, to the unit.
    pub fn forget_deviations(&mut self) {
        self.deviations.iter_mut().flatten().for_each(|factor| *factor = 1.0);
    }

    /// A sweep over all kernels, on `counters`.
    pub fn observe(&mut self, hidden: &Hidden, counters: &[u8]) -> EventObservations {
        let sizes = [1, 2, 4, 8].map(|factor| factor * self.iterations);
        let mut all: Vec<CounterObservations> = counters
            .iter()
            .map(|&counter| CounterObservations {
                counter: Some(CounterId::General(counter)),
                observations: Vec::new(),
            })
            .collect();
        for kernel in 0..self.table.kernels().len() {
            for iterations in sizes {
                let counts: Vec<u64> =
                    (0..self.repeats).map(|run| self.reading(hidden, kernel, iterations, run)).collect();
                for (observations, &counter) in all.iter_mut().zip(counters) {
                    let counts = match hidden.mask >> counter & 1 {
                        0 => vec![0; self.repeats],
                        _ => counts.clone(),
                    };
                    let kernel = KernelIndex(kernel);
                    observations.observations.push(Observation {
                        kernel,
                        iterations,
                        counts,
                        interrupts: vec![],
                    });
                }
            }
        }
        EventObservations { event: format!("{:?}", hidden.kind), counters: all }
    }

    fn reading(&mut self, hidden: &Hidden, kernel: usize, iterations: u64, run: usize) -> u64 {
        let events = self.events(hidden, kernel, iterations, run);
        let noise = 1.0 + self.reading_noise * signed(&mut self.random);
        let set_up = if events > 0.0 { self.rate(&hidden.sum, kernel) * 3.0 } else { 0.0 };
        let expected = self.interrupts * iterations as f64 / 1e6;
        let interrupts = expected.floor() as u64 + u64::from(unit(&mut self.random) < expected.fract());
        let live = hidden.kind != HiddenKind::Dead;
        ((events + set_up) * noise) as u64 + if live { hidden.per_interrupt * interrupts } else { 0 }
    }
}

/// Whether a kernel foretells a concept to the unit.
pub fn exact(concept: Concept) -> bool {
    concept.nature() == Nature::Architectural
}

fn unit(random: &mut Random) -> f64 {
    (random.word() >> 11) as f64 / (1u64 << 53) as f64
}

fn signed(random: &mut Random) -> f64 {
    2.0 * unit(random) - 1.0
}
