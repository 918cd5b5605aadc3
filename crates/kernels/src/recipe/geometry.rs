//! The sizes of caches and TLBs that footprints follow.

/// The sizes of a core's caches and TLBs. Footprints of recipes are multiples of them, so that each access
/// hits or misses where its recipe says.
///
/// Sizes that are not known are better left at their defaults than set to 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    /// Bytes of the first-level data cache.
    pub l1d_bytes: usize,
    /// Bytes of the second-level cache.
    pub l2_bytes: usize,
    /// Bytes of the last-level cache.
    pub llc_bytes: usize,
    /// Bytes of the first-level instruction cache.
    pub l1i_bytes: usize,
    /// Bytes of a cache line: a power of two, from 16 to 4096.
    pub line_bytes: usize,
    /// Bytes of a page of the system: a power of two, no less than a line.
    pub page_bytes: usize,
    /// Entries of the first-level data TLB.
    pub dtlb_entries: usize,
    /// Entries of the instruction TLB.
    pub itlb_entries: usize,
    /// Entries of the second-level TLB.
    pub l2_tlb_entries: usize,
    /// Return addresses that a core predicts.
    pub return_stack_entries: usize,
}

/// The most bytes that a recipe uses.
pub(crate) const MOST_BYTES: usize = 1 << 30;

impl Default for Geometry {
    /// A core of middling size.
    ///
    /// # Source
    ///
    /// Between Skylake-SP and Zen 3: Intel 64 and IA-32 Architectures Optimization Reference Manual, section
    /// 2.6 (cache and TLB parameters of Skylake); Software Optimization Guide for AMD EPYC 7003 Processors,
    /// sections 2.6 and 2.12.
    fn default() -> Geometry {
        Geometry {
            l1d_bytes: 32 << 10,
            l2_bytes: 1 << 20,
            llc_bytes: 32 << 20,
            l1i_bytes: 32 << 10,
            line_bytes: 64,
            page_bytes: 4096,
            dtlb_entries: 64,
            itlb_entries: 128,
            l2_tlb_entries: 1536,
            return_stack_entries: 32,
        }
    }
}

impl Geometry {
    /// The same with lines and pages of sizes that recipes can use, and nothing of size 0.
    pub(crate) fn usable(self) -> Geometry {
        let line_bytes = power_of_two(self.line_bytes).clamp(16, 4096);
        let most = MOST_BYTES;
        Geometry {
            l1d_bytes: self.l1d_bytes.clamp(8 * line_bytes, most),
            l2_bytes: self.l2_bytes.clamp(8 * line_bytes, most),
            llc_bytes: self.llc_bytes.clamp(8 * line_bytes, most),
            l1i_bytes: self.l1i_bytes.clamp(8 * line_bytes, most),
            line_bytes,
            page_bytes: power_of_two(self.page_bytes).clamp(line_bytes.max(1024), 1 << 20),
            dtlb_entries: self.dtlb_entries.clamp(4, 1 << 16),
            itlb_entries: self.itlb_entries.clamp(4, 1 << 16),
            l2_tlb_entries: self.l2_tlb_entries.clamp(4, 1 << 16),
            return_stack_entries: self.return_stack_entries.clamp(1, 1024),
        }
    }
}

fn power_of_two(number: usize) -> usize {
    number.clamp(1, MOST_BYTES).next_power_of_two()
}

/// Accesses that miss a store of some capacity, of accesses in a footprint: 0 to 1; `None` where the
/// footprint is neither well within nor well beyond the capacity.
///
/// Each place is visited once in a round of all. With the least recently used place evicted, a footprint
/// beyond the capacity misses at each access.
pub(crate) fn missing_in_turn(footprint: usize, capacity: usize) -> Option<f64> {
    match (footprint, capacity) {
        (footprint, capacity) if footprint <= capacity / 2 => Some(0.0),
        (footprint, capacity) if footprint >= 2 * capacity => Some(1.0),
        _ => None,
    }
}

/// The same where places are visited in no order: what is kept is hit in proportion.
pub(crate) fn missing_at_random(footprint: usize, capacity: usize) -> Option<f64> {
    match missing_in_turn(footprint, capacity)? {
        0.0 => Some(0.0),
        _ => Some(1.0 - capacity as f64 / footprint as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footprints_near_a_capacity_foretell_nothing() {
        for (footprint, in_turn, at_random) in [
            (16, Some(0.0), Some(0.0)),
            (17, None, None),
            (63, None, None),
            (64, Some(1.0), Some(0.5)),
            (320, Some(1.0), Some(0.9)),
        ] {
            assert_eq!(missing_in_turn(footprint, 32), in_turn, "{footprint}");
            assert_eq!(missing_at_random(footprint, 32), at_random, "{footprint}");
        }
    }

    #[test]
    fn sizes_of_nonsense_become_usable() {
        let nothing = Geometry {
            l1d_bytes: 0,
            l2_bytes: usize::MAX,
            llc_bytes: 0,
            l1i_bytes: 0,
            line_bytes: 100,
            page_bytes: 0,
            dtlb_entries: 0,
            itlb_entries: usize::MAX,
            l2_tlb_entries: 0,
            return_stack_entries: 0,
        };
        let usable = nothing.usable();
        assert_eq!((usable.line_bytes, usable.page_bytes, usable.l1d_bytes), (128, 1024, 1024));
        assert_eq!((usable.l2_bytes, usable.itlb_entries, usable.dtlb_entries), (MOST_BYTES, 1 << 16, 4));
        assert_eq!(Geometry::default().usable(), Geometry::default());
    }
}
