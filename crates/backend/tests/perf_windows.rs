//! Windows of perf with a leader that every kernel has: the CPU clock. Without permission to open events the
//! tests say so, and test nothing.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{perf_part, skip, slot};
use cyclometer_backend::{Launcher, PerfSource};
use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{CommandSpec, OutputStream, Reading, RefusalKind, Waited};
use cyclometer_core::window::{
    RowBatch, WindowBoundary, WindowCause, WindowRow, WindowSpec, WindowThread, Windowing, WindowingState,
};
use cyclometer_core::{Launch, Refusal, Slot, SlotId, Source, Target};

/// `PERF_COUNT_SW_TASK_CLOCK` and `PERF_COUNT_SW_PAGE_FAULTS`.
const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
/// `O_NONBLOCK` of Linux, so that a pipe without a reader is an error.
const O_NONBLOCK: i32 = 0o4000;
const TICK_NS: u64 = 2_000_000;

fn slots() -> Vec<Slot> {
    let software = |config| perf_part("software", 1, config, PerfClass::Software);
    vec![slot(0, "page-faults", software(PAGE_FAULTS)), slot(1, "task-clock", software(TASK_CLOCK))]
}

fn spec(slot: usize, period: u64) -> WindowSpec {
    let period = NonZeroU64::new(period).unwrap();
    WindowSpec::new(WindowBoundary::Events { slot: SlotId(slot), period })
}

/// Reports in the log that nothing could be tested without permission.
fn permitted<T>(opened: Result<T, Refusal>) -> Option<T> {
    match opened {
        Ok(open) => Some(open),
        Err(Refusal { kind: RefusalKind::NoPermission, reason, .. }) => {
            skip(&reason.to_string());
            None
        }
        Err(refusal) => panic!("{refusal:?}"),
    }
}

struct RecordedRun {
    rows: Vec<WindowRow>,
    totals: Vec<u64>,
    lost: u64,
}

fn take(windows: &mut dyn Windowing, run: &mut RecordedRun, until: Instant) -> WindowingState {
    let mut batch = RowBatch::default();
    let state = windows.next(until, &mut batch).unwrap();
    run.rows.extend(batch.rows);
    run.lost += batch.lost;
    state
}

fn recorded(program: &str, args: &[&str]) -> Option<RecordedRun> {
    recorded_while(program, args, |_| {})
}

/// Runs a command with windows, and counters that threads and children inherit beside. The last argument is
/// called after the command began, with a function that takes rows.
fn recorded_while(
    program: &str,
    args: &[&str],
    meanwhile: impl FnOnce(&mut dyn FnMut()),
) -> Option<RecordedRun> {
    let launcher = Launcher::start().unwrap();
    let command = CommandSpec {
        args: args.iter().map(Into::into).collect(),
        stdout: OutputStream::Null,
        ..CommandSpec::new(program)
    };
    let mut child = launcher.prepare(&command).unwrap();
    let (source, target) = (PerfSource::new(), Target::Child(child.pid().unwrap()));
    let mut counting = permitted(source.open(&slots(), &target))?;
    let mut windows = permitted(source.windows(&slots(), &target, &spec(1, TICK_NS)))?;
    counting.start().unwrap();
    windows.start().unwrap();
    child.release().unwrap();
    let mut run = RecordedRun { rows: Vec::new(), totals: Vec::new(), lost: 0 };
    meanwhile(&mut || {
        take(windows.as_mut(), &mut run, Instant::now());
    });
    while !matches!(child.wait(Some(Instant::now() + Duration::from_millis(5))).unwrap(), Waited::Exited(_)) {
        take(windows.as_mut(), &mut run, Instant::now());
    }
    windows.stop().unwrap();
    assert_eq!(take(windows.as_mut(), &mut run, Instant::now()), WindowingState::Ended);
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    let total =
        |slot| reading.cells.iter().filter(|cell| cell.slot == SlotId(slot)).map(|cell| cell.raw).sum();
    run.totals = vec![total(0), total(1)];
    Some(run)
}

fn sum(rows: &[WindowRow], column: usize) -> u64 {
    rows.iter().filter_map(|row| row.counts[column].value()).sum()
}

const BUSY: &str = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";

#[test]
fn the_rows_of_a_command_add_up_to_its_totals() {
    let Some(run) = recorded("sh", &["-c", BUSY]) else { return };
    assert_eq!((sum(&run.rows, 0), sum(&run.rows, 1)), (run.totals[0], run.totals[1]), "{:?}", run.rows);
    let (last, whole) = run.rows.split_last().unwrap();
    assert_eq!((last.cause, run.lost), (WindowCause::End, 0));
    assert!(whole.iter().all(|row| row.cause == WindowCause::Boundary(0)));
    assert!(whole.iter().all(|row| row.counts[1].value().unwrap() > 0), "{whole:?}");
    assert!(run.rows.is_sorted_by_key(|row| row.time_ns), "{:?}", run.rows);
    assert!(whole.iter().all(|row| row.address.is_some() && row.cpu.is_some()));
}

