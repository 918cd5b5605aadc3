//! The arguments of the tools, and their bounds.

use rmcp::schemars::{self, JsonSchema};
use serde::Deserialize;

use crate::allowed::clean;

/// The most events or metrics of a call.
const MOST_NAMES: usize = 64;

/// The longest name of an event or metric, in bytes.
const LONGEST_NAME: usize = 256;

/// The most arguments of a program.
const MOST_ARGUMENTS: usize = 1024;

/// The most bytes of all arguments of a program.
const MOST_ARGUMENT_BYTES: usize = 64 << 10;

/// A program to run, in `measure` and others.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProgramParams {
    /// Path of the program, absolute or relative to the working directory; not looked up in PATH. It has to
    /// lie below a folder that the server allows.
    pub program: String,
    /// Its arguments, passed as they are. No shell reads them.
    #[serde(default)]
    pub arguments: Vec<String>,
}

/// The arguments of `measure`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct MeasureParams {
    /// Path of the program, absolute or relative to the working directory; not looked up in PATH. It has to
    /// lie below a folder that the server allows.
    pub program: String,
    /// Its arguments, passed as they are. No shell reads them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Folder to run it in, absolute or relative to the first allowed folder, which is the default.
    pub working_directory: Option<String>,
    /// Events to count, as in ["instructions", "branches", "loads"]. Where there is no PMU, events named here
    /// are counted exactly by the software PMU. Without any, the default events of the machine.
    #[serde(default)]
    pub events: Vec<String>,
    /// Metrics to compute, as in ["ipc"].
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Number of runs of the program; 1 by default.
    #[schemars(range(min = 1, max = 100))]
    pub runs: Option<u32>,
    /// Number of runs before that, without counting.
    #[schemars(range(min = 0, max = 20))]
    pub warmup: Option<u32>,
    /// Where counts come from: auto (default), perf (the hardware), soft (the software PMU: exact and
    /// repeatable) or os (times, faults, memory).
    pub source: Option<CountSource>,
    /// Stop after this many seconds; at most the limit of the server, which is the default.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<u64>,
}

/// Where counts come from.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are those of the sources")]
pub enum CountSource {
    Auto,
    Perf,
    Soft,
    Os,
}

impl CountSource {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            CountSource::Auto => "auto",
            CountSource::Perf => "perf",
            CountSource::Soft => "soft",
            CountSource::Os => "os",
        }
    }
}

/// The arguments of `profile_by_function`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ProfileParams {
    /// Path of the program, absolute or relative to the working directory; not looked up in PATH. It has to
    /// lie below a folder that the server allows.
    pub program: String,
    /// Its arguments, passed as they are. No shell reads them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Folder to run it in, absolute or relative to the first allowed folder, which is the default.
    pub working_directory: Option<String>,
    /// Events of the software PMU to count; instructions by default.
    #[serde(default)]
    pub events: Vec<String>,
    /// Rows are functions (default), lines of source code (needs debug information) or objects (files of
    /// code).
    pub by: Option<ProfileRows>,
    /// Number of rows in the result, the largest first; 20 by default. The rest is added up.
    #[schemars(range(min = 1, max = 200))]
    pub top: Option<u32>,
    /// Stop after this many seconds; at most the limit of the server, which is the default.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<u64>,
}

/// The rows of a profile.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names are those of the command line")]
pub enum ProfileRows {
    Function,
    Line,
    Object,
}

impl ProfileRows {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProfileRows::Function => "function",
            ProfileRows::Line => "line",
            ProfileRows::Object => "object",
        }
    }
}

/// The arguments of `compare`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct CompareParams {
    /// Two to eight programs; the others are compared with the first.
    #[schemars(length(min = 2, max = 8))]
    pub commands: Vec<ProgramParams>,
    /// Folder to run them in, absolute or relative to the first allowed folder, which is the default.
    pub working_directory: Option<String>,
    /// Events to count, as in ["instructions", "branches"]. Without any, the default events of the machine.
    #[serde(default)]
    pub events: Vec<String>,
    /// Metrics to compute, as in ["ipc"].
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Number of runs of each program, in pairs of random order. Exact counts need few, times 20 and more.
    #[schemars(range(min = 1, max = 100))]
    pub pairs: Option<u32>,
    /// Also show which functions execute more or less. Then all events are those of the software PMU.
    #[serde(default)]
    pub by_function: bool,
    /// Number of functions in the result, the greatest changes first; 20 by default. Needs by_function.
    #[schemars(range(min = 1, max = 200))]
    pub top: Option<u32>,
    /// Stop after this many seconds; at most the limit of the server, which is the default.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<u64>,
}

/// The arguments of `plan`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct PlanParams {
    /// Events, as in ["cycles", "L1D_CACHE_REFILL"].
    #[schemars(length(min = 1, max = 64))]
    pub events: Vec<String>,
    /// A CPU of the catalogue, as in "skylake" or "apple-m1"; this machine by default.
    pub cpu: Option<String>,
}

/// The arguments of `list_events`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Words of a name or description, or a pattern with * and ?; case does not matter.
    pub pattern: Option<String>,
    /// A CPU of the catalogue, as in "skylake" or "apple-m1"; this machine by default.
    pub cpu: Option<String>,
    /// List metrics instead of events.
    #[serde(default)]
    pub metrics: bool,
    /// The most entries of the result; 50 by default.
    #[schemars(range(min = 1, max = 500))]
    pub limit: Option<u32>,
}

