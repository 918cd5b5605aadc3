//! Windows of real commands under the software PMU, where tracing is permitted.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use common::{command, ended, read, skip, until, value};
use cyclometer_backend::{Launcher, Software, SoftwareSettings, software};
use cyclometer_core::exec::{CommandSpec, Reading, RefusalKind};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowRow, WindowSpec, WindowThread, WindowingState,
};
use cyclometer_core::{Part, Rung, Slot, SlotId, Target};

const SIGTERM: i32 = 15;

const EVENTS: [&str; 4] = ["instructions", "loads", "calls", "branches_conditional_taken"];

fn slots(names: &[&str]) -> Vec<Slot> {
    let slot = |(i, name): (usize, &&str)| {
        Slot::new(SlotId(i), *name, Rung::Soft, vec![Part::Soft((*name).to_owned())])
    };
    names.iter().enumerate().map(slot).collect()
}

fn instructions(period: u64) -> WindowBoundary {
    WindowBoundary::Events { slot: SlotId(0), period: NonZeroU64::new(period).unwrap() }
}

struct Here {
    launcher: Launcher,
    software: Software,
}

/// The rows of a recording.
#[derive(Default, Debug)]
struct Recorded {
    rows: Vec<WindowRow>,
    lost: u64,
}

impl Here {
    fn new() -> Option<Here> {
        if let Err(e) = cyclometer_sys::trace::permitted() {
            skip(&format!("the software PMU: tracing is not permitted here: {e}"));
            return None;
        }
        let software = software(SoftwareSettings::default()).unwrap();
        Some(Here { launcher: Launcher::start().unwrap(), software })
    }

    /// KdebugRecords a command to its end.
    fn record(&self, command: &CommandSpec, spec: &WindowSpec) -> Recorded {
        let mut child = self.software.launcher(&self.launcher).prepare(command).unwrap();
        let target = Target::Child(child.pid().unwrap());
        let mut windows = self.software.source().windows(&slots(&EVENTS), &target, spec).unwrap();
        windows.start().unwrap();
        child.release().unwrap();
        let mut recorded = Recorded::default();
        let mut state = WindowingState::Open;
        while state == WindowingState::Open {
            let mut batch = RowBatch::default();
            state = windows.next(Instant::now() + Duration::from_secs(5), &mut batch).unwrap();
            recorded.rows.extend(batch.rows);
            recorded.lost += batch.lost;
        }
        ended(child.as_mut());
        let mut batch = RowBatch::default();
        assert_eq!(windows.next(Instant::now(), &mut batch).unwrap(), WindowingState::Ended);
        assert!(batch.rows.is_empty());
        assert_eq!(windows.notes(), Vec::<String>::new());
        recorded
    }

    /// The totals of a run without windows.
    fn totals(&self, command: &CommandSpec) -> Vec<u64> {
        let mut child = self.software.launcher(&self.launcher).prepare(command).unwrap();
        let target = Target::Child(child.pid().unwrap());
        let mut counting = self.software.source().open(&slots(&EVENTS), &target).unwrap();
        counting.start().unwrap();
        child.release().unwrap();
        counting.exited(&ended(child.as_mut()));
        let mut reading = Reading::default();
        counting.read(&mut reading).unwrap();
        (0..EVENTS.len()).map(|event| value(&reading, event)).collect()
    }
}

impl Recorded {
    fn sums(&self) -> Vec<u64> {
        let mut sums = vec![0; EVENTS.len()];
        for row in &self.rows {
            assert_eq!(row.counts.len(), sums.len());
            sums.iter_mut().zip(&row.counts).for_each(|(sum, count)| *sum += count.value().unwrap());
        }
        sums
    }

    fn of_threads(&self) -> BTreeMap<WindowThread, Vec<&WindowRow>> {
        let mut threads: BTreeMap<WindowThread, Vec<&WindowRow>> = BTreeMap::new();
        for row in &self.rows {
            row.thread.iter().for_each(|thread| threads.entry(*thread).or_default().push(row));
        }
        threads
    }

