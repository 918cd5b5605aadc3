//! On macOS: every core of an arm64 Mac is one of Apple's, and no thread can be bound to one.

use std::io;

use super::NoAccess;
use crate::host::sysctl_integer;

/// Whose switches are counted: those of all threads of the process, since macOS does not count them for one.
pub(super) const WHOSE_USAGE: libc::c_int = libc::RUSAGE_SELF;

/// Wherever the thread is.
#[derive(Debug)]
pub(super) struct Place(());

impl Place {
    /// Takes the CPU as it comes; a CPU by number cannot be had.
    pub(super) fn take(cpu: Option<u32>) -> Result<Place, NoAccess> {
        let unsupported = io::ErrorKind::Unsupported;
        match (cpu, sysctl_integer("hw.cpufamily")) {
            (Some(cpu), _) => Err(NoAccess::Unbindable { cpu, error: unsupported.into() }),
            (None, Some(_)) => Ok(Place(())),
            (None, None) => Err(NoAccess::NotApple { found: "hw.cpufamily is not known".to_owned() }),
        }
    }

    pub(super) fn bound_to(&self) -> Option<u32> {
        None
    }
}

/// Nothing can be bound.
pub(super) fn bind(_process: u32, _cpu: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The CPU that the thread is on.
///
/// # Source
///
/// `pthread_cpu_number_np`, macOS 11: the first that runs on arm64.
pub(super) fn cpu_now() -> u32 {
    let mut cpu = 0usize;
    // SAFETY: writes a number to a live integer.
    let error = unsafe { libc::pthread_cpu_number_np(&raw mut cpu) };
    // No CPU has the number that stands for a failure.
    if error == 0 { u32::try_from(cpu).unwrap_or(u32::MAX) } else { u32::MAX }
}
