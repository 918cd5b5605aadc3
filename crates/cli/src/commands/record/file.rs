//! The file of a recording: written while the command runs, so that an early end loses no row.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cyclometer::core::SlotId;
use cyclometer::core::window::{WindowBoundary, WindowRow, WindowSpec, WindowThread};
use cyclometer::recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordedSource, Recording, RecordingError,
    RecordingFooter, RecordingHeader, RecordingResult, RecordingWriter,
};
use cyclometer::{
    Error, ErrorKind, FileSizeSignalIgnored, Machine, Plan, Recorded, RecordedColumn, RecordingSink,
    Recovery, Result, with_invoker_rights,
};

use super::args::RecordArgs;
use crate::export::{self, Export, LiveDestination, Temporary, is_stdout};
use crate::failure::{FileUse, of_file};
use crate::output::clean_os;

/// The option that names the file.
pub const OPTION: &str = "-o";

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
    /// Nothing is written or kept yet: the columns are unknown.
    Waiting(LiveDestination),
    /// The header is written, and rows follow.
    Begun(Box<RecordingWriter<File>>),
    /// Writing failed, or is over.
    Closed,
}

impl RecordingFile {
    /// Finds out before anything runs whether the file can be written. A regular file is not changed before
    /// the first rows; then a recording of that name is kept as FILE.old.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the option and the file; `ErrorKind::InvalidInput` for a file that is no
    /// recording, FILE.old included.
    pub fn open(args: &RecordArgs, machine: &Machine) -> Result<RecordingFile> {
        let destination = Export::open(OPTION, &args.file)?.into_live()?;
        let file = RecordingFile {
            path: args.file.clone(),
            machine: machine.clone(),
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            target: target(args),
            state: FileState::Closed,
        };
        if let LiveDestination::File(path) = &destination {
            file.by_invoker(|| {
                old_name(path)?;
                Temporary::beside(path, None).map(|_| ()).map_err(|error| file.error(error.into()))
            })?;
        }
        Ok(RecordingFile { state: FileState::Waiting(destination), ..file })
    }

    /// The name as it is shown.
    pub fn name(&self) -> String {
        if is_stdout(&self.path) { "standard output".to_owned() } else { clean_os(self.path.as_os_str()) }
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
            FileState::Waiting(destination) => {
                self.begun(destination, &self.header(&recorded.columns, &[]))?
            }
            FileState::Begun(writer) => *writer,
            FileState::Closed => return Ok(()),
        };
        limited(|| writer.finish(&footer)).map_err(|error| self.error(error))?;
        Ok(())
    }

    /// Writes the header, to a regular file in place of the former one.
    fn begun(&self, destination: LiveDestination, header: &RecordingHeader) -> Result<RecordingWriter<File>> {
        let written = |out| limited(|| RecordingWriter::new(out, header)).map_err(|error| self.error(error));
        let path = match destination {
            LiveDestination::Stream(out) => return written(out),
            LiveDestination::File(path) => path,
        };
        let failed = |error: io::Error| self.error(error.into());
        self.by_invoker(|| {
            let old = old_name(&path)?;
            let mut new = Temporary::beside(&path, None).map_err(failed)?;
            let writer = written(new.file().map_err(failed)?)?;
            old.iter().try_for_each(|old| fs::rename(&path, old)).map_err(failed)?;
            new.rename_to(&path).map_err(|error| {
                // The first error is returned.
                let _ = old.iter().try_for_each(|old| fs::rename(old, &path));
                failed(error)
            })?;
            Ok(writer)
        })
    }

    /// Under sudo a path leads where it leads the invoker.
    fn by_invoker<T>(&self, act: impl FnOnce() -> Result<T>) -> Result<T> {
        with_invoker_rights(act).map_err(|error| self.error(error.into()))?
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
            RecordingError::Io(error) if !is_stdout(&self.path) => {
                of_file(OPTION, FileUse::Written, &self.path, error)
            }
            RecordingError::Io(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                Error::new(ErrorKind::Io, "the reader of standard output has ended")
                    .with_recovery(Recovery::fix("name a reader that reads to the end, or a file: -o FILE"))
                    .with_source(error)
            }
            RecordingError::Io(error) => export::cannot_print(&error),
            other => Error::new(ErrorKind::Io, format!("{OPTION}: {other}")),
        }
    }
}

impl RecordingSink for RecordingFile {
    fn begin(&mut self, columns: &[RecordedColumn], spec: &WindowSpec, _plan: &Plan) -> Result<()> {
        let boundaries = recorded_boundaries(&spec.boundaries, columns)?;
        let FileState::Waiting(destination) = std::mem::replace(&mut self.state, FileState::Closed) else {
            return Ok(());
        };
        let writer = self.begun(destination, &self.header(columns, &boundaries))?;
        self.state = FileState::Begun(Box::new(writer));
        Ok(())
    }

    fn thread_name(&mut self, thread: WindowThread, name: &str) -> Result<()> {
        let FileState::Begun(writer) = &mut self.state else { return Ok(()) };
        limited(|| writer.thread_name(thread, name)).map_err(|error| self.error(error))
    }

