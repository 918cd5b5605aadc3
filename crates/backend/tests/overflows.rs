//! Samples at overflows, on a stock kernel: of events that the kernel counts itself, which need no PMU.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::fs;
use std::num::NonZeroU64;
use std::thread;
use std::time::{Duration, Instant};

use common::{command, ended, perf_part, skip, slot};
use cyclometer_backend::{
    FurtherPeriod, Launcher, Mode, OverflowRecord, OverflowSample, OverflowSampling, Overflows, Wake,
};
use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{PerfAnswer, PerfRefusal, RefusalReason};
use cyclometer_core::{CpuSet, Launch, Modes, Refusal, Slot, SlotId, Target};

/// `PERF_COUNT_SW_CPU_CLOCK`, `_TASK_CLOCK`, `_PAGE_FAULTS`, `_PAGE_FAULTS_MIN`.
const CPU_CLOCK: u64 = 0;
const TASK_CLOCK: u64 = 1;
const PAGE_FAULTS: u64 = 2;
const MINOR_FAULTS: u64 = 5;

/// In ns: the kernel's clocks have a minimum of 10 µs. Source: Linux `kernel/events/core.c`,
/// `perf_swevent_hrtimer`.
const TICK_NS: u64 = 100_000;

fn software(id: usize, config: u64) -> Slot {
    let slot = slot(id, &format!("software-{config}"), perf_part("software", 1, config, PerfClass::Software));
    Slot { filter: Some(Modes::USER), ..slot }
}

fn every(period: u64) -> OverflowSampling {
    OverflowSampling::every(NonZeroU64::new(period).unwrap())
}

/// Opens, or reports why that is not allowed here; any other refusal fails.
fn permitted(opened: Result<Overflows, Refusal>) -> Option<Overflows> {
    match opened {
        Ok(overflows) => Some(overflows),
        Err(refusal)
            if refusal.kind == RefusalKind::NoPermission
                || refusal.reason == RefusalReason::Perf(PerfRefusal::Answer(PerfAnswer::NoPerf)) =>
        {
            skip(&refusal.reason.to_string());
            None
        }
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn here(slot: &Slot, how: OverflowSampling) -> Option<Overflows> {
    permitted(Overflows::open(slot, &[], &Target::ThisThread, how))
}

#[derive(Default)]
struct Drained {
    samples: Vec<OverflowSample>,
    lost: u64,
}

fn drain(overflows: &mut Overflows, into: &mut Drained) {
    let each = |taken| match taken {
        OverflowRecord::Sample(sample) => into.samples.push(sample),
        OverflowRecord::Lost { records, .. } => into.lost += records,
        OverflowRecord::Throttled { .. } | OverflowRecord::Unthrottled { .. } => {}
        other => panic!("threads are not followed: {other:?}"),
    };
    overflows.drain(each).unwrap();
}

fn drained(overflows: &mut Overflows) -> Drained {
    let mut all = Drained::default();
    drain(overflows, &mut all);
    all
}

fn raw(overflows: &Overflows, id: usize) -> u64 {
    let reading = overflows.counts().unwrap();
    reading.cells.iter().filter(|cell| cell.slot == SlotId(id)).map(|cell| cell.raw).sum()
}

/// Memory that the allocator maps for each call: less may be what another test has freed.
///
/// # Source
///
/// `mallopt(3)`, `M_MMAP_THRESHOLD`: it grows to 32 MiB at most.
const ALWAYS_MAPPED: usize = 64 << 20;

/// Touches pages of fresh memory, which span several large pages where the kernel makes them. The memory
/// is kept, so that the next is fresh too.
fn touch(kept: &mut Vec<Vec<u8>>) {
    let mut memory = vec![0u8; ALWAYS_MAPPED];
    for page in memory[..4 << 20].chunks_mut(4096) {
        page[0] = std::hint::black_box(1);
    }
    kept.push(memory);
}

/// The records of touching fresh memory eight times, and the memory.
fn of_fresh_memory(overflows: &mut Overflows) -> (Drained, Vec<Vec<u8>>) {
    let (mut kept, mut all) = (Vec::new(), Drained::default());
    overflows.start().unwrap();
    for _ in 0..8 {
        touch(&mut kept);
        drain(overflows, &mut all);
    }
    overflows.stop().unwrap();
    drain(overflows, &mut all);
    (all, kept)
}

/// The address ranges of this process's code.
fn code() -> Vec<std::ops::Range<u64>> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let executable =
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|kind| kind.contains('x')));
    let range = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some(u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?)
    };
    executable.filter_map(range).collect()
}

