//! Misses of caches and TLBs of given sizes, and of a stated branch predictor.
//!
//! # The model
//!
//! - *Caches*: one of instructions, one of data, and a last level for the misses of both. Each replaces the
//!   least recently used line of a set, and allocates on writes. Addresses are those of the program. There
//!   is no prefetcher. An access over two lines touches both, and is one miss if one of them is missing.
//! - *TLBs*, where they are requested (module `tlbs`): one of instructions, one of data, and a second level
//!   for the misses of both, which replace like the caches.
//! - *Conditional branches*: 16,384 two-bit counters, by seven bits of the address and the last seven
//!   outcomes.
//! - *Indirect branches*: the last target, in 512 entries by address. Returns are no indirect branches.
//!
//! A window begins with unknown caches. With the least recently used line replaced, the contents of a set
//! are known as soon as a window has accessed as many of its lines as it has ways. Until then a line that
//! was not seen may have been there: such an access is counted apart.
//!
//! # Source
//!
//! Valgrind manual, "Cachegrind: Simulation Details", whose model this is. Mattson, Gecsei, Slutz and
//! Traiger, "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 1970: what an LRU stack
//! knows.

mod branch_tables;
mod cache_levels;
mod fast_model;
mod tlbs;

use super::BranchOutcome;
use branch_tables::BranchTables;
use cache_levels::{FirstCache, LastCache, Lookup};
use tlbs::Tlbs;

pub use tlbs::TlbSizes;

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

/// The sizes of all parts of a model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelSizes {
    /// The caches of instructions, of data, and the last level.
    pub caches: [CacheSize; 3],
    /// The TLBs, whose pages are not smaller than a line; `None`: none is modelled.
    pub tlbs: Option<TlbSizes>,
}

impl From<[CacheSize; 3]> for ModelSizes {
    /// Caches without TLBs.
    fn from(caches: [CacheSize; 3]) -> ModelSizes {
        ModelSizes { caches, tlbs: None }
    }
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
    /// Misses of the first TLB of instructions; none where TLBs are not modelled.
    pub itlb: BoundedMisses,
    /// Misses of the first TLB of data; none where TLBs are not modelled.
    pub dtlb: BoundedMisses,
    /// Misses of both levels of TLBs; none where TLBs are not modelled.
    pub stlb: BoundedMisses,
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
        self.itlb.add(other.itlb);
        self.dtlb.add(other.dtlb);
        self.stlb.add(other.stlb);
    }
}

/// The result of a look-up in a first cache and in the last level, or in two levels of TLBs.
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

/// The caches, TLBs and branch predictors of one process.
#[derive(Debug)]
pub struct MissModel {
    l1i: FirstCache,
    l1d: FirstCache,
    ll: LastCache,
    tlbs: Option<Box<Tlbs>>,
    branches: BranchTables,
    /// Data accesses are cut to the shortest line.
    longest_access: u64,
}

impl MissModel {
    /// The model of a process from its start: its caches and TLBs are empty.
    pub fn empty(sizes: impl Into<ModelSizes>) -> MissModel {
        let ModelSizes { caches: [l1i, l1d, ll], tlbs } = sizes.into();
        let longest_access = l1i.line_bytes.min(l1d.line_bytes).min(ll.line_bytes);
        MissModel {
            l1i: FirstCache::new(l1i),
            l1d: FirstCache::new(l1d),
            ll: LastCache::new(ll),
            tlbs: tlbs.map(|sizes| Box::new(Tlbs::empty(sizes))),
            branches: BranchTables::new(),
            longest_access,
        }
    }

    /// Forgets the contents of caches and TLBs: the program has run unobserved. Branch predictors keep
    /// theirs.
    pub fn begin_window(&mut self) {
        [&mut self.l1i, &mut self.l1d].into_iter().for_each(FirstCache::forget);
        self.ll.forget();
        self.tlbs.iter_mut().for_each(|tlbs| tlbs.forget());
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
            self.translate_fetch(pc, length).note(&mut counts.itlb, &mut counts.stlb);
        }
        for (address, bytes) in data {
            let bytes = self.last_byte(*bytes) + 1;
            let lookup = self.l1d.access(*address, bytes);
            counts.l1d.note(lookup);
            self.behind(lookup, *address, bytes, &mut counts);
            self.translate_data(*address, bytes).note(&mut counts.dtlb, &mut counts.stlb);
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
        let bytes = self.last_byte(bytes) + 1;
        match self.l1d.access(address, bytes) {
            Lookup::Hit => CacheLookups::HIT,
            first => self.in_last_level(first, address, bytes),
        }
    }

    /// Looks up the pages of a fetch in the TLBs; a hit where none is modelled.
    #[inline(always)]
    pub(crate) fn translate_fetch(&mut self, pc: u64, length: u64) -> CacheLookups {
        self.tlbs.as_mut().map_or(CacheLookups::HIT, |tlbs| tlbs.fetch(pc, length))
    }

    /// Looks up the pages of an access to data in the TLBs; a hit where none is modelled.
    #[inline(always)]
    pub(crate) fn translate_data(&mut self, address: u64, bytes: u64) -> CacheLookups {
        let bytes = self.last_byte(bytes) + 1;
        self.tlbs.as_mut().map_or(CacheLookups::HIT, |tlbs| tlbs.access_data(address, bytes))
    }

    /// Whether TLBs are modelled.
    pub(crate) fn has_tlbs(&self) -> bool {
        self.tlbs.is_some()
    }

    #[inline(never)]
    fn in_last_level(&mut self, first: Lookup, address: u64, bytes: u64) -> CacheLookups {
        CacheLookups { first, last: self.ll.access(address, bytes).min(first) }
    }

    /// Predicts a branch; whether that is wrong.
    pub(crate) fn branch(&mut self, pc: u64, outcome: BranchOutcome) -> bool {
        self.branches.lookup(pc, outcome) == Lookup::Miss
    }

    /// The distance of the last byte of an access of so many bytes that the model knows.
    pub(crate) fn last_byte(&self, bytes: u64) -> u64 {
        bytes.clamp(1, self.longest_access) - 1
    }

    /// The line of an address in the cache of instructions.
    pub(crate) fn code_line(&self, address: u64) -> u64 {
        address >> self.l1i.shape.line_bits
    }

    /// Whether a line of the caches of instructions has both addresses.
    pub(crate) fn is_same_line(&self, one: u64, other: u64) -> bool {
        self.code_line(one) == self.code_line(other)
    }

    /// The lines, and the pages, that a set of the first cache and TLB of data has at least.
    pub(crate) fn data_ways(&self) -> usize {
        let pages = self.tlbs.as_ref().map_or(usize::MAX, |tlbs| tlbs.dtlb.shape.size.ways);
        self.l1d.shape.size.ways.min(pages)
    }

    /// The number of elements of so many bytes in a row, from an address on, of which none leaves its line
    /// of data; 1 if the first one does.
    pub(crate) fn elements_in_line(&self, address: u64, bytes: u64, is_backward: bool) -> u64 {
        let line = self.l1d.shape.size.line_bytes;
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

#[cfg(test)]
mod tests;
