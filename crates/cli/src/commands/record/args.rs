//! Arguments of `record`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use cyclometer_toolkit::CpuSet;

use crate::measurement_args::{Backend, cpu_list};

/// Headings of the options.
const ROWS: &str = "Rows";
const COUNTING: &str = "What is counted";
const TARGET: &str = "Running processes, threads and CPUs, instead of a command";
const COMMAND: &str = "The command";
const SIMULATED: &str = "A simulated machine";

/// The file unless another one is named, as perf's `perf.data`.
pub const USUAL_FILE: &str = "cyclometer.rec";

/// The notes of `record --help` below the options.
const NOTES: &str = "\
Without --every, --timer or -I a row has 10,000,000 instructions, where they can be counted; else 10 ms. Each row has the \
counts that were measured in its window, not the period. `cyclometer phases FILE`, `plot FILE` and `convert FILE` read \
recordings. Rows are written to FILE.part until the run has ended; a recording of the name FILE is then kept as FILE.old.

Exit status: that of the command; 125 cyclometer failed; 126 the command cannot be executed; 127 the command does not \
exist; 128 + n signal n.";

/// Arguments of `record`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct RecordArgs {
    /// End a row after every N events, as in `1000000`, or `500000:branches` for another event than
    /// instructions.
    #[arg(help_heading = ROWS, long, value_name = "N[:EVENT]", value_parser = every)]
    pub every: Option<Every>,
    /// End rows also after so many events of another event; can be repeated.
    #[arg(help_heading = ROWS, long, value_name = "EVENT=N", value_parser = also, conflicts_with = "interval")]
    pub also: Vec<Every>,
    /// End a row every MS milliseconds instead.
    #[arg(help_heading = ROWS, short = 'I', long, value_name = "MS", conflicts_with = "every",
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub interval: Option<u64>,
    /// End a row of each thread that has a CPU after every TIME, as in 500us or 2ms: by kperf's timer on a
    /// Mac (sudo; at least 50us), elsewhere by the CPU time of the thread.
    #[arg(help_heading = ROWS, long, value_name = "TIME", conflicts_with_all = ["every", "also", "interval"],
          value_parser = timer)]
    pub timer: Option<Duration>,
    /// The file to write; - is standard output.
    #[arg(help_heading = ROWS, short = 'o', long = "file", value_name = "FILE", default_value = USUAL_FILE)]
    pub file: PathBuf,
    /// Draw the recording when it has ended: F.svg or F.html.
    #[arg(help_heading = ROWS, long, value_name = "F")]
    pub plot: Option<PathBuf>,
    /// Events to count, as in `cycles,instructions,branch-misses`; can be repeated.
    #[arg(help_heading = COUNTING, short, long = "event", value_name = "EVENTS", allow_hyphen_values = true)]
    pub events: Vec<String>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. Can be
    /// repeated.
    #[arg(help_heading = COUNTING, long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// The source of the counts.
    #[arg(help_heading = COUNTING, long, value_name = "SOURCE", default_value = "auto")]
    pub backend: Backend,
    /// Under the software PMU keep ASLR and AT_RANDOM as they are; counts then vary.
    #[arg(help_heading = COUNTING, long)]
    pub random_layout: bool,
    /// Neither use nor write the execution profiles and translations of the software PMU: each run starts
    /// like the first one.
    #[arg(help_heading = COUNTING, long)]
    pub no_hints: bool,
    /// Record a running process and the processes and threads that it starts.
    #[arg(help_heading = TARGET, short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["tid", "all_cpus", "cpu"])]
    pub pid: Option<u32>,
    /// Record one running thread.
    #[arg(help_heading = TARGET, short, long, value_name = "TID", value_parser = clap::value_parser!(u32).range(1..),
          conflicts_with_all = ["all_cpus", "cpu"])]
    pub tid: Option<u32>,
    /// Record everything on all CPUs.
    #[arg(help_heading = TARGET, short, long, conflicts_with = "cpu")]
    pub all_cpus: bool,
    /// Record everything on these CPUs, as in `0-3,8`.
    #[arg(help_heading = TARGET, short = 'C', long, value_name = "CPUS", value_parser = cpu_list)]
    pub cpu: Option<CpuSet>,
    /// Record on a simulated machine instead of this one, as in `sim:apple-m1`: no command is executed.
    #[arg(help_heading = SIMULATED, long, value_name = "sim:ID")]
    pub machine: Option<String>,
    /// Its workload, as in `loop`, or `phases:250` for 250 ms of its time.
    #[arg(help_heading = SIMULATED, long, value_name = "NAME", requires = "machine", conflicts_with = "command")]
    pub workload: Option<String>,
    /// Other meanings for its events: a file in the semantics format.
    #[arg(help_heading = SIMULATED, long, value_name = "FILE", requires = "machine")]
    pub semantics: Option<PathBuf>,
    /// Seed of the simulation's random choices.
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
    /// The destination of the command's standard output: inherit, null (/dev/null), pipe (read and
    /// discarded), or a file, as in ./pipe.
    #[arg(help_heading = COMMAND, long = "output", value_name = "WHERE")]
    pub command_output: Option<PathBuf>,
    /// The standard input of the command: a file, or null.
    #[arg(help_heading = COMMAND, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Print no summary: only errors.
    #[arg(short, long)]
    pub quiet: bool,
    /// The command and its arguments; never passed through a shell.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl RecordArgs {
    /// Whether CPUs or a single thread are recorded, and not one process.
    pub fn is_no_process(&self) -> bool {
        self.tid.is_some() || self.all_cpus || self.cpu.is_some()
    }

    /// Whether something is recorded that runs already.
    pub fn is_attached(&self) -> bool {
        self.pid.is_some() || self.tid.is_some() || self.all_cpus || self.cpu.is_some()
    }
}

