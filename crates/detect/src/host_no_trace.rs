//! Hosts that the software PMU does not run on.

use cyclometer_sys::tracer_call::TracerCall;

use crate::facts::TraceRefusal;

/// Linux's number for "function not implemented".
const ENOSYS: i32 = 38;

/// There is nothing to try.
pub(super) fn probe() -> Result<(), TraceRefusal> {
    Err(TraceRefusal::Call { call: TracerCall::Ptrace, errno: ENOSYS })
}

/// It runs nothing there.
pub(super) fn is_counted_by_software() -> bool {
    false
}
