//! What a monitor is to count.

use std::sync::Arc;

use cyclometer_backend::{Serialisation, region_sources};
use cyclometer_catalog::resolve_list_in;
use cyclometer_core::event::Part;
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::plan::Multiplex;
use cyclometer_core::{
    CpuSet, Error, ErrorKind, Event, Intent, Machine, Modes, Recovery, Result, Rung, Scope, Target,
};
use cyclometer_monitor::{LadderStep, Setup};

use super::Monitor;
use super::user_reads::user_reads;
use crate::{Command, EventTables, Stat, machine};

/// What a monitor counts of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CountedScope {
    /// The thread that the region is in. Only here counters can be read in user space.
    #[default]
    Thread,
    /// The whole process: regions count what all threads do meanwhile, so that those of several threads overlap.
    Process,
    /// Another process with its threads, and those that it starts.
    Pid(u32),
    /// Everything on these CPUs.
    Cpus(CpuSet),
}

/// Says what a [`Monitor`] counts and how; nothing is opened before [`MonitorBuilder::build`].
#[derive(Clone, Debug)]
pub struct MonitorBuilder {
    events: Vec<String>,
    scope: CountedScope,
    modes: Option<Modes>,
    backend: Option<Rung>,
    tables: EventTables,
    serialisation: Serialisation,
    user_reads: bool,
    calibrate: bool,
}

/// What regions count when nothing is asked for.
const DEFAULT_EVENTS: &str = "cycles,instructions,task-clock,page-faults";

impl MonitorBuilder {
    pub(super) fn new() -> MonitorBuilder {
        MonitorBuilder {
            events: Vec::new(),
            scope: CountedScope::Thread,
            modes: None,
            backend: None,
            tables: EventTables::embedded(),
            serialisation: Serialisation::None,
            user_reads: true,
            calibrate: true,
        }
    }

    /// Adds an event, or a comma-separated list, in every spelling that `cyclometer stat -e` takes: portable and vendors' names,
    /// perf's grammar with modifiers, raw codes, `{groups}`. Without any, cycles, instructions, CPU time and page faults are
    /// counted.
    #[must_use]
    pub fn event(mut self, name: impl Into<String>) -> MonitorBuilder {
        self.events.push(name.into());
        self
    }

    /// Adds several events.
    #[must_use]
    pub fn events<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> MonitorBuilder {
        self.events.extend(names.into_iter().map(Into::into));
        self
    }

    /// Counts of this; of the calling thread where nothing is said.
    #[must_use]
    pub fn scope(mut self, scope: CountedScope) -> MonitorBuilder {
        self.scope = scope;
        self
    }

    /// The modes of events that name none; user mode where nothing is said.
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> MonitorBuilder {
        self.modes = Some(modes);
        self
    }

    /// Counts with one source only; the best for each event where nothing is said.
    #[must_use]
    pub fn backend(mut self, backend: Rung) -> MonitorBuilder {
        self.backend = Some(backend);
        self
    }

    /// Looks names of events up in these tables.
    #[must_use]
    pub fn tables(mut self, tables: EventTables) -> MonitorBuilder {
        self.tables = tables;
        self
    }

    /// How reads in user space are kept apart from the instructions around them; not at all where nothing is said.
    #[must_use]
    pub fn serialisation(mut self, how: Serialisation) -> MonitorBuilder {
        self.serialisation = how;
        self
    }

    /// Whether counters are read in user space where that works; they are where nothing is said.
    #[must_use]
    pub fn user_reads(mut self, wanted: bool) -> MonitorBuilder {
        self.user_reads = wanted;
        self
    }

    /// Whether the cost of reads and what they add to the counts is measured when the monitor is built, which takes some
    /// milliseconds; it is where nothing is said. Without it nothing is taken off the counts.
    #[must_use]
    pub fn calibrate(mut self, wanted: bool) -> MonitorBuilder {
        self.calibrate = wanted;
        self
    }

    /// Opens the counters in the calling thread.
    ///
    /// An event that this machine cannot count is no error: its values say so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::UnknownEvent` and `ErrorKind::InvalidInput` for what is no event; `ErrorKind::NoSuchTarget` for a process or
    /// CPU that does not exist; `ErrorKind::HardwareLimit` for a `{group}` that does not fit on the counters.
    pub fn build(&self) -> Result<Monitor> {
        self.build_on(machine())
    }

    fn build_on(&self, machine: Machine) -> Result<Monitor> {
        let steps: Vec<LadderStep> = Vec::new();
        let (target, scope) = self.target(&machine)?;
        let events = self.resolved(&machine)?;
        let intent =
            Intent { only: self.backend, of_command: false, multiplex: Multiplex::Auto, ..Intent::default() };
        let plan = cyclometer_plan::plan(events, &machine, intent)?;
        let how = match self.user_reads {
            true => user_reads(&machine, self.serialisation, true),
            false => Err("it was not asked for".to_owned()),
        };
        let sources = Arc::new(move || region_sources(how.clone()));
        let calibrate = self.calibrate;
        let setup = Setup { plan, machine, target, scope, sources, calibrate, steps };
        Ok(Monitor { engine: cyclometer_monitor::Monitor::open(setup)?, builder: self.clone() })
    }

    fn resolved(&self, machine: &Machine) -> Result<Vec<Event>> {
        let list = match self.events.is_empty() {
            true => DEFAULT_EVENTS.to_owned(),
            false => self.events.join(","),
        };
        let mut events = resolve_list_in(&list, machine, self.tables.tables(), true)?;
        if let Some(modes) = self.modes {
            events.iter_mut().for_each(|event| in_modes(event, modes));
        }
        Ok(events)
    }

    fn target(&self, machine: &Machine) -> Result<(Target, Scope)> {
        Ok(match &self.scope {
            CountedScope::Thread => (Target::ThisThread, Scope::Thread),
            CountedScope::Process => {
                (Target::Process { pid: std::process::id(), inherit: true }, Scope::Process)
            }
            CountedScope::Pid(pid) => {
                cyclometer_backend::Attached::process(*pid)?;
                (Target::Process { pid: *pid, inherit: true }, Scope::Process)
            }
            CountedScope::Cpus(cpus) => {
                let missing = cpus.difference(&machine.online);
                if cpus.is_empty() || !missing.is_empty() {
                    return Err(Error::new(ErrorKind::NoSuchTarget, format!("CPU {missing} is not online"))
                        .with_recovery(Recovery::fix(format!("online CPUs are {}", machine.online))));
                }
                (Target::Cpus(cpus.clone()), Scope::Cpus)
            }
        })
    }

    /// Measures a child process with the events of this builder.
    ///
    /// # Errors
    ///
    /// As [`MonitorBuilder::build`], for what is no event.
    pub fn command(&self, command: CommandSpec) -> Result<Command> {
        let mut stat = Stat::new(machine()).tables(self.tables.clone()).backend(self.backend);
        if !self.events.is_empty() {
            stat = stat.events(&self.events.join(","))?;
        }
        Ok(Command::of(stat, command))
    }
}

/// The event in these modes, unless it names its own or modes mean nothing to it. The software PMU and the system's accounting
/// have no choice.
fn in_modes(event: &mut Event, modes: Modes) {
    if event.modifiers.modes.is_some() {
        return;
    }
    let chooses = |part: &Part| matches!(part, Part::Perf(_) | Part::Registers(_));
    for candidate in &mut event.candidates {
        if candidate.modes.is_some() && candidate.parts.iter().all(chooses) {
            candidate.modes = Some(modes);
        }
    }
    event.modifiers.modes = event.candidates.iter().any(|way| way.modes == Some(modes)).then_some(modes);
}
