//! The model of caches sees the same instructions and accesses under translation and step by step.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use cyclometer_soft::host::protocol::TracerReport;
use cyclometer_soft::host::stepped_windows::{EveryStep, MissObserver};
use cyclometer_soft::model::misses::{CacheSize, ModelSizes, TlbSizes};
use cyclometer_sys::process::{Launcher, Reap, Request, Traced, reap};
use support::programs::{BARE, BuildRecipe, build};
use support::ready;
use support::run::{TestJob, TraceMethod, settings};

/// Small caches: a small program misses them. The number of sets of the last one is no power of two.
const CACHES: [CacheSize; 3] = [
    CacheSize { sets: 16, ways: 2, line_bytes: 64 },
    CacheSize { sets: 16, ways: 4, line_bytes: 64 },
    CacheSize { sets: 48, ways: 8, line_bytes: 64 },
];

/// Counts of each instruction by the path and offset of its file: instructions, data references, misses of
/// L1I, L1D and the last level, branches, mispredictions, misses of the TLBs of instructions, of data and
/// the second level.
type Rows = BTreeMap<(Option<String>, u64), [u64; 10]>;

/// Pages of 4 KiB.
const fn tlb(sets: u64, ways: usize) -> CacheSize {
    CacheSize { sets, ways, line_bytes: 4096 }
}

/// With TLBs that small programs miss.
const SMALL_TLBS: ModelSizes = ModelSizes {
    caches: CACHES,
    tlbs: Some(TlbSizes { itlb: tlb(1, 1), dtlb: tlb(2, 2), second_sets: 3, second_ways: 2 }),
};

fn translated(program: &Path, sizes: impl Into<ModelSizes>) -> (Rows, TracerReport) {
    let settings = settings().with_caches(sizes);
    let mut running = TestJob::new(program, &[]).direct().start(TraceMethod::Soft(settings));
    running.wait();
    let report = running.whole_report();
    let path = |object: Option<u32>| {
        let file = report.code.objects.iter().find(|file| Some(file.number) == object)?;
        Some(file.path.clone())
    };
    let mut rows = Rows::new();
    for (place, counts) in &report.code.modelled {
        assert!(rows.insert((path(place.object), place.offset), *counts).is_none(), "two rows of {place:?}");
    }
    (rows, report)
}

fn stepped(program: &Path, sizes: impl Into<ModelSizes>) -> Rows {
    let launcher = Launcher::start().unwrap();
    let null = File::options().read(true).write(true).open("/dev/null").unwrap();
    let request = Request {
        program: program.as_os_str(),
        args: &[],
        stdin: Some(null.as_fd()),
        stdout: Some(null.as_fd()),
        stderr: Some(null.as_fd()),
        traced: Some(Traced { fixed_layout: true }),
    };
    let mut pending = launcher.spawn(&request).unwrap();
    let pid = pending.pid();
    let mut every = EveryStep::of(pid, MissObserver::new(sizes)).unwrap();
    pending.release();
    every.run(|| false);
    assert_eq!(every.left(), None);
    while reap(pid, Reap::Poll).unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let sites = every.observer().sites().iter();
    sites
        .filter(|site| site.counts.instructions > 0)
        .map(|site| {
            let counts = &site.counts;
            let [l1i, l1d, ll, wrong] =
                [counts.l1i, counts.l1d, counts.ll, counts.mispredictions].map(|misses| misses.known);
            let [itlb, dtlb, stlb] = [counts.itlb, counts.dtlb, counts.stlb].map(|misses| misses.known);
            let (executed, references) = (counts.instructions, counts.data_references);
            let numbers = [executed, references, l1i, l1d, ll, counts.branches, wrong, itlb, dtlb, stlb];
            ((site.path.clone(), site.offset), numbers)
        })
        .collect()
}

fn program(source: &str, flags: &[&str]) -> Option<std::path::PathBuf> {
    let flags = [BARE, flags].concat();
    ready().then(|| build(&BuildRecipe { source, flags: &flags })).flatten()
}

fn sums(rows: &Rows) -> [u64; 10] {
    rows.values().fold([0; 10], |sums, row| std::array::from_fn(|n| sums[n] + row[n]))
}

