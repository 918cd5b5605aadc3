//! Errors of kperf as refusals.

use std::io;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{KperfObstacle, KperfRefusal};
use cyclometer_core::{Refusal, Slot};

/// Error numbers that Linux and macOS share.
///
/// # Source
///
/// xnu `bsd/sys/errno.h`.
pub(super) mod errno {
    pub(crate) const EPERM: i32 = 1;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const EBUSY: i32 = 16;
}

/// The refusal of a call, for the whole pass.
///
/// # Source
///
/// xnu `bsd/kern/kern_kpc.c`: `EPERM` without root, `EBUSY` while another client of the kernel has the PMU.
pub(super) fn refusal(call: &str, error: &io::Error) -> Refusal {
    let (kind, obstacle) = match error.raw_os_error() {
        Some(errno::EPERM) => (RefusalKind::NoPermission, KperfObstacle::NotRoot),
        Some(errno::EACCES) => (RefusalKind::Busy, KperfObstacle::CountersTaken),
        Some(errno::EBUSY) => (RefusalKind::Busy, KperfObstacle::PmuTaken),
        _ if error.kind() == io::ErrorKind::ResourceBusy => {
            (RefusalKind::Busy, KperfObstacle::OwnConfiguration)
        }
        _ => (RefusalKind::Other, KperfObstacle::Reported(error.to_string())),
    };
    Refusal::of_target(kind, KperfRefusal::Call { call: call.to_owned(), obstacle })
}

/// The refusal of an event, by a reason that has its name.
pub(super) fn of_event(slot: &Slot, reason: impl FnOnce(String) -> KperfRefusal) -> Refusal {
    Refusal::of_slot(slot.id, RefusalKind::NotSupported, reason(slot.name.clone()))
}
