//! Counters that stay open, for programs that report counts as long as they run.

use cyclometer_backend::region_sources;
use cyclometer_catalog::resolve_list_in;
use cyclometer_core::plan::{IntentSubject, Multiplex};
use cyclometer_core::{Event, Intent, Machine, Result, Scope, Target};
use cyclometer_monitor::{StandingCounters, StandingSetup};

use crate::EventTables;

/// Events that are counted on one target after another, each with counters that stay open.
///
/// ```
/// use cyclometer::{StandingEvents, Target, machine_for_regions};
///
/// # fn main() -> cyclometer::Result<()> {
/// let events = StandingEvents::new(machine_for_regions(), "page-faults,cycles")?;
/// let mut counters = events.open(Target::Process { pid: std::process::id(), inherit: true })?;
/// for value in counters.read() {
///     match value.verdict {
///         Some(verdict) => println!("{}: {} ({verdict})", value.name, value.total),
///         None => println!("{}: {}", value.name, value.latest.reason().unwrap_or_default()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct StandingEvents {
    machine: Machine,
    events: Vec<Event>,
}

impl StandingEvents {
    /// Finds the events of a list, in every spelling that `cyclometer stat -e` takes.
    ///
    /// # Errors
    ///
    /// `ErrorKind::UnknownEvent` and `ErrorKind::InvalidInput` for an invalid event.
    pub fn new(machine: Machine, list: &str) -> Result<StandingEvents> {
        let events = resolve_list_in(list, &machine, EventTables::here(&machine).0.tables(), true)?;
        Ok(StandingEvents { machine, events })
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Opens and starts the counters of one target, in the calling thread. An event that cannot be counted
    /// there is no error: its values say so.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` for a target that does not exist. `ErrorKind::HardwareLimit` for a `{group}`
    /// that does not fit on the counters.
    pub fn open(&self, target: Target) -> Result<StandingCounters> {
        let intent =
            Intent { subject: IntentSubject::Running, multiplex: Multiplex::Auto, ..Intent::default() };
        let plan = cyclometer_plan::plan(self.events.clone(), &self.machine, intent)?;
        StandingCounters::open(StandingSetup {
            plan,
            machine: self.machine.clone(),
            scope: self.scope(&target),
            target,
            sources: region_sources(Err("counters of other targets are read through the kernel".to_owned())),
        })
    }

    fn scope(&self, target: &Target) -> Scope {
        match target {
            Target::ThisThread | Target::Thread(_) => Scope::Thread,
            Target::Process { inherit: false, .. } => Scope::Process,
            Target::Cpus(cpus) if *cpus == self.machine.online => Scope::System,
            Target::Cpus(_) => Scope::Cpus,
            Target::Cgroup { .. } => Scope::Cgroup,
            _ => Scope::Tree,
        }
    }
}
