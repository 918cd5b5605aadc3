//! Workloads: streams of events, with phases, rounds and noise.

use cyclometer_core::{Concept, Random};
use cyclometer_semantics::Activity;

/// A stretch of a workload with constant activity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// How long it is, in cycles; 0 is skipped.
    pub cycles: u64,
    /// How often things happen in it.
    pub activity: Activity,
}

/// The work of a thread: phases one after the other, in rounds. The default does nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// The phases of a round.
    pub phases: Vec<Phase>,
    /// How many rounds there are; `None`: it does not end.
    pub rounds: Option<u64>,
    /// By how much amounts vary from block to block, as a share of them, 0 to 1. Cycles do not, nor do the
    /// architectural concepts of a loop's iteration.
    pub noise: f64,
}

/// The length of a block with the same noise, in cycles.
const BLOCK_CYCLES: u64 = 1 << 14;

impl Workload {
    /// The names of those that are there ready-made.
    pub const NAMES: [&'static str; 5] = ["loop", "phases", "memory", "noisy", "vector"];

    /// A ready-made one: `loop` does the same all the time, `memory` misses caches and TLBs, `phases`
    /// computes, misses and mispredicts in turn, `noisy` is as `loop` with rates that vary, `vector` has
    /// sixteen operations on floating-point numbers a cycle. None of them ends.
    pub fn named(name: &str) -> Option<Workload> {
        let (phases, noise) = match name {
            "loop" => (vec![Phase { cycles: 1 << 20, activity: computing() }], 0.0),
            "noisy" => (vec![Phase { cycles: 1 << 20, activity: computing() }], 0.2),
            "memory" => (vec![Phase { cycles: 1 << 20, activity: missing() }], 0.0),
            "vector" => {
                let activity = computing().with(Concept::FloatOperations, 16.0);
                (vec![Phase { cycles: 1 << 20, activity }], 0.0)
            }
            "phases" => (
                vec![
                    Phase { cycles: 3_000_000, activity: computing() },
                    Phase { cycles: 2_000_000, activity: missing() },
                    Phase { cycles: 1_000_000, activity: mispredicting() },
                ],
                0.0,
            ),
            _ => return None,
        };
        Some(Workload { phases, rounds: None, noise })
    }

    /// A loop of so many iterations.
    pub fn iterations(activity: Activity, iterations: u64) -> Workload {
        let cycles = iterations.saturating_mul(activity.cycles().into());
        Workload { phases: vec![Phase { cycles, activity }], rounds: Some(1), noise: 0.0 }
    }

    /// The same for so many rounds.
    #[must_use]
    pub fn for_rounds(self, rounds: u64) -> Workload {
        Workload { rounds: Some(rounds), ..self }
    }

    /// Its cycles; `None`: it does not end.
    pub fn cycles(&self) -> Option<u64> {
        let round = self.phases.iter().fold(0u64, |sum, phase| sum.saturating_add(phase.cycles));
        match round {
            0 => Some(0),
            _ => self.rounds.map(|rounds| rounds.saturating_mul(round)),
        }
    }
}

fn computing() -> Activity {
    Activity::IDLE
        .with(Concept::Instructions, 3.0)
        .with(Concept::Uops, 3.25)
        .with(Concept::Branches, 0.375)
        .with(Concept::Mispredicts, 0.001)
        .with(Concept::Loads, 0.75)
        .with(Concept::Stores, 0.25)
        .with(Concept::L1dLoadMisses, 0.002)
        .with(Concept::L1dLoadMissesSpeculative, 0.002)
        .with(Concept::L1dTlbMisses, 0.0002)
        .with(Concept::L1iMisses, 0.0001)
        .with(Concept::LlcReferences, 0.0005)
        .with(Concept::LlcMisses, 0.0001)
        .with(Concept::UopsIssued, 3.3)
        .with(Concept::IntegerAlu, 1.25)
        .with(Concept::SimdInteger, 0.25)
        .with(Concept::ConditionalBranches, 0.25)
        .with(Concept::TakenBranches, 0.25)
        .with(Concept::ConditionalMispredicts, 0.001)
        .with(Concept::Calls, 0.03125)
        .with(Concept::Returns, 0.03125)
        .with_slots([3.0, 0.25, 0.5, 0.25, 0.5, 0.125, 0.25, 0.125])
}

fn missing() -> Activity {
    Activity::IDLE
        .with(Concept::Instructions, 0.4)
        .with(Concept::Uops, 0.45)
        .with(Concept::Branches, 0.06)
        .with(Concept::Mispredicts, 0.0004)
        .with(Concept::Loads, 0.15)
        .with(Concept::Stores, 0.05)
        .with(Concept::L1dLoadMisses, 0.06)
        .with(Concept::L1dLoadMissesSpeculative, 0.06)
        .with(Concept::L1dTlbMisses, 0.02)
        .with(Concept::LlcReferences, 0.04)
        .with(Concept::LlcMisses, 0.015)
        .with(Concept::UopsIssued, 0.5)
        .with(Concept::IntegerAlu, 0.125)
        .with(Concept::ConditionalBranches, 0.05)
        .with(Concept::TakenBranches, 0.05)
        .with(Concept::ConditionalMispredicts, 0.0004)
        .with(Concept::L2TlbMisses, 0.005)
        .with(Concept::DataPageWalks, 0.005)
        .with(Concept::L1dStoreMisses, 0.01)
        .with(Concept::L1dStoreMissesSpeculative, 0.01)
        .with(Concept::L1dWritebacks, 0.008)
        .with(Concept::StallCycles, 0.75)
        .with(Concept::BackendStallCycles, 0.7)
        .with_slots([0.5, 0.0, 0.25, 3.25, 0.0, 0.0, 0.125, 3.0])
}

fn mispredicting() -> Activity {
    Activity::IDLE
        .with(Concept::Instructions, 0.9)
        .with(Concept::Uops, 1.1)
        .with(Concept::Branches, 0.2)
        .with(Concept::Mispredicts, 0.04)
        .with(Concept::Loads, 0.2)
        .with(Concept::Stores, 0.05)
        .with(Concept::L1iMisses, 0.01)
        .with(Concept::UopsIssued, 2.0)
        .with(Concept::ConditionalBranches, 0.15)
        .with(Concept::TakenBranches, 0.1)
        .with(Concept::ConditionalMispredicts, 0.03)
        .with(Concept::IndirectBranches, 0.02)
        .with(Concept::IndirectMispredicts, 0.01)
        .with(Concept::StallCycles, 0.5)
        .with(Concept::FrontendStallCycles, 0.4)
        .with_slots([1.0, 1.5, 1.0, 0.5, 0.0, 1.25, 0.75, 0.25])
}

/// The work of the kernel: no workload, the time between.
pub(crate) fn kernel() -> Activity {
    Activity::IDLE
        .with(Concept::Instructions, 1.0)
        .with(Concept::Uops, 1.2)
        .with(Concept::Branches, 0.2)
        .with(Concept::Mispredicts, 0.01)
        .with(Concept::Loads, 0.25)
        .with(Concept::Stores, 0.125)
        .with(Concept::L1dLoadMisses, 0.01)
        .with(Concept::L1dLoadMissesSpeculative, 0.01)
        .with(Concept::L1iMisses, 0.01)
        .with_slots([1.0, 0.25, 1.25, 1.5, 0.125, 0.125, 1.0, 1.0])
}

/// A workload on its way.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadStream {
    workload: Workload,
    random: Random,
    rounds_done: u64,
    phase: usize,
    phase_left: u64,
    block_left: u64,
    activity: Activity,
    done: bool,
}

