//! Process ids as arguments of system calls.

use std::io;

/// A pid that names one process: neither 0 nor one that a conversion made negative.
pub(crate) fn to_pid(pid: u32) -> io::Result<libc::pid_t> {
    match libc::pid_t::try_from(pid) {
        Ok(pid) if pid > 0 => Ok(pid),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}
