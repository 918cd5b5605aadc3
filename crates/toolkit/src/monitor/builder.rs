//! The builder of a monitor.

use std::sync::Arc;
use std::time::Duration;

use cyclometer_backend::kperf::{KperfSharing, RunningProcesses};
use cyclometer_backend::{Serialisation, msr, region_sources, sysreg};
use cyclometer_catalog::resolve_list_in;
use cyclometer_core::event::Part;
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::machine::ProcessTracer;
use cyclometer_core::plan::{IntentSubject, Multiplex};
use cyclometer_core::{
    CpuSet, Error, ErrorKind, Event, Intent, Machine, Modes, Recovery, Result, Rung, Scope, Target,
};
use cyclometer_monitor::{LadderStep, Sampling, Setup, SourceMaker};

use super::user_reads::user_reads;
use super::{Monitor, settings};
use crate::{Command, Config, EventTables, Stat, chips, kperf_source, machine, machine_for_regions};

/// The scope in which a monitor counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum CountedScope {
    /// The thread that the region is in. Only here counters can be read in user space.
    #[default]
    Thread,
    /// The whole process: regions count all threads while they are open, so that those of several threads
    /// overlap.
    Process,
    /// Another process with its threads, and those that it starts.
    Pid(u32),
    /// Everything on these CPUs.
    Cpus(CpuSet),
}

/// Configures the events and settings of a [`Monitor`]; nothing is opened before [`MonitorBuilder::build`].
#[derive(Clone, Debug)]
pub struct MonitorBuilder {
    events: Vec<String>,
    scope: CountedScope,
    modes: Option<Modes>,
    backend: Option<Rung>,
    /// `None`: those of this machine.
    tables: Option<EventTables>,
    serialisation: Option<Serialisation>,
    user_reads: bool,
    calibrate: bool,
    sampling: Rate,
    buffer_size: Option<usize>,
    config: Config,
}

/// How often is sampled, as far as the builder says.
#[derive(Clone, Copy, Debug)]
enum Rate {
    AsConfigured,
    Hertz(u32),
}

/// How many samples are kept by default.
const BUFFER_SIZE: usize = 1024;

/// The events of a monitor by default.
const DEFAULT_EVENTS: &str = "cycles,instructions,task-clock,page-faults";

impl MonitorBuilder {
    pub(super) fn new() -> MonitorBuilder {
        MonitorBuilder {
            events: Vec::new(),
            scope: CountedScope::Thread,
            modes: None,
            backend: None,
            tables: None,
            serialisation: None,
            user_reads: true,
            calibrate: true,
            sampling: Rate::AsConfigured,
            buffer_size: None,
            config: Config::default(),
        }
    }

    /// Adds an event, or a comma-separated list, in every spelling that `cyclometer stat -e` takes: portable
    /// and vendors' names, perf's grammar with modifiers, raw codes, `{groups}`. Without any, cycles,
    /// instructions, CPU time and page faults are counted.
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

    /// Counts in this scope; by default in the calling thread.
    #[must_use]
    pub fn scope(mut self, scope: CountedScope) -> MonitorBuilder {
        self.scope = scope;
        self
    }

    /// The modes of events that name none; user mode by default.
    #[must_use]
    pub fn modes(mut self, modes: Modes) -> MonitorBuilder {
        self.modes = Some(modes);
        self
    }

    /// Counts with one source only; by default with the best for each event.
    #[must_use]
    pub fn backend(mut self, backend: Rung) -> MonitorBuilder {
        self.backend = Some(backend);
        self
    }

    /// Looks names of events up in these tables; by default in those of this machine
    /// ([`EventTables::here`]).
    #[must_use]
    pub fn tables(mut self, tables: EventTables) -> MonitorBuilder {
        self.tables = Some(tables);
        self
    }

    /// How reads in user space are kept apart from the instructions around them. The default is that of the
    /// configuration, else none.
    #[must_use]
    pub fn serialisation(mut self, how: Serialisation) -> MonitorBuilder {
        self.serialisation = Some(how);
        self
    }

    /// Whether counters are read in user space where that works; they are by default.
    #[must_use]
    pub fn user_reads(mut self, wanted: bool) -> MonitorBuilder {
        self.user_reads = wanted;
        self
    }

    /// Whether building the monitor measures the cost of reads and what they add to the counts. That takes
    /// some milliseconds, and is the default. Without it nothing is subtracted from the counts.
    #[must_use]
    pub fn calibrate(mut self, wanted: bool) -> MonitorBuilder {
        self.calibrate = wanted;
        self
    }

    /// Starts a thread that reads all counters at this rate in Hz, 1 to 10000, until the last clone of the
    /// monitor is dropped. [`Monitor::samples`] fetches its samples. With [`CountedScope::Thread`] the whole
    /// process is sampled, including the sampling thread.
    #[must_use]
    pub fn sampling_rate(mut self, hertz: u32) -> MonitorBuilder {
        self.sampling = Rate::Hertz(hertz);
        self
    }

