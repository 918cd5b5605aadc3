//! Our figures of a real program agree with those of `/usr/bin/time -v` and `perf stat`.
//!
//! The programs measure different executions of one command, so that only repeatable quantities can agree.
//! Where a peer is missing the test says so; with `CYCLOMETER_REQUIRE_PEERS` set it fails instead.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{cyclometer, stderr, stdout};

/// Other load on the machine may spoil one attempt.
const ATTEMPTS: usize = 3;

/// Bytes to compress: about half a second of CPU time.
const DATA_BYTES: usize = 12 << 20;

/// Figures by name, times in ns and sizes in bytes.
type Figures = HashMap<&'static str, f64>;

/// How far two measurements of one command may lie apart: a share of the greater one, and an absolute part.
struct Tolerance {
    name: &'static str,
    share: f64,
    absolute: f64,
}

const fn tolerance(name: &'static str, share: f64, absolute: f64) -> Tolerance {
    Tolerance { name, share, absolute }
}

const MS: f64 = 1e6;

/// `time` prints times in steps of 10 ms, and CPU time differs by some percent from run to run (frequency,
/// caches). The split into user and system time is sampled at the tick. Wall time also has the other load of
/// the machine. For the peak, the kernel's own counters lag by up to 64 pages for each CPU (`mm/memory.c`),
/// and the layout is random.
const TIME: [Tolerance; 4] = [
    tolerance("wall_time", 0.25, 30.0 * MS),
    tolerance("user_time", 0.15, 20.0 * MS),
    tolerance("system_time", 0.15, 30.0 * MS),
    tolerance("peak_rss", 0.20, 512.0 * 1024.0),
];

/// Page faults depend on the random layout. Switches depend on the other load: they are compared in
/// magnitude.
const PERF: [Tolerance; 3] = [
    tolerance("task-clock", 0.15, 5.0 * MS),
    tolerance("page-faults", 0.10, 20.0),
    tolerance("context-switches", 0.75, 50.0),
];

/// A text that compresses, but not at once.
fn data(path: &Path) {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |state: &mut u64| {
        // Marsaglia, "Xorshift RNGs", 2003.
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        b"etaoin shrdlu"[(*state % 13) as usize]
    };
    let bytes: Vec<u8> = (0..DATA_BYTES).map(|_| next(&mut state)).collect();
    std::fs::write(path, bytes).unwrap();
}

fn ours(events: &str, command: &[&str]) -> Figures {
    let options = ["stat", "--json", "--output", "null", "-e", events, "--"];
    let out = cyclometer().args(options).args(command).output().unwrap();
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let figure = |tolerance: &Tolerance| {
        let metrics = value["commands"][0]["metrics"].as_array().unwrap();
        let name =
            |metric: &&Value| metric["name"].as_str().unwrap().split(':').next() == Some(tolerance.name);
        Some((tolerance.name, metrics.iter().find(name)?["mean"].as_f64()?))
    };
    TIME.iter().chain(&PERF).filter_map(figure).collect()
}

/// The figures of `/usr/bin/time -v`; `None` when it is not installed.
fn of_time(command: &[&str]) -> Option<Figures> {
    let out = Command::new("/usr/bin/time").arg("-v").args(command).stdout(Stdio::null()).output().ok()?;
    let text = stderr(&out);
    let field = |head: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(head));
        line.unwrap_or_else(|| panic!("no {head} in {text}")).trim().to_owned()
    };
    let seconds = |head: &str| field(head).parse::<f64>().unwrap() * 1e9;
    let wall = field("Elapsed (wall clock) time (h:mm:ss or m:ss):");
    let wall = wall.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap());
    let rss = field("Maximum resident set size (kbytes):").parse::<f64>().unwrap();
    Some(Figures::from([
        ("wall_time", wall * 1e9),
        ("user_time", seconds("User time (seconds):")),
        ("system_time", seconds("System time (seconds):")),
        ("peak_rss", rss * 1024.0),
    ]))
}

/// The figures of `perf stat`; `None` when it is not installed for this kernel, or may not count.
fn of_perf(command: &[&str]) -> Option<Figures> {
    let options = ["stat", "-x", ";", "-e", "task-clock,page-faults,context-switches", "--"];
    let mut perf = Command::new("perf");
    perf.env("LC_ALL", "C").args(options).args(command).stdout(Stdio::null());
    let out = perf.output().ok().filter(|out| out.status.success())?;
    let text = stderr(&out);
    // value;unit;event;…, see perf-stat(1), "CSV FORMAT"; task-clock is in ms.
    let figure = |tolerance: &Tolerance| {
        let fields = text.lines().map(|line| line.split(';').collect::<Vec<_>>());
        let mut named = fields.filter(|f| f.len() > 2 && f[2].split(':').next() == Some(tolerance.name));
        let fields = named.next()?;
        let unit = if fields[1] == "msec" { MS } else { 1.0 };
        Some((tolerance.name, fields[0].parse::<f64>().ok()? * unit))
    };
    PERF.iter().map(figure).collect()
}

fn disagreements(ours: &Figures, theirs: &Figures, tolerances: &[Tolerance]) -> Vec<String> {
    let differs = |t: &Tolerance| {
        let (a, b) = (*ours.get(t.name)?, *theirs.get(t.name)?);
        let apart = (a - b).abs() > t.share * a.max(b) + t.absolute;
        apart.then(|| format!("{}: {a} here, {b} there", t.name))
    };
    tolerances.iter().filter_map(differs).collect()
}

fn agrees(peer: &str, theirs: fn(&[&str]) -> Option<Figures>, tolerances: &[Tolerance]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    data(&path);
    let command = ["gzip", "-9c", path.to_str().unwrap()];
    let names: Vec<&str> = tolerances.iter().map(|tolerance| tolerance.name).collect();
    let mut last = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(theirs) = theirs(&command) else {
            return support::skip_without_peer(&format!("{peer} is missing or cannot count here"));
        };
        let ours = ours(&names.join(","), &command);
        for figures in [&ours, &theirs] {
            assert_eq!(figures.len(), names.len(), "a figure is missing: {figures:?}");
        }
        assert!(
            theirs.get("user_time").is_none_or(|ns| *ns > 300.0 * MS),
            "too short to compare: {theirs:?}"
        );
        last = disagreements(&ours, &theirs, tolerances);
        if last.is_empty() {
            return;
        }
    }
    panic!("{peer} disagrees {ATTEMPTS} times: {}", last.join("; "));
}

// One test: two at a time would disturb each other.
#[test]
fn times_memory_faults_and_switches_agree_with_other_tools() {
    agrees("/usr/bin/time", of_time, &TIME);
    agrees("perf", of_perf, &PERF);
}

#[test]
fn a_difference_beyond_the_tolerance_is_found() {
    let theirs = Figures::from([("user_time", 1000.0 * MS)]);
    for (user_ns, found) in [(1000.0 * MS, 0), (830.0 * MS, 0), (800.0 * MS, 1), (2000.0 * MS, 1), (0.0, 1)] {
        let ours = Figures::from([("user_time", user_ns)]);
        assert_eq!(disagreements(&ours, &theirs, &TIME).len(), found, "{user_ns}");
    }
}
