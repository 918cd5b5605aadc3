//! Opening a file of another process by its identity.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use libc::c_long;

use super::FileIdentity;

/// Opens the file at a path for reading and writing, if it has this identity. Another file is never opened:
/// the other end of a pipe does not wake up, a device is not accessed, and no timestamp changes.
///
/// # Errors
///
/// `NotFound` where the path names another file; the operating system's.
///
/// # Source
///
/// `open(2)`, `O_PATH`; `proc(5)`, `/proc/pid/fd`.
pub fn open_same(path: &Path, identity: FileIdentity) -> io::Result<File> {
    let named = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)?;
    expect(&named, identity)?;
    // `/proc/self` is this process in whichever namespace `/proc` belongs to, or does not exist.
    let again = format!("/proc/self/fd/{}", named.as_raw_fd());
    let file = OpenOptions::new().read(true).write(true).open(again)?;
    expect(&file, identity)?;
    Ok(file)
}

fn expect(file: &File, identity: FileIdentity) -> io::Result<()> {
    match FileIdentity::of(file)? == identity {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::NotFound, "the path names another file")),
    }
}

/// The file that a process has open at a descriptor, without using a path.
///
/// # Errors
///
/// The operating system's: `EBADF` where it has none, `EPERM` where it may not be traced, `ENOSYS` before
/// Linux 5.6, `EINVAL` where `pid` is not the first thread of a process.
///
/// # Source
///
/// `pidfd_open(2)`, `pidfd_getfd(2)`.
pub fn descriptor_of(pid: u32, descriptor: u64) -> io::Result<File> {
    let number = RawFd::try_from(descriptor).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes numbers.
    let process = owned(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: takes numbers; `process` is open until behind the call.
    let file = owned(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0) })?;
    Ok(File::from(file))
}

/// The descriptor that a call created; both calls create it closed at exec.
fn owned(answer: c_long) -> io::Result<OwnedFd> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as RawFd) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn identity(path: &Path) -> FileIdentity {
        FileIdentity::from(&std::fs::metadata(path).unwrap())
    }

    #[test]
    fn only_the_file_that_was_meant_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let (meant, other) = (folder.path().join("meant"), folder.path().join("other"));
        std::fs::write(&meant, "a").unwrap();
        std::fs::write(&other, "b").unwrap();
        let identity = identity(&meant);
        open_same(&meant, identity).unwrap().write_all(b"c").unwrap();
        assert_eq!(std::fs::read(&meant).unwrap(), b"c");
        assert_eq!(open_same(&other, identity).unwrap_err().kind(), io::ErrorKind::NotFound);
        // A link whose target was replaced meanwhile.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        assert_eq!(open_same(&link, identity).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_pipe_in_place_of_the_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let other = FileIdentity { device: 0, inode: 0 };
        assert_eq!(open_same(&pipe, other).unwrap_err().kind(), io::ErrorKind::NotFound);
        // If a writer had opened the pipe, the reader would see its end; without one there is no data yet.
        let flags = libc::O_NONBLOCK;
        let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        let writer = OpenOptions::new().write(true).custom_flags(flags).open(&pipe);
        assert!(writer.is_ok());
    }

    #[test]
    fn a_descriptor_of_a_process_is_that_very_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let pid = std::process::id();
        match descriptor_of(pid, file.as_raw_fd() as u64) {
            Ok(got) => assert_eq!(FileIdentity::of(&got).unwrap(), identity(&path)),
            // A kernel or a sandbox without the call: the test then checks the error.
            Err(error) => {
                assert!(matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{error}")
            }
        }
        assert!(descriptor_of(pid, u64::MAX).is_err());
        assert!(descriptor_of(pid, 100_000).is_err());
    }
}
