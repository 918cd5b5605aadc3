//! Counters of targets: those of this machine, behind traits so that tests can have others.

use cyclometer_toolkit::core::Result;
use cyclometer_toolkit::{Machine, StandingCounters, StandingEvents, StandingValue, Target};

use crate::config::ExporterConfig;

/// Whose events are counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventsOf {
    /// The machine's.
    Machine,
    /// Those of control groups.
    Cgroups,
    /// Those of a configured process.
    Process(usize),
}

/// Opens counters.
pub trait OpenTarget {
    /// The most counters and series that a target of some CPUs or threads would take, by what is known.
    fn events(&self, of: EventsOf) -> usize;

    /// Opens and starts the counters of a target.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` for a target that has vanished, and other errors for which no event is
    /// counted.
    fn open(&mut self, of: EventsOf, target: Target) -> Result<Box<dyn TargetCounters>>;
}

/// The open counters of a target; dropping them closes them.
pub trait TargetCounters {
    /// Number of counters, each of which may be a descriptor.
    fn counters(&self) -> usize;

    /// One value for each event.
    fn read(&mut self) -> Vec<StandingValue>;
}

impl TargetCounters for StandingCounters {
    fn counters(&self) -> usize {
        StandingCounters::counters(self)
    }

    fn read(&mut self) -> Vec<StandingValue> {
        StandingCounters::read(self)
    }
}

/// The counters of this machine.
#[derive(Clone, Debug)]
pub struct HostCounters {
    machine: StandingEvents,
    cgroups: StandingEvents,
    processes: Vec<StandingEvents>,
}

impl HostCounters {
    /// Finds the configured events.
    ///
    /// # Errors
    ///
    /// The key of the configuration with an event that cannot be found, and the error.
    pub fn new(machine: &Machine, config: &ExporterConfig) -> std::result::Result<HostCounters, String> {
        let events = |key: &str, list: &str| {
            StandingEvents::new(machine.clone(), list)
                .map_err(|error| format!("{key}: {error}; {}", error.recovery()))
        };
        let process = |(i, rule): (usize, &crate::config::ProcessRule)| {
            events(&format!("processes[{i}].events"), &rule.events)
        };
        Ok(HostCounters {
            machine: events("machine.events", &config.machine_events)?,
            cgroups: events("cgroups.events", &config.cgroups.events)?,
            processes: config
                .processes
                .iter()
                .enumerate()
                .map(process)
                .collect::<std::result::Result<_, _>>()?,
        })
    }

    fn of(&self, of: EventsOf) -> &StandingEvents {
        match of {
            EventsOf::Machine => &self.machine,
            EventsOf::Cgroups => &self.cgroups,
            EventsOf::Process(rule) => self.processes.get(rule).unwrap_or(&self.cgroups),
        }
    }
}

impl OpenTarget for HostCounters {
    fn events(&self, of: EventsOf) -> usize {
        self.of(of).len()
    }

    fn open(&mut self, of: EventsOf, target: Target) -> Result<Box<dyn TargetCounters>> {
        Ok(Box::new(self.of(of).open(target)?))
    }
}
