//! NVML of this system.

use std::path::PathBuf;
use std::time::Duration;

/// The time that the library has to open its devices. Waking those without a persistence daemon takes about a
/// second for each.
pub(super) const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// The library.
pub fn library() -> PathBuf {
    PathBuf::from(cyclometer_sys::nvml::LIBRARY)
}
