//! Windows end where they are to end, and add up to the counts of the run.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer_soft::ExecutionEvent;
use cyclometer_soft::host::stepped_windows::{WindowLimits, WindowStepper};
use cyclometer_soft::host::thread_states::ThreadStates;
use cyclometer_soft::host::window_protocol::{
    TracedMapping, TracedWindow, TracedWindowEnd, WindowLine, WindowRequest,
};
use cyclometer_soft::host::{RetranslationPolicy, TracerSettings};
use cyclometer_sys::process::Status;
use support::caches::TestCacheFolder;
use support::compare::{assert_same_counts, assert_same_end};
use support::programs::{BARE, BuildRecipe, build};
use support::run::{TestJob, TestRun, TraceMethod, settings, soft};
use support::{installed, ready};

/// Every event that is a sum, the instructions first.
fn events() -> Vec<ExecutionEvent> {
    let all = ExecutionEvent::ALL.iter().copied();
    all.filter(|event| *event != ExecutionEvent::DistinctCodeBytes).collect()
}

fn every(period: u64) -> WindowRequest {
    let period = NonZeroU64::new(period).unwrap();
    WindowRequest { period, most_rows: usize::MAX, events: events() }
}

fn job(source: &str, flags: &[&str], args: &[&str]) -> Option<TestJob> {
    let program = ready().then(|| build(&BuildRecipe { source, flags })).flatten()?;
    Some(TestJob::new(program, args))
}

fn rows(run: &TestRun) -> Vec<&TracedWindow> {
    run.windows
        .iter()
        .filter_map(|line| match line {
            WindowLine::Row(row) => Some(row),
            WindowLine::Lost(rows) => panic!("{rows} are lost"),
            WindowLine::Name { .. } | WindowLine::Memory { .. } | WindowLine::Mapping(_) => None,
        })
        .collect()
}

/// The sums over the rows of each process are its counts, and every count is known.
#[track_caller]
fn assert_adds_up(run: &TestRun) {
    assert!(run.lost().is_empty() && !run.counts.is_empty(), "{:?}", run.lost());
    let nothing = vec![0; events().len()];
    let mut sums: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for row in rows(run) {
        let sum = sums.entry(row.pid).or_insert_with(|| nothing.clone());
        for ((sum, count), event) in sum.iter_mut().zip(&row.counts).zip(events()) {
            *sum += count.unwrap_or_else(|| panic!("{event} in {row:?}"));
        }
    }
    for process in &run.counts {
        for (event, sum) in events().into_iter().zip(sums.remove(&process.pid).unwrap_or(nothing.clone())) {
            assert_eq!(Ok(sum), process.count(event), "{event} of {}", process.name);
        }
    }
    assert!(sums.is_empty(), "rows of processes that were not counted: {sums:?}");
}

/// All windows but the last one of each thread and program have exactly so many instructions.
#[track_caller]
fn assert_exact(run: &TestRun, period: u64) {
    let mut ended: HashMap<u32, TracedWindowEnd> = HashMap::new();
    for row in rows(run) {
        if row.end == TracedWindowEnd::Exec {
            // The thread that executes a program gets the id of the first one, which has ended.
            ended.remove(&row.pid);
        }
        let before = ended.insert(row.tid, row.end);
        assert_ne!(before, Some(TracedWindowEnd::End), "a row behind the last one: {row:?}");
        let instructions = row.counts[0].unwrap();
        match row.end {
            TracedWindowEnd::Period => assert_eq!(instructions, period, "{row:?}"),
            _ => assert!((1..=period).contains(&instructions), "{row:?}"),
        }
    }
}

/// Runs a program with windows; its output and counts are the same as without.
#[track_caller]
fn recorded(job: &TestJob, period: u64) -> TestRun {
    let without = job.run(soft());
    let with = job.clone().windowed(every(period)).run(soft());
    assert_same_end(&with, &without);
    assert!(with.lost().is_empty(), "{:?}", with.lost());
    assert_exact(&with, period);
    assert_adds_up(&with);
    assert_same_counts(&with.counts, &without.counts);
    with
}

#[track_caller]
fn check(source: &str, flags: &[&str], args: &[&str], periods: &[u64]) {
    let Some(job) = job(source, flags, args) else { return };
    for period in periods {
        recorded(&job, *period);
    }
}

#[test]
fn each_window_has_its_instructions_and_all_add_up() {
    check("library.c", &["-O2", "-lm"], &["5"], &[997, 10_000]);
    check("language.c", &["-O2"], &[], &[1000]);
    check("language.c", &["-O0"], &[], &[3001]);
}

