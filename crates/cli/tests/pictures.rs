//! `plot` and `phases` on recordings with known contents: phases, flags, gaps, spikes, few rows and many.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, Modes, Provenance, Random, Rung, Unit};
use cyclometer_recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordingFooter, RecordingHeader, RecordingWriter,
};
use serde_json::Value;
use support::{run, schema, stderr, stdout};

const MAIN: WindowThread = WindowThread { pid: 1200, tid: 1200 };
const WORKER: WindowThread = WindowThread { pid: 1200, tid: 1201 };
const PERIOD: u64 = 512_000;

fn event(name: &str) -> RecordedEvent {
    RecordedEvent {
        name: name.to_owned(),
        unit: Unit::Count,
        scale: 1.0,
        source: Rung::Perf,
        provenance: Provenance::Hardware,
        modes: Some(Modes::USER),
    }
}

fn header(events: Vec<RecordedEvent>, boundary: RecordedBoundary) -> RecordingHeader {
    RecordingHeader {
        tool: "cyclometer 0.1.0".to_owned(),
        machine: RecordedMachine { os: "linux".to_owned(), ..RecordedMachine::default() },
        command: ["./matrix", "400"].map(str::to_owned).to_vec(),
        target: None,
        start_unix_ns: None,
        events,
        boundaries: vec![boundary],
        sources: Vec::new(),
        notes: Vec::new(),
    }
}

fn hardware() -> RecordingHeader {
    let events = ["instructions:u", "cycles:u", "l1d_cache_misses:u", "branch-misses:u"].map(event).to_vec();
    header(events, RecordedBoundary::Events { event: 0, period: NonZeroU64::new(PERIOD).unwrap() })
}

fn row(thread: WindowThread, counts: Vec<Count>, end_ns: u64, enabled_ns: u64) -> WindowRow {
    WindowRow {
        thread: Some(thread),
        cpu: Some(3),
        time_ns: Some(end_ns),
        address: None,
        cause: WindowCause::Boundary(0),
        counts,
        enabled_ns: Some(enabled_ns),
        running_ns: Some(enabled_ns),
        flags: WindowFlags { switches: Some(0), migrations: Some(0), ..WindowFlags::default() },
    }
}

/// IPC, and misses of the L1 and of branches per 1,000 instructions.
type Work = [f64; 3];

const READ: Work = [0.7, 31.0, 2.0];
const COMPUTE: Work = [2.4, 1.5, 0.4];
const WRITE: Work = [1.1, 12.0, 9.0];

/// So many windows of each kind of work, one after the other, with some noise.
fn worked(thread: WindowThread, stretches: &[(usize, Work)], noise: f64) -> Vec<WindowRow> {
    let mut random = Random::seeded(7);
    let mut time = 0;
    let work = stretches.iter().flat_map(|(windows, work)| std::iter::repeat_n(*work, *windows));
    let row = |work: Work| {
        let mut vary = |value: f64| value * (1.0 + noise * (random.word() as f64 / 2f64.powi(63) - 1.0));
        let instructions = PERIOD + (vary(100.0) as u64) % 200;
        let n = instructions as f64;
        let cycles = n / vary(work[0]);
        let counts = [n, cycles, n / 1000.0 * vary(work[1]), n / 1000.0 * vary(work[2])];
        time += (cycles / 3.0) as u64;
        let counts = counts.map(|count| Count::Exact(count as u64)).to_vec();
        row(thread, counts, time, (cycles / 3.0) as u64)
    };
    work.map(row).collect()
}

/// A recording in a folder of its own, as its path.
struct Recorded {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Recorded {
    fn new(header: &RecordingHeader, rows: &[WindowRow]) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r");
        let mut writer = RecordingWriter::new(BufWriter::new(File::create(&file).unwrap()), header).unwrap();
        writer.thread_name(MAIN, "matrix").unwrap();
        rows.chunks(500).for_each(|rows| writer.rows(rows).unwrap());
        let totals = vec![Count::Exact(0); header.events.len()];
        writer.finish(&RecordingFooter { totals, ..RecordingFooter::default() }).unwrap();
        Recorded { folder, file }
    }

    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&[&arguments[..1], &[self.path()], &arguments[1..]].concat())
    }

    fn shown(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(out.status.success(), "{}", stderr(&out));
        assert_eq!(stderr(&out), "");
        stdout(&out)
    }

    fn picture(&self, name: &str, arguments: &[&str]) -> String {
        let path = self.folder.path().join(name);
        let out = self.run(&[&["plot", "-o", path.to_str().unwrap()], arguments].concat());
        assert!(out.status.success(), "{}", stderr(&out));
        assert_eq!(stdout(&out), "");
        std::fs::read_to_string(path).unwrap()
    }
}

/// Four stretches of three kinds of work, with every mark and a gap.
fn known() -> Recorded {
    let mut rows = worked(MAIN, &[(200, READ), (300, COMPUTE), (150, READ), (250, WRITE)], 0.06);
    for i in [40, 41, 333, 700] {
        rows[i].flags.switches = Some(2);
    }
    rows[333].flags.migrations = Some(1);
    rows[600].flags.throttled = true;
    rows[601].flags.lost_before = 3;
    for row in &mut rows[380..420] {
        row.counts[2] = Count::NotCounted { reason: "the counter was in use by others".to_owned() };
    }
    Recorded::new(&hardware(), &rows)
}

/// Two threads that take turns.
fn two_threads() -> Recorded {
    let (main, worker) =
        (worked(MAIN, &[(60, READ), (90, COMPUTE)], 0.02), worked(WORKER, &[(80, WRITE)], 0.02));
    let mut rows = [main, worker].concat();
    rows.sort_by_key(|row| row.time_ns);
    Recorded::new(&hardware(), &rows)
}

/// Windows of 10 ms without a PMU.
fn timed() -> Recorded {
    let mut events = ["task-clock", "page-faults"].map(event).to_vec();
    events[0].unit = Unit::Nanoseconds;
    for event in &mut events {
        (event.modes, event.source, event.provenance) = (None, Rung::Os, Provenance::Kernel);
    }
    let rows: Vec<WindowRow> = (1..=120u64)
        .map(|n| {
            let (busy, faults) = if n <= 40 { (9_900_000 - n % 3, 400 + n % 7) } else { (5_000_000, n % 2) };
            let counts = [busy, faults].map(Count::Exact).to_vec();
            WindowRow { enabled_ns: None, running_ns: None, ..row(MAIN, counts, n * 10_000_000, 0) }
        })
        .collect();
    Recorded::new(&header(events, RecordedBoundary::Interval(Duration::from_millis(10))), &rows)
}

fn well_formed(picture: &str) -> usize {
    let document = roxmltree::Document::parse(picture).unwrap_or_else(|error| panic!("{error}: {picture}"));
    document.descendants().filter(|node| node.has_tag_name("path")).count()
}

#[test]
fn keep() {
    for (name, recorded) in [("known", known()), ("two", two_threads()), ("timed", timed())] {
        std::fs::copy(&recorded.file, format!("/tmp/r3-{name}.rec")).unwrap();
    }
    let mut rows = worked(MAIN, &[(30_000, READ), (45_000, COMPUTE), (25_000, WRITE)], 0.2);
    rows[54_321].counts[2] = Count::Exact(90 * 512);
    let many = Recorded::new(&hardware(), &rows);
    std::fs::copy(&many.file, "/tmp/r3-many.rec").unwrap();
}
