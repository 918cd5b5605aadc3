//! Errors of `perf_event_open(2)` as refusals.

use std::io;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::PerfAnswer;
use cyclometer_sys::process::errno;

/// The kind of an error of `perf_event_open(2)`, and its meaning.
///
/// # Source
///
/// `perf_event_open(2)`, section "Errors".
pub(super) fn meaning(error: &io::Error, pmu: &str, place: &str) -> (RefusalKind, PerfAnswer) {
    let (pmu, place) = (pmu.to_owned(), place.to_owned());
    match error.raw_os_error() {
        Some(errno::EACCES) => {
            (RefusalKind::NoPermission, PerfAnswer::NotPermitted { place, errno: "EACCES" })
        }
        Some(errno::EPERM) => (RefusalKind::NoPermission, PerfAnswer::NotPermitted { place, errno: "EPERM" }),
        Some(errno::ENOENT) => (RefusalKind::NotSupported, PerfAnswer::NoEvent { pmu }),
        Some(errno::EOPNOTSUPP) => (RefusalKind::NotSupported, PerfAnswer::NotThisWay { pmu }),
        Some(errno::ENODEV) => (RefusalKind::NotSupported, PerfAnswer::NoPmu { pmu }),
        Some(errno::EINVAL) => (RefusalKind::Invalid, PerfAnswer::Attributes { pmu }),
        Some(errno::EBUSY) => (RefusalKind::Busy, PerfAnswer::Held { pmu }),
        Some(errno::ESRCH) => (RefusalKind::NoSuchTarget, PerfAnswer::NoPlace { place }),
        Some(errno::EMFILE) => (RefusalKind::TooManyFiles, PerfAnswer::FilesOfProcess),
        Some(errno::ENFILE) => (RefusalKind::TooManyFiles, PerfAnswer::FilesOfSystem),
        Some(errno::ENOSYS) => (RefusalKind::Other, PerfAnswer::NoPerf),
        _ => (RefusalKind::Other, PerfAnswer::Other { pmu, place, error: error.to_string() }),
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
            let (got, answer) = meaning(&io::Error::from_raw_os_error(number), "cpu", "child 7");
            assert_eq!(got, kind);
            assert!(answer.to_string().contains(name), "{answer}");
        }
    }
}
