//! A simulated chip whose events are hidden, and its sweep.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use cyclometer_core::concept::Concept;
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask};
use cyclometer_inference::{EventObservations, Identifiability, Inference, Judgement, KernelTable};
use cyclometer_kernels::{Geometry, InstructionSet};
use cyclometer_semantics::{Activity, Semantics, SemanticsShape};
use cyclometer_sim::{Model, Settings, Tick};
use cyclometer_sweep::{
    SimulatedTarget, SweepKernel, SweepSettings, SweepTarget as _, kernel_table, kernels_for, sweep,
};

/// The timer of a quiet machine: 250 interrupts in a second.
const TICK: Tick = Tick { every_ns: 4_000_000, takes_ns: 4_000 };

/// A chip, and the kernels that run on it.
pub(crate) struct HiddenChip {
    pub(crate) model: &'static Model,
    pub(crate) table: KernelTable,
    pub(crate) identifiability: Identifiability,
    kernels: Vec<SweepKernel>,
    counters: CounterMask,
}

/// A swept table of hidden events.
pub(crate) struct SweptTable {
    pub(crate) semantics: Arc<Semantics>,
    /// The loop of each kernel.
    pub(crate) activities: Vec<Activity>,
    pub(crate) sizes: [u64; 4],
    pub(crate) events: Vec<SweptEvent>,
    pub(crate) sweep_time: Duration,
}

/// The observations of a code, and the verdict.
pub(crate) struct SweptEvent {
    pub(crate) code: u32,
    pub(crate) observed: EventObservations,
    pub(crate) judgement: Judgement,
    pub(crate) judging_time: Duration,
}

impl HiddenChip {
    pub(crate) fn new(model: &'static Model) -> Result<HiddenChip> {
        let set = match model.chip.family {
            Family::Intel | Family::Amd => InstructionSet::X86_64,
            Family::Apple | Family::Arm => InstructionSet::Aarch64,
            Family::RiscV => InstructionSet::Riscv64,
        };
        let mut kernels = kernels_for(set, &Geometry::default());
        // The durations of kernels are those of the chip, whatever its events are.
        let target = SimulatedTarget::new(model, Settings::default(), Arc::default(), &mut kernels);
        let counters: CounterMask = target.counters().into_iter().flatten().collect();
        let table = kernel_table(&kernels)?;
        Ok(HiddenChip { model, identifiability: Identifiability::of(&table), table, kernels, counters })
    }

    /// Tables of 255 codes whose events count any concept, those that no kernel moves included.
    pub(crate) fn shape(&self) -> SemanticsShape {
        SemanticsShape::of(self.counters, Concept::ALL)
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = CounterId> {
        self.counters.iter()
    }

    /// Hides the table of a seed in the chip, and finds out what its codes count.
    pub(crate) fn sweep(
        &self,
        seed: u64,
        shape: &SemanticsShape,
        settings: &SweepSettings,
    ) -> Result<SweptTable> {
        let semantics = Arc::new(Semantics::generated(seed, shape));
        let machine = Settings { seed, tick: Some(TICK), ..Settings::default() };
        let mut kernels = self.kernels.clone();
        let mut target = SimulatedTarget::new(self.model, machine, Arc::clone(&semantics), &mut kernels);
        let codes: Vec<u32> = shape.codes.clone().collect();
        let start = Instant::now();
        let observed = sweep(&mut target, &codes, &kernels, settings, |_| {})
            .with_context(|| format!("{}, seed {seed}", self.model.id))?;
        let sweep_time = start.elapsed();
        let inference = Inference::new(&self.table);
        let events = codes.into_iter().zip(observed).map(|(code, observed)| {
            let start = Instant::now();
            let judgement = inference.judge(&observed)?;
            Ok(SweptEvent { code, observed, judgement, judging_time: start.elapsed() })
        });
        let events = events.collect::<Result<Vec<SweptEvent>>>()?;
        Ok(SweptTable {
            semantics,
            activities: target.activities().to_vec(),
            sizes: settings.sizes(),
            events,
            sweep_time,
        })
    }
}
