//! File access with the rights of the user who called `sudo`: not available on this system.

use std::io;

/// Calls `open` with our own rights, because this system has no file-system ids of a thread.
///
/// # Errors
///
/// `Unsupported` when we are root through `sudo`, so that no file is opened with more rights than the user
/// has.
pub fn with_rights<T>(open: impl FnOnce() -> T) -> io::Result<T> {
    let by_sudo = std::env::var_os("SUDO_UID").is_some() && crate::host::effective_uid() == 0;
    if by_sudo { Err(io::Error::from(io::ErrorKind::Unsupported)) } else { Ok(open()) }
}

/// The ids of the user who called `sudo`; `None` without it.
///
/// # Errors
///
/// `Unsupported` when we are root through `sudo`.
pub fn invoker() -> io::Result<Option<(u32, u32)>> {
    with_rights(|| None)
}
