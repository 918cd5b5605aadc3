//! The cost of regions: memory, system calls, instructions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where something fails")]

use std::sync::Arc;
use std::time::Duration;

use cyclometer_sys::user_read::rehearsal::Rehearsal;
use cyclometer_toolkit::{Count, Monitor, Rung};

#[path = "support/rehearsed.rs"]
mod rehearsed;

#[test]
fn a_region_allocates_nothing_after_the_first_of_its_label() {
    let counter = Arc::new(Rehearsal::new());
    let rehearsed = rehearsed::monitor(3, &counter);
    let real = Monitor::builder().event("page-faults,task-clock,wall_time").build().unwrap();
    let nest = || {
        let _outer = (rehearsed.region("outer"), real.region("outer"));
        let _inner = (rehearsed.region("inner"), real.region("inner"));
    };
    nest();
    let info = allocation_counter::measure(|| (0..100).for_each(|_| nest()));
    assert_eq!(info.count_total, 0, "{info:?}");
    assert_eq!(real.total("inner").unwrap().calls, 101);
}

#[test]
fn a_region_that_outlasts_its_registers_is_lost_and_says_so() {
    let counter = Arc::new(Rehearsal::new());
    let mut setup = rehearsed::setup(1, &counter, Rung::Sysreg);
    setup.longest_window = Some(Duration::from_micros(100));
    let monitor = cyclometer_monitor::Monitor::open(setup).unwrap();
    let region = |ns| {
        let region = monitor.region("window");
        counter.count(7, ns);
        region.stop().values[0].count.clone()
    };
    assert_eq!(region(99_000), Count::Exact(7));
    match region(101_000) {
        Count::Lost { reason } => assert!(reason.to_string().contains("max_monitor_duration_us"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let total = monitor.total("window").unwrap();
    let Count::Partial { raw: 7, part } = &total.values[0].count else { panic!("{total}") };
    assert!(part.to_string().starts_with("without 1 of 2 regions"), "{part}");
}

#[test]
fn a_dropped_monitor_leaves_no_counter_open() {
    let counter = Arc::new(Rehearsal::new());
    let monitor = rehearsed::monitor(1, &counter);
    let region = monitor.region("x");
    assert_eq!(Arc::strong_count(&counter), 3, "ours, the maker's and the thread's");
    drop(monitor);
    counter.count(3, 1);
    assert_eq!(region.stop().values[0].count, Count::Exact(3), "a region keeps its counters");
    assert_eq!(Arc::strong_count(&counter), 1);
}

#[test]
fn rehearsed_counters_count_what_they_are_told() {
    let counter = Arc::new(Rehearsal::new());
    let monitor = rehearsed::monitor(2, &counter);
    for n in 1..=10 {
        let _region = monitor.region("x");
        counter.count(n, 7);
    }
    let total = monitor.total("x").unwrap();
    assert_eq!(total.values[1].count, Count::Exact(55), "{total}");
}

#[test]
fn an_event_that_is_a_sum_counts_in_regions_with_all_its_summands() {
    let counter = Arc::new(Rehearsal::new());
    let monitor = cyclometer_monitor::Monitor::open(rehearsed::setup_of_sum(3, &counter)).unwrap();
    for n in 1..=4 {
        let region = monitor.region("x");
        counter.count(n, 7);
        let own = region.stop();
        assert_eq!((own.values.len(), &own.values[0].count), (1, &Count::Exact(3 * n)), "{own}");
    }
    let total = monitor.total("x").unwrap();
    assert_eq!(total.values[0].count, Count::Exact(30), "{total}");
}
