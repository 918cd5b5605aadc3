//! Programs that execute what others have executed before: their counts are those of a translation of their
//! own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};

use cyclometer_soft::host::TracerSettings;
use support::compare::{assert_same_counts, assert_same_end, check_exact};
use support::programs::{BuildRecipe, build, unique};
use support::ready;
use support::run::{TestJob, TestRun, TraceMethod, settings, soft};

/// The program, and libraries whose function gives 1, 2 and so on.
struct Built {
    program: String,
    libraries: Vec<String>,
}

fn built() -> Option<Built> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let make = |flags: &[&str]| build(&BuildRecipe { source: "again.c", flags }).map(text);
    if !ready() {
        return None;
    }
    let library = |value: u32| make(&["-O2", "-shared", "-fPIC", &format!("-DVALUE={value}")]);
    let libraries = (1..4).map(library).collect::<Option<_>>()?;
    Some(Built { program: make(&["-O2", "-pthread", "-ldl"])?, libraries })
}

/// Each program is translated anew.
fn apart() -> TraceMethod {
    TraceMethod::Soft(TracerSettings { separate: true, ..settings() })
}

impl Built {
    /// Steps in which `A`, `B` and `C` are the libraries, and `T` is a file of this run alone.
    fn job(&self, steps: &[&str], target: &Path) -> TestJob {
        let [a, b, c] = [0, 1, 2].map(|i| &self.libraries[i]);
        let word = |word: &str| match word {
            "A" => a.clone(),
            "B" => b.clone(),
            "C" => c.clone(),
            "P" => self.program.clone(),
            "T" => target.to_string_lossy().into_owned(),
            other => other.to_owned(),
        };
        let steps: Vec<String> =
            steps.iter().map(|step| step.split(' ').map(word).collect::<Vec<_>>().join(" ")).collect();
        TestJob::new(&self.program, &steps.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Runs steps in all ways; the lines that they tell are these.
#[track_caller]
fn check(steps: &[&str], lines: &str) {
    let Some(built) = built() else { return };
    let target = unique("replaced");
    let job = built.job(steps, &target);
    let native = job.run(TraceMethod::Nobody);
    assert_eq!(native.stdout.split_whitespace().collect::<Vec<_>>().join(" "), lines);
    let (shared, alone) = (job.run(soft()), job.run(apart()));
    for run in [&shared, &alone] {
        assert_same_end(run, &native);
        assert!(run.lost().is_empty(), "{:?}", run.lost());
    }
    assert_same_counts(&shared.counts, &alone.counts);
    let _ = fs::remove_file(target);
}

/// For each of these steps, by what memory it was translated.
fn memories(run: &TestRun) -> Vec<&str> {
    run.stdout.split_whitespace().filter(|word| word.len() > 1).collect()
}

#[track_caller]
fn check_memories(steps: &[&str], shared: bool) {
    let Some(built) = built() else { return };
    let job = built.job(steps, Path::new(""));
    let (together, alone) = (job.run(soft()), job.run(apart()));
    let different = |run: &TestRun| {
        let mut memories = memories(run);
        assert!(memories.len() > 1, "{:?}", run.stdout);
        memories.dedup();
        memories.len()
    };
    assert_eq!(different(&together) == 1, shared, "{:?}", together.stdout);
    assert_eq!(different(&alone), memories(&alone).len(), "{:?}", alone.stdout);
}

#[test]
fn a_program_that_comes_again_is_not_translated_again() {
    check_memories(&["who", "work 1", "who"], true);
}

#[test]
fn programs_at_the_same_time_have_one_translation() {
    check_memories(&["+who", "+who", "+who"], true);
}

#[test]
fn a_program_that_makes_code_of_its_own_leaves_the_translation_to_others() {
    check_memories(&["who", "make", "who"], true);
}

#[test]
fn programs_that_come_again_count_as_stepped() {
    let Some(built) = built() else { return };
    let steps = ["work 0", "work 1", "work 0", "work 3", "load A", "work 1"];
    check_exact(&built.job(&steps, Path::new("")));
}

#[test]
fn programs_that_run_at_the_same_time_count_as_by_themselves() {
    check(
        &["work 0", "+work 1", "+work 2", "+work 3", "+work 4", "+work 3", "+work 2", "+load A", "+load A"],
        "14 2 7 50 4 50 7 1 1",
    );
}

#[test]
fn another_library_at_the_same_address_is_executed() {
    check(&["load A", "load B", "load A", "load B A", "load A B"], "1 2 1 7 5");
    check(&["swap A B", "swap B A", "load A", "swap A B A"], "5 7 1 16");
}

#[test]
fn libraries_at_other_addresses_are_executed() {
    check(&["load A B C", "load C B A", "load B", "load C"], "18 34 2 3");
}

#[test]
fn a_library_that_was_replaced_is_executed() {
    check(&["put A T", "load T", "put B T", "load T", "load T", "put C T", "load T", "load A"], "1 2 2 3 1");
}

#[test]
fn a_library_that_was_overwritten_is_executed() {
    check(&["put A T", "load T", "over B T", "load T", "load T", "over C T", "load T"], "1 2 2 3");
}

#[test]
fn a_program_that_was_replaced_is_executed() {
    check(&["put P T", "T work 0", "T work 1", "put /bin/true T", "T", "put P T", "T work 1"], "14 2 0 2");
    check(&["put P T", "T work 0", "over /bin/true T", "T", "over P T", "T work 1"], "14 0 2");
}

#[test]
fn a_process_that_changes_its_code_changes_it_for_itself() {
    check(&["load A", "patch A", "load A", "+patch A", "+load A", "+patch A"], "1 9 1 9 1 9");
}

#[test]
fn a_process_that_changes_its_code_before_it_executes_it_changes_it_for_itself() {
    check(&["load A", "prepare A", "load A"], "1 6 1");
    check(&["prepare A", "load A", "prepare A"], "6 1 6");
    check(&["work 1", "prepare A", "load A", "+prepare A", "+load A"], "2 6 1 6 1");
    check(&["late A"], "9");
}

#[test]
fn code_that_only_a_child_has_executed_is_not_code_that_its_parent_maps_there_later() {
    check(&["leave A B", "leave B C", "work 1"], "5 9 2");
    check(&["leave A B make", "load A", "leave B C make"], "12 1 16");
}

#[test]
fn a_program_that_makes_many_processes_does_not_take_the_places_of_others() {
    check(&["work 1", "+crowd 160", "+crowd 160"], "2 0 0");
    let Some(built) = built() else { return };
    // More than there are places.
    let job = built.job(&["work 1", "crowd 300"], Path::new(""));
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert_eq!((run.lost(), run.counts.len()), (vec![], 303));
}

#[test]
fn code_that_a_program_makes_is_its_own() {
    check(&["load A", "make", "load A", "make", "+make", "+load B"], "1 7 1 7 7 2");
    check(&["make", "make", "load A"], "7 7 1");
}

#[test]
fn a_program_that_filters_its_calls_can_load_a_library() {
    check(&["filter A", "filter A", "filter B", "load B", "filter A"], "1 1 2 2 1");
}

#[test]
fn children_that_are_forked_and_execute_nothing_else_share_with_all() {
    check(&["load A", "fork load A", "fork load B", "fork make", "fork patch A"], "1 3 4 9 11");
}

/// How far they come before they wait differs from run to run.
#[test]
fn a_program_with_threads_can_load_another_library_than_the_one_before_it() {
    let Some(built) = built() else { return };
    let steps = ["load A", "thread A", "thread B", "thread A B", "thread B C", "load C"];
    let job = built.job(&steps, Path::new(""));
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert_eq!(run.stdout.split_whitespace().collect::<Vec<_>>(), ["1", "2", "3", "6", "10", "3"]);
    assert!(run.lost().is_empty(), "{:?}", run.lost());
}

/// The limits on open files of a process, soft and hard.
fn open_files(pid: u32) -> [String; 2] {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_ascii_whitespace().map(str::to_owned);
    [(); 2].map(|()| words.next().unwrap())
}

#[test]
fn the_tracer_may_open_as_many_files_as_it_can_and_the_program_as_many_as_before() {
    let Some(built) = built() else { return };
    let running = built.job(&["stay"], Path::new("")).start(soft());
    running.until_it_says("here");
    let [soft, hard] = open_files(running.tracer().unwrap());
    assert_eq!(soft, hard);
    assert_eq!(open_files(running.pid()), open_files(std::process::id()));
}

#[test]
fn many_programs_take_limited_memory() {
    const PROGRAMS: usize = 40;
    let Some(built) = built() else { return };
    let targets: Vec<PathBuf> = (0..PROGRAMS).map(|_| unique("copy")).collect();
    for target in &targets {
        fs::copy(&built.program, target).unwrap();
    }
    let mut steps: Vec<String> = targets.iter().map(|path| format!("{} work 1", path.display())).collect();
    steps.extend([steps[0].clone(), "stay".to_owned()]);
    let job = TestJob::new(&built.program, &steps.iter().map(String::as_str).collect::<Vec<_>>());
    let running = job.start(soft());
    running.until_it_says("here");
    assert_eq!(running.output().matches("2\n").count(), PROGRAMS + 1);
    let files = fs::read_dir(format!("/proc/{}/fd", running.tracer().unwrap())).unwrap().count();
    assert!(files < 3 * 30, "{files} files are open");
    let counts = running.counts();
    let lost: Vec<_> = counts.iter().filter_map(|process| process.counts.as_ref().err()).collect();
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(counts.len(), PROGRAMS + 3);
    targets.iter().for_each(|target| drop(fs::remove_file(target)));
}
