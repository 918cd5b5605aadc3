//! Several commands in turn: pairs of runs, or triples and more, in random order.
//!
//! Each command is an *arm* with a session of its own. Runs of one number are made one right after the other,
//! so that drift of the machine is the same for all arms; their order is random, so that it favours none. The
//! environment of all runs of one number has the same padding.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::{CommandSpec, ExitStatus, Waited};
use cyclometer_core::report::Run;
use cyclometer_core::{Error, ErrorKind, LaunchKind, Plan, Random, Recovery, Report, Result};

use crate::observe::Observer;
use crate::{Execution, MeasurementJob, RunningSession, SessionResources, SessionSettings, some_seed};

/// One of the commands.
pub struct Arm {
    /// The commands that are run.
    pub command: CommandSpec,
    /// How it is counted; of all arms the plans are for the same number of runs.
    pub plan: Plan,
    /// The commands that are run around it.
    pub hooks: Hooks,
}

/// Commands around the runs of an arm; nothing of them is measured.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hooks {
    /// Before its first execution.
    pub setup: Option<CommandSpec>,
    /// Before each of its executions.
    pub prepare: Option<CommandSpec>,
    /// After each of its executions.
    pub conclude: Option<CommandSpec>,
    /// When all is over, also when it ended early.
    pub cleanup: Option<CommandSpec>,
}

/// In what order, and for how long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Schedule {
    /// No other number of runs is begun after this time.
    pub budget: Option<Duration>,
    /// The greatest padding of the environment, in bytes; 0: the environment stays as it is.
    pub padding: u16,
}

/// Hears of every execution, and may end the comparison.
pub trait Watcher {
    /// An execution of an arm is about to start.
    fn run_started(&mut self, arm: usize, index: u32, warmup: bool) {
        let _ = (arm, index, warmup);
    }

    /// The counts of each instruction of a measured execution of an arm, where they were requested, or why
    /// they are missing.
    fn code(&mut self, arm: usize, index: u32, counts: Result<CodeCounts>) {
        let _ = (arm, index, counts);
    }

    /// A measured execution of an arm ended; a reason ends the comparison.
    fn run_finished(&mut self, arm: usize, run: &Run) -> Option<String> {
        let _ = (arm, run);
        None
    }
}

/// The results of several commands.
#[derive(Debug)]
pub struct Comparison {
    /// A report for each arm.
    pub reports: Vec<Report>,
    /// For each number of runs the arms in the order in which they ran, and the padding.
    pub rounds: Vec<Round>,
    /// Why it ended before the last run, if it did; also where time was up.
    pub ended: Option<EarlyEnd>,
    /// The hooks at the end that failed, which do not take the results away.
    pub failed_cleanups: Vec<Error>,
}

/// The runs of one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Round {
    /// The arms, in the order of their executions.
    pub order: Vec<usize>,
    /// Length of the variable that was added to the environment, in bytes.
    pub padding: u16,
}

/// Why a comparison ended before its last run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EarlyEnd {
    /// The time that it may take was over.
    Budget,
    /// A signal was sent to us.
    Interrupted(i32),
    /// A command failed, or a hook.
    Failed(String),
    /// The watcher ended it, for this reason.
    Stopped(String),
}

/// Runs all arms in turn.
///
/// No command is executed more often than `settings` say: `settings.warmups + settings.runs` times.
///
/// # Errors
///
/// Fewer than one arm, plans for different numbers of runs, and whatever kept everything from being measured.
/// Later failures are in the comparison.
pub fn compare(
    arms: Vec<Arm>,
    settings: &SessionSettings,
    schedule: &Schedule,
    means: &SessionResources<'_>,
    watcher: &mut dyn Watcher,
) -> Result<Comparison> {
    check(&arms, settings)?;
    let seed = settings.seed.unwrap_or_else(some_seed);
    let mut code: Vec<CodeOfArm> = arms.iter().map(|_| CodeOfArm::default()).collect();
    let mut sessions = Vec::new();
    for (arm, observer) in arms.into_iter().zip(&mut code) {
        let code = observer.clone();
        let job = MeasurementJob { command: Some(arm.command), target: None, watched: None };
        let session = RunningSession::new(job, arm.plan, settings, means, observer)?;
        sessions.push(OfArm { session, hooks: arm.hooks, is_set_up: false, code });
    }
    let random = Random::seeded(seed.rotate_left(17));
    let mut interleaving = Interleaving { sessions, settings, schedule, watcher, random, rounds: Vec::new() };
    let ended = interleaving.all();
    let failed_cleanups = interleaving.clean_up();
    interleaving.finish(ended, failed_cleanups)
}

