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

mod tlbs;

use super::BranchOutcome;
use tlbs::{FastTlbs, Tlbs};

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

/// The result of a look-up in a cache or a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Lookup {
    Hit,
    Unknown,
    Miss,
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

    /// The parts that accesses need which hit. `TLBS` says whether TLBs are modelled: without them, nothing
    /// is done for them.
    #[inline(always)]
    pub(crate) fn fast<const TLBS: bool>(&mut self) -> FastModel<'_, TLBS> {
        let MissModel { l1i, l1d, tlbs, branches, .. } = self;
        FastModel {
            tlbs: tlbs.as_mut().filter(|_| TLBS).map(|tlbs| tlbs.fast()),
            clock: l1i.clock.max(l1d.clock),
            history: branches.history,
            code_guesses: &l1i.guesses,
            data_guesses: &l1d.guesses,
            code_places: &mut l1i.places,
            data_places: &mut l1d.places,
            data_bits: l1d.shape.line_bits,
            data_mask: l1d.shape.size.line_bytes.wrapping_neg(),
            counters: &mut branches.counters,
            targets: &mut branches.targets,
            clocks: [&mut l1i.clock, &mut l1d.clock],
            last_history: &mut branches.history,
        }
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

/// The size of a cache, for the arithmetic of addresses.
#[derive(Clone, Copy, Debug)]
struct CacheShape {
    size: CacheSize,
    line_bits: u32,
    /// One less than the number of sets, where that is a power of two.
    mask: Option<u64>,
}

impl CacheShape {
    fn of(size: CacheSize) -> CacheShape {
        let mask = size.sets.is_power_of_two().then(|| size.sets - 1);
        CacheShape { size, line_bits: size.line_bytes.trailing_zeros(), mask }
    }

    /// The number of lines.
    fn lines(&self) -> usize {
        usize::try_from(self.size.sets).unwrap_or(0) * self.size.ways
    }

    /// The set of a line.
    fn set_of(&self, line: u64) -> usize {
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.size.sets,
        };
        set as usize
    }

    /// The first and the last line of some bytes.
    #[inline(always)]
    fn lines_of(&self, address: u64, bytes: u64) -> (u64, u64) {
        (address >> self.line_bits, address.wrapping_add(bytes - 1) >> self.line_bits)
    }
}

/// Guesses of a first cache: a power of two.
const GUESSES: usize = 2048;

/// A first cache. Most of its accesses hit, so a hit is what is fast: a table guesses the place of the line,
/// and the place notes the time.
#[derive(Debug)]
struct FirstCache {
    shape: CacheShape,
    /// For each set the places of its lines. The least recent one is replaced.
    places: Vec<CachePlace>,
    /// The place of the last line with these lower bits; any place may be wrong.
    guesses: Box<[u16; GUESSES]>,
    /// The number of accesses so far.
    clock: u64,
    /// Whether the cache was empty when the program began.
    is_from_the_start: bool,
}

/// A place for a line.
#[derive(Clone, Copy, Debug)]
struct CachePlace {
    line: u64,
    /// The time of its last access; 0: it has no line.
    accessed: u64,
}

impl CachePlace {
    /// A line has 16 bytes at least, so no line has this number.
    const EMPTY: CachePlace = CachePlace { line: u64::MAX, accessed: 0 };
}

impl FirstCache {
    fn new(size: CacheSize) -> FirstCache {
        let shape = CacheShape::of(size);
        FirstCache {
            shape,
            places: vec![CachePlace::EMPTY; shape.lines()],
            guesses: Box::new([0; GUESSES]),
            clock: 0,
            is_from_the_start: true,
        }
    }

    fn forget(&mut self) {
        self.places.fill(CachePlace::EMPTY);
        self.is_from_the_start = false;
    }

