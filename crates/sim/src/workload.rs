//! Workloads: streams of events, with phases, rounds and noise.

use cyclometer_core::Random;

use crate::quantity::{Quantity, Rates};

/// A stretch of a workload with constant rates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// How long it is, in cycles; 0 is skipped.
    pub cycles: u64,
    /// How often things happen in it.
    pub rates: Rates,
}

/// The work of a thread: phases one after the other, in rounds. The default does nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Workload {
    /// The phases of a round.
    pub phases: Vec<Phase>,
    /// How many rounds there are; `None`: it does not end.
    pub rounds: Option<u64>,
    /// By how much rates vary from block to block, as a share of them, 0 to 1; cycles do not.
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
            "loop" => (vec![Phase { cycles: 1 << 20, rates: computing() }], 0.0),
            "noisy" => (vec![Phase { cycles: 1 << 20, rates: computing() }], 0.2),
            "memory" => (vec![Phase { cycles: 1 << 20, rates: missing() }], 0.0),
            "vector" => {
                let rates = computing().with(Quantity::FloatOperations, 16.0);
                (vec![Phase { cycles: 1 << 20, rates }], 0.0)
            }
            "phases" => (
                vec![
                    Phase { cycles: 3_000_000, rates: computing() },
                    Phase { cycles: 2_000_000, rates: missing() },
                    Phase { cycles: 1_000_000, rates: mispredicting() },
                ],
                0.0,
            ),
            _ => return None,
        };
        Some(Workload { phases, rounds: None, noise })
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

fn computing() -> Rates {
    Rates::IDLE
        .with(Quantity::Instructions, 3.0)
        .with(Quantity::Uops, 3.25)
        .with(Quantity::Branches, 0.375)
        .with(Quantity::BranchMisses, 0.001)
        .with(Quantity::Loads, 0.75)
        .with(Quantity::Stores, 0.25)
        .with(Quantity::L1dLoadMisses, 0.002)
        .with(Quantity::L1dTlbMisses, 0.0002)
        .with(Quantity::L1iMisses, 0.0001)
        .with(Quantity::LlcReferences, 0.0005)
        .with(Quantity::LlcMisses, 0.0001)
        .with_slots([3.0, 0.25, 0.5, 0.25, 0.5, 0.125, 0.25, 0.125])
}

fn missing() -> Rates {
    Rates::IDLE
        .with(Quantity::Instructions, 0.4)
        .with(Quantity::Uops, 0.45)
        .with(Quantity::Branches, 0.06)
        .with(Quantity::BranchMisses, 0.0004)
        .with(Quantity::Loads, 0.15)
        .with(Quantity::Stores, 0.05)
        .with(Quantity::L1dLoadMisses, 0.06)
        .with(Quantity::L1dTlbMisses, 0.02)
        .with(Quantity::LlcReferences, 0.04)
        .with(Quantity::LlcMisses, 0.015)
        .with_slots([0.5, 0.0, 0.25, 3.25, 0.0, 0.0, 0.125, 3.0])
}

fn mispredicting() -> Rates {
    Rates::IDLE
        .with(Quantity::Instructions, 0.9)
        .with(Quantity::Uops, 1.1)
        .with(Quantity::Branches, 0.2)
        .with(Quantity::BranchMisses, 0.04)
        .with(Quantity::Loads, 0.2)
        .with(Quantity::Stores, 0.05)
        .with(Quantity::L1iMisses, 0.01)
        .with_slots([1.0, 1.5, 1.0, 0.5, 0.0, 1.25, 0.75, 0.25])
}

/// The work of the kernel: no workload, the time between.
pub(crate) fn kernel() -> Rates {
    Rates::IDLE
        .with(Quantity::Instructions, 1.0)
        .with(Quantity::Uops, 1.2)
        .with(Quantity::Branches, 0.2)
        .with(Quantity::BranchMisses, 0.01)
        .with(Quantity::Loads, 0.25)
        .with(Quantity::Stores, 0.125)
        .with(Quantity::L1dLoadMisses, 0.01)
        .with(Quantity::L1iMisses, 0.01)
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
    rates: Rates,
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
            rates: Rates::IDLE,
            done,
        };
        if !done {
            stream.phase_left = stream.workload.phases[0].cycles;
            stream.skip_finished();
            stream.draw();
        }
        stream
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.done
    }

    pub(crate) const fn rates(&self) -> &Rates {
        &self.rates
    }

    /// For how many cycles the rates stay as they are.
    pub(crate) fn left(&self) -> u64 {
        if self.workload.noise > 0.0 { self.phase_left.min(self.block_left) } else { self.phase_left }
    }

    /// Lets `cycles` pass, at most [`Self::left`].
    pub(crate) fn advance(&mut self, cycles: u64) {
        self.phase_left -= cycles;
        self.block_left = self.block_left.saturating_sub(cycles);
        let (phase_over, block_over) = (self.phase_left == 0, self.block_left == 0);
        if phase_over {
            self.skip_finished();
        }
        if block_over {
            self.block_left = BLOCK_CYCLES;
        }
        if !self.done && (phase_over || block_over) {
            self.draw();
        }
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

    /// The rates of the next block.
    fn draw(&mut self) {
        let (noise, random) = (self.workload.noise.clamp(0.0, 1.0), &mut self.random);
        let rates = self.workload.phases[self.phase].rates;
        // 53 bits are what a f64 holds: -1 to 1.
        let mut unit = || (random.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0;
        self.rates = if noise > 0.0 { rates.scaled(|| 1.0 + noise * unit()) } else { rates };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_workload_that_does_something() {
        for name in Workload::NAMES {
            let workload = Workload::named(name).unwrap();
            assert_eq!((workload.cycles(), workload.clone().for_rounds(2).cycles().is_some()), (None, true));
            assert!(workload.phases.iter().all(|phase| phase.rates != Rates::IDLE), "{name}");
        }
        assert_eq!(Workload::named("nothing"), None);
    }

    #[test]
    fn a_stream_has_the_cycles_of_its_workload_and_ends() {
        let phase = |cycles| Phase { cycles, rates: computing() };
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
        for phases in [vec![], vec![Phase { cycles: 0, rates: computing() }]] {
            assert!(WorkloadStream::new(Workload { phases, rounds: None, noise: 0.0 }, 1).is_done());
        }
    }

    #[test]
    fn noise_moves_rates_and_leaves_cycles() {
        let mut stream = WorkloadStream::new(Workload::named("noisy").unwrap(), 9);
        let first = *stream.rates();
        stream.advance(stream.left());
        assert_ne!(first.of(Quantity::Loads), stream.rates().of(Quantity::Loads));
        assert_eq!(stream.rates().of(Quantity::Cycles), 1 << 32);
    }
}