fn check(arms: &[Arm], settings: &SessionSettings) -> Result<()> {
    let wrong = |problem: &str| {
        Err(Error::new(ErrorKind::InvalidInput, problem)
            .with_recovery(Recovery::fix("give a command, and at least one run of it")))
    };
    match arms {
        [] => wrong("there is no command to compare"),
        _ if settings.runs == 0 => wrong("the number of runs is 0"),
        _ if arms.iter().any(|arm| arm.plan.intent.runs != settings.runs) => {
            wrong("the plans are for other numbers of runs")
        }
        _ => Ok(()),
    }
}

/// An arm that is being run.
struct OfArm<'a, 'b> {
    session: RunningSession<'a, 'b>,
    hooks: Hooks,
    is_set_up: bool,
    code: CodeOfArm,
}

/// The counts by code of the execution that has just ended: from the session of an arm to the watcher.
#[derive(Clone, Default)]
struct CodeOfArm(Rc<RefCell<Vec<Result<CodeCounts>>>>);

impl Observer for CodeOfArm {
    fn code(&mut self, counts: Result<CodeCounts>) {
        self.0.borrow_mut().push(counts);
    }
}

struct Interleaving<'a, 'b, 'c> {
    sessions: Vec<OfArm<'a, 'b>>,
    settings: &'a SessionSettings,
    schedule: &'c Schedule,
    watcher: &'c mut dyn Watcher,
    random: Random,
    rounds: Vec<Round>,
}

/// Why it does not go on.
enum ComparisonStop {
    Ended(EarlyEnd),
    Error(Error),
}

impl ComparisonStop {
    /// The error of a hook.
    fn into_error(self) -> Error {
        let stopped = |reason| Error::new(ErrorKind::Interrupted, reason);
        match self {
            ComparisonStop::Error(error) => error,
            ComparisonStop::Ended(EarlyEnd::Interrupted(signal)) => {
                stopped(format!("interrupted by signal {signal}"))
            }
            ComparisonStop::Ended(EarlyEnd::Failed(reason) | EarlyEnd::Stopped(reason)) => stopped(reason),
            ComparisonStop::Ended(EarlyEnd::Budget) => stopped("the time was over".to_owned()),
        }
    }
}

impl From<Error> for ComparisonStop {
    fn from(error: Error) -> ComparisonStop {
        ComparisonStop::Error(error)
    }
}

type ComparisonFlow = std::result::Result<(), ComparisonStop>;

