//! The cost of a run of a short command.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{build_cyclometer, installed, median, quiet, ratio};

/// Executions of `true` in one measurement.
const RUNS: u32 = 200;
/// Measurements of each tool, alternating.
const ROUNDS: usize = 9;
/// Greatest ratio to a peer: equal, with room for a machine's noise.
const RATIO_LIMIT: f64 = 1.1;
/// Limits that the project sets itself.
const VERSION_LIMIT: Duration = Duration::from_millis(5);
const RSS_LIMIT_BYTES: u64 = 15 << 20;

struct PerRunTool {
    name: &'static str,
    command: Vec<String>,
}

pub(crate) fn main() -> Result<()> {
    let ours = build_cyclometer()?;
    per_run_cost(&ours)?;
    version_time(&ours)?;
    peak_memory(&ours)
}

fn per_run_cost(ours: &Path) -> Result<()> {
    let tools = tools(ours);
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); tools.len()];
    for round in 0..=ROUNDS {
        for (tool, samples) in tools.iter().zip(&mut samples) {
            let took = time(&tool.command)?;
            // The first round warms the caches.
            if round > 0 {
                samples.push(took.as_secs_f64() * 1e6 / f64::from(RUNS));
            }
        }
    }
    let mut worst = 0.0f64;
    println!("cost of one run of `true` ({RUNS} runs, {ROUNDS} rounds in turn)");
    for (i, tool) in tools.iter().enumerate() {
        let ratio = ratio(&samples[0], &samples[i]);
        worst = worst.max(ratio);
        println!(
            "  {:<12} {:>7.0} µs   cyclometer / {}: {ratio:.2}",
            tool.name,
            median(&samples[i]),
            tool.name
        );
    }
    ensure!(worst <= RATIO_LIMIT, "a run costs {worst:.2} times what it costs under a peer");
    Ok(())
}

fn tools(ours: &Path) -> Vec<PerRunTool> {
    let runs = RUNS.to_string();
    let ours = ours.display().to_string();
    let all = [
        ("cyclometer", vec![ours.as_str(), "stat", "--backend", "os", "-q", "-r", &runs, "--", "true"]),
        ("hyperfine", vec!["hyperfine", "-N", "--style", "none", "--warmup", "0", "--runs", &runs, "true"]),
        ("perf", vec!["perf", "stat", "-r", &runs, "true"]),
    ];
    let tool = |(name, command): (&'static str, Vec<&str>)| PerRunTool {
        name,
        command: command.into_iter().map(str::to_owned).collect(),
    };
    all.into_iter().map(tool).filter(|tool| installed(&tool.command[0])).collect()
}

fn time(command: &[String]) -> Result<Duration> {
    let start = Instant::now();
    let status = quiet(&command[0]).args(&command[1..]).status()?;
    ensure!(status.success(), "{}: {status}", command.join(" "));
    Ok(start.elapsed())
}

fn version_time(ours: &Path) -> Result<()> {
    let command = [ours.display().to_string(), "--version".to_owned()];
    let mut times = Vec::new();
    for _ in 0..50 {
        times.push(time(&command)?.as_secs_f64() * 1e3);
    }
    let took = median(&times);
    println!("--version: {took:.2} ms (limit {} ms)", VERSION_LIMIT.as_millis());
    ensure!(took <= VERSION_LIMIT.as_secs_f64() * 1e3, "--version is too slow");
    Ok(())
}

/// Peak memory of `stat` itself, by the accounting of the process that waits for it.
fn peak_memory(ours: &Path) -> Result<()> {
    let output = Command::new(ours)
        .args(["stat", "-e", "peak_rss", "--output", "null", "--json", "--"])
        .arg(ours)
        .args(["stat", "-r", "3", "--", "true"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bytes = text
        .split("\"mean\":")
        .nth(1)
        .and_then(|rest| rest.trim_start().split([',', '\n']).next())
        .and_then(|number| number.trim().parse::<f64>().ok())
        .with_context(|| format!("no peak_rss in {text}"))?;
    println!("peak memory of stat: {:.1} MB (limit {} MB)", bytes / 1e6, RSS_LIMIT_BYTES / 1_000_000);
    ensure!(bytes <= RSS_LIMIT_BYTES as f64, "stat takes too much memory");
    Ok(())
}
