//! The file of a recording: written while the command runs, so that an early end loses no row.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cyclometer::core::window::{WindowBoundary, WindowRow, WindowSpec, WindowThread};
use cyclometer::recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordedSource, Recording, RecordingError,
    RecordingFooter, RecordingHeader, RecordingWriter,
};
use cyclometer::{
    Error, ErrorKind, Machine, Plan, Recorded, RecordedColumn, RecordingSink, Recovery, Result,
    with_invoker_rights,
};

use super::args::RecordArgs;
use crate::export::is_stdout;
use crate::failure::{FileUse, of_file};
use crate::output::clean_os;

/// The option that names the file.
const OPTION: &str = "-o";

/// A recording that is written.
pub struct RecordingFile {
    path: PathBuf,
    machine: Machine,
    command: Vec<String>,
    target: Option<String>,
    state: FileState,
}

/// The progress of a recording's file.
enum FileState {
    /// Nothing is written yet: the columns are unknown.
    Opened(Box<dyn Write>),
    /// The header is written, and rows follow.
    Begun(Box<RecordingWriter<Box<dyn Write>>>),
    /// Writing failed, or is over.
    Closed,
}

impl RecordingFile {
    /// Opens the file before anything runs. A recording of that name is kept as FILE.old; another file is
    /// left as it is.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the option and the file; `ErrorKind::InvalidInput` for a file that is no
    /// recording.
    pub fn create(args: &RecordArgs, machine: &Machine) -> Result<RecordingFile> {
        let path = args.file.clone();
        let out: Box<dyn Write> = match is_stdout(&args.file) {
            true => Box::new(io::stdout()),
            false => Box::new(create(&path)?),
        };
        Ok(RecordingFile {
            path,
            machine: machine.clone(),
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            target: target(args),
            state: FileState::Opened(out),
        })
    }

    /// Writes the end.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file.
    pub fn finish(&mut self, recorded: &Recorded) -> Result<()> {
        if recorded.sink_error.is_some() {
            return Ok(());
        }
        let run = recorded.report.runs.first();
        let footer = RecordingFooter {
            totals: recorded.totals.clone(),
            lost_rows: recorded.lost_rows,
            status: run.and_then(|run| run.exit),
            elapsed_ns: run.map(|run| run.wall_ns),
            notes: notes(recorded),
        };
        let writer = match std::mem::replace(&mut self.state, FileState::Closed) {
            FileState::Opened(out) => {
                let header = self.header(&recorded.columns, &[]);
                RecordingWriter::new(out, &header).map_err(|error| self.error(error))?
            }
            FileState::Begun(writer) => *writer,
            FileState::Closed => return Ok(()),
        };
        let mut out = writer.finish(&footer).map_err(|error| self.error(error))?;
        out.flush().map_err(|error| of_file(OPTION, FileUse::Written, &self.path, error))
    }

    fn header(&self, columns: &[RecordedColumn], boundaries: &[RecordedBoundary]) -> RecordingHeader {
        let machine = &self.machine;
        RecordingHeader {
            tool: format!("cyclometer {}", env!("CARGO_PKG_VERSION")),
            machine: RecordedMachine::of(machine),
            command: self.command.clone(),
            target: self.target.clone(),
            start_unix_ns: start_unix_ns(),
            events: columns.iter().map(recorded_event).collect(),
            boundaries: boundaries.to_vec(),
            sources: RecordedSource::all_of(&machine.ladder),
            notes: Vec::new(),
        }
    }

    fn error(&self, error: RecordingError) -> Error {
        match error {
            RecordingError::Io(error) => of_file(OPTION, FileUse::Written, &self.path, error),
            other => Error::new(ErrorKind::Io, format!("{OPTION}: {other}")),
        }
    }
}

