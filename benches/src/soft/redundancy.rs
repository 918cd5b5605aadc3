//! The cost of checking counts by redundant counters.

use anyhow::{Result, ensure};

use super::measure::{KeptStreams, RunCost, run, run_kept};
use super::{ROUNDS, load, workload};
use crate::{build, median, ratio};

const SETTINGS: [&str; 3] = ["none", "1", "full"];
const PROGRAMS: [&str; 4] = ["xz", "python", "perl", "cc1"];

/// Measures the programs with these names, or those above, with each choice of redundant counters.
pub(crate) fn main(names: &[String]) -> Result<()> {
    let counter = build(&["--package", "cyclometer-soft", "--example", "count"], "examples/count")?;
    let names = if names.is_empty() { PROGRAMS.map(str::to_owned).to_vec() } else { names.to_vec() };
    let workload = workload::make(&names)?;
    ensure!(!workload.programs.is_empty(), "none of the programs is installed");
    println!("load average at the start: {}", load());
    println!(
        "medians of {ROUNDS} runs in turn; the command's CPU, without the tracer's, as ratio to its native run"
    );
    println!("{:<8} {:>12} {:>6} {:>6} {:>6}", "program", "native CPU s", "none", "1", "full");
    for program in &workload.programs {
        let mut native = Vec::new();
        let mut counted = [const { Vec::new() }; SETTINGS.len()];
        run(&program.command, KeptStreams::Errors)?;
        for _ in 0..ROUNDS {
            native.push(run(&program.command, KeptStreams::Errors)?.command_cpu_s);
            for (setting, times) in SETTINGS.iter().zip(&mut counted) {
                let cost = counted_run(&counter.display().to_string(), setting, &program.command)?;
                times.push(cost.command_cpu_s);
            }
        }
        let [none, one, full] = counted.map(|times| ratio(&times, &native));
        println!("{:<8} {:>12.2} {none:>6.2} {one:>6.2} {full:>6.2}", program.name, median(&native));
    }
    println!("load average at the end: {}", load());
    Ok(())
}

fn counted_run(counter: &str, setting: &str, command: &[String]) -> Result<RunCost> {
    let options = [counter, "--output", "null", "--redundancy", setting];
    let whole: Vec<String> =
        options.iter().map(|word| (*word).to_owned()).chain(command.iter().cloned()).collect();
    run_kept(&whole)
}
