//! Files that results are written to: tried before the command runs, written when it has run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cyclometer::core::{Error, ErrorKind, Recovery, Result};
use cyclometer::with_invoker_rights;

use crate::output::{self, Channel, clean_os};

/// A place to export to that has proved writable.
#[derive(Debug)]
pub struct Export {
    path: PathBuf,
    /// `None` stands for standard output.
    file: Option<File>,
    /// The file is ours and empty: it goes away unless something is written.
    unwritten: bool,
    /// A named pipe: opening it waits for a reader, so that is left for later.
    pipe: bool,
}

impl Export {
    /// Opens the file without changing what is in it; `-` is standard output.
    ///
    /// A symbolic link is refused, and under sudo the file is opened with the rights of the invoker: with the
    /// rights of an administrator a path could lead anywhere.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` when the file cannot be written.
    pub fn open(path: &Path) -> Result<Export> {
        if path.as_os_str() == "-" {
            return Ok(Export { path: path.to_owned(), file: None, unwritten: false, pipe: false });
        }
        with_invoker_rights(|| open_file(path)).map_err(|error| cannot("write", path, error))?
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        self.file.is_none() && !self.pipe
    }

    /// Replaces the contents.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io`, naming the file.
    pub fn write(mut self, text: &str) -> Result<()> {
        if self.pipe {
            self.file = Some(open_again(&self.path)?);
        }
        match &mut self.file {
            None => output::put(Channel::Out, text).map_err(|error| cannot_print(&error)),
            Some(file) => {
                self.unwritten = false;
                replace(file, text).map_err(|error| cannot("write", &self.path, error))
            }
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if self.unwritten {
            // Nothing was measured: leave no empty file behind. If that fails, an empty file is all.
            let _ = with_invoker_rights(|| fs::remove_file(&self.path));
        }
    }
}

/// The error of results that standard output did not take.
pub fn cannot_print(error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write to standard output: {error}"))
}

fn open_file(path: &Path) -> Result<Export> {
    // Creating a new file exclusively never follows a link.
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(file) => Ok(Export { path: path.to_owned(), file: Some(file), unwritten: true, pipe: false }),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => existing(path),
        Err(error) => Err(cannot("write", path, error)),
    }
}

fn existing(path: &Path) -> Result<Export> {
    let named = fs::symlink_metadata(path).map_err(|error| cannot("look at", path, error))?;
    if named.is_symlink() {
        return Err(is_link(path));
    }
    if is_pipe(&named) {
        return Ok(Export { path: path.to_owned(), file: None, unwritten: false, pipe: true });
    }
    // Between the look and the opening, someone may have put a link there: it is not followed either.
    let file = unlinked().open(path).map_err(|error| cannot("write", path, error))?;
    Ok(Export { path: path.to_owned(), file: Some(file), unwritten: false, pipe: false })
}

fn open_again(path: &Path) -> Result<File> {
    with_invoker_rights(|| unlinked().open(path)).and_then(|file| file).map_err(|e| cannot("write", path, e))
}

#[cfg(unix)]
fn is_pipe(file: &fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    file.file_type().is_fifo()
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// Opens for writing what is there, and no link in its place.
///
/// # Source
///
/// `open(2)`, `O_NOFOLLOW`.
#[cfg(unix)]
fn unlinked() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOFOLLOW);
    options
}

#[cfg(not(unix))]
fn unlinked() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

fn replace(file: &mut File, text: &str) -> io::Result<()> {
    // Devices and pipes have no length.
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())?;
    file.flush()
}

fn is_link(path: &Path) -> Error {
    Error::new(ErrorKind::Io, format!("cannot write {}: it is a symbolic link", clean_os(path.as_os_str())))
        .with_recovery(Recovery::fix("name the file itself, or - for standard output"))
}

fn cannot(what: &str, path: &Path, error: io::Error) -> Error {
    let path = clean_os(path.as_os_str());
    Error::new(ErrorKind::Io, format!("cannot {what} {path}: {error}")).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_is_not_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new.json");
        drop(Export::open(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "old").unwrap();
        drop(Export::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn an_export_replaces_all_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        fs::write(&path, "something longer").unwrap();
        Export::open(&path).unwrap().write("short").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "short");
    }

    #[test]
    #[cfg(unix)]
    fn links_are_not_followed_dangling_ones_neither() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for exists in [false, true] {
            let error = Export::open(&link).unwrap_err();
            assert!(error.to_string().ends_with("it is a symbolic link"), "{error}");
            assert_eq!(target.exists(), exists);
            fs::write(&target, "kept").unwrap();
        }
        assert_eq!(fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    #[cfg(unix)]
    fn a_link_that_comes_after_the_look_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = unlinked().open(&link).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ELOOP));
        assert!(unlinked().open(&target).is_ok());
    }

    #[test]
    fn what_cannot_be_written_is_named_before_anything_runs() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("no/such/folder.json")] {
            let error = Export::open(&path).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
    }
}