/// The rows that differ.
fn differences(ours: &Rows, theirs: &Rows) -> Vec<String> {
    let places: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differing = places.into_iter().filter(|place| ours.get(*place) != theirs.get(*place));
    differing.map(|place| format!("{:x}: {:?} {:?}", place.1, ours.get(place), theirs.get(place))).collect()
}

fn rows(source: &str, flags: &[&str], sizes: impl Into<ModelSizes>) -> Option<(Rows, Rows)> {
    let sizes = sizes.into();
    let program = program(source, flags)?;
    let (ours, report) = translated(&program, sizes);
    assert!(report.processes.iter().all(|process| process.counts.is_ok()), "{:?}", report.processes);
    let theirs = stepped(&program, sizes);
    assert!(sums(&ours)[0] > 10, "{ours:?}");
    Some((ours, theirs))
}

/// Each instruction has the same counts.
#[track_caller]
fn assert_same(source: &str, flags: &[&str], sizes: impl Into<ModelSizes>) {
    let sizes = sizes.into();
    let Some((ours, theirs)) = rows(source, flags, sizes) else { return };
    assert_eq!(differences(&ours, &theirs), [""; 0], "{source} {sizes:?}");
}

#[test]
fn each_instruction_has_the_counts_of_single_steps() {
    ["accesses.c", "copies.S", "strings.S", "units.S"]
        .into_iter()
        .for_each(|source| assert_same(source, &[], CACHES));
}

/// Direct mapped caches, one set, numbers of sets that are no power of two, and short lines. The flag gives
/// the programs files of their own: two tests that build one file at once replace it while the other runs
/// it.
#[test]
fn caches_of_any_shape_have_the_counts_of_single_steps() {
    let size = |sets, ways, line_bytes| CacheSize { sets, ways, line_bytes };
    let shapes = [
        [size(1, 1, 64), size(1, 1, 16), size(3, 1, 64)],
        [size(8, 1, 64), size(8, 1, 64), size(64, 1, 64)],
        [size(1, 6, 32), size(1, 5, 64), size(1, 12, 128)],
        [size(5, 3, 64), size(7, 2, 32), size(11, 2, 64)],
    ];
    for caches in shapes {
        ["accesses.c", "strings.S"].into_iter().for_each(|source| assert_same(source, &["-DSHAPES"], caches));
    }
}

/// One entry, one way, numbers of sets that are no power of two, pages of code and data that differ.
#[test]
fn tlbs_of_any_shape_have_the_counts_of_single_steps() {
    let tlbs = |itlb, dtlb, (second_sets, second_ways)| TlbSizes { itlb, dtlb, second_sets, second_ways };
    let large = |sets, ways| CacheSize { sets, ways, line_bytes: 16384 };
    let sizes = |tlbs| ModelSizes { caches: CACHES, tlbs: Some(tlbs) };
    for shape in [SMALL_TLBS.tlbs.unwrap(), tlbs(tlb(1, 1), large(1, 2), (2, 2))] {
        assert_same("accesses.c", &["-DTLBS"], sizes(shape));
    }
    for shape in [
        tlbs(tlb(1, 1), tlb(1, 1), (1, 1)),
        tlbs(tlb(2, 1), tlb(3, 1), (5, 1)),
        tlbs(tlb(1, 2), tlb(1, 5), (1, 7)),
    ] {
        ["strings.S", "copies.S"]
            .into_iter()
            .for_each(|source| assert_same(source, &["-DTLBS"], sizes(shape)));
    }
    let Some(program) = program("accesses.c", &["-DTLBS"]) else { return };
    let [.., itlb, dtlb, stlb] = sums(&translated(&program, SMALL_TLBS).0);
    assert!(itlb > 0 && dtlb > 1000 && stlb > 100 && stlb < itlb + dtlb, "{itlb} {dtlb} {stlb}");
}

/// Counts of caches are the same with TLBs as without, which have none then.
#[test]
fn tlbs_change_no_other_count() {
    let Some(program) = program("accesses.c", &["-DWITHOUT_TLBS"]) else { return };
    let (with, without) = (translated(&program, SMALL_TLBS).0, translated(&program, CACHES).0);
    assert_eq!(sums(&without)[7..], [0; 3]);
    let caches = |rows: &Rows| -> Vec<[u64; 7]> {
        rows.values().map(|counts| std::array::from_fn(|n| counts[n])).collect()
    };
    assert_eq!(caches(&with), caches(&without));
}

