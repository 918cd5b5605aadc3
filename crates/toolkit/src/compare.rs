//! Comparing commands, as `cyclometer compare` does.

use std::time::Duration;

use cyclometer_backend::Launcher;
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Counted, CpuSet, Error, ErrorKind, LaunchKind, Plan, Recovery, Result};
use cyclometer_session::SessionSettings;
use cyclometer_session::compare::{Arm, Comparison, Hooks, Schedule, Watcher};

use crate::Stat;
use crate::wiring::Decoration;

/// Describes a comparison; nothing is opened before [`Compare::run`].
///
/// ```
/// use cyclometer::compare::{Compare, Design, Ignore, Question, Series, THRESHOLD, compare};
/// use cyclometer::{CommandSpec, Launcher, Stat, machine, summarise};
///
/// # fn main() -> cyclometer::Result<()> {
/// let launcher = Launcher::start()?;
/// let stat = Stat::new(machine()).events("wall_time,page-faults")?;
/// let both = Compare::new(stat)
///     .command(CommandSpec::new("true"))
///     .command(CommandSpec { args: vec!["-c".into(), "exit 0".into()], ..CommandSpec::new("sh") })
///     .pairs(6);
/// let comparison = both.run(&launcher, &mut Ignore)?;
/// let series: Vec<_> =
///     comparison.reports.iter().map(|report| Series::all_of(&summarise(report))).collect();
/// let question = Question { design: Design::Paired, threshold: THRESHOLD };
/// for one in &compare(&series[0], &[&series[1]], question)[0] {
///     println!("{}: {}", one.name, one.finding.word());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Compare {
    stat: Stat,
    arms: Vec<(CommandSpec, Hooks)>,
    pairs: u32,
    counted: Counted,
    warmups: Option<u32>,
    budget: Option<Duration>,
    padding: u16,
    cpus: CpuSet,
}

/// The default number of pairs.
pub const PAIRS: u32 = 20;

/// The default number of runs of each command that the software PMU counts: as many as show whether counts
/// repeat.
pub const COUNTED: u32 = 2;

/// The greatest padding of the environment: the stack starts at a multiple of 16 bytes, and its offset in a
/// page repeats after 4 KiB.
const PADDING: u16 = 4095;

/// A watcher that does nothing.
pub struct Ignore;

impl Watcher for Ignore {}

/// How often each command will be executed at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executions {
    /// Commands.
    pub commands: u32,
    /// Unmeasured executions of each.
    pub warmups: u32,
    /// Executions of each that the software PMU counts.
    pub counted: u32,
    /// Executions of each as it is.
    pub native: u32,
}

impl Executions {
    /// All of them.
    pub fn total(self) -> u64 {
        u64::from(self.commands)
            * (u64::from(self.warmups) + u64::from(self.counted) + u64::from(self.native))
    }
}

impl Compare {
    /// A comparison of commands; `stat` gives the events, the machine and the settings. Its own command and
    /// number of runs do not matter.
    pub fn new(stat: Stat) -> Compare {
        Compare {
            stat,
            arms: Vec::new(),
            pairs: PAIRS,
            counted: Counted::Auto,
            warmups: None,
            budget: None,
            padding: PADDING,
            cpus: CpuSet::default(),
        }
    }

    /// Adds a command.
    pub fn command(self, command: CommandSpec) -> Compare {
        self.command_with(command, Hooks::default())
    }

    /// Adds a command with the hooks that run around it.
    pub fn command_with(mut self, command: CommandSpec, hooks: Hooks) -> Compare {
        self.arms.push((command, hooks));
        self
    }

    /// Number of pairs: of executions of each command as it is.
    pub fn pairs(mut self, pairs: u32) -> Compare {
        self.pairs = pairs;
        self
    }

    /// Number of executions of each command under the software PMU, if that counts any event. They come on
    /// top of the pairs; with [`Counted::All`] all executions are under it, and none come on top.
    /// [`Counted::Auto`] is [`COUNTED`], and one where a command loses its counts in the first.
    pub fn counted(mut self, counted: Counted) -> Compare {
        self.counted = counted;
        self
    }

    /// Executions of each command that are not measured, at first; `None`: one, if there are native ones at
    /// all.
    pub fn warmups(mut self, warmups: Option<u32>) -> Compare {
        self.warmups = warmups;
        self
    }

    /// Begins no other pair after this time.
    pub fn budget(mut self, budget: Option<Duration>) -> Compare {
        self.budget = budget;
        self
    }

    /// Whether a variable of random length is added to the environment, of another length in each pair.
    pub fn padded(mut self, padded: bool) -> Compare {
        self.padding = if padded { PADDING } else { 0 };
        self
    }

    /// Binds the commands to these CPUs.
    ///
    /// # Errors
    ///
    /// `ErrorKind::NoSuchTarget` naming the CPUs that are not online.
    pub fn cpus(mut self, cpus: CpuSet) -> Result<Compare> {
        let online = &self.stat.machine().online;
        let missing = cpus.difference(online);
        if !missing.is_empty() {
            return Err(Error::new(ErrorKind::NoSuchTarget, format!("CPU {missing} is not online"))
                .with_recovery(Recovery::fix(format!("online CPUs are {online}"))));
        }
        self.cpus = cpus;
        Ok(self)
    }

