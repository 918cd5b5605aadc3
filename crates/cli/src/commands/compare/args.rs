//! Arguments of `compare`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use cyclometer_toolkit::CpuSet;
use cyclometer_toolkit::core::{Counted, CpuBaseline};
use cyclometer_toolkit::stats::compare::{Gate, MOST_PAIRS};
use cyclometer_toolkit::symbols::Grouping;

use crate::export_args::{ExportArgs, RESULTS};
use crate::measurement_args::{Backend, counted, cpu_baseline, cpu_list, grouping};

/// Headings of the options.
const COUNTING: &str = "What is counted";
const RUNS: &str = "How often and how";
const COMMANDS: &str = "The commands";
const HOOKS: &str = "Around the commands, unmeasured";
const GATE: &str = "Baseline and gate";

/// Arguments of `compare`.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("loudness").args(["quiet", "verbose"])),
    group(ArgGroup::new("who").args(["commands", "command"]).required(true)),
    after_help = NOTES,
)]
pub struct CompareArgs {
    /// Events to count, as in `cycles,instructions:k`; can be repeated.
    #[arg(help_heading = COUNTING, short, long = "event", value_name = "EVENTS", allow_hyphen_values = true)]
    pub events: Vec<String>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. Can be
    /// repeated.
    #[arg(help_heading = COUNTING, long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// Metrics to compute, by name or group; can be repeated.
    #[arg(help_heading = COUNTING, short = 'M', long = "metrics", value_name = "METRICS")]
    pub metrics: Vec<String>,
    /// Where counts come from.
    #[arg(help_heading = COUNTING, long, value_name = "SOURCE", default_value = "auto")]
    pub backend: Backend,
    /// Number of runs of each command that the software PMU counts, if it counts any event: 2 by default, 1
    /// if the first run loses its counts. These runs are added to the pairs; with `all` every run is counted.
    #[arg(help_heading = COUNTING, long, value_name = "K|all", value_parser = counted)]
    pub counted: Option<Counted>,
    /// Neither use nor write the execution profiles and translations of the software PMU: each run starts
    /// like the first one.
    #[arg(help_heading = COUNTING, long)]
    pub no_hints: bool,
    /// Under the software PMU, report this processor to the commands, the same on every machine.
    #[arg(help_heading = COUNTING, long, value_name = "NAME", value_parser = cpu_baseline)]
    pub cpu_baseline: Option<CpuBaseline>,
    /// Also show which functions or files of code changed, under the software PMU, exactly. A gate that fails
    /// names the first three. Events of the software PMU only; --save-baseline stores their counts.
    #[arg(help_heading = COUNTING, long, value_name = "function|object", value_parser = without_lines)]
    pub by: Option<Grouping>,
    /// With --by function, give inlined functions rows of their own, apart for each function that they are
    /// inlined into; needs debug information. A baseline needs them too.
    #[arg(help_heading = COUNTING, long, requires = "by")]
    pub inlines: bool,
    /// Number of changes that --by shows; 0: all.
    #[arg(help_heading = COUNTING, long, value_name = "N", default_value_t = 20, requires = "by")]
    pub top: usize,
    /// The smallest change that is reported as `changed`; a change of exact counts is always reported.
    #[arg(help_heading = COUNTING, long, value_name = "PERCENT", default_value = "0.5%", value_parser = percent)]
    pub threshold: f64,
    /// Number of pairs, which is the number of native runs of each command.
    #[arg(help_heading = RUNS, short, long, visible_alias = "runs", visible_short_alias = 'r', value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=MOST_PAIRS as i64))]
    pub pairs: Option<u32>,
    /// Number of runs of each command before the pairs, without counting; 1 by default.
    #[arg(help_heading = RUNS, short, long, value_name = "N")]
    pub warmup: Option<u32>,
    /// Start no pair after this time, as in `30s` or `500ms`; without --pairs, make as many pairs as fit.
    #[arg(help_heading = RUNS, short, long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Bind the commands to these CPUs, as in `2` or `0-3,8`.
    #[arg(help_heading = RUNS, short = 'C', long = "cpu-list", value_name = "CPUS", value_parser = cpu_list)]
    pub cpus: Option<CpuSet>,
    /// Leave the environment unchanged; otherwise a variable CYCLOMETER_PADDING of random length moves the
    /// stack, in each pair to another address.
    #[arg(help_heading = RUNS, long)]
    pub no_padding: bool,
    /// Seed of the order within pairs and of the padding, so that both can be repeated.
    #[arg(help_heading = RUNS, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Have sh run the commands and hooks; its own cost is then included.
    #[arg(help_heading = COMMANDS, short = 'S', long)]
    pub shell: bool,
    /// Compare a command for each of these values, which replace the name in braces, as in
    /// `-L jobs=1,2,4 'make -j{jobs}'`. Can be repeated.
    #[arg(help_heading = COMMANDS, short = 'L', long = "list", value_name = "NAME=VALUES")]
    pub lists: Vec<String>,
    /// Compare the standard output of all runs, byte by byte; fail if it differs.
    #[arg(help_heading = COMMANDS, long, conflicts_with = "output")]
    pub check_output: bool,
    /// Where the commands' standard output goes: inherit, null (/dev/null), pipe (read and discarded), or a
    /// file, as in ./pipe.
    #[arg(help_heading = COMMANDS, long, value_name = "WHERE")]
    pub output: Option<PathBuf>,
    /// The standard input of each run: a file, or null.
    #[arg(help_heading = COMMANDS, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Go on when a run of a command fails; tables and exports count the failures.
    #[arg(help_heading = COMMANDS, short, long)]
    pub ignore_failure: bool,
    /// Run this before the first execution of each command.
    #[arg(help_heading = HOOKS, long, value_name = "COMMAND")]
    pub setup: Option<String>,
    /// Run this before each execution.
    #[arg(help_heading = HOOKS, long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Run this after each execution.
    #[arg(help_heading = HOOKS, long, value_name = "COMMAND")]
    pub conclude: Option<String>,
    /// Run this at the end, once for each command.
    #[arg(help_heading = HOOKS, long, value_name = "COMMAND")]
    pub cleanup: Option<String>,
    /// Write the results to a file that a later --baseline reads.
    #[arg(help_heading = GATE, long, value_name = "FILE")]
    pub save_baseline: Option<PathBuf>,
    /// Replace the file of --save-baseline even if it has counts that the new results lack.
    #[arg(help_heading = GATE, long, requires = "save_baseline")]
    pub force: bool,
    /// Compare the one command with these results: cyclometer's own, JSON of hyperfine or of `perf stat -j`,
    /// or JSON with poop's names of metrics.
    #[arg(help_heading = GATE, long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// The command of the baseline to compare with, by its text or its number from 1.
    #[arg(help_heading = GATE, long, value_name = "COMMAND", requires = "baseline")]
    pub baseline_command: Option<String>,
    /// Fail if this holds, as in `instructions > +0.5%` or `branch_misses / branches > +2%`; can be repeated.
    #[arg(help_heading = GATE, long, value_name = "CONDITION", value_parser = gate, allow_hyphen_values = true)]
    pub fail_if: Vec<Gate>,
    /// Fail if a condition is inconclusive, too.
    #[arg(help_heading = GATE, long, requires = "fail_if")]
    pub fail_inconclusive: bool,
    /// Decide conditions even if runs failed, in the baseline or now with -i; without this option the exit
    /// status is then 125.
    #[arg(help_heading = GATE, long, requires = "fail_if")]
    pub accept_failures: bool,
    /// Compare with the baseline of another machine.
    #[arg(help_heading = GATE, long, requires = "baseline")]
    pub any_machine: bool,
    /// The files of the results.
    #[command(flatten)]
    pub exports: ExportArgs,
    /// Draw every run and interval: F.svg or F.html.
    #[arg(help_heading = RESULTS, long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print no tables, no progress and no hints: only exports, gates that fail, and errors.
    #[arg(help_heading = RESULTS, short, long)]
    pub quiet: bool,
    /// The commands, each with its arguments as one quoted word; the others are compared with the first.
    #[arg(value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// After --: one command and its arguments, to compare with a baseline or to save as one.
    #[arg(last = true, value_name = "WORDS")]
    pub command: Vec<std::ffi::OsString>,
}

