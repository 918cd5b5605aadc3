//! Regions of this very program, counted by any source that works here: without a PMU by the kernel.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use cyclometer_test_support::skip;
use cyclometer_toolkit::{
    Count, CountedScope, ErrorKind, Measured, Modes, Monitor, ReadWay, Scope, Value, Verdict,
};

/// Makes about this many page faults: the memory is new, as it is never freed. Where huge pages are given out
/// unasked there are fewer, so that tests ask for a few at a time and expect at least some.
fn touch(pages: usize) {
    let memory = vec![1u8; pages * 4096];
    std::hint::black_box(&memory);
    std::mem::forget(memory);
}

fn value<'a>(measured: &'a Measured, event: &str) -> &'a Value {
    measured.get(event).unwrap_or_else(|| panic!("{event} is not in {measured:?}"))
}

fn monitor(events: &str) -> Monitor {
    Monitor::builder().event(events).build().unwrap()
}

#[test]
fn a_region_counts_what_happens_in_it_and_nothing_else() {
    let monitor = monitor("page-faults,wall_time");
    touch(2000);
    let region = monitor.region("faults");
    touch(1000);
    let measured = region.stop();
    touch(2000);
    let faults = value(&measured, "page-faults");
    let number = faults.number().unwrap();
    assert!((900.0..1900.0).contains(&number), "{faults}");
    assert_eq!((measured.label.as_str(), measured.calls), ("faults", 1));
    assert!(faults.provenance.is_some() && faults.rung.is_some(), "{faults:?}");
}

#[test]
fn regions_of_one_label_add_up_and_nest() {
    let monitor = monitor("page-faults");
    for _ in 0..5 {
        let _outer = monitor.region("outer");
        touch(300);
        let _inner = monitor.region("inner");
        touch(300);
    }
    let (outer, inner) = (monitor.total("outer").unwrap(), monitor.total("inner").unwrap());
    assert_eq!((outer.calls, inner.calls), (5, 5));
    let of = |measured: &Measured| value(measured, "page-faults").number().unwrap();
    assert!(of(&outer) >= 2.0 * 5.0 * 290.0 && of(&inner) >= 5.0 * 290.0 && of(&outer) > of(&inner) + 1000.0);
    assert!(monitor.total("none").is_none());
    let labels: Vec<String> = monitor.regions().into_iter().map(|measured| measured.label).collect();
    assert_eq!(labels, ["outer", "inner"], "in the order in which they began");
}

#[test]
fn each_thread_counts_for_itself_and_a_label_is_the_sum() {
    let monitor = monitor("page-faults");
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let monitor = &monitor;
            let work = move || monitor.measure("work", || touch(500));
            std::thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work).unwrap();
        }
    });
    let total = monitor.total("work").unwrap();
    assert_eq!(total.calls, 3);
    assert!(value(&total, "page-faults").number().unwrap() >= 3.0 * 480.0, "{total}");
    let mut names: Vec<String> = monitor
        .regions_by_thread()
        .iter()
        .map(|measured| measured.thread.as_ref().unwrap().name.clone().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn many_short_threads_are_added_up() {
    let monitor = monitor("wall_time");
    for _ in 0..600 {
        std::thread::scope(|scope| {
            scope.spawn(|| monitor.measure("short", || ()));
        });
    }
    let total = monitor.total("short").unwrap();
    assert_eq!(total.calls, 600);
    assert!(monitor.regions_by_thread().len() < 300);
}

#[test]
fn what_cannot_be_counted_is_no_zero() {
    let monitor = monitor("instructions,wall_time");
    let region = monitor.region("x");
    let measured = region.stop();
    let instructions = value(&measured, "instructions");
    match &instructions.count {
        Count::Exact(_) | Count::Scaled { .. } => assert!(instructions.rung.is_some()),
        _ => {
            assert_eq!(instructions.number(), None);
            assert!(!instructions.reason().unwrap().is_empty());
            assert!(instructions.provenance.is_none());
            assert!(monitor.ladder().iter().any(|step| !step.is_taken()), "{:?}", monitor.ladder());
        }
    }
    assert_eq!(measured.ratio("instructions", "no-such-event"), None);
}

#[test]
fn a_region_ends_when_its_work_panics() {
    let monitor = monitor("wall_time");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        monitor.measure("panics", || std::panic::resume_unwind(Box::new(7)))
    }));
    assert!(result.is_err());
    assert_eq!(monitor.total("panics").unwrap().calls, 1);
    assert_eq!(monitor.open_regions(), 0);
}

#[test]
fn regions_may_end_in_any_order_and_be_forgotten() {
    let monitor = monitor("page-faults");
    let (first, second) = (monitor.region("first"), monitor.region("second"));
    touch(100);
    drop(first);
    touch(400);
    let second = second.stop();
    assert!(value(&second, "page-faults").number().unwrap() > 480.0);
    assert!(value(&monitor.total("first").unwrap(), "page-faults").number().unwrap() < 480.0);
    std::mem::forget(monitor.region("forgotten"));
    assert_eq!(monitor.open_regions(), 1);
    assert_eq!(monitor.total("forgotten").unwrap().calls, 0);
}