/// The kernel samples events of programs, unlike those of clocks, exactly once each period.
#[test]
fn there_are_as_many_samples_as_the_count_has_periods() {
    let how = OverflowSampling { with_addresses: true, ..every(3) };
    let Some(mut overflows) = here(&software(0, PAGE_FAULTS), how) else { return };
    let (all, kept) = of_fresh_memory(&mut overflows);
    let count = raw(&overflows, 0);
    assert!(count >= 8, "{count}");
    assert_eq!((all.samples.len() as u64, all.lost), (count / 3, 0));
    assert_eq!(overflows.lost().unwrap().unwrap_or(0), 0);
    let code = code();
    for sample in &all.samples {
        assert_eq!(
            (sample.mode, sample.period_events, sample.pid),
            (Mode::User, 3, Some(std::process::id()))
        );
        let ip = sample.ip.unwrap();
        assert!(code.iter().any(|range| range.contains(&ip)), "{ip:#x}");
    }
    let ours = |addr: u64| kept.iter().any(|one| one.as_ptr_range().contains(&(addr as *const u8)));
    assert!(all.samples.iter().any(|sample| sample.addr.is_some_and(ours)));
    assert!(all.samples.is_sorted_by_key(|sample| sample.time_ns));
}

#[test]
fn what_there_is_no_room_for_is_told_as_lost() {
    let how = OverflowSampling { ring_pages: 1, ..every(1) };
    let Some(mut overflows) = here(&software(0, PAGE_FAULTS), how) else { return };
    let mut kept = Vec::new();
    overflows.start().unwrap();
    let late = Instant::now() + Duration::from_secs(300);
    // Larger pages cause fewer faults.
    while raw(&overflows, 0) < 500 {
        touch(&mut kept);
        assert!(Instant::now() < late);
    }
    let mut all = drained(&mut overflows);
    // A loss is reported with the first record that fits again.
    touch(&mut kept);
    overflows.stop().unwrap();
    drain(&mut overflows, &mut all);
    assert!(all.lost > 0);
    let count = raw(&overflows, 0);
    assert!(all.samples.len() as u64 + all.lost <= count);
    match overflows.lost().unwrap() {
        Some(lost) => assert_eq!(all.samples.len() as u64 + lost, count),
        None => skip("the kernel does not count lost samples: it is older than 6.0"),
    }
}

#[test]
fn a_clock_samples_the_loop_that_runs() {
    for config in [CPU_CLOCK, TASK_CLOCK] {
        let Some(mut overflows) = here(&software(0, config), every(TICK_NS)) else { return };
        let mut all = Drained::default();
        let begin = Instant::now();
        overflows.start().unwrap();
        while all.samples.len() < 20 {
            std::hint::spin_loop();
            drain(&mut overflows, &mut all);
            assert!(begin.elapsed() < Duration::from_secs(300), "{} samples", all.samples.len());
        }
        overflows.stop().unwrap();
        drain(&mut overflows, &mut all);
        let cells = overflows.counts().unwrap().cells;
        // A timer does not fire more often than its period has passed, including the one that has begun.
        let most = cells[0].time_running_ns / TICK_NS + 1;
        assert!(all.samples.len() as u64 <= most, "{} of {most}", all.samples.len());
        let code = code();
        assert!(
            all.samples.iter().all(|sample| sample.mode == Mode::User && sample.period_events == TICK_NS)
        );
        assert!(
            all.samples.iter().all(|sample| code.iter().any(|range| range.contains(&sample.ip.unwrap())))
        );
        assert!(all.samples.is_sorted_by_key(|sample| sample.time_ns));
    }
}

#[test]
fn a_sample_tells_what_the_group_had_counted() {
    let (leader, member) = (software(0, PAGE_FAULTS), software(1, TASK_CLOCK));
    let opened = Overflows::open(&leader, &[member], &Target::ThisThread, every(5));
    let Some(mut overflows) = permitted(opened) else { return };
    let (all, _) = of_fresh_memory(&mut overflows);
    assert_eq!((all.samples.len() as u64, all.lost), (raw(&overflows, 0) / 5, 0));
    let mut clock = 0;
    for (number, sample) in (1..).zip(&all.samples) {
        assert_eq!(sample.values.len(), 2);
        assert_eq!(sample.values[0], (SlotId(0), 5 * number));
        assert!(sample.values[1].0 == SlotId(1) && sample.values[1].1 >= clock);
        clock = sample.values[1].1;
    }
    assert!(raw(&overflows, 1) >= clock);
}

#[test]
fn two_events_of_a_group_are_sampled_each_at_its_own_period() {
    let (leader, member) = (software(0, MINOR_FAULTS), software(1, PAGE_FAULTS));
    let further = [FurtherPeriod { slot: SlotId(1), period_events: NonZeroU64::new(7).unwrap() }];
    let opened = Overflows::open_several(&leader, &[member], &further, &Target::ThisThread, every(3));
    let Some(mut overflows) = permitted(opened) else { return };
    let (all, _) = of_fresh_memory(&mut overflows);
    assert_eq!(all.lost, 0);
    for (slot, at, period) in [(SlotId(0), 0, 3), (SlotId(1), 1, 7)] {
        let samples: Vec<_> = all.samples.iter().filter(|sample| sample.slot == slot).collect();
        assert!(!samples.is_empty());
        assert_eq!(samples.len() as u64, raw(&overflows, at) / period, "{slot:?}");
        for (number, sample) in (1..).zip(samples) {
            assert_eq!((sample.values[at], sample.period_events), ((slot, period * number), period));
        }
    }
}