    /// The plan: events, their sources, and the runs that count them.
    ///
    /// # Errors
    ///
    /// As [`Stat::plan`].
    pub fn plan(&self) -> Result<Plan> {
        Ok(self.planned()?.1)
    }

    /// How often commands will be executed, at most.
    ///
    /// # Errors
    ///
    /// As [`Stat::plan`].
    pub fn executions(&self) -> Result<Executions> {
        let (_, plan) = self.planned()?;
        let commands = u32::try_from(self.arms.len()).unwrap_or(u32::MAX);
        let native = plan.native_runs(plan.intent.runs);
        let counted = plan.intent.runs - native;
        Ok(Executions { commands, warmups: self.warmups_of(native), counted, native })
    }

    fn warmups_of(&self, native: u32) -> u32 {
        self.warmups.unwrap_or(u32::from(native > 0))
    }

    /// Runs that only count are added to the pairs; without native runs they are the only ones.
    fn planned(&self) -> Result<(Stat, Plan)> {
        let (counted, runs_on_top) = match self.counted {
            Counted::Auto => (Counted::AtMost(COUNTED), Some(COUNTED)),
            Counted::Runs(runs) => (Counted::Runs(runs.max(1)), Some(runs.max(1))),
            Counted::AtMost(runs) => (Counted::AtMost(runs.max(1)), Some(runs.max(1))),
            Counted::All => (Counted::All, None),
        };
        let with = |runs: u32| -> Result<(Stat, Plan)> {
            let stat = self.stat.clone().command(CommandSpec::new("")).runs(runs).counted(counted);
            let plan = stat.plan()?;
            Ok((stat, plan))
        };
        let Some(on_top) = runs_on_top else { return with(self.pairs) };
        let (stat, plan) = with(self.pairs.saturating_add(on_top))?;
        // Runs that count nothing are of no use.
        let has = |kind| plan.passes.iter().any(|pass| pass.launch == kind && !pass.slots.is_empty());
        match (has(LaunchKind::Translated), has(LaunchKind::Native)) {
            (true, true) => Ok((stat, plan)),
            (true, false) => with(on_top),
            (false, _) => with(self.pairs),
        }
    }

    /// Measures all commands alternately.
    ///
    /// # Errors
    ///
    /// Only if a command was not measured even once; later failures are reported in the comparison.
    pub fn run(&self, launcher: &Launcher, watcher: &mut dyn Watcher) -> Result<Comparison> {
        let (stat, plan) = self.planned()?;
        let wiring = stat.wiring(&plan)?;
        let warmups = self.warmups_of(plan.native_runs(plan.intent.runs));
        let settings = SessionSettings { warmups, ..stat.settings().clone() };
        let schedule = Schedule { budget: self.budget, padding: self.padding };
        let arm = |(command, hooks): &(CommandSpec, Hooks)| Arm {
            command: command.clone(),
            plan: plan.clone(),
            hooks: hooks.clone(),
        };
        let arms = self.arms.iter().map(arm).collect();
        let decoration = Decoration::Affinity(self.cpus.clone());
        wiring.with(&decoration, launcher, stat.machine(), |resources| {
            cyclometer_session::compare::compare(arms, &settings, &schedule, resources, watcher)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    fn compare(events: &str) -> Compare {
        let stat = Stat::new(machine()).events(events).unwrap();
        Compare::new(stat).command(CommandSpec::new("true")).command(CommandSpec::new("false"))
    }

    #[test]
    fn times_alone_are_taken_from_pairs_with_one_warmup_each() {
        let executions = compare("wall_time").executions().unwrap();
        assert_eq!(executions, Executions { commands: 2, warmups: 1, counted: 0, native: 20 });
        assert_eq!(executions.total(), 42);
        assert_eq!(compare("wall_time").warmups(Some(0)).pairs(3).executions().unwrap().total(), 6);
    }

    #[test]
    fn counts_of_the_software_pmu_alone_take_two_runs_of_each() {
        let stat = Stat::new(machine()).backend(Some(cyclometer_core::Rung::Soft));
        let stat = stat.events("instructions").unwrap();
        let compare = Compare::new(stat).command(CommandSpec::new("true"));
        let executions = compare.executions().unwrap();
        let counts = compare.plan().unwrap().lines[0].candidate().is_some();
        let expected = if counts { (0, 2, 0) } else { (1, 0, 20) };
        assert_eq!((executions.warmups, executions.counted, executions.native), expected);
    }

    #[test]
    fn a_number_of_counted_runs_comes_on_top_of_the_pairs_and_all_runs_do_not() {
        let executions = |counted| {
            let stat = Stat::new(machine()).events("instructions,wall_time").unwrap();
            let stat = stat.backend(Some(cyclometer_core::Rung::Soft));
            let compare = Compare::new(stat).command(CommandSpec::new("true")).pairs(5).counted(counted);
            let counts = compare.plan().unwrap().lines[0].candidate().is_some();
            (compare.executions().unwrap(), counts)
        };
        let (all, counts) = executions(Counted::All);
        assert_eq!(all.counted + all.native, 5, "{all:?}");
        if counts {
            assert_eq!(all.native, 0);
            assert_eq!(executions(Counted::Runs(3)).0.counted, 3);
            assert_eq!(executions(Counted::Auto).0.counted, COUNTED);
        }
    }

    #[test]
    fn cpus_that_are_not_there_are_named() {
        let error = compare("wall_time").cpus(CpuSet::parse("8000").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "CPU 8000 is not online");
    }
}
