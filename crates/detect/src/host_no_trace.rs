//! Hosts that the software PMU does not run on.

/// Linux's number for "function not implemented".
const ENOSYS: i32 = 38;

/// There is nothing to try.
pub(super) fn probe() -> Result<(), i32> {
    Err(ENOSYS)
}
