//! Hints of earlier runs change no count, whatever they say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use cyclometer_soft::profile::{BlockHeat, FileProfile, Heat};
use support::caches::{TestCacheFolder, numbers};
use support::compare::{assert_same_counts, assert_same_end};
use support::programs::{BuildRecipe, build, unique};
use support::ready;
use support::run::{TestJob, TestRun, TraceMethod, soft};

fn job(source: &str, flags: &[&str], args: &[&str]) -> Option<TestJob> {
    if !ready() {
        return None;
    }
    Some(TestJob::new(build(&BuildRecipe { source, flags })?, args))
}

/// Every byte of some pages that are known becomes a block, an entrance, and hot.
fn exaggerate(path: &Path) {
    let known = FileProfile::read(&fs::read(path).unwrap()).unwrap();
    let mut profiles = FileProfile::default();
    for page in (0..1 << 16).filter(|page| known.page(*page).is_some()).take(20) {
        let hottest = BlockHeat { block: Heat::HOTTEST, exits: [Heat::HOTTEST; 2], entry: Heat::HOTTEST };
        (0..4096).for_each(|offset| profiles.learn(page, offset, hottest, true));
    }
    assert!(profiles.blocks() > 0);
    fs::write(path, profiles.write()).unwrap();
}

/// Each page is said to have been executed at its first byte only.
fn understate(path: &Path) {
    let known = FileProfile::read(&fs::read(path).unwrap()).unwrap();
    let mut profiles = FileProfile::default();
    (0..1 << 16)
        .filter(|page| known.page(*page).is_some())
        .for_each(|page| profiles.learn(page, 0, BlockHeat::default(), false));
    fs::write(path, profiles.write()).unwrap();
}

#[track_caller]
fn assert_same(run: &TestRun, expected: &TestRun) {
    assert_same_end(run, expected);
    assert_same_counts(&run.counts, &expected.counts);
}

#[track_caller]
fn check(source: &str, flags: &[&str], args: &[&str]) {
    let Some(job) = job(source, flags, args) else { return };
    let stepped = job.run(TraceMethod::Oracle);
    let folder = TestCacheFolder::new(0o700);
    let hinted = job.hinted(&folder.profiles);
    for turn in ["first", "second"] {
        let run = hinted.run(soft());
        assert_same(&run, &stepped);
        assert!(folder.files().len() >= 2, "{turn}: the program and the loader: {:?}", folder.files());
    }
    for spoil in [exaggerate, understate] {
        folder.files().iter().for_each(|path| spoil(path));
        assert_same(&hinted.run(soft()), &stepped);
    }
}

#[test]
fn counts_do_not_depend_on_what_is_known() {
    check("language.c", &["-O2"], &[]);
}

#[test]
fn counts_of_code_that_was_not_optimised_do_not_depend_on_what_is_known() {
    check("language.c", &["-O0"], &[]);
}

#[test]
fn counts_of_the_c_library_do_not_depend_on_what_is_known() {
    check("library.c", &["-O2", "-lm"], &["5"]);
}

#[test]
fn known_blocks_are_written_once() {
    let Some(job) = job("language.c", &["-O2"], &[]) else { return };
    let folder = TestCacheFolder::new(0o700);
    let hinted = job.hinted(&folder.profiles);
    hinted.run(soft());
    let first = numbers(&folder.files());
    hinted.run(soft());
    assert_eq!(numbers(&folder.files()), first, "the same run has nothing new");
    for path in folder.files() {
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(FileProfile::read(&fs::read(path).unwrap()).unwrap().blocks() > 0);
    }
}

#[test]
fn damaged_hints_are_replaced() {
    let Some(job) = job("language.c", &["-O2"], &[]) else { return };
    let folder = TestCacheFolder::new(0o700);
    let hinted = job.hinted(&folder.profiles);
    let first = hinted.run(soft());
    let files = folder.files();
    let sound: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
    fs::write(&files[0], b"cyclhint and nothing else").unwrap();
    fs::write(&files[1], &sound[1][..sound[1].len() / 2]).unwrap();
    assert_same(&hinted.run(soft()), &first);
    for path in folder.files() {
        assert!(FileProfile::read(&fs::read(&path).unwrap()).is_some(), "{}", path.display());
    }
}

#[test]
fn a_folder_that_others_can_write_is_left_alone() {
    let Some(job) = job("exit.c", &["-O2"], &[]) else { return };
    for mode in [0o777, 0o770, 0o702] {
        let folder = TestCacheFolder::new(mode);
        let run = job.clone().hinted(&folder.profiles).run(soft());
        assert!(run.lost().is_empty());
        assert_eq!(folder.files(), [] as [PathBuf; 0], "{mode:o}");
    }
}

#[test]
fn no_link_is_followed_to_hints() {
    let Some(job) = job("exit.c", &["-O2"], &[]) else { return };
    let (folder, link) = (TestCacheFolder::new(0o700), unique("hints-link"));
    symlink(&folder.profiles, &link).unwrap();
    let run = job.clone().hinted(&link).run(soft());
    assert!(run.lost().is_empty());
    assert_eq!(folder.files(), [] as [PathBuf; 0], "by a link to the folder");
    fs::remove_file(&link).unwrap();
    // A file that is a link is replaced, not written through.
    job.clone().hinted(&folder.profiles).run(soft());
    let (file, elsewhere) = (folder.files().remove(0), unique("elsewhere"));
    fs::write(&elsewhere, "mine").unwrap();
    fs::remove_file(&file).unwrap();
    symlink(&elsewhere, &file).unwrap();
    job.hinted(&folder.profiles).run(soft());
    assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "mine");
    assert!(fs::symlink_metadata(&file).unwrap().is_file());
    fs::remove_file(elsewhere).unwrap();
}

#[test]
fn the_folder_is_made_where_there_is_none() {
    let Some(job) = job("exit.c", &["-O2"], &[]) else { return };
    let folder = TestCacheFolder::new(0o700);
    let inner = folder.profiles.join("cyclometer/hints");
    job.hinted(&inner).run(soft());
    assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
    assert!(fs::read_dir(&inner).unwrap().count() >= 2);
}