impl WorkloadStream {
    pub(crate) fn new(workload: Workload, seed: u64) -> WorkloadStream {
        let done = workload.cycles() == Some(0);
        let mut stream = WorkloadStream {
            workload,
            random: Random::seeded(seed),
            rounds_done: 0,
            phase: 0,
            phase_left: 0,
            block_left: BLOCK_CYCLES,
            activity: Activity::IDLE,
            done,
        };
        if !done {
            stream.phase_left = stream.workload.phases[0].cycles;
            stream.skip_finished();
            stream.draw();
            stream.begin_block();
        }
        stream
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) const fn activity(&self) -> &Activity {
        &self.activity
    }

    /// For how many cycles the activity stays as it is.
    pub(crate) fn left(&self) -> u64 {
        if self.workload.noise > 0.0 { self.phase_left.min(self.block_left) } else { self.phase_left }
    }

    /// Lets `cycles` pass, at most [`Self::left`].
    pub(crate) fn advance(&mut self, cycles: u64) {
        self.phase_left -= cycles;
        self.block_left = self.block_left.saturating_sub(cycles);
        let phase_over = self.phase_left == 0;
        let block_over = self.block_left == 0 && self.workload.noise > 0.0;
        if phase_over {
            self.skip_finished();
        }
        if block_over {
            self.begin_block();
        }
        if !self.done && (phase_over || block_over) {
            self.draw();
        }
        if self.done {
            // Machines keep threads that are done for their totals.
            self.workload.phases = Vec::new();
        }
    }

    /// Blocks have whole iterations.
    fn begin_block(&mut self) {
        self.block_left = BLOCK_CYCLES.next_multiple_of(self.activity.cycles().into());
    }

    /// Goes on to the next phase that has cycles left.
    fn skip_finished(&mut self) {
        while self.phase_left == 0 && !self.done {
            self.phase += 1;
            if self.phase == self.workload.phases.len() {
                self.phase = 0;
                self.rounds_done += 1;
                self.done = self.workload.rounds.is_some_and(|rounds| self.rounds_done >= rounds);
            }
            self.phase_left = self.workload.phases[self.phase].cycles;
        }
    }

    /// The activity of the next block.
    fn draw(&mut self) {
        let noise = self.workload.noise.clamp(0.0, 1.0);
        let activity = &self.workload.phases[self.phase].activity;
        self.activity = if noise > 0.0 { varied(activity, noise, &mut self.random) } else { *activity };
    }
}