#[test]
fn children_have_windows_of_their_own_and_no_event_is_in_two() {
    let folder = tempfile::tempdir().unwrap();
    let pipes = ["a", "b"].map(|name| folder.path().join(name));
    let made = Command::new("mkfifo").args(&pipes).status().unwrap();
    assert!(made.success());
    let child = |pipe: &Path| format!("(read x < {}; {BUSY}) &", pipe.display());
    let both = format!("{} {} wait; true", child(&pipes[0]), child(&pipes[1]));
    // The children go on when their groups are open.
    let go_on = |take_rows: &mut dyn FnMut()| {
        let opened = pipes.each_ref().map(|pipe| {
            loop {
                take_rows();
                match OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(pipe) {
                    Ok(writer) => break writer,
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        });
        take_rows();
        opened.iter().for_each(|mut writer| writer.write_all(b"\n").unwrap());
    };
    let Some(run) = recorded_while("sh", &["-c", &both], go_on) else { return };
    let threads: BTreeSet<u32> = run.rows.iter().filter_map(|row| Some(row.thread?.tid)).collect();
    assert_eq!(threads.len(), 3, "{threads:?}");
    for column in 0..2 {
        let (rows, total) = (sum(&run.rows, column), run.totals[column]);
        assert!(rows <= total, "column {column}: {rows} of {total}");
    }
    let of_children = run.rows.iter().filter(|row| row.cause == WindowCause::Boundary(0)).count();
    assert!(of_children > 0);
    let last = |tid: &u32| {
        let own = run.rows.iter().filter(|row| row.thread.is_some_and(|thread| thread.tid == *tid));
        own.map(|row| row.cause).next_back()
    };
    assert!(threads.iter().all(|tid| last(tid) == Some(WindowCause::End)));
}

#[test]
fn a_command_shorter_than_a_window_is_one_row() {
    let Some(run) = recorded("true", &[]) else { return };
    assert_eq!(run.rows.iter().filter(|row| row.cause == WindowCause::End).count(), 1, "{:?}", run.rows);
    assert_eq!(sum(&run.rows, 0), run.totals[0]);
}

#[test]
fn a_process_that_does_not_exist_and_boundaries_that_perf_lacks_are_refused() {
    let open = |target: &Target, spec: &WindowSpec| PerfSource::new().windows(&slots(), target, spec).err();
    let gone = Target::Process { pid: u32::MAX >> 2, inherit: true };
    assert_eq!(open(&gone, &spec(1, TICK_NS)).map(|refusal| refusal.kind), Some(RefusalKind::NoSuchTarget));
    let by_time = WindowSpec::new(WindowBoundary::Interval(Duration::from_secs(1)));
    let refusal = open(&Target::ThisThread, &by_time).unwrap();
    assert_eq!(refusal.kind, RefusalKind::TargetNotSupported);
    let refusal = open(&Target::ThisThread, &spec(7, TICK_NS)).unwrap();
    assert_eq!((refusal.slot, refusal.kind), (Some(SlotId(7)), RefusalKind::Invalid));
}

/// The id of the calling thread.
fn own_tid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// A thread that does something again and again.
struct BusyThread {
    tid: u32,
    stop: std::sync::mpsc::Sender<()>,
    worker: std::thread::JoinHandle<()>,
}

impl BusyThread {
    fn start(mut work: impl FnMut() + Send + 'static) -> BusyThread {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            tell.send(own_tid()).unwrap();
            while matches!(stopped.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)) {
                work();
            }
        });
        BusyThread { tid: told.recv().unwrap(), stop, worker }
    }

    fn end(self) {
        drop(self.stop);
        self.worker.join().unwrap();
    }
}

#[test]
fn rows_of_a_thread_name_its_process_and_rows_without_room_are_counted() {
    let busy = BusyThread::start(std::hint::spin_loop);
    let tid = busy.tid;
    let narrow = WindowSpec { most_rows: 2, ..spec(1, 100_000) };
    let opened = permitted(PerfSource::new().windows(&slots(), &Target::Thread(tid), &narrow));
    let Some(mut windows) = opened else {
        busy.end();
        return;
    };
    windows.start().unwrap();
    let mut run = RecordedRun { rows: Vec::new(), totals: Vec::new(), lost: 0 };
    // The kernel's ring keeps what comes meanwhile, and the batch has room for two rows.
    while run.rows.iter().all(|row| row.flags.lost_before == 0) {
        std::thread::sleep(Duration::from_millis(5));
        take(windows.as_mut(), &mut run, Instant::now());
    }
    busy.end();
    windows.stop().unwrap();
    take(windows.as_mut(), &mut run, Instant::now());
    let thread = WindowThread { pid: std::process::id(), tid };
    assert!(run.rows.iter().all(|row| row.thread == Some(thread)), "{:?}", run.rows);
    let told: u64 = run.rows.iter().map(|row| row.flags.lost_before).sum();
    assert!(told > 0 && told <= run.lost, "{told} of {}", run.lost);
}

