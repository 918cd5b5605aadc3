//! Programs with threads do and print the same as natively, are counted, and never hang.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::path::PathBuf;
use std::time::Duration;

use cyclometer_soft::ExecutionEvent;
use cyclometer_sys::process::{SIGINT, SIGKILL, Status};
use support::compare::{assert_lost, assert_same_counts, assert_same_end};
use support::programs::{BARE, BuildRecipe, build};
use support::run::{RunningJob, TestJob, TestRun, TraceMethod, settings, soft};
use support::{installed, ready};

const SIGSEGV: i32 = 11;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

fn program() -> Option<PathBuf> {
    let recipe = BuildRecipe { source: "threads.c", flags: &["-O2", "-pthread", "-ldl"] };
    ready().then(|| build(&recipe)).flatten()
}

fn job(args: &[&str]) -> Option<TestJob> {
    program().map(|program| TestJob::new(program, args))
}

/// Runs it natively and translated, which must end alike; the translated run.
#[track_caller]
fn alike(args: &[&str]) -> Option<TestRun> {
    let job = job(args)?;
    let translated = job.run(soft());
    assert_same_end(&translated, &job.run(TraceMethod::Nobody));
    Some(translated)
}

#[track_caller]
fn check_counted(run: &TestRun, at_least: u64) {
    for process in &run.counts {
        let count = process.count(ExecutionEvent::Instructions);
        assert!(count.as_ref().is_ok_and(|count| *count >= at_least), "{}: {count:?}", process.name);
    }
}

#[track_caller]
fn check(args: &[&str], at_least: u64) {
    alike(args).iter().for_each(|run| check_counted(run, at_least));
}

#[test]
fn all_threads_of_a_process_are_in_its_count() {
    // Each step of the loops is four instructions at least.
    check(&["sum"], 4 * (1000 + 2000 + 3000 + 4000));
}

#[test]
fn events_that_are_sums_can_be_read_while_threads_run() {
    let Some(job) = job(&["storm", "200"]) else { return };
    let wanted =
        [ExecutionEvent::Instructions, ExecutionEvent::ConditionalTaken, ExecutionEvent::BytesStored];
    let running = job.start(TraceMethod::Soft(settings().counting(wanted)));
    let mut last = [0; 3];
    for _ in 0..20 {
        let (counts, is_last) = running.ask();
        if is_last {
            return;
        }
        let Some(process) = counts.first().filter(|process| process.counts.is_ok()) else { continue };
        let now = wanted.map(|event| process.count(event).unwrap());
        assert!(now.iter().zip(last).all(|(now, last)| *now >= last), "{now:?} behind {last:?}");
        assert!(process.count(ExecutionEvent::Loads).is_err(), "not wanted");
        last = now;
    }
    let run = running.finish();
    let end = wanted.map(|event| run.counts[0].count(event).unwrap());
    assert!(last[0] > 0 && end.iter().zip(last).all(|(end, last)| *end >= last), "{end:?} behind {last:?}");
}

#[test]
fn threads_that_wait_for_one_another_are_counted() {
    check(&["locks"], 10_000);
    check(&["allocate"], 10_000);
}

#[test]
fn a_storm_of_threads_is_counted() {
    check(&["storm", "30"], 30 * 4 * 36_000);
}

#[test]
fn many_threads_at_a_time_are_counted() {
    check(&["sum", "100"], 4 * 100_000);
}

#[test]
fn a_program_with_a_limit_on_addresses_is_counted() {
    let (Some(prlimit), Some(program)) = (installed("prlimit"), program()) else { return };
    let args = ["--as=4000000000", &program.to_string_lossy(), "sum"];
    check_counted(&TestJob::new(prlimit, &args).run(soft()), 40_000);
}

#[test]
fn more_threads_than_there_is_room_for_are_left() {
    let crowd = |threads| alike(&["crowd", threads]);
    crowd("300").iter().for_each(|run| assert_lost(&run.counts[0], "too many threads at a time"));
    // Where some have ended when others begin, there may be room.
    let apart = alike(&["sum", "300"]);
    apart.iter().filter(|run| run.counts[0].counts.is_err()).for_each(|run| {
        assert_lost(&run.counts[0], "too many threads at a time");
    });
}

