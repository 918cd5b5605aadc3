//! The memory that kernels load from and store to.

/// Bytes that every first-level data cache holds.
pub const RESIDENT_BYTES: usize = 8 * 1024;

/// Bytes that no first-level data cache holds.
pub const COLD_BYTES: usize = 16 * 1024 * 1024;

/// Bytes from one link of a chain to the next in memory: a cache line of the largest kind.
///
/// # Source
///
/// 128 bytes on Apple's chips (`sysctl hw.cachelinesize`); 64 on those of Intel, AMD and most of Arm's.
const LINK_BYTES: usize = 128;

/// Memory for all kernels. None of it is shared.
#[derive(Clone, Debug)]
pub struct KernelMemory {
    pub(crate) line: CacheLine,
    resident: Option<PointerChain>,
    cold: Option<PointerChain>,
}

/// Eight words of one cache line, so that no access crosses lines.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct CacheLine(pub(crate) [u64; 8]);

impl KernelMemory {
    /// New memory. Kernels that chase get theirs when they run for the first time.
    pub fn new() -> KernelMemory {
        let line = CacheLine(std::array::from_fn(|i| i as u64 + 1));
        KernelMemory { line, resident: None, cold: None }
    }

    pub(crate) fn resident(&mut self) -> &PointerChain {
        self.resident.get_or_insert_with(|| PointerChain::new(ChainLayout::of_lines(RESIDENT_BYTES)))
    }

    pub(crate) fn cold(&mut self) -> &PointerChain {
        self.cold.get_or_insert_with(|| PointerChain::new(ChainLayout::of_lines(COLD_BYTES)))
    }
}

impl Default for KernelMemory {
    fn default() -> KernelMemory {
        KernelMemory::new()
    }
}

/// Where the links of a chain are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ChainLayout {
    /// The number of links.
    pub(crate) links: usize,
    /// Bytes from one link to the next in memory: a multiple of a word.
    pub(crate) spacing: usize,
    pub(crate) order: ChainOrder,
}

/// Which link leads to which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ChainOrder {
    /// All are in one ring, in no order.
    Random,
    /// Each leads to the next one in memory, the last to the first.
    Ascending,
}

impl ChainLayout {
    /// A link in each [`LINK_BYTES`].
    fn of_lines(bytes: usize) -> ChainLayout {
        ChainLayout { links: bytes / LINK_BYTES, spacing: LINK_BYTES, order: ChainOrder::Random }
    }

    /// The words that it needs.
    pub(crate) fn words(self) -> usize {
        self.links * self.words_per_link()
    }

    fn words_per_link(self) -> usize {
        self.spacing / size_of::<usize>()
    }

    /// For each link the next one.
    fn next(self) -> Vec<usize> {
        match self.order {
            ChainOrder::Random => ring(self.links),
            ChainOrder::Ascending => (1..self.links).chain([0]).collect(),
        }
    }
}

/// Links that each hold the address of the next, all of them in one ring.
#[derive(Debug)]
pub(crate) struct PointerChain {
    /// Only one word in [`ChainLayout::spacing`] is a link. Never written again, so what is in it stays the
    /// addresses of links.
    words: Box<[usize]>,
    layout: ChainLayout,
}

impl PointerChain {
    fn new(layout: ChainLayout) -> PointerChain {
        PointerChain::in_words(vec![0; layout.words()].into_boxed_slice(), layout)
    }

    /// A chain in words that are there: [`ChainLayout::words`] of them.
    pub(crate) fn in_words(mut words: Box<[usize]>, layout: ChainLayout) -> PointerChain {
        let base = words.as_ptr() as usize;
        for (link, next) in layout.next().iter().enumerate() {
            words[link * layout.words_per_link()] = base + next * layout.spacing;
        }
        PointerChain { words, layout }
    }

    /// The address of the first link. From there every load leads to another link, for ever.
    pub(crate) fn first(&self) -> *const usize {
        self.words.as_ptr()
    }
}

impl Clone for PointerChain {
    /// A chain of its own: addresses lead into the copy.
    fn clone(&self) -> PointerChain {
        PointerChain::new(self.layout)
    }
}

/// For each of `len` places the next one, so that all are in one ring, in no order.
///
/// # Source
///
/// S. Sattolo, An algorithm to generate a random cyclic permutation, Information Processing Letters 22
/// (1986).
pub(crate) fn ring(len: usize) -> Vec<usize> {
    let mut next: Vec<usize> = (0..len).collect();
    let mut number = crate::counts::FIRST;
    for last in (1..len).rev() {
        number = number.wrapping_mul(crate::counts::MULTIPLIER).wrapping_add(crate::counts::INCREMENT);
        next.swap(last, (number >> 33) as usize % last);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_visits_every_place_once() {
        for len in [1, 2, 3, 64, 4096] {
            let next = ring(len);
            let (mut at, mut seen) = (0, 0);
            loop {
                (at, seen) = (next[at], seen + 1);
                if at == 0 {
                    break;
                }
            }
            assert_eq!(seen, len);
        }
    }

    #[test]
    fn every_link_leads_to_a_link_of_the_same_chain() {
        let lines = ChainLayout::of_lines(RESIDENT_BYTES);
        let pages = ChainLayout { links: 9, spacing: 4096 + 64, order: ChainOrder::Random };
        let ascending = ChainLayout { order: ChainOrder::Ascending, ..lines };
        for layout in [lines, pages, ascending] {
            for chain in [PointerChain::new(layout), PointerChain::new(layout).clone()] {
                let (base, mut at, mut seen) = (chain.first() as usize, 0, 0);
                loop {
                    let offset = chain.words[at / size_of::<usize>()] - base;
                    assert!(offset.is_multiple_of(layout.spacing), "{offset} in {layout:?}");
                    (at, seen) = (offset, seen + 1);
                    if at == 0 {
                        break;
                    }
                }
                assert_eq!(seen, layout.links, "{layout:?}");
            }
        }
    }
}
