//! The cost of counting by the software PMU, compared with native runs and with other translators.

pub(crate) mod by_code;
pub(crate) mod compilers;
mod limits;
mod measure;
pub(crate) mod redundancy;
mod workload;

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::{build_cyclometer, installed, median, ratio};
use limits::SoftLimits;
use measure::{KeptStreams, RunCost, run, run_kept};
use workload::BenchProgram;

/// Measurements of each pair of a program and a tool, alternating.
const ROUNDS: usize = 3;
/// The same for `true`.
const TRUE_ROUNDS: usize = 21;
const MB: f64 = 1e6;

/// The index of the software PMU among the tools, with the caches of earlier runs and without.
const HINTED: usize = 1;
const UNHINTED: usize = 2;

/// A tool that runs a command.
struct SoftTool {
    name: &'static str,
    prefix: Vec<String>,
    kept: bool,
}

impl SoftTool {
    fn run(&self, command: &[String]) -> Result<RunCost> {
        let whole: Vec<String> = self.prefix.iter().chain(command).cloned().collect();
        if self.kept { run_kept(&whole) } else { run(&whole, KeptStreams::Errors) }
    }
}

/// Measures the programs with these names, or all without a name; fails when a limit does not hold.
pub(crate) fn main(names: &[String]) -> Result<()> {
    let tools = tools(&build_cyclometer()?);
    let workload = workload::make(names)?;
    ensure!(!workload.programs.is_empty(), "none of the programs is installed");
    caches().iter().for_each(|text| println!("{text}"));
    heading(&tools);
    let [mut later, mut first] = ["later runs", "first runs"].map(SoftLimits::of);
    for program in &workload.programs {
        let rows = measure(&tools, &program.command, ROUNDS)?;
        print_row(program, &rows);
        later.add(program, &rows, HINTED);
        first.add(program, &rows, UNHINTED);
    }
    let rows = bare(&tools)?;
    later.add_true(&rows[HINTED]);
    first.add_true(&rows[UNHINTED]);
    println!("load average at the end: {}", load());
    limits::judge(&[later, first])
}

/// Native first, the software PMU with execution profiles and translations of earlier runs second, without
/// them third, then the installed ones of the others.
fn tools(ours: &Path) -> Vec<SoftTool> {
    let ours = ours.display().to_string();
    let stat = [&ours, "stat", "--backend", "soft", "--strict", "-e", "instructions", "--output", "null"];
    let hinted = [&stat[..], &["--"]].concat();
    let unhinted = [&stat[..], &["--no-hints", "--"]].concat();
    let cachegrind =
        ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let tool = |name, prefix: &[&str], kept| SoftTool {
        name,
        prefix: prefix.iter().map(|word| (*word).to_owned()).collect(),
        kept,
    };
    let mut tools =
        vec![tool("native", &[], false), tool("soft", &hinted, true), tool("no hints", &unhinted, true)];
    if installed("valgrind") {
        tools.push(tool("cachegrind", &cachegrind, false));
        tools.push(tool("valgrind-none", &["valgrind", "-q", "--tool=none"], false));
    }
    if installed("qemu-x86_64") {
        tools.push(tool("qemu-user", &["qemu-x86_64"], false));
    }
    tools
}

/// The runs of a command under one tool.
struct ToolRuns {
    tool: &'static str,
    costs: Vec<RunCost>,
}

impl ToolRuns {
    fn wall(&self) -> Vec<f64> {
        self.costs.iter().map(|cost| cost.wall_s).collect()
    }

    fn cpu(&self) -> Vec<f64> {
        self.costs.iter().map(RunCost::cpu_s).collect()
    }

    fn median(&self, of: impl Fn(&RunCost) -> f64) -> f64 {
        median(&self.costs.iter().map(of).collect::<Vec<_>>())
    }

    /// The memory of the largest process and the tracer together beyond that of the largest process of
    /// another row, in bytes.
    fn memory_beyond(&self, other: &ToolRuns) -> f64 {
        self.tracer_bytes() + self.median(|cost| cost.peak_bytes) - other.median(|cost| cost.peak_bytes)
    }

