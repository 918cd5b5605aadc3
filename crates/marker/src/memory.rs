//! Memory that a tool shares with the programs that it runs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use cyclometer_sys::identity::{self, FileIdentity};
use cyclometer_sys::shared::{self, SharedMemory};

pub(crate) use cyclometer_sys::shared::SharedMemory as Memory;

/// Memory that this process created. Its place is valid for the lifetime of this value.
#[derive(Debug)]
pub(crate) struct Own {
    /// Keeps the descriptor open, which is a part of the place.
    _file: File,
    place: String,
}

impl Own {
    /// Creates memory of `len` zero bytes; only pages that are written take up memory.
    pub(crate) fn make(len: usize) -> io::Result<(Own, Memory)> {
        let file = File::from(shared::memory_file("cyclometer-markers")?);
        shared::set_len(file.as_fd(), len as u64)?;
        // A process that could shorten it would take the memory away from all others.
        shared::seal_size(file.as_fd())?;
        let memory = SharedMemory::map(file.as_fd(), 0, len)?;
        let identity = FileIdentity::of(&file)?;
        let place = format!("/proc/{}/fd/{}{SEPARATOR}{identity}", std::process::id(), file.as_raw_fd());
        Ok((Own { _file: file, place }, memory))
    }

    /// The place at which programs find it, whatever descriptors they have: a path, followed by the file's
    /// identity.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/fd`: open to every process of the same user.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

/// Separates the path from the identity.
const SEPARATOR: char = '#';

/// Maps memory that another process created, by its place: [`Own::place`].
///
/// # Errors
///
/// The operating system's; `NotFound` where the path names another file. In a container, or in another PID
/// namespace, it is the file of an unrelated process. `InvalidInput` where the place is invalid, or the file
/// is too short.
pub(crate) fn open(place: &str, len: usize) -> io::Result<Memory> {
    let (path, identity) = place.rsplit_once(SEPARATOR).ok_or(io::ErrorKind::InvalidInput)?;
    let file = identity::open_same(Path::new(path), identity.parse()?)?;
    SharedMemory::map(file.as_fd(), 0, len)
}