impl Interleaving<'_, '_, '_> {
    fn all(&mut self) -> ComparisonFlow {
        let begun = Instant::now();
        for arm in 0..self.sessions.len() {
            self.set_up(arm)?;
        }
        for index in 0..self.settings.warmups {
            let round = Round { order: self.random.permutation(self.sessions.len()), padding: 0 };
            self.round(&round, Execution { index, warmup: true })?;
        }
        for index in 0..self.settings.runs {
            if index > 0 && self.schedule.budget.is_some_and(|budget| begun.elapsed() >= budget) {
                return Err(ComparisonStop::Ended(EarlyEnd::Budget));
            }
            let round = self.draw(index);
            self.rounds.push(round.clone());
            self.round(&round, Execution { index, warmup: false })?;
        }
        Ok(())
    }

    /// Counts of the software PMU are to repeat, so that the environment of those runs stays as it is.
    fn draw(&mut self, index: u32) -> Round {
        let order = self.random.permutation(self.sessions.len());
        let drawn = self.random.below(usize::from(self.schedule.padding) + 1);
        let is_native = |of: &OfArm<'_, '_>| of.session.report.plan.launch_of(index) == LaunchKind::Native;
        let padding = if self.sessions.iter().all(is_native) { drawn } else { 0 };
        Round { order, padding: u16::try_from(padding).unwrap_or(u16::MAX) }
    }

    fn round(&mut self, round: &Round, execution: Execution) -> ComparisonFlow {
        round.order.iter().try_for_each(|arm| self.execution(*arm, round.padding, execution))
    }

    fn set_up(&mut self, arm: usize) -> ComparisonFlow {
        let of = &mut self.sessions[arm];
        of.is_set_up = true;
        hook(of.session.means, of.hooks.setup.as_ref(), "setup")
    }

    fn execution(&mut self, arm: usize, padding: u16, execution: Execution) -> ComparisonFlow {
        self.watcher.run_started(arm, execution.index, execution.warmup);
        let OfArm { session, hooks, code, .. } = &mut self.sessions[arm];
        hook(session.means, hooks.prepare.as_ref(), "prepare")?;
        if let Some(command) = &mut session.job.command {
            command.padding = padding;
        }
        let executed = session.execute(execution)?;
        // Before a hook can replace the files of the code.
        for counts in code.0.take() {
            self.watcher.code(arm, execution.index, counts);
        }
        let before = session.report.runs.len();
        let goes_on = session.keep(executed, execution.warmup);
        let concluded = hook(session.means, hooks.conclude.as_ref(), "conclude");
        if !goes_on {
            return Err(ComparisonStop::Ended(ended(&session.report, arm)));
        }
        concluded?;
        let stopped = session.report.runs.get(before).and_then(|run| self.watcher.run_finished(arm, run));
        stopped.map_or(Ok(()), |reason| Err(ComparisonStop::Ended(EarlyEnd::Stopped(reason))))
    }

    /// Runs every hook that belongs at the end, whatever came before.
    fn clean_up(&mut self) -> Vec<Error> {
        let set_up = self.sessions.iter_mut().filter(|of| of.is_set_up);
        let cleaned = set_up.map(|of| hook(of.session.means, of.hooks.cleanup.as_ref(), "cleanup"));
        cleaned.filter_map(|done| done.err().map(ComparisonStop::into_error)).collect()
    }

    fn finish(self, ended: ComparisonFlow, failed_cleanups: Vec<Error>) -> Result<Comparison> {
        // Without a run of each there is nothing to compare.
        let has_results = self.sessions.iter().all(|of| !of.session.report.runs.is_empty());
        let ended = match ended {
            Ok(()) => None,
            Err(ComparisonStop::Ended(ended)) => Some(ended),
            Err(ComparisonStop::Error(error)) if !has_results => return Err(error),
            Err(ComparisonStop::Error(error)) => Some(EarlyEnd::Failed(error.to_string())),
        };
        let reports = self.sessions.into_iter().map(|of| of.session.report).collect();
        Ok(Comparison { reports, rounds: self.rounds, ended, failed_cleanups })
    }
}

fn ended(report: &Report, arm: usize) -> EarlyEnd {
    match (report.interrupted, &report.failure) {
        (Some(signal), _) => EarlyEnd::Interrupted(signal),
        (None, Some(failure)) => EarlyEnd::Failed(format!("command {}: {failure}", arm + 1)),
        (None, None) => EarlyEnd::Failed(format!("command {} ended early", arm + 1)),
    }
}

/// Runs a hook to its end, unmeasured.
fn hook(means: &SessionResources<'_>, command: Option<&CommandSpec>, name: &str) -> ComparisonFlow {
    let Some(command) = command else { return Ok(()) };
    let mut child = means.launch.prepare(command)?;
    child.release()?;
    let mut interrupted = None;
    loop {
        match child.wait(None)? {
            Waited::Exited(exit) => {
                return match (interrupted, exit.status) {
                    (Some(signal), _) => Err(ComparisonStop::Ended(EarlyEnd::Interrupted(signal))),
                    (None, Some(status)) if !status.success() => Err(failed(command, name, status)),
                    _ => Ok(()),
                };
            }
            Waited::TimedOut => {}
            Waited::Interrupted(signalled) => {
                if !signalled.reached_command {
                    child.signal(signalled.signal);
                }
                interrupted = Some(signalled.signal);
            }
        }
    }
}

fn failed(command: &CommandSpec, name: &str, status: ExitStatus) -> ComparisonStop {
    let program = command.program.to_string_lossy();
    let message = format!("--{name}: the command '{program}' {}", crate::exit_text(status));
    let recovery = Recovery::fix(format!("run the command of --{name} by itself to see what it says"));
    ComparisonStop::Error(Error::new(ErrorKind::InvalidInput, message).with_recovery(recovery))
}
