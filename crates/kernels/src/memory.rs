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
        self.resident.get_or_insert_with(|| PointerChain::new(RESIDENT_BYTES))
    }

    pub(crate) fn cold(&mut self) -> &PointerChain {
        self.cold.get_or_insert_with(|| PointerChain::new(COLD_BYTES))
    }
}

impl Default for KernelMemory {
    fn default() -> KernelMemory {
        KernelMemory::new()
    }
}

/// Links that each hold the address of the next, all of them in one ring.
#[derive(Debug)]
pub(crate) struct PointerChain {
    /// Only every [`LINK_BYTES`] is one of them a link. Never written again, so what is in it stays the
    /// addresses of links.
    words: Box<[usize]>,
}

const WORDS_PER_LINK: usize = LINK_BYTES / size_of::<usize>();

impl PointerChain {
    fn new(bytes: usize) -> PointerChain {
        let mut words = vec![0; bytes / size_of::<usize>()].into_boxed_slice();
        let order = ring(bytes / LINK_BYTES);
        let base = words.as_ptr() as usize;
        for (link, next) in order.iter().enumerate() {
            words[link * WORDS_PER_LINK] = base + next * LINK_BYTES;
        }
        PointerChain { words }
    }

    /// The address of the first link. From there every load leads to another link, for ever.
    pub(crate) fn first(&self) -> *const usize {
        self.words.as_ptr()
    }
}

impl Clone for PointerChain {
    /// A chain of its own: addresses lead into the copy.
    fn clone(&self) -> PointerChain {
        PointerChain::new(self.words.len() * size_of::<usize>())
    }
}

/// For each of `len` places the next one, so that all are in one ring, in no order.
///
/// # Source
///
/// S. Sattolo, An algorithm to generate a random cyclic permutation, Information Processing Letters 22
/// (1986).
fn ring(len: usize) -> Vec<usize> {
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
        for chain in [PointerChain::new(RESIDENT_BYTES), PointerChain::new(RESIDENT_BYTES).clone()] {
            let base = chain.first() as usize;
            for link in chain.words.iter().step_by(WORDS_PER_LINK) {
                let offset = link - base;
                assert!(offset < RESIDENT_BYTES && offset.is_multiple_of(LINK_BYTES), "{offset}");
            }
        }
    }
}