#[test]
fn lost_records_of_the_kernel_that_are_no_rows_are_not_counted_as_lost_rows() {
    let busy = BusyThread::start(|| {
        // Memory that the allocator takes from the kernel anew each time.
        let mut fresh = vec![0_u8; 64 << 20];
        // At least one fault for each huge page.
        for pages in fresh.chunks_mut(2 << 20) {
            pages.chunks_mut(4096).for_each(|page| page[0] = 1);
            // Two records of switches, as long as the thread sleeps.
            std::thread::sleep(Duration::from_nanos(1));
        }
        std::hint::black_box(&fresh);
    });
    let target = Target::Thread(busy.tid);
    let opened = permitted(PerfSource::new().windows(&slots(), &target, &spec(0, 1)));
    let Some(mut windows) = opened else {
        busy.end();
        return;
    };
    windows.start().unwrap();
    let mut run = RecordedRun { rows: Vec::new(), totals: Vec::new(), lost: 0 };
    let mut pause = Duration::from_millis(100);
    while run.lost == 0 {
        std::thread::sleep(pause);
        pause *= 2;
        take(windows.as_mut(), &mut run, Instant::now());
    }
    busy.end();
    windows.stop().unwrap();
    take(windows.as_mut(), &mut run, Instant::now());
    let ended = run.rows.iter().filter(|row| row.cause == WindowCause::Boundary(0)).count() as u64;
    assert_eq!(ended + run.lost, sum(&run.rows, 0));
    assert_eq!(run.rows.iter().map(|row| row.flags.lost_before).sum::<u64>(), run.lost);
    let unknown = |row: &&WindowRow| row.flags.switches.is_none();
    assert!(run.rows.iter().filter(|row| row.flags.lost_before > 0).all(|row| unknown(&row)));
    assert!(!run.rows.iter().all(|row| unknown(&row)));
    assert!(
        windows
            .notes()
            .iter()
            .any(|note| note.starts_with("a buffer of the kernel was full: rows were lost"))
    );
}

#[test]
fn what_a_short_process_created_before_its_group_was_open_is_found_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("go");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // The middle shell creates the inner one at once, and waits for it.
    let script = format!("(sh -c 'read x < {}; {BUSY}' & wait); true", pipe.display());
    let go_on = |take_rows: &mut dyn FnMut()| {
        let writer = loop {
            match OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&pipe) {
                Ok(writer) => break writer,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        // All forks have happened before the first rows are taken.
        take_rows();
        (&writer).write_all(b"\n").unwrap();
    };
    let Some(run) = recorded_while("sh", &["-c", &script], go_on) else { return };
    let threads: BTreeSet<u32> = run.rows.iter().filter_map(|row| Some(row.thread?.tid)).collect();
    assert_eq!(threads.len(), 3, "{:?}", run.rows);
    assert!(sum(&run.rows, 1) <= run.totals[1]);
    assert!(run.rows.iter().any(|row| row.cause == WindowCause::Boundary(0)), "{:?}", run.rows);
}

#[test]
fn a_running_process_has_no_more_in_its_rows_than_in_totals_that_end_after_them() {
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let (source, target) = (PerfSource::new(), Target::Process { pid: child.id(), inherit: true });
    let counting = permitted(source.open(&slots(), &target));
    let windows = permitted(source.windows(&slots(), &target, &spec(1, TICK_NS)));
    let Some((mut counting, mut windows)) = counting.zip(windows) else {
        child.kill().unwrap();
        child.wait().unwrap();
        return;
    };
    counting.start().unwrap();
    windows.start().unwrap();
    let mut run = RecordedRun { rows: Vec::new(), totals: Vec::new(), lost: 0 };
    while run.rows.len() < 5 {
        take(windows.as_mut(), &mut run, Instant::now() + Duration::from_millis(5));
    }
    windows.stop().unwrap();
    counting.stop().unwrap();
    assert_eq!(take(windows.as_mut(), &mut run, Instant::now()), WindowingState::Ended);
    let mut reading = Reading::default();
    counting.read(&mut reading).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let total: u64 = reading.cells.iter().filter(|cell| cell.slot == SlotId(1)).map(|cell| cell.raw).sum();
    assert!(sum(&run.rows, 1) <= total, "{} of {total}", sum(&run.rows, 1));
    assert_eq!(run.rows.last().map(|row| row.cause), Some(WindowCause::End));
}
