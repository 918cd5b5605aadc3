//! Recordings in the formats of other programs, row by row.

mod csv;
#[cfg(feature = "firefox")]
mod firefox;
mod folded;
mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;
mod places;

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};

use cyclometer_toolkit::core::window::{WindowCause, WindowRow};
use cyclometer_toolkit::core::{Count, Verdict};
use cyclometer_toolkit::recording::{
    RecordedEvent, Recording, RecordingEnd, RecordingError, RecordingHeader,
};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use crate::stream::Streamed;

/// A recording as it is converted.
pub type ConvertedRecording = RecordedRows<Box<dyn Read>>;

/// Writes a recording in a format.
pub type RecordingConverter = fn(&mut ConvertedRecording, &mut (dyn Write + Send)) -> Streamed<()>;

/// A format that recordings are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordingFormat {
    /// A row for each window, with columns for each event.
    Csv,
    /// A JSON object for each window.
    Jsonl,
    /// Stacks for flame graphs, weighted by the event that windows were cut by.
    Folded,
    /// A profile for the Firefox Profiler.
    Firefox,
    /// The columns of [`RecordingFormat::Csv`] as an Apache Parquet file.
    Parquet,
}

/// The function that writes a format.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a format that this program was built without.
pub fn converter(format: RecordingFormat) -> Result<RecordingConverter> {
    match format {
        RecordingFormat::Csv => Ok(csv::write),
        RecordingFormat::Jsonl => Ok(jsonl::write),
        RecordingFormat::Folded => Ok(folded::write),
        #[cfg(feature = "firefox")]
        RecordingFormat::Firefox => Ok(firefox::write),
        #[cfg(not(feature = "firefox"))]
        RecordingFormat::Firefox => Err(not_built("firefox")),
        #[cfg(feature = "parquet")]
        RecordingFormat::Parquet => Ok(parquet::write),
        #[cfg(not(feature = "parquet"))]
        RecordingFormat::Parquet => Err(not_built("parquet")),
    }
}

#[cfg(not(all(feature = "firefox", feature = "parquet")))]
fn not_built(format: &str) -> Error {
    let message = format!("this cyclometer was built without --to {format}");
    let remedy = format!(
        "build it with `cargo install --locked cyclometer-cli --features {format}`, or convert to csv"
    );
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(remedy))
}

/// The rows of a recording up to its end, or to the first error, which is kept for afterwards.
#[derive(Debug)]
pub struct RecordedRows<R> {
    recording: Recording<R>,
    failure: Option<RecordingError>,
    /// Rows that the format has no place for.
    omitted: u64,
    /// Rows that were lost before those that were read.
    lost: u64,
    bare: BareCounts,
    places: places::PlaceNames,
}

/// Numbers of counts whose verdicts a format cannot hold.
#[derive(Debug, Default)]
struct BareCounts {
    /// Number of counts that are not exact, by verdict.
    by_verdict: BTreeMap<Verdict, u64>,
    /// Rows for which the kernel stopped the counters for a while.
    throttled: u64,
}

impl BareCounts {
    /// Notes counts that are written as bare numbers, or left out.
    fn add(&mut self, row: &WindowRow, counts: &[Count]) {
        self.throttled += u64::from(row.flags.throttled);
        for verdict in counts.iter().map(Count::verdict).filter(|verdict| *verdict != Verdict::Exact) {
            *self.by_verdict.entry(verdict).or_default() += 1;
        }
    }

    fn warnings(&self) -> Vec<String> {
        let with = |has_value: bool| {
            let counts = self.by_verdict.iter().filter(|(verdict, _)| verdict.has_value() == has_value);
            counts.map(|(verdict, number)| format!("{number} {verdict}")).collect::<Vec<_>>().join(", ")
        };
        let throttled = if self.throttled > 0 { self.throttled.to_string() } else { String::new() };
        let told = [
            ("counts that are written without their verdicts", with(true)),
            ("counts that are missing, and left out with their reasons", with(false)),
            ("rows for which the kernel stopped the counters for a while (throttling)", throttled),
        ];
        let told = told.into_iter().filter(|(_, numbers)| !numbers.is_empty());
        told.map(|(what, numbers)| format!("{what}; csv and jsonl have them: {numbers}")).collect()
    }
}

impl<R: Read> RecordedRows<R> {
    /// The rows of a recording of which none was read.
    pub fn new(recording: Recording<R>) -> RecordedRows<R> {
        let places = places::PlaceNames::new(recording.header());
        RecordedRows { recording, failure: None, omitted: 0, lost: 0, bare: BareCounts::default(), places }
    }

    fn header(&self) -> &RecordingHeader {
        self.recording.header()
    }

