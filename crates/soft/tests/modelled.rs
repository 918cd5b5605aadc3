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
use cyclometer_soft::model::misses::CacheSize;
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
/// L1I, L1D and the last level, branches, mispredictions.
type Rows = BTreeMap<(Option<String>, u64), [u64; 7]>;

fn translated(program: &Path, caches: [CacheSize; 3]) -> (Rows, TracerReport) {
    let settings = settings().with_caches(caches);
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

fn stepped(program: &Path, caches: [CacheSize; 3]) -> Rows {
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
    let mut every = EveryStep::of(pid, MissObserver::new(caches)).unwrap();
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
            let numbers = [counts.instructions, counts.data_references, l1i, l1d, ll, counts.branches, wrong];
            ((site.path.clone(), site.offset), numbers)
        })
        .collect()
}

fn program(source: &str, flags: &[&str]) -> Option<std::path::PathBuf> {
    let flags = [BARE, flags].concat();
    ready().then(|| build(&BuildRecipe { source, flags: &flags })).flatten()
}

fn sums(rows: &Rows) -> [u64; 7] {
    rows.values().fold([0; 7], |sums, row| std::array::from_fn(|n| sums[n] + row[n]))
}

/// The rows that differ.
fn differences(ours: &Rows, theirs: &Rows) -> Vec<String> {
    let places: std::collections::BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    let differing = places.into_iter().filter(|place| ours.get(*place) != theirs.get(*place));
    differing.map(|place| format!("{:x}: {:?} {:?}", place.1, ours.get(place), theirs.get(place))).collect()
}

fn rows(source: &str, flags: &[&str], caches: [CacheSize; 3]) -> Option<(Rows, Rows)> {
    let program = program(source, flags)?;
    let (ours, report) = translated(&program, caches);
    assert!(report.processes.iter().all(|process| process.counts.is_ok()), "{:?}", report.processes);
    let theirs = stepped(&program, caches);
    assert!(sums(&ours)[0] > 10, "{ours:?}");
    Some((ours, theirs))
}

/// Each instruction has the same counts.
#[track_caller]
fn assert_same(source: &str, flags: &[&str], caches: [CacheSize; 3]) {
    let Some((ours, theirs)) = rows(source, flags, caches) else { return };
    assert_eq!(differences(&ours, &theirs), [""; 0], "{source} {caches:?}");
}

#[test]
fn each_instruction_has_the_counts_of_single_steps() {
    ["accesses.c", "copies.S", "strings.S", "units.S"]
        .into_iter()
        .for_each(|source| assert_same(source, &[], CACHES));
}

/// Direct mapped caches, one set, numbers of sets that are no power of two, and short lines. The flag gives
/// the programs files of their own: two tests that build one file at once replace it while the other runs it.
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
    let Some((ours, theirs)) = rows("accesses.c", &["-DTHREADS=3"], CACHES) else { return };
    for rows in [&ours, &theirs] {
        let of_loop = rows.values().filter(|counts| counts[1] == 3 * 20_000);
        assert_eq!(of_loop.count(), 1, "{rows:?}");
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
