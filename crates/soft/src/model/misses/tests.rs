//! The model beside lists of lines and pages that are easily seen to be right.

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
        assert!(at_once > 50 && numbers.iter().all(|number| *number > 0), "{tlbs:?} {at_once} {numbers:?}");
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