    /// How many samples are kept until they are fetched, 1 to 1048576; 1024 by default.
    #[must_use]
    pub fn buffer_size(mut self, samples: usize) -> MonitorBuilder {
        self.buffer_size = Some(samples);
        self
    }

    /// Settings of a file or the environment. Calls of the builder override them, before or after this call.
    #[must_use]
    pub fn config(mut self, config: Config) -> MonitorBuilder {
        self.config = config;
        self
    }

    /// Opens the counters in the calling thread.
    ///
    /// An event that this machine cannot count is no error: its values say so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::UnknownEvent` and `ErrorKind::InvalidInput` for an invalid event.
    /// `ErrorKind::NoSuchTarget` for a process or CPU that does not exist. `ErrorKind::HardwareLimit` for a
    /// `{group}` that does not fit on the counters.
    pub fn build(&self) -> Result<Monitor> {
        self.build_on(machine_for_regions())
    }

    /// As [`MonitorBuilder::build`], on a machine that is said to be this one.
    fn build_on(&self, mut machine: Machine) -> Result<Monitor> {
        let mut steps = settings::apply(&self.config, &mut machine)?;
        let mut backend = self.backend;
        if backend == Some(Rung::Sysreg)
            && let Some(step) = settings::registers(&self.config, &machine)?
        {
            steps.push(step);
            backend = None;
        }
        let (target, scope) = self.target(&machine)?;
        let (tables, warning) = self.tables_on(&machine);
        steps.extend(warning.map(without_database));
        let events = self.resolved(&machine, &tables)?;
        let intent = Intent {
            only: self.backend,
            // The software PMU gives each thread its own counts.
            subject: match (&target, &machine.access.tracer) {
                (Target::ThisThread, Some(ProcessTracer::SoftwarePmu)) => IntentSubject::TranslatedRegions,
                (Target::ThisThread, _) => IntentSubject::Regions,
                _ => IntentSubject::Running,
            },
            multiplex: Multiplex::Auto,
            ..Intent::default()
        };
        let plan = cyclometer_plan::plan(events, &machine, intent)?;
        settings::limit_counters(&self.config, &plan)?;
        let sampling = self.sampling()?.map(|sampling| (sampling, sampled(&target)));
        let setup = Setup {
            sources: self.sources(&machine, &tables, backend),
            plan,
            longest_window: settings::longest_window(&self.config, &machine),
            machine,
            target,
            scope,
            calibrate: self.calibrate,
            steps,
            sampling,
        };
        Ok(Monitor { engine: cyclometer_monitor::Monitor::open(setup)?, builder: self.clone() })
    }

    fn serialised(&self) -> Serialisation {
        self.serialisation.or(self.config.serialisation).unwrap_or_default()
    }

    /// The tables, and why the machine's own ones are not among them.
    fn tables_on(&self, machine: &Machine) -> (EventTables, Option<String>) {
        match &self.tables {
            Some(tables) => (tables.clone(), None),
            None => EventTables::here(machine),
        }
    }

    fn sources(&self, machine: &Machine, tables: &EventTables, backend: Option<Rung>) -> SourceMaker {
        let checks_setting = self.config.x86.pce_flag_check.unwrap_or(true);
        let how = match self.user_reads {
            true => user_reads(machine, self.serialised(), checks_setting),
            false => Err("it was not asked for".to_owned()),
        };
        let registers = backend.filter(|rung| matches!(rung, Rung::Msr | Rung::Sysreg));
        let (machine, tables) = (machine.clone(), tables.clone());
        let cpu = match &self.scope {
            CountedScope::Cpus(cpus) if cpus.len() == 1 => cpus.iter().next(),
            _ => None,
        };
        let sharing = KperfSharing::default();
        Arc::new(move || match registers {
            Some(Rung::Msr) => msr::source(chips::for_counting(&machine, &tables)).into_iter().collect(),
            Some(_) => sysreg::source(chips::for_counting(&machine, &tables), cpu).into_iter().collect(),
            None => {
                let mut all = region_sources(how.clone());
                // Where the framework cannot be opened, the source is missing and the plan goes on without
                // it.
                let how = (sharing.clone(), RunningProcesses::Refused);
                all.extend(kperf_source::open(&machine, &tables, how).unwrap_or_default());
                all
            }
        })
    }

