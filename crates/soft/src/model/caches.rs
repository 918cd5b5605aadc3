//! Two levels of cache, each with the least recently used line replaced.

/// Sets and ways of 32 KiB, and of 1 MiB.
///
/// # Source
///
/// Sizes of the first two levels of most server cores since 2019: AMD Software Optimization Guide for Zen 4,
/// section 2.6; Intel 64 and IA-32 Architectures Optimization Reference Manual, Golden Cove.
const FIRST: (usize, usize) = (64, 8);
const SECOND: (usize, usize) = (1024, 16);

/// Lines of the larger cache.
pub(super) const SECOND_LINES: f64 = (SECOND.0 * SECOND.1) as f64;

/// Lines of a page, as a power of two.
const PAGE_BITS: u32 = 6;

/// Caches of one core.
#[derive(Debug)]
pub(super) struct Caches {
    first: ModelledCache,
    /// The second level of a program in huge pages: its sets are those of the addresses.
    second: ModelledCache,
    /// That of a program in small pages, which the kernel has put anywhere.
    scattered: ModelledCache,
}

impl Default for Caches {
    fn default() -> Caches {
        let [first, second, scattered] = [FIRST, SECOND, SECOND].map(ModelledCache::new);
        Caches { first, second, scattered }
    }
}

impl Caches {
    /// Accesses a line; whether one of the caches had it.
    pub(super) fn access(&mut self, line: u64) -> bool {
        let page = (line >> PAGE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let scattered = page << PAGE_BITS | line & ((1 << PAGE_BITS) - 1);
        // All are asked, so that all know what is in use.
        let found = [
            self.first.access(line, line),
            self.second.access(line, line),
            self.scattered.access(scattered, line),
        ];
        found.contains(&true)
    }

    /// Forgets all lines: what ran since then is unknown.
    pub(super) fn clear(&mut self) {
        [&mut self.first, &mut self.second, &mut self.scattered].into_iter().for_each(ModelledCache::clear);
    }
}

#[derive(Debug)]
struct ModelledCache {
    ways: usize,
    /// For each set its lines, the most recent first.
    sets: Vec<Vec<u64>>,
}

impl ModelledCache {
    fn new((sets, ways): (usize, usize)) -> ModelledCache {
        ModelledCache { ways, sets: vec![Vec::new(); sets] }
    }

    /// Accesses a line, which is in the set of an index; whether the cache had it.
    fn access(&mut self, index: u64, line: u64) -> bool {
        let index = usize::try_from(index % self.sets.len() as u64).unwrap_or(0);
        let set = &mut self.sets[index];
        let found = set.iter().position(|held| *held == line);
        match found {
            Some(at) => set[..=at].rotate_right(1),
            None => {
                set.insert(0, line);
                set.truncate(self.ways);
            }
        }
        found.is_some()
    }

    fn clear(&mut self) {
        self.sets.iter_mut().for_each(Vec::clear);
    }
}
