//! Targets that are functions. They run in a process with limits, which says what it is about to try.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cyclometer_fuzz_targets::{FuzzTarget, target};

use crate::limits::{CPU_S, WALL_S, limited};
use crate::options::{ChildPart, MutateOptions};
use crate::{MOST_FAULTS, changed, files, keep};

/// The exit code after a change that took too long.
const TOO_LONG: i32 = 3;

/// Runs a target on all changes; gives the number of faults.
pub(crate) fn run(target: &FuzzTarget, options: &MutateOptions) -> Result<usize> {
    let files = files(target.name)?;
    let (mut begin, mut faults) = (0, 0);
    while begin < options.files && faults < MOST_FAULTS {
        let folder = tempfile::tempdir()?;
        let progress = folder.path().join("progress");
        let out =
            child_command(target.name, options, begin, &progress)?.output().context("starting a child")?;
        if out.status.success() {
            break;
        }
        let tried = fs::read_to_string(&progress).ok().and_then(|text| text.trim().parse().ok());
        let Some(number) = tried else { bail!("{}: {}", target.name, why(&out)) };
        let bytes = changed(target.name, &files, options.seed, number);
        keep(options, target.name, number, &bytes, &why(&out))?;
        faults += 1;
        begin = number + 1;
    }
    Ok(faults)
}

fn child_command(
    name: &str,
    options: &MutateOptions,
    begin: u64,
    progress: &std::path::Path,
) -> Result<Command> {
    let mut command = limited(std::env::current_exe()?);
    command.args(["--child", name]);
    command.args([options.seed, begin, options.files].map(|number| number.to_string())).arg(progress);
    Ok(command)
}

/// How a process ended, with the first lines that it wrote.
fn why(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).take(4).collect();
    format!("{}: {}", out.status, lines.join(" / "))
}

/// The process with limits: tries some changes.
pub(crate) fn child(part: &ChildPart) -> Result<()> {
    let target = target(&part.name).with_context(|| format!("no target {}", part.name))?;
    let files = files(target.name)?;
    let progress = fs::File::create(&part.progress).context("the file with the progress")?;
    let tried = Arc::new(AtomicU64::new(part.begin));
    watch(Arc::clone(&tried));
    for number in part.begin..part.end {
        let bytes = changed(target.name, &files, part.seed, number);
        progress.write_all_at(format!("{number:>20}").as_bytes(), 0)?;
        tried.store(number, Ordering::Relaxed);
        (target.run)(&bytes);
    }
    Ok(())
}

/// Ends this process when a change takes too long.
fn watch(tried: Arc<AtomicU64>) {
    thread::spawn(move || {
        let (mut number, mut begin, mut cpu) = (u64::MAX, Instant::now(), Duration::ZERO);
        loop {
            thread::sleep(Duration::from_millis(500));
            let now = tried.load(Ordering::Relaxed);
            if now != number {
                (number, begin, cpu) = (now, Instant::now(), cpu_time());
            } else if cpu_time().saturating_sub(cpu) > Duration::from_secs(CPU_S)
                || begin.elapsed() > Duration::from_secs(WALL_S)
            {
                eprintln!("it takes longer than {CPU_S} s of CPU time or {WALL_S} s");
                std::process::exit(TOO_LONG);
            }
        }
    });
}

/// The CPU time of this process.
///
/// # Source
///
/// `proc_pid_stat(5)`: `utime` and `stime` are the fields 14 and 15, in ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ');
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}
