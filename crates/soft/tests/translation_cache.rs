//! Programs that go on in what earlier runs have translated: their counts are those of a translation of their
//! own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use cyclometer_test_support::executable;
use support::caches::{TestCacheFolder, numbers};
use support::compare::{assert_same_counts, assert_same_end};
use support::programs::{BARE, BuildRecipe, build, unique};
use support::run::{TestJob, TestRun, TraceMethod, soft};
use support::{installed, ready};

/// A job with a folder of its own for profiles and translations.
struct CacheTest {
    folder: TestCacheFolder,
    job: TestJob,
}

impl CacheTest {
    fn new(job: &TestJob) -> CacheTest {
        let folder = TestCacheFolder::new(0o700);
        let job = job.clone().hinted(&folder.profiles);
        CacheTest { folder, job }
    }

    fn of(source: &str, flags: &[&str], args: &[&str]) -> Option<CacheTest> {
        let built = ready().then(|| build(&BuildRecipe { source, flags })).flatten()?;
        Some(CacheTest::new(&TestJob::new(built, args)))
    }

    /// Runs it until a translation is stored: the first run writes a profile, the second the translation.
    fn prepared(self) -> CacheTest {
        self.run();
        assert_eq!(self.folder.kept(), [] as [PathBuf; 0], "made without hints");
        self.run();
        assert!(!self.folder.kept().is_empty());
        self
    }

    fn run(&self) -> TestRun {
        self.job.run(soft())
    }

    /// Runs it, and tells how many translations were used.
    fn run_again(&self) -> (TestRun, usize) {
        let files = self.folder.kept();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        for path in &files {
            File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
        }
        let numbers_before = numbers(&files);
        let run = self.run();
        let is_used = |path: &&PathBuf| {
            let number = numbers(&[(*path).clone()])[0];
            numbers_before.contains(&number) && fs::metadata(path).unwrap().modified().unwrap() != old
        };
        let used = self.folder.kept().iter().filter(is_used).count();
        (run, used)
    }
}

#[track_caller]
fn assert_same(run: &TestRun, expected: &TestRun) {
    assert_same_end(run, expected);
    assert_same_counts(&run.counts, &expected.counts);
}

/// Every run of a program has the counts of a run without a cache.
#[track_caller]
fn check(source: &str, flags: &[&str], args: &[&str]) {
    let Some(built) = ready().then(|| build(&BuildRecipe { source, flags })).flatten() else { return };
    let job = TestJob::new(built, args);
    let expected = job.run(soft());
    let kept = CacheTest::new(&job);
    for _ in 0..2 {
        assert_same(&kept.run(), &expected);
    }
    let files = numbers(&kept.folder.kept());
    assert!(!files.is_empty());
    for _ in 0..2 {
        let (run, used) = kept.run_again();
        assert!(used > 0);
        assert_same(&run, &expected);
    }
    assert_eq!(numbers(&kept.folder.kept()), files, "nothing is written again");
}

#[test]
fn counts_are_those_of_a_new_translation() {
    check("language.c", &["-O2"], &[]);
    check("language.c", &["-O0"], &[]);
    check("objects.cc", &["-O2"], &[]);
}

#[test]
fn counts_of_the_c_library_are_those_of_a_new_translation() {
    check("library.c", &["-O2", "-lm"], &["5"]);
}

#[test]
fn counts_of_units_are_those_of_a_new_translation() {
    check("strings.S", BARE, &[]);
    check("plain.S", BARE, &[]);
    check("control.S", BARE, &[]);
}

#[test]
fn where_a_program_is_interrupted_is_known_of_a_kept_translation() {
    check("signals.c", &["-O2"], &["nested"]);
    check("signals.c", &["-O2"], &["pc"]);
}

#[test]
fn a_kept_translation_counts_as_stepped() {
    let Some(kept) = CacheTest::of("language.c", &["-O2"], &[]) else { return };
    let stepped = kept.job.run(TraceMethod::Oracle);
    let kept = kept.prepared();
    let (run, used) = kept.run_again();
    assert!(used > 0);
    assert_same(&run, &stepped);
}

