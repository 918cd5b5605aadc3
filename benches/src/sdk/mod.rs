//! The cost of reading counters in a program of one's own, compared with the crate perf-event2 and PAPI on
//! the same events.

mod papi;

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use cyclometer_sys::user_read::rehearsal::Rehearsal;
use cyclometer_toolkit::Monitor;
use perf_event::events::Software;
use perf_event::{Builder, Group};

use crate::limits::{BrokenLimits, NS, shown};
use crate::ratio;

/// Pairs of alternating measurements, ours and the peer's, and the number of repetitions in each.
const ROUNDS: usize = 41;
const TIMES: u32 = 2_000;

/// Greatest ratio of a read through the kernel to the peer's: the same system call, with room for the noise
/// of a busy machine.
const READ_LIMIT: f64 = 1.05;

/// Three events that every kernel has.
const THREE: [&str; 3] = ["page-faults", "context-switches", "cpu-migrations"];

/// Measures everything; fails when a limit does not hold.
pub(crate) fn main() -> Result<()> {
    let mut limits = BrokenLimits::default();
    println!("| through the kernel | cyclometer | perf-event2 | ratio | limit |\n|---|---|---|---|---|");
    one_read(&mut limits)?;
    one_region(&mut limits)?;
    region_of_three(&mut limits)?;
    papi::main(&mut limits)?;
    println!("\n| in user space, on a page of our own | median |\n|---|---|");
    rehearsed();
    println!("\n| once | median |\n|---|---|");
    once();
    limits.judge()
}

fn one_read(limits: &mut BrokenLimits) -> Result<()> {
    let monitor = monitor("page-faults")?;
    let ours = monitor.counter("page-faults").context("page faults are not counted by perf here")?;
    let mut peer = Builder::new(Software::PAGE_FAULTS).build()?;
    peer.enable()?;
    let pairs = pairs(|| ours.read().unwrap_or_default(), || peer.read().unwrap_or_default());
    let ratio = pairs.print("one software event, one read", Some(READ_LIMIT));
    limits.must(
        ratio <= READ_LIMIT,
        &format!("a read is {ratio:.2} times perf-event2's, at most {READ_LIMIT}"),
    );
    Ok(())
}

fn one_region(limits: &mut BrokenLimits) -> Result<()> {
    let monitor = monitor("page-faults")?;
    let mut peer = Builder::new(Software::PAGE_FAULTS).build()?;
    peer.enable()?;
    let mut both = || {
        let before = peer.read().unwrap_or_default();
        peer.read().unwrap_or_default().wrapping_sub(before)
    };
    let pairs = pairs(|| region(&monitor), &mut both);
    let ratio = pairs.print("one software event, a region beside two reads", Some(REGION_LIMIT));
    limits.must(
        ratio <= REGION_LIMIT,
        &format!("a region is {ratio:.2} times two reads, at most {REGION_LIMIT}"),
    );
    Ok(())
}

/// Greatest ratio of a region to two reads of the peer. A region also adds up by label and looks at the
/// times.
const REGION_LIMIT: f64 = 1.25;

fn region_of_three(limits: &mut BrokenLimits) -> Result<()> {
    let monitor = monitor(&THREE.join(","))?;
    let mut group = Group::new()?;
    for event in [Software::PAGE_FAULTS, Software::CONTEXT_SWITCHES, Software::CPU_MIGRATIONS] {
        group.add(&Builder::new(event))?;
    }
    group.enable()?;
    let mut both = || {
        let before = group.read();
        let after = group.read();
        u64::from(before.is_ok() && after.is_ok())
    };
    let pairs = pairs(|| region(&monitor), &mut both);
    let ratio =
        pairs.print("three software events, a region beside two reads of a group", Some(REGION_LIMIT));
    limits.must(
        ratio <= REGION_LIMIT,
        &format!("a region of three is {ratio:.2} times two reads of a group, at most {REGION_LIMIT}"),
    );
    Ok(())
}

fn monitor(events: &str) -> Result<Monitor> {
    Ok(Monitor::builder().event(events).calibrate(false).build()?)
}

fn region(monitor: &Monitor) -> u64 {
    drop(black_box(monitor.region("region")));
    0
}

/// Seconds of each measurement, ours and the peer's.
struct Pairs {
    ours: Vec<f64>,
    peer: Vec<f64>,
}

impl Pairs {
    fn print(&self, what: &str, limit: Option<f64>) -> f64 {
        let ratio = ratio(&self.ours, &self.peer);
        let of = |times: &[f64]| shown(crate::median(times), "ns");
        let limit = limit.map_or("-".to_owned(), |limit| format!("{limit:.2}"));
        println!("| {what} | {} | {} | {ratio:.2} | {limit} |", of(&self.ours), of(&self.peer));
        ratio
    }
}

fn pairs(mut ours: impl FnMut() -> u64, mut peer: impl FnMut() -> u64) -> Pairs {
    let mut pairs = Pairs { ours: Vec::new(), peer: Vec::new() };
    for _ in 0..ROUNDS {
        pairs.ours.push(each(&mut ours));
        pairs.peer.push(each(&mut peer));
    }
    pairs
}

/// Seconds of one call.
fn each(what: &mut dyn FnMut() -> u64) -> f64 {
    let started = Instant::now();
    for _ in 0..TIMES {
        black_box(what());
    }
    started.elapsed().as_secs_f64() / f64::from(TIMES)
}

fn rehearsed() {
    let counter = Rehearsal::new();
    counter.count(1_000, 1_000);
    let median =
        |what: &mut dyn FnMut() -> u64| crate::median(&(0..ROUNDS).map(|_| each(what)).collect::<Vec<_>>());
    let value = median(&mut || counter.value().unwrap_or_default());
    let read = median(&mut || counter.read().unwrap_or_default().value);
    println!("| the value | {:.1} ns |", value / NS);
    println!("| the value with its times | {:.1} ns |", read / NS);
}

fn once() {
    let built: Vec<f64> = (0..9)
        .map(|_| {
            let started = Instant::now();
            black_box(Monitor::builder().event("page-faults,task-clock").build().ok());
            started.elapsed().as_secs_f64()
        })
        .collect();
    println!("| to build a monitor, with what reads cost | {} |", shown(crate::median(&built), "ms"));
}
