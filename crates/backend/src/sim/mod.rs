//! A simulated machine: its registers as a bus, its threads as children.
//!
//! The driver is the one that runs on hardware; only time and threads are simulated. No command is ever
//! executed.

mod bus;
mod child;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Child, Error, ErrorKind, Launch, Recovery, Result, Rung, Source};
use cyclometer_sim::{SimMachine, Workload};
use cyclometer_sys::signals::Watch;

use crate::launch::Launcher;
use crate::registers::{CorePmu, RegisterSource};

pub use bus::SimBus;
use child::SimChild;

/// A simulated machine with its clock at 0 and no threads.
pub struct Simulation {
    bus: Rc<RefCell<SimBus>>,
}

impl Simulation {
    /// A simulation of this machine.
    pub fn new(machine: SimMachine) -> Simulation {
        Simulation { bus: Rc::new(RefCell::new(SimBus::new(machine))) }
    }

    /// The register driver over the simulated registers; `cores` are its PMUs.
    pub fn source(&self, cores: Vec<CorePmu>) -> Box<dyn Source> {
        Box::new(RegisterSource::new(Rung::Sim, cores, Rc::clone(&self.bus)))
    }

    /// Starts workloads in place of commands; waits end when a signal comes to the launcher's watch.
    pub fn launcher(&self, launcher: &Launcher) -> Box<dyn Launch> {
        Box::new(SimLauncher { bus: Rc::clone(&self.bus), signals: launcher.watch() })
    }
}

struct SimLauncher {
    bus: Rc<RefCell<SimBus>>,
    signals: Option<Arc<Watch>>,
}

impl Launch for SimLauncher {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        let name = command.program.to_string_lossy();
        let workload = workload(&name, self.bus.borrow().machine().model().mhz)?;
        Ok(Box::new(SimChild::new(Rc::clone(&self.bus), workload, self.signals.clone())))
    }
}

/// Default duration of a workload, in milliseconds.
const USUAL_MS: u64 = 100;

/// Maximum duration of a workload, in milliseconds: an hour.
const MOST_MS: u64 = 3_600_000;

/// Parses a workload such as `loop` or `phases:250`: a name, and about so many milliseconds of simulated
/// time, in whole rounds.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for an unknown name, or an invalid time.
pub fn workload(text: &str, mhz: u64) -> Result<Workload> {
    let (name, ms) = match text.split_once(':') {
        None => (text, USUAL_MS),
        Some((name, ms)) => {
            (name, ms.parse().ok().filter(|ms| (1..=MOST_MS).contains(ms)).ok_or_else(|| no_time(ms))?)
        }
    };
    let workload = Workload::named(name).ok_or_else(|| no_workload(name))?;
    let round = workload.phases.iter().map(|phase| phase.cycles).sum::<u64>().max(1);
    let cycles = ms.saturating_mul(1000).saturating_mul(mhz);
    Ok(workload.for_rounds(cycles.div_ceil(round)))
}

fn no_workload(name: &str) -> Error {
    let shown: String = name.chars().filter(|c| !c.is_control()).collect();
    Error::new(ErrorKind::InvalidInput, format!("'{shown}' is no workload of simulated machines"))
        .with_recovery(Recovery::fix(format!("there are {}", Workload::NAMES.join(", "))))
}

fn no_time(text: &str) -> Error {
    let shown: String = text.chars().filter(|c| !c.is_control()).collect();
    let message = format!("'{shown}' is no time for a workload");
    Error::new(ErrorKind::InvalidInput, message)
        .with_recovery(Recovery::fix(format!("give milliseconds from 1 to {MOST_MS}, as in loop:250")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_lasts_about_as_long_as_it_says() {
        for (text, ms) in [("loop", 100), ("loop:250", 250), ("phases:1", 1)] {
            let cycles = workload(text, 3000).unwrap().cycles().unwrap();
            let round = Workload::named(text.split(':').next().unwrap()).unwrap();
            let round: u64 = round.phases.iter().map(|phase| phase.cycles).sum();
            assert!((ms * 3_000_000..ms * 3_000_000 + round).contains(&cycles), "{text} {cycles}");
        }
    }

    #[test]
    fn what_is_no_workload_is_named_with_those_that_are() {
        let error = workload("zork", 3000).unwrap_err();
        assert_eq!(error.to_string(), "'zork' is no workload of simulated machines");
        assert!(error.recovery().to_string().contains("loop, phases"));
        for text in ["loop:", "loop:0", "loop:-1", "loop:3600001", "loop:1:2"] {
            assert!(workload(text, 3000).unwrap_err().to_string().contains("no time"), "{text}");
        }
    }
}
