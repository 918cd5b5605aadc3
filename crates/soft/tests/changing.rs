//! Code that changes: a program does the same as natively. Its counts are those of single steps, or lost for
//! the right reason; they never include code from before a change.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::path::PathBuf;

use support::compare::{assert_lost, assert_same_end, check_exact, check_exact_once};
use support::programs::{BuildRecipe, build, self_contained};
use support::ready;
use support::run::{TestJob, TraceMethod, soft};

fn program(more: &[&str]) -> Option<PathBuf> {
    let flags = [&["-O2", "-pthread"], more, &["-ldl"]].concat();
    ready().then(|| build(&BuildRecipe { source: "changing.c", flags: &flags })).flatten()
}

#[track_caller]
fn check_counted(way: &str) {
    if let Some(program) = program(&[]) {
        check_exact(&TestJob::new(program, &[way]));
    }
}

/// The program is detached with this reason, and comes to no harm.
#[track_caller]
fn check_detached(way: &str, words: &str) {
    if let Some(program) = program(&[]) {
        check_job_left(&TestJob::new(program, &[way, &std::env::temp_dir().to_string_lossy()]), words);
    }
}

#[track_caller]
fn check_job_left(job: &TestJob, words: &str) {
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert!(run.stdout.ends_with('\n'), "it did nothing: {:?}", run.stdout);
    assert_lost(&run.counts[0], words);
}

#[test]
fn code_that_is_overwritten_between_protections_is_exact() {
    ["toggled", "reused"].iter().for_each(|way| check_counted(way));
}

#[test]
fn code_that_is_overwritten_where_almost_all_addresses_are_reserved_is_exact() {
    check_counted("crowded");
}

#[test]
fn code_that_another_mapping_replaces_is_exact() {
    ["replaced", "moved"].iter().for_each(|way| check_counted(way));
}

#[test]
fn libraries_that_replace_one_another_are_exact() {
    check_counted("reloaded");
}

#[test]
fn code_that_the_kernel_writes_is_exact() {
    ["read", "process"].iter().for_each(|way| check_counted(way));
}

#[test]
fn code_that_falls_back_to_its_file_is_exact() {
    check_counted("discarded");
}

#[test]
fn code_that_a_child_changes_for_itself_is_exact() {
    check_counted("forked");
}

#[test]
fn code_that_another_thread_changes_does_what_it_does_without_us() {
    let Some(program) = program(&[]) else { return };
    let job = TestJob::new(program, &["thread"]);
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert_eq!(run.stdout, "1501\n");
    assert!(run.lost().is_empty(), "{:?}", run.lost());
}

#[test]
fn code_that_can_be_written_while_it_is_executed_is_exact() {
    ["open", "opened"].iter().for_each(|way| check_counted(way));
}

#[test]
fn code_that_is_mapped_twice_is_exact() {
    ["twice shared", "twice"].iter().for_each(|way| check_counted(way));
}

/// A program that looks no function up while it runs: two threads that do so at once would both do it.
fn binding_at_once(source: &str) -> Option<PathBuf> {
    let flags = [self_contained(), &["-pthread", "-Wl,-z,now"]].concat();
    ready().then(|| build(&BuildRecipe { source, flags: &flags })).flatten()
}

/// A program that makes code while it runs.
fn compiler(args: &[&str]) -> Option<TestJob> {
    binding_at_once("jit.c").map(|program| TestJob::new(program, args))
}

#[track_caller]
fn check_compiler(way: &str) {
    compiler(&[way]).iter().for_each(check_exact);
}

/// A program that calls `mprotect` around each function that it makes.
fn protecting(args: &[&str]) -> Option<TestJob> {
    binding_at_once("protections.c").map(|program| TestJob::new(program, args))
}

#[test]
fn code_that_is_made_between_calls_of_mprotect_is_exact() {
    for way in ["functions", "each page", "jumps"] {
        protecting(&[way, "24"]).iter().for_each(check_exact);
    }
}

#[test]
fn code_whose_memory_is_freed_and_mapped_again_many_times_is_exact() {
    protecting(&["mapped again"]).iter().for_each(check_exact);
}

#[test]
fn the_rights_of_memory_that_changes_them_many_times_are_respected() {
    for (way, times) in [("refused", "24"), ("itself", "24"), ("listed", "6")] {
        protecting(&[way, times]).iter().for_each(check_exact);
    }
}