/// Misses of the load that touches so many pages in each of five rounds: of the first level, with 16 sets of
/// four ways, and of the second one, with 32 sets.
#[track_caller]
fn check_pages(pages: u64, dtlb: CacheSize, expected: [u64; 2]) {
    const ROUNDS: u64 = 5;
    let sizes = ModelSizes {
        caches: CACHES,
        tlbs: Some(TlbSizes { itlb: tlb(16, 4), dtlb, second_sets: 32, second_ways: 4 }),
    };
    let Some((ours, theirs)) = rows("pages.c", &[&format!("-DPAGES={pages}")], sizes) else { return };
    assert_eq!(differences(&ours, &theirs), [""; 0], "{pages} pages");
    let of_load: Vec<&[u64; 10]> = ours.values().filter(|counts| counts[1] > 0).collect();
    let [load] = of_load[..] else { panic!("{ours:?}") };
    assert_eq!((load[0], load[1]), (pages * ROUNDS, pages * ROUNDS));
    assert_eq!([load[8], load[9]], expected, "{pages} pages");
    // The code is in one page, or in two.
    let [.., itlb, _, stlb] = sums(&ours);
    assert!((1..=2).contains(&itlb) && stlb == expected[1] + itlb, "{ours:?}");
}

#[test]
fn a_walk_over_pages_misses_once_for_each_below_the_capacity_and_always_beyond_it() {
    let small = tlb(16, 4);
    check_pages(1, small, [1, 1]);
    check_pages(60, small, [60, 60]);
    check_pages(64, small, [64, 64]);
    // The pages of one set do not fit.
    check_pages(65, small, [65 + 4 * 5, 65]);
    check_pages(80, small, [5 * 80, 80]);
    check_pages(127, small, [5 * 127, 127]);
    check_pages(160, small, [5 * 160, 5 * 160]);
    // All in a page of 2 MiB.
    check_pages(160, CacheSize { sets: 1, ways: 2, line_bytes: 2 << 20 }, [1, 1]);
}

/// Single steps hide an instruction at each signal, here 21, and what it accesses.
#[test]
fn signals_in_the_middle_of_blocks_and_forks_change_no_more_than_their_instructions() {
    let Some((ours, theirs)) = rows("accesses.c", &["-DSIGNALS", "-DCHILD"], CACHES) else { return };
    let (ours_all, theirs_all) = (sums(&ours), sums(&theirs));
    let is_close = ours_all.iter().zip(theirs_all).all(|(ours, theirs)| ours.abs_diff(theirs) <= 21);
    assert!(is_close, "{ours_all:?} {theirs_all:?} {:#?}", differences(&ours, &theirs));
}

/// The accesses of threads interleave in another way each time. Their number does not change.
#[test]
fn every_access_of_each_thread_is_modelled() {
    let Some((ours, theirs)) = rows("accesses.c", &["-DTHREADS=3"], SMALL_TLBS) else { return };
    for rows in [&ours, &theirs] {
        let of_loop: Vec<_> = rows.values().filter(|counts| counts[1] == 3 * 20_000).collect();
        let [of_loop] = of_loop[..] else { panic!("{rows:?}") };
        // It walks over eight pages, which are more than the TLB has, some 34 times in each thread; the
        // threads may do so side by side.
        assert!((200..=3 * 35 * 8 + 600).contains(&of_loop[8]), "{of_loop:?}");
    }
}

/// The process may end while the last accesses of its threads are replayed, which are at their exits.
#[test]
fn threads_whose_process_ends_at_their_exits_are_modelled() {
    let Some(program) = program("accesses.c", &["-DTHREADS=3", "-DEXITS"]) else { return };
    for _ in 0..40 {
        let (rows, report) = translated(&program, CACHES);
        assert!(report.processes.iter().all(|process| process.counts.is_ok()), "{:?}", report.processes);
        assert!(rows.values().any(|counts| counts[1] == 3 * 20_000), "{rows:?}");
    }
}