    fn rows(&mut self, rows: &[WindowRow], _lost: u64) -> Result<()> {
        let FileState::Begun(writer) = &mut self.state else { return Ok(()) };
        if let Err(error) = limited(|| writer.rows(rows)) {
            self.state = FileState::Closed;
            return Err(self.error(error));
        }
        Ok(())
    }
}

/// Writes with SIGXFSZ ignored: a limit on the size of files is an error as others are. Not for the whole run:
/// the command would ignore the signal too.
fn limited<T>(write: impl FnOnce() -> RecordingResult<T>) -> RecordingResult<T> {
    let _ignored = FileSizeSignalIgnored::new()?;
    write()
}

/// The contents of a file that a recording is to replace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FormerContents {
    /// There is no file, or it has no header.
    Nothing,
    /// A recording, which may be damaged, or of another version.
    Recording,
    /// Anything else.
    Foreign,
}

impl FormerContents {
    fn of(path: &Path) -> io::Result<FormerContents> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FormerContents::Nothing),
            Err(error) => return Err(error),
            Ok(found) if !found.is_file() => return Ok(FormerContents::Foreign),
            Ok(_) => {}
        }
        match Recording::open(File::open(path)?) {
            Err(RecordingError::Io(error)) => Err(error),
            Err(RecordingError::Empty | RecordingError::NoHeader) => Ok(FormerContents::Nothing),
            Err(RecordingError::Foreign) => Ok(FormerContents::Foreign),
            _ => Ok(FormerContents::Recording),
        }
    }

    /// The same of a file that is replaced.
    fn replaceable(path: &Path) -> Result<FormerContents> {
        let found = FormerContents::of(path);
        match found.map_err(|error| of_file(OPTION, FileUse::Read, path, error))? {
            FormerContents::Foreign => {
                let name = clean_os(path.as_os_str());
                let fix = "name another file, or remove that one";
                let text = format!("{OPTION}: {name} is no recording, and stays as it is");
                Err(Error::new(ErrorKind::InvalidInput, text).with_recovery(Recovery::fix(fix)))
            }
            replaceable => Ok(replaceable),
        }
    }
}

/// The name under which a recording is kept when a new one takes its place; `None` if there is none. The path
/// has no links.
fn old_name(path: &Path) -> Result<Option<PathBuf>> {
    if FormerContents::replaceable(path)? != FormerContents::Recording {
        return Ok(None);
    }
    let mut old = OsString::from(path);
    old.push(".old");
    let old = PathBuf::from(old);
    FormerContents::replaceable(&old).map(|_| Some(old))
}

/// The same for a path as it was named. Errors are left to [`RecordingFile::open`].
pub fn old_file(named: &Path) -> Option<PathBuf> {
    if is_stdout(named) {
        return None;
    }
    with_invoker_rights(|| old_name(&fs::canonicalize(named).ok()?).ok()?).ok()?
}

/// Whether a path leads to a recording.
pub fn is_recording(path: &Path) -> bool {
    let contents = with_invoker_rights(|| FormerContents::of(&fs::canonicalize(path)?));
    matches!(contents, Ok(Ok(FormerContents::Recording)))
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
    use std::num::NonZeroU64;

    use clap::Parser;
    use cyclometer::core::Count;
    use cyclometer::core::window::{WindowCause, WindowFlags};
    use cyclometer::{Provenance, Rung, Unit};

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

    fn opened(path: &Path) -> Result<RecordingFile> {
        let words = ["record".as_ref(), "-o".as_ref(), path.as_os_str(), "--".as_ref(), "true".as_ref()];
        RecordingFile::open(&Recorder::parse_from(words).args, &vm_without_pmu())
    }

    fn row(cause: WindowCause) -> WindowRow {
        WindowRow {
            thread: None,
            cpu: None,
            time_ns: None,
            address: None,
            cause,
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
    fn nothing_is_kept_or_replaced_before_the_columns_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("r"), folder.path().join("r.old"));
        let spec = WindowSpec::new(WindowBoundary::Interval(std::time::Duration::from_millis(1)));
        let recorded = || {
            let mut file = opened(&path).unwrap();
            file.begin(&[column(0)], &spec, &one_run().report.plan).unwrap();
            file.rows(&[row(WindowCause::End)], 0).unwrap();
        };
        drop(opened(&path).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        recorded();
        let first = fs::read(&path).unwrap();
        drop(opened(&path).unwrap());
        assert!(!old.exists() && fs::read(&path).unwrap() == first);
        recorded();
        assert_eq!(fs::read(&old).unwrap(), first);
        // Neither an empty file nor one without its header is worth keeping.
        for headerless in [0, first.len() / 4] {
            fs::write(&path, &first[..headerless]).unwrap();
            recorded();
            assert_eq!(fs::read(&old).unwrap(), first);
        }
        fs::write(&old, "notes").unwrap();
        assert!(opened(&path).is_err_and(|error| error.to_string().contains("r.old is no recording")));
        assert_eq!(fs::read_to_string(&old).unwrap(), "notes");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "a temporary file is left");
    }
}