#[test]
fn a_fork_between_two_calls_of_mprotect_is_exact() {
    protecting(&["forked"]).iter().for_each(check_exact);
}

#[test]
fn code_that_another_thread_makes_between_calls_of_mprotect_is_exact() {
    protecting(&["turns", "12"]).iter().for_each(check_exact_once);
}

#[test]
fn code_that_several_threads_make_at_once_between_calls_of_mprotect_is_counted() {
    let Some(job) = protecting(&["threads"]) else { return };
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert!(run.lost().is_empty(), "{:?}", run.lost());
}

#[test]
fn a_thread_goes_on_beside_younger_ones_that_change_their_code_all_the_time() {
    let Some(job) = protecting(&["patient", "20"]) else { return };
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert!(run.lost().is_empty(), "{:?}", run.lost());
}

#[test]
fn code_that_is_made_at_run_time_is_exact() {
    check_compiler("once");
}

#[test]
fn instructions_that_change_between_their_executions_are_exact() {
    ["call site", "constants"].into_iter().for_each(check_compiler);
}

#[test]
fn a_store_that_changes_the_next_instruction_is_exact() {
    check_compiler("next");
}

#[test]
fn code_that_another_thread_writes_in_turn_is_exact() {
    // The end of a thread may come before the wait for it.
    compiler(&["turns"]).iter().for_each(check_exact_once);
}

#[test]
fn code_that_another_thread_writes_at_any_time_is_counted() {
    let Some(job) = compiler(&["race"]) else { return };
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert!(run.lost().is_empty() && run.stdout == "3000\n", "{:?} {:?}", run.lost(), run.stdout);
}

#[test]
fn code_in_memory_that_a_child_shares_is_exact() {
    check_compiler("twice");
}

#[test]
fn code_that_can_only_be_executed_and_code_that_cannot_any_more_are_exact() {
    ["only executable", "removed"].into_iter().for_each(check_compiler);
}

#[test]
fn a_fork_between_the_two_halves_of_a_change_is_exact() {
    check_compiler("forked");
}

#[test]
fn writable_code_that_the_kernel_writes_and_drops_is_exact() {
    check_compiler("kernel");
}

#[test]
fn code_of_a_file_that_is_open_for_writing_is_exact() {
    check_counted("written");
}

#[test]
fn code_of_a_file_that_is_opened_for_writing_later_is_left() {
    for way in ["reopened", "creat", "openat2", "reopened memory"] {
        check_detached(way, "executes a file that is opened for writing");
    }
}

#[test]
fn code_that_is_written_as_a_file_of_memory_is_exact() {
    check_counted("memory");
}

#[test]
fn a_program_with_restartable_sequences_is_left_when_a_handler_is_called() {
    if let Some(program) = program(&["-DRESTARTABLE"]) {
        check_job_left(
            &TestJob::new(&program, &["handled"]),
            "has handlers of signals and restartable sequences",
        );
        check_exact(&TestJob::new(program, &["toggled"]));
    }
    check_counted("handled");
}

#[test]
fn a_program_with_restartable_sequences_is_left_when_others_can_write_to_its_memory() {
    if let Some(program) = program(&["-DRESTARTABLE"]) {
        let job = TestJob::new(&program, &["shared"]);
        check_job_left(&job, "has memory that others can write to and restartable sequences");
        check_exact(&TestJob::new(program, &["shared to read"]));
    }
    check_counted("shared");
}

#[test]
fn code_with_restartable_sequences_is_left_where_others_can_write_to_memory() {
    let Some(program) = program(&[]) else { return };
    for place in ["page", "file"] {
        let job = |mark: &str| {
            TestJob::new(
                &program,
                &[&format!("child {place}{mark}"), &std::env::temp_dir().to_string_lossy()],
            )
        };
        let [plain, marked] = ["", " marked"].map(|mark| {
            let run = job(mark).run(soft());
            assert_same_end(&run, &job(mark).run(TraceMethod::Nobody));
            assert_eq!(run.stdout, "3 0\n", "{place}{mark}");
            run
        });
        assert!(plain.lost().is_empty(), "{place}: {:?}", plain.lost());
        let reasons = marked.lost();
        assert_eq!(reasons.len(), 1, "{place}: only the child has any: {reasons:?}");
        assert!(reasons[0].contains("has memory that others can write to"), "{reasons:?}");
    }
}
