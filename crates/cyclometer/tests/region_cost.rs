//! What regions cost: memory, system calls, instructions.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where something fails")]

use std::sync::Arc;

use cyclometer::Monitor;
use cyclometer_sys::user_read::rehearsal::Rehearsal;

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
fn rehearsed_counters_count_what_they_are_told() {
    let counter = Arc::new(Rehearsal::new());
    let monitor = rehearsed::monitor(2, &counter);
    for n in 1..=10 {
        let _region = monitor.region("x");
        counter.count(n, 7);
    }
    let total = monitor.total("x").unwrap();
    assert_eq!(total.values[1].count, cyclometer::Count::Exact(55), "{total}");
}
