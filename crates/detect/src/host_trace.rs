//! Tracing on the host.

use cyclometer_sys::trace::{self, Forbidden};

use crate::facts::TraceRefusal;

/// Tries to trace a process.
pub(super) fn probe() -> Result<(), TraceRefusal> {
    trace::permitted().map_err(|forbidden| match forbidden {
        Forbidden::Call { call, errno } => TraceRefusal::Call { call, errno },
        Forbidden::Traced { by } => TraceRefusal::Traced { by },
    })
}

/// Asks whatever traces this process whether it is the software PMU.
pub(super) fn is_counted_by_software() -> bool {
    cyclometer_sys::marks::is_counted_by_software()
}