#[test]
fn a_program_shorter_than_a_window_has_one_row() {
    let Some(job) = job("exit.c", &["-O2"], &[]) else { return };
    let run = recorded(&job, u64::MAX >> 1);
    // The program that starts it has another.
    let ends: Vec<TracedWindowEnd> = rows(&run).iter().map(|row| row.end).collect();
    assert_eq!(ends, [TracedWindowEnd::Exec, TracedWindowEnd::End], "{:?}", run.windows);
}

#[test]
fn windows_of_few_instructions_end_within_blocks() {
    check("crew.c", BARE, &["work", "1"], &[1, 2, 3, 5]);
}

#[test]
fn a_program_that_is_stepped_to_a_boundary_does_not_see_the_trap_flag() {
    let Some(job) = job("trapflag.S", BARE, &[]) else { return };
    for period in [1, 2, 3] {
        let run = recorded(&job, period);
        assert_eq!(run.status, Status::Code(0));
    }
}

#[test]
fn a_window_may_end_before_and_behind_a_far_transfer() {
    check("far.S", BARE, &[], &[1, 2, 3, 7]);
}

#[test]
fn repeated_and_masked_instructions_are_in_one_window() {
    check("strings.S", BARE, &[], &[1013]);
    let Some(job) = job("units.S", BARE, &[]) else { return };
    for period in [1, 7] {
        let run = job.clone().windowed(every(period)).run(soft());
        assert_exact(&run, period);
        assert_adds_up(&run);
    }
}

#[test]
fn loops_of_one_block_are_cut_where_windows_end() {
    check("loops.c", &["-O2"], &["kinds", "50"], &[513, 5000]);
    check("loops.c", &["-O2"], &["rounds", "100000"], &[7919]);
    check("loops.c", &["-O2"], &["faults"], &[101]);
}

#[test]
fn each_thread_has_windows_of_its_own() {
    for args in [["work", "4"], ["in turns", "3"], ["wait", "3"], ["outlive", "1"], ["change", "3"]] {
        check("crew.c", BARE, &args, &[100]);
    }
    let Some(job) = job("crew.c", BARE, &["work", "4"]) else { return };
    let run = recorded(&job, 100);
    let mut threads: Vec<u32> = rows(&run).iter().map(|row| row.tid).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 5, "{threads:?}");
}

#[test]
fn threads_whose_windows_end_all_the_time_do_not_suspend_the_others() {
    for (args, end) in [(["end", "6"], Status::Code(4)), (["execute", "6"], Status::Code(0))] {
        let Some(job) = job("threads.c", &["-O2", "-pthread", "-ldl"], &args) else { return };
        let run = job.windowed(every(10_007)).run(soft());
        assert_eq!(run.status, end, "{args:?}: {}", run.stdout);
        assert_exact(&run, 10_007);
        assert_adds_up(&run);
    }
}

#[test]
fn a_crowd_whose_windows_end_all_the_time_can_be_asked_for_its_counts() {
    let Some(job) = job("threads.c", &["-O2", "-pthread", "-ldl"], &["wait", "16", "1000"]) else { return };
    let run = job.windowed(every(10_007)).start(soft());
    run.until_it_says("waiting");
    let (counts, windows) = run.report_with_windows();
    assert!(counts[0].count(ExecutionEvent::Instructions).unwrap() > 10_007, "{counts:?}");
    assert!(!windows.is_empty());
}

#[test]
fn children_have_windows_and_a_new_program_starts_one() {
    check("crew.c", BARE, &["fork", "2"], &[50]);
    check("family.c", &["-O2"], &["fork", "3"], &[2000]);
    check("family.c", &["-O2"], &["vfork"], &[2000]);
    check("family.c", &["-O2"], &["spawn"], &[2000]);
    let Some(job) = job("family.c", &["-O2"], &["exec", "2"]) else { return };
    let run = recorded(&job, 2000);
    let ends: Vec<TracedWindowEnd> = rows(&run).iter().map(|row| row.end).collect();
    assert_eq!(ends.iter().filter(|end| **end == TracedWindowEnd::Exec).count(), 3, "{ends:?}");
}

#[test]
fn a_thread_that_executes_a_program_ends_the_windows_of_all() {
    check("crew.c", BARE, &["execute", "3"], &[50]);
}

