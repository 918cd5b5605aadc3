//! One run under a plan of assaults, and what must hold after it.

use std::fmt;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cyclometer_sys::process::{SIGCONT, SIGINT, SIGKILL, SIGSTOP, signal};

use super::super::counts;
use super::super::folder::differences;
use super::super::processes::ProcessSnapshot;
use super::super::program::CorpusProgram;
use super::super::row::{COUNTS, Runner, native};
use super::super::running::{EndedCommand, RunningCommand, shown};
use super::outside::OutsideState;
use super::plan::{Assault, AssaultPlan, SeededRandom, Victim};

/// Time that a run may take beyond many times its usual one.
const PATIENCE: Duration = Duration::from_secs(30);

/// `signal(7)`: SIGTERM, on every Linux.
const SIGTERM: i32 = 15;

/// The name of the tool's processes that are no tracers.
const TOOL: &str = "cyclometer";

/// A program, what it leaves natively, and how long it takes when nobody disturbs it.
pub(super) struct NativeBaseline<'a> {
    runner: &'a Runner<'a>,
    program: &'static CorpusProgram,
    usual: Duration,
}

/// The disturbances, and their results.
#[derive(Default, Debug)]
pub(super) struct TortureTally {
    rounds: u32,
    pauses: u32,
    /// Interrupted before the program's end.
    interrupted: u32,
    /// Killed while the program ran, and before it did.
    killed: (u32, u32),
    /// Ended early as its tracer was killed.
    bereaved: u32,
    /// The helper was killed or terminated.
    without_helper: u32,
    exact: u32,
    lost: u32,
    faults: u32,
}

/// How a round ended.
#[derive(Debug)]
struct RoundOutcome {
    ended: Option<EndedCommand>,
    left: Vec<ProcessSnapshot>,
    /// The difference from before the run, besides processes.
    changed: Option<String>,
    pauses: u32,
    /// The last assault, when it was no pause and the run had not ended before.
    struck: Option<Assault>,
}

