//! Tracing on the host.

/// Linux's number for "not permitted", for a refusal without a number.
const EPERM: i32 = 1;

/// Tries to trace a process.
pub(super) fn probe() -> Result<(), i32> {
    cyclometer_sys::trace::permitted().map_err(|error| error.raw_os_error().unwrap_or(EPERM))
}
