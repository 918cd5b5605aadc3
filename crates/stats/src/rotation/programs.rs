//! Made-up programs whose totals are known: six kinds of behaviour in time, and ways to rotate events over
//! them.

use cyclometer_core::Random;

pub(super) const SLICES: usize = 800;
pub(super) const EVENTS: usize = 12;

/// Cycles of a slice: 10 ms at 3 GHz.
const CYCLES: f64 = 3e7;

/// Slices of a period of [`ProgramKind::Periodic`].
const PERIOD: usize = 10;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum ProgramKind {
    /// Stretches of 20 to 120 slices, each with another program.
    Blocks,
    /// Four phases; the phase changes after a slice with a probability of a tenth.
    Markov,
    /// One slice in fifty has another behaviour.
    Spikes,
    /// Two phases of five slices each.
    Periodic,
    /// Two phases, the first for one slice in each round.
    PeriodOfRotation,
    /// The rates grow threefold over the run.
    Ramp,
}

pub(super) const KINDS: [ProgramKind; 6] = [
    ProgramKind::Blocks,
    ProgramKind::Markov,
    ProgramKind::Spikes,
    ProgramKind::Periodic,
    ProgramKind::PeriodOfRotation,
    ProgramKind::Ramp,
];

/// The counts of a run in each slice.
pub(super) struct ProgramRun {
    pub lengths: Vec<f64>,
    pub cycles: Vec<f64>,
    pub instructions: Vec<f64>,
    pub events: Vec<Vec<u64>>,
}

/// The rates of a program in one phase.
#[derive(Clone)]
struct ProgramPhase {
    instructions_per_cycle: f64,
    per_instruction: Vec<f64>,
}

impl ProgramPhase {
    fn random(random: &mut Random) -> ProgramPhase {
        ProgramPhase {
            instructions_per_cycle: 0.5 + 2.0 * uniform(random),
            per_instruction: (0..EVENTS).map(|_| 0.01 * (0.6 * normal(random)).exp()).collect(),
        }
    }

    fn faster(&self, factor: f64) -> ProgramPhase {
        let per_instruction = self.per_instruction.iter().map(|rate| rate * factor).collect();
        ProgramPhase { per_instruction, ..self.clone() }
    }
}

/// A run of a program that sleeps half of the time and runs for a random part of the other slices.
pub(super) fn sleeper(random: &mut Random) -> ProgramRun {
    let time = |random: &mut Random| if random.below(2) == 0 { 0.0 } else { uniform(random) };
    let lengths: Vec<f64> = (0..SLICES).map(|_| time(random)).collect();
    let mut count = |length: &f64| (1e6 * length * (0.3 * normal(random)).exp()) as u64;
    let events = (0..EVENTS).map(|_| lengths.iter().map(&mut count).collect()).collect();
    ProgramRun { lengths, cycles: Vec::new(), instructions: Vec::new(), events }
}

/// Milliseconds of a run of a [`Hard`] program.
const HARD_MS: usize = 2_000;

/// Programs of which the slices seen are a poor sample: few moments, or a single one, hold much of the count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Hard {
    /// The first 1 to 5 % of the time count twenty times as much as the rest.
    Start,
    /// 2 % of the time, in bursts of 10 ms, counts fifty times as much.
    Bursts,
    /// The count of a stretch of 10 ms has a Pareto distribution with exponent 1.5: it has no variance.
    HeavyTail,
}

impl Hard {
    /// The factor of the count in each millisecond over that in a common one.
    fn factors(self, random: &mut Random) -> Vec<f64> {
        if self == Hard::Start {
            let start = HARD_MS / 100 + random.below(HARD_MS / 25);
            return (0..HARD_MS).map(|at| if at < start { 20.0 } else { 1.0 }).collect();
        }
        let stretch = |random: &mut Random| match self {
            Hard::Bursts if random.below(50) == 0 => 50.0,
            Hard::HeavyTail => (1.0 - uniform(random)).powf(-1.0 / 1.5),
            _ => 1.0,
        };
        (0..HARD_MS / 10).flat_map(|_| [stretch(random); 10]).collect()
    }

    /// A run of it in slices of these lengths, in ms. The counts of every slice say nothing about the counts
    /// of the events.
    pub(super) fn run(self, lengths_ms: &[usize], random: &mut Random) -> ProgramRun {
        let mut events = Vec::new();
        for _ in 0..EVENTS {
            let factors = self.factors(random);
            let mut factors = factors.iter();
            let mut count = |length: &usize| {
                let sum: f64 = factors.by_ref().take(*length).map(|f| f * (0.1 * normal(random)).exp()).sum();
                (1e5 * sum) as u64
            };
            events.push(lengths_ms.iter().map(&mut count).collect());
        }
        let lengths = lengths_ms.iter().map(|length| *length as f64 / 1e3).collect();
        ProgramRun { lengths, cycles: Vec::new(), instructions: Vec::new(), events }
    }
}

