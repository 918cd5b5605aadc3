//! TLBs: those of instructions and of data, and a second level for the misses of both.
//!
//! A TLB is a cache of pages: a [`FirstCache`] or [`LastCache`] whose lines are pages.
//!
//! # Invariants
//!
//! - A page has whole lines of caches. So accesses in one line are accesses in one page, and a fetch that the
//!   replay leaves out, because its line is that of the fetch before, would hit.
//! - An access to the page of the last access of a TLB hits and changes nothing: that page is the most recent
//!   one already. [`FastTlbs`] leaves such accesses out.

use super::cache_levels::{CachePlace, FirstCache, GUESSES, LastCache, Lookup, access_guessed};
use super::{CacheLookups, CacheSize};

/// The sizes of TLBs: a line is a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TlbSizes {
    /// The first TLB of instructions.
    pub itlb: CacheSize,
    /// The first TLB of data.
    pub dtlb: CacheSize,
    /// The sets of the second level.
    pub second_sets: u64,
    /// The entries of a set of the second level.
    pub second_ways: usize,
}

/// The TLBs of one process.
#[derive(Debug)]
pub(super) struct Tlbs {
    pub(super) itlb: FirstCache,
    pub(super) dtlb: FirstCache,
    second: SecondTlb,
}

/// The second level. Its entries are pages of either size.
#[derive(Debug)]
struct SecondTlb {
    entries: LastCache,
    /// Distinguishes pages of data from those of code, if their sizes differ.
    data_mark: u64,
}

/// No page has a number with this bit.
const DATA_MARK: u64 = 1 << 63;

impl SecondTlb {
    /// Looks up a page that a first level does not have for sure.
    fn access(&mut self, page: u64, mark: u64) -> Lookup {
        let set = self.entries.shape.set_of(page);
        self.entries.access_tag(set, (page + 1) | mark)
    }
}

impl Tlbs {
    pub(super) fn empty(sizes: TlbSizes) -> Tlbs {
        let TlbSizes { itlb, dtlb, second_sets, second_ways } = sizes;
        let second = CacheSize { sets: second_sets, ways: second_ways, line_bytes: itlb.line_bytes };
        let data_mark = if itlb.line_bytes == dtlb.line_bytes { 0 } else { DATA_MARK };
        Tlbs {
            itlb: FirstCache::new(itlb),
            dtlb: FirstCache::new(dtlb),
            second: SecondTlb { entries: LastCache::new(second), data_mark },
        }
    }

    /// Forgets all entries: the program has run unobserved.
    pub(super) fn forget(&mut self) {
        [&mut self.itlb, &mut self.dtlb].into_iter().for_each(FirstCache::forget);
        self.second.entries.forget();
    }

    /// Fetches an instruction.
    pub(super) fn fetch(&mut self, pc: u64, length: u64) -> CacheLookups {
        let Tlbs { itlb, second, .. } = self;
        access(itlb, pc, length, |page| second.access(page, 0))
    }

    /// Accesses data.
    pub(super) fn access_data(&mut self, address: u64, bytes: u64) -> CacheLookups {
        let Tlbs { dtlb, second, .. } = self;
        let mark = second.data_mark;
        access(dtlb, address, bytes, |page| second.access(page, mark))
    }

    /// The parts that accesses need which hit.
    #[inline(always)]
    pub(super) fn fast(&mut self) -> FastTlbs<'_> {
        let Tlbs { itlb, dtlb, .. } = self;
        FastTlbs { code: FastTlb::of(itlb), data: FastTlb::of(dtlb) }
    }
}

/// Accesses bytes in one page or in two; one that a level lacks makes it a miss there.
fn access(
    first: &mut FirstCache,
    address: u64,
    bytes: u64,
    mut second: impl FnMut(u64) -> Lookup,
) -> CacheLookups {
    let (one, other) = first.shape.lines_of(address, bytes);
    let mut in_page = |page| match first.access_line(page) {
        Lookup::Hit => CacheLookups::HIT,
        // Both have to have missed it.
        lookup => CacheLookups { first: lookup, last: second(page).min(lookup) },
    };
    let found = in_page(one);
    if one == other {
        return found;
    }
    let further = in_page(other);
    CacheLookups { first: found.first.max(further.first), last: found.last.max(further.last) }
}

/// The parts of both first levels that accesses need which hit.
pub(super) struct FastTlbs<'a> {
    code: FastTlb<'a>,
    data: FastTlb<'a>,
}

struct FastTlb<'a> {
    guesses: &'a [u16; GUESSES],
    places: &'a mut [CachePlace],
    page_bits: u32,
    /// The page of the last access; [`NO_PAGE`]: unknown.
    last: u64,
    clock: &'a mut u64,
}

/// No page has this number.
const NO_PAGE: u64 = u64::MAX;

impl<'a> FastTlb<'a> {
    #[inline(always)]
    fn of(cache: &'a mut FirstCache) -> FastTlb<'a> {
        let FirstCache { shape, places, guesses, clock, .. } = cache;
        FastTlb { guesses, places, page_bits: shape.line_bits, last: NO_PAGE, clock }
    }

    /// Accesses bytes in one page or in several, if the model finds them at once.
    #[inline(always)]
    fn hits(&mut self, first: u64, last: u64) -> bool {
        let (first, last) = (first >> self.page_bits, last >> self.page_bits);
        if first == last { self.hits_page(first) } else { (first..=last).all(|page| self.hits_page(page)) }
    }

    #[inline(always)]
    fn hits_page(&mut self, page: u64) -> bool {
        if page == self.last {
            return true;
        }
        *self.clock += 1;
        let is_hit = access_guessed(self.guesses, self.places, page, *self.clock);
        self.last = if is_hit { page } else { self.last };
        is_hit
    }
}

impl FastTlbs<'_> {
    /// Fetches the bytes from one to another, if the model finds their pages at once: each hits. Otherwise it
    /// may have fetched from the first ones, and a fetch of all of them has to follow.
    #[inline(always)]
    pub(super) fn fetch(&mut self, first: u64, last: u64) -> bool {
        self.code.hits(first, last)
    }

    /// The same for an access to data, which lies in one line.
    #[inline(always)]
    pub(super) fn hits_data(&mut self, address: u64) -> bool {
        self.data.hits_page(address >> self.data.page_bits)
    }
}