impl NativeBaseline<'_> {
    /// Runs the program once natively and once under the software PMU.
    pub(super) fn new<'a>(
        runner: &'a Runner<'a>,
        program: &'static CorpusProgram,
    ) -> Result<NativeBaseline<'a>> {
        runner.prepared(program)?;
        let mut baseline = NativeBaseline { runner, program, usual: Duration::ZERO };
        baseline.alone(&native(program))?;
        runner.place.keep()?;
        baseline.usual = baseline.alone(&runner.counted(program))?;
        let difference = differences(&runner.place.native(), &runner.place.work())?;
        ensure!(difference.is_empty(), "{}: another output without any assault: {difference}", program.name);
        Ok(baseline)
    }

    fn alone(&self, argv: &[std::ffi::OsString]) -> Result<Duration> {
        self.runner.place.fresh(self.program)?;
        let mut running = self.runner.start(self.program, argv)?;
        let ended = running.wait(running.started() + 4 * PATIENCE)?;
        running.bury(None)?;
        let ended = ended.with_context(|| format!("{} hangs without any assault", self.program.name))?;
        ensure!(ended.status.success(), "{}: {} without any assault", self.program.name, ended.status);
        Ok(ended.wall)
    }

    /// One run under a new plan.
    pub(super) fn round(&self, random: &mut SeededRandom, tally: &mut TortureTally) -> Result<()> {
        let plan = AssaultPlan::new(random, self.usual, self.program.torture().unwrap_or(true));
        self.runner.place.fresh(self.program)?;
        let outcome = self.assaulted(&plan)?;
        tally.count(&outcome);
        let fault = match self.fault(&outcome, tally) {
            Ok(fault) => fault,
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(fault) = fault {
            tally.faults += 1;
            eprintln!("{}, round {}: {fault}\n    plan:{plan}", self.program.name, tally.rounds);
            eprintln!("    the tool said: {}", self.runner.log("tool.err").trim());
        }
        Ok(())
    }

    fn limit(&self) -> Instant {
        Instant::now() + PATIENCE + 20 * self.usual
    }

    fn assaulted(&self, plan: &AssaultPlan) -> Result<RoundOutcome> {
        let traces = OutsideState::now()?;
        let mut running = self.runner.start(self.program, &self.runner.counted(self.program))?;
        let mut outcome = RoundOutcome { ended: None, left: vec![], changed: None, pauses: 0, struck: None };
        for (at, assault) in &plan.0 {
            outcome.ended = running.wait(running.started() + *at)?;
            if outcome.ended.is_some() {
                break;
            }
            match assault {
                Assault::Pause(victim, time) => {
                    pause(&running, *victim, *time)?;
                    outcome.pauses += 1;
                }
                last => {
                    strike(&running, *last)?;
                    outcome.struck = Some(*last);
                }
            }
        }
        if outcome.ended.is_none() {
            outcome.ended = running.wait(self.limit())?;
        }
        // The program goes on without the tool when that is killed; it has its time as well.
        let until = matches!(
            outcome.struck,
            Some(Assault::Kill | Assault::Terminate | Assault::KillHelper | Assault::TerminateHelper)
        );
        let until = until.then(|| self.limit());
        outcome.changed = traces.changed(&running)?;
        outcome.left = running.bury(if outcome.ended.is_some() { until } else { Some(Instant::now()) })?;
        Ok(outcome)
    }

    /// The rule that a round has broken, if there is one.
    fn fault(&self, outcome: &RoundOutcome, tally: &mut TortureTally) -> Result<Option<String>> {
        let Some(ended) = outcome.ended else { return Ok(Some(format!("hangs: {}", shown(&outcome.left)))) };
        if !outcome.left.is_empty() {
            return Ok(Some(format!("left behind: {}", shown(&outcome.left))));
        }
        if let Some(changed) = &outcome.changed {
            return Ok(Some(changed.clone()));
        }
        match outcome.struck {
            Some(Assault::Kill) if !self.has_begun() => {
                tally.killed.1 += 1;
                self.differs_from(&self.runner.place.input())
            }
            Some(Assault::KillTracer | Assault::TerminateTracer) if !ended.status.success() => {
                tally.bereaved += 1;
                self.is_no_start()
            }
            // The load was not followed yet, ran as it is, and the tool says why there is no count.
            Some(Assault::KillTracer | Assault::TerminateTracer)
                if self.runner.log(COUNTS).contains("the tracer died") =>
            {
                tally.bereaved += 1;
                self.differs_from(&self.runner.place.native())
            }
            // The process by which the tool tests whether it may trace is among its helpers.
            Some(Assault::KillHelper | Assault::TerminateHelper)
                if self.runner.log(COUNTS).contains("a signal ended it before it began") =>
            {
                tally.without_helper += 1;
                self.differs_from(&self.runner.place.native())
            }
            Some(Assault::CtrlC | Assault::Interrupt | Assault::Terminate) if !ended.status.success() => {
                tally.interrupted += 1;
                self.is_no_start()
            }
            Some(Assault::KillHelper | Assault::TerminateHelper) if !ended.status.success() => {
                tally.without_helper += 1;
                self.is_no_start()
            }
            Some(Assault::Kill) => {
                tally.killed.0 += 1;
                self.differs_from(&self.runner.place.native())
            }
            _ if !ended.status.success() => Ok(Some(format!("ended with {}", ended.status))),
            _ => {
                self.take_counts(tally)?;
                self.differs_from(&self.runner.place.native())
            }
        }
    }

    /// Whether the load's script came to do anything: its first act is to make the file of its output.
    fn has_begun(&self) -> bool {
        self.runner.place.work().join("out").exists()
    }

    fn differs_from(&self, folder: &std::path::Path) -> Result<Option<String>> {
        let difference = differences(folder, &self.runner.place.work())?;
        Ok((!difference.is_empty()).then(|| format!("another output: {difference}")))
    }

    /// The output of an interrupted program is its native output, as far as it came.
    fn is_no_start(&self) -> Result<Option<String>> {
        if !self.has_begun() {
            return Ok(None);
        }
        let whole = fs::read(self.runner.place.native().join("out"))?;
        let part = fs::read(self.runner.place.work().join("out"))?;
        Ok((!whole.starts_with(&part)).then(|| {
            let at = whole.iter().zip(&part).take_while(|(a, b)| a == b).count();
            format!("interrupted, its output differs from byte {at} on")
        }))
    }

    fn take_counts(&self, tally: &mut TortureTally) -> Result<()> {
        match counts::counted(&self.runner.log(COUNTS))? {
            counts::RunCounts::Exact(_) => tally.exact += 1,
            counts::RunCounts::Lost(_) => tally.lost += 1,
        }
        Ok(())
    }
}

/// Stops someone, and lets them go on.
fn pause(running: &RunningCommand<'_>, victim: Victim, time: Duration) -> Result<()> {
    let victims = chosen(victim, running.pid(), &running.family()?);
    // A process that has ended meanwhile needs neither.
    victims.iter().for_each(|pid| drop(signal(*pid, SIGSTOP)));
    std::thread::sleep(time);
    victims.iter().for_each(|pid| drop(signal(*pid, SIGCONT)));
    Ok(())
}