/// Lengths of slices in ms, each with its rotation group, over a run of a [`Hard`] program. The slices last
/// 10 ms from the beginning, or begin with 1 ms and double in each round up to that length.
pub(super) fn slices(rotation_groups: usize, grow: bool, random: &mut Random) -> Vec<(usize, usize)> {
    let (mut slices, mut left, mut length) = (Vec::new(), HARD_MS, if grow { 1 } else { 10 });
    while left > 0 {
        for rotation_group in random.permutation(rotation_groups) {
            let this = left.min(length);
            slices.extend((this > 0).then_some((this, rotation_group)));
            left -= this;
        }
        length = 10.min(2 * length);
    }
    slices
}

/// A run of a program of this kind, measured in this many rotation groups.
pub(super) fn run(kind: ProgramKind, rotation_groups: usize, random: &mut Random) -> ProgramRun {
    let phases = phases(kind, rotation_groups, random);
    let mut run = ProgramRun {
        lengths: vec![0.01; SLICES],
        cycles: Vec::new(),
        instructions: Vec::new(),
        events: vec![Vec::new(); EVENTS],
    };
    for phase in phases {
        let cycles = CYCLES * (1.0 + 0.02 * normal(random));
        let instructions = cycles * phase.instructions_per_cycle * (0.05 * normal(random)).exp();
        for (event, rate) in run.events.iter_mut().zip(&phase.per_instruction) {
            event.push((instructions * rate * (0.1 * normal(random)).exp()) as u64);
        }
        run.cycles.push(cycles.round());
        run.instructions.push(instructions.round());
    }
    run
}

fn phases(kind: ProgramKind, rotation_groups: usize, random: &mut Random) -> Vec<ProgramPhase> {
    let some: Vec<ProgramPhase> = (0..SLICES / 20).map(|_| ProgramPhase::random(random)).collect();
    let indices = (0..SLICES).scan((0, 0), |(current, left), slice| {
        (*current, *left) = match kind {
            ProgramKind::Blocks if *left == 0 => (*current + 1, 19 + random.below(101)),
            ProgramKind::Blocks => (*current, *left - 1),
            ProgramKind::Markov if random.below(10) == 0 => (random.below(4), 0),
            ProgramKind::Markov => (*current, 0),
            ProgramKind::Spikes => (usize::from(random.below(50) == 0), 0),
            ProgramKind::Periodic => (usize::from(slice % PERIOD < PERIOD / 2), 0),
            ProgramKind::PeriodOfRotation => (usize::from(slice % rotation_groups == 0), 0),
            ProgramKind::Ramp => (0, 0),
        };
        Some(*current)
    });
    let growth =
        |slice: usize| if kind == ProgramKind::Ramp { 1.0 + 2.0 * slice as f64 / SLICES as f64 } else { 1.0 };
    indices.enumerate().map(|(slice, index)| some[index % some.len()].faster(growth(slice))).collect()
}

/// The rotation group of each slice: a fresh random order each round.
pub(super) fn shuffled(rotation_groups: usize, random: &mut Random) -> Vec<usize> {
    std::iter::repeat_with(|| random.permutation(rotation_groups)).flatten().take(SLICES).collect()
}

/// The rotation group of each slice: the same order each round, as in the kernel.
pub(super) fn round_robin(rotation_groups: usize) -> Vec<usize> {
    (0..SLICES).map(|slice| slice % rotation_groups).collect()
}

/// The counts of the event in the slices of its rotation group.
pub(super) fn seen(
    event: usize,
    counts: &[u64],
    rotation_groups: usize,
    order: &[usize],
) -> Vec<Option<u64>> {
    let on = |rotation_group: &usize| *rotation_group == event % rotation_groups;
    counts.iter().zip(order).map(|(count, rotation_group)| on(rotation_group).then_some(*count)).collect()
}

/// A uniform deviate in 0..1.
fn uniform(random: &mut Random) -> f64 {
    (random.word() >> 11) as f64 / (1u64 << 53) as f64
}

/// A value of the standard normal distribution.
///
/// # Source
///
/// G. Box, M. Muller: "A Note on the Generation of Random Normal Deviates", 1958.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (std::f64::consts::TAU * uniform(random)).cos()
}
