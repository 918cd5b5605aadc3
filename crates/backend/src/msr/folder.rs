//! The folder of the journals: one file for each CPU whose registers are written.
//!
//! A file is claimed atomically: one process at a time has a CPU's registers, and no reader sees half a file.
//! The file belongs to the user who wrote it, in a private folder.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use cyclometer_sys::filesystem::{check_private_folder, create_private, make_private_folder, open_private};

use super::place::MsrLocation;
use crate::registers::journal::{BadJournal, Journal, MAX_BYTES};

/// Prefix of the names of journals.
const PREFIX: &str = "registers-";

/// Maximum number of files that are read.
const MAX_FILES: usize = 1 << 16;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Folder(PathBuf);

/// A journal's file that could not be read, and why.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub(super) why: String,
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Unreadable {
        Unreadable { why: format!("cannot read it: {error}") }
    }
}

impl From<BadJournal> for Unreadable {
    fn from(error: BadJournal) -> Unreadable {
        Unreadable { why: format!("it is no journal of registers: {error}") }
    }
}

impl Folder {
    pub(super) fn of(place: &MsrLocation) -> Folder {
        Folder(place.journals())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The file of a CPU's journal.
    pub(super) fn file(&self, cpu: u32) -> PathBuf {
        self.0.join(format!("{PREFIX}{cpu}"))
    }

    /// Creates the file of a CPU that has none.
    ///
    /// # Errors
    ///
    /// The operating system's: `AlreadyExists` where it has one.
    pub(super) fn claim(&self, journal: &Journal) -> io::Result<()> {
        let new = self.written(journal)?;
        // Unlike a rename, a link does not replace an existing file.
        let linked = fs::hard_link(&new, self.file(journal.cpu));
        fs::remove_file(new)?;
        linked
    }

    /// Replaces the file of a CPU that this process has claimed.
    pub(super) fn replace(&self, journal: &Journal) -> io::Result<()> {
        fs::rename(self.written(journal)?, self.file(journal.cpu))
    }

    /// Writes a journal to a temporary file.
    fn written(&self, journal: &Journal) -> io::Result<PathBuf> {
        let path = self.0.join(format!(".new-{}-{}", journal.maker.pid, journal.cpu));
        // An earlier process with the same id may have left this file.
        let _ = fs::remove_file(&path);
        let mut file = self.create(&path)?;
        match file.write_all(journal.to_text().as_bytes()) {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        }
    }

    /// Retries, as other processes remove the folder when they have finished with it.
    fn create(&self, path: &Path) -> io::Result<fs::File> {
        for _ in 0..8 {
            make_private_folder(&self.0)?;
            match create_private(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                made => return made,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// Removes the file of a CPU, and the folder with the last one.
    pub(super) fn remove(&self, cpu: u32) -> io::Result<()> {
        let removed = fs::remove_file(self.file(cpu));
        let _ = fs::remove_dir(&self.0);
        removed
    }

    /// Reads a journal's file.
    pub(super) fn read(&self, path: &Path) -> Result<Journal, Unreadable> {
        let mut bytes = Vec::new();
        open_private(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
        Ok(Journal::parse(&bytes)?)
    }

    /// The files of journals, by name; none if the folder does not exist.
    ///
    /// # Errors
    ///
    /// Errors of the operating system; a folder that is not private.
    pub(super) fn files(&self) -> io::Result<Vec<PathBuf>> {
        match check_private_folder(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            checked => checked?,
        }
        let names = fs::read_dir(&self.0)?.take(MAX_FILES).flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(PREFIX)).collect();
        names.sort();
        Ok(names.into_iter().map(|name| self.0.join(name)).collect())
    }
}
