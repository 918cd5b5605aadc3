//! Architectures whose counters are read through the kernel only.

use super::{Permit, Serialisation};

/// Never called, because no counter can be read on this architecture.
///
/// # Safety
///
/// None is needed: nothing is executed.
pub(super) unsafe fn counter(_: Permit) -> u64 {
    unreachable!("no page of this architecture permits reads")
}

/// Returns 0, because no time stamp is available.
pub(super) fn time_stamp() -> u64 {
    0
}

/// Does nothing.
pub fn serialise(_: Serialisation) {}
