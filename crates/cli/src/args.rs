//! The command line: the one definition behind parsing, help, completions and the manual page.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use cyclometer_toolkit::core::code::OwnerKind;
use cyclometer_toolkit::core::{Counted, CounterId, CounterMask, CpuBaseline, CpuSet};
use cyclometer_toolkit::sweep::SweepSettings;
use cyclometer_toolkit::symbols::Grouping;

use crate::commands::advise::AdviseArgs;
use crate::commands::compare::CompareArgs;
use crate::commands::record::RecordArgs;
use crate::exit;
use crate::export_args::{ExportArgs, RESULTS};
use crate::measurement_args::{Backend, ModelValue, counted, cpu_baseline, cpu_list, grouping, model};
use crate::render::WIDTH;
use crate::render::paint::ColourUse;
use crate::render::recording::RecordingFormat;

/// Counts what a CPU did, and says how far each number can be trusted.
#[derive(Parser, Debug)]
#[command(
    name = "cyclometer", version, about, after_help = exit::TABLE,
    disable_help_subcommand = true, max_term_width = WIDTH,
)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: CliCommand,
    /// When to use colour.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorWhen,
    /// Show every fallback step, all notes and the causes of errors.
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum CliCommand {
    /// Run a command and count its events, or count running processes.
    Stat(Box<StatArgs>),
    /// Run several commands in pairs, in random order, and test every metric for a change; a gate for CI.
    Compare(Box<CompareArgs>),
    /// Record a row of counts for every N events of a command, or for each length of time.
    Record(Box<RecordArgs>),
    /// Measure a command and name the performance problems that its counts indicate, or find the run that
    /// differs from many others.
    Advise(Box<AdviseArgs>),
    /// Run a program so that its own regions (Rust, C, Python) are counted without a PMU, too.
    Run(RunArgs),
    /// Show which sources of counts work here, and for the others the reason and the fix.
    Doctor(DoctorArgs),
    /// Count loops of known length with every event, and show which events count correctly.
    Selftest(SelftestArgs),
    /// Find out what events count: sweep event codes over loops of known work, on a simulated machine or on
    /// this one.
    Reverse(Box<ReverseArgs>),
    /// Show the CPUs: core types, ids, counters, the kernel's PMUs.
    Cpus(MachineArgs),
    /// List the events that can be named on this machine, or the metrics of a CPU.
    List(ListArgs),
    /// Show the encoding of an event for any CPU: perf's terms and register values.
    Encode(EncodeArgs),
    /// Show what a register's value or an event's code means on any CPU, bit by bit and by name.
    Decode(DecodeArgs),
    /// Show the registers of any CPU's PMU: address, meaning of each bit, source.
    #[command(visible_alias = "regs")]
    Registers(RegistersArgs),
    /// Show which events can count at once on any CPU, and on which counters.
    Plan(PlanArgs),
    /// Convert a recording: to CSV, JSON lines, folded stacks, a Firefox profile or Parquet.
    Convert(ConvertArgs),
    /// Draw a recording: rates over instructions or time, with phases and marks; on the terminal, as SVG or
    /// as HTML.
    Plot(PlotArgs),
    /// Show the phases of a recording: parts in which the program does the same work, with the rates of each.
    Phases(PhasesArgs),
    /// Serve measurements to coding agents, by the Model Context Protocol (program cyclometer-mcp).
    #[command(disable_help_flag = true)]
    Mcp {
        /// Arguments of cyclometer-mcp; `cyclometer mcp --help` lists them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        args: Vec<OsString>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or that of a subcommand.
    Man {
        /// The subcommand.
        subcommand: Option<String>,
    },
}

/// When to use colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl From<ColorWhen> for ColourUse {
    fn from(when: ColorWhen) -> ColourUse {
        match when {
            ColorWhen::Auto => ColourUse::Auto,
            ColorWhen::Always => ColourUse::Always,
            ColorWhen::Never => ColourUse::Never,
        }
    }
}

/// The tasks whose counts `stat --by --per` keeps apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PerTask {
    /// Each process, with all of its threads.
    Process,
    /// Each thread.
    Thread,
}

impl From<PerTask> for OwnerKind {
    fn from(per: PerTask) -> OwnerKind {
        match per {
            PerTask::Process => OwnerKind::Process,
            PerTask::Thread => OwnerKind::Thread,
        }
    }
}

