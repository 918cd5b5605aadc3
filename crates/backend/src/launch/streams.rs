//! The standard streams of a command.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use cyclometer_core::exec::{CommandSpec, InputStream, OutputStream};
use cyclometer_core::{Error, ErrorKind, Recovery, Result};
use cyclometer_sys::process::Drain;

use super::ours;

/// Replacements of the streams that are not inherited.
#[derive(Debug)]
pub(super) struct Streams<'a> {
    stdin: Option<StreamFile<'a>>,
    stdout: Option<StreamFile<'a>>,
    stderr: Option<StreamFile<'a>>,
}

/// A file of this run, or a device that all runs share.
#[derive(Debug)]
enum StreamFile<'a> {
    Shared(&'a File),
    File(File),
}

impl StreamFile<'_> {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            StreamFile::Shared(file) => StreamFile::Shared(file),
            StreamFile::File(file) => StreamFile::File(file.try_clone()?),
        })
    }
}

impl AsFd for StreamFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            StreamFile::Shared(file) => file.as_fd(),
            StreamFile::File(file) => file.as_fd(),
        }
    }
}

/// Destinations of discarded output; each is opened at its first use.
#[derive(Debug, Default)]
pub(super) struct Sinks {
    null: OnceCell<File>,
    /// `None`: this system has no such device.
    zero: OnceCell<Option<File>>,
    drain: OnceCell<Drain>,
}

/// The null device.
const NULL: &str = "/dev/null";

/// A device that discards everything as [`NULL`] does, at the same cost, but that programs do not check for.
///
/// # Source
///
/// `zero(4)`: "Writes to either device are discarded".
const ZERO: &str = "/dev/zero";

impl Sinks {
    fn null(&self) -> Result<&File> {
        if let Some(file) = self.null.get() {
            return Ok(file);
        }
        let path = Path::new(NULL);
        let file = File::options().read(true).write(true).open(path).map_err(|e| failed("open", path, e))?;
        Ok(self.null.get_or_init(|| file))
    }

    /// The device that discards everything, or a pipe where the device is missing.
    fn discard(&self) -> Result<StreamFile<'_>> {
        match self.zero.get_or_init(zero) {
            Some(zero) => Ok(StreamFile::Shared(zero)),
            None => self.pipe(),
        }
    }

    /// A pipe for this run.
    fn pipe(&self) -> Result<StreamFile<'_>> {
        let cannot = |e: io::Error| {
            Error::new(ErrorKind::Os, format!("cannot make a pipe for the command's output: {e}"))
                .with_source(e)
                .with_recovery(Recovery::fix("drop the output with --output null"))
        };
        if self.drain.get().is_none() {
            let drain = Drain::start().map_err(cannot)?;
            self.drain.get_or_init(|| drain);
        }
        let pipe = self.drain.get().map_or_else(|| Err(io::ErrorKind::NotFound.into()), Drain::pipe);
        Ok(StreamFile::File(File::from(pipe.map_err(cannot)?)))
    }
}

/// The device, if it is one. A regular file of that name, as in a container without devices, would grow.
fn zero() -> Option<File> {
    let file = File::options().write(true).open(ZERO).ok()?;
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device()).then_some(file)
}

impl<'a> Streams<'a> {
    /// Opens the streams that `command` names; a target of both outputs is opened once.
    pub(super) fn open(command: &CommandSpec, sinks: &'a Sinks) -> Result<Streams<'a>> {
        let stdin = input(&command.stdin, sinks)?;
        let stdout = output(&command.stdout, sinks)?;
        let stderr = match &stdout {
            Some(given) if command.stdout == command.stderr => {
                Some(given.try_clone().map_err(|e| failed("write", Path::new("standard error"), e))?)
            }
            _ => output(&command.stderr, sinks)?,
        };
        Ok(Streams { stdin, stdout, stderr })
    }

    pub(super) fn stdin(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref().map(StreamFile::as_fd)
    }

    pub(super) fn stdout(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().map(StreamFile::as_fd)
    }

    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(StreamFile::as_fd)
    }
}

fn input<'a>(stream: &InputStream, sinks: &'a Sinks) -> Result<Option<StreamFile<'a>>> {
    match stream {
        InputStream::Inherit => Ok(None),
        InputStream::Null => Ok(Some(StreamFile::Shared(sinks.null()?))),
        InputStream::File(path) => File::open(path).map(file).map_err(|e| failed("read", path, e)),
        InputStream::Replay { offset_bytes } => {
            let failed = |e: io::Error| {
                let text = format!("cannot read standard input from byte {offset_bytes} on: {e}");
                Error::new(ErrorKind::Io, text).with_source(e)
            };
            ours::standard_input_from(*offset_bytes).map(file).map_err(failed)
        }
    }
}

fn output<'a>(stream: &OutputStream, sinks: &'a Sinks) -> Result<Option<StreamFile<'a>>> {
    match stream {
        OutputStream::Inherit => Ok(None),
        OutputStream::Null => Ok(Some(StreamFile::Shared(sinks.null()?))),
        OutputStream::Discard => sinks.discard().map(Some),
        OutputStream::Pipe => sinks.pipe().map(Some),
        OutputStream::File(path) => {
            File::create(path).map(file).map_err(|e| failed("write", path, absent(path, e)))
        }
    }
}

fn file<'a>(file: File) -> Option<StreamFile<'a>> {
    Some(StreamFile::File(file))
}

/// The kernel says `EISDIR` of a path that ends with a slash, whether or not the folder exists.
fn absent(path: &Path, e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::IsADirectory if std::fs::symlink_metadata(path).is_err() => {
            io::Error::new(io::ErrorKind::NotFound, "the path ends with / and no such folder exists")
        }
        _ => e,
    }
}

fn failed(verb: &str, path: &Path, e: io::Error) -> Error {
    let name = super::failure::shown(path.as_os_str());
    Error::new(ErrorKind::Io, format!("cannot {verb} '{name}': {e}")).with_source(e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn metadata(given: &StreamFile<'_>) -> std::fs::Metadata {
        File::from(given.as_fd().try_clone_to_owned().unwrap()).metadata().unwrap()
    }

    #[test]
    fn what_is_discarded_goes_to_a_device_that_is_not_the_null_device() {
        let sinks = Sinks::default();
        let discarded = metadata(&sinks.discard().unwrap());
        let null = sinks.null().unwrap().metadata().unwrap();
        assert!(discarded.file_type().is_char_device());
        assert_ne!(discarded.rdev(), null.rdev());
    }

    #[test]
    fn without_such_a_device_it_goes_to_a_pipe() {
        let sinks = Sinks { zero: OnceCell::from(None), ..Sinks::default() };
        assert!(metadata(&sinks.discard().unwrap()).file_type().is_fifo());
    }

    #[test]
    fn both_outputs_are_one_where_they_lead_to_the_same() {
        let sinks = Sinks::default();
        for stream in [OutputStream::Null, OutputStream::Discard, OutputStream::Pipe] {
            let command =
                CommandSpec { stdout: stream.clone(), stderr: stream, ..CommandSpec::new("nothing") };
            let streams = Streams::open(&command, &sinks).unwrap();
            let inode = |given: &Option<StreamFile<'_>>| metadata(given.as_ref().unwrap()).ino();
            assert_eq!(inode(&streams.stdout), inode(&streams.stderr), "{:?}", command.stdout);
        }
    }
}