#[test]
fn a_label_without_counts_says_whether_its_region_is_open_or_was_reset() {
    let monitor = monitor("wall_time,cycles");
    let region = monitor.region("open");
    let listed = monitor.regions();
    assert_eq!((listed.len(), listed[0].calls), (1, 0));
    let reason = |measured: &Measured, event: &str| value(measured, event).reason().unwrap();
    assert_eq!(reason(&listed[0], "wall_time"), "its region is still open, and counts when it ends");
    if monitor.plan().lines[1].candidate().is_none() {
        assert!(!reason(&listed[0], "cycles").contains("open"), "no PMU is the reason here: {}", listed[0]);
    }
    assert_eq!(value(&listed[0], "wall_time").count.verdict(), Verdict::NotCounted);
    drop(region);
    assert_eq!(value(&monitor.regions()[0], "wall_time").reason(), None);
    monitor.reset();
    let reset = monitor.total("open").unwrap();
    assert_eq!(reason(&reset, "wall_time"), "no region of this label has ended since the last reset");
}

#[test]
fn more_regions_than_there_is_room_for_are_counted_as_well() {
    let monitor = monitor("page-faults");
    let mut open: Vec<_> = (0..40).map(|_| monitor.region("deep")).collect();
    touch(100);
    while let Some(region) = open.pop() {
        drop(region);
    }
    let deep = monitor.total("deep").unwrap();
    assert_eq!(deep.calls, 40);
    assert!(value(&deep, "page-faults").number().unwrap() >= 40.0 * 95.0);
}

#[test]
fn a_monitor_is_not_reconfigured_while_regions_are_open() {
    let mut monitor = monitor("wall_time");
    let region = monitor.region("open");
    let error = monitor.reconfigure(Monitor::builder().event("page-faults")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("1 of its regions"), "{error}");
    drop(region);
    monitor.reconfigure(Monitor::builder().event("page-faults")).unwrap();
    assert_eq!(monitor.plan().lines[0].event.name, "page-faults");
}

#[test]
fn what_was_counted_is_forgotten_at_a_reset() {
    let monitor = monitor("page-faults");
    monitor.measure("x", || touch(100));
    assert!(value(&monitor.read(), "page-faults").count.value().unwrap() >= 95);
    monitor.reset();
    assert_eq!(monitor.total("x").unwrap().calls, 0);
    assert!(value(&monitor.read(), "page-faults").count.value().unwrap() < 95);
}

#[test]
fn a_name_that_is_no_event_is_an_error_with_the_nearest_names() {
    let error = Monitor::builder().event("instrucions").build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownEvent);
    assert!(error.recovery().to_string().contains("instructions"), "{}", error.recovery());
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let error =
        Monitor::builder().event("task-clock").scope(CountedScope::Pid(u32::MAX / 2)).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchTarget);
}

#[test]
fn the_process_is_counted_with_all_its_threads() {
    let monitor = Monitor::builder().event("page-faults").scope(CountedScope::Process).build().unwrap();
    assert_eq!(monitor.scope(), Scope::Process);
    let region = monitor.region("all");
    std::thread::scope(|scope| {
        scope.spawn(|| touch(800));
    });
    let measured = region.stop();
    assert!(value(&measured, "page-faults").number().unwrap() >= 780.0, "{measured}");
}

#[test]
fn the_cost_of_reading_is_known_and_taken_off() {
    let monitor = monitor("wall_time,page-faults");
    let cost = monitor.cost().unwrap();
    assert!(cost.read_ns.median > 0.0 && cost.read_ns.median <= cost.read_ns.p99, "{cost:?}");
    assert!(cost.region_ns.median > cost.read_ns.median, "a region is two reads: {cost:?}");
    let wall = &cost.biases[0];
    assert!(wall.empty.unwrap().median > 0.0 && matches!(wall.way, Some(ReadWay::Kernel(_))), "{wall:?}");
    let region = monitor.region("empty");
    let measured = region.stop();
    let (raw, net) =
        (value(&measured, "wall_time").count.value().unwrap(), value(&measured, "wall_time").net.unwrap());
    assert!(net.value <= raw as f64, "{net:?} of {raw}");
    let uncalibrated = Monitor::builder().event("wall_time").calibrate(false).build().unwrap();
    assert!(uncalibrated.cost().is_none());
    let region = uncalibrated.region("x");
    assert!(region.stop().values[0].net.is_none());
}

#[test]
fn modes_are_those_of_events_that_name_none() {
    let monitor =
        Monitor::builder().event("instructions,branches:u,wall_time").modes(Modes::KERNEL).build().unwrap();
    let names: Vec<String> = monitor.plan().lines.iter().map(|line| line.label()).collect();
    assert_eq!(names, ["instructions:k", "branches:u", "wall_time"]);
}

#[test]
fn a_peak_is_no_sum() {
    let monitor = Monitor::builder().event("peak_rss").scope(CountedScope::Process).build().unwrap();
    let region = monitor.region("peak");
    touch(100);
    let measured = region.stop();
    let peak = &measured.values[0];
    assert_eq!(peak.count.verdict(), Verdict::Partial, "{peak}");
    assert!(peak.number().unwrap() > 100.0 * 4096.0);
}