impl RecordingSink for RecordingFile {
    fn begin(&mut self, columns: &[RecordedColumn], spec: &WindowSpec, plan: &Plan) -> Result<()> {
        let boundaries: Vec<RecordedBoundary> = spec
            .boundaries
            .iter()
            .filter_map(|boundary| recorded_boundary(boundary, columns, plan))
            .collect();
        let FileState::Opened(out) = std::mem::replace(&mut self.state, FileState::Closed) else {
            return Ok(());
        };
        let header = self.header(columns, &boundaries);
        let writer = RecordingWriter::new(out, &header).map_err(|error| self.error(error))?;
        self.state = FileState::Begun(Box::new(writer));
        Ok(())
    }

    fn thread_name(&mut self, thread: WindowThread, name: &str) -> Result<()> {
        let FileState::Begun(writer) = &mut self.state else { return Ok(()) };
        writer.thread_name(thread, name).map_err(|error| self.error(error))
    }

    fn rows(&mut self, rows: &[WindowRow], _lost: u64) -> Result<()> {
        let FileState::Begun(writer) = &mut self.state else { return Ok(()) };
        let written = writer.rows(rows);
        written.map_err(|error| {
            self.state = FileState::Closed;
            self.error(error)
        })
    }
}

/// Creates the file, and keeps a recording of that name as FILE.old.
fn create(path: &Path) -> Result<File> {
    let failed = |error| of_file(OPTION, FileUse::Written, path, error);
    with_invoker_rights(|| {
        let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
        if is_file {
            keep(path)?;
        }
        OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(failed)
    })
    .map_err(failed)?
}

fn keep(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| of_file(OPTION, FileUse::Read, path, error))?;
    let is_empty = file.metadata().is_ok_and(|found| found.len() == 0);
    if !is_empty && is_foreign(file) {
        let text = format!("{OPTION}: {} is no recording, and stays as it is", clean_os(path.as_os_str()));
        let fix = "name another file, or remove that one";
        return Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(fix)));
    }
    let mut old = OsString::from(path);
    old.push(".old");
    fs::rename(path, &old).map_err(|error| of_file(OPTION, FileUse::Written, Path::new(&old), error))
}

/// Whether a file begins like no recording. A recording that is damaged, or of another version, is one.
fn is_foreign(file: impl Read) -> bool {
    matches!(Recording::open(file), Err(RecordingError::Foreign))
}

fn target(args: &RecordArgs) -> Option<String> {
    match args {
        RecordArgs { pid: Some(pid), .. } => Some(format!("process {pid}")),
        RecordArgs { tid: Some(tid), .. } => Some(format!("thread {tid}")),
        RecordArgs { all_cpus: true, .. } => Some("all CPUs".to_owned()),
        RecordArgs { cpu: Some(cpus), .. } => Some(format!("CPU {cpus}")),
        RecordArgs { machine: Some(name), workload, .. } => {
            Some(format!("{name}, workload {}", workload.as_deref().unwrap_or(super::USUAL_WORKLOAD)))
        }
        _ => None,
    }
}

fn start_unix_ns() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

fn recorded_event(column: &RecordedColumn) -> RecordedEvent {
    RecordedEvent {
        name: column.name.clone(),
        unit: column.unit.clone(),
        scale: column.scale,
        source: Some(column.source),
        provenance: Some(column.provenance),
        modes: column.modes,
    }
}

/// A boundary with the index of its column.
fn recorded_boundary(
    boundary: &WindowBoundary,
    columns: &[RecordedColumn],
    plan: &Plan,
) -> Option<RecordedBoundary> {
    match *boundary {
        WindowBoundary::Interval(time) => Some(RecordedBoundary::Interval(time)),
        WindowBoundary::Events { slot, period } => {
            let name = plan.lines.get(slot.0)?.label();
            let event = columns.iter().position(|column| column.name == name)?;
            Some(RecordedBoundary::Events { event, period })
        }
    }
}

fn notes(recorded: &Recorded) -> Vec<String> {
    let without = recorded.without_column.iter();
    let without = without.map(|(name, reason)| format!("{name} has no column: {reason}"));
    let of_columns = recorded.columns.iter().flat_map(|column| &column.notes).cloned();
    without.chain(of_columns).chain(recorded.notes.iter().cloned()).collect()
}