/// Concepts whose factors are drawn from the stream of a workload, in this order, for every block. Others
/// have factors of their own, so that a workload with more concepts draws the same for these.
const DRAWN: [Concept; 12] = [
    Concept::Instructions,
    Concept::Uops,
    Concept::Branches,
    Concept::Mispredicts,
    Concept::Loads,
    Concept::Stores,
    Concept::L1dLoadMisses,
    Concept::L1dTlbMisses,
    Concept::L1iMisses,
    Concept::LlcReferences,
    Concept::LlcMisses,
    Concept::FloatOperations,
];

/// Concepts that vary with one of [`DRAWN`].
const VARY_WITH: [(Concept, Concept); 9] = [
    (Concept::L1dLoadMissesSpeculative, Concept::L1dLoadMisses),
    (Concept::UopsIssued, Concept::Uops),
    (Concept::IntegerAlu, Concept::Instructions),
    (Concept::SimdInteger, Concept::Instructions),
    (Concept::ConditionalBranches, Concept::Branches),
    (Concept::TakenBranches, Concept::Branches),
    (Concept::Calls, Concept::Branches),
    (Concept::Returns, Concept::Branches),
    (Concept::ConditionalMispredicts, Concept::Mispredicts),
];

/// The place in [`DRAWN`] of each concept's factor; `None`: it has one of its own.
const FACTORS: [Option<usize>; Concept::COUNT] = {
    let mut places = [None; Concept::COUNT];
    let mut n = 0;
    while n < DRAWN.len() {
        places[DRAWN[n] as usize] = Some(n);
        n += 1;
    }
    let mut n = 0;
    while n < VARY_WITH.len() {
        let (concept, with) = VARY_WITH[n];
        places[concept as usize] = places[with as usize];
        n += 1;
    }
    places
};

/// An activity whose amounts differ by at most `noise`, as a share of them.
fn varied(activity: &Activity, noise: f64, random: &mut Random) -> Activity {
    // 53 bits are what a f64 holds: -1 to 1.
    let factor =
        |random: &mut Random| 1.0 + noise * ((random.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0);
    let drawn = DRAWN.map(|_| factor(random));
    let seed = random.clone().word();
    activity.scaled(|concept| match FACTORS[concept as usize] {
        Some(place) => drawn[place],
        None => factor(&mut Random::seeded(seed.wrapping_add(concept as u64))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_workload_that_does_something() {
        for name in Workload::NAMES {
            let workload = Workload::named(name).unwrap();
            assert_eq!((workload.cycles(), workload.clone().for_rounds(2).cycles().is_some()), (None, true));
            assert!(workload.phases.iter().all(|phase| phase.activity != Activity::IDLE), "{name}");
        }
        assert_eq!(Workload::named("nothing"), None);
    }

    #[test]
    fn a_stream_has_the_cycles_of_its_workload_and_ends() {
        let phase = |cycles| Phase { cycles, activity: computing() };
        let workload = Workload {
            phases: vec![phase(0), phase(100_000), phase(0), phase(7)],
            rounds: Some(3),
            noise: 0.3,
        };
        let (mut stream, mut passed) = (WorkloadStream::new(workload.clone(), 5), 0);
        while !stream.is_done() {
            let cycles = stream.left();
            assert!(cycles > 0);
            stream.advance(cycles);
            passed += cycles;
        }
        assert_eq!(Some(passed), workload.cycles());
    }

    #[test]
    fn a_workload_without_cycles_is_done_at_once() {
        for phases in [vec![], vec![Phase { cycles: 0, activity: computing() }]] {
            assert!(WorkloadStream::new(Workload { phases, rounds: None, noise: 0.0 }, 1).is_done());
        }
    }

    #[test]
    fn concepts_vary_with_their_kind_and_others_on_their_own() {
        let amounts =
            Concept::ALL.iter().fold(Activity::IDLE, |activity, concept| activity.with(*concept, 1.0));
        let varied = varied(&amounts, 0.5, &mut Random::seeded(3));
        let [misses, speculative, stores, writebacks] = [
            Concept::L1dLoadMisses,
            Concept::L1dLoadMissesSpeculative,
            Concept::L1dStoreMisses,
            Concept::L1dWritebacks,
        ]
        .map(|concept| varied.amount(concept));
        assert_eq!(misses, speculative);
        assert!(misses != stores && stores != writebacks, "{misses} {stores} {writebacks}");
        assert_eq!(varied.amount(Concept::RetiringSlots), 1.0);
    }

    #[test]
    fn noise_moves_rates_and_leaves_cycles() {
        let mut stream = WorkloadStream::new(Workload::named("noisy").unwrap(), 9);
        let first = *stream.activity();
        stream.advance(stream.left());
        assert_ne!(first.amount(Concept::Loads), stream.activity().amount(Concept::Loads));
        assert_eq!(stream.activity().amount(Concept::Cycles), 1.0);
    }
}
