//! A table of the values that a map gave lately.
//!
//! A look-up that hits costs one compare. A key has one entry that it can be in, where a later key with the
//! same index replaces it: the map stays the one that knows all.

/// Most entries, which fit in a second-level cache.
const MOST_ENTRIES: usize = 8192;

/// Values by key, of which each may be forgotten at any time.
#[derive(Clone, Debug)]
pub(crate) struct RecentValues {
    /// A power of two of entries.
    entries: Vec<RecentEntry>,
}

#[derive(Clone, Copy, Default, Debug)]
struct RecentEntry {
    key: u64,
    value: u32,
    is_used: bool,
}

impl Default for RecentValues {
    fn default() -> RecentValues {
        RecentValues { entries: vec![RecentEntry::default()] }
    }
}

impl RecentValues {
    fn index(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.entries.len() - 1)
    }

    /// The value of a key; `None` where it is not known any more.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let entry = self.entries[self.index(key)];
        (entry.is_used && entry.key == key).then_some(entry.value)
    }

    /// Keeps the value of a key of so many. A table that grows forgets what it had.
    pub(crate) fn keep(&mut self, key: u64, value: u32, keys: usize) {
        if self.entries.len() < keys.min(MOST_ENTRIES) {
            self.entries = vec![RecentEntry::default(); 2 * self.entries.len()];
        }
        let index = self.index(key);
        self.entries[index] = RecentEntry { key, value, is_used: true };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_its_key_or_forgotten() {
        let mut values = RecentValues::default();
        assert_eq!(values.get(0), None);
        let mut hits = 0;
        for keys in 1..=20_000_u64 {
            let key = keys.wrapping_mul(keys) ^ 7;
            values.keep(key, keys as u32, keys as usize);
            assert_eq!(values.get(key), Some(keys as u32));
            let before = (keys - 1).wrapping_mul(keys - 1) ^ 7;
            let known = values.get(before);
            assert!(known.is_none_or(|value| u64::from(value) == keys - 1));
            hits += u32::from(known.is_some());
        }
        assert!(hits > 10_000, "{hits}");
        assert_eq!(values.entries.len(), MOST_ENTRIES);
    }
}
