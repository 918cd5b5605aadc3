//! The standard streams of a command.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cyclometer_core::exec::{CommandSpec, Stream};
use cyclometer_core::{Error, ErrorKind, Result};

/// What replaces the streams that are not inherited.
#[derive(Debug)]
pub(super) struct Streams {
    stdin: Option<File>,
    stdout: Option<File>,
    stderr: Option<File>,
}

impl Streams {
    /// Opens what `command` asks for; a file that takes both outputs is opened once.
    pub(super) fn open(command: &CommandSpec) -> Result<Streams> {
        let stdin = open(&command.stdin, read, "read")?;
        let stdout = open(&command.stdout, write, "write")?;
        let stderr = match (&command.stdout, &command.stderr, &stdout) {
            (Stream::File(out), Stream::File(err), Some(file)) if out == err => {
                Some(file.try_clone().map_err(|e| failed("write", err, e))?)
            }
            _ => open(&command.stderr, write, "write")?,
        };
        Ok(Streams { stdin, stdout, stderr })
    }

    pub(super) fn stdin(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref().map(File::as_fd)
    }

    pub(super) fn stdout(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().map(File::as_fd)
    }

    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(File::as_fd)
    }
}

fn open(stream: &Stream, how: fn(&Path) -> io::Result<File>, verb: &str) -> Result<Option<File>> {
    let path = match stream {
        Stream::Inherit => return Ok(None),
        Stream::Null => Path::new("/dev/null"),
        Stream::File(path) => path,
    };
    how(path).map(Some).map_err(|e| failed(verb, path, e))
}

fn read(path: &Path) -> io::Result<File> {
    File::open(path)
}

fn write(path: &Path) -> io::Result<File> {
    File::create(path)
}

fn failed(verb: &str, path: &Path, e: io::Error) -> Error {
    let name = super::failure::shown(path.as_os_str());
    Error::new(ErrorKind::Io, format!("cannot {verb} '{name}': {e}")).with_source(e)
}
