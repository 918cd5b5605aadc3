//! NVML of this system.

use std::path::PathBuf;
use std::time::Duration;

/// The time that the library has to open its devices. Waking those without a persistence daemon takes about a
/// second for each.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Whether ids of processes in NVML's answers are those that this program sees: it runs outside of
/// containers.
///
/// # Source
///
/// Linux `include/linux/proc_ns.h`, `PROC_PID_INIT_INO`: the number of the first PID namespace.
pub(super) fn sees_ids_of_host() -> bool {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    namespace.is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// The library.
pub fn library() -> PathBuf {
    PathBuf::from(cyclometer_sys::nvml::LIBRARY)
}
