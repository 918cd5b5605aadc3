//! Two ways to sort, measured by an event that this machine can count: instructions, or CPU time without a
//! PMU.
//!
//!     cargo bench --package cyclometer-criterion
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark tells its results")]

use criterion::{Criterion, Throughput};
use cyclometer_criterion::Events;

const LENGTH: u32 = 1000;

/// Numbers in an arbitrary order, always the same.
fn numbers() -> Vec<u32> {
    (0..LENGTH).map(|i| i.wrapping_mul(2_654_435_761) >> 7).collect()
}

fn main() -> cyclometer::Result<()> {
    let measured = Events::of("instructions").or_else(|error| {
        eprintln!("{error}: measuring task-clock instead");
        Events::of("task-clock")
    })?;
    let events = measured.beside("cycles,branch-misses,page-faults")?;
    let mut criterion = Criterion::default().with_measurement(events.clone()).configure_from_args();
    let mut group = criterion.benchmark_group("sorting");
    group.throughput(Throughput::Elements(LENGTH.into()));
    events.bench(&mut group, "stable", || numbers().sort());
    events.bench(&mut group, "unstable", || numbers().sort_unstable());
    group.finish();
    criterion.final_summary();
    println!("{}", events.report());
    Ok(())
}