#[test]
fn every_program_of_a_command_has_its_own() {
    let Some(program) = ready().then(|| build(&AGAIN)).flatten() else { return };
    let job = TestJob::new(&program, &["work 0", "work 1", "/bin/true", "work 2"]);
    let expected = job.run(soft());
    let kept = CacheTest::new(&job).prepared();
    let (run, used) = kept.run_again();
    assert!(used >= 2, "{used}");
    assert_same(&run, &expected);
}

const AGAIN: BuildRecipe<'_> = BuildRecipe { source: "again.c", flags: &["-O2", "-pthread", "-ldl"] };

fn library(value: u32) -> Option<PathBuf> {
    build(&BuildRecipe {
        source: "again.c",
        flags: &["-O2", "-shared", "-fPIC", &format!("-DVALUE={value}")],
    })
}

/// Runs programs one after another that load a library, and one before them that does not.
fn job_that_loads(library: &Path, times: usize) -> Option<TestJob> {
    let program = build(&AGAIN)?;
    let load = format!("load {}", library.display());
    Some(TestJob::new(program, &vec![load.as_str(); times]))
}

#[test]
fn a_library_that_was_replaced_between_runs_is_executed() {
    let (Some(one), Some(two)) = (library(1), library(2)) else { return };
    let target = unique("library");
    fs::copy(&one, &target).unwrap();
    let Some(job) = job_that_loads(&target, 1).filter(|_| ready()) else { return };
    let kept = CacheTest::new(&job).prepared();
    assert_eq!(kept.run().stdout, "1\n");
    // As its length and its first page are, so that only its time and what it does tell.
    fs::copy(&two, &target).unwrap();
    for _ in 0..4 {
        let run = kept.run();
        assert_eq!(run.stdout, "2\n");
        assert!(run.lost().is_empty(), "{:?}", run.lost());
    }
    assert!(kept.run_again().1 > 0, "what it is now was kept");
    fs::remove_file(target).unwrap();
}

/// Nothing but its contents tells that it was changed.
#[test]
fn a_library_that_looks_as_before_is_executed_as_it_is() {
    let (Some(one), Some(two)) = (library(1), library(2)) else { return };
    let target = unique("library");
    fs::copy(&one, &target).unwrap();
    let time = fs::metadata(&target).unwrap().modified().unwrap();
    let Some(job) = job_that_loads(&target, 1).filter(|_| ready()) else { return };
    let kept = CacheTest::new(&job).prepared();
    let (mut old, new) = (fs::read(&one).unwrap(), fs::read(&two).unwrap());
    assert_eq!(old.len(), new.len());
    // The number of the build is on its first page.
    old[4096..].copy_from_slice(&new[4096..]);
    fs::write(&target, &old).unwrap();
    File::options().write(true).open(&target).unwrap().set_modified(time).unwrap();
    let (run, used) = kept.run_again();
    assert!(used > 0, "it begins there");
    assert_eq!(run.stdout, "2\n");
    assert!(run.lost().is_empty(), "{:?}", run.lost());
    fs::remove_file(target).unwrap();
}

#[test]
fn a_program_with_other_code_than_a_stored_translation_counts_as_without_it_and_gives_it_up() {
    let (Some(one), Some(two)) = (library(1), library(2)) else { return };
    let (Some(first), Some(second)) = (job_that_loads(&one, 3), job_that_loads(&two, 3)) else { return };
    if !ready() {
        return;
    }
    let expected = second.run(soft());
    let kept = CacheTest::new(&first).prepared();
    let other = CacheTest { job: second.hinted(&kept.folder.profiles), folder: TestCacheFolder::new(0o700) };
    let before = kept.folder.kept();
    let run = other.run();
    assert_same(&run, &expected);
    assert!(kept.folder.kept().len() < before.len(), "what loads the other library begins alike");
    assert_same(&other.run(), &expected);
    assert_same(&other.run(), &expected);
}

#[test]
fn a_program_that_makes_code_is_counted_each_time() {
    let Some(program) = ready().then(|| build(&AGAIN)).flatten() else { return };
    let job = TestJob::new(program, &["make", "work 1", "make"]);
    let expected = job.run(soft());
    let kept = CacheTest::new(&job);
    for _ in 0..4 {
        assert_same(&kept.run(), &expected);
    }
}

