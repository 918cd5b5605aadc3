//! Launchers and sources of a measurement of commands, in one place for `Stat`, `Compare` and marked regions.
//!
//! ```text
//!              native launcher ─┐                          ┌─ bound to CPUs
//! Stat, plan ─ software PMU ────┼─ Wiring ── each within ──┼─ with a board for marked regions
//!              simulated chip ──┘                          └─ as it is
//!                                 │
//!                                 └──> SessionResources
//! ```

use cyclometer_backend::{Launcher, Pinned, Software};
use cyclometer_core::{CpuSet, Launch, Machine, Source};
use cyclometer_session::SessionResources;

use crate::marked::{Boards, MarkedLaunch, MarkedSource};
use crate::simulated::Simulation;

/// The launchers and sources of one measurement.
pub(crate) struct Wiring {
    runner: CommandRunner,
    sources: Vec<Box<dyn Source>>,
}

/// The software or machine that runs commands.
enum CommandRunner {
    /// This machine, and the software PMU where there is one.
    Here(Option<Software>),
    /// A simulated machine, whose commands are workloads.
    Simulated(Simulation),
}

/// Additions of a measurement to each launcher and source.
pub(crate) enum Decoration<'a> {
    /// Nothing.
    Nothing,
    /// Binds commands to these CPUs; an empty set binds none.
    Affinity(CpuSet),
    /// Gives each command a board, with the counters that it is counted with.
    Boards(&'a Boards),
}

impl Wiring {
    /// Commands on this machine.
    pub(crate) fn here(software: Option<Software>, mut sources: Vec<Box<dyn Source>>) -> Wiring {
        sources.extend(software.as_ref().map(Software::source));
        Wiring { runner: CommandRunner::Here(software), sources }
    }

    /// Workloads on a simulated machine.
    pub(crate) fn simulated(simulation: Simulation, source: Box<dyn Source>) -> Wiring {
        Wiring { runner: CommandRunner::Simulated(simulation), sources: vec![source] }
    }

    /// Has `measure` use the launchers and sources.
    pub(crate) fn with<R>(
        self,
        decoration: &Decoration<'_>,
        launcher: &Launcher,
        machine: &Machine,
        measure: impl FnOnce(&SessionResources<'_>) -> R,
    ) -> R {
        let (software, simulation) = match &self.runner {
            CommandRunner::Here(software) => (software.as_ref(), None),
            CommandRunner::Simulated(simulation) => (None, Some(simulation)),
        };
        let simulated = simulation.map(|simulation| simulation.launcher(launcher));
        let translating = software.map(|software| software.launcher(launcher));
        let launch = decoration.launch(simulated.as_deref().unwrap_or(launcher));
        let translated = translating.as_deref().map(|inner| decoration.launch(inner));
        let sources: Vec<_> = self.sources.into_iter().map(|inner| decoration.source(inner)).collect();
        let sources: Vec<&dyn Source> = sources.iter().map(AsRef::as_ref).collect();
        measure(&SessionResources {
            launch: launch.as_ref(),
            translated: translated.as_deref(),
            sources: &sources,
            machine,
        })
    }
}

impl Decoration<'_> {
    fn launch<'l>(&self, inner: &'l dyn Launch) -> Box<dyn Launch + 'l> {
        match self {
            Decoration::Nothing => Box::new(inner),
            Decoration::Affinity(cpus) => Box::new(Pinned::new(inner, cpus.clone())),
            Decoration::Boards(boards) => Box::new(MarkedLaunch { inner, boards: (*boards).clone() }),
        }
    }

    fn source(&self, inner: Box<dyn Source>) -> Box<dyn Source> {
        match self {
            Decoration::Nothing | Decoration::Affinity(_) => inner,
            Decoration::Boards(boards) => Box::new(MarkedSource { inner, boards: (*boards).clone() }),
        }
    }
}