/// A number of events after which a row ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Every {
    /// The number.
    pub period: NonZeroU64,
    /// The event; `None`: instructions.
    pub event: Option<String>,
}

/// Widest counter of any source, in bits: longer periods would never end.
const WIDEST_BITS: u32 = 63;

fn every(text: &str) -> Result<Every, String> {
    // Raw events have colons, too: `cpu/event=0xc0/:u`.
    let (number, event) = match text.split_once(':') {
        Some((number, event)) => (number, Some(event)),
        None => (text, None),
    };
    if event == Some("") {
        return Err("no event behind the colon".to_owned());
    }
    Ok(Every { period: period(number)?, event: event.map(str::to_owned) })
}

fn also(text: &str) -> Result<Every, String> {
    let Some((event, number)) = text.rsplit_once('=').filter(|(event, _)| !event.is_empty()) else {
        return Err("expected EVENT=N, as in branch-misses=10000".to_owned());
    };
    Ok(Every { period: period(number)?, event: Some(event.to_owned()) })
}

/// Suffixes of a time, with their ns; those that end in another one come first.
const TIMES: [(&str, u64); 5] =
    [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// The longest time of a timer, which is a day.
const LONGEST_TIMER_NS: u64 = 86_400_000_000_000;

/// A whole number of a unit of time.
fn timer(text: &str) -> Result<Duration, String> {
    let found = TIMES.iter().find_map(|(suffix, ns)| Some((text.strip_suffix(suffix)?, *ns)));
    let (number, ns) =
        found.ok_or_else(|| format!("'{text}' has no unit of time; write it as in 500us, 2ms or 1s"))?;
    let digits = without_separators(number);
    let count = digits.and_then(|digits| digits.parse::<u64>().ok());
    let count = count.ok_or_else(|| format!("'{text}' is no time; write it as in 500us, 2ms or 1s"))?;
    match count.checked_mul(ns) {
        Some(0) => Err("a row of no time never ends".to_owned()),
        Some(ns) if ns <= LONGEST_TIMER_NS => Ok(Duration::from_nanos(ns)),
        _ => Err(format!("'{text}' is longer than a day")),
    }
}

/// Suffixes in the order of their factors; the usual one of two letters is the last of them.
const SUFFIXES: [(&str, u64); 4] = [("K", 1_000), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];

/// A number with digits in groups of three, and the suffixes k, M and G.
fn period(text: &str) -> Result<NonZeroU64, String> {
    let (number, factor) = without_suffix(text);
    let Some(digits) = without_separators(number) else {
        let usual = decimal(number, factor).unwrap_or_else(|| "it as in 1500k".to_owned());
        return Err(format!("'{text}' is no number of events; write {usual}"));
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match number.filter(|number| *number < 1 << WIDEST_BITS) {
        Some(number) => NonZeroU64::new(number).ok_or_else(|| "a row of 0 events never ends".to_owned()),
        None => Err(format!("'{text}' is wider than any counter ({WIDEST_BITS} bits)")),
    }
}

fn without_suffix(text: &str) -> (&str, u64) {
    let suffix = SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, *factor)));
    suffix.unwrap_or((text, 1))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The digits of a number; `None` unless every separator is before exactly three of them.