#[test]
fn two_hundred_threads_at_a_time_are_counted() {
    check(&["crowd", "200"], 200_000);
}

#[test]
fn handlers_in_threads_see_the_programs_own_addresses() {
    check(&["faults"], 10_000);
    check(&["rescued"], 10_000);
}

#[test]
fn signals_reach_threads_anywhere() {
    check(&["timers"], 10_000);
    check(&["poke"], 10_000);
}

#[test]
fn a_thread_that_is_interrupted_all_the_time_gets_its_work_done() {
    // Each step of its loop is four instructions at least.
    check(&["ask"], 4 * 40_000_000);
}

#[test]
fn processes_that_threads_make_are_counted() {
    let Some(run) = alike(&["fork"]) else { return };
    assert_eq!(run.counts.len(), 21);
    check_counted(&run, 1000);
}

#[test]
fn libraries_that_threads_load_are_counted() {
    check(&["load"], 10_000);
}

#[test]
fn code_that_changes_while_threads_run_is_counted() {
    for _ in 0..5 {
        check(&["unload"], 10_000);
        check(&["rewrite"], 10_000);
    }
}

#[test]
fn a_program_that_ends_while_threads_run_is_counted() {
    for _ in 0..10 {
        check(&["end", "6"], 10_000);
    }
}

#[test]
fn a_program_that_a_fault_ends_while_threads_run_is_counted() {
    for _ in 0..5 {
        let Some(run) = alike(&["crash", "4"]) else { return };
        assert_eq!(run.status, Status::Signal(SIGSEGV));
        check_counted(&run, 10_000);
    }
}

#[test]
fn a_thread_that_executes_a_program_ends_the_others() {
    for _ in 0..5 {
        check(&["execute", "4"], 10_000);
    }
}

#[test]
fn a_thread_that_executes_a_program_leaves_the_children_of_the_others() {
    for threads in ["1", "2", "3", "4", "6", "8", "12"] {
        let Some(run) = alike(&["breed", threads]) else { return };
        let (program, children) = run.counts.split_first().unwrap();
        assert!(program.count(ExecutionEvent::Instructions).unwrap() >= 400);
        // A thread that still runs when the program ends is counted up to then.
        children.iter().for_each(|child| assert!(child.counts.is_ok(), "{}: {:?}", child.name, child.counts));
    }
}

#[test]
fn a_program_whose_first_thread_ends_first_is_counted() {
    check(&["outlive"], 4000);
}

#[test]
fn all_threads_are_left_where_one_cannot_be_followed() {
    for _ in 0..5 {
        let Some(run) = alike(&["leave", "6"]) else { return };
        assert_lost(&run.counts[0], "sets the base of %gs");
    }
}

#[test]
fn a_program_with_restartable_sequences_is_left_when_it_starts_a_thread() {
    let recipe = BuildRecipe { source: "threads.c", flags: &["-O2", "-pthread", "-DRESTARTABLE", "-ldl"] };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    let job = TestJob::new(program, &["sum"]);
    let run = job.run(soft());
    assert_same_end(&run, &job.run(TraceMethod::Nobody));
    assert_lost(&run.counts[0], "restartable sequences");
}

/// Runs for a second.
fn waiting(seconds: &str) -> Option<RunningJob> {
    let running = job(&["wait", "6", seconds])?.start(soft());
    running.until_it_says("waiting");
    Some(running)
}

#[test]
fn threads_go_on_by_themselves_when_nobody_wants_their_counts_any_more() {
    let Some(mut running) = waiting("1") else { return };
    running.abandon();
    assert_eq!(running.wait(), Status::Code(0));
    running.until_it_says("done");
}

#[test]
fn threads_can_be_stopped_and_continued() {
    let Some(running) = waiting("1") else { return };
    for _ in 0..20 {
        running.signal(SIGSTOP);
        std::thread::sleep(Duration::from_millis(5));
        running.signal(SIGCONT);
        std::thread::sleep(Duration::from_millis(5));
    }
    let run = running.finish();
    assert_eq!(run.status, Status::Code(0));
    check_counted(&run, 10_000);
}

