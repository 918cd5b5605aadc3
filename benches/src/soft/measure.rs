//! One run of a command: its cost, including its tracer.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cyclometer_sys::daemon;
use cyclometer_sys::process::{Ended, Reap, Status, reap};

/// Interval between looks at the tracer. Usage after the last look is missing: at most one interval before
/// the end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The cost of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunCost {
    /// From the start to the report of the end.
    pub(super) wall_s: f64,
    /// CPU time of the command and of the descendants that it waited for.
    pub(super) command_cpu_s: f64,
    /// Memory of the largest of those processes.
    pub(super) peak_bytes: f64,
    pub(super) tracer: Option<TracerUsage>,
}

/// The resources that a tracer used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TracerUsage {
    pub(super) cpu_s: f64,
    pub(super) peak_bytes: f64,
}

impl RunCost {
    /// The CPU time of the command and of its tracer.
    pub(super) fn cpu_s(&self) -> f64 {
        self.command_cpu_s + self.tracer.map_or(0.0, |tracer| tracer.cpu_s)
    }
}

/// The streams that are kept for a report of a failed command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptStreams {
    /// Its messages; standard output is discarded.
    Errors,
    /// Both.
    All,
}

/// Runs a command to its successful end.
pub(super) fn run(command: &[String], streams: KeptStreams) -> Result<RunCost> {
    let log = tempfile::NamedTempFile::new()?;
    let start = Instant::now();
    let pid = start_command(command, streams, log.as_file())?;
    let ended = reap(pid, Reap::Block)?.context("waiting gave nothing")?;
    judge(command, ended, start.elapsed(), log.path())
}

/// Runs a command with a translated child to its successful end, and samples the child's tracer meanwhile.
pub(super) fn run_kept(command: &[String]) -> Result<RunCost> {
    let log = tempfile::NamedTempFile::new()?;
    let start = Instant::now();
    let pid = start_command(command, KeptStreams::All, log.as_file())?;
    let over = AtomicBool::new(false);
    let (ended, took, tracer) = thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(pid, &over));
        let ended = reap(pid, Reap::Block);
        let took = start.elapsed();
        over.store(true, Ordering::Relaxed);
        (ended, took, watcher.join())
    });
    let cost = judge(command, ended?.context("waiting gave nothing")?, took, log.path())?;
    let tracer = tracer.ok().flatten().with_context(|| format!("{}: saw no tracer", command.join(" ")))?;
    Ok(RunCost { tracer: Some(tracer), ..cost })
}

/// Every command starts in the same environment, so that results repeat.
fn start_command(command: &[String], streams: KeptStreams, log: &File) -> Result<u32> {
    let stdout = if streams == KeptStreams::All { log.try_clone()?.into() } else { Stdio::null() };
    let child = Command::new(&command[0])
        .args(&command[1..])
        .envs([("LC_ALL", "C"), ("PYTHONHASHSEED", "0"), ("PERL_HASH_SEED", "0")])
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(log.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot start {}", command[0]))?;
    Ok(child.id())
}

fn judge(command: &[String], ended: Ended, took: Duration, log: &Path) -> Result<RunCost> {
    let good = ended.status == Status::Code(0);
    let said = if good { String::new() } else { fs::read_to_string(log).unwrap_or_default() };
    ensure!(good, "{}: {:?}\n{said}", command.join(" "), ended.status);
    Ok(RunCost {
        wall_s: took.as_secs_f64(),
        command_cpu_s: (ended.usage.user_ns + ended.usage.system_ns) as f64 / 1e9,
        peak_bytes: ended.usage.peak_rss_bytes as f64,
        tracer: None,
    })
}

/// The resources that the tracer, a child of `maker`, used until `over`; `None` if there was no such child.
fn watch(maker: u32, over: &AtomicBool) -> Option<TracerUsage> {
    let mut tracer = None;
    let mut last = None;
    while !over.load(Ordering::Relaxed) {
        tracer = tracer.or_else(|| tracer_of_child(maker));
        last = tracer.and_then(used).or(last);
        thread::sleep(LOOK_EVERY);
    }
    last
}

/// The process that traces a child and has a tracer's name. Another process may have tested before whether
/// tracing is allowed.
fn tracer_of_child(maker: u32) -> Option<u32> {
    let is_tracer =
        |pid: &u32| read(&format!("/proc/{pid}/comm")).is_some_and(|name| name.trim() == daemon::NAME);
    let children = read(&format!("/proc/{maker}/task/{maker}/children"))?;
    children.split_whitespace().find_map(|child| {
        let status = read(&format!("/proc/{child}/status"))?;
        field(&status, "TracerPid").and_then(|pid| u32::try_from(pid).ok()).filter(is_tracer)
    })
}

/// The CPU time of a process with one thread so far; `None` if it has ended.
fn used(pid: u32) -> Option<TracerUsage> {
    let cpu = read(&format!("/proc/{pid}/schedstat"))?;
    let status = read(&format!("/proc/{pid}/status"))?;
    let ns: u64 = cpu.split_whitespace().next()?.parse().ok()?;
    Some(TracerUsage { cpu_s: ns as f64 / 1e9, peak_bytes: field(&status, "VmHWM")? as f64 * 1024.0 })
}

/// The number in a line `NAME: NUMBER ...`.
fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcyclometer-keep\nVmHWM:\t    5120 kB\nTracerPid:\t0\n";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field(STATUS, "VmHWM"), Some(5120));
        assert_eq!(field(STATUS, "TracerPid"), Some(0));
        assert_eq!(field(STATUS, "Vm"), None);
        assert_eq!(field(STATUS, "Name"), None);
    }

    #[test]
    fn a_command_that_fails_is_no_measurement() {
        let command = ["sh", "-c", "echo broken >&2; exit 3"].map(str::to_owned);
        let error = run(&command, KeptStreams::Errors).unwrap_err().to_string();
        assert!(error.contains("Code(3)") && error.contains("broken"), "{error}");
    }

    #[test]
    fn a_command_without_a_tracer_is_no_translated_run() {
        let command = ["sh", "-c", "sleep 0.02"].map(str::to_owned);
        let error = run_kept(&command).unwrap_err().to_string();
        assert!(error.contains("saw no tracer"), "{error}");
    }
}
