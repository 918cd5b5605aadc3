//! The addresses that a code cache takes.

use crate::translate::{REGION, SLOT_BYTES, SLOTS, TABLE_BYTES};

/// Regions that have room in the memory file. A program hardly ever needs more, so it needs no more
/// descriptors and calls.
pub(super) const ROOM_FOR_REGIONS: u64 = 4;

/// Addresses of a translation with this number of slots, without regions that are hardly ever needed.
pub(super) const fn addresses_for(slots: usize) -> u64 {
    TABLE_BYTES + SLOT_BYTES * slots as u64 + ROOM_FOR_REGIONS * REGION
}

/// Addresses of a translation without a limit.
pub(super) const MOST_ADDRESSES: u64 = addresses_for(SLOTS);
