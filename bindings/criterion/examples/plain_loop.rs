//! A benchmark without a framework: a loop, a region, and the cost of each round.
//!
//!     cargo run --release --package cyclometer-criterion --example plain_loop
#![allow(clippy::print_stdout, reason = "an example tells its results")]

use std::fmt::Write as _;
use std::hint::black_box;

use cyclometer::Monitor;

const ROUNDS: u32 = 1000;

fn main() -> cyclometer::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// The cost of each round, one line for each event; if it cannot be counted here, the reason.
pub fn report() -> cyclometer::Result<String> {
    let monitor =
        Monitor::builder().events(["instructions", "cycles", "task-clock", "page-faults"]).build()?;
    let region = monitor.region("sum of squares");
    for round in 0..ROUNDS {
        black_box((0..black_box(round)).map(u64::from).map(|i| i * i).sum::<u64>());
    }
    let measured = region.stop();
    let mut text = String::new();
    for value in &measured.values {
        let _ = match value.number() {
            Some(number) => {
                let each = number / f64::from(ROUNDS);
                writeln!(text, "{}: {each:.3} {} for each round", value.name, value.unit.symbol())
            }
            None => {
                writeln!(text, "{}: not counted ({})", value.name, value.reason().unwrap_or_default())
            }
        };
    }
    Ok(text)
}