fn without_separators(number: &str) -> Option<String> {
    let mut groups = number.split(['_', ',']);
    let first = groups.next().filter(|first| is_digits(first))?;
    let mut digits = first.to_owned();
    for group in groups {
        let is_group = first.len() <= 3 && group.len() == 3 && is_digits(group);
        digits += is_group.then_some(group)?;
    }
    Some(digits)
}

/// A number with a decimal point or comma, as it is to be written: `1500k` for `1.5` and a factor of a
/// million.
fn decimal(number: &str, factor: u64) -> Option<String> {
    let (whole, fraction) = number.split_once(['.', ','])?;
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let parts = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let scaled = format!("{whole}{fraction}").parse::<u64>().ok()?.checked_mul(factor)?;
    let events = (scaled % parts == 0).then_some(scaled / parts).filter(|events| *events > 0)?;
    let suffix = SUFFIXES.iter().rev().find(|(_, factor)| events % factor == 0);
    Some(suffix.map_or_else(|| events.to_string(), |(suffix, factor)| format!("{}{suffix}", events / factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_have_groups_and_suffixes() {
        let parsed = |text| every(text).map(|every| (every.period.get(), every.event));
        assert_eq!(parsed("512000"), Ok((512_000, None)));
        assert_eq!(parsed("1M"), Ok((1_000_000, None)));
        assert_eq!(parsed("10k:branches:u"), Ok((10_000, Some("branches:u".to_owned()))));
        assert_eq!(parsed("1_000,000"), Ok((1_000_000, None)));
        assert_eq!(parsed("12,500k"), Ok((12_500_000, None)));
        for wrong in ["", "0", "0k", "x", "-1", "1.5M", "9223372036854775808", "18446744073709551616", "5:"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1,5M", "1,", ",5", "1__0", "1,50k", "1_000_", "1234,567", ",", "1,000,0", "1,_000"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        assert!(every("9223372036854775807").is_ok());
    }

    #[test]
    fn a_number_with_a_decimal_is_an_error_that_says_how_it_is_written() {
        for (wrong, said) in [
            ("1,5M", "'1,5M' is no number of events; write 1500k"),
            ("1.5M", "'1.5M' is no number of events; write 1500k"),
            ("0.25k", "'0.25k' is no number of events; write 250"),
            ("2.0G", "'2.0G' is no number of events; write 2G"),
            ("1.5", "'1.5' is no number of events; write it as in 1500k"),
            ("many", "'many' is no number of events; write it as in 1500k"),
        ] {
            assert_eq!(every(wrong), Err(said.to_owned()));
        }
    }

    #[test]
    fn times_of_a_timer_have_a_unit() {
        for (text, ns) in [("500us", 500_000), ("2ms", 2_000_000), ("1s", 1_000_000_000), ("50µs", 50_000)] {
            assert_eq!(timer(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for wrong in ["", "5", "us", "0ms", "1.5ms", "-1ms", "25000000s", "99999999999999999999s", "1h"] {
            assert!(timer(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn further_boundaries_name_their_event_first() {
        let parsed = also("cpu/event=0xc5/=300").map(|every| (every.period.get(), every.event));
        assert_eq!(parsed, Ok((300, Some("cpu/event=0xc5/".to_owned()))));
        for wrong in ["branches", "=5", "branches=", "branches=0"] {
            assert!(also(wrong).is_err(), "{wrong}");
        }
    }
}
