//! The cost of counts by function, of call paths and of modelled caches, compared with plain counts,
//! callgrind and cachegrind.

use std::path::Path;

use anyhow::{Result, ensure};

use super::measure::{KeptStreams, RunCost, run, run_kept};
use super::workload::{self, BenchProgram};
use super::{load, median, ratio};
use crate::limits::BrokenLimits;
use crate::{build_cyclometer, installed};

/// Measurements of each program under each tool, alternating; slow tools are measured once.
const ROUNDS: usize = 3;

/// The greatest ratio of a run by file of code, which looks no name up, to a plain count.
const COUNTING_LIMIT: f64 = 1.05;
/// The greatest ratio of a run with call paths to a plain count.
const INCLUSIVE_LIMIT: f64 = 1.5;
/// The least ratio of callgrind to a run by function, and to one with call paths.
const CALLGRIND_LIMIT: f64 = 8.0;
/// The least ratio of cachegrind with caches and branches to a model of each instruction.
const CACHEGRIND_LIMIT: f64 = 3.0;
/// The greatest ratio of a model of windows to a plain count.
const WINDOWS_LIMIT: f64 = 1.5;

/// Programs that valgrind follows, of a second or more.
const PROGRAMS: [&str; 8] = ["xz", "sort", "gzip", "python", "perl", "awk", "sqlite", "cc1"];

/// A way to run a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CodeTool {
    Native,
    Plain,
    ByObject,
    ByFunction,
    Inclusive,
    Windows,
    FullModel,
    Callgrind,
    Cachegrind,
}

impl CodeTool {
    const ALL: [CodeTool; 9] = [
        CodeTool::Native,
        CodeTool::Plain,
        CodeTool::ByObject,
        CodeTool::ByFunction,
        CodeTool::Inclusive,
        CodeTool::Windows,
        CodeTool::FullModel,
        CodeTool::Callgrind,
        CodeTool::Cachegrind,
    ];

