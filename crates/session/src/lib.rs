//! Runs × passes × sources: launches, opens, replans, recovers, and collects a [`Report`].
//!
//! This is the only place that loops over the stages. It encodes nothing, prints nothing and computes no
//! statistics. Whatever a source refuses is answered by `plan`'s data; every answer is kept as a
//! [`FallbackStep`].
//!
//! A command is never run more often than asked: everything that can be refused is refused while the child
//! has not executed it yet. Which runs are under the software PMU is the plan's affair; a command that
//! refuses translation runs as it is.
//!
//! [`compare`] has several commands run in turn.
#![forbid(unsafe_code)]

pub mod compare;
mod execute;
mod nothing;
mod observe;
mod open;
mod open_source;
mod ready;
mod rotation;
mod twins;
mod verify;
mod windows;

use std::time::{Duration, SystemTime};

use cyclometer_core::exec::{CommandSpec, ExitStatus, KillCause};
use cyclometer_core::report::{FallbackStep, Run, SessionFailure};
use cyclometer_core::window::WindowSpec;
use cyclometer_core::{
    Child, Counted, Error, ErrorKind, Launch, LaunchKind, Machine, Plan, Random, Recovery, Report, Result,
    Source, Target,
};

pub use observe::{Moment, Observer, Quiet};
use verify::ProbedSets;

/// The subject of a measurement.
pub struct MeasurementJob {
    /// The command to run; `None` when only running processes are observed.
    pub command: Option<CommandSpec>,
    /// The target that is counted; `None`: the command and its descendants.
    pub target: Option<Target>,
    /// The process that is waited for when there is no command.
    pub watched: Option<Box<dyn Child>>,
}

/// How often, and what to do on the way.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionSettings {
    /// Exact number of measured executions, at least 1.
    pub runs: u32,
    /// Executions before them that are not measured.
    pub warmups: u32,
    /// Read all counters this often while the command runs.
    pub interval: Option<Duration>,
    /// Go on after a run that failed.
    pub ignore_failure: bool,
    /// Shortest time that a rotation group usually lasts, where events rotate. In the first rounds rotation
    /// groups last less, so that each sees the start; in long runs they last longer, so that there are never
    /// more than some ten thousand.
    pub slice: Duration,
    /// Decides the order of rotation groups; `None`: another one each time.
    pub seed: Option<u64>,
    /// Record windows, and report their rows to the observer.
    pub windows: Option<WindowSpec>,
}

/// The usual shortest time that a rotation group lasts: long against the time that a change takes, and some
/// hundred of them a second are enough to tell an interval.
const SLICE: Duration = Duration::from_millis(10);

impl Default for SessionSettings {
    fn default() -> SessionSettings {
        SessionSettings {
            runs: 1,
            warmups: 0,
            interval: None,
            ignore_failure: false,
            slice: SLICE,
            seed: None,
            windows: None,
        }
    }
}

/// The sources and observers that a session works with.
pub struct SessionResources<'a> {
    /// Starts commands.
    pub launch: &'a dyn Launch,
    /// Starts them under the software PMU, where there is one.
    pub translated: Option<&'a dyn Launch>,
    /// The sources of counts, in any order.
    pub sources: &'a [&'a dyn Source],
    /// The machine, for replans.
    pub machine: &'a Machine,
}

/// Runs a job by a plan.
///
/// # Errors
///
/// Only when nothing was measured: the command cannot be executed, the target does not exist, nothing can be
/// counted of what runs already, a `{group}` does not fit, the kernel cannot count at once events that must
/// not rotate. A later failure ends the session and is in the report.
pub fn run(
    job: MeasurementJob,
    plan: Plan,
    settings: &SessionSettings,
    means: &SessionResources<'_>,
    observer: &mut dyn Observer,
) -> Result<Report> {
    check(&job, settings)?;
    let mut session = RunningSession::new(job, plan, settings, means, observer)?;
    session.all_runs()?;
    Ok(session.report)
}

/// Another one each time.
fn some_seed() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    nanos(since)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn check(job: &MeasurementJob, settings: &SessionSettings) -> Result<()> {
    let problem = match (&job.command, &job.watched) {
        _ if settings.runs == 0 => "the number of runs is 0",
        (None, Some(_)) if settings.runs > 1 || settings.warmups > 0 => {
            "without a command there is nothing to repeat"
        }
        (None, None) => "there is neither a command nor a process to measure",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidInput, problem)
        .with_recovery(Recovery::fix("give a command behind --, and at least one run")))
}

pub(crate) struct RunningSession<'a, 'b> {
    job: MeasurementJob,
    settings: &'a SessionSettings,
    means: &'a SessionResources<'a>,
    observer: &'b mut dyn Observer,
    report: Report,
    random: Random,
    probes: ProbedSets,
}

/// One execution: a measured run or a warm-up, each numbered from 0.
#[derive(Clone, Copy)]
pub(crate) struct Execution {
    index: u32,
    warmup: bool,
}

/// The result of one execution.
pub(crate) struct ExecutedRun {
    run: Run,
    interrupted: Option<i32>,
    /// The cause where the kernel killed the command, if that is known.
    kill_cause: Option<KillCause>,
}

impl<'a, 'b> RunningSession<'a, 'b> {
    /// A session that has executed nothing yet, with a plan that the kernel agrees to as far as that can be
    /// tried.
    pub(crate) fn new(
        job: MeasurementJob,
        plan: Plan,
        settings: &'a SessionSettings,
        means: &'a SessionResources<'a>,
        observer: &'b mut dyn Observer,
    ) -> Result<RunningSession<'a, 'b>> {
        let report = Report {
            command: job.command.clone(),
            target: job.target.clone(),
            plan,
            runs: Vec::new(),
            steps: Vec::new(),
            interrupted: None,
            failure: None,
        };
        let random = Random::seeded(settings.seed.unwrap_or_else(some_seed));
        let probes = ProbedSets::default();
        let mut session = RunningSession { job, settings, means, observer, report, random, probes };
        session.verify()?;
        Ok(session)
    }
}