/// Faults that a simulated machine injects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Trouble {
    /// The kernel writes over the register that enables counters, about every 100 µs.
    Rewrite,
    /// Another user of the PMU takes counter 0 after 1 ms, on Apple's chips counter 2.
    Steal,
    /// A watchdog holds a counter.
    Watchdog,
    /// Writes seem to succeed and change nothing.
    IgnoreWrites,
}

/// Headings of the options of `stat`.
const COUNTING: &str = "What and how often";
const TARGET: &str = "Running processes, threads and CPUs, instead of a command";
const COMMAND: &str = "The command";
const SIMULATED: &str = "A simulated machine";

/// Options about a command that is executed, or about the source that counts it.
const OF_COMMANDS: [&str; 8] =
    ["backend", "output", "input", "random_layout", "no_hints", "cpu_baseline", "counted", "ignore_failure"];

/// Arguments of `stat`.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("target").args(["pid", "tid", "all_cpus", "cpu", "cgroup"])),
    group(ArgGroup::new("sharing").args(["multiplex", "no_multiplex"])),
    group(ArgGroup::new("loudness").args(["quiet", "verbose"])),
    after_help = STAT_NOTES,
)]
pub struct StatArgs {
    /// Events to count, as in `cycles,instructions:k,{branches,branch-misses}`; can be repeated.
    #[arg(help_heading = COUNTING, short, long = "event", value_name = "EVENTS", allow_hyphen_values = true)]
    pub events: Vec<String>,
    /// A table of events that is searched before the catalogue: in cyclometer's format, Intel's perfmon or
    /// Linux's pmu-events JSON, or an Apple kpep file. CPU=FILE, as in `cpu_atom=FILE`, is for a core type.
    /// Can be repeated.
    #[arg(help_heading = COUNTING, long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// Metrics to compute, by name or group, as in `ipc,TopdownL1`; their events are counted, too. Can be
    /// repeated.
    #[arg(help_heading = COUNTING, short = 'M', long = "metrics", value_name = "METRICS")]
    pub metrics: Vec<String>,
    /// Number of runs of the command, or of the workload.
    #[arg(help_heading = COUNTING, short, long, visible_alias = "repeat", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Number of runs before the counted ones, without counting.
    #[arg(help_heading = COUNTING, short, long, value_name = "N", default_value_t = 0)]
    pub warmup: u32,
    /// Number of runs that the software PMU counts, if it counts any event; the others are timed natively.
    #[arg(help_heading = COUNTING, long, value_name = "K|all", value_parser = counted)]
    pub counted: Option<Counted>,
    /// Under the software PMU, keep ASLR and AT_RANDOM; counts then vary.
    #[arg(help_heading = COUNTING, long)]
    pub random_layout: bool,
    /// Neither use nor write the execution profiles and translations of the software PMU: each run starts
    /// like the first one.
    #[arg(help_heading = COUNTING, long)]
    pub no_hints: bool,
    /// Under the software PMU, report this processor to the command, the same on every machine.
    #[arg(help_heading = COUNTING, long, value_name = "NAME", value_parser = cpu_baseline)]
    pub cpu_baseline: Option<CpuBaseline>,
    /// Rotate events that do not fit on the counters at once within each run, even if there are enough runs
    /// to count each exactly.
    #[arg(help_heading = COUNTING, long)]
    pub multiplex: bool,
    /// Refuse events that do not fit on the counters at once, unless there are enough runs to count each
    /// exactly.
    #[arg(help_heading = COUNTING, long)]
    pub no_multiplex: bool,
    /// Also count each region that the command marks with the marker library, with the same events.
    #[arg(help_heading = COUNTING, short, long,
          conflicts_with_all = ["pid", "tid", "all_cpus", "cpu", "cgroup", "machine"])]
    pub markers: bool,
    /// Also show where counts were made, under the software PMU: exactly, by function, by line of source code
    /// or by file of code.
    #[arg(help_heading = COUNTING, long, value_name = "function|line|object", value_parser = grouping,
          conflicts_with_all = ["pid", "tid", "all_cpus", "cpu", "cgroup", "machine", "markers"])]
    pub by: Option<Grouping>,
    /// Instead of counting, show misses of modelled caches, TLBs and branch predictors: in windows of a
    /// native run, or with `full` of each instruction, many times slower than natively. Sizes of caches, as
    /// in `full` or `D1=32768,8,64:LL=8388608,16,64` or `full:D1=32768,8,64`; others are the machine's. With
    /// `TLB`, or entries and ways as in `DTLB=64,4:ITLB=64,8:STLB=1536,12`, TLBs are modelled too. May be
    /// given several times.
    #[arg(help_heading = COUNTING, long, value_name = "MODEL", num_args = 0..=1,
          default_missing_value = "", value_parser = model,
          conflicts_with_all = ["events", "metrics", "runs", "warmup", "interval", "counted", "calls", "inclusive",
                                "markers", "pid", "tid", "all_cpus", "cpu", "cgroup", "machine", "random_layout",
                                "no_hints", "cpu_baseline", "multiplex", "no_multiplex"])]
    pub model: Vec<ModelValue>,
    /// Number of rows that --by shows; 0: all.
    #[arg(help_heading = COUNTING, long, value_name = "N", default_value_t = 20, requires = "by")]
    pub top: usize,
    /// With --by function, also show which function called which, and how often, exactly. The target of a
    /// call through a register or memory is unknown.
    #[arg(help_heading = COUNTING, long, requires = "by")]
    pub calls: bool,
    /// With --by function, give inlined functions rows of their own, apart for each function that they are
    /// inlined into. Needs debug information (-g).
    #[arg(help_heading = COUNTING, long, requires = "by", conflicts_with = "inclusive")]
    pub inlines: bool,
    /// With --by, keep the counts of each process or thread apart. A thread has the name that it had last.
    #[arg(help_heading = COUNTING, long, value_name = "TASK", requires = "by", conflicts_with_all = ["inclusive", "model"])]
    pub per: Option<PerTask>,
    /// With --by function or object, also show inclusive instructions: those of a function and of everything
    /// that it calls. The command runs slower.
    #[arg(help_heading = COUNTING, long, requires = "by")]
    pub inclusive: bool,
    /// Write the counts of --by in Callgrind's format, for callgrind_annotate and KCachegrind: exclusive
    /// costs, with lines if --by line, with calls if --inclusive; - is standard output.
    #[arg(help_heading = RESULTS, long, value_name = "FILE", requires = "by")]
    pub export_callgrind: Option<PathBuf>,
    /// Write the first event of --by as folded stacks, for flame graphs: file of code and function, or with
    /// --inclusive instructions by call path.
    #[arg(help_heading = RESULTS, long, value_name = "FILE", requires = "by")]
    pub export_folded: Option<PathBuf>,
    /// Write the first event of --by as a page with a tree map, or with --inclusive a flame graph, which
    /// needs no other file.
    #[arg(help_heading = RESULTS, long, value_name = "FILE", requires = "by")]
    pub html: Option<PathBuf>,
    /// Print counts every MS milliseconds; recommended minimum: 10, with the software PMU 100.
    #[arg(help_heading = COUNTING, short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// Redraw the counts of the last interval in place, with their history, instead of printing rows. Where
    /// standard error is no terminal, or the command writes to it too, rows are printed.
    #[arg(help_heading = COUNTING, long, requires = "interval", conflicts_with = "quiet")]
    pub live: bool,
    /// Count running processes, as in `12,15`, with the processes that they start from now on: one total.
    #[arg(help_heading = TARGET, short, long, value_name = "PID", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Vec<u32>,
    /// Count running threads, as in `12,15`: one total.
    #[arg(help_heading = TARGET, short, long, value_name = "TID", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..))]
    pub tid: Vec<u32>,
    /// Count everything on all CPUs.
    #[arg(help_heading = TARGET, short, long)]
    pub all_cpus: bool,
    /// Count everything on these CPUs, as in `0-3,8`.
    #[arg(help_heading = TARGET, short = 'C', long, value_name = "CPUS", value_parser = cpu_list)]
    pub cpu: Option<CpuSet>,
    /// Count the processes of a control group, a folder below the cgroup mount.
    #[arg(help_heading = TARGET, short = 'G', long, action = clap::ArgAction::Append)]
    pub cgroup: Vec<PathBuf>,
    /// Where counts come from.
    #[arg(help_heading = COUNTING, long, value_name = "SOURCE", default_value = "auto")]
    pub backend: Backend,
    /// Count on a simulated machine instead of this one, as in `sim:apple-m1`: no command is executed.
    #[arg(help_heading = SIMULATED, long, value_name = "sim:ID", conflicts_with_all = OF_COMMANDS)]
    pub machine: Option<String>,
    /// Its workload, as in `loop`, or `phases:250` for 250 ms of its time.
    #[arg(help_heading = SIMULATED, long, value_name = "NAME", requires = "machine", conflicts_with = "command")]
    pub workload: Option<String>,
    /// Other meanings for its events: a file in the semantics format.
    #[arg(help_heading = SIMULATED, long, value_name = "FILE", requires = "machine")]
    pub semantics: Option<PathBuf>,
    /// A fault to inject; can be repeated.
    #[arg(help_heading = SIMULATED, long, value_name = "WHAT", requires = "machine")]
    pub trouble: Vec<Trouble>,
    /// Seed of the simulation's random choices and of the order of passes.
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
    /// Exit with 124 unless every value is exact.
    #[arg(help_heading = COUNTING, long)]
    pub strict: bool,
    /// Go on when a run of the command fails, and exit with 0; the table counts the failures.
    #[arg(help_heading = COMMAND, short, long)]
    pub ignore_failure: bool,
    /// Where the command's standard output goes: inherit, null (/dev/null), pipe (read and discarded), or a
    /// file, as in ./pipe.
    #[arg(help_heading = COMMAND, long, value_name = "WHERE")]
    pub output: Option<PathBuf>,
    /// The standard input of each run: a file, or null.
    #[arg(help_heading = COMMAND, long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Print JSON on standard output instead of a table; short for --export-json -.
    #[arg(help_heading = RESULTS, long, conflicts_with = "export_json")]
    pub json: bool,
    /// The files of the results.
    #[command(flatten)]
    pub exports: ExportArgs,
    /// Print no table, no progress and no hints: only exports and errors.
    #[arg(help_heading = RESULTS, short, long)]
    pub quiet: bool,
    /// The command and its arguments; never passed through a shell.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// The notes of `stat --help` below the options.