    /// Accesses bytes that lie in one line or in two.
    #[inline(always)]
    fn access(&mut self, address: u64, bytes: u64) -> Lookup {
        let (first, last) = self.shape.lines_of(address, bytes);
        let found = self.access_line(first);
        match first == last {
            true => found,
            false => found.max(self.access_line(last)),
        }
    }

    #[inline(always)]
    fn access_line(&mut self, line: u64) -> Lookup {
        if self.is_guessed(line) { Lookup::Hit } else { self.search(line) }
    }

    /// Accesses a line if the table guesses its place.
    #[inline(always)]
    fn is_guessed(&mut self, line: u64) -> bool {
        let is_hit = access_guessed(&self.guesses, &mut self.places, line, self.clock + 1);
        self.clock += u64::from(is_hit);
        is_hit
    }

    /// Accesses a line whose place is not known.
    #[inline(never)]
    fn search(&mut self, line: u64) -> Lookup {
        let start = self.shape.set_of(line) * self.shape.size.ways;
        let set = &mut self.places[start..start + self.shape.size.ways];
        let (mut oldest, mut first, mut found) = (0, u64::MAX, None);
        for (way, place) in set.iter().enumerate() {
            if place.accessed < first {
                (oldest, first) = (way, place.accessed);
            }
            if place.line == line {
                found = Some(way);
            }
        }
        let way = found.unwrap_or(oldest);
        let was_empty = set[way].accessed == 0;
        self.clock += 1;
        set[way] = CachePlace { line, accessed: self.clock };
        // A place beyond 65,535 is never guessed: another one is, which has another line.
        self.guesses[line as usize % GUESSES] = (start + way) as u16;
        match found {
            Some(_) => Lookup::Hit,
            // The first window begins with an empty cache.
            None if was_empty && !self.is_from_the_start => Lookup::Unknown,
            None => Lookup::Miss,
        }
    }
}

/// Accesses a line at a time if the table guesses its place. It may be in the cache otherwise; then nothing
/// changes.
#[inline(always)]
fn access_guessed(guesses: &[u16; GUESSES], places: &mut [CachePlace], line: u64, clock: u64) -> bool {
    let guess = guesses[line as usize % GUESSES];
    let Some(place) = places.get_mut(usize::from(guess)).filter(|place| place.line == line) else {
        return false;
    };
    place.accessed = clock;
    true
}

/// The parts of a model that accesses need which hit, and branches of a program that is modelled from its
/// start. A loop can keep them in registers. [`FastModel::end`] has to follow.
pub(crate) struct FastModel<'a, const TLBS: bool> {
    tlbs: Option<FastTlbs<'a>>,
    clock: u64,
    history: usize,
    code_guesses: &'a [u16; GUESSES],
    data_guesses: &'a [u16; GUESSES],
    code_places: &'a mut [CachePlace],
    data_places: &'a mut [CachePlace],
    data_bits: u32,
    /// The bits of an address that its line has.
    data_mask: u64,
    counters: &'a mut [u8; COUNTERS],
    targets: &'a mut [Option<u64>],
    clocks: [&'a mut u64; 2],
    last_history: &'a mut usize,
}

