//! A program that is retranslated while it runs does and counts the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use cyclometer_soft::host::{RetranslationPolicy, TracerSettings};
use support::caches::TestCacheFolder;
use support::compare::{assert_same_counts, assert_same_end};
use support::programs::{BuildRecipe, build};
use support::ready;
use support::run::{TestJob, TraceMethod, settings};

fn job(args: &[&str]) -> Option<TestJob> {
    let recipe = BuildRecipe { source: "longer.c", flags: &["-O2"] };
    let program = ready().then(|| build(&recipe)).flatten()?;
    Some(TestJob::new(program, args))
}

fn with(retranslation: RetranslationPolicy) -> TraceMethod {
    TraceMethod::Soft(TracerSettings { retranslation, ..settings() })
}

/// The text of a program about its memory at the end.
fn memory(job: &TestJob, retranslation: RetranslationPolicy) -> String {
    let run = job.run(with(retranslation));
    assert!(run.lost().is_empty(), "{:?}", run.lost());
    run.stdout.trim().to_owned()
}

#[track_caller]
fn check(args: &[&str]) {
    let Some(job) = job(args) else { return };
    let native = job.run(TraceMethod::Nobody);
    let [again, once] = [RetranslationPolicy::Always, RetranslationPolicy::Never]
        .map(|retranslation| job.run(with(retranslation)));
    for run in [&again, &once] {
        assert_same_end(run, &native);
        assert!(run.lost().is_empty(), "{:?}", run.lost());
    }
    assert_same_counts(&again.counts, &once.counts);
}

#[test]
fn a_program_that_runs_for_long_is_retranslated() {
    let Some(job) = job(&["memory"]) else { return };
    let expected = [
        (RetranslationPolicy::Never, "stayed"),
        (RetranslationPolicy::Always, "moved"),
        (RetranslationPolicy::WhenWorthwhile, "moved"),
    ];
    for (retranslation, said) in expected {
        let folder = TestCacheFolder::new(0o700);
        assert_eq!(memory(&job.clone().hinted(&folder.profiles), retranslation), said, "{retranslation:?}");
    }
}

#[test]
fn a_program_in_a_stored_translation_is_not_retranslated() {
    let Some(job) = job(&["memory"]) else { return };
    let folder = TestCacheFolder::new(0o700);
    let job = job.hinted(&folder.profiles);
    let runs = ["without hints", "with hints", "in a kept translation"];
    let memories = runs.map(|_| memory(&job, RetranslationPolicy::WhenWorthwhile));
    assert_eq!(memories, ["moved", "stayed", "stayed"]);
    assert_eq!(folder.kept().len(), 1);
}

#[test]
fn a_program_with_a_limit_on_addresses_is_not_retranslated() {
    let (Some(prlimit), Some(_)) = (support::installed("prlimit"), job(&[])) else { return };
    let program = build(&BuildRecipe { source: "longer.c", flags: &["-O2"] }).unwrap();
    let args = ["--as=8000000000", &program.to_string_lossy(), "memory"];
    assert_eq!(memory(&TestJob::new(prlimit, &args), RetranslationPolicy::WhenWorthwhile), "stayed");
}

#[test]
fn no_call_gives_less_for_it() {
    let Some(job) = job(&["reads"]) else { return };
    // A frequent retranslation does not wait for as long as a call may take.
    let run = job.run(with(RetranslationPolicy::WhenWorthwhile));
    assert_eq!((run.stdout.trim(), run.lost().len()), ("whole", 0), "{:?}", run.status);
}

#[test]
fn work_counts_the_same_in_many_translations() {
    check(&["work"]);
}

#[test]
fn handlers_of_signals_count_the_same_in_many_translations() {
    check(&["signals"]);
}

#[test]
fn children_count_the_same_in_many_translations() {
    check(&["children"]);
}

#[test]
fn a_program_that_starts_others_counts_the_same_in_many_translations() {
    check(&["starts", "150"]);
}

#[test]
fn a_program_that_waits_for_others_counts_the_same_in_many_translations() {
    check(&["waits", "200"]);
}

#[test]
fn a_program_in_system_calls_counts_the_same_in_many_translations() {
    check(&["waits", "1", "4000"]);
}
