//! An operating system without kperf.

use crate::facts::KpcCounters;
use crate::probes::errno;

/// There is no such framework.
pub(super) fn probe() -> Result<KpcCounters, i32> {
    Err(errno::ENOENT)
}
