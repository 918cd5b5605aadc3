//! Misses of caches of given sizes, and of a stated branch predictor.
//!
//! # The model
//!
//! - *Caches*: one of instructions, one of data, and a last level for the misses of both. Each replaces the
//!   least recently used line of a set, and allocates on writes. Addresses are those of the program. There is
//!   no prefetcher. An access over two lines touches both, and is one miss if one of them is missing.
//! - *Conditional branches*: 16,384 two-bit counters, by seven bits of the address and the last seven
//!   outcomes.
//! - *Indirect branches*: the last target, in 512 entries by address. Returns are no indirect branches.
//!
//! A window begins with unknown caches. With the least recently used line replaced, the contents of a set are
//! known as soon as a window has accessed as many of its lines as it has ways. Until then a line that was not
//! seen may have been there: such an access is counted apart.
//!
//! # Source
//!
//! Valgrind manual, "Cachegrind: Simulation Details", whose model this is. Mattson, Gecsei, Slutz and
//! Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 1970: what an LRU stack
//! knows.

use super::BranchOutcome;

/// The size of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSize {
    /// The number of sets.
    pub sets: u64,
    /// The lines of a set.
    pub ways: usize,
    /// Bytes of a line.
    pub line_bytes: u64,
}

/// An instruction for the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchedInstruction<'a> {
    /// Its address.
    pub pc: u64,
    /// Its bytes; 0: another iteration of a repeated instruction, which is not fetched again.
    pub length: u64,
    /// The addresses that it accesses, with numbers of bytes.
    pub data: &'a [(u64, u64)],
    /// The outcome of a conditional or indirect branch.
    pub branch: Option<BranchOutcome>,
}

/// Misses, and accesses that may have been misses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BoundedMisses {
    /// Accesses that missed.
    pub known: u64,
    /// Accesses of which the model does not know whether they missed, because it does not know what the
    /// program accessed before.
    pub unknown: u64,
}

/// Counts of the model, for an instruction of the program or for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MissCounts {
    /// Executed instructions.
    pub instructions: u64,
    /// Accesses to memory; one that reads and writes is one.
    pub data_references: u64,
    /// Misses of the first cache of instructions.
    pub l1i: BoundedMisses,
    /// Misses of the first cache of data.
    pub l1d: BoundedMisses,
    /// Misses of the last level.
    pub ll: BoundedMisses,
    /// Conditional and indirect branches.
    pub branches: u64,
    /// Those that were predicted wrongly.
    pub mispredictions: BoundedMisses,
}

impl BoundedMisses {
    fn add(&mut self, other: BoundedMisses) {
        self.known += other.known;
        self.unknown += other.unknown;
    }

    fn note(&mut self, lookup: Lookup) {
        match lookup {
            Lookup::Hit => {}
            Lookup::Miss => self.known += 1,
            Lookup::Unknown => self.unknown += 1,
        }
    }
}

impl MissCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &MissCounts) {
        self.instructions += other.instructions;
        self.data_references += other.data_references;
        self.l1i.add(other.l1i);
        self.l1d.add(other.l1d);
        self.ll.add(other.ll);
        self.branches += other.branches;
        self.mispredictions.add(other.mispredictions);
    }
}

/// The result of a look-up in a cache or a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lookup {
    Hit,
    Unknown,
    Miss,
}

/// The result of a look-up in a first cache and in the last level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheLookups {
    first: Lookup,
    last: Lookup,
}

impl CacheLookups {
    const HIT: CacheLookups = CacheLookups { first: Lookup::Hit, last: Lookup::Hit };

    /// Whether the first cache had it.
    #[inline(always)]
    pub(crate) fn is_hit(self) -> bool {
        self.first == Lookup::Hit
    }

    /// Notes a miss of a first cache.
    pub(crate) fn note(self, first: &mut BoundedMisses, last: &mut BoundedMisses) {
        first.note(self.first);
        last.note(self.last);
    }
}

/// The caches and branch predictors of one process.
#[derive(Debug)]
pub struct MissModel {
    l1i: LruCache,
    l1d: LruCache,
    ll: LruCache,
    branches: BranchTables,
    /// Data accesses are cut to the shortest line.
    longest_access: u64,
}

