//! Errors of the kernel as refusals.

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

/// The kind of an error of `perf_event_open(2)`, and its meaning in words that follow an event's name.
///
/// # Source
///
/// `perf_event_open(2)`, section "Errors".
pub(super) fn meaning(error: &io::Error, pmu: &str, place: &str) -> (RefusalKind, String) {
    let words = |text: String, name: &str| format!("{text} ({name})");
    match error.raw_os_error() {
        Some(errno::EACCES) => {
            (RefusalKind::NoPermission, words(format!("not permitted on {place}"), "EACCES"))
        }
        Some(errno::EPERM) => {
            (RefusalKind::NoPermission, words(format!("not permitted on {place}"), "EPERM"))
        }
        Some(errno::ENOENT) => {
            (RefusalKind::NotSupported, words(format!("the PMU {pmu} does not have this event"), "ENOENT"))
        }
        Some(errno::EOPNOTSUPP) => (
            RefusalKind::NotSupported,
            words(format!("the PMU {pmu} cannot count in this way"), "EOPNOTSUPP"),
        ),
        Some(errno::ENODEV) => {
            (RefusalKind::NotSupported, words(format!("the PMU {pmu} is not there"), "ENODEV"))
        }
        Some(errno::EINVAL) => {
            (RefusalKind::Invalid, words(format!("the PMU {pmu} refuses these attributes"), "EINVAL"))
        }
        Some(errno::EBUSY) => {
            (RefusalKind::Busy, words(format!("another user holds the PMU {pmu}"), "EBUSY"))
        }
        Some(errno::ESRCH) => (RefusalKind::NoSuchTarget, words(format!("{place} does not exist"), "ESRCH")),
        Some(errno::EMFILE) => {
            (RefusalKind::TooManyFiles, words("too many open files in this process".to_owned(), "EMFILE"))
        }
        Some(errno::ENFILE) => {
            (RefusalKind::TooManyFiles, words("too many open files in the system".to_owned(), "ENFILE"))
        }
        Some(errno::ENOSYS) => {
            (RefusalKind::Other, words("the kernel has no perf events".to_owned(), "ENOSYS"))
        }
        _ => (RefusalKind::Other, format!("the PMU {pmu} on {place}: {error}")),
    }
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
            let (got, words) = meaning(&io::Error::from_raw_os_error(number), "cpu", "child 7");
            assert_eq!(got, kind);
            assert!(words.contains(name), "{words}");
        }
    }
}
