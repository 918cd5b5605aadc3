//! The file of a sweep's journal.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as IoKind, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use cyclometer_toolkit::sweep::{JournalError, JournalHeader, JournalWriter, SweepJournal, SweptCode};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result, with_invoker_rights};

use crate::failure::{self, FileUse, of_file};
use crate::output::clean_os;

/// A journal that lines are written to.
#[derive(Debug)]
pub struct JournalFile {
    path: PathBuf,
    file: File,
    state: JournalState,
}

#[derive(Debug)]
enum JournalState {
    /// It has no header yet.
    New,
    /// It was read; what follows these bytes is not whole.
    Resumed(u64, JournalWriter),
    /// Lines can be written.
    Open(JournalWriter),
}

/// The longest journal that is read, in bytes: a code that counts takes some 80 KiB.
const MOST_BYTES: u64 = 1 << 30;

/// As many bytes as show whether a file is a journal.
const FIRST_BYTES: u64 = 64;

impl JournalFile {
    /// A new journal.
    ///
    /// # Errors
    ///
    /// A file that exists, so that no sweep is written over, or that cannot be made.
    pub fn create(path: &Path) -> Result<JournalFile> {
        let opened = with_invoker_rights(|| OpenOptions::new().write(true).create_new(true).open(path));
        match opened.and_then(|opened| opened) {
            Ok(file) => Ok(JournalFile { path: path.to_owned(), file, state: JournalState::New }),
            Err(error) if error.kind() == IoKind::AlreadyExists => Err(failure::usage(
                format!("--journal: {} exists", clean_os(path.as_os_str())),
                "go on with it by --resume, or name another file",
            )),
            Err(error) => Err(of_file("--journal", FileUse::Written, path, error)),
        }
    }

    /// Reads a journal to go on with. The file is not changed before the sweep begins.
    ///
    /// # Errors
    ///
    /// A file that cannot be read and written, that is longer than 1 GiB, or that is no journal.
    pub fn resume(path: &Path) -> Result<(JournalFile, SweepJournal)> {
        let failed = |error| of_file("--resume", FileUse::Read, path, error);
        let unusable = |why: &str| {
            let message = format!("--resume: {}: {why}", clean_os(path.as_os_str()));
            let hint = Recovery::fix("name a file that --journal has written, or sweep anew with --journal");
            Error::new(ErrorKind::InvalidInput, message).with_recovery(hint)
        };
        // A device or a pipe may do something when it is opened, and may never end.
        let looked_at = with_invoker_rights(|| std::fs::metadata(path)).and_then(|found| found);
        if !looked_at.map_err(failed)?.is_file() {
            return Err(unusable("it is no regular file"));
        }
        let opened = with_invoker_rights(|| OpenOptions::new().read(true).write(true).open(path));
        let mut file = opened.and_then(|opened| opened).map_err(failed)?;
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(FIRST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        if let Err(error @ JournalError::NoJournal) = SweepJournal::read(&bytes) {
            return Err(unusable(&error.to_string()));
        }
        if file.metadata().map_err(failed)?.len() > MOST_BYTES {
            return Err(unusable(&format!("it is longer than {} GiB", MOST_BYTES >> 30)));
        }
        Read::by_ref(&mut file).take(MOST_BYTES).read_to_end(&mut bytes).map_err(failed)?;
        let journal = SweepJournal::read(&bytes).map_err(|error| unusable(&error.to_string()))?;
        let state = JournalState::Resumed(journal.whole_bytes as u64, journal.writer.clone());
        Ok((JournalFile { path: path.to_owned(), file, state }, journal))
    }

    /// Writes the header of a new journal, or drops what is not whole of one that is gone on with.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn begin(&mut self, header: &JournalHeader) -> Result<()> {
        match &self.state {
            JournalState::New => {
                let (writer, text) = JournalWriter::begin(header);
                self.write(&text)?;
                self.state = JournalState::Open(writer);
            }
            JournalState::Resumed(whole_bytes, writer) => {
                let (whole_bytes, writer) = (*whole_bytes, writer.clone());
                let cut = self.file.set_len(whole_bytes);
                let cut = cut.and_then(|()| self.file.seek(SeekFrom::Start(whole_bytes)));
                cut.map_err(|error| of_file("--resume", FileUse::Written, &self.path, error))?;
                self.state = JournalState::Open(writer);
            }
            JournalState::Open(_) => {}
        }
        Ok(())
    }

    /// Writes a code that is done. It is on the disk when this returns.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn code(&mut self, code: &SweptCode) -> Result<()> {
        let JournalState::Open(writer) = &mut self.state else { return Ok(()) };
        match writer.code(code) {
            Some(line) => self.write(&line),
            None => Ok(()),
        }
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(|error| of_file("--journal", FileUse::Written, &self.path, error))
    }
}