impl MissModel {
    /// The model of a process from its start: its caches are empty.
    pub fn empty([l1i, l1d, ll]: [CacheSize; 3]) -> MissModel {
        let cache = |size: CacheSize| LruCache::new(size);
        let longest_access = l1i.line_bytes.min(l1d.line_bytes).min(ll.line_bytes);
        MissModel {
            l1i: cache(l1i),
            l1d: cache(l1d),
            ll: cache(ll),
            branches: BranchTables::new(),
            longest_access,
        }
    }

    /// Forgets the contents of the caches: the program has run unobserved. Branch predictors keep theirs.
    pub fn begin_window(&mut self) {
        [&mut self.l1i, &mut self.l1d, &mut self.ll].into_iter().for_each(LruCache::forget);
        self.branches.is_from_the_start = false;
    }

    /// Executes an instruction; its counts.
    pub fn execute(&mut self, instruction: &FetchedInstruction<'_>) -> MissCounts {
        let FetchedInstruction { pc, length, data, branch } = *instruction;
        let mut counts = MissCounts { data_references: data.len() as u64, ..MissCounts::default() };
        if length > 0 {
            counts.instructions = 1;
            let lookup = self.l1i.access(pc, length);
            counts.l1i.note(lookup);
            self.behind(lookup, pc, length, &mut counts);
        }
        for (address, bytes) in data {
            let bytes = (*bytes).clamp(1, self.longest_access);
            let lookup = self.l1d.access(*address, bytes);
            counts.l1d.note(lookup);
            self.behind(lookup, *address, bytes, &mut counts);
        }
        if let Some(outcome) = branch {
            counts.branches = 1;
            counts.mispredictions.note(self.branches.lookup(pc, outcome));
        }
        counts
    }

    /// Fetches an instruction.
    #[inline(always)]
    pub(crate) fn fetch(&mut self, pc: u64, length: u64) -> CacheLookups {
        match self.l1i.access(pc, length) {
            Lookup::Hit => CacheLookups::HIT,
            first => self.in_last_level(first, pc, length),
        }
    }

    /// Accesses data.
    #[inline(always)]
    pub(crate) fn access_data(&mut self, address: u64, bytes: u64) -> CacheLookups {
        let bytes = bytes.clamp(1, self.longest_access);
        match self.l1d.access(address, bytes) {
            Lookup::Hit => CacheLookups::HIT,
            first => self.in_last_level(first, address, bytes),
        }
    }

    #[inline(never)]
    fn in_last_level(&mut self, first: Lookup, address: u64, bytes: u64) -> CacheLookups {
        CacheLookups { first, last: self.ll.access(address, bytes).min(first) }
    }

    /// Predicts a branch; whether that is wrong.
    pub(crate) fn branch(&mut self, pc: u64, outcome: BranchOutcome) -> bool {
        self.branches.lookup(pc, outcome) == Lookup::Miss
    }

    /// Whether a line of the caches of instructions has both addresses.
    pub(crate) fn is_same_line(&self, one: u64, other: u64) -> bool {
        one >> self.l1i.line_bits == other >> self.l1i.line_bits
    }

    /// The lines of a set of the first cache of data.
    pub(crate) fn data_ways(&self) -> usize {
        self.l1d.size.ways
    }

    /// The number of elements of so many bytes in a row, from an address on, of which none leaves its line of
    /// data; 1 if the first one does.
    pub(crate) fn elements_in_line(&self, address: u64, bytes: u64, is_backward: bool) -> u64 {
        let line = self.l1d.size.line_bytes;
        let offset = address & (line - 1);
        match is_backward {
            _ if offset + bytes > line => 1,
            true => offset / bytes + 1,
            false => (line - offset) / bytes,
        }
    }

    /// Looks up in the last level what the first one does not have.
    fn behind(&mut self, first: Lookup, address: u64, bytes: u64, counts: &mut MissCounts) {
        if first != Lookup::Hit {
            // Both have to have missed it.
            counts.ll.note(self.ll.access(address, bytes).min(first));
        }
    }
}

/// A cache whose least recently used line is replaced.
#[derive(Debug)]
struct LruCache {
    size: CacheSize,
    line_bits: u32,
    /// One less than the number of sets, where that is a power of two.
    mask: Option<u64>,
    /// For each set its lines, the most recent first; as many as [`LruCache::held`] says, then [`NO_LINE`].
    lines: Vec<u64>,
    held: Vec<u16>,
    /// Whether the cache was empty when the program began.
    is_from_the_start: bool,
}

/// A number that no line has: a line has 16 bytes at least.
const NO_LINE: u64 = u64::MAX;