/// The processes that a victim stands for.
fn chosen(victim: Victim, tool: u32, family: &[ProcessSnapshot]) -> Vec<u32> {
    let is_helper = |process: &ProcessSnapshot| process.parent == tool && process.name == TOOL;
    let programs = || {
        family
            .iter()
            .filter(move |process| process.pid != tool && !process.is_tracer() && !is_helper(process))
    };
    match victim {
        Victim::Tool => vec![tool],
        Victim::Tracer => family.iter().filter(|process| process.is_tracer()).map(|p| p.pid).collect(),
        Victim::Helper => family.iter().filter(|process| is_helper(process)).map(|p| p.pid).collect(),
        Victim::Program(number) => {
            let index = number.checked_rem(programs().count() as u64).unwrap_or(0);
            programs().nth(index as usize).map(|process| process.pid).into_iter().collect()
        }
        Victim::All => family.iter().map(|process| process.pid).collect(),
    }
}

/// Sends what ends a run.
fn strike(running: &RunningCommand<'_>, assault: Assault) -> Result<()> {
    let helpers = |victim, number| -> Result<()> {
        let chosen = chosen(victim, running.pid(), &running.family()?);
        // One that has ended meanwhile needs no more.
        chosen.into_iter().for_each(|pid| drop(signal(pid, number)));
        Ok(())
    };
    let sent = match assault {
        Assault::KillTracer => return helpers(Victim::Tracer, SIGKILL),
        Assault::TerminateTracer => return helpers(Victim::Tracer, SIGTERM),
        Assault::KillHelper => return helpers(Victim::Helper, SIGKILL),
        Assault::TerminateHelper => return helpers(Victim::Helper, SIGTERM),
        Assault::Terminate => signal(running.pid(), SIGTERM),
        Assault::CtrlC => return ctrl_c(running.pid()),
        Assault::Kill => signal(running.pid(), SIGKILL),
        Assault::Interrupt | Assault::Pause(..) => signal(running.pid(), SIGINT),
    };
    sent.context("signalling the tool, which has not been reaped yet")
}

/// To the whole group at once, as a terminal does it.
fn ctrl_c(group: u32) -> Result<()> {
    let script = format!("kill -s INT -- -{group}");
    let status = Command::new("sh").args(["-c", &script]).status().context("starting sh")?;
    ensure!(status.success(), "{script}: {status}");
    Ok(())
}

impl TortureTally {
    pub(super) fn rounds(&self) -> u32 {
        self.rounds
    }

    pub(super) fn faults(&self) -> u32 {
        self.faults
    }

    fn count(&mut self, outcome: &RoundOutcome) {
        self.rounds += 1;
        self.pauses += outcome.pauses;
    }
}

impl fmt::Display for TortureTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TortureTally {
            rounds,
            pauses,
            interrupted,
            killed: (killed, early),
            bereaved,
            without_helper,
            exact,
            lost,
            faults,
        } = self;
        write!(f, "{rounds} rounds, {pauses} pauses; {interrupted} interrupted before the end; ")?;
        write!(f, "the tool killed {killed} times while the load ran and {early} times before; ")?;
        write!(f, "its tracer killed {bereaved} times while the load ran; ")?;
        write!(f, "its helper ended {without_helper} times before the load; ")?;
        write!(f, "undisturbed by either: {exact} with exact counts, {lost} with lost ones; {faults} faults")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, name: &str) -> ProcessSnapshot {
        ProcessSnapshot { pid, parent: u32::from(pid != 1), name: name.to_owned(), state: 'S' }
    }

    #[test]
    fn victims_are_those_meant() {
        let family = [
            process(1, "cyclometer"),
            process(2, "cyclometer-keep"),
            process(3, "sh"),
            process(4, "tr"),
            process(5, "cyclometer"),
        ];
        for (victim, expected) in [
            (Victim::Tool, &[1][..]),
            (Victim::Tracer, &[2]),
            (Victim::Program(0), &[3]),
            (Victim::Program(3), &[4]),
            (Victim::Helper, &[5]),
            (Victim::All, &[1, 2, 3, 4, 5]),
        ] {
            assert_eq!(chosen(victim, 1, &family), expected, "{victim:?}");
        }
        assert_eq!(chosen(Victim::Program(5), 1, &family[..2]), [0; 0], "nobody is there yet");
    }
}