#[test]
fn who_waits_is_woken_by_enough_samples_and_by_nothing_else() {
    let how = OverflowSampling { wake_after: 4, ..every(1) };
    let Some(mut overflows) = here(&software(0, PAGE_FAULTS), how) else { return };
    let soon = || Some(Instant::now() + Duration::from_millis(2));
    assert_eq!(overflows.wait(soon()).unwrap(), Wake::TimedOut);
    let mut kept = Vec::new();
    overflows.start().unwrap();
    (0..4).for_each(|_| touch(&mut kept));
    overflows.stop().unwrap();
    assert_eq!(overflows.wait(None).unwrap(), Wake::Samples);
    assert!(drained(&mut overflows).samples.len() >= 4);
    assert_eq!(overflows.wait(soon()).unwrap(), Wake::TimedOut);
}

#[test]
fn a_command_is_sampled_with_its_children_from_its_begin_to_its_end() {
    let launcher = Launcher::start().unwrap();
    let spin = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let mut child = launcher.prepare(&command("sh", &["-c", &format!("({spin}) & {spin}; wait")])).unwrap();
    let target = Target::Child(child.pid().unwrap());
    let Some(mut overflows) =
        permitted(Overflows::open(&software(0, TASK_CLOCK), &[], &target, every(TICK_NS)))
    else {
        return;
    };
    overflows.start().unwrap();
    thread::sleep(Duration::from_millis(2));
    assert!(drained(&mut overflows).samples.is_empty(), "it has not begun");
    let pid = child.pid().unwrap();
    child.release().unwrap();
    let mut all = Drained::default();
    while overflows.wait(None).unwrap() != Wake::Ended {
        drain(&mut overflows, &mut all);
    }
    drain(&mut overflows, &mut all);
    ended(child.as_mut());
    let pids: std::collections::BTreeSet<u32> = all.samples.iter().filter_map(|sample| sample.pid).collect();
    assert!(pids.contains(&pid) && pids.len() >= 2, "{pid} in {pids:?}");
    assert!(
        all.samples
            .iter()
            .all(|sample| sample.mode == Mode::User && sample.cpu.is_some() && sample.at.cpu == sample.cpu)
    );
}

#[test]
fn cpus_are_sampled_whoever_runs_there() {
    let clock = Slot { filter: None, ..software(0, CPU_CLOCK) };
    let target = Target::Cpus(CpuSet::parse("0").unwrap());
    let Some(mut overflows) = permitted(Overflows::open(&clock, &[], &target, every(TICK_NS))) else {
        return;
    };
    overflows.start().unwrap();
    let (mut all, begin) = (Drained::default(), Instant::now());
    while all.samples.len() < 5 {
        drain(&mut overflows, &mut all);
        assert!(begin.elapsed() < Duration::from_secs(300));
    }
    assert!(all.samples.iter().all(|sample| sample.cpu == Some(0) && sample.at.cpu == Some(0)));
}

#[test]
fn what_cannot_be_sampled_is_refused_with_the_reason() {
    let clock = software(0, TASK_CLOCK);
    let Some(_) = here(&clock, every(TICK_NS)) else { return };
    let refusal = |slot: &Slot, on: &Target, how| Overflows::open(slot, &[], on, how).unwrap_err();
    let crooked = refusal(&clock, &Target::ThisThread, OverflowSampling { ring_pages: 3, ..every(TICK_NS) });
    assert!(
        crooked.kind == RefusalKind::Invalid && crooked.reason.to_string().contains("power of two"),
        "{}",
        crooked.reason
    );
    let nobody = refusal(&clock, &Target::Thread(4_194_303), every(TICK_NS));
    assert_eq!(nobody.kind, RefusalKind::NoSuchTarget);
    let process = refusal(&clock, &Target::Process { pid: 1, inherit: true }, every(TICK_NS));
    assert_eq!(process.kind, RefusalKind::TargetNotSupported);
    let elsewhere = refusal(&clock, &Target::Cpus(CpuSet::parse("60000").unwrap()), every(TICK_NS));
    assert_eq!(elsewhere.kind, RefusalKind::NoSuchTarget);
}

/// A PMU that has no interrupts: the one of the time stamp counter, where the kernel has it.
#[test]
fn a_pmu_without_interrupts_counts_and_does_not_sample() {
    let Ok(number) = fs::read_to_string("/sys/bus/event_source/devices/msr/type") else {
        return skip("this kernel has no msr PMU");
    };
    let part = perf_part("msr", number.trim().parse().unwrap(), 0, PerfClass::TaskDevice);
    for filter in [None, Some(Modes::USER)] {
        let tsc = Slot { filter, ..slot(0, "msr/tsc/", part.clone()) };
        let refusal = Overflows::open(&tsc, &[], &Target::ThisThread, every(1_000_000)).unwrap_err();
        if refusal.kind == RefusalKind::NoPermission {
            return skip(&refusal.reason.to_string());
        }
        assert!(
            refusal.reason.to_string().contains("Sscofpmf") || refusal.kind == RefusalKind::Invalid,
            "{refusal:?}"
        );
    }
}