const STAT_NOTES: &str = "\
With one run the command has cyclometer's standard streams, and the table goes to standard error. With more runs the \
table goes to standard output. Each run then reads the file that is cyclometer's standard input from the same offset; a pipe \
with data is refused. Output is discarded, but not through /dev/null: some programs, grep and tar among them, do less \
work when they see that. A failing run ends the session unless -i is given. Where there is no PMU, events asked for by name are counted exactly by the software PMU: of \
1 or 2 runs, 1 is translated; of 3 or more, 2 are; the other runs are timed natively. With -p, -t, -a, -C or -G a command only sets how long is counted.

Exit status: that of the command; 124 --strict violated; 125 cyclometer failed; 126 the command cannot be \
executed; 127 the command does not exist; 128 + n signal n.";

/// The notes at the end of `selftest --help` and of its manual page.
const SELFTEST_NOTES: &str = "\
Each event is counted over loops whose instructions, branches, loads and stores are known:
  exact        every count was the known number
  overcounts   never too low, and too high by no more than interrupts explain
  plausible    the exact number is unknown; counts are within limits
  unjudged     it counts; there is no known number to compare it with
  wrong        counts contradict the known number
  not counted  it cannot be counted here; the reason is shown

Exit status:
  0        no count contradicts a known number; also without a PMU
  1        counts of an event contradict the known number
  128 + n  signal n ended the test early
  125      nothing could be tested, or cyclometer failed

