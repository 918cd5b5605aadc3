//! The addresses that a code cache takes.

use super::maps::MemoryMaps;
use super::memory_limit::MemoryLimit;
use crate::translate::{REGION, SLOT_BYTES, SLOTS, TABLE_BYTES, is_region_near};

/// Regions that have room in the memory file. A program hardly ever needs more, so it needs no more
/// descriptors and calls.
pub(super) const ROOM_FOR_REGIONS: u64 = 4;

/// Addresses of a translation with this number of slots, without regions that are hardly ever needed.
pub(super) const fn addresses_for(slots: usize) -> u64 {
    TABLE_BYTES + SLOT_BYTES * slots as u64 + ROOM_FOR_REGIONS * REGION
}

/// Addresses of a translation without a limit.
pub(super) const MOST_ADDRESSES: u64 = addresses_for(SLOTS);

/// The end of the addresses of programs.
///
/// # Source
///
/// Linux `Documentation/arch/x86/x86_64/mm.rst`.
const END_OF_ADDRESSES: u64 = 0x8000_0000_0000;

/// The alignment of a region in a gap: a large page.
const ALIGNMENT: u64 = 2 << 20;

/// Free addresses between a region and the lowest address of the stack, beyond the stack's own limit: the
/// kernel keeps a guard there.
const STACK_GUARD: u64 = 2 << 20;

/// Addresses for a region in the gaps of a program that has reserved the usual addresses, as .NET reserves
/// 2 GB around its own code. In reach of the code near an address.
///
/// A region is at the end of a gap, because a heap grows from its start. In the gap below the stack it is at
/// the start, and leaves the stack its limit.
pub(super) fn last_region_addresses_near(
    near: u64,
    maps: &MemoryMaps,
    stack_limit: MemoryLimit,
) -> impl Iterator<Item = u64> {
    let gaps: Vec<(u64, u64)> = maps.gaps().filter(|(_, end)| *end < END_OF_ADDRESSES).collect();
    let last = gaps.len().saturating_sub(1);
    let in_gap = move |(position, (start, end)): (usize, (u64, u64))| {
        let at = match position == last {
            true => start.next_multiple_of(ALIGNMENT),
            false => end.checked_sub(REGION)? / ALIGNMENT * ALIGNMENT,
        };
        let kept = if position == last { stack_limit.raised_by(STACK_GUARD) } else { MemoryLimit::Bytes(0) };
        let needed = kept.raised_by(at.saturating_add(REGION));
        let fits = at >= start && needed <= MemoryLimit::Bytes(end);
        (fits && is_region_near(at, near)).then_some(at)
    };
    gaps.into_iter().enumerate().filter_map(in_gap)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, all below it reserved but for gaps of 64 MB and 32 MB, and 127 MB up to the stack.
    const CROWDED: &str = "555555554000-555555556000 r-xp 00000000 fe:00 1 /bin/program\n\
        7fff70000000-7fffb0000000 ---p 00000000 00:00 0\n\
        7fffb4000000-7fffc0000000 ---p 00000000 00:00 0\n\
        7fffc2000000-7ffff7000000 ---p 00000000 00:00 0\n\
        7ffff7000000-7ffff8001000 r-xp 00000000 fe:00 2 /lib/library\n\
        7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n\
        ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

    fn found(near: u64, stack_limit: MemoryLimit) -> Vec<u64> {
        last_region_addresses_near(near, &MemoryMaps::of(CROWDED), stack_limit).collect()
    }

    #[test]
    fn a_region_fits_in_a_gap_and_leaves_the_stack_its_limit() {
        assert_eq!(
            found(0x7fff_f780_0000, MemoryLimit::Bytes(8 << 20)),
            [0x7fff_b000_0000, 0x7fff_f820_0000]
        );
        assert_eq!(found(0x7fff_f780_0000, MemoryLimit::Bytes(60 << 20)), [0x7fff_b000_0000]);
        assert_eq!(found(0x7fff_f780_0000, MemoryLimit::Unlimited), [0x7fff_b000_0000]);
    }

    #[test]
    fn gaps_out_of_reach_have_no_address_for_a_region() {
        assert_eq!(found(0x5555_5555_4000, MemoryLimit::Bytes(8 << 20)), [] as [u64; 0]);
        assert_eq!(found(0x7fff_4000_0000, MemoryLimit::Bytes(8 << 20)), [0x7fff_6c00_0000]);
        assert_eq!(last_region_addresses_near(0, &MemoryMaps::none(), MemoryLimit::Bytes(0)).count(), 0);
    }
}
