//! How many instructions a cycle does a loop reach? A chain of dependent additions beside four chains that
//! are not.
//!
//! Without a PMU there are no cycles, and the example says so.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::fmt::Write as _;
use std::hint::black_box;

use cyclometer::{Measured, Monitor};

/// Prints the report.
pub fn main() -> cyclometer::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// Both loops, measured.
pub fn report() -> cyclometer::Result<String> {
    let monitor = Monitor::builder().event("instructions,cycles,task-clock").build()?;
    monitor.measure("one chain", || one_chain(1_000_000));
    monitor.measure("four chains", || four_chains(250_000));
    let mut text = String::new();
    for region in monitor.regions() {
        let _ = writeln!(text, "{}: {}", region.label, ipc(&region));
    }
    Ok(text)
}

fn ipc(region: &Measured) -> String {
    let of = |event| region.get(event).map(ToString::to_string).unwrap_or_default();
    match region.ratio("instructions", "cycles") {
        Some(ipc) => format!("{ipc:.2} instructions a cycle; {}", of("task-clock")),
        None => format!("no instructions a cycle: {}; {}", of("cycles"), of("task-clock")),
    }
}

fn one_chain(times: u32) -> u64 {
    (0..times).fold(1, |sum, _| black_box(sum).wrapping_mul(3))
}

fn four_chains(times: u32) -> u64 {
    let mut sums = [1u64; 4];
    for _ in 0..times {
        sums = black_box(sums).map(|sum| sum.wrapping_mul(3));
    }
    sums.iter().fold(0, |all, sum| all ^ sum)
}
