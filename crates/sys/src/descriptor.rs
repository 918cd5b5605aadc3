//! Descriptors that this process inherited.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A copy of a descriptor that this process has inherited for writing.
///
/// The copy shares the original's file offset. Descriptors that this process opened itself are refused; they
/// are recognised by being closed at `exec`.
///
/// # Errors
///
/// `NotFound` for a number that was not inherited, `PermissionDenied` for a descriptor that is open for
/// reading only.
///
/// # Source
///
/// `fcntl(2)`: `F_GETFD`, `F_GETFL`, `F_DUPFD_CLOEXEC`.
pub fn inherited_for_writing(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: `F_GETFD` takes no argument and changes nothing.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        let message = format!("descriptor {number} is not open");
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    // SAFETY: `F_GETFL` takes no argument and changes nothing.
    let mode = unsafe { libc::fcntl(number, libc::F_GETFL) };
    if mode >= 0 && mode & libc::O_ACCMODE == libc::O_RDONLY {
        let message = format!("descriptor {number} is open for reading only");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    // SAFETY: takes a number, the lowest that the copy may have.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the descriptor is open, new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Whether a descriptor is open, and not for writing only.
///
/// # Source
///
/// `fcntl(2)`, `F_GETFL`.
pub fn is_open_for_reading(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: `F_GETFL` takes no argument and changes nothing.
    let mode = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    mode >= 0 && mode & libc::O_ACCMODE != libc::O_WRONLY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn the_ends_of_a_pipe_are_open_for_one_thing_each() {
        let (reader, writer) = io::pipe().unwrap();
        assert!(is_open_for_reading(reader.as_fd()));
        assert!(!is_open_for_reading(writer.as_fd()));
    }

    #[test]
    fn a_descriptor_of_our_own_is_not_one_that_was_inherited() {
        let (reader, writer) = io::pipe().unwrap();
        for own in [reader.as_raw_fd(), writer.as_raw_fd()] {
            assert_eq!(inherited_for_writing(own).unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn numbers_that_nothing_is_open_at_are_refused() {
        for number in [-1, RawFd::MAX] {
            let error = inherited_for_writing(number).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(error.to_string(), format!("descriptor {number} is not open"));
        }
    }
}
