//! Rows a second that are written and read: `cargo run --release -p cyclometer-recording --example rate`.
//! A path behind it is a file to write the recording to.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "an example prints, and may fail")]

use std::time::Instant;

use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, Modes, Provenance, Rung, Unit};
use cyclometer_recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, Recording, RecordingFooter, RecordingHeader,
    RecordingWriter,
};

const ROWS: u64 = 2_000_000;
const EVENTS: usize = 5;
const BATCH: usize = 1000;

fn header() -> RecordingHeader {
    let event = |number| RecordedEvent {
        name: format!("event-{number}"),
        unit: Unit::Count,
        scale: 1.0,
        source: Some(Rung::Soft),
        provenance: Some(Provenance::Counted),
        modes: Some(Modes::USER),
    };
    RecordingHeader {
        tool: "example".to_owned(),
        machine: RecordedMachine::default(),
        command: Vec::new(),
        target: None,
        start_unix_ns: None,
        events: (0..EVENTS).map(event).collect(),
        boundaries: vec![RecordedBoundary::Events { event: 0, period: 1000.try_into().unwrap() }],
        sources: Vec::new(),
        notes: Vec::new(),
    }
}

fn row(number: u64) -> WindowRow {
    let noise = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    let tid = 12 + (number / 64 % 4) as u32;
    WindowRow {
        thread: Some(WindowThread { pid: 12, tid }),
        cpu: Some(tid),
        time_ns: Some(number * 1000 + noise),
        address: Some(0x40_0000 + noise),
        cause: WindowCause::Boundary(0),
        counts: (0..EVENTS as u64).map(|n| Count::Exact(1000 + n * noise)).collect(),
        enabled_ns: Some(1000),
        running_ns: Some(1000),
        flags: WindowFlags { switches: Some(0), migrations: Some(0), ..WindowFlags::default() },
    }
}

fn main() {
    let batch: Vec<WindowRow> = (0..BATCH as u64).map(row).collect();
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let start = Instant::now();
    for _ in 0..ROWS / BATCH as u64 {
        writer.rows(&batch).unwrap();
    }
    let totals = vec![Count::Exact(0); EVENTS];
    let bytes = writer.finish(&RecordingFooter { totals, ..RecordingFooter::default() }).unwrap();
    report("written", start, bytes.len());
    let start = Instant::now();
    let rows = Recording::open(&bytes[..]).unwrap().map(Result::unwrap).count();
    assert_eq!(rows as u64, ROWS);
    report("read", start, bytes.len());
    if let Some(path) = std::env::args_os().nth(1) {
        std::fs::write(path, bytes).unwrap();
    }
}

fn report(what: &str, start: Instant, bytes: usize) {
    let rate = ROWS as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{what}: {rate:.1} M rows/s, {:.1} bytes a row", bytes as f64 / ROWS as f64);
}