A report (--report) has the CPU, the kernel's release, rights, sources and every count. It names no user and no host.";

/// Arguments of `selftest`.
#[derive(Args, Debug)]
#[command(after_help = SELFTEST_NOTES)]
pub struct SelftestArgs {
    /// The source to test: perf or soft.
    #[arg(long, value_name = "SOURCE", default_value = "auto")]
    pub backend: Backend,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write all results to a file, as a report to send; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub report: Option<PathBuf>,
}

/// Arguments of `reverse`.
#[derive(Args, Debug)]
pub struct ReverseArgs {
    /// Sweep a simulated machine, as in `sim:apple-m1`, instead of this one.
    #[arg(long, value_name = "sim:ID")]
    pub machine: Option<String>,
    /// The source that places codes on counters of this machine: msr and sysreg choose the counters, perf
    /// (the default) lets the kernel choose.
    #[arg(long, value_name = "SOURCE", default_value = "auto", conflicts_with = "machine")]
    pub backend: Backend,
    /// The CPU that the kernels run on; if left out, the last one.
    #[arg(short = 'C', long, value_name = "CPU", conflicts_with = "machine")]
    pub cpu: Option<u32>,
    /// Other meanings for its events, which the sweep is to find out: a file in the semantics format.
    #[arg(long, value_name = "FILE", requires = "machine")]
    pub semantics: Option<PathBuf>,
    /// The codes to sweep, as in `0x00-0xff,0x1cd`: select, with the unit mask from bit 8 on where there is
    /// one. If left out, all of a chip with selects of 8 bits; on x86-64 each select without a unit mask and
    /// with each bit of it.
    #[arg(long, value_name = "CODES")]
    pub ids: Option<String>,
    /// Codes that are never programmed, one code or range a line; # begins a comment.
    #[arg(long, value_name = "FILE")]
    pub deny: Option<PathBuf>,
    /// Check labels instead: does each event count what its label says? Labels or codes of the table; if left
    /// out, all of them.
    #[arg(long, value_name = "EVENT", num_args = 0.., value_delimiter = ',', conflicts_with = "ids")]
    pub check: Option<Vec<String>>,
    /// The labels to check: a table that is part of this program, as in `seed-000`, or a file of claims. If
    /// left out, those of the vendor.
    #[arg(long, value_name = "NAME|FILE", requires = "check")]
    pub table: Option<PathBuf>,
    /// How often each kernel is counted at each of its four sizes, at most 1000 times.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(SweepSettings::MOST_REPEATS)))]
    pub repeats: u32,
    /// The iterations of the smallest size of each kernel; if left out, 16381 on a simulated machine, and
    /// 1021 on a real one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SweepSettings::MOST_ITERATIONS))]
    pub iterations: Option<u64>,
    /// Seed of the order of the sweep, and of the random choices of a simulated machine.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Write each finished code to a new file, from which --resume continues.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "resume"])]
    pub journal: Option<PathBuf>,
    /// Continue the sweep of a journal, with its codes, repeats, iterations and seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "ids", "repeats", "iterations", "seed"])]
    pub resume: Option<PathBuf>,
    /// End with an error when placing a code or running a kernel takes longer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    pub step_limit: u64,
    /// Find codes that count about once in each run of this kernel and not in that of --control: a file of
    /// assembly with the function `kernel` (FILE.s), or the name of a kernel of this program.
    #[arg(long, value_name = "FILE.s|NAME", requires = "control", conflicts_with_all = OF_INFERENCE)]
    pub kernel: Option<PathBuf>,
    /// The same work without the wanted event.
    #[arg(long, value_name = "FILE.s|NAME", requires = "kernel")]
    pub control: Option<PathBuf>,
    /// A file with `#define TEST_TIME N` (runs of each kernel, 1000000 if left out) and `#define DEVIATION N`
    /// (by how many events counts may differ, 10000 if left out).
    #[arg(long, value_name = "FILE", requires = "kernel")]
    pub config: Option<PathBuf>,
    /// How codes are judged; `threshold` needs --kernel and --control, which imply it.
    #[arg(long, value_name = "METHOD")]
    pub method: Option<ReverseMethod>,
    /// Write the identified events to a file that `stat --events` reads; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub export_events: Option<PathBuf>,
    /// Write a page with the verdicts and the slopes of each event that a sum explains; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dry_run", "check"])]
    pub html: Option<PathBuf>,
    /// Say what would be swept, and sweep nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Options of `reverse` that a search by a threshold does not have.
const OF_INFERENCE: [&str; 9] =
    ["check", "repeats", "iterations", "seed", "journal", "resume", "export_events", "html", "json"];

/// How `reverse` judges codes.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReverseMethod {
    /// By the sums of concepts that explain every kernel of this program.
    Inference,
    /// By one count during a kernel, and one during its control.
    Threshold,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write the facts about this machine to a file, for a bug report; - is standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "machine")]
    pub record: Option<PathBuf>,
    /// Diagnose the machine of a file made by --record, or a simulated one, as in `sim:skylake`, instead of
    /// this one.
    #[arg(long, value_name = "FILE|sim:ID")]
    pub machine: Option<PathBuf>,
    /// Restore counter registers of this machine that a killed process left changed.
    #[arg(long, conflicts_with_all = ["json", "record", "machine"])]
    pub restore: bool,
}