impl<const TLBS: bool> FastModel<'_, TLBS> {
    /// Looks up the pages of a fetch from one byte to another, if the model finds all of them at once: each
    /// hits. [`MissModel::translate_fetch`] has to follow otherwise, as for [`FastModel::fetch`].
    #[inline(always)]
    pub(crate) fn translates_fetch(&mut self, first: u64, last: u64) -> bool {
        !TLBS || self.tlbs.as_mut().is_none_or(|tlbs| tlbs.fetch(first, last))
    }

    /// Fetches from lines in a row, if the model finds all of them at once: each hits. Otherwise it may have
    /// fetched from the first ones, and a fetch of all of them has to follow, by [`MissModel::fetch`].
    #[inline(always)]
    pub(crate) fn fetch(&mut self, first: u64, lines: u16) -> bool {
        self.fetch_line(first)
            && (lines == 1 || (1..u64::from(lines)).all(|line| self.fetch_line(first + line)))
    }

    #[inline(always)]
    fn fetch_line(&mut self, line: u64) -> bool {
        self.clock += 1;
        access_guessed(self.code_guesses, self.code_places, line, self.clock)
    }

    /// Accesses data, if the model finds it and its page at once: both hit. [`MissModel::access_data`] and
    /// [`MissModel::translate_data`] have to follow otherwise. `last` is the distance of the last byte,
    /// below the length of each line.
    #[inline(always)]
    pub(crate) fn hits_data(&mut self, address: u64, last: u8) -> bool {
        let end = address.wrapping_add(last.into());
        self.clock += 1;
        (address ^ end) & self.data_mask == 0
            && access_guessed(self.data_guesses, self.data_places, address >> self.data_bits, self.clock)
            && (!TLBS || self.tlbs.as_mut().is_none_or(|tlbs| tlbs.hits_data(address)))
    }

    /// Predicts a conditional branch; whether that is wrong.
    #[inline(always)]
    pub(crate) fn conditional_branch(&mut self, pc: u64, taken: bool) -> bool {
        let before = count_outcome(self.counters, &mut self.history, pc, taken);
        (before & 2 != 0) != taken
    }

    /// Predicts an indirect branch; whether that is wrong.
    #[inline(always)]
    pub(crate) fn indirect_branch(&mut self, pc: u64, target: u64) -> bool {
        let entry = self.targets.get_mut(pc as usize % TARGETS);
        entry.is_none_or(|entry| entry.replace(target) != Some(target))
    }

    /// Gives the model what has changed.
    #[inline(always)]
    pub(crate) fn end(self) {
        self.clocks.into_iter().for_each(|clock| *clock = self.clock);
        *self.last_history = self.history;
    }
}

/// The last level, which is large and accessed rarely: what counts is how much memory of ours an access
/// needs.
#[derive(Debug)]
struct LastCache {
    shape: CacheShape,
    /// For each set its most recent line plus one; 0: none. Memory that is not written takes no time.
    recent: Vec<u64>,
    /// The other lines of each set in the same form, the most recent first.
    others: Vec<u64>,
    is_from_the_start: bool,
}

impl LastCache {
    fn new(size: CacheSize) -> LastCache {
        let shape = CacheShape::of(size);
        let sets = usize::try_from(size.sets).unwrap_or(0);
        LastCache {
            shape,
            recent: vec![0; sets],
            others: vec![0; shape.lines() - sets],
            is_from_the_start: true,
        }
    }

    fn forget(&mut self) {
        self.recent.fill(0);
        self.others.fill(0);
        self.is_from_the_start = false;
    }

    fn access(&mut self, address: u64, bytes: u64) -> Lookup {
        let (first, last) = self.shape.lines_of(address, bytes);
        let found = self.access_line(first);
        match first == last {
            true => found,
            false => found.max(self.access_line(last)),
        }
    }

    fn access_line(&mut self, line: u64) -> Lookup {
        self.access_tag(self.shape.set_of(line), line + 1)
    }

    /// Accesses an entry of a set. Its tag is not 0.
    fn access_tag(&mut self, set: usize, tag: u64) -> Lookup {
        let mut moved = std::mem::replace(&mut self.recent[set], tag);
        if moved == tag {
            return Lookup::Hit;
        }
        let others = self.shape.size.ways - 1;
        for held in &mut self.others[set * others..(set + 1) * others] {
            // Lines are moved up to the one that was accessed, or to the first free place.
            if moved == 0 {
                break;
            }
            std::mem::swap(held, &mut moved);
            if moved == tag {
                return Lookup::Hit;
            }
        }
        // The set was not full if nothing had to leave it. The first window begins with an empty cache.
        if moved == 0 && !self.is_from_the_start { Lookup::Unknown } else { Lookup::Miss }
    }
}

