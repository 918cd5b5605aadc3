//! Architectures whose counters are read through the kernel only.

use super::{Permit, Serialisation};

/// No counter can be read here.
///
/// # Safety
///
/// None is needed: nothing is executed.
pub(super) unsafe fn counter(_: Permit) -> u64 {
    unreachable!("no page of this architecture permits reads")
}

/// There is no time stamp.
pub(super) fn time_stamp() -> u64 {
    0
}

/// Does nothing.
pub fn serialise(_: Serialisation) {}
