//! Apple's PMU registers on the host.

use cyclometer_sys::apple::{AppleRegisters, NoAccess};

use crate::probes::errno;

/// Linux's number for "try again", for a failure without a number.
const EAGAIN: i32 = 11;

/// Tries the registers of the CPU that a thread happens to be on. The thread is a short-lived one, which is
/// bound to that CPU meanwhile instead of ours.
pub(super) fn probe() -> Result<(), i32> {
    let tried = std::thread::Builder::new().spawn(|| AppleRegisters::probe(None).map(drop));
    let tried = tried.map_err(|_| EAGAIN)?.join().map_err(|_| EAGAIN)?;
    tried.map_err(|why| match why {
        NoAccess::NotApple { .. } => errno::ENODEV,
        NoAccess::Closed => errno::EOPNOTSUPP,
        NoAccess::Unbindable { error, .. } | NoAccess::Handler(error) => {
            error.raw_os_error().unwrap_or(EAGAIN)
        }
        _ => EAGAIN,
    })
}