    /// Every row but the last one of each thread and program has exactly so many instructions.
    fn check(&self, period: u64) {
        for (thread, rows) in self.of_threads() {
            for row in &rows {
                let instructions = row.counts[0].value().unwrap();
                match row.cause {
                    WindowCause::Boundary(0) => assert_eq!(instructions, period, "{row:?}"),
                    WindowCause::Exec | WindowCause::End => assert!(instructions <= period, "{row:?}"),
                    other => panic!("{other:?} in {thread:?}"),
                }
                assert!(row.time_ns.is_some() && row.cpu.is_none());
            }
            assert!(rows.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns), "{thread:?}");
        }
        assert_eq!(self.lost, 0);
        assert!(self.rows.iter().all(|row| row.cause != WindowCause::Unassigned), "{:?}", self.rows.last());
    }
}

#[test]
fn rows_have_their_instructions_and_add_up_to_the_counts_of_another_run() {
    let Some(here) = Here::new() else { return };
    let command = command("/bin/true", &[]);
    let totals = here.totals(&command);
    for period in [1009, 20_000] {
        let recorded = here.record(&command, &WindowSpec::new(instructions(period)));
        recorded.check(period);
        assert_eq!(recorded.sums(), totals);
        assert_eq!(recorded.rows.len() as u64, totals[0].div_ceil(period));
        let last = recorded.rows.last().unwrap();
        assert_eq!((last.cause, last.address), (WindowCause::End, None));
    }
}

#[test]
fn a_command_shorter_than_a_window_is_one_row() {
    let Some(here) = Here::new() else { return };
    let command = command("/bin/true", &[]);
    let recorded = here.record(&command, &WindowSpec::new(instructions(u64::MAX)));
    recorded.check(u64::MAX);
    assert_eq!(recorded.rows.len(), 1);
    assert_eq!(recorded.sums(), here.totals(&command));
}

#[test]
fn children_and_what_they_execute_are_recorded() {
    let Some(here) = Here::new() else { return };
    let command = command("sh", &["-c", "/bin/true; (exit 3); exec /bin/true"]);
    let recorded = here.record(&command, &WindowSpec::new(instructions(5003)));
    recorded.check(5003);
    let processes: BTreeSet<u32> = recorded.of_threads().keys().map(|thread| thread.pid).collect();
    assert_eq!(processes.len(), 3, "{processes:?}");
    let execs = recorded.rows.iter().filter(|row| row.cause == WindowCause::Exec).count();
    assert_eq!(execs, 2, "the child's, and the shell's own");
    assert_eq!(recorded.sums(), here.totals(&command));
}

#[test]
fn each_thread_has_rows_of_its_own() {
    let Some(here) = Here::new() else { return };
    let program = std::env::current_exe().unwrap();
    let args = ["--ignored", "--exact", "soft_windows::two_threads_work"];
    let recorded =
        here.record(&command(program.to_str().unwrap(), &args), &WindowSpec::new(instructions(100_000)));
    recorded.check(100_000);
    let full =
        |rows: &Vec<&WindowRow>| rows.iter().filter(|row| row.cause == WindowCause::Boundary(0)).count();
    let busy = recorded.of_threads().values().filter(|rows| full(rows) >= 10).count();
    assert!(busy >= 2, "{:?}", recorded.of_threads().keys());
}

