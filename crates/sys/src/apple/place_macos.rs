//! On macOS: every core of an arm64 Mac is one of Apple's, and threads cannot be bound to cores.

use std::io;

use super::NoAccess;
use crate::host::sysctl_integer;

/// The scope of the counted switches: all threads of the process, since macOS does not count them for one.
pub(super) const WHOSE_USAGE: libc::c_int = libc::RUSAGE_SELF;

/// The CPU that the thread happens to be on.
#[derive(Debug)]
pub(super) struct AppleThread(());

impl AppleThread {
    /// Accepts the current CPU; a CPU by number is an error.
    pub(super) fn take(cpu: Option<u32>) -> Result<AppleThread, NoAccess> {
        let unsupported = io::ErrorKind::Unsupported;
        match (cpu, sysctl_integer("hw.cpufamily")) {
            (Some(cpu), _) => Err(NoAccess::Unbindable { cpu, error: unsupported.into() }),
            (None, Some(_)) => Ok(AppleThread(())),
            (None, None) => Err(NoAccess::NotApple { found: "hw.cpufamily is not known".to_owned() }),
        }
    }

    pub(super) fn bound_to(&self) -> Option<u32> {
        None
    }
}

/// Fails, because macOS has no binding.
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
    // The fallback is a number that no CPU has.
    if error == 0 { u32::try_from(cpu).unwrap_or(u32::MAX) } else { u32::MAX }
}
