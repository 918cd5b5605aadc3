//! Two levels of cache, each with the least recently used line replaced.

/// Sets and ways of 32 KiB, and of 1 MiB.
///
/// # Source
///
/// Sizes of the first two levels of most server cores since 2019: AMD Software Optimization Guide for Zen 4,
/// section 2.6; Intel 64 and IA-32 Architectures Optimization Reference Manual, Golden Cove.
const FIRST: (usize, usize) = (64, 8);
const SECOND: (usize, usize) = (1024, 16);

/// Caches of one core.
#[derive(Debug)]
pub(super) struct Caches {
    first: ModelledCache,
    second: ModelledCache,
}

impl Default for Caches {
    fn default() -> Caches {
        Caches { first: ModelledCache::new(FIRST), second: ModelledCache::new(SECOND) }
    }
}

impl Caches {
    /// Accesses a line; whether one of the caches had it.
    pub(super) fn access(&mut self, line: u64) -> bool {
        // Both are asked, so that both know what is in use.
        let (first, second) = (self.first.access(line), self.second.access(line));
        first || second
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

    fn access(&mut self, line: u64) -> bool {
        let index = usize::try_from(line % self.sets.len() as u64).unwrap_or(0);
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
}
