//! The file of rows while a run lasts: FILE.part, which takes the name FILE when the run has ended.
//!
//! A run that fails or is killed thus leaves FILE and FILE.old as they were. Its rows stay in FILE.part,
//! which reads as a recording without an end.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use cyclometer_toolkit::recording::{Recording, RecordingError};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result, with_invoker_rights};

use crate::export::is_stdout;
use crate::failure::{FileUse, of_file};
use crate::output::clean_os;

/// The option that names a recording.
pub const OPTION: &str = "-o";

/// How many names are tried: earlier runs that were killed, and runs that last, have theirs.
const MOST_PARTS: u32 = 100;

/// A file of rows beside the one whose name it is to take. Paths have no links.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    target: PathBuf,
    /// Whether it stays when this is dropped.
    is_kept: bool,
}

impl PartFile {
    /// Finds out whether a recording can take this name, and leaves nothing.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a file that is no recording, FILE.old included; `ErrorKind::Io` for a
    /// folder that takes no new file.
    pub fn check(target: &Path) -> Result<()> {
        by_invoker(target, || old_name(target))?;
        let created = PartFile::create(target);
        created.map(|_| ()).map_err(|error| of_file(OPTION, FileUse::Written, &shown(target), error))
    }

    /// Creates the file, which goes away again unless it is kept.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn create(target: &Path) -> io::Result<(PartFile, File)> {
        with_invoker_rights(|| {
            let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
            for number in 1..=MOST_PARTS {
                let number = if number == 1 { String::new() } else { number.to_string() };
                let path = with_suffix(target, &format!(".part{number}"));
                match OpenOptions::new().write(true).create_new(true).open(&path) {
                    Ok(file) => {
                        return Ok((PartFile { path, target: target.to_owned(), is_kept: false }, file));
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                    Err(error) => return Err(error),
                }
            }
            Err(taken)
        })?
    }

    /// The file has rows: whatever happens, it stays.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Lets the file go; its path as it is shown, if it stays.
    pub fn close(self) -> Option<PathBuf> {
        self.is_kept.then(|| shown(&self.path))
    }

    /// Takes the name FILE. A recording of that name is kept as FILE.old.
    ///
    /// # Errors
    ///
    /// Those of [`PartFile::check`]; all files are then as they were.
    pub fn take_name(&mut self) -> Result<()> {
        let PartFile { path, target, .. } = &*self;
        let failed = |error| of_file(OPTION, FileUse::Written, &shown(target), error);
        by_invoker(target, || {
            let old = old_name(target)?;
            old.iter().try_for_each(|old| fs::rename(target, old)).map_err(failed)?;
            fs::rename(path, target).map_err(|error| {
                // The first error is returned.
                let _ = old.iter().try_for_each(|old| fs::rename(old, target));
                failed(error)
            })
        })?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_kept {
            // Only a file that cannot be removed stays.
            let _ = with_invoker_rights(|| fs::remove_file(&self.path));
        }
    }
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
        match found.map_err(|error| of_file(OPTION, FileUse::Read, &shown(path), error))? {
            FormerContents::Foreign => {
                let name = clean_os(shown(path).as_os_str());
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
    let old = with_suffix(path, ".old");
    FormerContents::replaceable(&old).map(|_| Some(old))
}

/// The same for a path as it was named. Errors are left to [`PartFile::check`].
pub fn old_file(named: &Path) -> Option<PathBuf> {
    if is_stdout(named) {
        return None;
    }
    let old = with_invoker_rights(|| old_name(&fs::canonicalize(named).ok()?).ok()?).ok()?;
    old.map(|old| shown(&old))
}

/// Whether a path leads to a recording.
pub fn is_recording(path: &Path) -> bool {
    let contents = with_invoker_rights(|| FormerContents::of(&fs::canonicalize(path)?));
    matches!(contents, Ok(Ok(FormerContents::Recording)))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

/// A path as it is shown: short in the current folder.
fn shown(path: &Path) -> PathBuf {
    let folder = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(folder).unwrap_or(path).to_owned()
}

/// Under sudo a path leads where it leads the invoker.
fn by_invoker<T>(path: &Path, act: impl FnOnce() -> Result<T>) -> Result<T> {
    with_invoker_rights(act).map_err(|error| of_file(OPTION, FileUse::Written, &shown(path), error))?
}

#[cfg(test)]
mod tests {
    use cyclometer_toolkit::recording::{RecordedMachine, RecordingHeader, RecordingWriter};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The bytes of a recording without an end, told apart by its tool.
    fn recording(tool: &str) -> Vec<u8> {
        let header = RecordingHeader {
            tool: tool.to_owned(),
            machine: RecordedMachine::default(),
            command: Vec::new(),
            target: None,
            start_unix_ns: None,
            events: Vec::new(),
            boundaries: Vec::new(),
            sources: Vec::new(),
            notes: Vec::new(),
        };
        let mut bytes = Vec::new();
        RecordingWriter::new(&mut bytes, &header).unwrap();
        bytes
    }

    #[test]
    fn a_file_without_rows_goes_away_and_one_with_rows_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("r");
        PartFile::check(&target).unwrap();
        let (mut part, _) = PartFile::create(&target).unwrap();
        let (other, _) = PartFile::create(&target).unwrap();
        assert_eq!(names(folder.path()), ["r.part", "r.part2"]);
        part.keep();
        assert_eq!((part.close(), other.close()), (Some(folder.path().join("r.part")), None));
        assert_eq!(names(folder.path()), ["r.part"]);
    }

    #[test]
    fn the_name_is_taken_at_the_end_and_the_former_recording_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (target, old) = (folder.path().join("r"), folder.path().join("r.old"));
        let record = |bytes: &[u8]| {
            let (mut part, _) = PartFile::create(&target).unwrap();
            fs::write(&part.path, bytes).unwrap();
            part.take_name()
        };
        let [first, second, third] = ["1", "2", "3"].map(recording);
        record(&first).unwrap();
        assert_eq!(names(folder.path()), ["r"]);
        record(&second).unwrap();
        assert_eq!([&target, &old].map(|path| fs::read(path).unwrap()), [second.clone(), first.clone()]);
        // Neither an empty file nor one without its header is worth keeping.
        for headerless in [0, second.len() / 2] {
            fs::write(&target, &second[..headerless]).unwrap();
            record(&third).unwrap();
            assert_eq!([&target, &old].map(|path| fs::read(path).unwrap()), [third.clone(), first.clone()]);
        }
        for (name, other) in [("r", "r.old"), ("r.old", "r")] {
            let before = fs::read(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name), "notes").unwrap();
            let refused = record(&second).unwrap_err().to_string();
            assert!(refused.contains(&format!("{name} is no recording")), "{refused}");
            assert_eq!(fs::read_to_string(folder.path().join(name)).unwrap(), "notes");
            assert_ne!(fs::read(folder.path().join(other)).unwrap(), second);
            assert_eq!(names(folder.path()), ["r", "r.old"]);
            fs::write(folder.path().join(name), before).unwrap();
        }
    }
}
