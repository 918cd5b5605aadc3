//! The cost of reads in user space, in instructions and system calls that the software PMU counts. The
//! counted program is this test, which then reads a page of its own a given number of times. It has no
//! harness, as a harness's threads and output would be counted, too.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test says what it does")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where something fails")]

use std::sync::Arc;

use cyclometer_sys::user_read::rehearsal::Rehearsal;
use cyclometer_test_support::skip;
use cyclometer_toolkit::{Command, CommandSpec, Launcher, OutputStream, Rung};

#[path = "support/rehearsed.rs"]
mod rehearsed;

/// The most instructions that a read of one counter may take.
const MOST: f64 = 40.0;

/// The most instructions with the times that show whether the counter was shared.
const MOST_WITH_TIMES: f64 = 65.0;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [what, times] if what == "value" => println!("{}", counter().values(times.parse().unwrap())),
        [what, times] if what == "read" => println!("{}", counter().reads(times.parse().unwrap())),
        [what, times] if what == "region" => println!("{}", regions(times.parse().unwrap())),
        // Whatever a harness would take: names of tests, options.
        _ => check(),
    }
}

fn check() {
    let launcher = Launcher::start().unwrap();
    a_region_that_is_open_at_a_fork_is_lost_in_the_child();
    three_events_of_the_kernel_are_read_by_one_system_call();
    for (what, most) in [("value", MOST), ("read", MOST_WITH_TIMES)] {
        let (Some(few), Some(many)) = (counted(&launcher, what, 1_000), counted(&launcher, what, 11_000))
        else {
            return;
        };
        let each = (many.instructions - few.instructions) / 10_000.0;
        println!("{what}: {each:.1} instructions and no system call, the loop around it included");
        assert!(each <= most && each > 15.0, "{each} instructions");
        assert_eq!(many.system_calls, few.system_calls);
    }

    let few = counted(&launcher, "region", 100).unwrap();
    let many = counted(&launcher, "region", 1_100).unwrap();
    let each = (many.instructions - few.instructions) / 1_000.0;
    println!("a region of two counters takes {each:.0} instructions, not optimized, and no system call");
    assert_eq!(many.system_calls, few.system_calls);
    assert!(each > 100.0, "nothing was measured");
}

fn three_events_of_the_kernel_are_read_by_one_system_call() {
    let events = "page-faults,context-switches,cpu-migrations";
    let monitor = cyclometer_toolkit::Monitor::builder().event(events).calibrate(false).build().unwrap();
    let lines = &monitor.plan().lines;
    if let Some(line) = lines.iter().find(|line| line.candidate().is_none_or(|way| way.rung != Rung::Perf)) {
        return skip(&format!("{} is not counted by perf here", line.event.name));
    }
    let Some(before) = reads_of_this_thread() else {
        return skip("this kernel does not count read(2)");
    };
    (0..1_000).for_each(|_| drop(monitor.region("work")));
    let reads = reads_of_this_thread().unwrap() - before;
    println!("1000 regions of three events of the kernel read {reads} times");
    // A region reads at its start and at its end; the few other reads are those of this measurement itself.
    assert!((2_000..2_100).contains(&reads), "{reads}");
}

/// How often this thread has called read(2).
fn reads_of_this_thread() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("syscr: "))?.parse().ok()
}

/// Here, as a process with threads does not fork safely.
fn a_region_that_is_open_at_a_fork_is_lost_in_the_child() {
    let counter = Arc::new(counter());
    let monitor = rehearsed::monitor(1, &counter);
    let real = cyclometer_toolkit::Monitor::builder().event("page-faults,wall_time").build().unwrap();
    let regions = (monitor.region("over"), real.region("over"));
    let mut regions = Some(regions);
    let answer = cyclometer_sys::fork::in_child(|| {
        let (rehearsed, real_one) = regions.take().unwrap();
        let lost = |measured: &cyclometer_toolkit::Measured| {
            let said =
                |value: &cyclometer_toolkit::Value| value.reason().is_some_and(|why| why.contains("forked"));
            measured.values.iter().all(|value| value.number().is_none() && said(value))
        };
        let both = lost(&rehearsed.stop()) && lost(&real_one.stop());
        // The child counts for itself from here on.
        let own = real.region("own");
        let own = own.stop();
        let counts = own.values.iter().all(|value| value.number().is_some());
        match (both, counts) {
            (true, true) => 7,
            (false, _) => 1,
            (_, false) => 2,
        }
    });
    match answer {
        Ok(answer) => assert_eq!(answer, 7),
        Err(e) => return skip(&format!("no child: {e}")),
    }
    counter.count(5, 1);
    let (rehearsed, real_one) = regions.take().unwrap();
    assert_eq!(rehearsed.stop().values[0].count, cyclometer_toolkit::Count::Exact(5), "the parent counts on");
    assert!(real_one.stop().values.iter().all(|value| value.number().is_some()));
    println!("a region that is open at a fork is lost in the child, and counts on in the parent");
}

struct Counted {
    instructions: f64,
    system_calls: f64,
}

/// Runs this program under the software PMU; `None`, and a word why, where that does not work.
fn counted(launcher: &Launcher, what: &str, times: u32) -> Option<Counted> {
    let mut spec = CommandSpec::new(std::env::current_exe().unwrap());
    spec.args = vec![what.into(), times.to_string().into()];
    spec.stdout = OutputStream::Null;
    let command = Command::new(spec).backend(Rung::Soft).events("instructions,syscalls").unwrap();
    let lines = command.run(launcher).unwrap().lines;
    let values: Option<Vec<f64>> = lines.iter().map(|line| line.statistics.mean).collect();
    let Some([instructions, system_calls]) = values.as_deref() else {
        skip(&format!("the software PMU: {}", lines[0].reason.as_deref().unwrap_or("no reason")));
        return None;
    };
    Some(Counted { instructions: *instructions, system_calls: *system_calls })
}

fn counter() -> Rehearsal {
    let counter = Rehearsal::new();
    counter.count(1_000_000, 1_000_000);
    counter
}

fn regions(times: u32) -> u64 {
    let counter = Arc::new(counter());
    let monitor = rehearsed::monitor(2, &counter);
    drop(monitor.region("work"));
    for _ in 0..times {
        let region = monitor.region("work");
        counter.count(3, 5);
        drop(region);
    }
    monitor.total("work").and_then(|total| total.values[0].count.value()).unwrap_or_default()
}