#[test]
fn a_begun_region_is_read_while_it_is_open_and_stopped_once() {
    let monitor = monitor("page-faults");
    let faults = |measured: &Measured| value(measured, "page-faults").number().unwrap();
    monitor.measure("begun", || touch(500));
    let mut region = monitor.begin("begun");
    touch(500);
    let so_far = region.so_far().unwrap();
    assert_eq!(so_far.calls, 2, "the region that ended and the open one");
    assert!(faults(&so_far) >= 950.0, "{so_far}");
    touch(500);
    let own = region.stop().unwrap();
    assert!((900.0..1400.0).contains(&faults(&own)), "only its own: {own}");
    assert!(faults(&monitor.total("begun").unwrap()) >= 1400.0);
    for error in [region.stop().unwrap_err(), region.so_far().unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("`begun` was stopped before"), "{error}");
    }
}

#[test]
fn a_begun_region_belongs_to_its_thread_and_ends_with_it() {
    let monitor = monitor("wall_time");
    let mut own = monitor.begin("own");
    let (of_thread, error) = std::thread::scope(|scope| {
        scope.spawn(|| (monitor.begin("of thread"), own.stop().unwrap_err())).join().unwrap()
    });
    assert!(error.to_string().contains("`own` belongs to another thread"), "{error}");
    assert!(own.is_open() && own.stop().is_ok(), "it went on");
    assert_eq!(monitor.total("of thread").unwrap().calls, 1, "it ended with its thread");
    drop(of_thread);
    drop(monitor.begin("dropped"));
    assert_eq!((monitor.total("dropped").unwrap().calls, monitor.open_regions()), (1, 0));
}

#[test]
fn one_label_is_forgotten_alone() {
    let monitor = monitor("wall_time");
    monitor.measure("a", || ());
    monitor.measure("b", || ());
    monitor.reset_label("a");
    assert_eq!((monitor.total("a").unwrap().calls, monitor.total("b").unwrap().calls), (0, 1));
}

#[test]
fn a_thread_samples_at_a_rate_into_a_ring() {
    let monitor =
        Monitor::builder().event("wall_time,page-faults").sampling_rate(200).buffer_size(5).build().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let samples = monitor.samples();
    assert_eq!(samples.rows.len(), 5, "{samples:?}");
    assert!(samples.lost > 5, "{} were lost", samples.lost);
    assert!(samples.rows.is_sorted_by(|a, b| a.number < b.number && a.at_ns < b.at_ns), "{samples:?}");
    let wall = samples.series(cyclometer_toolkit::core::SlotId(0));
    assert!(wall.is_sorted() && wall.iter().all(Option::is_some), "{wall:?}");
    assert!(samples.rows.iter().all(|row| row.skew_ns > 0));
    assert!(monitor.samples().rows.len() < 3, "what was fetched is gone");
    let none = Monitor::builder().event("wall_time").build().unwrap();
    assert_eq!(none.samples(), cyclometer_toolkit::Samples::default());
}

#[test]
fn a_rate_that_makes_no_sense_is_an_error_that_says_the_range() {
    for rate in [0, 1_000_000_000] {
        let error = Monitor::builder().event("wall_time").sampling_rate(rate).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&rate.to_string()), "{error}");
        assert!(error.recovery().to_string().contains("from 1 to 10000 Hz"), "{}", error.recovery());
    }
    let error = Monitor::builder().event("wall_time").sampling_rate(10).buffer_size(0).build().unwrap_err();
    assert!(error.recovery().to_string().contains("1 to 1048576"));
}

#[test]
fn cpus_are_read_together_and_the_skew_is_stated() {
    let cpus = cyclometer_toolkit::machine().online;
    let builder = Monitor::builder().event("context-switches").scope(CountedScope::Cpus(cpus.clone()));
    let monitor = builder.sampling_rate(100).build().unwrap();
    let line = &monitor.plan().lines[0];
    if line.candidate().is_none() {
        return skip(&format!("{:?}", line.outcome));
    }
    std::thread::sleep(std::time::Duration::from_millis(150));
    let samples = monitor.samples();
    let read: Vec<Option<u32>> = samples.counters.iter().map(|counter| counter.at.cpu).collect();
    assert_eq!(read, cpus.iter().map(Some).collect::<Vec<_>>());
    assert!(samples.rows.iter().all(|row| row.values.len() == read.len() && row.skew_ns < 1_000_000_000));
    assert!(!samples.rows.is_empty());
}

#[test]
fn a_counter_can_be_read_by_itself() {
    let monitor = monitor("wall_time,page-faults,instructions");
    let faults = monitor.counter("page-faults").unwrap();
    let before = faults.read().unwrap();
    touch(100);
    assert!(faults.read().unwrap() - before >= 95);
    assert!(monitor.counter("wall_time").unwrap().read().unwrap() > 0);
    assert!(monitor.counter("no-such-event").is_none());
    let counts = monitor.plan().lines[2].candidate().is_some();
    assert_eq!(monitor.counter("instructions").is_some(), counts);
}
