//! Events from outside: programs are stopped, killed, inspected and detached, at any moment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::host::protocol::ProcessCounts;
use cyclometer_sys::process::{SIGINT, SIGKILL, Status};

use crate::support::compare::{assert_lost, assert_same_counts, assert_same_end};
use crate::support::programs::unique;
use crate::support::run::{DEADLINE, TestJob, TestRun, TraceMethod, soft};
use crate::support::{installed, ready};
use crate::{alike, check_counted, program, until};

const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// A program that works for a while.
fn waiting(steps: &str) -> Option<TestJob> {
    program("signals.c").map(|program| TestJob::new(program, &["wait", steps]))
}

#[test]
fn stopping_and_continuing_changes_no_count() {
    let Some(job) = waiting("20000000") else { return };
    let undisturbed = job.run(soft());
    let running = job.start(soft());
    for _ in 0..5 {
        running.signal(SIGSTOP);
        until("it does not stop", || state(running.pid()) == Some('T'));
        running.signal(SIGCONT);
        until("it does not go on", || state(running.pid()) != Some('T'));
    }
    let run = running.finish();
    assert_same_end(&run, &undisturbed);
    assert_same_counts(&run.counts, &undisturbed.counts);
}

#[test]
fn a_program_that_is_stopped_for_a_moment_while_it_starts_goes_on() {
    let Some(job) = waiting("1000") else { return };
    let undisturbed = job.run(soft());
    for moment in 0..60 {
        let running = job.start(soft());
        std::thread::sleep(Duration::from_micros(moment * 200));
        running.signal(SIGSTOP);
        until("it does not stop", || state(running.pid()).is_none_or(|state| matches!(state, 'T' | 'Z')));
        running.signal(SIGCONT);
        let run = running.finish();
        assert_same_end(&run, &undisturbed);
        assert_same_counts(&run.counts, &undisturbed.counts);
    }
}

#[test]
fn a_stopped_program_can_be_killed() {
    let Some(job) = waiting("10000000000") else { return };
    let running = job.start(soft());
    running.until_it_says("waiting");
    running.signal(SIGSTOP);
    until("it does not stop", || state(running.pid()) == Some('T'));
    running.signal(SIGKILL);
    assert_eq!(running.finish().status, Status::Signal(SIGKILL));
}

/// The letter that the kernel has for what a process does.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // A stop for its tracer is none of its own.
    let letter = stat.rsplit_once(") ")?.1.chars().next()?;
    Some(if letter == 't' { 'T' } else { letter })
}

#[test]
fn a_program_that_is_interrupted_is_counted_to_there() {
    let Some(job) = waiting("10000000000") else { return };
    for signal in [SIGINT, SIGTERM] {
        let running = job.start(soft());
        running.until_it_says("waiting");
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.status, Status::Signal(signal));
        check_counted(&run);
    }
}

#[test]
fn a_program_that_is_killed_at_any_time_leaves_no_one_waiting() {
    let Some(program) = program("family.c") else { return };
    let job = TestJob::new(program, &["fork", "3"]);
    for delay in 0..100 {
        let running = job.start(soft());
        std::thread::sleep(Duration::from_micros(delay * 250));
        running.signal(SIGKILL);
        let run = running.finish();
        assert!(matches!(run.status, Status::Signal(SIGKILL) | Status::Code(_)), "{run:?}");
    }
}

#[test]
fn descendants_that_are_killed_at_any_time_leave_no_one_waiting() {
    let Some(program) = program("family.c") else { return };
    let job = TestJob::new(program, &["fork", "6"]);
    for delay in 0..60 {
        let running = job.start(soft());
        let end = Instant::now() + Duration::from_micros(4000 + delay * 300);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let killed = descendant(running.pid(), delay % 3);
        killed.into_iter().for_each(|pid| drop(cyclometer_sys::process::signal(pid, SIGKILL)));
        let run = running.finish();
        assert_eq!(run.status, Status::Code(6), "{run:?}");
        check_counted_or_killed(&run);
    }
}

/// Counts are there, but for processes that were killed.
#[track_caller]
fn check_counted_or_killed(run: &TestRun) {
    let lost = run.counts.iter().filter(|process| process.counts.is_err());
    lost.for_each(|process| assert_lost(process, "killed"));
}