#[test]
fn handlers_of_signals_are_in_the_windows_of_their_thread() {
    for which in ["plain", "nested", "stack", "blocked", "jump", "rescued", "faults", "elsewhere"] {
        check("signals.c", &["-O2"], &[which], &[997]);
    }
    for which in ["breakpoints", "abort", "illegal", "null", "trap"] {
        check("signals.c", &["-O2"], &[which], &[1009]);
    }
}

#[test]
fn system_calls_that_are_made_again_are_in_one_window() {
    // Whether a signal finds the process in its call depends on time: no two runs are compared.
    for which in ["restart", "ignored"] {
        let Some(job) = job("signals.c", &["-O2"], &[which]) else { return };
        let run = job.windowed(every(1009)).run(soft());
        assert_eq!(run.status, Status::Code(0), "{}", run.stdout);
        assert_exact(&run, 1009);
        assert_adds_up(&run);
    }
}

#[test]
fn signals_at_any_time_do_not_change_the_length_of_windows() {
    // One ends in its handler, and the other one after 50 signals.
    let interrupted = ("loops.c", ["interrupted", "1000000000"], Status::Code(7));
    for (source, args, end) in [interrupted, ("signals.c", ["timers", ""], Status::Code(0))] {
        let Some(job) = job(source, &["-O2"], &args) else { return };
        for period in [100_003, 1_000_000_007] {
            let run = job.clone().windowed(every(period)).run(soft());
            assert_eq!(run.status, end, "{}", run.stdout);
            assert_exact(&run, period);
            assert_adds_up(&run);
        }
    }
}

#[test]
fn a_fault_before_a_boundary_leaves_the_window_open() {
    let Some(job) = job("fault.S", BARE, &[]) else { return };
    let last = |run: &TestRun| rows(run).last().map(|row| (row.end, row.counts[0].unwrap()));
    let (end, instructions) = last(&recorded(&job, u64::MAX >> 1)).unwrap();
    assert_eq!(end, TracedWindowEnd::End);
    for behind in 1..=3 {
        assert_eq!(last(&recorded(&job, instructions + behind)), Some((end, instructions)), "{behind}");
    }
}

#[test]
fn code_that_changes_or_is_unloaded_stays_within_windows() {
    check("loading.c", &["-O2"], &["libm.so.6", "cos"], &[4999]);
    for way in ["toggled", "reused", "replaced", "reloaded", "discarded", "forked"] {
        check("changing.c", &["-O2"], &[way], &[10_007]);
    }
}

#[test]
fn windows_go_on_in_another_translation() {
    let Some(job) = job("longer.c", &["-O2"], &["memory"]) else { return };
    let always =
        TraceMethod::Soft(TracerSettings { retranslation: RetranslationPolicy::Always, ..settings() });
    let run = job.windowed(every(1_000_003)).run(always);
    assert!(run.stdout.contains("moved"), "{}", run.stdout);
    assert_exact(&run, 1_000_003);
    assert_adds_up(&run);
}

#[test]
fn a_stored_translation_is_not_used_for_windows_and_none_is_stored() {
    let Some(job) = job("library.c", &["-O2", "-lm"], &["5"]) else { return };
    let folder = TestCacheFolder::new(0o700);
    let job = job.hinted(&folder.profiles);
    recorded(&job, 10_007);
    assert_eq!(folder.kept().len(), 0, "the first run has no profile");
    job.run(soft());
    let stored = folder.kept();
    assert!(!stored.is_empty());
    for _ in 0..2 {
        recorded(&job, 10_007);
    }
    assert_eq!(folder.kept(), stored);
}

#[test]
fn shells_and_their_commands_are_recorded() {
    let Some(dash) = ready().then(|| installed("dash")).flatten() else { return };
    let script = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); done; echo $i; /bin/true && (exit 2) || echo $?";
    recorded(&TestJob::new(dash, &["-c", script]), 10_007);
}