    fn heading(self) -> &'static str {
        match self {
            CodeTool::Native => "native s",
            CodeTool::Plain => "plain s",
            CodeTool::ByObject => "object",
            CodeTool::ByFunction => "function",
            CodeTool::Inclusive => "inclusive",
            CodeTool::Windows => "windows",
            CodeTool::FullModel => "full",
            CodeTool::Callgrind => "callgrind",
            CodeTool::Cachegrind => "cachegrind",
        }
    }

    fn is_valgrind(self) -> bool {
        matches!(self, CodeTool::Callgrind | CodeTool::Cachegrind)
    }

    /// Measurements of each program.
    fn rounds(self) -> usize {
        if self.is_valgrind() || self == CodeTool::FullModel { 1 } else { ROUNDS }
    }

    /// The words before the command. A run with `--by` uses no stored translations, so the plain count uses
    /// none either.
    fn prefix(self, ours: &str) -> Vec<String> {
        let counted = |options: &[&'static str]| {
            let stat = [ours, "stat", "--backend", "soft", "--strict", "-e", "instructions", "--no-hints"];
            [&stat[..], options, &["--output", "null", "--"]].concat()
        };
        let modelled = |model| vec![ours, "stat", "--model", model, "--output", "null", "--"];
        let words = match self {
            CodeTool::Native => Vec::new(),
            CodeTool::Plain => counted(&[]),
            CodeTool::ByObject => counted(&["--by", "object"]),
            CodeTool::ByFunction => counted(&["--by", "function"]),
            CodeTool::Inclusive => counted(&["--by", "function", "--inclusive"]),
            CodeTool::Windows => vec![ours, "stat", "--model", "--output", "null", "--"],
            CodeTool::FullModel => modelled("full"),
            CodeTool::Callgrind => {
                vec!["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
            }
            CodeTool::Cachegrind => {
                let model = ["--cache-sim=yes", "--branch-sim=yes", "--cachegrind-out-file=/dev/null"];
                [&["valgrind", "-q", "--tool=cachegrind"][..], &model].concat()
            }
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// CPU time of all processes of a run, in seconds.
    fn cpu_s(self, ours: &str, command: &[String]) -> Result<f64> {
        let whole = [self.prefix(ours), command.to_vec()].concat();
        let cost = match self {
            CodeTool::Native | CodeTool::Windows | CodeTool::Callgrind | CodeTool::Cachegrind => {
                run(&whole, KeptStreams::Errors)
            }
            CodeTool::Plain
            | CodeTool::ByObject
            | CodeTool::ByFunction
            | CodeTool::Inclusive
            | CodeTool::FullModel => run_kept(&whole),
        };
        cost.map(|cost: RunCost| cost.cpu_s())
    }
}

/// The CPU times of one program, by tool; none for a tool that is not installed.
struct CodeTimes([Vec<f64>; CodeTool::ALL.len()]);

impl CodeTimes {
    fn of(&self, tool: CodeTool) -> &[f64] {
        &self.0[tool as usize]
    }

    fn ratio(&self, tool: CodeTool, other: CodeTool) -> f64 {
        ratio(self.of(tool), self.of(other))
    }

    fn row(&self) -> String {
        let cell = |tool: &CodeTool| match tool {
            CodeTool::Native | CodeTool::Plain => format!("{:>10.2}", median(self.of(*tool))),
            _ if self.of(*tool).is_empty() => format!("{:>10}", "-"),
            _ => format!("{:>10.2}", self.ratio(*tool, CodeTool::Plain)),
        };
        CodeTool::ALL.iter().map(cell).collect()
    }
}

/// Measures the programs with these names, or all without a name; fails when a limit does not hold.
pub(crate) fn main(names: &[String]) -> Result<()> {
    let ours = build_cyclometer()?;
    let wanted: Vec<String> = match names {
        [] => PROGRAMS.map(str::to_owned).into(),
        names => names.to_vec(),
    };
    let workload = workload::make(&wanted)?;
    ensure!(!workload.programs.is_empty(), "none of the programs is installed");
    let has_valgrind = installed("valgrind");
    println!("load average at the start: {}", load());
    println!(
        "CPU time of all processes, medians of {ROUNDS} runs in turn (full, callgrind, cachegrind: one); behind the first two: ratios to the plain count"
    );
    let heading: String = CodeTool::ALL.iter().map(|tool| format!("{:>10}", tool.heading())).collect();
    println!("{:<8}{heading}", "program");
    let mut all = Vec::new();
    for BenchProgram { name, command, .. } in &workload.programs {
        let times = measure(&ours, command, has_valgrind)?;
        println!("{name:<8}{}", times.row());
        all.push(times);
    }
    println!("load average at the end: {}", load());
    judge(&all)
}

/// Runs a command under each tool, alternating, after a native and a counted run that fill the machine's
/// caches.
fn measure(ours: &Path, command: &[String], has_valgrind: bool) -> Result<CodeTimes> {
    let ours = ours.display().to_string();
    let mut times = CodeTimes(Default::default());
    for tool in [CodeTool::Native, CodeTool::Plain] {
        tool.cpu_s(&ours, command)?;
    }
    for round in 0..ROUNDS {
        let is_due = |tool: &CodeTool| round < tool.rounds() && (has_valgrind || !tool.is_valgrind());
        for tool in CodeTool::ALL.into_iter().filter(is_due) {
            times.0[tool as usize].push(tool.cpu_s(&ours, command)?);
        }
    }
    Ok(times)
}

/// Prints the median over all programs for each limit.
///
/// # Errors
///
/// The limits that do not hold.
fn judge(all: &[CodeTimes]) -> Result<()> {
    use CodeTool::{ByFunction, ByObject, Cachegrind, Callgrind, FullModel, Inclusive, Plain, Windows};
    let of = |tool, other| median(&all.iter().map(|times| times.ratio(tool, other)).collect::<Vec<_>>());
    let has_valgrind = all.iter().all(|times| !times.of(Callgrind).is_empty());
    let mut limits = BrokenLimits::default();
    println!("| median of the programs | found | limit |\n|---|---|---|");
    for (what, tool, limit) in [
        ("`--by object` / plain count", ByObject, COUNTING_LIMIT),
        ("`--inclusive` / plain count", Inclusive, INCLUSIVE_LIMIT),
        ("`--model` / plain count", Windows, WINDOWS_LIMIT),
    ] {
        limits.at_most(what, of(tool, Plain), limit, "");
    }
    println!("| `--by function` / plain count, with names | {:.2} | |", of(ByFunction, Plain));
    for (what, peer, tool, limit) in [
        ("callgrind / `--by function`", Callgrind, ByFunction, CALLGRIND_LIMIT),
        ("callgrind / `--inclusive`", Callgrind, Inclusive, CALLGRIND_LIMIT),
        ("cachegrind / `--model full`", Cachegrind, FullModel, CACHEGRIND_LIMIT),
    ] {
        if has_valgrind {
            limits.at_least(what, of(peer, tool), limit, "");
        } else {
            println!("| {what} | not measured | {limit:.2} |");
        }
    }
    limits.judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of a program at each limit.
    fn times() -> CodeTimes {
        let of = |tool: CodeTool| match tool {
            CodeTool::Native => 1.0,
            CodeTool::Plain => 2.0,
            CodeTool::ByObject => 2.1,
            CodeTool::ByFunction => 2.2,
            CodeTool::Inclusive | CodeTool::Windows => 3.0,
            CodeTool::FullModel => 10.0,
            CodeTool::Callgrind => 24.0,
            CodeTool::Cachegrind => 30.0,
        };
        CodeTimes(CodeTool::ALL.map(|tool| vec![of(tool)]))
    }

    fn with(tool: CodeTool, time: f64) -> CodeTimes {
        let mut times = times();
        times.0[tool as usize] = vec![time];
        times
    }

    #[test]
    fn what_is_within_every_limit_passes_with_and_without_valgrind() {
        judge(&[times(), times()]).unwrap();
        let mut without = times();
        for tool in [CodeTool::Callgrind, CodeTool::Cachegrind] {
            without.0[tool as usize].clear();
        }
        judge(&[without]).unwrap();
    }

    #[test]
    fn each_limit_alone_fails_and_is_named() {
        for (tool, time, said) in [
            (CodeTool::ByObject, 2.2, "`--by object` / plain count"),
            (CodeTool::Inclusive, 3.01, "`--inclusive` / plain count"),
            (CodeTool::Windows, 3.1, "`--model` / plain count"),
            (CodeTool::ByFunction, 3.1, "callgrind / `--by function`"),
            (CodeTool::Cachegrind, 29.0, "cachegrind / `--model full`"),
            (CodeTool::Callgrind, f64::NAN, "callgrind / `--inclusive`"),
            (CodeTool::ByObject, f64::NAN, "`--by object` / plain count"),
        ] {
            let error = judge(&[with(tool, time)]).unwrap_err().to_string();
            assert!(error.contains(said), "{said}: {error}");
        }
    }

    #[test]
    fn the_place_of_a_tool_is_its_number() {
        assert!(CodeTool::ALL.iter().enumerate().all(|(index, tool)| index == *tool as usize));
    }
}
