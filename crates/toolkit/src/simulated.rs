//! Simulated machines: chips to learn and to test on, with workloads instead of commands.

use std::sync::Arc;

use cyclometer_backend::registers::CorePmu;
pub(crate) use cyclometer_backend::sim::Simulation;
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, Error, ErrorKind, Machine, Recovery, Result};
use cyclometer_semantics::Semantics;
use cyclometer_sim::{Concept, InjectedFault, Model, Settings, SimMachine, Tick, Workload};

use crate::EventTables;
use crate::chips::cycles;

pub use cyclometer_backend::sim::workload;

/// The prefix of a chip's name in the name of a machine.
pub const PREFIX: &str = "sim:";

/// The timer of its kernel: four milliseconds are usual, and so are some microseconds for each.
const TICK: Tick = Tick { every_ns: 4_000_000, takes_ns: 5_000 };

/// A simulated machine, switched off: every measurement switches it on anew.
#[derive(Clone, Debug)]
pub struct Simulated {
    model: &'static Model,
    settings: Settings,
    troubles: Vec<InjectedFault>,
    /// The meanings of its events, if they are not those of the model.
    semantics: Option<Arc<Semantics>>,
}

impl Simulated {
    /// A machine with one CPU of a chip, by the id of its table (`apple-m1`), or by that with `sim:` before
    /// it.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` with those that there are.
    pub fn find(name: &str) -> Result<Simulated> {
        let id = name.strip_prefix(PREFIX).unwrap_or(name);
        let model = Model::find(id).ok_or_else(|| unknown(id))?;
        let settings = Settings { tick: Some(TICK), ..Settings::default() };
        Ok(Simulated { model, settings, troubles: Vec::new(), semantics: None })
    }

    /// The ids of the chips that there are.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        Model::ALL.iter().map(|model| model.id)
    }

    /// The names of the workloads that there are.
    pub const WORKLOADS: &'static [&'static str] = &Workload::NAMES;

    /// The same, where this happens to the driver.
    #[must_use]
    pub fn with(mut self, misery: Misery) -> Simulated {
        self.troubles.push(misery.on(self.model));
        self
    }

    /// The same with another seed, which decides all that is left to chance.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Simulated {
        self.settings.seed = seed;
        self
    }

    /// The same, whose general counters count as a table says, whatever the names of its chip's events say.
    #[must_use]
    pub fn with_semantics(mut self, semantics: Semantics) -> Simulated {
        self.semantics = Some(Arc::new(semantics));
        self
    }

    /// Its chip.
    #[cfg(feature = "reverse")]
    pub(crate) fn model(&self) -> &'static Model {
        self.model
    }

    /// Its settings.
    #[cfg(feature = "reverse")]
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// The meanings of its events, if they are not those of its chip.
    #[cfg(feature = "reverse")]
    pub(crate) fn semantics(&self) -> Option<&Arc<Semantics>> {
        self.semantics.as_ref()
    }

    /// The description of the simulated machine.
    pub fn machine(&self) -> Machine {
        let mut machine = self.model.machine(self.settings.cpus);
        if self.semantics.is_some() {
            // Any code may count there, and the names of the chip say nothing.
            machine.core_types.iter_mut().for_each(|core| core.pmu.implemented = None);
        }
        machine
    }

    /// A workload by its text, as in `loop:250`.
    ///
    /// # Errors
    ///
    /// Those of [`workload`].
    pub fn workload(&self, text: &str) -> Result<Workload> {
        workload(text, self.model.mhz)
    }

    /// Switches it on.
    ///
    /// # Errors
    ///
    /// A fault that this machine cannot have.
    pub(crate) fn start(&self) -> Result<Simulation> {
        let mut machine = match &self.semantics {
            Some(semantics) => SimMachine::with_semantics(self.model, self.settings, Arc::clone(semantics)),
            None => SimMachine::new(self.model, self.settings),
        };
        self.troubles.iter().try_for_each(|trouble| machine.inject(*trouble))?;
        Ok(Simulation::new(machine))
    }

    /// Its PMU, for the driver.
    pub(crate) fn cores(&self, tables: &EventTables) -> Vec<CorePmu> {
        let tables = tables.all_of(self.model.id);
        vec![CorePmu {
            name: self.model.id.to_owned(),
            cpus: (0..self.settings.cpus).collect(),
            chip: self.model.chip,
            // No event is known to count cycles on a machine with meanings of its own.
            cycles: cycles(&tables, self.model.chip.counters.known()).filter(|_| self.semantics.is_none()),
        }]
    }
}

/// Fault injection: actions of a kernel, a hypervisor or another user of the PMU that disturb the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Misery {
    /// The register that enables counters is written over about every 100 µs.
    Rewrite,
    /// The first general counter is taken away after 1 ms.
    Steal,
    /// A watchdog holds a counter: Intel's and Arm's fixed one of cycles, else the last general one.
    Watchdog,
    /// Writes seem to succeed and change nothing.
    IgnoreWrites,
}

impl Misery {
    fn on(self, model: &Model) -> InjectedFault {
        let general = model.chip.counters.known().general_bits();
        let cycles = model.fixed.iter().find(|(_, counts)| *counts == Concept::Cycles);
        // The kernel always owns Apple's fixed counters, so that holding one would disturb nothing.
        let cycles = cycles.filter(|_| model.chip.family != Family::Apple);
        let held = match cycles {
            Some((n, _)) => CounterId::Fixed(*n),
            None => CounterId::General(63 - general.leading_zeros().min(63) as u8),
        };
        match self {
            Misery::Rewrite => InjectedFault::RewriteControl { every_ns: 100_000 },
            Misery::Steal => InjectedFault::StealCounter {
                cpu: 0,
                counter: general.trailing_zeros().min(63) as u8,
                after_ns: 1_000_000,
            },
            Misery::Watchdog => {
                InjectedFault::Watchdog { cpu: 0, counter: held, period_cycles: 1_000_000_000 }
            }
            Misery::IgnoreWrites => InjectedFault::IgnoreWrites,
        }
    }
}

fn unknown(id: &str) -> Error {
    let shown: String = id.chars().filter(|c| !c.is_control()).collect();
    let ids: Vec<&str> = Simulated::ids().collect();
    Error::new(ErrorKind::InvalidInput, format!("no chip '{shown}' is simulated"))
        .with_recovery(Recovery::fix(format!("there are {}", ids.join(", "))))
}