    fn tracer_bytes(&self) -> f64 {
        self.median(|cost| cost.tracer.map_or(f64::NAN, |tracer| tracer.peak_bytes))
    }

    /// Ratios to another row: wall time and CPU time.
    fn over(&self, other: &ToolRuns) -> (f64, f64) {
        (ratio(&self.wall(), &other.wall()), ratio(&self.cpu(), &other.cpu()))
    }
}

/// Runs a command under each tool, alternating. First runs do not count: a native run that fills caches, a
/// run that leaves an execution profile, and a run that leaves a translation.
fn measure(tools: &[SoftTool], command: &[String], rounds: usize) -> Result<Vec<ToolRuns>> {
    [0, HINTED, HINTED].into_iter().try_for_each(|tool| tools[tool].run(command).map(drop))?;
    let mut rows: Vec<ToolRuns> =
        tools.iter().map(|tool| ToolRuns { tool: tool.name, costs: Vec::new() }).collect();
    for _ in 0..rounds {
        for (tool, row) in tools.iter().zip(&mut rows) {
            row.costs.push(tool.run(command)?);
        }
    }
    Ok(rows)
}

fn heading(tools: &[SoftTool]) {
    println!("load average at the start: {}", load());
    println!("medians of {ROUNDS} runs in turn; ratios to the native run, wall / CPU; CPU with the tracer's");
    print!("{:<8} {:>7} {:>7}", "program", "wall s", "CPU s");
    for tool in &tools[1..] {
        print!("  {:>14}", tool.name);
    }
    println!("  {:>9} {:>8} {:>10} {:>6}", "tracer s", "tracer", "program", "load");
}

fn print_row(program: &BenchProgram, rows: &[ToolRuns]) {
    let (native, soft) = (&rows[0], &rows[HINTED]);
    print!("{:<8} {:>7.2} {:>7.2}", program.name, median(&native.wall()), median(&native.cpu()));
    for row in &rows[1..] {
        let (wall, cpu) = row.over(native);
        print!("  {wall:>6.2} / {cpu:>5.2}");
    }
    let tracer = soft.median(|cost| cost.tracer.map_or(f64::NAN, |tracer| tracer.cpu_s));
    let tracer_bytes = soft.tracer_bytes();
    let grown = soft.median(|cost| cost.peak_bytes) - native.median(|cost| cost.peak_bytes);
    let load = load();
    let minute = load.split(' ').next().unwrap_or_default();
    println!("  {tracer:>9.2} {:>5.1} MB {:>+7.1} MB {minute:>6}", tracer_bytes / MB, grown / MB);
}

/// The caches of the tool: later runs use the translations and profiles of earlier ones, including those of
/// other workloads.
fn caches() -> Vec<String> {
    let of_user = [("XDG_CACHE_HOME", ""), ("HOME", ".cache")];
    let of_user = of_user.map(|(name, below)| std::env::var_os(name).map(|at| Path::new(&at).join(below)));
    let folders = of_user.into_iter().flatten().chain([Path::new("/var/cache").to_owned()]);
    let size = |folder: &Path| -> u64 {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
    };
    let left = folders.map(|folder| folder.join("cyclometer")).filter_map(|folder| {
        let bytes: u64 = ["hints", "translations"].iter().map(|name| size(&folder.join(name))).sum();
        (bytes > 0)
            .then(|| format!("left by runs before, in {}: {:.0} MB", folder.display(), bytes as f64 / MB))
    });
    left.collect()
}

/// The time of `true` under each tool.
fn bare(tools: &[SoftTool]) -> Result<Vec<ToolRuns>> {
    let rows = measure(tools, &["/bin/true".to_owned()], TRUE_ROUNDS)?;
    print!("/bin/true, wall / CPU in ms ({TRUE_ROUNDS} runs in turn):");
    for row in &rows {
        print!(" {} {:.1} / {:.1};", row.tool, median(&row.wall()) * 1e3, median(&row.cpu()) * 1e3);
    }
    println!();
    Ok(rows)
}

/// The machine's load average, as the kernel reports it.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().take(3).collect();
    if words.is_empty() { "unknown".to_owned() } else { words.join(" ") }
}