    fn sampling(&self) -> Result<Option<Sampling>> {
        let configured = self.config.buffer_size.and_then(|size| usize::try_from(size).ok());
        let capacity = self.buffer_size.or(configured).unwrap_or(BUFFER_SIZE);
        match (self.sampling, self.config.sampling_interval_ms) {
            (Rate::Hertz(rate), _) => Sampling::at(rate, capacity).map(Some),
            (Rate::AsConfigured, Some(ms)) => {
                Sampling::every(Duration::from_millis(ms.into()), capacity).map(Some)
            }
            (Rate::AsConfigured, None) => Ok(None),
        }
    }

    fn resolved(&self, machine: &Machine, tables: &EventTables) -> Result<Vec<Event>> {
        let list = match self.events.is_empty() {
            true => DEFAULT_EVENTS.to_owned(),
            false => self.events.join(","),
        };
        let mut events = resolve_list_in(&list, machine, tables.tables(), true)?;
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
    /// As [`MonitorBuilder::build`], for an invalid event.
    pub fn command(&self, command: CommandSpec) -> Result<Command> {
        let stat = Stat::new(machine()).backend(self.backend);
        let mut stat = self.tables.iter().cloned().fold(stat, Stat::tables);
        if !self.events.is_empty() {
            stat = stat.events(&self.events.join(","))?;
        }
        Ok(Command::of(stat, command))
    }
}

/// The step from the event database of macOS to the tables of the catalogue.
fn without_database(warning: String) -> LadderStep {
    let because = (ErrorKind::Io, warning);
    LadderStep::refused(None, "the event database of macOS", because, "used the built-in event tables")
}

/// The target of sampling: a thread cannot read the counters of all others, so that the process is sampled
/// instead of a thread.
fn sampled(target: &Target) -> Target {
    match target {
        Target::ThisThread => Target::Process { pid: std::process::id(), inherit: true },
        other => other.clone(),
    }
}

/// The event in these modes, unless it names its own or has no modes. The software PMU and the system's
/// accounting have no choice.
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

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::plan::PlanLine;

    fn recorded(name: &str) -> Machine {
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        crate::replay_machine(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn labels(builder: &MonitorBuilder, machine: &Machine) -> Vec<String> {
        builder
            .resolved(machine, &EventTables::embedded())
            .unwrap()
            .iter()
            .map(|event| event.name.clone())
            .collect()
    }

    #[test]
    fn the_builder_says_how_reads_are_serialised_before_the_configuration_does() {
        let config = Config { serialisation: Some(Serialisation::Memory), ..Config::default() };
        let builder = MonitorBuilder::new();
        assert_eq!(builder.serialised(), Serialisation::None);
        assert_eq!(builder.clone().config(config.clone()).serialised(), Serialisation::Memory);
        let said = builder.serialisation(Serialisation::None).config(config);
        assert_eq!(said.serialised(), Serialisation::None);
    }

    #[test]
    fn events_are_taken_in_every_spelling_and_in_their_order() {
        let builder = MonitorBuilder::new().event("instructions:u,BR_MISP_RETIRED.ALL_BRANCHES").events([
            "r1c5",
            "cpu/event=0xc5,umask=1/",
            "l1d_cache_misses",
            "page-faults",
        ]);
        let names = labels(&builder, &recorded("skylake"));
        assert_eq!(
            names,
            [
                "instructions",
                "BR_MISP_RETIRED.ALL_BRANCHES",
                "r1c5",
                "cpu/event=0xc5,umask=1/",
                "l1d_cache_misses",
                "page-faults"
            ]
        );
    }

    #[test]
    fn modes_change_events_that_name_none() {
        let builder = MonitorBuilder::new().event("cycles,instructions:u,wall_time").modes(Modes::KERNEL);
        let machine = recorded("skylake");
        let plan = cyclometer_plan::plan(
            builder.resolved(&machine, &EventTables::embedded()).unwrap(),
            &machine,
            Intent::default(),
        )
        .unwrap();
        let names: Vec<String> = plan.lines.iter().map(PlanLine::label).collect();
        assert_eq!(names, ["cycles:k", "instructions:u", "wall_time"]);
    }

    #[test]
    fn the_builder_counts_for_more_than_the_configuration() {
        let mut config = Config::default();
        (config.sampling_interval_ms, config.buffer_size) = (Some(100), Some(7));
        let sampling = |builder: MonitorBuilder| builder.sampling().unwrap();
        let configured = Sampling::every(Duration::from_millis(100), 7).unwrap();
        assert_eq!(sampling(MonitorBuilder::new().config(config.clone())), Some(configured));
        let told = Sampling::at(50, 9).unwrap();
        let builder = || MonitorBuilder::new().sampling_rate(50).buffer_size(9);
        assert_eq!(sampling(builder().config(config.clone())), Some(told));
        assert_eq!(
            sampling(MonitorBuilder::new().config(config).sampling_rate(50).buffer_size(9)),
            Some(told)
        );
        assert_eq!(sampling(MonitorBuilder::new()), None);
    }
}