#[test]
fn code_can_change_in_a_process_that_is_stopped_and_continued() {
    let Some(job) = job(&["rewrite"]) else { return };
    for round in 0..5 {
        let running = job.start(soft());
        for i in 0..20 {
            running.signal(SIGSTOP);
            std::thread::sleep(Duration::from_micros(500 * (i % 5)));
            running.signal(SIGCONT);
            std::thread::sleep(Duration::from_micros(1700 * round + 900 * (i % 7)));
        }
        let run = running.finish();
        assert_eq!((run.status, run.stdout.as_str()), (Status::Code(0), "0\n144\n"));
        check_counted(&run, 10_000);
    }
}

#[test]
fn threads_are_interrupted_and_killed_as_without_us() {
    for signal in [SIGINT, SIGKILL] {
        let Some(running) = waiting("60") else { return };
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.status, Status::Signal(signal));
        // The end of who is killed from outside may come while it is let go on.
        match &run.counts[0].counts {
            Err(_) if signal == SIGKILL => assert_lost(&run.counts[0], "killed"),
            _ => check_counted(&run, 10_000),
        }
    }
}

#[test]
fn threads_that_are_stopped_can_be_killed() {
    let Some(running) = waiting("60") else { return };
    running.signal(SIGSTOP);
    std::thread::sleep(Duration::from_millis(20));
    running.signal(SIGKILL);
    assert_eq!(running.finish().status, Status::Signal(SIGKILL));
}

#[test]
fn a_program_with_threads_that_is_killed_at_any_time_leaves_no_one_waiting() {
    let Some(job) = job(&["storm", "40"]) else { return };
    for delay in 0..40 {
        let running = job.start(soft());
        std::thread::sleep(Duration::from_micros(delay * 3000));
        running.signal(SIGKILL);
        let run = running.finish();
        assert!(matches!(run.status, Status::Signal(SIGKILL) | Status::Code(_)), "{run:?}");
    }
}

#[test]
fn the_counts_of_threads_can_be_read_while_they_come_and_go() {
    let Some(job) = job(&["storm", "60"]) else { return };
    let mut running = job.start(soft());
    let (mut last, mut partial) = (0, 0);
    let end = loop {
        let (counts, is_last) = running.ask();
        let count = counts[0].count(ExecutionEvent::Instructions).unwrap();
        assert!(count >= last, "{count} < {last}");
        partial += u32::from(count > last);
        last = count;
        if is_last {
            break count;
        }
    };
    running.wait();
    assert!(partial > 10, "{partial} readings");
    assert!(end > 60 * 4 * 36_000);
}

#[test]
fn repeated_runs_of_threads_that_do_the_same_count_the_same() {
    let recipe = BuildRecipe { source: "crew.c", flags: BARE };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    let job = TestJob::new(program, &["work", "8"]);
    let first = job.run(soft());
    for _ in 0..10 {
        assert_same_counts(&job.run(soft()).counts, &first.counts);
    }
}

#[test]
fn atomics_of_threads_in_each_others_way_are_those_that_the_program_counts_itself() {
    let recipe = BuildRecipe { source: "attempts.c", flags: &["-O2", "-pthread"] };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    let job = TestJob::new(program, &["200000"]);
    let beside = |run: &TestRun| {
        assert_eq!(run.status, Status::Code(0));
        let attempts: u64 = run.stdout.trim().split(' ').nth(1).unwrap().parse().unwrap();
        assert!(attempts >= 800_000);
        run.counts[0].count(ExecutionEvent::Atomics).unwrap() - attempts
    };
    let rest: Vec<u64> = (0..6).map(|_| beside(&job.run(soft()))).collect();
    // The functions of the C library have locks of their own, at which threads may meet.
    let (least, most) = (rest.iter().min().unwrap(), rest.iter().max().unwrap());
    assert!(most - least < 60, "{rest:?}");
}
