//! Helpers that the tests of this folder share.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, unused_imports, reason = "each test file uses its own part")]

use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use cyclometer_backend::Launcher;
use cyclometer_core::event::{OsMetric, PerfClass, PerfEvent};
use cyclometer_core::exec::{CommandSpec, Exit, InputStream, OutputStream, Reading, Waited};
use cyclometer_core::{Child, Counting, Launch, Part, Rung, Slot, SlotId};
pub use cyclometer_test_support::skip;

/// A command whose output is discarded.
pub fn command(program: &str, args: &[&str]) -> CommandSpec {
    CommandSpec {
        args: args.iter().map(OsString::from).collect(),
        stdin: InputStream::Null,
        stdout: OutputStream::Null,
        stderr: OutputStream::Null,
        ..CommandSpec::new(program)
    }
}

/// Runs a command to its end.
pub fn run(launcher: &Launcher, command: &CommandSpec) -> Exit {
    let mut child = launcher.prepare(command).unwrap();
    child.release().unwrap();
    ended(child.as_mut())
}

/// Waits for the end.
pub fn ended(child: &mut dyn Child) -> Exit {
    match child.wait(None).unwrap() {
        Waited::Exited(exit) => exit,
        other => panic!("{other:?}"),
    }
}

/// An event of perf.
pub fn perf_part(pmu: &str, pmu_type: u32, config: u64, class: PerfClass) -> Part {
    Part::Perf(PerfEvent::new(pmu, pmu_type, config, class))
}

/// A slot without any filter.
pub fn slot(id: usize, name: &str, part: Part) -> Slot {
    let rung = if matches!(part, Part::Os(_)) { Rung::Os } else { Rung::Perf };
    Slot::new(SlotId(id), name, rung, vec![part])
}

/// A slot for the operating system's accounting.
pub fn os_slot(id: usize, metric: OsMetric) -> Slot {
    slot(id, &format!("{metric:?}"), Part::Os(metric))
}

/// The present counts.
pub fn read(counting: &mut dyn Counting) -> Reading {
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    reading
}

/// The counts as soon as they are sufficient; panics after a minute, which suffices on a busy machine.
pub fn until(counting: &mut dyn Counting, enough: impl Fn(&Reading) -> bool) -> Reading {
    let late = Instant::now() + Duration::from_secs(300);
    loop {
        let reading = read(counting);
        if enough(&reading) {
            return reading;
        }
        assert!(Instant::now() < late, "{reading:?}");
        std::thread::yield_now();
    }
}

/// The only value of a slot.
pub fn value(reading: &Reading, id: usize) -> u64 {
    let cells: Vec<_> = reading.cells.iter().filter(|cell| cell.slot == SlotId(id)).collect();
    assert_eq!(cells.len(), 1, "{reading:?}");
    assert_eq!(cells[0].lost, None);
    cells[0].raw
}

/// Number of open descriptors of this process.
pub fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Children of this process that exist, zombies included.
pub fn children() -> Vec<u32> {
    let ours = std::process::id().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| parent(*pid).as_deref() == Some(&ours)).collect()
}

fn parent(pid: u32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&stat).into_owned();
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(1).map(str::to_owned)
}