impl RunningSession<'_, '_> {
    fn all_runs(&mut self) -> Result<()> {
        self.observer.planned(&self.report.plan);
        let (warmups, runs) = (self.settings.warmups, self.settings.runs);
        for (index, warmup) in (0..warmups).map(|i| (i, true)).chain((0..runs).map(|i| (i, false))) {
            self.observer.run_started(index, warmup);
            let executed = match self.execute(Execution { index, warmup }) {
                Ok(executed) => executed,
                Err(error) => return self.ended_by(error),
            };
            if !self.keep(executed, warmup) {
                break;
            }
        }
        Ok(())
    }

    /// An error after the first result does not take the results away.
    fn ended_by(&mut self, error: Error) -> Result<()> {
        if self.report.runs.is_empty() {
            return Err(error);
        }
        self.report.failure = Some(SessionFailure::from(&error));
        Ok(())
    }

    /// Files a run; whether to go on.
    pub(crate) fn keep(&mut self, executed: ExecutedRun, warmup: bool) -> bool {
        let ExecutedRun { mut run, interrupted, kill_cause } = executed;
        let failed = run.exit.filter(|exit| !exit.success());
        let stops = interrupted.is_some() || (failed.is_some() && !self.settings.ignore_failure);
        self.report.interrupted = interrupted;
        run.dropped_because = self.drop_reason(failed, interrupted);
        if let (Some(exit), true, None) = (failed, stops, interrupted) {
            let message = failure_text(exit, run.index, warmup);
            self.report.failure = Some(failure(message, kill_cause, run.launch));
        }
        // A warm-up that ends the session is all there is: it is told, but its numbers are not results.
        if warmup && stops {
            run.dropped_because = Some("a warm-up".to_owned());
        }
        if !warmup && !stops {
            self.stop_translating_in_vain(&run);
        }
        if !warmup || stops {
            self.observer.run_finished(&run, &self.report.plan);
            self.report.runs.push(run);
            self.report.plan.intent.begun = true;
        }
        !stops
    }

    /// A program that leaves translation once does so again: where a translated run has lost all that it was
    /// to count, the others that would be translated are timed natively, unless their number was asked for.
    fn stop_translating_in_vain(&mut self, run: &Run) {
        let plan = &self.report.plan;
        let made = run.index + 1;
        let native = plan.passes.iter().filter(|pass| pass.launch == LaunchKind::Native).count();
        let may_stop = match plan.intent.counted {
            Counted::Auto => native > 0,
            // Commands that are compared make the same native passes in the same rounds.
            Counted::AtMost(_) => native == 1,
            Counted::Runs(_) | Counted::All => false,
        };
        if !may_stop || plan.intent.translated_runs() <= made {
            return;
        }
        let reason = run.reading.cells.first().and_then(|cell| cell.lost.clone());
        let is_lost = run.reading.cells.iter().all(|cell| cell.lost.is_some());
        if let (Some(reason), true, LaunchKind::Translated) = (reason, is_lost, plan.launch_of(run.index)) {
            self.report.plan.intent.counted = Counted::Runs(made);
            let done = "timed the other runs natively, as they would have been translated in vain".to_owned();
            self.note(FallbackStep { event: None, refused: reason.to_string(), done });
        }
    }

    /// The reason to leave a run out: among several, one that failed or was cut short would spoil the
    /// statistics.
    fn drop_reason(&self, failed: Option<ExitStatus>, interrupted: Option<i32>) -> Option<String> {
        if self.settings.runs < 2 {
            return None;
        }
        match (failed, interrupted) {
            (_, Some(signal)) => Some(format!("interrupted by signal {signal}")),
            (Some(_), None) if self.settings.ignore_failure => None,
            (Some(exit), None) => Some(exit_text(exit)),
            (None, None) => None,
        }
    }

    pub(crate) fn note(&mut self, step: FallbackStep) {
        self.observer.step(&step);
        self.report.steps.push(step);
    }

    /// The pass of an execution. Warm-ups make a native one; where there is none, they count nothing.
    fn pass_of(&self, execution: Execution) -> usize {
        let plan = &self.report.plan;
        let native = |pass: &cyclometer_core::Pass| pass.launch == LaunchKind::Native;
        match plan.launch_of(execution.index) {
            LaunchKind::Translated if execution.warmup => {
                plan.passes.iter().position(native).unwrap_or(plan.passes.len())
            }
            _ => plan.pass_of(execution.index),
        }
    }
}

pub(crate) fn exit_text(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code) => format!("exited with status {code}"),
        ExitStatus::Signal(signal) => format!("was killed by signal {signal}"),
    }
}

fn failure_text(exit: ExitStatus, index: u32, warmup: bool) -> String {
    let what = if warmup { "warm-up" } else { "run" };
    format!("the command {} in {what} {}", exit_text(exit), index + 1)
}

/// A failure with its cause and remedy. Translation takes memory beyond what the command itself takes.
fn failure(message: String, cause: Option<KillCause>, launch: LaunchKind) -> SessionFailure {
    let Some(cause) = cause else { return SessionFailure { message, recovery: Recovery::None } };
    let (likely, remedy) = match launch {
        LaunchKind::Translated => (
            "; the likely cause is the memory that translation takes",
            "run it natively with --backend os, or raise the limit",
        ),
        _ => ("", "raise the limit of the group"),
    };
    SessionFailure { message: format!("{message}: {cause}{likely}"), recovery: Recovery::fix(remedy) }
}
