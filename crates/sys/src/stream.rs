//! The number of bytes that a stream holds.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

/// The number of bytes that can currently be read from a pipe, a socket or a terminal.
///
/// # Errors
///
/// The operating system's: `ENOTTY` for other files.
///
/// # Source
///
/// `ioctl(2)`, `FIONREAD`; `pipe(7)`, `socket(7)`.
pub fn bytes_waiting(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut waiting: c_int = 0;
    // SAFETY: writes one int.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(waiting.unsigned_abs().into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn a_pipe_tells_how_much_it_holds() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(bytes_waiting(reader.as_fd()).unwrap(), 0);
        writer.write_all(b"abc").unwrap();
        drop(writer);
        assert_eq!(bytes_waiting(reader.as_fd()).unwrap(), 3);
    }

    #[test]
    fn a_folder_holds_no_bytes_to_wait_for() {
        let folder = std::fs::File::open("/").unwrap();
        assert_eq!(bytes_waiting(folder.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTTY));
    }
}