/// The arguments of `explain_event`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct ExplainParams {
    /// Name of the event, in any spelling of the vendor, the kernel or the portable names.
    pub event: String,
    /// A CPU of the catalogue, as in "skylake" or "apple-m1"; this machine by default.
    pub cpu: Option<String>,
}

/// The arguments of `advise`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct AdviseParams {
    /// Path of the program, absolute or relative to the working directory; not looked up in PATH. It has to
    /// lie below a folder that the server allows.
    pub program: String,
    /// Its arguments, passed as they are. No shell reads them.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Folder to run it in, absolute or relative to the first allowed folder, which is the default.
    pub working_directory: Option<String>,
    /// Stop after this many seconds; at most the limit of the server, which is the default.
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<u64>,
}

/// The arguments of `doctor`.
#[derive(Deserialize, JsonSchema, Clone, Debug)]
#[serde(deny_unknown_fields)]
pub struct DoctorParams {}

/// A number within its bounds, or its default.
///
/// # Errors
///
/// The bounds, in words.
pub fn number(name: &str, asked: Option<u32>, usual: u32, bounds: (u32, u32)) -> Result<u32, String> {
    let (least, most) = bounds;
    match asked.unwrap_or(usual) {
        n if (least..=most).contains(&n) => Ok(n),
        n => Err(format!("{name} is a number from {least} to {most}, and not {n}")),
    }
}

/// Checks the names of events or metrics: no name can be taken for an option or a path.
///
/// # Errors
///
/// The name and its fault.
pub fn check_names(what: &str, names: &[String]) -> Result<(), String> {
    if names.len() > MOST_NAMES {
        return Err(format!("{} {what}s are too many: at most {MOST_NAMES} in a call", names.len()));
    }
    names.iter().try_for_each(|name| check_name(what, name))
}

/// Checks one name or pattern.
///
/// # Errors
///
/// The name and its fault.
pub fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fail = |why: &str| Err(format!("the {what} '{}' is refused: {why}", clean(name)));
    match name {
        _ if name.trim().is_empty() => fail("it is empty"),
        _ if name.trim_start().starts_with('-') => fail("a name does not begin with -"),
        _ if name.len() > LONGEST_NAME => fail("it is too long"),
        _ if name.contains("..") => fail("a name has no .."),
        _ if name.chars().any(char::is_control) => fail("it has control characters"),
        _ => Ok(()),
    }
}

/// Checks the id of a CPU: letters, digits, and what stands between them.
///
/// # Errors
///
/// The id and its fault.
pub fn check_cpu(id: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '.');
    match check_name("CPU", id) {
        Ok(()) if !id.chars().all(fits) => {
            Err(format!("the CPU '{}' is refused: an id is written as skylake or alderlake/core", clean(id)))
        }
        other => other,
    }
}

/// Checks the arguments of a program.
///
/// # Errors
///
/// The fault, in words.
pub fn check_arguments(arguments: &[String]) -> Result<(), String> {
    let bytes: usize = arguments.iter().map(String::len).sum();
    if arguments.len() > MOST_ARGUMENTS || bytes > MOST_ARGUMENT_BYTES {
        return Err(format!(
            "the arguments are too many: at most {MOST_ARGUMENTS}, and {} KiB together",
            MOST_ARGUMENT_BYTES >> 10
        ));
    }
    match arguments.iter().any(|argument| argument.contains('\0')) {
        true => Err("an argument cannot have a zero byte".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_an_option_or_a_path() {
        for name in ["instructions:u", "cpu/event=0xc5,umask=1/", "{a,b}", "r1c5", "a@3", "branch misses"] {
            assert_eq!(check_name("event", name), Ok(()), "{name}");
        }
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in ["-e", " --json", "--", "", "  ", "a\nb", "a\0", "../x/", &long] {
            assert!(check_name("event", name).is_err(), "{name}");
        }
        assert!(check_names("event", &vec!["a".to_owned(); MOST_NAMES + 1]).is_err());
    }

    #[test]
    fn a_cpu_is_an_id_of_the_catalogue() {
        assert_eq!(check_cpu("alderlake/core"), Ok(()));
        for id in ["-x", "sim:skylake", "/etc/../x", "a b", ""] {
            assert!(check_cpu(id).is_err(), "{id}");
        }
    }

    #[test]
    fn numbers_and_arguments_are_bounded() {
        assert_eq!(number("runs", None, 1, (1, 100)), Ok(1));
        assert_eq!(number("runs", Some(100), 1, (1, 100)), Ok(100));
        assert!(number("runs", Some(0), 1, (1, 100)).unwrap_err().contains("from 1 to 100"));
        assert_eq!(check_arguments(&["--json".to_owned(), String::new()]), Ok(()));
        assert!(check_arguments(&["a\0b".to_owned()]).is_err());
        assert!(check_arguments(&vec![String::new(); MOST_ARGUMENTS + 1]).is_err());
        assert!(check_arguments(&["x".repeat(MOST_ARGUMENT_BYTES + 1)]).is_err());
    }
}