#[test]
#[ignore = "is the program of the test before"]
fn two_threads_work() {
    let work = || (0..500_000_u64).fold(1_u64, |sum, i| std::hint::black_box(sum.wrapping_mul(31) ^ i));
    let threads = [std::thread::spawn(work), std::thread::spawn(work)];
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn rows_beyond_the_most_are_lost_and_their_counts_unassigned() {
    let Some(here) = Here::new() else { return };
    let command = command("/bin/true", &[]);
    let spec = WindowSpec { most_rows: 0, ..WindowSpec::new(instructions(10_000)) };
    let recorded = here.record(&command, &spec);
    let totals = here.totals(&command);
    assert_eq!(recorded.lost, totals[0].div_ceil(10_000));
    assert_eq!(recorded.rows.len(), 1);
    assert_eq!((recorded.rows[0].cause, recorded.rows[0].thread), (WindowCause::Unassigned, None));
    assert_eq!(recorded.sums(), totals);
}

#[test]
fn a_program_that_is_detached_has_rows_up_to_there_and_a_lost_rest() {
    let Some(here) = Here::new() else { return };
    let recorded =
        here.record(&command("sh", &["-c", "trap '' TRAP; exit 0"]), &WindowSpec::new(instructions(10_000)));
    let (unassigned, rows) = recorded.rows.split_last().unwrap();
    assert_eq!(unassigned.cause, WindowCause::Unassigned);
    let reason = unassigned.counts[0].reason().unwrap();
    assert!(unassigned.counts[0].value().is_none() && reason.contains("ignores SIGTRAP"), "{reason}");
    assert!(rows.len() > 2 && rows.iter().all(|row| row.counts[0].value().is_some()));
}

#[test]
fn boundaries_and_events_that_are_impossible_are_refused_by_name() {
    let Some(here) = Here::new() else { return };
    let child = here.software.launcher(&here.launcher).prepare(&command("true", &[])).unwrap();
    let target = Target::Child(child.pid().unwrap());
    let refusal = |names: &[&str], on: &Target, boundary| {
        let refused = here.software.source().windows(&slots(names), on, &WindowSpec::new(boundary));
        let refused = refused.err().unwrap();
        (refused.slot, refused.kind, refused.reason.to_string())
    };
    let (slot, kind, text) = refusal(&["calls"], &target, instructions(10));
    assert_eq!((slot, kind), (Some(SlotId(0)), RefusalKind::NotSupported));
    assert!(text.starts_with("windows of the software PMU end after instructions, not calls: "), "{text}");
    let (slot, _, text) = refusal(&["instructions", "distinct_code_bytes"], &target, instructions(10));
    assert!(slot == Some(SlotId(1)) && text.contains("no distinct_code_bytes"), "{text}");
    let (_, kind, text) = refusal(&EVENTS, &target, WindowBoundary::Interval(Duration::from_millis(10)));
    assert_eq!(kind, RefusalKind::NotSupported);
    assert!(text.ends_with("make rows of readings at an interval instead"), "{text}");
    for boundaries in [vec![], vec![instructions(10), instructions(20)]] {
        let spec = WindowSpec { boundaries, ..WindowSpec::new(instructions(10)) };
        let refused = here.software.source().windows(&slots(&EVENTS), &target, &spec).err().unwrap();
        assert_eq!(refused.kind, RefusalKind::Invalid);
        assert!(refused.reason.to_string().contains("one number of instructions"), "{}", refused.reason);
    }
    let (_, kind, _) = refusal(&EVENTS, &Target::ThisThread, instructions(10));
    assert_eq!(kind, RefusalKind::TargetNotSupported);
}

#[test]
fn a_request_that_the_tracer_refuses_says_why_and_the_command_is_counted() {
    let Some(here) = Here::new() else { return };
    let mut child = here.software.launcher(&here.launcher).prepare(&command("sleep", &["60"])).unwrap();
    let target = Target::Child(child.pid().unwrap());
    let source = here.software.source();
    let windows =
        |events: &[&str]| source.windows(&slots(events), &target, &WindowSpec::new(instructions(10)));
    let many = [&["instructions"][..], &["branches_conditional_taken"; 200]].concat();
    let refused = windows(&many).err().unwrap();
    assert_eq!(refused.kind, RefusalKind::Invalid);
    assert!(refused.reason.to_string().ends_with("request fewer"), "{}", refused.reason);
    let mut counting = source.open(&slots(&EVENTS), &target).unwrap();
    counting.start().unwrap();
    child.release().unwrap();
    let refused = loop {
        // Until it is released, the request is accepted.
        if let Err(refused) = windows(&EVENTS) {
            break refused;
        }
    };
    assert_eq!(refused.kind, RefusalKind::Other);
    assert!(
        refused.reason.to_string().ends_with("it was released: request them before"),
        "{}",
        refused.reason
    );
    let has_run = |reading: &Reading| reading.cells.iter().any(|cell| cell.raw > 1000);
    until(counting.as_mut(), has_run);
    child.signal(SIGTERM);
    counting.exited(&ended(child.as_mut()));
    assert!(has_run(&read(counting.as_mut())), "the rest of the refused line was no command for the tracer");
}
