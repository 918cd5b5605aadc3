//! Parsers of foreign bytes on changed files of their corpora.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

use cyclometer_fuzz_targets::{TARGETS, corpus, translation_sample};

fn mutate(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutate"));
    command.args(arguments).arg("--keep").arg(folder.path().join("kept")).output().unwrap()
}

#[test]
fn every_target_has_a_corpus_that_its_parser_reads() {
    for target in TARGETS {
        for file in corpus::of(target.name).unwrap() {
            (target.run)(&file);
        }
    }
}

/// Another form of stored translations makes the file of the corpus useless.
#[test]
fn the_stored_translation_of_the_corpus_has_the_form_of_this_version() {
    let Some((sample, is_read)) = translation_sample() else { return };
    let path = corpus::folder().join("stored_translation/loop");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &sample).unwrap();
    }
    let file = std::fs::read(&path).unwrap();
    assert!(is_read(&file), "{}: UPDATE_GOLDEN=1 renews it", path.display());
    assert!(is_read(&sample) && !is_read(&sample[..sample.len() - 1]));
}

#[test]
fn no_parser_breaks_its_promise_on_changed_files() {
    let out = mutate(&["--files", "60", "--seed", "1"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_file_that_breaks_a_promise_is_named_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mutate"));
    let out = command.args(["self_test", "--files", "2", "--seed", "1", "--keep"]).arg(folder.path());
    let out = out.output().unwrap();
    let message = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{message}");
    assert!(message.contains("self_test: change 1: ") && message.contains("exclamation mark"), "{message}");
    assert!(message.contains("1 changed files broke a promise"), "{message}");
    assert_eq!(std::fs::read(folder.path().join("self_test-1-1")).unwrap(), b"mark!\n");
}
