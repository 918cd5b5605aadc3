//! The order of the steps: first some, then the test programs with other steps beside them, then one alone.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::times::{self, StepTime};
use super::{ALONE, BESIDE, CiStep, FIRST, TESTS};

/// Where the output of a step goes.
#[derive(Clone, Copy)]
enum StepOutput {
    /// Where ours goes.
    Shown,
    /// To a file, which is shown if the step fails.
    Kept,
}

/// Runs all steps and prints their times. After a failure no other step begins.
pub(super) fn run() -> Result<()> {
    let folder = times::folder();
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let begin = Instant::now();
    let failed = AtomicBool::new(false);
    let mut done = in_turn(FIRST, StepOutput::Shown, &failed);
    let (tests, beside) = thread::scope(|scope| {
        let beside = scope.spawn(|| in_turn(BESIDE, StepOutput::Kept, &failed));
        (in_turn(TESTS, StepOutput::Shown, &failed), beside.join())
    });
    done.extend(tests);
    done.extend(beside.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    done.extend(in_turn(ALONE, StepOutput::Shown, &failed));
    eprint!("{}", times::table(&done, begin.elapsed()));
    let failures: Vec<&str> =
        done.iter().filter(|step| step.failure.is_some()).map(|step| step.name).collect();
    ensure!(failures.is_empty(), "failed: {}; each again: cargo xtask ci --only NAME", failures.join(", "));
    Ok(())
}

/// Runs steps one after the other, until one fails here or in another list.
fn in_turn(steps: &[CiStep], output: StepOutput, failed: &AtomicBool) -> Vec<StepTime> {
    let mut done = Vec::new();
    for step in steps {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        let begin = Instant::now();
        let failure = one(step.name, output).err().map(|error| format!("{error:#}"));
        let wall = begin.elapsed();
        if let Some(failure) = &failure {
            failed.store(true, Ordering::Relaxed);
            eprintln!("==> {} failed: {failure}", step.name);
        }
        let beside = matches!(output, StepOutput::Kept);
        done.push(StepTime { name: step.name, wall, cpu: times::cpu_time(step.name), beside, failure });
    }
    done
}

fn one(name: &str, output: StepOutput) -> Result<()> {
    eprintln!("==> step {name}");
    let mut command = Command::new(this_program()?);
    command.args(["ci", "--only", name]);
    times::forget(name);
    match output {
        StepOutput::Shown => verdict(command.status().context("starting the step")?),
        StepOutput::Kept => {
            let log = times::folder().join(format!("{name}.log"));
            let file = File::create(&log).with_context(|| format!("writing {}", log.display()))?;
            command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
            let status = command.status().context("starting the step")?;
            show(name, &log, status);
            verdict(status)
        }
    }
}

/// Shows the output of a step that ran beside others: whole after a failure, else what was skipped.
fn show(name: &str, log: &Path, status: ExitStatus) {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    eprintln!("==> step {name} has ended: {status}; its output is in {}", log.display());
    if status.success() {
        text.lines().filter(|line| line.starts_with("==> skipped")).for_each(|line| eprintln!("{line}"));
    } else {
        eprint!("{text}");
    }
}

fn verdict(status: ExitStatus) -> Result<()> {
    ensure!(status.success(), "{status}");
    Ok(())
}

/// This program, also when a step has built it again meanwhile.
fn this_program() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if running.exists() { Ok(running.to_owned()) } else { std::env::current_exe().context("this program") }
}