#[test]
fn a_run_that_needs_much_more_begins_a_better_translation() {
    let Some(program) = ready().then(|| build(&AGAIN)).flatten() else { return };
    let little = CacheTest::new(&TestJob::new(&program, &["work 0"])).prepared();
    let more = ["work 0", "work 1", "work 2", "work 3", "work 4"];
    let expected = TestJob::new(&program, &more).run(soft());
    let job = TestJob::new(&program, &more).hinted(&little.folder.profiles);
    let before = numbers(&little.folder.kept());
    assert_same(&job.run(soft()), &expected);
    assert!(numbers(&little.folder.kept()).len() < before.len());
    assert_same(&job.run(soft()), &expected);
    let after = numbers(&little.folder.kept());
    assert!(after.iter().any(|number| !before.contains(number)));
    assert_same(&job.run(soft()), &expected);
    assert_eq!(numbers(&little.folder.kept()), after);
}

#[test]
fn a_damaged_file_is_replaced_before_it_is_used() {
    let Some(kept) = CacheTest::of("signals.c", &["-O2"], &["nested"]) else { return };
    let expected = kept.run();
    let kept = CacheTest::new(&kept.job).prepared();
    let [path] = kept.folder.kept().try_into().unwrap();
    let sound = fs::read(&path).unwrap();
    let check = |damaged: Vec<u8>, what: &str| {
        fs::write(&path, &damaged).unwrap();
        assert_same(&kept.run(), &expected);
        assert_ne!(fs::read(&path).unwrap(), damaged, "{what}");
        assert_eq!(kept.run_again().1, 1, "{what} is sound again");
    };
    // Pages of code, PC maps, and the rest.
    for part in 0..12 {
        let mut damaged = sound.clone();
        let (start, end) = (part * sound.len() / 12, (part + 1) * sound.len() / 12);
        damaged[start..end].iter_mut().step_by(1000).for_each(|byte| *byte ^= 0x10);
        check(damaged, &format!("part {part}"));
    }
    for position in [0, 8, 16, 24, 32, sound.len() - 1] {
        let mut damaged = sound.clone();
        damaged[position] ^= 0x10;
        check(damaged, &format!("byte {position}"));
    }
    for len in [0, 4, 100, 5000, sound.len() / 2, sound.len() - 1] {
        check(sound[..len].to_vec(), &format!("{len} bytes"));
    }
}

/// A mapped file would end the process that reads beyond its new end (SIGBUS).
#[test]
fn files_that_are_cut_while_a_command_uses_them_end_nothing_and_change_no_count() {
    let Some(kept) = CacheTest::of("language.c", &["-O2"], &[]) else { return };
    let kept = kept.prepared();
    let expected = kept.run();
    let files: Vec<(PathBuf, Vec<u8>)> =
        kept.folder.kept().into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut cut = 0;
            while !is_over.load(Ordering::Relaxed) {
                for (path, bytes) in &files {
                    cut = (cut + 4999) % bytes.len();
                    // The tool may have removed the file meanwhile.
                    let file = File::options().write(true).open(path);
                    let _ = file.and_then(|file| file.set_len(cut as u64));
                    std::thread::yield_now();
                    let _ = fs::write(path, bytes);
                }
            }
        });
        let runs: Vec<TestRun> = (0..8).map(|_| kept.run()).collect();
        is_over.store(true, Ordering::Relaxed);
        runs.iter().for_each(|run| assert_same(run, &expected));
    });
}

#[test]
fn a_program_that_is_executed_once_leaves_no_translation() {
    let Some(program) = ready().then(|| build(&AGAIN)).flatten() else { return };
    let kept = CacheTest::new(&TestJob::new(&program, &["work 1"])).prepared();
    let before = kept.folder.kept();
    // Its loader and library are known, and it is not.
    let copy = unique("copy");
    executable(&copy, &fs::read(&program).unwrap());
    let job = TestJob::new(&copy, &["work 1"]).hinted(&kept.folder.profiles);
    job.run(soft());
    assert_eq!(kept.folder.kept(), before);
    job.run(soft());
    assert!(kept.folder.kept().len() > before.len());
    fs::remove_file(copy).unwrap();
}

