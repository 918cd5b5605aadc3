//! A simulated chip as a target: kernels are loops that have the concepts of their recipes.

use std::sync::Arc;

use cyclometer_arch::{
    Coded, Placed, ProgramOptions, RegisterProgram, Registers as _, carry_out, register_program,
};
use cyclometer_core::concept::{Concept, Nature};
use cyclometer_core::{CounterId, Error, ErrorKind, EventCode, Modes, Random};
use cyclometer_inference::KernelIndex;
use cyclometer_sim::{Activity, Model, Semantics, Settings, SimMachine, Workload};

use crate::recipes::SweepKernel;
use crate::target::{CodePlacement, SweepCounts, SweepTarget};

/// The greatest difference of a core's misses and mispredictions from those of the recipe, as a share.
const DEVIATION: f64 = 0.02;

/// How long a simulated machine runs before it is asked whether a loop has ended, in ns.
const STRETCH_NS: u64 = 4_000_000;

/// A simulated chip, on which kernels run alone.
#[derive(Debug)]
pub struct SimulatedTarget {
    model: &'static Model,
    settings: Settings,
    semantics: Arc<Semantics>,
    /// The loop of each kernel.
    activities: Vec<Activity>,
    counters: Vec<CounterId>,
    running: Option<(SimMachine, RegisterProgram)>,
}

impl SimulatedTarget {
    /// A chip whose events count as `semantics` say, and the kernels with the durations that they have there.
    /// The seed decides by how much each kernel differs from its recipe.
    pub fn new(
        model: &'static Model,
        settings: Settings,
        semantics: Arc<Semantics>,
        kernels: &mut [SweepKernel],
    ) -> SimulatedTarget {
        let mut random = Random::seeded(settings.seed ^ 0x6b65_726e);
        let activities = kernels
            .iter_mut()
            .map(|kernel| {
                let cycles = cycles_of(kernel);
                kernel.durations = durations(kernel, cycles);
                activity(kernel, cycles, &mut random)
            })
            .collect();
        let counters =
            model.chip.counters.known().iter().filter(|counter| matches!(counter, CounterId::General(_)));
        let counters = counters.collect();
        SimulatedTarget { model, settings, semantics, activities, counters, running: None }
    }

    /// The loop that each kernel is, in the order of the kernels: the truth that a score compares with.
    pub fn activities(&self) -> &[Activity] {
        &self.activities
    }
}

impl SweepTarget for SimulatedTarget {
    fn counters(&self) -> Vec<Option<CounterId>> {
        self.counters.iter().copied().map(Some).collect()
    }

    fn place(&mut self, code: u32) -> Result<CodePlacement, Error> {
        let (select, umask) = self.model.select(code);
        let coded = Coded::new(EventCode { select, umask, ..EventCode::default() });
        let place =
            |counter: &CounterId| Placed { coded, counter: *counter, modes: Modes::USER, period: None };
        let placed: Vec<Placed> = self.counters.iter().map(place).collect();
        let program = match register_program(&self.model.chip, &placed, ProgramOptions::default()) {
            Ok(program) => program,
            Err(why) => return Ok(CodePlacement::Refused(why.to_string())),
        };
        let mut machine = SimMachine::with_semantics(self.model, self.settings, Arc::clone(&self.semantics));
        carry_out(&program.set_up, &mut machine, 0)?;
        carry_out(&program.start, &mut machine, 0)?;
        self.running = Some((machine, program));
        Ok(CodePlacement::Placed)
    }

    fn count(&mut self, kernel: KernelIndex, iterations: u64) -> Result<SweepCounts, Error> {
        let nothing = || Error::new(ErrorKind::InvalidInput, "no code is placed, or there is no such kernel");
        let activity = *self.activities.get(kernel.0).ok_or_else(nothing)?;
        let (machine, program) = self.running.as_mut().ok_or_else(nothing)?;
        let before = values(machine, program)?;
        let thread = machine.spawn(Workload::iterations(activity, iterations), &[0])?;
        while !machine.is_done(thread) {
            machine.run(STRETCH_NS, |_, _| {});
        }
        let mask = u64::MAX >> (64 - self.model.counter_width().bits.clamp(1, 64));
        let after = values(machine, program)?;
        let counts = after.iter().zip(before).map(|(after, before)| after.wrapping_sub(before) & mask);
        Ok(SweepCounts { counts: counts.collect(), instructions: None })
    }
}

fn values(machine: &mut SimMachine, program: &RegisterProgram) -> Result<Vec<u64>, Error> {
    let read = |read: &cyclometer_arch::CounterRead| Ok(machine.read(0, read.register)?);
    program.reads.iter().map(read).collect()
}

/// The cycles of an iteration on a core that retires four instructions in a cycle and waits for each miss.
fn cycles_of(kernel: &SweepKernel) -> u32 {
    const WAITS: [(Concept, f64); 16] = [
        (Concept::Mispredicts, 14.0),
        (Concept::L1dLoadMisses, 12.0),
        (Concept::L1dStoreMisses, 2.0),
        (Concept::L2Misses, 30.0),
        (Concept::LlcMisses, 160.0),
        (Concept::L1dTlbMisses, 7.0),
        (Concept::DataPageWalks, 30.0),
        (Concept::L1iMisses, 15.0),
        (Concept::InstructionPageWalks, 30.0),
        (Concept::ForwardBlocks, 12.0),
        (Concept::IntegerDivides, 18.0),
        (Concept::FloatDivides, 12.0),
        (Concept::Barriers, 10.0),
        (Concept::AtomicSuccesses, 18.0),
        (Concept::SystemCalls, 120.0),
        (Concept::Faults, 800.0),
    ];
    let recipe = &kernel.recipe;
    let waits: f64 = WAITS.iter().map(|(concept, cycles)| recipe.number_of(*concept) * cycles).sum();
    let cycles = recipe.number_of(Concept::Instructions) / 4.0 + waits;
    (cycles.ceil() as u32).max(1)
}

/// The cycles of an iteration, as a machine's own counters of cycles would measure them.
fn durations(kernel: &SweepKernel, cycles: u32) -> Vec<(Concept, f64)> {
    let retiring = (kernel.recipe.number_of(Concept::Instructions) / 4.0).ceil();
    let stalled = (f64::from(cycles) - retiring).max(0.0);
    vec![
        (Concept::Cycles, f64::from(cycles)),
        (Concept::ReferenceCycles, f64::from(cycles)),
        (Concept::StallCycles, stalled),
    ]
}

/// The loop of a kernel: what its program decides is exact, what the core decides is nearly what is expected.
fn activity(kernel: &SweepKernel, cycles: u32, random: &mut Random) -> Activity {
    let foretold = kernel.recipe.per_iteration().iter().map(|(concept, number)| {
        let deviation = match concept.nature() {
            Nature::MicroArchitectural => 1.0 + DEVIATION * (2.0 * share(random) - 1.0),
            _ => 1.0,
        };
        (*concept, number * deviation)
    });
    let durations = kernel.durations.iter().copied();
    let amounts: Vec<(Concept, f64)> = foretold.chain(durations).collect();
    Activity::of_iteration(cycles, &amounts)
}

/// A random number from 0 to 1.
fn share(random: &mut Random) -> f64 {
    (random.word() >> 11) as f64 / (1u64 << 53) as f64
}
