//! Sampling by kperf, on a library that behaves as macOS does over simulated chips.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::num::NonZeroU64;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_backend::kdebug::{
    KperfWindows, SampledCounters, SampledThreads, SamplingTools, SamplingTrigger,
};
use cyclometer_backend::kperf::KperfSource;
use cyclometer_backend::registers::CorePmu;
use cyclometer_core::event::{Part, RegisterAssignment, RegisterEvent};
use cyclometer_core::exec::{Reading, RefusalKind};
use cyclometer_core::window::{RowBatch, WindowBoundary, WindowRow, WindowSpec, Windowing, WindowingState};
use cyclometer_core::{
    Count, CounterId, CpuSet, EventCode, MissingReason, Modes, Refusal, Rung, Slot, SlotId, Source, Target,
};
use cyclometer_sim::Model;
use cyclometer_sys::macos::{KdebugFunctions, KpcFunctions, Library, SamplerFunctions};
use tempfile::TempDir;

/// A Mac on which CPU 0 works for 40 ms, and 5 ms pass at each read.
const M1: &str = "chip apple-m1\ncpus 2\nworkload 0 loop:40\nclock step 5000000\n";

/// `INST_ALL`, in user mode, which counts on PMC7 alone.
const INSTRUCTIONS: u64 = 0x2_008c;

struct Mac {
    library: Library,
    path: PathBuf,
    _folder: TempDir,
}

impl Mac {
    fn new(scenario: &str) -> Mac {
        let folder = tempfile::tempdir().unwrap();
        let file = cyclometer_fake_kperf::install(folder.path(), scenario);
        Mac { library: Library::open(&file).unwrap(), path: file, _folder: folder }
    }

    fn tools(&self) -> SamplingTools {
        SamplingTools {
            kpc: Rc::new(KpcFunctions::find(&self.library).unwrap()),
            sampler: Box::new(SamplerFunctions::find(&self.library).unwrap()),
            kdebug: Box::new(KdebugFunctions::find(&self.library).unwrap()),
        }
    }

    fn open(&self, what: &SampledThreads) -> Result<KperfWindows, Refusal> {
        KperfWindows::open(self.tools(), what)
    }

    /// Whether nothing is forced, counting, sampled or traced.
    fn is_at_rest(&self) -> bool {
        cyclometer_fake_kperf::is_at_rest_in(&self.library)
    }
}

fn sampled(trigger: SamplingTrigger) -> SampledThreads {
    // PMC7 has the fifth of the words from PMC2 on.
    let words = vec![0, 0, 0, 0, 0, INSTRUCTIONS, 0, 0];
    let counters = SampledCounters::Own(words);
    SampledThreads { pid: 50, counters, columns: vec![0, 1, 7], trigger, most_rows: 1000 }
}

fn every(period: u64) -> SamplingTrigger {
    SamplingTrigger::Overflow { counter: 7, period: NonZeroU64::new(period).unwrap() }
}

/// All rows until the work is done and the recording has ended, and its notes.
fn record(windows: &mut KperfWindows, reads: usize) -> (Vec<WindowRow>, u64) {
    let mut rows = Vec::new();
    let mut lost = 0;
    let mut take = |windows: &mut KperfWindows| {
        let mut batch = RowBatch::default();
        let state = windows.next(Instant::now(), &mut batch).unwrap();
        rows.extend(batch.rows);
        lost += batch.lost;
        state
    };
    windows.start().unwrap();
    for _ in 0..reads {
        assert_eq!(take(windows), WindowingState::Open);
    }
    windows.stop().unwrap();
    while take(windows) == WindowingState::Open {}
    (rows, lost)
}

