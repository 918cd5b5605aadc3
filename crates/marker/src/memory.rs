//! Memory that a tool and the programs that it runs share.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use cyclometer_sys::identity::{self, FileIdentity};
use cyclometer_sys::shared::{self, SharedMemory};

pub(crate) use cyclometer_sys::shared::SharedMemory as Memory;

/// Memory that was made here, and is found by its place as long as this lives.
#[derive(Debug)]
pub(crate) struct Own {
    /// Its descriptor is a part of the place.
    _file: File,
    place: String,
}

impl Own {
    /// Makes memory of `len` zero bytes, of which only those take room that are written.
    pub(crate) fn make(len: usize) -> io::Result<(Own, Memory)> {
        let file = File::from(shared::memory_file("cyclometer-markers")?);
        shared::set_len(file.as_fd(), len as u64)?;
        // Who could shorten it would take the memory away from all others.
        shared::seal_size(file.as_fd())?;
        let memory = SharedMemory::map(file.as_fd(), 0, len)?;
        let identity = FileIdentity::of(&file)?;
        let place = format!("/proc/{}/fd/{}{SEPARATOR}{identity}", std::process::id(), file.as_raw_fd());
        Ok((Own { _file: file, place }, memory))
    }

    /// Where programs find it, whatever descriptors they have: a path, and the file's identity behind it.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/fd`: open to every process of the same user.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }
}

/// Between the path and the identity.
const SEPARATOR: char = '#';

/// Maps memory that another process made, by its place: [`Own::place`].
///
/// # Errors
///
/// The operating system's; `NotFound` where the path names another file: in a container, or in another PID namespace, it is
/// that of an unrelated process. `InvalidInput` where it is no such place, or the file is too short.
pub(crate) fn open(place: &str, len: usize) -> io::Result<Memory> {
    let (path, identity) = place.rsplit_once(SEPARATOR).ok_or(io::ErrorKind::InvalidInput)?;
    let file = identity::open_same(Path::new(path), identity.parse()?)?;
    SharedMemory::map(file.as_fd(), 0, len)
}