impl LruCache {
    fn new(size: CacheSize) -> LruCache {
        let sets = usize::try_from(size.sets).unwrap_or(0);
        LruCache {
            size,
            line_bits: size.line_bytes.trailing_zeros(),
            mask: size.sets.is_power_of_two().then(|| size.sets - 1),
            lines: vec![NO_LINE; sets * size.ways],
            held: vec![0; sets],
            is_from_the_start: true,
        }
    }

    fn forget(&mut self) {
        self.lines.fill(NO_LINE);
        self.held.fill(0);
        self.is_from_the_start = false;
    }

    /// Accesses bytes that lie in one line or in two.
    #[inline(always)]
    fn access(&mut self, address: u64, bytes: u64) -> Lookup {
        let (first, last) = (address >> self.line_bits, address.wrapping_add(bytes - 1) >> self.line_bits);
        let found = self.access_line(first);
        match first == last {
            true => found,
            false => found.max(self.access_line(last)),
        }
    }

    #[inline(always)]
    fn access_line(&mut self, line: u64) -> Lookup {
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.size.sets,
        } as usize;
        if self.lines[set * self.size.ways] == line {
            return Lookup::Hit;
        }
        self.search(set, line)
    }

    /// Accesses a line that is not the most recent one of its set.
    #[inline(never)]
    fn search(&mut self, index: usize, line: u64) -> Lookup {
        let (ways, held) = (self.size.ways, usize::from(self.held[index]));
        let set = &mut self.lines[index * ways..(index + 1) * ways];
        if let Some(at) = set.iter().position(|known| *known == line) {
            set.copy_within(..at, 1);
            set[0] = line;
            return Lookup::Hit;
        }
        set.copy_within(..ways - 1, 1);
        set[0] = line;
        self.held[index] = u16::try_from((held + 1).min(ways)).unwrap_or(u16::MAX);
        // The first window begins with an empty cache.
        if held < ways && !self.is_from_the_start { Lookup::Unknown } else { Lookup::Miss }
    }
}

/// Bits of an address, and outcomes, that choose a counter.
const ADDRESS_BITS: u32 = 7;
const HISTORY_BITS: u32 = 7;

/// Targets of indirect branches.
const TARGETS: usize = 512;

/// The branch predictors.
#[derive(Debug)]
struct BranchTables {
    /// Two-bit counters; `None`: not used yet.
    counters: Vec<Option<u8>>,
    history: usize,
    targets: Vec<Option<u64>>,
    /// Whether every branch of the program was seen.
    is_from_the_start: bool,
}

impl BranchTables {
    fn new() -> BranchTables {
        BranchTables {
            counters: vec![None; 1 << (ADDRESS_BITS + HISTORY_BITS)],
            history: 0,
            targets: vec![None; TARGETS],
            is_from_the_start: true,
        }
    }

