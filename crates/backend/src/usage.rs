//! Converts the kernel's accounting to the shared type.

use cyclometer_core::exec::Usage;
use cyclometer_sys::process;

/// The same values in the shared type.
pub(crate) fn shared(raw: process::ResourceUsage) -> Usage {
    Usage {
        user_ns: raw.user_ns,
        system_ns: raw.system_ns,
        peak_rss_bytes: raw.peak_rss_bytes,
        minor_faults: raw.minor_faults,
        major_faults: raw.major_faults,
        voluntary_switches: raw.voluntary_switches,
        involuntary_switches: raw.involuntary_switches,
        counters: None,
    }
}
