//! Memory that a tool and the programs that it runs share.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use cyclometer_sys::shared::{self, SharedMemory};

pub(crate) use cyclometer_sys::shared::SharedMemory as Memory;

/// Memory that was made here, and is found by its path as long as this lives.
#[derive(Debug)]
pub(crate) struct Own(OwnedFd);

impl Own {
    /// Makes memory of `len` zero bytes, of which only those take room that are written.
    pub(crate) fn make(len: usize) -> io::Result<(Own, Memory)> {
        let file = shared::memory_file("cyclometer-markers")?;
        shared::set_len(file.as_fd(), len as u64)?;
        // Who could shorten it would take the memory away from all others.
        shared::seal_size(file.as_fd())?;
        let memory = SharedMemory::map(file.as_fd(), 0, len)?;
        Ok((Own(file), memory))
    }

    /// Where programs find it, whatever descriptors they have.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/fd`: who may look at our process, as our own user may.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// Maps memory that somebody else made.
pub(crate) fn open(path: &Path, len: usize) -> io::Result<Memory> {
    let file: File = OpenOptions::new().read(true).write(true).open(path)?;
    SharedMemory::map(file.as_fd(), 0, len)
}