    /// Predicts a branch, and learns its outcome; a hit is a right prediction.
    fn lookup(&mut self, pc: u64, outcome: BranchOutcome) -> Lookup {
        let (was_known, is_right) = match outcome {
            BranchOutcome::Conditional { taken } => {
                let address = usize::try_from(pc & ((1 << ADDRESS_BITS) - 1)).unwrap_or(0);
                let history = self.history & ((1 << HISTORY_BITS) - 1);
                self.history = history << 1 | usize::from(taken);
                let counter = &mut self.counters[history << ADDRESS_BITS | address];
                let before = counter.unwrap_or(0);
                let after = if taken { (before + 1).min(3) } else { before.saturating_sub(1) };
                (counter.replace(after).is_some(), (before >= 2) == taken)
            }
            BranchOutcome::Indirect { target } => {
                let entry = usize::try_from(pc % TARGETS as u64).unwrap_or(0);
                let before = self.targets[entry].replace(target);
                (before.is_some(), before == Some(target))
            }
        };
        match (was_known || self.is_from_the_start, is_right) {
            (false, _) => Lookup::Unknown,
            (true, true) => Lookup::Hit,
            (true, false) => Lookup::Miss,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sets of two ways.
    const SMALL: CacheSize = CacheSize { sets: 2, ways: 2, line_bytes: 64 };
    const LARGE: CacheSize = CacheSize { sets: 64, ways: 8, line_bytes: 64 };

    fn load(address: u64, bytes: u64) -> FetchedInstruction<'static> {
        let data: &'static [(u64, u64)] = Box::leak(Box::new([(address, bytes)]));
        FetchedInstruction { pc: 0x1000, length: 4, data, branch: None }
    }

    fn misses(model: &mut MissModel, addresses: &[u64]) -> Vec<(BoundedMisses, BoundedMisses)> {
        let one = |address: &u64| {
            let counts = model.execute(&load(*address, 8));
            (counts.l1d, counts.ll)
        };
        addresses.iter().map(one).collect()
    }

    const HIT: BoundedMisses = BoundedMisses { known: 0, unknown: 0 };
    const MISS: BoundedMisses = BoundedMisses { known: 1, unknown: 0 };
    const UNKNOWN: BoundedMisses = BoundedMisses { known: 0, unknown: 1 };

    #[test]
    fn the_least_recently_used_line_is_replaced_and_the_last_level_has_it() {
        let mut model = MissModel::empty([LARGE, SMALL, LARGE]);
        // Lines 0, 2 and 4 share a set of two ways.
        let found = misses(&mut model, &[0, 128, 0, 256, 0, 128]);
        let first: Vec<BoundedMisses> = found.iter().map(|(first, _)| *first).collect();
        assert_eq!(first, [MISS, MISS, HIT, MISS, HIT, MISS]);
        assert_eq!((found[3].1, found[5].1), (MISS, HIT));
    }

    #[test]
    fn an_access_over_two_lines_is_one_miss_and_fetches_both() {
        let mut model = MissModel::empty([LARGE, LARGE, LARGE]);
        let counts = model.execute(&load(60, 8));
        assert_eq!((counts.l1d, counts.data_references), (MISS, 1));
        assert_eq!(misses(&mut model, &[0, 64]), [(HIT, HIT), (HIT, HIT)]);
    }

    #[test]
    fn a_window_knows_a_set_after_as_many_lines_as_it_has_ways() {
        let mut model = MissModel::empty([LARGE, SMALL, LARGE]);
        misses(&mut model, &[0]);
        model.begin_window();
        let found = misses(&mut model, &[0, 0, 128, 256, 0]);
        let first: Vec<BoundedMisses> = found.iter().map(|(first, _)| *first).collect();
        assert_eq!(first, [UNKNOWN, HIT, UNKNOWN, MISS, MISS]);
        assert_eq!(found[3].1, UNKNOWN, "the last level may have had it");
        assert_eq!(found[4].1, HIT);
    }

    #[test]
    fn the_highest_address_and_another_iteration_of_an_instruction_are_no_special_case() {
        let mut model = MissModel::empty([SMALL, SMALL, LARGE]);
        assert_eq!(model.execute(&load(u64::MAX, 8)).l1d, MISS);
        let again = FetchedInstruction { length: 0, ..load(0, 1) };
        let counts = model.execute(&again);
        assert_eq!((counts.instructions, counts.data_references, counts.l1i), (0, 1, HIT));
    }

    #[test]
    fn elements_of_a_line_end_with_it() {
        let model = MissModel::empty([LARGE, LARGE, LARGE]);
        let forward = |address, bytes| model.elements_in_line(address, bytes, false);
        let backward = |address, bytes| model.elements_in_line(address, bytes, true);
        assert_eq!([forward(64, 8), forward(68, 8), forward(124, 8), forward(127, 1)], [8, 7, 1, 1]);
        assert_eq!([backward(64, 8), backward(120, 8), backward(124, 8), backward(68, 8)], [1, 8, 1, 1]);
    }

    #[test]
    fn a_branch_with_a_short_period_is_learnt_and_a_changing_target_is_not() {
        let mut model = MissModel::empty([LARGE, LARGE, LARGE]);
        let mut wrong = |outcome| {
            let branch = FetchedInstruction { pc: 0x40, length: 2, data: &[], branch: Some(outcome) };
            model.execute(&branch).mispredictions.known
        };
        let periodic: Vec<u64> =
            (0..400).map(|n| wrong(BranchOutcome::Conditional { taken: n % 4 == 0 })).collect();
        assert_eq!(periodic[200..].iter().sum::<u64>(), 0);
        let targets: u64 = (0..100).map(|n| wrong(BranchOutcome::Indirect { target: n % 2 })).sum();
        assert_eq!(targets, 100);
        let steady: u64 = (0..100).map(|_| wrong(BranchOutcome::Indirect { target: 7 })).sum();
        assert_eq!(steady, 1);
    }
}
