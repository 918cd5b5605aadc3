//! kperf on the host.

use std::path::Path;

use cyclometer_sys::macos::{KPERF, KpcCounters, KpcFunctions};

use crate::probes::errno;

/// Opens the framework, and requests all counters for a moment.
pub(super) fn probe() -> Result<KpcCounters, i32> {
    let kpc = KpcFunctions::open(Path::new(KPERF)).map_err(|_| errno::ENOENT)?;
    KpcCounters::ask(&kpc).map_err(|error| error.raw_os_error().unwrap_or(errno::ENODEV))
}
