//! The status that functions return.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cyclometer_toolkit::{ErrorKind, Result};

/// The status of a function. The numbers never change.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum cyclometer_status_t {
    /// Done; a value is exact.
    CYCLOMETER_SUCCESS = 0,
    /// Done; the value is an estimate, because the event shared its counter with others.
    CYCLOMETER_SCALED = 1,
    /// Done; the value is of some cores or modes only, of more than requested, or may be too small.
    CYCLOMETER_PARTIAL = 2,
    /// There is no sample yet; ask again later.
    CYCLOMETER_NO_SAMPLE = 3,
    /// No source of counts supports the architecture.
    CYCLOMETER_ERR_ARCH_UNSUPPORTED = -1,
    /// Counters cannot be read from user space here.
    CYCLOMETER_ERR_NO_USER_ACCESS = -2,
    /// Another user holds the counter.
    CYCLOMETER_ERR_COUNTER_BUSY = -3,
    /// The event cannot be counted on this machine.
    CYCLOMETER_ERR_EVENT_UNSUPPORTED = -4,
    /// Only a changed kernel gives access.
    CYCLOMETER_ERR_KERNEL_PATCH_NEEDED = -5,
    /// The operating system does not permit it.
    CYCLOMETER_ERR_PERMISSION_DENIED = -6,
    /// The request needs more counters than the hardware has.
    CYCLOMETER_ERR_HARDWARE_LIMIT = -7,
    /// No event has that name; `cyclometer_remedy` has the nearest ones.
    CYCLOMETER_ERR_UNKNOWN_EVENT = -8,
    /// An argument is invalid, or invalid in this state.
    CYCLOMETER_ERR_INVALID_INPUT = -9,
    /// Events that can never be counted at the same time.
    CYCLOMETER_ERR_CONSTRAINT_CONFLICT = -10,
    /// Counting began, but the count was lost.
    CYCLOMETER_ERR_STATE_LOST = -11,
    /// A process or CPU does not exist.
    CYCLOMETER_ERR_NO_SUCH_TARGET = -12,
    /// A file could not be read or written.
    CYCLOMETER_ERR_IO = -15,
    /// The operating system failed in another way.
    CYCLOMETER_ERR_OS = -17,
    /// The machine can count the event, but it was not counted.
    CYCLOMETER_ERR_NOT_COUNTED = -100,
    /// An error of the library itself; the monitor can still be closed.
    CYCLOMETER_ERR_PANIC = -101,
}

/// The number of a kind of error: the kind's own, below zero.
pub(crate) fn of_kind(kind: ErrorKind) -> c_int {
    -kind.number()
}

/// Runs the body of a function whose errors have no message.
pub(crate) fn guarded(body: impl FnOnce() -> Result<c_int>) -> c_int {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => of_kind(error.kind()),
        Err(_) => cyclometer_status_t::CYCLOMETER_ERR_PANIC as c_int,
    }
}

/// Runs the body of a function that has no status.
pub(crate) fn guarded_or<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        _ => otherwise,
    }
}

/// The meaning of a status in words.
pub(crate) fn text(status: c_int) -> &'static std::ffi::CStr {
    match status {
        0 => c"success",
        1 => c"the value is an estimate: the event shared its counter with others",
        2 => c"the value is of a part only, or of more than was asked for",
        3 => c"there is no sample yet",
        -1 => c"no source of counts supports the architecture",
        -2 => c"counters cannot be read from user space here",
        -3 => c"another user holds the counter",
        -4 => c"the event cannot be counted on this machine",
        -5 => c"only a changed kernel gives access",
        -6 => c"the operating system does not permit it",
        -7 => c"more was asked for than the hardware has counters for",
        -8 => c"no event has that name",
        -9 => c"an argument makes no sense, or not now",
        -10 => c"events that can never be counted at the same time",
        -11 => c"it was being counted, and something took it away",
        -12 => c"a process or CPU does not exist",
        -15 => c"a file could not be read or written",
        -17 => c"the operating system failed",
        -100 => c"the event was not counted",
        -101 => c"a mistake of the library itself",
        _ => c"no status of this version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_status_t as S;
    use cyclometer_toolkit::Error;

    #[test]
    fn kinds_of_error_have_the_numbers_of_the_header() {
        for (kind, status) in [
            (ErrorKind::ArchUnsupported, S::CYCLOMETER_ERR_ARCH_UNSUPPORTED),
            (ErrorKind::NoUserAccess, S::CYCLOMETER_ERR_NO_USER_ACCESS),
            (ErrorKind::CounterBusy, S::CYCLOMETER_ERR_COUNTER_BUSY),
            (ErrorKind::EventUnsupported, S::CYCLOMETER_ERR_EVENT_UNSUPPORTED),
            (ErrorKind::KernelPatchNeeded, S::CYCLOMETER_ERR_KERNEL_PATCH_NEEDED),
            (ErrorKind::PermissionDenied, S::CYCLOMETER_ERR_PERMISSION_DENIED),
            (ErrorKind::HardwareLimit, S::CYCLOMETER_ERR_HARDWARE_LIMIT),
            (ErrorKind::UnknownEvent, S::CYCLOMETER_ERR_UNKNOWN_EVENT),
            (ErrorKind::InvalidInput, S::CYCLOMETER_ERR_INVALID_INPUT),
            (ErrorKind::ConstraintConflict, S::CYCLOMETER_ERR_CONSTRAINT_CONFLICT),
            (ErrorKind::StateLost, S::CYCLOMETER_ERR_STATE_LOST),
            (ErrorKind::NoSuchTarget, S::CYCLOMETER_ERR_NO_SUCH_TARGET),
            (ErrorKind::Io, S::CYCLOMETER_ERR_IO),
            (ErrorKind::Os, S::CYCLOMETER_ERR_OS),
        ] {
            assert_eq!(of_kind(kind), status as c_int);
            assert_ne!(text(status as c_int), text(7777), "{kind:?}");
        }
    }

    #[test]
    fn a_panic_does_not_leave_the_library() {
        let panics = || -> Result<c_int> { std::panic::resume_unwind(Box::new(1)) };
        assert_eq!(guarded(panics), S::CYCLOMETER_ERR_PANIC as c_int);
        assert_eq!(guarded(|| Err(Error::new(ErrorKind::Io, "x"))), -15);
        assert_eq!(guarded_or(5, || Err(Error::new(ErrorKind::Io, "x"))), 5);
    }
}