/// Bits of an address, and outcomes, that choose a counter.
const ADDRESS_BITS: u32 = 7;
const HISTORY_BITS: u32 = 7;

/// Targets of indirect branches.
const TARGETS: usize = 512;

/// Counters of conditional branches.
const COUNTERS: usize = 1 << (ADDRESS_BITS + HISTORY_BITS);

/// The state of a two-bit counter that was not used yet. It predicts as 0 does.
const UNUSED: u8 = 4;

/// The next state of a two-bit counter, by the state and the outcome.
const AFTER: [[u8; 2]; 8] = [[0, 1], [0, 2], [1, 3], [2, 3], [0, 1], [0, 1], [0, 1], [0, 1]];

/// The branch predictors.
#[derive(Debug)]
struct BranchTables {
    counters: Box<[u8; COUNTERS]>,
    history: usize,
    targets: Vec<Option<u64>>,
    /// Whether every branch of the program was seen.
    is_from_the_start: bool,
}

impl BranchTables {
    fn new() -> BranchTables {
        BranchTables {
            counters: Box::new([UNUSED; COUNTERS]),
            history: 0,
            targets: vec![None; TARGETS],
            is_from_the_start: true,
        }
    }

    /// Predicts a branch, and learns its outcome; a hit is a right prediction.
    fn lookup(&mut self, pc: u64, outcome: BranchOutcome) -> Lookup {
        let (was_known, is_right) = match outcome {
            BranchOutcome::Conditional { taken } => {
                let before = count_outcome(&mut self.counters, &mut self.history, pc, taken);
                (before != UNUSED, (before & 2 != 0) == taken)
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

/// Gives a conditional branch to its counter, without a branch of ours that depends on it. The state of the
/// counter before.
#[inline(always)]
fn count_outcome(counters: &mut [u8; COUNTERS], history: &mut usize, pc: u64, taken: bool) -> u8 {
    let address = pc as usize % (1 << ADDRESS_BITS);
    let before = *history % (1 << HISTORY_BITS);
    *history = before << 1 | usize::from(taken);
    let counter = &mut counters[before << ADDRESS_BITS | address];
    let state = *counter;
    *counter = AFTER[usize::from(state % 8)][usize::from(taken)];
    state
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

    /// Lines of sets, the most recent first, without anything that makes it fast.
    struct PlainCache(CacheSize, Vec<Vec<u64>>);

    impl PlainCache {
        fn new(size: CacheSize) -> PlainCache {
            PlainCache(size, vec![Vec::new(); usize::try_from(size.sets).unwrap()])
        }

        fn access(&mut self, address: u64, bytes: u64) -> Lookup {
            let line = |address: u64| address / self.0.line_bytes;
            let (first, last) = (line(address), line(address + bytes - 1));
            (first..=last).map(|line| self.access_line(line)).max().unwrap()
        }

        fn access_line(&mut self, line: u64) -> Lookup {
            let set = &mut self.1[usize::try_from(line % self.0.sets).unwrap()];
            let (known, held) = (set.iter().position(|held| *held == line), set.len());
            set.insert(0, line);
            match known {
                Some(at) => drop(set.remove(at + 1)),
                None => set.truncate(self.0.ways),
            }
            match (known, held < self.0.ways) {
                (Some(_), _) => Lookup::Hit,
                (None, true) => Lookup::Unknown,
                (None, false) => Lookup::Miss,
            }
        }
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// Direct mapped, one set, one line, numbers of sets that are no power of two, more lines than guesses.
    const SIZES: [CacheSize; 7] = [
        SMALL,
        CacheSize { sets: 64, ways: 1, line_bytes: 32 },
        CacheSize { sets: 1, ways: 12, line_bytes: 64 },
        CacheSize { sets: 1, ways: 1, line_bytes: 16 },
        CacheSize { sets: 48, ways: 3, line_bytes: 64 },
        CacheSize { sets: 4096, ways: 2, line_bytes: 64 },
        CacheSize { sets: 5000, ways: 16, line_bytes: 128 },
    ];

    /// Addresses of which many are near each other, and some an alias of another in the table of guesses.
    fn addresses(seed: u64, lines: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        (0..100_000).map(move |_| {
            let far = [0, 1, 2, 2048][random(&mut state) as usize % 4] * 64;
            random(&mut state) % (1 + lines.pow(2 - random(&mut state) as u32 % 2) * 20) + far
        })
    }

    #[test]
    fn each_cache_agrees_with_a_list_of_lines() {
        for size in SIZES {
            let mut first = FirstCache::new(size);
            let mut last = LastCache::new(size);
            let mut plain = PlainCache::new(size);
            first.forget();
            last.forget();
            let lines = size.sets * size.ways as u64;
            let mut found = [0; 3];
            for (n, address) in addresses(7, lines.min(4000)).enumerate() {
                let bytes = [1, 4, 8, 16][n % 4];
                let expected = plain.access(address, bytes);
                found[expected as usize] += 1;
                assert_eq!(first.access(address, bytes), expected, "{size:?} {address:#x}");
                assert_eq!(last.access(address, bytes), expected, "{size:?} {address:#x}");
            }
            assert!(found[0] > 100 && found[1] > 0 && (found[2] > 100 || lines > 5000), "{size:?} {found:?}");
        }
    }

    /// Pages of sets, the most recent first, with a mark of those of data where these have another size.
    struct PlainTlb {
        size: (u64, usize),
        sets: Vec<Vec<(u64, bool)>>,
    }

    impl PlainTlb {
        fn new(sets: u64, ways: usize) -> PlainTlb {
            PlainTlb { size: (sets, ways), sets: vec![Vec::new(); usize::try_from(sets).unwrap()] }
        }

        fn access(&mut self, page: u64, is_marked: bool) -> Lookup {
            let (sets, ways) = self.size;
            let set = &mut self.sets[usize::try_from(page % sets).unwrap()];
            let (held, before) = (set.contains(&(page, is_marked)), set.len());
            set.retain(|one| *one != (page, is_marked));
            set.insert(0, (page, is_marked));
            set.truncate(ways);
            match (held, before < ways) {
                (true, _) => Lookup::Hit,
                (false, true) => Lookup::Unknown,
                (false, false) => Lookup::Miss,
            }
        }
    }

    /// A fetch or an access of bytes from one to another, which are in one line or, if it is a fetch, in any
    /// number of lines.
    #[derive(Clone, Copy, Debug)]
    struct PageAccess {
        is_data: bool,
        first: u64,
        last: u64,
    }

    /// Accesses near each other and far away, to few pages and to many.
    fn page_accesses(seed: u64) -> Vec<PageAccess> {
        let mut state = seed;
        let mut one = || {
            let is_data = [true, true, false][random(&mut state) as usize % 3];
            let pages = [2, 7, 40, 3000][random(&mut state) as usize % 4];
            let page = random(&mut state) % pages + [0, 2048][random(&mut state) as usize % 2];
            // One of a few lines.
            let first = page * 4096 + random(&mut state) % 2 * 4032 + random(&mut state) % 64;
            let bytes = if is_data { 1 + random(&mut state) % 8 } else { 1 + random(&mut state) % 9000 };
            PageAccess { is_data, first, last: first + bytes - 1 }
        };
        (0..60_000).map(|_| one()).collect()
    }

    /// The results of a list of pages for each access: of the first level and of the second one.
    fn expected(sizes: TlbSizes, accesses: &[PageAccess]) -> Vec<CacheLookups> {
        let TlbSizes { itlb, dtlb, second_sets, second_ways } = sizes;
        let mut first = [itlb, dtlb].map(|size| PlainTlb::new(size.sets, size.ways));
        let mut second = PlainTlb::new(second_sets, second_ways);
        let are_apart = itlb.line_bytes != dtlb.line_bytes;
        let mut of_access = |access: &PageAccess| {
            let kind = usize::from(access.is_data);
            let page_bytes = [itlb, dtlb][kind].line_bytes;
            let mut found = CacheLookups::HIT;
            for page in access.first / page_bytes..=access.last / page_bytes {
                let in_first = first[kind].access(page, false);
                found.first = found.first.max(in_first);
                if in_first != Lookup::Hit {
                    let in_second = second.access(page, access.is_data && are_apart);
                    found.last = found.last.max(in_second.min(in_first));
                }
            }
            found
        };
        accesses.iter().map(&mut of_access).collect()
    }

    /// One entry, one way, odd numbers of sets, more entries than guesses, and pages of two sizes.
    fn tlb_shapes() -> Vec<TlbSizes> {
        let pages = |sets, ways, line_bytes| CacheSize { sets, ways, line_bytes };
        let small = |sets, ways| pages(sets, ways, 4096);
        let of = |itlb, dtlb, (second_sets, second_ways)| TlbSizes { itlb, dtlb, second_sets, second_ways };
        vec![
            of(small(8, 8), small(16, 4), (128, 12)),
            of(small(1, 64), small(1, 64), (256, 8)),
            of(small(1, 1), small(1, 1), (1, 1)),
            of(small(3, 1), small(5, 2), (7, 3)),
            of(small(4, 1), small(1500, 2), (2, 1)),
            of(small(2, 2), pages(2, 2, 1 << 21), (3, 4)),
            of(pages(1, 2, 65536), pages(2, 2, 4096), (8, 2)),
        ]
    }

    /// The accesses that a loop finds at once, and those that it leaves to the model, together.
    #[test]
    fn tlbs_agree_with_lists_of_pages_whether_they_are_asked_at_once_or_not() {
        for tlbs in tlb_shapes() {
            let sizes = ModelSizes { caches: [LARGE; 3], tlbs: Some(tlbs) };
            let [mut fast, mut slow] = [0; 2].map(|_| MissModel::empty(sizes));
            [&mut fast, &mut slow].into_iter().for_each(MissModel::begin_window);
            let accesses = page_accesses(13);
            let expected = expected(tlbs, &accesses);
            let translate = |model: &mut MissModel, access: PageAccess| {
                let PageAccess { is_data, first, last } = access;
                if is_data {
                    model.access_data(first, last - first + 1);
                    return model.translate_data(first, last - first + 1);
                }
                // A fetch of many bytes is one of several instructions.
                let of_page = |page: u64| model.translate_fetch(first.max(page * 4096), 1);
                let found: Vec<CacheLookups> = (first / 4096..=last / 4096).map(of_page).collect();
                let worst = |level: fn(&CacheLookups) -> Lookup| found.iter().map(level).max().unwrap();
                CacheLookups { first: worst(|one| one.first), last: worst(|one| one.last) }
            };
            let (mut at, mut at_once) = (0, 0);
            while at < accesses.len() {
                let mut loop_parts = fast.fast::<true>();
                while let Some(PageAccess { is_data, first, last }) = accesses.get(at).copied() {
                    let is_hit = match is_data {
                        true => loop_parts.hits_data(first, (last - first) as u8),
                        false => loop_parts.translates_fetch(first, last),
                    };
                    if !is_hit {
                        break;
                    }
                    assert_eq!(expected[at], CacheLookups::HIT, "{tlbs:?} {at} {:?}", accesses[at]);
                    (at, at_once) = (at + 1, at_once + 1);
                }
                loop_parts.end();
                if let Some(access) = accesses.get(at) {
                    assert_eq!(translate(&mut fast, *access), expected[at], "{tlbs:?} {at} {access:?}");
                    at += 1;
                }
            }
            for (access, expected) in accesses.iter().zip(&expected) {
                assert_eq!(translate(&mut slow, *access), *expected, "{tlbs:?} {access:?}");
            }
            let of = |one: Lookup| expected.iter().filter(|found| found.first == one).count();
            let numbers = [of(Lookup::Hit), of(Lookup::Unknown), of(Lookup::Miss)];
            assert!(
                at_once > 50 && numbers.iter().all(|number| *number > 0),
                "{tlbs:?} {at_once} {numbers:?}"
            );
        }
    }

    #[test]
    fn an_access_over_two_pages_is_one_miss_and_only_a_missing_page_goes_to_the_second_level() {
        let small = CacheSize { sets: 1, ways: 2, line_bytes: 4096 };
        let tlbs = TlbSizes { itlb: small, dtlb: small, second_sets: 1, second_ways: 2 };
        let mut model = MissModel::empty(ModelSizes { caches: [LARGE; 3], tlbs: Some(tlbs) });
        let mut access = |address| {
            let counts = model.execute(&load(address, 8));
            (counts.dtlb, counts.stlb)
        };
        // The code misses the second level, too. Its page, the second one, is there for the data then.
        let both = BoundedMisses { known: 2, unknown: 0 };
        assert_eq!(access(4092), (MISS, both));
        assert_eq!(access(0), (HIT, HIT));
        assert_eq!(access(8188), (MISS, MISS));
        assert_eq!([access(4096), access(8192)], [(HIT, HIT); 2]);
        // Page 4 stays in the first level, and leaves the second one.
        let page = |number: u64| number * 4096;
        let found = [page(4), page(5), page(4), page(9), page(4)].map(&mut access);
        assert_eq!(found, [(MISS, MISS), (MISS, MISS), (HIT, HIT), (MISS, MISS), (HIT, HIT)]);
        assert_eq!(access(page(5) - 4), (MISS, HIT));
    }

    /// The replay fetches all lines of a block at once where that works, and otherwise begins again.
    #[test]
    fn a_block_whose_lines_hit_leaves_the_caches_as_single_fetches_do() {
        for size in SIZES {
            let [mut blocks, mut single] = [0; 2].map(|_| MissModel::empty([size, SMALL, LARGE]));
            let (mut state, mut at_once) = (3, 0);
            for _ in 0..30_000 {
                let first = random(&mut state) % (2 + size.sets.min(3000));
                let lines: Vec<u64> = (first..first + 1 + random(&mut state) % 4).collect();
                let address = |line: &u64| line * size.line_bytes;
                let expected: Vec<CacheLookups> =
                    lines.iter().map(|line| single.fetch(address(line), 1)).collect();
                let mut fast = blocks.fast::<false>();
                let is_fetched = fast.fetch(first, lines.len() as u16);
                fast.end();
                let found: Vec<CacheLookups> = match is_fetched {
                    true => vec![CacheLookups::HIT; lines.len()],
                    false => lines.iter().map(|line| blocks.fetch(address(line), 1)).collect(),
                };
                at_once += u32::from(found.iter().all(|lookup| lookup.is_hit()));
                assert_eq!(found, expected, "{size:?} {lines:?}");
            }
            assert!(at_once > 100, "{size:?}");
        }
    }

    #[test]
    fn data_that_is_found_at_once_is_a_hit_within_one_line() {
        for size in SIZES {
            let [mut fast, mut slow] = [0; 2].map(|_| MissModel::empty([LARGE, size, LARGE]));
            let mut at_once = 0;
            for (n, address) in addresses(11, 60).enumerate() {
                let last = fast.last_byte([1, 8, 64][n % 3]);
                let mut at_once_only = fast.fast::<false>();
                let is_hit = at_once_only.hits_data(address, last as u8);
                at_once_only.end();
                at_once += u32::from(is_hit);
                let found = if is_hit { CacheLookups::HIT } else { fast.access_data(address, last + 1) };
                assert_eq!(found, slow.access_data(address, [1, 8, 64][n % 3]), "{size:?} {address:#x}");
            }
            assert!(at_once > 10, "{size:?} {at_once}");
        }
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