/// Arguments of commands that look at a machine.
#[derive(Args, Debug)]
pub struct MachineArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The machine of a file made by `doctor --record`, or a simulated one, as in `sim:skylake`, instead of
    /// this one.
    #[arg(long, value_name = "FILE|sim:ID")]
    pub machine: Option<PathBuf>,
}

/// Arguments of `list`.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("place").args(["cpu", "everywhere", "cpus", "machine"])),
    group(ArgGroup::new("of_cpu").args(["cpu", "tables"]).multiple(true)),
)]
pub struct ListArgs {
    /// Words of a name or description, a pattern with * and ?, or /a regular expression/ (of a CPU's events);
    /// case does not matter.
    pub pattern: Option<String>,
    /// List metrics instead of events; a pattern may also be that of a group.
    #[arg(long, conflicts_with_all = ["everywhere", "cpus", "counter", "fixed", "deprecated", "classes"])]
    pub metrics: bool,
    /// A CPU of the catalogue instead of this machine, as in `skylake` or `alderlake/atom`.
    #[arg(long, value_name = "ID")]
    pub cpu: Option<String>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. It may be of
    /// a CPU that the catalogue lacks. Without --cpu it is for the CPU that it names, or for this machine.
    /// Can be repeated.
    #[arg(long = "events", value_name = "FILE", conflicts_with_all = ["everywhere", "cpus", "metrics"])]
    pub tables: Vec<PathBuf>,
    /// Search the events of all CPUs of the catalogue.
    #[arg(long, requires = "pattern")]
    pub everywhere: bool,
    /// List the CPUs of the catalogue instead of events; a pattern is a part of their ids or names.
    #[arg(long)]
    pub cpus: bool,
    /// With --cpu: events that may use this counter, as in `7` or `fixed1`.
    #[arg(long, value_name = "N", requires = "of_cpu", value_parser = counter)]
    pub counter: Option<CounterId>,
    /// With --cpu: events that have a fixed counter.
    #[arg(long, requires = "of_cpu")]
    pub fixed: bool,
    /// With --cpu: events that the vendor has deprecated.
    #[arg(long, requires = "of_cpu")]
    pub deprecated: bool,
    /// With --cpu: for each set of counters, the number of events that may use it, instead of the events.
    #[arg(long, requires = "of_cpu", conflicts_with = "json")]
    pub classes: bool,
    /// How to print, and which machine.
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Arguments of `encode`.
#[derive(Args, Debug)]
pub struct EncodeArgs {
    /// Events by any spelling: a vendor's, perf's or libpfm4's name, a portable name, `cpu/event=…/`, `r1c5`.
    #[arg(value_name = "EVENT")]
    pub events: Vec<String>,
    /// The CPU, as `list --cpus` names it; a hybrid alone means all of its core types. Without it, this
    /// machine.
    #[arg(long, value_name = "ID")]
    pub cpu: Option<String>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. It may be of
    /// a CPU that the catalogue lacks. Without --cpu it is for the CPU that it names, or for this machine.
    /// Can be repeated.
    #[arg(long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// Every event of the CPU.
    #[arg(long, conflicts_with = "events")]
    pub all: bool,
    /// The counter that registers are for, as in `2` or `fixed1`; without it, the first that may count the
    /// event.
    #[arg(long, value_name = "N", value_parser = counter)]
    pub counter: Option<CounterId>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `decode`.
#[derive(Args, Debug)]
pub struct DecodeArgs {
    /// REGISTER=VALUE, a code, or CODE='the event that it should count'.
    #[arg(value_name = "VALUE", required = true)]
    pub values: Vec<String>,
    /// The CPU, as `list --cpus` names it. Without it, this machine.
    #[arg(long, value_name = "ID")]
    pub cpu: Option<String>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. It may be of
    /// a CPU that the catalogue lacks. Without --cpu it is for the CPU that it names, or for this machine.
    /// Can be repeated.
    #[arg(long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// The event that the value should count: warns if it counts another one.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `registers`.
#[derive(Args, Debug)]
pub struct RegistersArgs {
    /// Registers by name or address, as in `PERFEVTSEL0`, `0x38f`, `PMESR0`, `S3_1_C15_C5_0`; without any,
    /// all of them.
    #[arg(value_name = "REGISTER")]
    pub registers: Vec<String>,
    /// The CPU, as `list --cpus` names it; a hybrid alone means all of its core types. Without it, this
    /// machine.
    #[arg(long, value_name = "ID")]
    pub cpu: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// Events; can be repeated. `{a,b}` are counted in one pass, `event@counter` on that counter, and `all`
    /// stands for every event of the CPU.
    #[arg(short, long = "event", value_name = "EVENTS", required = true)]
    pub events: Vec<String>,
    /// The CPU, as `list --cpus` names it. Without it, this machine.
    #[arg(long, value_name = "ID")]
    pub cpu: Option<String>,
    /// The machine of a file made by `doctor --record`, or a simulated one, as in `sim:skylake`, instead of
    /// this one.
    #[arg(long, value_name = "FILE|sim:ID", conflicts_with_all = ["cpu", "tables"])]
    pub machine: Option<PathBuf>,
    /// A table of events that is searched before the catalogue, in any format that `stat` takes. It may be of
    /// a CPU that the catalogue lacks. Without --cpu it is for the CPU that it names, or for this machine.
    /// Can be repeated.
    #[arg(long = "events", value_name = "FILE")]
    pub tables: Vec<PathBuf>,
    /// Counters that are in use by others, such as 5-7 or fixed1; can be repeated.
    #[arg(long, value_name = "COUNTERS", value_delimiter = ',', value_parser = counters)]
    pub without: Vec<CounterMask>,
    /// Use free counters of a pass to count events of other passes again.
    #[arg(long)]
    pub repeat: bool,
    /// Explain the counter assignment of each event, and every conflict.
    #[arg(long)]
    pub explain: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The notes at the end of `convert --help` and of its manual page.
const CONVERT_NOTES: &str = "\
A missing number is empty or null, and never 0. A recording that ends early is converted as far as it goes, with a \
warning. A damaged one is converted up to the damage, and the exit status is 125.";

/// Arguments of `run`.
#[derive(Args, Debug)]
#[command(after_help = RUN_NOTES)]
pub struct RunArgs {
    /// The events that regions may ask for; all of the software PMU if none are named. Without loads, stores,
    /// their bytes and iterations some programs run faster.
    #[arg(short, long = "event", value_name = "EVENTS")]
    pub events: Vec<String>,
    /// Neither use nor write the execution profiles and translations of the software PMU.
    #[arg(long)]
    pub no_hints: bool,
    /// The program and its arguments; never passed through a shell.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// The notes of `run --help` below the options.
const RUN_NOTES: &str = "\
Where there is a PMU, the program runs natively: its monitors read the PMU. Where there is none, the software PMU runs \
the program and everything that it starts, and its monitors get exact counts of it. Nothing is printed beside the \
program's own output; `stat -e EVENTS -- PROGRAM` also counts the program as a whole.

Exit status: that of the program; 125 cyclometer failed; 126 the program cannot be executed; 127 it does not exist.";

/// Arguments of `convert`.
#[derive(Args, Debug)]
#[command(after_help = CONVERT_NOTES)]
pub struct ConvertArgs {
    /// The recording; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The format to convert to.
    #[arg(long, value_name = "FORMAT")]
    pub to: ConvertFormat,
    /// The file to write; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// Formats that recordings are converted to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ConvertFormat {
    /// A row for each window, with four columns for each event: value, state (count), half width of the
    /// interval, reason.
    Csv,
    /// A JSON object for each window, on a line of its own.
    Jsonl,
    /// Stacks for flame graphs (inferno, speedscope), weighted by the event at which windows end.
    Folded,
    /// A profile for https://profiler.firefox.com, with a sample and the counters of each window.
    Firefox,
    /// The columns of csv as an Apache Parquet file; only in programs that are built with the feature
    /// parquet.
    Parquet,
}

impl From<ConvertFormat> for RecordingFormat {
    fn from(format: ConvertFormat) -> RecordingFormat {
        match format {
            ConvertFormat::Csv => RecordingFormat::Csv,
            ConvertFormat::Jsonl => RecordingFormat::Jsonl,
            ConvertFormat::Folded => RecordingFormat::Folded,
            ConvertFormat::Firefox => RecordingFormat::Firefox,
            ConvertFormat::Parquet => RecordingFormat::Parquet,
        }
    }
}

/// The notes at the end of `plot --help` and of its manual page.
const PLOT_NOTES: &str = "\
Without -o the picture is drawn on the terminal, or 80 columns wide in a pipe. The page (.html) needs no network: drag, \
turn the wheel or press + and - to zoom, 0 or a double click to see everything. A missing value is a gap, and never 0.";

/// Arguments of `plot`.
#[derive(Args, Debug)]
#[command(after_help = PLOT_NOTES)]
pub struct PlotArgs {
    /// The recording; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The picture to write: F.svg or F.html.
    #[arg(short, long, value_name = "F")]
    pub output: Option<PathBuf>,
    /// The horizontal axis; by default instructions if windows end after so many events, and else time.
    #[arg(long, value_name = "AXIS")]
    pub over: Option<PlotAxis>,
    /// Draw this thread alone; by default the busiest four.
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,
}

/// Horizontal axes of pictures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlotAxis {
    /// Instructions, for each thread from its first window on.
    Instructions,
    /// Time since the recording began, the same for all threads.
    Time,
}

/// Arguments of `phases`.
#[derive(Args, Debug)]
pub struct PhasesArgs {
    /// The recording; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Show this thread alone; by default the busiest four, and all of them in JSON.
    #[arg(long, value_name = "TID")]
    pub thread: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// One counter, or a range of them.
fn counters(text: &str) -> Result<CounterMask, String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) =
        (counter(first)?, if last == text { counter(text)? } else { counter_like(first, last)? });
    let (from, to) = (number_of(first), number_of(last));
    if from > to {
        return Err(format!("the range {text} is empty: the smaller number goes first"));
    }
    let is_fixed = matches!(first, CounterId::Fixed(_));
    Ok((from..=to).map(|n| if is_fixed { CounterId::Fixed(n) } else { CounterId::General(n) }).collect())
}

/// The end of a range: a bare number is one of the kind of its beginning.
fn counter_like(first: &str, last: &str) -> Result<CounterId, String> {
    match (first.starts_with("fixed"), last.starts_with("fixed")) {
        (true, false) => counter(&format!("fixed{last}")),
        (false, true) => Err("a range is of general counters, or of fixed ones".to_owned()),
        _ => counter(last),
    }
}

fn number_of(counter: CounterId) -> u8 {
    match counter {
        CounterId::General(n) | CounterId::Fixed(n) => n,
    }
}

fn counter(text: &str) -> Result<CounterId, String> {
    let (digits, fixed) = match text.strip_prefix("fixed") {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    match digits.parse::<u8>() {
        Ok(n) if n < 64 => Ok(if fixed { CounterId::Fixed(n) } else { CounterId::General(n) }),
        _ => Err("a counter is a number from 0 to 63, or fixed0 to fixed63".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn stat(words: &[&str]) -> Result<StatArgs, clap::Error> {
        let words = ["cyclometer", "stat"].iter().chain(words);
        match Cli::try_parse_from(words)?.command {
            CliCommand::Stat(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn everything_behind_the_command_belongs_to_it() {
        let args = stat(&["-r", "3", "--", "gzip", "-kc", "--", "-r"]).unwrap();
        assert_eq!(args.runs, 3);
        assert_eq!(args.command, ["gzip", "-kc", "--", "-r"]);
        assert_eq!(stat(&["sleep", "-r"]).unwrap().command, ["sleep", "-r"]);
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        for words in [
            &["-r", "0", "true"][..],
            &["-I", "0", "true"],
            &["-p", "0"],
            &["-p", "1", "-a"],
            &["-C", "3-1"],
            &["-C", ""],
            &["--backend", "magic", "true"],
            &["--counted", "0", "true"],
            &["--multiplex", "--no-multiplex", "true"],
            &["--counted", "some", "true"],
            &["--json", "--export-json", "x", "true"],
            &["-m", "-p", "1"],
            &["-m", "-a", "true"],
            &["-m", "-C", "0", "true"],
            &["-m", "-G", "x", "true"],
            &["-m", "-t", "1"],
            &["-m", "--machine", "sim:apple-m1"],
        ] {
            assert!(stat(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn counted_runs_are_a_number_or_all() {
        assert_eq!(stat(&["true"]).unwrap().counted, None);
        assert_eq!(stat(&["--counted", "3", "true"]).unwrap().counted, Some(Counted::Runs(3)));
        assert_eq!(stat(&["--counted", "all", "true"]).unwrap().counted, Some(Counted::All));
    }

    #[test]
    fn repeated_metrics_are_kept_in_order() {
        assert_eq!(
            stat(&["-M", "ipc,cpi", "--metrics", "Summary", "true"]).unwrap().metrics,
            ["ipc,cpi", "Summary"]
        );
    }

    #[test]
    fn files_of_events_are_no_events() {
        let args = stat(&["--events", "a.json", "-e", "a", "--events", "cpu_atom=b", "true"]).unwrap();
        assert_eq!(args.tables, [PathBuf::from("a.json"), PathBuf::from("cpu_atom=b")]);
        assert_eq!(args.events, ["a"]);
    }

    #[test]
    fn repeated_events_are_kept_in_order() {
        assert_eq!(stat(&["-e", "a,b", "-e", "c", "true"]).unwrap().events, ["a,b", "c"]);
    }
}
