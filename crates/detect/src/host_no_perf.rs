//! An operating system without `perf_event_open(2)`.

use crate::facts::PerfProbe;

/// Linux's number for "function not implemented".
const ENOSYS: i32 = 38;

/// There is no such system call.
pub(super) fn probe(_probe: &PerfProbe) -> Result<(), i32> {
    Err(ENOSYS)
}
