//! The arguments of `advise`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;

/// The notes of `advise --help` below the options.
const NOTES: &str = "\
The command is executed up to three times: natively with the kernel's accounting (and the PMU, where there is one), under the \
software PMU, and natively with windows of time in which caches, branches and threads are modelled. Its output is discarded \
unless --output says otherwise. Shares of time are estimates.

Exit status: 0 with and without findings; that of the command if it fails; 125 cyclometer failed; 126 the command cannot \
be executed; 127 the command does not exist; 128 + n signal n.";

/// Arguments of `advise`.
#[derive(Args, Debug)]
#[command(after_help = NOTES)]
pub struct AdviseArgs {
    /// Results to judge instead of running a command: JSON of `advise --json` or `stat --json`, or a file of
    /// `record`; - is standard input.
    #[arg(value_name = "FILE", conflicts_with_all = ["history", "command"])]
    pub file: Option<PathBuf>,
    /// Find the run that is unlike the others among the JSON files and recordings (.cyc) of a folder, and its
    /// counters.
    #[arg(long, value_name = "FOLDER", conflicts_with = "command")]
    pub history: Option<PathBuf>,
    /// The most executions of the command; fewer executions answer fewer questions.
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = RangedU64ValueParser::<usize>::new().range(1..=3))]
    pub runs: usize,
    /// The standard input of each run: a file, or null.
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// Where the command's standard output goes: inherit, null, pipe, or a file.
    #[arg(long, value_name = "WHERE")]
    pub output: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The command and its arguments; never passed through a shell.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
