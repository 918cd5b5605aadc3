//! Errors of kperf as refusals.

use std::io;

use cyclometer_core::Refusal;
use cyclometer_core::exec::RefusalKind;

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
    let (kind, text) = match error.raw_os_error() {
        Some(errno::EPERM) => {
            (RefusalKind::NoPermission, format!("{call}: kperf counts for root only: use sudo"))
        }
        Some(errno::EACCES) => {
            (RefusalKind::Busy, format!("{call}: another program has requested all counters: quit it"))
        }
        Some(errno::EBUSY) => (
            RefusalKind::Busy,
            format!("{call}: another program has the PMU, such as Instruments or ktrace: quit it"),
        ),
        _ if error.kind() == io::ErrorKind::ResourceBusy => {
            let text = "kperf has one configuration, and this program counts other events by it";
            (RefusalKind::Busy, text.to_owned())
        }
        _ => (RefusalKind::Other, format!("{call}: {error}")),
    };
    Refusal { slot: None, kind, text }
}

/// The refusal of an event.
pub(super) fn of_event(slot: &cyclometer_core::Slot, reason: &str) -> Refusal {
    let text = format!("{}: {reason}", slot.name);
    Refusal { slot: Some(slot.id), kind: RefusalKind::NotSupported, text }
}