/// A child, or one's child, as deep as there are any.
fn descendant(pid: u32, depth: u64) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let child = children.split_ascii_whitespace().next()?.parse().ok()?;
    if depth == 0 { Some(child) } else { descendant(child, depth - 1).or(Some(child)) }
}

#[test]
fn counts_can_be_read_while_a_program_runs() {
    let Some(job) = waiting("100000000") else { return };
    let running = job.start(soft());
    running.until_it_says("waiting");
    let mut last = 0;
    for _ in 0..5 {
        let counts = running.counts();
        let count = counts[0].count(ExecutionEvent::Instructions).unwrap();
        assert!(count >= last, "{count} < {last}");
        last = count;
        std::thread::sleep(Duration::from_millis(20));
    }
    let run = running.finish();
    assert!(run.counts[0].count(ExecutionEvent::Instructions).unwrap() > last);
    assert!(last > 0);
}

#[test]
fn counts_can_be_read_at_any_moment_up_to_the_end() {
    let (Some(shell), true) = (installed("sh"), ready()) else { return };
    // A short program is mostly at a stop, or at its end.
    let job = TestJob::new(shell, &["-c", "/bin/true; (exit 3)"]);
    let (mut readings, mut partial) = (0, 0);
    for round in 0..60 {
        // The faster the translation, the fewer readings of a run.
        if round >= 12 && partial > 100 {
            break;
        }
        let mut running = job.start(soft());
        let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
        let counts = loop {
            let (counts, last) = running.ask();
            for process in &counts {
                let count = process.count(ExecutionEvent::Instructions).unwrap();
                let before = seen.insert(process.pid, count).unwrap_or(0);
                assert!(count >= before, "{}: {count} after {before}", process.name);
            }
            readings += 1;
            if last {
                break counts;
            }
            partial += usize::from(seen.values().sum::<u64>() > 0);
        };
        running.wait();
        assert_eq!(counts.len(), 3, "{counts:?}");
        check_same_instructions(&counts, &job.run(soft()).counts);
    }
    assert!(partial > 100, "{partial} of {readings} readings came while something had been executed");
}

#[track_caller]
fn check_same_instructions(counts: &[ProcessCounts], others: &[ProcessCounts]) {
    let of = |counts: &[ProcessCounts]| {
        counts.iter().map(|process| process.count(ExecutionEvent::Instructions)).collect::<Vec<_>>()
    };
    assert_eq!(of(counts), of(others));
}

/// Rounds of a loop of two instructions.
fn rounds(number: &str) -> Option<TestJob> {
    program("loops.c").map(|program| TestJob::new(program, &["rounds", number]))
}

/// Instructions of a run outside of its loop. The handler reports where in the loop it was interrupted, and
/// the rounds that remained. `None` where that was not in the loop.
#[track_caller]
fn outside_of_loop(run: &TestRun, rounds: u64) -> Option<u64> {
    assert_eq!(run.status, Status::Code(7), "{run:?}");
    let value = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let (at, left) = run.stdout.trim_end().split_at(16);
    let executed = match value(at) {
        0 => 2 * (rounds - value(left)),
        3 => 2 * (rounds - value(left)) - 1,
        _ => return None,
    };
    Some(run.counts[0].count(ExecutionEvent::Instructions).unwrap() - executed)
}

#[test]
fn a_tight_loop_that_is_interrupted_counts_to_the_last_instruction() {
    const ROUNDS: u64 = 1 << 40;
    let Some(program) = program("loops.c") else { return };
    let job = TestJob::new(program, &["interrupted", &ROUNDS.to_string()]);
    let stepped =
        outside_of_loop(&job.run(TraceMethod::Oracle), ROUNDS).expect("steps are in the loop by then");
    let all: Vec<u64> = (0..6).filter_map(|_| outside_of_loop(&job.run(soft()), ROUNDS)).collect();
    assert!(all.len() > 2, "{} of 6 runs were interrupted in the loop", all.len());
    assert!(all.iter().all(|one| *one == stepped), "{all:?}, not {stepped}");
}