    fn next_row(&mut self) -> Option<WindowRow> {
        match self.recording.next()? {
            Ok(row) => {
                self.lost += row.flags.lost_before;
                Some(row)
            }
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    /// The name of the thread of a row that was read last.
    fn thread_name(&self, row: &WindowRow) -> Option<&str> {
        self.recording.thread_name(row.thread?)
    }

    /// The code that a row which was read last ended in, outermost first.
    fn place(&mut self, row: &WindowRow) -> Vec<String> {
        self.places.frames(row, self.recording.code_place(row))
    }

    /// Warnings about the rows that were converted.
    pub fn warnings(&self) -> Vec<String> {
        let read = self.recording.rows_read();
        let mut warnings = Vec::new();
        let lost = match self.recording.end() {
            Some(RecordingEnd::Complete(footer)) => footer.lost_rows,
            _ => self.lost,
        };
        if lost > 0 {
            warnings.push(format!("rows that were lost when it was recorded: {lost}"));
        }
        if let Some(RecordingEnd::Incomplete { offset }) = self.recording.end() {
            warnings.push(format!(
                "the recording is incomplete: it ends without its totals at byte {offset}; rows before that: {read}"
            ));
        }
        if self.failure.is_some() {
            warnings.push(format!("rows that were converted before the error: {read}"));
        }
        if self.omitted > 0 {
            warnings.push(format!(
                "rows that were left out, without a count of the leader or a time: {}",
                self.omitted
            ));
        }
        warnings.extend(self.bare.warnings());
        warnings.extend(self.places.warnings());
        warnings
    }

    /// The notes of the recording.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let last = match self.recording.end() {
            Some(RecordingEnd::Complete(footer)) => &footer.notes[..],
            _ => &[],
        };
        self.header().notes.iter().chain(last).map(String::as_str)
    }

    /// The error that ended the rows, if there was one.
    pub fn into_failure(self) -> Option<RecordingError> {
        self.failure
    }
}

/// The names of the events, each made different from those before it.
fn column_names(header: &RecordingHeader) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut names = Vec::new();
    for event in &header.events {
        let numbered = (2..).map(|n| format!("{}#{n}", event.name));
        let mut all = std::iter::once(event.name.clone()).chain(numbered);
        names.extend(all.find(|name| seen.insert(name.clone())));
    }
    names
}

/// A value in the unit of its event.
#[derive(Clone, Copy, PartialEq, Debug)]
enum RecordedValue {
    /// A number of events, or of whole units.
    Whole(u64),
    /// Any other number of units.
    Real(f64),
}

/// The value of a count; `None` if it has none.
fn value(count: &Count, event: &RecordedEvent) -> Option<RecordedValue> {
    let number = count.value()?;
    Some(match event.scale {
        1.0 => RecordedValue::Whole(number),
        scale => RecordedValue::Real(number as f64 * scale),
    })
}

/// The half width of an interval, in the unit of its event; `None` if there is no interval.
fn half_width(count: &Count, event: &RecordedEvent) -> Option<RecordedValue> {
    let Count::Scaled { interval, .. } = count else { return None };
    value(&Count::Exact(interval.half_width()?), event)
}

/// The reason why a count is not exact, with that of a missing interval; empty if it is exact.
fn reason(count: &Count) -> Option<String> {
    let reason = count.reason()?;
    Some(match count {
        Count::Scaled {
            interval: cyclometer_toolkit::core::Interval::Unknown { reason: no_interval },
            ..
        } => {
            format!("{reason}; no interval: {no_interval}")
        }
        _ => reason,
    })
}

/// The index of the boundary at which a row ended.
fn boundary(row: &WindowRow) -> Option<usize> {
    match row.cause {
        WindowCause::Boundary(index) => Some(index),
        _ => None,
    }
}

/// An address as debuggers and symbolisers write it.
fn address(row: &WindowRow) -> Option<String> {
    row.address.map(|address| format!("{address:#x}"))
}

/// Index of the event that weights stacks: the one that windows were cut by, else the first.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a recording without events.
fn leader(header: &RecordingHeader) -> Result<usize> {
    let first = (!header.events.is_empty()).then_some(0);
    header.leader().or(first).ok_or_else(|| {
        Error::new(ErrorKind::InvalidInput, "the recording has no event that stacks could be weighted by")
            .with_recovery(Recovery::fix("convert it to csv or jsonl"))
    })
}

/// The name of the program that was recorded, or of the target.
fn command_name(header: &RecordingHeader) -> String {
    let program = header.command.first().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    program.or_else(|| header.target.clone()).unwrap_or_else(|| "[unknown]".to_owned())
}

/// A name for the thread or CPU of a row.
fn thread_label<R: Read>(rows: &RecordedRows<R>, row: &WindowRow) -> String {
    match (rows.thread_name(row), row.thread, row.cpu) {
        (Some(name), ..) => name.to_owned(),
        (None, Some(thread), _) => format!("thread {}", thread.tid),
        (None, None, Some(cpu)) => format!("CPU {cpu}"),
        (None, None, None) => "[unknown]".to_owned(),
    }
}