#[test]
fn each_row_comes_behind_its_threads_name_and_its_processs_memory() {
    let Some(dash) = ready().then(|| installed("dash")).flatten() else { return };
    let script = "i=0; while [ $i -lt 20 ]; do i=$((i+1)); done; (/bin/true); exec /bin/true";
    let run = TestJob::new(dash, &["-c", script]).windowed(every(1009)).run(soft());
    let (mut names, mut memory) = (HashMap::new(), HashMap::<u32, Vec<&TracedMapping>>::new());
    let (mut seen, mut programs) = (BTreeSet::new(), BTreeSet::new());
    for line in &run.windows {
        match line {
            WindowLine::Name { pid, tid, name } => drop(names.insert((*pid, *tid), name.as_str())),
            WindowLine::Memory { pid } => drop(memory.insert(*pid, Vec::new())),
            WindowLine::Mapping(mapping) => memory.get_mut(&mapping.pid).unwrap().push(mapping),
            WindowLine::Lost(rows) => panic!("{rows} are lost"),
            WindowLine::Row(row) => {
                let name = names[&(row.pid, row.tid)];
                seen.insert((row.pid, name));
                let is_in = |address: u64, mapping: &TracedMapping| {
                    address.checked_sub(mapping.start).is_some_and(|distance| distance < mapping.len)
                };
                if let Some(address) = row.address {
                    let mapping = memory[&row.pid].iter().find(|mapping| is_in(address, mapping));
                    let file = &mapping.unwrap_or_else(|| panic!("{row:?}: {memory:?}")).file;
                    programs.insert((name, file.rsplit('/').next().unwrap()));
                }
            }
        }
    }
    // The shell becomes the program in its own process, and in that of the subshell. Before that, a helper
    // of the tests becomes the shell.
    seen.retain(|(_, name)| ["dash", "true"].contains(name));
    let shells = seen.iter().filter(|(_, name)| *name == "dash").count();
    assert_eq!((shells, seen.len()), (2, 4), "{seen:?}");
    let has = |name, file| programs.contains(&(name, file));
    assert!(has("dash", "dash") && has("true", "libc.so.6"), "{programs:?}");
    assert!(!has("dash", "true") && !has("true", "dash"), "{programs:?}");
}

#[test]
fn rows_without_room_are_counted_as_lost_and_the_next_row_of_the_thread_knows_them() {
    let Some(job) = job("loops.c", &["-O2"], &["rounds", "10000"]) else { return };
    let run = job.windowed(WindowRequest { most_rows: 3, ..every(100) }).run(soft());
    let (mut lost, mut kept) = (0, Vec::new());
    for line in &run.windows {
        match line {
            WindowLine::Lost(rows) => lost += rows,
            WindowLine::Row(row) => kept.push(row),
            WindowLine::Name { .. } | WindowLine::Memory { .. } | WindowLine::Mapping(_) => {}
        }
    }
    assert!(lost > 0 && kept.len() > 1, "{lost} lost, {kept:?}");
    let instructions = run.counts[0].count(ExecutionEvent::Instructions).unwrap();
    // Two programs, each with a shorter last window.
    let (windows, counted) = (instructions.div_ceil(100), lost + kept.len() as u64);
    assert!((windows..=windows + 1).contains(&counted), "{lost} + {}, {instructions}", kept.len());
    let lost_before: u64 = kept.iter().map(|row| row.lost_before).sum();
    assert!((1..=lost).contains(&lost_before), "{lost_before} of {lost}");
}

/// The letter of a process's state; `None` once it has been reaped.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

#[test]
fn a_stepped_window_of_a_process_that_has_ended_is_empty() {
    if !ready() {
        return;
    }
    let mut command = std::process::Command::new("/bin/sh").args(["-c", ":"]).spawn().unwrap();
    let mut stepper = WindowStepper::new(command.id());
    while state(command.id()) != Some('Z') {
        std::thread::sleep(Duration::from_millis(1));
    }
    stepper.window(WindowLimits { steps: 1000, time: Duration::from_millis(20) }).unwrap();
    assert_eq!(command.wait().unwrap().code(), Some(0));
}

#[test]
fn a_stepped_window_does_not_wait_for_a_process_that_waits_for_its_child() {
    let recipe = BuildRecipe { source: "lender.c", flags: &["-O2"] };
    let Some(program) = ready().then(|| build(&recipe)).flatten() else { return };
    let piped = std::process::Stdio::piped();
    let mut parent = std::process::Command::new(program).stdin(piped).spawn().unwrap();
    while state(parent.id()) != Some('D') {
        assert_eq!(parent.try_wait().unwrap(), None, "its child waits for the end of the input");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut stepper = WindowStepper::new(parent.id());
    for _ in 0..3 {
        stepper.window(WindowLimits { steps: 1000, time: Duration::from_millis(20) }).unwrap();
    }
    // A thread that was stepped wakes up first, and gets a CPU when others leave one.
    let waits = || {
        let mut states = ThreadStates::default();
        states.look(parent.id());
        ((states.waiting, states.device) != (2, 0)).then_some(states)
    };
    let began = std::time::Instant::now();
    while let Some(states) = waits() {
        assert!(
            began.elapsed() < Duration::from_secs(600),
            "the two wait for each other and the input: {states:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(parent.stdin.take());
    assert_eq!(parent.wait().unwrap().code(), Some(0));
}
