//! The limit on open files.

use std::io;
use std::mem::MaybeUninit;

/// Raises the soft limit on open files to the hard one; gives the new one.
///
/// Commands still get the limit that was there when the launcher was started.
///
/// # Errors
///
/// The operating system's; nothing has changed then.
///
/// # Source
///
/// `getrlimit(2)`, `RLIMIT_NOFILE`.
pub fn raise_open_files() -> io::Result<u64> {
    let mut limit = open_files()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: reads one rlimit.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(limit.rlim_cur),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The limits on open files, soft and hard.
pub(crate) fn open_files() -> io::Result<libc::rlimit> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: writes one rlimit.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the limit.
    Ok(unsafe { limit.assume_init() })
}
