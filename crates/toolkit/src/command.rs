//! Counting a child process from a program.

use cyclometer_core::{Counted, Report, Result, Rung, Scope};
use cyclometer_stats::{Summary, summarise_with};

use crate::{CommandSpec, Launcher, Quiet, Stat, machine};

/// A command to be run and counted, as `cyclometer stat` does.
///
/// Where there is no PMU, events that were asked for by name are counted by the software PMU, which runs the
/// program under translation. It is built with the feature `software-pmu`.
///
/// ```
/// use cyclometer::{Command, CommandSpec, Launcher};
///
/// # fn main() -> cyclometer::Result<()> {
/// // First thing in `main`: the helper that starts commands must be small.
/// let launcher = Launcher::start()?;
/// let summary = Command::new(CommandSpec::new("true")).events("wall_time,page-faults")?.run(&launcher)?;
/// assert_eq!(summary.lines.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Command {
    stat: Stat,
}

impl Command {
    /// A command on the machine that this runs on.
    pub fn new(command: CommandSpec) -> Command {
        Command::of(Stat::new(machine()), command)
    }

    pub(crate) fn of(stat: Stat, command: CommandSpec) -> Command {
        Command { stat: stat.command(command) }
    }

    /// Adds events, a comma-separated list in perf's grammar; without any the default events are counted.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput`, `ErrorKind::UnknownEvent`.
    pub fn events(self, list: &str) -> Result<Command> {
        Ok(Command { stat: self.stat.events(list)? })
    }

    /// Exact number of measured executions.
    #[must_use]
    pub fn runs(self, runs: u32) -> Command {
        Command { stat: self.stat.runs(runs) }
    }

    /// Counts with one source only; by default with the best for each event.
    #[must_use]
    pub fn backend(self, backend: Rung) -> Command {
        Command { stat: self.stat.backend(Some(backend)) }
    }

    /// How many runs the software PMU counts, if it counts any event.
    #[must_use]
    pub fn counted(self, counted: Counted) -> Command {
        Command { stat: self.stat.counted(counted) }
    }

    /// Runs and counts it.
    ///
    /// # Errors
    ///
    /// Only if nothing was measured.
    pub fn run(&self, launcher: &Launcher) -> Result<Summary> {
        Ok(summarise_with(&self.report(launcher)?, Scope::Tree, &self.stat.metric_requests()))
    }

    /// Runs it, and returns the report.
    ///
    /// # Errors
    ///
    /// Only if nothing was measured.
    pub fn report(&self, launcher: &Launcher) -> Result<Report> {
        self.stat.run(launcher, &mut Quiet)
    }
}
