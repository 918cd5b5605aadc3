//! The file of a recording: written while the command runs, so that an early end loses no row.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use cyclometer_toolkit::core::SlotId;
use cyclometer_toolkit::core::code_memory::CodeMemoryChange;
use cyclometer_toolkit::core::window::{WindowBoundary, WindowRow, WindowSpec, WindowThread};
use cyclometer_toolkit::recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordedSource, RecordingError, RecordingFooter,
    RecordingHeader, RecordingResult, RecordingWriter,
};
use cyclometer_toolkit::{
    Error, ErrorKind, FileSizeSignalIgnored, Machine, Plan, Recorded, RecordedColumn, RecordingSink,
    Recovery, Result,
};

use super::args::RecordArgs;
use super::part_file::{OPTION, PartFile};
use crate::export::{self, Export, LiveDestination, is_stdout};
use crate::failure::{FileUse, of_file};
use crate::output::clean_os;

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
    Waiting(LiveDestination),
    /// The header is written, and rows follow.
    Begun(Box<BegunRecording>),
    /// All is written.
    Ended,
    /// The reader of a stream has ended, and the rest of the recording has nowhere to go.
    ReaderEnded,
    /// Writing failed. Rows until then are in this file, if there are any.
    Failed(Option<PathBuf>),
}

/// A recording with its header. A stream has no file that takes a name.
struct BegunRecording {
    writer: RecordingWriter<File>,
    part: Option<PartFile>,
}

impl RecordingFile {
    /// Finds out before anything runs whether the file can be written. A regular file is left as it is until
    /// the run has ended.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the option and the file; `ErrorKind::InvalidInput` for a file that is no
    /// recording, FILE.old included.
    pub fn open(args: &RecordArgs, machine: &Machine) -> Result<RecordingFile> {
        let destination = Export::open(OPTION, &args.file)?.into_live()?;
        if let LiveDestination::File(target) = &destination {
            PartFile::check(target)?;
        }
        Ok(RecordingFile {
            path: args.file.clone(),
            machine: machine.clone(),
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            target: target(args),
            state: FileState::Waiting(destination),
        })
    }

    /// The place of the rows as it is shown; `None` if they are nowhere.
    pub fn place(&self) -> Option<String> {
        let named = match is_stdout(&self.path) {
            true => "standard output".to_owned(),
            false => clean_os(self.path.as_os_str()),
        };
        match &self.state {
            FileState::Waiting(_) => None,
            FileState::Begun(_) | FileState::Ended => Some(named),
            FileState::ReaderEnded => Some(format!("{named}, whose reader ended early")),
            FileState::Failed(kept) => kept.as_ref().map(|kept| clean_os(kept.as_os_str())),
        }
    }

