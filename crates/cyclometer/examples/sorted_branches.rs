//! Does sorting spare mispredicted branches? The same branch over numbers in random order and in theirs.
//!
//! Without a PMU the branches of a region are not counted, and the example says so. Those of a whole command
//! the software PMU counts: `cyclometer stat -e branches -- COMMAND`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::hint::black_box;

use cyclometer::Monitor;

/// Prints the report.
pub fn main() -> cyclometer::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// Both orders, measured.
pub fn report() -> cyclometer::Result<String> {
    let monitor = Monitor::builder().event("branches,branch-misses,task-clock").build()?;
    let mut numbers = numbers(100_000);
    monitor.measure("unsorted", || count_large(&numbers));
    numbers.sort_unstable();
    monitor.measure("sorted", || count_large(&numbers));
    Ok(monitor.regions().iter().map(ToString::to_string).collect())
}

/// Numbers that look random, the same each time.
fn numbers(how_many: usize) -> Vec<u32> {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    std::iter::successors(Some(1), next).map(|state| (state >> 33) as u32).take(how_many).collect()
}

fn count_large(numbers: &[u32]) -> usize {
    let mut large = 0;
    for number in numbers {
        if black_box(*number) > u32::MAX / 4 {
            large = black_box(large + 1);
        }
    }
    large
}