fn count(row: &WindowRow, slot: usize) -> u64 {
    match row.counts[slot] {
        Count::Exact(count) => count,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_is_sampled_every_so_many_instructions() {
    let mac = Mac::new(M1);
    let period = 1_000_000;
    let mut windows = mac.open(&sampled(every(period))).unwrap();
    let (rows, lost) = record(&mut windows, 10);
    assert!(rows.len() > 100, "{}", rows.len());
    assert_eq!((lost, windows.notes()), (0, Vec::new()));
    // An overflow is noticed at the end of a slice of 20 µs, which has some 200,000 instructions.
    for row in &rows[1..] {
        let instructions = count(row, 2);
        assert!(instructions.abs_diff(period) < 300_000, "{row:?}");
        assert!(count(row, 1) >= instructions, "the fixed counter has the kernel's, too: {row:?}");
        assert!(count(row, 0) > 0 && row.address.is_some());
    }
    assert!(rows.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
    assert!(rows.iter().all(|row| row.thread.unwrap().pid == 50));
    drop(windows);
    assert!(mac.is_at_rest());
}

#[test]
fn samples_before_the_kernel_has_sums_are_lost_and_later_ones_are_counted_from_the_start() {
    let all = record(&mut Mac::new(M1).open(&sampled(every(1_000_000))).unwrap(), 6).0;
    let mac = Mac::new(&format!("{M1}not-ready 3\n"));
    let mut windows = mac.open(&sampled(every(1_000_000))).unwrap();
    let (rows, lost) = record(&mut windows, 6);
    assert_eq!((lost, windows.notes(), rows.len()), (0, Vec::new(), all.len()));
    let (early, later) = rows.split_at(3);
    let is_lost = |count: &Count| matches!(count, Count::Lost { reason: MissingReason::NoSumsYet });
    assert!(early.iter().all(|row| row.counts.iter().all(is_lost)), "{early:?}");
    let sum = |rows: &[WindowRow]| rows.iter().map(|row| count(row, 2)).sum::<u64>();
    assert_eq!(sum(later), sum(&all), "the first whole row has what was counted before");
}

#[test]
fn a_fixed_counter_interrupts_as_a_configurable_one_does() {
    let mac = Mac::new(M1);
    let trigger = SamplingTrigger::Overflow { counter: 0, period: NonZeroU64::new(2_000_000).unwrap() };
    let (rows, _) = record(&mut mac.open(&sampled(trigger)).unwrap(), 6);
    assert!(rows.len() > 10, "{}", rows.len());
    for row in &rows[1..] {
        assert!(count(row, 0).abs_diff(2_000_000) < 200_000, "{row:?}");
    }
}

#[test]
fn a_timer_samples_at_its_period_and_never_below_the_least() {
    let rows_of = |period, every_thread| {
        let mac = Mac::new(M1);
        let mut windows = mac.open(&sampled(SamplingTrigger::Timer { period, every_thread })).unwrap();
        let (rows, _) = record(&mut windows, 4);
        let mean = |rows: &[WindowRow]| {
            let (first, last) =
                (rows.first().unwrap().time_ns.unwrap(), rows.last().unwrap().time_ns.unwrap());
            (last - first) / (rows.len() as u64 - 1)
        };
        assert!(rows.iter().all(|row| row.address.is_none()));
        (mean(&rows), windows.notes())
    };
    let near =
        |found: u64, expected: u64| assert!(found.abs_diff(expected) <= expected / 4, "{found} {expected}");
    let (mean, notes) = rows_of(Duration::from_micros(400), false);
    near(mean, 400_000);
    assert_eq!(notes, Vec::<String>::new());
    let (mean, notes) = rows_of(Duration::from_micros(250), true);
    near(mean, 1_000_000);
    assert_eq!(notes, ["macOS samples at most every 1000 µs here: that is the period"]);
    let (_, notes) = rows_of(Duration::from_micros(1), false);
    assert_eq!(notes, ["macOS samples at most every 50 µs here: that is the period"]);
}

#[test]
fn a_full_buffer_is_reported_and_marked() {
    let mac =
        Mac::new(&M1.replace("clock step 5000000", "clock step 200000000").replace("loop:40", "loop:900"));
    let mut windows = mac.open(&SampledThreads { most_rows: 1, ..sampled(every(50_000)) }).unwrap();
    let (rows, lost) = record(&mut windows, 3);
    assert!(lost > 0 && rows.iter().any(|row| row.flags.lost_before > 0), "{lost}");
    let notes = windows.notes().join("; ");
    assert!(notes.contains("trace buffer was full"), "{notes}");
}

#[test]
fn each_refusal_names_the_step_and_leaves_nothing_behind() {
    let check = |fault: &str, kind, step: &str, why: &str| {
        let mac = Mac::new(&format!("{M1}{fault}\n"));
        let refusal = mac.open(&sampled(every(1_000_000))).err().unwrap();
        assert_eq!(refusal.kind, kind, "{fault}: {refusal:?}");
        assert!(
            refusal.reason.to_string().contains(step) && refusal.reason.to_string().contains(why),
            "{fault}: {refusal:?}"
        );
        assert!(mac.is_at_rest(), "{fault}");
    };
    let (counters, actions, buffer) =
        ("configure the counters", "set up what is sampled", "make the trace buffer");
    check("user", RefusalKind::NoPermission, counters, "sudo cyclometer");
    check("fail kpc_force_all_ctrs_set 1 EACCES", RefusalKind::Busy, counters, "has all counters");
    check("fail kpc_set_config 1 EPERM", RefusalKind::NoPermission, counters, "needs root");
    check("fail kperf_action_count_set 1 EBUSY", RefusalKind::Busy, actions, "Instruments");
    check("fail kperf_action_filter_set_by_pid 1 EINVAL", RefusalKind::Other, actions, "Invalid argument");
    check("fail kpc_set_period 1 EBUSY", RefusalKind::Busy, actions, "Instruments");
    for call in 1..=4 {
        check(&format!("fail sysctl {call} EBUSY"), RefusalKind::Busy, buffer, "end it first");
    }
}

#[test]
fn a_start_that_fails_half_way_is_undone() {
    for fault in ["sysctl 5", "kperf_sample_set 1", "kpc_set_thread_counting 1", "kpc_set_counting 1"] {
        let mac = Mac::new(&format!("{M1}fail {fault} EBUSY\n"));
        let mut windows = mac.open(&sampled(every(1_000_000))).unwrap();
        let error = windows.start().unwrap_err().to_string();
        assert!(error.contains("cannot start sampling"), "{fault}: {error}");
        drop(windows);
        assert!(mac.is_at_rest(), "{fault}");
    }
}

/// An event on a counter of an M1.
fn slot(id: usize, name: &str, select: u16, counter: CounterId, modes: Modes) -> Slot {
    let code = EventCode { select, ..EventCode::default() };
    let part = Part::Registers(RegisterEvent {
        pmu: "apple-m1".to_owned(),
        cpus: CpuSet::default(),
        codes: Vec::new(),
        wide: false,
        assignments: vec![RegisterAssignment { rotation_group: None, counter, code }],
    });
    Slot { filter: Some(modes), ..Slot::new(SlotId(id), name, Rung::Kperf, vec![part]) }
}

#[test]
fn the_source_records_threads_of_a_command_beside_the_totals_of_cpus() {
    let mac = Mac::new(M1);
    let chip = Model::find("apple-m1").unwrap().chip;
    let online: CpuSet = (0..2).collect();
    let core = CorePmu { name: "apple-m1".to_owned(), cpus: online.clone(), chip, cycles: None };
    let source = KperfSource::open_library(&mac.path, vec![core], online).unwrap();
    let slots = [
        slot(0, "cycles", 0, CounterId::Fixed(0), Modes::USER_KERNEL),
        slot(1, "INST_ALL", 0x8c, CounterId::General(7), Modes::USER),
    ];
    let boundary = WindowBoundary::Events { slot: SlotId(1), period: NonZeroU64::new(1_000_000).unwrap() };
    let spec = WindowSpec::new(boundary);
    let on = Target::Child(50);
    let mut totals = source.open(&slots, &on).unwrap();
    let mut windows = source.windows(&slots, &on, &spec).unwrap();
    totals.start().unwrap();
    windows.start().unwrap();
    let mut batch = RowBatch::default();
    for _ in 0..4 {
        windows.next(Instant::now(), &mut batch).unwrap();
    }
    windows.stop().unwrap();
    while windows.next(Instant::now(), &mut batch).unwrap() == WindowingState::Open {}
    totals.stop().unwrap();
    let mut reading = Reading::default();
    totals.read(&mut reading).unwrap();
    let total: u64 = reading.cells.iter().filter(|cell| cell.slot == SlotId(1)).map(|cell| cell.raw).sum();
    let in_rows: u64 = batch.rows.iter().map(|row| count(row, 1)).sum();
    assert!(batch.rows.len() > 10 && in_rows <= total, "{} rows: {in_rows} of {total}", batch.rows.len());
    assert!(in_rows > total / 4, "{in_rows} of {total}");
    drop((windows, totals));
    assert!(mac.is_at_rest());
}

#[test]
fn windows_that_kperf_cannot_make_are_refused() {
    let mac = Mac::new(M1);
    let chip = Model::find("apple-m1").unwrap().chip;
    let online: CpuSet = (0..2).collect();
    let core = CorePmu { name: "apple-m1".to_owned(), cpus: online.clone(), chip, cycles: None };
    let source = KperfSource::open_library(&mac.path, vec![core], online.clone()).unwrap();
    let slots = [slot(0, "cycles", 0, CounterId::Fixed(0), Modes::USER_KERNEL)];
    let period = NonZeroU64::new(1_000_000).unwrap();
    let refused = |on: &Target, boundary: WindowBoundary| {
        source.windows(&slots, on, &WindowSpec::new(boundary)).err().unwrap().reason.to_string()
    };
    let events = |slot| WindowBoundary::Events { slot: SlotId(slot), period };
    assert!(refused(&Target::Cpus(online.clone()), events(0)).contains("threads of one process"));
    assert!(refused(&Target::Child(50), events(1)).contains("not among the events"));
    let interval = WindowBoundary::Interval(Duration::from_millis(1));
    assert!(refused(&Target::Child(50), interval).contains("end at one event, or at its timer"));
    assert!(mac.is_at_rest());
}