#[test]
fn a_tight_loop_that_is_read_and_stopped_counts_the_same() {
    let Some(job) = rounds("3000000000") else { return };
    let undisturbed = job.run(soft());
    let running = job.start(soft());
    running.until_it_says("waiting");
    let mut last = 0;
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        let count = running.counts()[0].count(ExecutionEvent::Instructions).unwrap();
        assert!(count > last + 100_000, "{count} behind {last}");
        last = count;
        running.signal(SIGSTOP);
        until("it does not stop", || state(running.pid()) == Some('T'));
        running.signal(SIGCONT);
    }
    assert!(!running.output().contains("done"), "too fast to be a test");
    let run = running.finish();
    assert_same_end(&run, &undisturbed);
    assert_same_counts(&run.counts, &undisturbed.counts);
}

#[test]
fn a_tight_loop_that_is_ended_is_counted_to_there() {
    for signal in [SIGTERM, SIGKILL] {
        let Some(job) = rounds("100000000000000") else { return };
        let running = job.start(soft());
        running.until_it_says("waiting");
        std::thread::sleep(Duration::from_millis(20));
        let before = running.counts()[0].count(ExecutionEvent::Instructions).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        running.signal(signal);
        let run = running.finish();
        assert_eq!(run.status, Status::Signal(signal));
        let count = run.counts[0].count(ExecutionEvent::Instructions).unwrap();
        assert!(count > before + 100_000, "{count} behind {before}");
    }
}

#[test]
fn a_program_goes_on_by_itself_when_nobody_wants_its_counts_any_more() {
    let Some(job) = waiting("300000000") else { return };
    let mut running = job.start(soft());
    running.until_it_says("waiting");
    let tracer = running.tracer().unwrap();
    running.abandon();
    until("the tracer lives on", || !is_there(tracer));
    assert!(!running.output().contains("done"), "too fast to be a test");
    assert_eq!(running.wait(), Status::Code(0));
    running.until_it_says("done");
}

fn is_there(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z'))
}

/// Where the process of the next test is to say what it started.
const PLACE: &str = "CYCLOMETER_TEST_PLACE";

#[test]
fn a_program_goes_on_by_itself_when_its_maker_is_killed() {
    if let Some(place) = std::env::var_os(PLACE) {
        return start_and_wait(Path::new(&place));
    }
    if waiting("1").is_none() {
        return;
    }
    let place = unique("place");
    let mut maker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "outside::a_program_goes_on_by_itself_when_its_maker_is_killed"])
        .env(PLACE, &place)
        .spawn()
        .unwrap();
    let mut said = String::new();
    until("nothing was started", || {
        said = fs::read_to_string(&place).unwrap_or_default();
        said.ends_with('\n')
    });
    maker.kill().unwrap();
    maker.wait().unwrap();
    let (pid, output) = said.trim().split_once(' ').unwrap();
    until("it did not go on", || fs::read_to_string(output).unwrap().contains("done"));
    until("it does not end", || !is_there(pid.parse().unwrap()));
    [Path::new(output), &place].iter().for_each(|file| fs::remove_file(file).unwrap());
}

fn start_and_wait(place: &Path) {
    let running = waiting("300000000").unwrap().start(soft());
    running.until_it_says("waiting");
    let draft = unique("place-draft");
    fs::write(&draft, format!("{} {}\n", running.pid(), running.output_file().display())).unwrap();
    fs::rename(draft, place).unwrap();
    std::thread::sleep(DEADLINE);
}

#[test]
fn counts_are_the_same_when_they_are_read_between_signals() {
    let Some(program) = program("signals.c") else { return };
    let alone = TestJob::new(program.clone(), &["storm"]).start(soft()).finish();
    let running = TestJob::new(program, &["storm"]).start(soft());
    for _ in 0..20 {
        let _ = running.counts();
    }
    assert_eq!(running.finish().counts[0].counts, alone.counts[0].counts);
}

#[test]
fn a_wait_that_no_signal_ends_is_not_ended_by_us() {
    let Some(program) = program("signals.c") else { return };
    check_counted(&alike(&TestJob::new(program.clone(), &["epoll"])));
    let running = TestJob::new(program, &["epoll"]).start(soft());
    for _ in 0..10 {
        let _ = running.counts();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(running.finish().status, Status::Code(0));
}

#[test]
fn a_program_whose_tracer_is_killed_is_killed() {
    let Some(job) = waiting("10000000000") else { return };
    let mut running = job.start(soft());
    running.until_it_says("waiting");
    cyclometer_sys::process::signal(running.tracer().unwrap(), SIGKILL).unwrap();
    assert_eq!(running.wait(), Status::Signal(SIGKILL));
}