    /// Writes the end, and gives the file its name.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file; `ErrorKind::InvalidInput` for a file of that name that is no
    /// recording, and has come while the command ran.
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
        // The columns of a run without rows are not written yet.
        self.begin(&recorded.columns, &recorded.spec, &recorded.report.plan)?;
        let Some(BegunRecording { writer, part }) = self.take_begun() else { return Ok(()) };
        if let Err(error) = limited(|| writer.finish(&footer)) {
            return self.stop(part, error);
        }
        self.state = FileState::Ended;
        let Some(mut part) = part else { return Ok(()) };
        part.take_name().map_err(|error| {
            part.keep();
            self.fail(Some(part), error)
        })
    }

    /// Ends writing because the run failed; the error names the file that has the rows.
    pub fn abandon(&mut self, error: Error) -> Error {
        let part = self.take_begun().and_then(|begun| begun.part);
        self.fail(part, error)
    }

    /// Takes what is written out of a recording that has begun; others stay as they are.
    fn take_begun(&mut self) -> Option<BegunRecording> {
        match std::mem::replace(&mut self.state, FileState::Failed(None)) {
            FileState::Begun(begun) => Some(*begun),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Ends writing after an error. A reader that ends before the recording does is none, as in other
    /// commands.
    fn stop(&mut self, part: Option<PartFile>, error: RecordingError) -> Result<()> {
        match error {
            RecordingError::Io(error) if part.is_none() && error.kind() == io::ErrorKind::BrokenPipe => {
                self.state = FileState::ReaderEnded;
                Ok(())
            }
            error => {
                let error = self.error(error);
                Err(self.fail(part, error))
            }
        }
    }

    fn stop_begun(&mut self, error: RecordingError) -> Result<()> {
        let part = self.take_begun().and_then(|begun| begun.part);
        self.stop(part, error)
    }

    /// Ends writing: the error with the file that has the rows.
    fn fail(&mut self, part: Option<PartFile>, error: Error) -> Error {
        let kept = part.and_then(PartFile::close);
        let named = kept.as_ref().map(|kept| clean_os(kept.as_os_str()));
        self.state = FileState::Failed(kept);
        let Some(named) = named else { return error };
        let remedy = error.recovery().to_string();
        let before = if remedy.is_empty() { remedy } else { remedy + "; " };
        error.with_recovery(Recovery::fix(format!("{before}the rows that were recorded are in {named}")))
    }

    fn header(&self, columns: &[RecordedColumn], boundaries: Vec<RecordedBoundary>) -> RecordingHeader {
        let machine = &self.machine;
        RecordingHeader {
            tool: format!("cyclometer {}", env!("CARGO_PKG_VERSION")),
            machine: RecordedMachine::of(machine),
            command: self.command.clone(),
            target: self.target.clone(),
            start_unix_ns: start_unix_ns(),
            events: columns.iter().map(recorded_event).collect(),
            boundaries,
            sources: RecordedSource::all_of(&machine.ladder),
            notes: Vec::new(),
        }
    }

    fn error(&self, error: RecordingError) -> Error {
        match error {
            RecordingError::Io(error) if is_stdout(&self.path) => export::cannot_print(&error),
            RecordingError::Io(error) => of_file(OPTION, FileUse::Written, &self.path, error),
            other => {
                let error = Error::from(other);
                Error::new(ErrorKind::Io, format!("{OPTION}: {error}"))
                    .with_recovery(error.recovery().clone())
            }
        }
    }
}

impl BegunRecording {
    fn new(destination: &LiveDestination, header: &RecordingHeader) -> RecordingResult<BegunRecording> {
        let (part, out) = match destination {
            LiveDestination::Stream(out) => (None, out.try_clone()?),
            LiveDestination::File(target) => {
                let (part, out) = PartFile::create(target)?;
                (Some(part), out)
            }
        };
        Ok(BegunRecording { writer: limited(|| RecordingWriter::new(out, header))?, part })
    }

    fn rows(&mut self, rows: &[WindowRow]) -> RecordingResult<()> {
        let written = limited(|| self.writer.rows(rows));
        // Some frames of a batch that failed may be written.
        if let Some(part) = self.part.as_mut().filter(|_| self.writer.rows_written() > 0) {
            part.keep();
        }
        written
    }
}

impl RecordingSink for RecordingFile {
    fn begin(&mut self, columns: &[RecordedColumn], spec: &WindowSpec, _plan: &Plan) -> Result<()> {
        let FileState::Waiting(destination) = &self.state else { return Ok(()) };
        let header = self.header(columns, recorded_boundaries(&spec.boundaries, columns)?);
        match BegunRecording::new(destination, &header) {
            Ok(begun) => self.state = FileState::Begun(Box::new(begun)),
            Err(error) => self.stop(None, error)?,
        }
        Ok(())
    }

    fn thread_name(&mut self, thread: WindowThread, name: &str) -> Result<()> {
        let FileState::Begun(begun) = &mut self.state else { return Ok(()) };
        let written = limited(|| begun.writer.thread_name(thread, name));
        written.or_else(|error| self.stop_begun(error))
    }

    fn code_memory(&mut self, changes: &[CodeMemoryChange]) -> Result<()> {
        let FileState::Begun(begun) = &mut self.state else { return Ok(()) };
        let written = limited(|| begun.writer.code_memory(changes));
        written.or_else(|error| self.stop_begun(error))
    }

    fn rows(&mut self, rows: &[WindowRow], _lost: u64) -> Result<()> {
        let FileState::Begun(begun) = &mut self.state else { return Ok(()) };
        let written = begun.rows(rows);
        written.or_else(|error| self.stop_begun(error))
    }
}

/// Writes with SIGXFSZ ignored: a limit on the size of files is an error as others are. The signal is not
/// ignored for the whole run, as the command would ignore it too.
fn limited<T>(write: impl FnOnce() -> RecordingResult<T>) -> RecordingResult<T> {
    let _ignored = FileSizeSignalIgnored::new()?;
    write()
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

/// The boundaries with the indices of their columns: rows name a boundary by its place among all of them.
fn recorded_boundaries(
    boundaries: &[WindowBoundary],
    columns: &[RecordedColumn],
) -> Result<Vec<RecordedBoundary>> {
    let slots: Vec<SlotId> = columns.iter().map(|column| column.slot).collect();
    let recorded = |(index, boundary)| {
        RecordedBoundary::of(boundary, &slots).ok_or_else(|| {
            let text = format!("the event of boundary {} has no column in the recording", index + 1);
            let fix = "end rows at events of one source: `cyclometer plan` names it";
            Error::new(ErrorKind::EventUnsupported, text).with_recovery(Recovery::fix(fix))
        })
    };
    boundaries.iter().enumerate().map(recorded).collect()
}

fn notes(recorded: &Recorded) -> Vec<String> {
    let without = recorded.without_column.iter();
    let without = without.map(|(name, reason)| format!("{name} has no column: {reason}"));
    let of_columns = recorded.columns.iter().flat_map(|column| &column.notes).cloned();
    without.chain(of_columns).chain(recorded.notes.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::num::NonZeroU64;
    use std::path::Path;

    use clap::Parser;
    use cyclometer_toolkit::core::Count;
    use cyclometer_toolkit::core::window::{WindowCause, WindowFlags};
    use cyclometer_toolkit::recording::Recording;
    use cyclometer_toolkit::{Provenance, Rung, Unit};

    use super::*;
    use crate::render::testing::{one_run, vm_without_pmu};

    const PERIOD: NonZeroU64 = NonZeroU64::MIN;

    #[derive(Parser)]
    struct Recorder {
        #[command(flatten)]
        args: RecordArgs,
    }

    fn column(slot: usize) -> RecordedColumn {
        RecordedColumn {
            slot: SlotId(slot),
            name: "same name".to_owned(),
            unit: Unit::Count,
            scale: 1.0,
            source: Rung::Soft,
            provenance: Provenance::Counted,
            modes: None,
            notes: Vec::new(),
        }
    }

    fn opened(path: &Path) -> RecordingFile {
        let words = ["record".as_ref(), "-o".as_ref(), path.as_os_str(), "--".as_ref(), "true".as_ref()];
        RecordingFile::open(&Recorder::parse_from(words).args, &vm_without_pmu()).unwrap()
    }

    fn row() -> WindowRow {
        WindowRow {
            thread: None,
            cpu: None,
            time_ns: None,
            address: None,
            cause: WindowCause::End,
            counts: vec![Count::Exact(1)],
            enabled_ns: None,
            running_ns: None,
            flags: WindowFlags::default(),
        }
    }

    #[test]
    fn boundaries_keep_their_places_and_one_without_a_column_is_an_error() {
        let at = |slot| WindowBoundary::Events { slot: SlotId(slot), period: PERIOD };
        let columns = [column(4), column(2)];
        let expected = [1, 0].map(|event| RecordedBoundary::Events { event, period: PERIOD });
        assert_eq!(recorded_boundaries(&[at(2), at(4)], &columns).unwrap(), expected);
        let refused = recorded_boundaries(&[at(2), at(3), at(4)], &columns).unwrap_err();
        assert!(refused.to_string().contains("boundary 2 has no column"), "{refused}");
    }

    #[test]
    fn a_run_that_fails_leaves_the_former_recordings_and_names_the_file_with_its_rows() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let spec = WindowSpec::new(WindowBoundary::Interval(std::time::Duration::from_millis(1)));
        let begun = || {
            let mut file = opened(&at("r"));
            file.begin(&[column(0)], &spec, &one_run().report.plan).unwrap();
            file
        };
        let failed = || Error::new(ErrorKind::Io, "no room").with_recovery(Recovery::fix("make room"));
        let (mut without_rows, mut with_rows) = (begun(), begun());
        with_rows.rows(&[row()], 0).unwrap();
        assert_eq!(without_rows.abandon(failed()).recovery().to_string(), "make room");
        assert_eq!((without_rows.place(), at("r.part").exists()), (None, false));
        let kept = at("r.part2");
        let help = with_rows.abandon(failed()).recovery().to_string();
        assert_eq!(help, format!("make room; the rows that were recorded are in {}", kept.display()));
        assert_eq!(with_rows.place(), Some(kept.display().to_string()));
        let recording = Recording::open(File::open(&kept).unwrap()).unwrap();
        assert_eq!(recording.map(|row| row.unwrap()).collect::<Vec<_>>(), [row()]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
