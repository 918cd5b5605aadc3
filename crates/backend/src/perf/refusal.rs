//! What the kernel says, as a refusal.

use std::io;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::{Refusal, SlotId};
use cyclometer_sys::process::errno;

/// A refusal of one slot.
pub(super) fn of_slot(slot: SlotId, kind: RefusalKind, text: String) -> Refusal {
    Refusal { slot: Some(slot), kind, text }
}

/// A refusal of the target or the whole pass.
pub(super) fn of_target(kind: RefusalKind, text: String) -> Refusal {
    Refusal { slot: None, kind, text }
}

/// The kind of an error of `perf_event_open(2)`, and its meaning in words.
///
/// # Source
///
/// `perf_event_open(2)`, section "Errors".
pub(super) fn meaning(error: &io::Error) -> (RefusalKind, String) {
    let (kind, name, words) = match error.raw_os_error() {
        Some(errno::EACCES) => (RefusalKind::NoPermission, "EACCES", "not permitted"),
        Some(errno::EPERM) => (RefusalKind::NoPermission, "EPERM", "not permitted"),
        Some(errno::ENOENT) => (RefusalKind::NotSupported, "ENOENT", "the PMU does not have this event"),
        Some(errno::EOPNOTSUPP) => {
            (RefusalKind::NotSupported, "EOPNOTSUPP", "the PMU cannot count in this way")
        }
        Some(errno::ENODEV) => (RefusalKind::NotSupported, "ENODEV", "the PMU is not there"),
        Some(errno::EINVAL) => (RefusalKind::Invalid, "EINVAL", "the attributes do not suit the PMU"),
        Some(errno::EBUSY) => (RefusalKind::Busy, "EBUSY", "another user holds the PMU"),
        Some(errno::ESRCH) => (RefusalKind::NoSuchTarget, "ESRCH", "there is no such thread"),
        Some(errno::EMFILE) => (RefusalKind::TooManyFiles, "EMFILE", "too many open files in this process"),
        Some(errno::ENFILE) => (RefusalKind::TooManyFiles, "ENFILE", "too many open files in the system"),
        Some(errno::ENOSYS) => (RefusalKind::Other, "ENOSYS", "the kernel has no perf events"),
        _ => return (RefusalKind::Other, error.to_string()),
    };
    (kind, format!("{words} ({name})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_have_the_documented_kind_and_a_name() {
        let cases = [
            (errno::EACCES, RefusalKind::NoPermission, "EACCES"),
            (errno::EPERM, RefusalKind::NoPermission, "EPERM"),
            (errno::ENOENT, RefusalKind::NotSupported, "ENOENT"),
            (errno::EOPNOTSUPP, RefusalKind::NotSupported, "EOPNOTSUPP"),
            (errno::ENODEV, RefusalKind::NotSupported, "ENODEV"),
            (errno::EINVAL, RefusalKind::Invalid, "EINVAL"),
            (errno::EBUSY, RefusalKind::Busy, "EBUSY"),
            (errno::ESRCH, RefusalKind::NoSuchTarget, "ESRCH"),
            (errno::EMFILE, RefusalKind::TooManyFiles, "EMFILE"),
            (errno::E2BIG, RefusalKind::Other, "os error"),
        ];
        for (number, kind, name) in cases {
            let (got, words) = meaning(&io::Error::from_raw_os_error(number));
            assert_eq!(got, kind);
            assert!(words.contains(name), "{words}");
        }
    }
}