#[test]
fn a_translation_that_others_use_stays_although_a_program_has_other_code() {
    let (Some(one), Some(two)) = (library(1), library(2)) else { return };
    let (Some(first), Some(second)) = (job_that_loads(&one, 3), job_that_loads(&two, 3)) else { return };
    if !ready() {
        return;
    }
    let kept = CacheTest::new(&first).prepared();
    let expected = second.run(soft());
    let second = second.hinted(&kept.folder.profiles);
    // It was used just now.
    kept.run();
    let files = numbers(&kept.folder.kept());
    for _ in 0..2 {
        assert_same(&second.run(soft()), &expected);
        assert_eq!(numbers(&kept.folder.kept()), files);
        assert!(kept.run_again().1 > 0);
        kept.run();
    }
}

#[test]
fn a_file_whose_number_has_changed_is_known_by_what_it_is() {
    let (Some(one), true) = (library(1), ready()) else { return };
    let (target, other) = (unique("library"), unique("library"));
    fs::copy(&one, &target).unwrap();
    let time = fs::metadata(&target).unwrap().modified().unwrap();
    let Some(job) = job_that_loads(&target, 1) else { return };
    let kept = CacheTest::new(&job).prepared();
    let files = numbers(&kept.folder.kept());
    executable(&other, &fs::read(&one).unwrap());
    File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
    fs::rename(&other, &target).unwrap();
    let (run, used) = kept.run_again();
    assert_eq!(run.stdout, "1\n");
    assert!(used > 0);
    assert_eq!(numbers(&kept.folder.kept()), files);
    // Not even the next one that begins there has to make room.
    kept.run();
    assert_eq!(numbers(&kept.folder.kept()), files);
    fs::remove_file(target).unwrap();
}

#[test]
fn a_folder_that_others_can_write_is_not_used() {
    let Some(kept) = CacheTest::of("exit.c", &["-O2"], &[]) else { return };
    for mode in [0o777, 0o770, 0o702] {
        let kept = CacheTest::new(&kept.job);
        fs::create_dir(&kept.folder.translations).unwrap();
        fs::set_permissions(&kept.folder.translations, fs::Permissions::from_mode(mode)).unwrap();
        for _ in 0..3 {
            assert!(kept.run().lost().is_empty());
        }
        assert_eq!(kept.folder.kept(), [] as [PathBuf; 0], "{mode:o}");
    }
    let kept = kept.prepared();
    for path in kept.folder.kept() {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    let (run, used) = kept.run_again();
    assert!(run.lost().is_empty());
    assert_eq!(used, 0, "a file that anyone may write is replaced");
    // So is one that is a link.
    let elsewhere = unique("elsewhere");
    fs::write(&elsewhere, "mine").unwrap();
    for path in kept.folder.kept() {
        fs::remove_file(&path).unwrap();
        symlink(&elsewhere, &path).unwrap();
    }
    kept.run();
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    assert!(kept.folder.kept().iter().all(|path| fs::symlink_metadata(path).unwrap().is_file()));
    fs::remove_file(elsewhere).unwrap();
}

#[test]
fn a_translation_executed_with_fewer_rights_is_not_stored() {
    let (Some(setpriv), Some(program)) = (installed("setpriv"), ready().then(|| build(&AGAIN)).flatten())
    else {
        return;
    };
    let program = program.to_string_lossy().into_owned();
    let job = TestJob::new(&program, &["work 0"]);
    let confined = TestJob::new(setpriv, &["--no-new-privs", &program, "work 0"]);
    let folder = TestCacheFolder::new(0o700);
    let [job, confined] = [job, confined].map(|job| job.hinted(&folder.profiles));
    for _ in 0..3 {
        assert!(confined.run(soft()).lost().is_empty());
    }
    assert_eq!(folder.kept(), [] as [PathBuf; 0]);
    job.run(soft());
    assert!(!folder.kept().is_empty(), "hints are there, and it has all rights");
}
