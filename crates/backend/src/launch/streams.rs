//! The standard streams of a command.

use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use cyclometer_core::exec::{CommandSpec, Stream};
use cyclometer_core::{Error, ErrorKind, Result};

/// What replaces the streams that are not inherited.
#[derive(Debug)]
pub(super) struct Streams<'a> {
    stdin: Option<Given<'a>>,
    stdout: Option<Given<'a>>,
    stderr: Option<Given<'a>>,
}

/// A file of this run, or the null device that all runs share.
#[derive(Debug)]
enum Given<'a> {
    Null(&'a File),
    File(File),
}

impl AsFd for Given<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Given::Null(file) => file.as_fd(),
            Given::File(file) => file.as_fd(),
        }
    }
}

/// The null device, opened when it is first wanted.
#[derive(Debug, Default)]
pub(super) struct Null(OnceCell<File>);

impl Null {
    fn open(&self) -> Result<&File> {
        if let Some(file) = self.0.get() {
            return Ok(file);
        }
        let path = Path::new("/dev/null");
        let file = File::options().read(true).write(true).open(path).map_err(|e| failed("open", path, e))?;
        Ok(self.0.get_or_init(|| file))
    }
}

impl<'a> Streams<'a> {
    /// Opens what `command` asks for; a file that takes both outputs is opened once.
    pub(super) fn open(command: &CommandSpec, null: &'a Null) -> Result<Streams<'a>> {
        let stdin = open(&command.stdin, null, read, "read")?;
        let stdout = open(&command.stdout, null, write, "write")?;
        let stderr = match (&command.stdout, &command.stderr, &stdout) {
            (Stream::File(out), Stream::File(err), Some(Given::File(file))) if out == err => {
                Some(Given::File(file.try_clone().map_err(|e| failed("write", err, e))?))
            }
            _ => open(&command.stderr, null, write, "write")?,
        };
        Ok(Streams { stdin, stdout, stderr })
    }

    pub(super) fn stdin(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref().map(Given::as_fd)
    }

    pub(super) fn stdout(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().map(Given::as_fd)
    }

    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(Given::as_fd)
    }
}

fn open<'a>(
    stream: &Stream,
    null: &'a Null,
    how: fn(&Path) -> io::Result<File>,
    verb: &str,
) -> Result<Option<Given<'a>>> {
    match stream {
        Stream::Inherit => Ok(None),
        Stream::Null => null.open().map(|file| Some(Given::Null(file))),
        Stream::File(path) => {
            how(path).map(|file| Some(Given::File(file))).map_err(|e| failed(verb, path, e))
        }
    }
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
