//! File access with the rights of the one who called `sudo`: not available on this system.

use std::io;

/// Calls `open` as we are: this system has no file-system ids of a thread.
///
/// # Errors
///
/// `Unsupported` when we are root on somebody's behalf, so that nothing is opened with more rights than theirs.
pub fn with_rights<T>(open: impl FnOnce() -> T) -> io::Result<T> {
    let by_sudo = std::env::var_os("SUDO_UID").is_some() && crate::host::effective_uid() == 0;
    if by_sudo { Err(io::Error::from(io::ErrorKind::Unsupported)) } else { Ok(open()) }
}