/// The notes of `compare --help` below the options.
const NOTES: &str = "\
Runs of all commands alternate in random order, so that drift of the machine is the same for all. A metric is reported \
as changed only if the change is significant, at a false discovery rate of 5 % over all metrics, and larger than the \
threshold. Counts of the software PMU that \
repeat are compared exactly, and need no more than two runs of each command. Each run reads the file that is cyclometer's \
standard input from the same offset; a pipe with data is refused. Output is discarded, but not through /dev/null: some \
programs, grep and tar among them, do less work when they see that. --input and --output change this.

Commands and hooks are divided into words, and no shell reads them: an unquoted <, >, |, &, ;, (, #, ~, *, ?, \
[a-z], {a,b} or $NAME, $NAME in double quotes, and NAME=value before the program, are refused. -S has sh run them.

Exit status: 0 all went well, whatever has changed; 1 a condition of --fail-if holds, or outputs differ with \
--check-output; 125 cyclometer or a command failed, or a condition is about runs that failed; 126 a command cannot be executed; 127 a command does not exist; 128 + n \
signal n.";

/// Lines move with each edit of their file, so that one line cannot be compared with another.
fn without_lines(text: &str) -> Result<Grouping, String> {
    match grouping(text) {
        Ok(found) if found != Grouping::Line => Ok(found),
        _ => Err("function or object".to_owned()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is no share from 0% to 100%")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];
    let fail = || format!("'{text}' is no time; write it as 500ms, 30s or 5min");
    let (unit, seconds) = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(fail)?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().map_err(|_| fail())?;
    Duration::try_from_secs_f64(number * seconds).ok().filter(|time| !time.is_zero()).ok_or_else(fail)
}

fn gate(text: &str) -> Result<Gate, String> {
    Gate::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_shares_are_read() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        for text in ["", "5", "0s", "-1s", "s", "1e99h", "nans"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!((percent("0.5%"), percent("2")), (Ok(0.005), Ok(0.02)));
        assert!(percent("-1%").is_err() && percent("nan").is_err() && percent("101").is_err());
    }
}
