//! How long does a verdict take? `cargo run --release -p cyclometer-inference --example speed`
//!
//! Judges the events of hidden tables, each on eight counters, and prints the time of each kind. Exits with 1
//! if an event takes more than a millisecond on average.
#![allow(clippy::print_stdout, reason = "this is the result")]

#[path = "../tests/world/mod.rs"]
mod world;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cyclometer_inference::Inference;
use world::Machine;

/// The most time for an event, on average.
const LIMIT: Duration = Duration::from_millis(1);

/// The number of times that each event is judged; the least time counts, as it was disturbed least.
const REPEATS: usize = 5;

fn main() -> ExitCode {
    let table = world::table();
    let inference = Inference::new(&table);
    let mut times: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for seed in 0..8 {
        let mut machine = Machine::new(&table, seed);
        for hidden in machine.hidden_table() {
            let observed = machine.observe(&hidden, &[0, 1, 2, 3, 4, 5, 6, 7]);
            let best = (0..REPEATS).map(|_| time(&inference, &observed)).min().unwrap_or_default();
            times.entry(format!("{:?}", hidden.kind)).or_default().push(best);
        }
    }
    let mut all = Vec::new();
    for (kind, times) in times {
        let mean = times.iter().sum::<Duration>() / times.len() as u32;
        let most = times.iter().max().copied().unwrap_or_default();
        println!("{kind:22} {:4} events  mean {mean:9.1?}  most {most:9.1?}", times.len());
        all.extend(times);
    }
    let mean = all.iter().sum::<Duration>() / all.len() as u32;
    println!("{} kernels, 8 counters, {} events: {mean:.1?} an event", table.kernels().len(), all.len());
    if mean < LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn time(inference: &Inference<'_>, observed: &cyclometer_inference::EventObservations) -> Duration {
    let start = Instant::now();
    std::hint::black_box(inference.judge(observed)).expect("observations of a machine are complete");
    start.elapsed()
}
