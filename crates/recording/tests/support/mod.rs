//! Headers, rows and files for the tests.

#![allow(dead_code, reason = "each test binary uses a part")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer_core::exec::ExitStatus;
use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, Interval, MissingReason, Modes, NoInterval, Provenance, Rung, Unit};
use cyclometer_recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordedSource, Recording, RecordingEnd,
    RecordingFooter, RecordingHeader, RecordingResult, RecordingWriter,
};

pub fn event(name: &str) -> RecordedEvent {
    RecordedEvent {
        name: name.to_owned(),
        unit: Unit::Count,
        scale: 1.0,
        source: Some(Rung::Soft),
        provenance: Some(Provenance::Counted),
        modes: Some(Modes::USER),
    }
}

/// A header with three events and two boundaries.
pub fn header() -> RecordingHeader {
    let energy = RecordedEvent {
        unit: Unit::Joules,
        scale: 2.0_f64.powi(-32),
        source: Some(Rung::Perf),
        provenance: Some(Provenance::Kernel),
        modes: None,
        ..event("energy-pkg")
    };
    RecordingHeader {
        tool: "cyclometer 0.1.0".to_owned(),
        machine: RecordedMachine {
            os: "linux".to_owned(),
            architecture: "x86_64".to_owned(),
            kernel_release: Some("6.12.107".to_owned()),
            cpu: None,
            hypervisor: Some("KVM".to_owned()),
        },
        command: ["./matrix", "400", "größe\n"].map(str::to_owned).to_vec(),
        target: None,
        start_unix_ns: Some(1_800_000_000_123_456_789),
        events: vec![event("instructions:u"), event("loads:u"), energy],
        boundaries: vec![
            RecordedBoundary::Events { event: 0, period: NonZeroU64::new(512_000).unwrap() },
            RecordedBoundary::Interval(Duration::from_millis(10)),
        ],
        sources: vec![RecordedSource {
            source: Rung::Perf,
            state: "no".to_owned(),
            reasons: vec!["no virtual PMU".to_owned()],
        }],
        notes: vec!["a note".to_owned()],
    }
}

pub fn footer() -> RecordingFooter {
    let unknown = Interval::Unknown { reason: NoInterval::Reported("too few slices".to_owned()) };
    RecordingFooter {
        totals: vec![
            Count::Exact(u64::MAX),
            Count::Scaled { raw: 1, estimate: 2, time_enabled_ns: 3, time_running_ns: 4, interval: unknown },
            Count::NotSupported { reason: "no such counter".into() },
        ],
        lost_rows: 7,
        status: Some(ExitStatus::Signal(9)),
        elapsed_ns: Some(12),
        notes: vec!["the end".to_owned()],
    }
}

/// A row of the leader's boundary.
pub fn row(number: u64) -> WindowRow {
    WindowRow {
        thread: Some(WindowThread { pid: 12, tid: 13 }),
        cpu: Some(3),
        time_ns: Some(1000 * number),
        address: Some(0x40_1000 + 16 * (number % 5)),
        cause: WindowCause::Boundary(0),
        counts: vec![Count::Exact(512_000), Count::Exact(100_000 + number % 7), Count::Exact(number)],
        enabled_ns: Some(990),
        running_ns: Some(990),
        flags: WindowFlags { switches: Some(0), migrations: Some(0), ..WindowFlags::default() },
    }
}

/// Rows with every kind of count, cause and flag.
pub fn odd_rows() -> Vec<WindowRow> {
    let reason = || MissingReason::from("the counter was taken");
    let known = |concentrated| Count::Scaled {
        raw: 5,
        estimate: 20,
        time_enabled_ns: 400,
        time_running_ns: 100,
        interval: Interval::Known { half_width: 3, concentrated },
    };
    let bare = WindowRow {
        thread: None,
        cpu: None,
        time_ns: None,
        address: None,
        enabled_ns: None,
        running_ns: None,
        flags: WindowFlags::default(),
        ..row(0)
    };
    vec![
        row(1),
        WindowRow { counts: vec![known(false), known(true), Count::Lost { reason: reason() }], ..row(2) },
        WindowRow {
            cause: WindowCause::CountersLost,
            counts: vec![
                Count::Partial { raw: 9, part: "cpu_core only".into() },
                Count::Lost { reason: reason() },
                Count::NotCounted { reason: "".into() },
            ],
            ..row(3)
        },
        WindowRow { cause: WindowCause::Exec, counts: footer().totals, ..row(4) },
        WindowRow {
            thread: Some(WindowThread { pid: 12, tid: u32::MAX }),
            cpu: Some(u32::MAX),
            time_ns: Some(u64::MAX),
            address: Some(u64::MAX),
            cause: WindowCause::Boundary(1),
            running_ns: Some(1),
            flags: WindowFlags {
                switches: Some(1),
                migrations: None,
                throttled: true,
                lost_before: u64::MAX,
            },
            ..row(5)
        },
        WindowRow { cause: WindowCause::End, ..bare.clone() },
        WindowRow { cause: WindowCause::Unassigned, running_ns: Some(0), ..bare },
        row(6),
    ]
}

/// A complete recording of batches of rows.
pub fn written(header: &RecordingHeader, batches: &[Vec<WindowRow>], footer: &RecordingFooter) -> Vec<u8> {
    let mut writer = RecordingWriter::new(Vec::new(), header).unwrap();
    for batch in batches {
        writer.rows(batch).unwrap();
    }
    writer.finish(footer).unwrap()
}

/// The rows of a file up to its end or an error, and that end.
pub fn read(bytes: &[u8]) -> RecordingResult<(Vec<WindowRow>, RecordingResult<RecordingEnd>)> {
    let mut recording = Recording::open(bytes)?;
    let mut rows = Vec::new();
    for row in recording.by_ref() {
        match row {
            Ok(row) => rows.push(row),
            Err(error) => return Ok((rows, Err(error))),
        }
    }
    let end = recording.end().unwrap().clone();
    Ok((rows, Ok(end)))
}

/// The offsets of the frames of a good file, and its length.
pub fn frames(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![12];
    while let Some(&last) = offsets.last().filter(|last| **last < bytes.len()) {
        let length = u32::from_le_bytes(bytes[last + 4..last + 8].try_into().unwrap());
        offsets.push(last + 12 + length as usize);
    }
    offsets
}

/// The first bytes of a file, and frames with right checksums behind them.
pub fn framed(frames: &[([u8; 4], &[u8])]) -> Vec<u8> {
    let mut bytes = b"\x89cycrec\n\x01\0\0\0".to_vec();
    let mut checksum = crc32fast::hash(&bytes);
    for (tag, payload) in frames {
        let length = (payload.len() as u32).to_le_bytes();
        let mut hasher = crc32fast::Hasher::new_with_initial(checksum);
        [&tag[..], &length, payload].into_iter().for_each(|part| hasher.update(part));
        checksum = hasher.finalize();
        bytes.extend([&tag[..], &length, &checksum.to_le_bytes(), payload].concat());
    }
    bytes
}
