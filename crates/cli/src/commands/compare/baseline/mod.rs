//! Baselines: results of another time, of ours or of other programs.

mod code;
mod foreign;
mod own;
mod perf;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use cyclometer_toolkit::core::CpuBaseline;
use cyclometer_toolkit::stats::Failures;
use cyclometer_toolkit::stats::compare::Series;
use cyclometer_toolkit::symbols::{CodeSeries, Grouping};
use cyclometer_toolkit::{Error, ErrorKind, Machine, OutputStream, Recovery, Result};
use serde_json::Value;

use super::args::CompareArgs;
use crate::failure::{FileUse, of_file};
use crate::output::{clean, clean_os};
use crate::render::compare::json::FINGERPRINT;
use crate::render::machine;

/// Longest file that is read, in bytes.
pub const MAX_BYTES: u64 = 64 << 20;

/// Results of another time.
#[derive(Clone, PartialEq, Debug)]
pub struct Baseline {
    /// The file as it is shown.
    pub file: String,
    /// The command that they are of.
    pub command: String,
    /// The metrics over runs.
    pub series: Vec<Series>,
    /// Its counts by code, if it has any.
    pub code: Option<CodeSeries>,
    /// How many of its runs failed, as far as the file says.
    pub failures: Failures,
    /// The destination of its standard output, if the file has it.
    stdout: Option<String>,
    /// The CPU baselines of the runs that the software PMU counted, each once; `None` stands for the real
    /// processor.
    processors: Vec<Option<String>>,
    /// Remarks on the baseline.
    pub notes: Vec<String>,
}

impl Baseline {
    /// Notes that its output led where ours does not: programs can do other work then.
    pub fn compare_output(&mut self, ours: &OutputStream) {
        let Some(theirs) = self.stdout.as_deref().filter(|theirs| *theirs != ours.word()) else { return };
        self.notes.push(format!(
            "standard output is '{}' here and was '{}' for the baseline: a program may do other work for it",
            ours.word(),
            theirs
        ));
    }

    /// Checks that it has counts by this kind of code, and those of inlined functions where they are shown.
    fn check_code(&self, wanted: Grouping, inlines: bool) -> Result<()> {
        let (file, wanted) = (&self.file, wanted.word());
        let message = match &self.code {
            Some(code) if code.grouping.word() == wanted && (code.has_inlined || !inlines) => return Ok(()),
            Some(code) if code.grouping.word() == wanted => {
                let message = format!("the baseline {file} has no counts of inlined functions");
                let help = "save it anew with --save-baseline FILE --by function --inlines, or leave --inlines \
                            out";
                let error = Error::new(ErrorKind::InvalidInput, message);
                return Err(error.with_recovery(Recovery::fix(help)));
            }
            Some(code) => {
                format!("the baseline {file} has counts by {}, not by {wanted}", code.grouping.word())
            }
            None => format!("the baseline {file} has no counts by {wanted}"),
        };
        let help = format!("save it anew with --save-baseline FILE --by {wanted}, or leave --by out");
        Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(help)))
    }

    /// Checks that its counted runs had the same CPU baseline as ours will have: libraries select other code
    /// for another processor.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` naming both.
    pub fn check_processor(&self, ours: Option<CpuBaseline>) -> Result<()> {
        let ours = ours.map(CpuBaseline::word);
        let Some(theirs) = self.processors.iter().find(|theirs| theirs.as_deref() != ours) else {
            return Ok(());
        };
        let option = |name: Option<&str>| {
            name.map_or_else(
                || "without --cpu-baseline".to_owned(),
                |name| format!("with --cpu-baseline {name}"),
            )
        };
        let (theirs, ours) = (option(theirs.as_deref()), option(ours));
        let file = &self.file;
        let message = format!("the baseline {file} was counted {}, this is {ours}", clean(&theirs));
        let help = format!("count this {} too, or save the baseline anew {ours}", clean(&theirs));
        Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(help)))
    }
}

/// The contents of a file.
#[derive(Clone, PartialEq, Debug, Default)]
struct Contents {
    /// Every command.
    commands: Vec<RecordedCommand>,
    /// The machine, as far as the file describes it.
    machine: Option<Value>,
    /// As [`Baseline::processors`].
    processors: Vec<Option<String>>,
    notes: Vec<String>,
}

/// A command as it is recorded in a file.
#[derive(Clone, PartialEq, Debug, Default)]
struct RecordedCommand {
    command: String,
    /// Its metrics over runs.
    series: Vec<Series>,
    /// As [`Baseline::code`].
    code: Option<CodeSeries>,
    /// As [`Baseline::failures`].
    failures: Failures,
    /// As [`Baseline::stdout`].
    stdout: Option<String>,
}

/// Reads a baseline for the command `wanted`, and compares machines.
///
/// # Errors
///
/// `ErrorKind::Io` for a file that cannot be read. `ErrorKind::InvalidInput` for a file of no known format or
/// version, and for values that are no numbers. It is also the error for several commands none of which is
/// meant, and for another machine unless that is wanted.
pub fn read(path: &Path, args: &CompareArgs, wanted: &str, here: &Machine) -> Result<Baseline> {
    let file = clean_os(path.as_os_str());
    let text = text_of(path, &file)?;
    let contents = parse(&text).map_err(|problem| problem.about(&file))?;
    let mut notes = contents.notes;
    notes.extend(compare_machines(contents.machine.as_ref(), here, args.any_machine, &file)?);
    let chosen = choose(contents.commands, args.baseline_command.as_deref(), wanted, &file)?;
    let RecordedCommand { command, series, code, failures, stdout } = chosen;
    let processors = contents.processors;
    let code = code.map(|code| code::as_asked(code, args.inlines)).transpose();
    let code = code.map_err(|problem| problem.about(&file))?;
    let baseline = Baseline { file, command, series, code, failures, stdout, processors, notes };
    args.by.map_or(Ok(()), |grouping| baseline.check_code(grouping, args.inlines))?;
    Ok(baseline)
}

/// The worth of a file that a new baseline would replace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FormerBaseline {
    /// The metrics that it has values of, by name.
    pub counted: BTreeSet<String>,
    /// Whether runs of it failed.
    pub has_failures: bool,
    /// The kind of code that it has counts by, if any.
    pub by: Option<&'static str>,
    /// Whether inlined functions have counts of their own.
    pub has_inlined: bool,
}

impl FormerBaseline {
    /// Reads results in a known format; a text in no such format is worth nothing.
    pub fn read(text: &str) -> FormerBaseline {
        let commands = parse(text).map(|contents| contents.commands).unwrap_or_default();
        let has_failures = commands.iter().any(|recorded| recorded.failures.count() > 0);
        let by = commands.iter().find_map(|recorded| Some(recorded.code.as_ref()?.grouping.word()));
        let has_inlined = commands.iter().filter_map(|one| one.code.as_ref()).any(|code| code.has_inlined);
        let series = commands.into_iter().flat_map(|recorded| recorded.series);
        let counted = series.filter(|series| !series.present().is_empty()).map(|series| series.name);
        FormerBaseline { counted: counted.collect(), has_failures, by, has_inlined }
    }
}

fn text_of(path: &Path, file: &str) -> Result<String> {
    let failed = |error: std::io::Error| {
        let is_missing = error.kind() == std::io::ErrorKind::NotFound;
        let error = of_file("--baseline", FileUse::Read, path, error);
        let remedy = Recovery::fix("check the path, or make a baseline with --save-baseline FILE");
        if is_missing { error.with_recovery(remedy) } else { error }
    };
    let mut text = String::new();
    let source = File::open(path).map_err(failed)?;
    source.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        let message = format!("the baseline {file} is longer than {MAX_BYTES} bytes");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(text)
}

/// The result of reading a baseline.
type BaselineRead<T> = std::result::Result<T, BaselineProblem>;

/// The reason why a file cannot be used, with a remedy.
#[derive(Clone, PartialEq, Debug)]
struct BaselineProblem {
    text: String,
    help: String,
}

impl BaselineProblem {
    fn new(text: impl Into<String>, help: &str) -> BaselineProblem {
        BaselineProblem { text: text.into(), help: help.to_owned() }
    }

    fn about(self, file: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("the baseline {file}: {}", clean(&self.text)))
            .with_recovery(Recovery::fix(self.help))
    }
}

/// The remedy for a file that cannot be parsed.
const SAVE_ANEW: &str = "save it anew with --save-baseline FILE";

fn parse(text: &str) -> BaselineRead<Contents> {
    let whole = match serde_json::from_str::<Value>(text) {
        Ok(whole) => whole,
        // perf writes an object in each line, below comments.
        Err(error) => return perf::lines(text).unwrap_or_else(|| Err(not_json(text, &error))),
    };
    let version = whole.get("schema_version");
    if whole.get("commands").is_some() {
        return own::read(&whole, version);
    }
    match version.and_then(Value::as_u64) {
        Some(2) if whole.get("results").is_some() => foreign::hyperfine_2(&whole),
        Some(version) => {
            let text = format!("its schema_version {version} belongs to no format that is known here");
            Err(BaselineProblem::new(text, SAVE_ANEW))
        }
        None => foreign::without_version(&whole),
    }
}

fn not_json(text: &str, error: &serde_json::Error) -> BaselineProblem {
    let has_nan = ["NaN", "Infinity"].iter().find(|word| text.contains(**word));
    match has_nan {
        Some(word) => BaselineProblem::new(
            format!("line {}: {word} is no number, and no JSON", error.line()),
            "a value that was not measured is null; have the file written anew",
        ),
        None => BaselineProblem::new(format!("it is not JSON: {error}"), SAVE_ANEW),
    }
}

/// A text that an object of the file must have.
fn text(value: &Value, key: &str) -> BaselineRead<String> {
    let found = value.get(key).and_then(Value::as_str).map(str::to_owned);
    found.ok_or_else(|| BaselineProblem::new(format!("there is no text '{key}'"), SAVE_ANEW))
}

/// A number that a file says was measured: a time or a count, of which none is below zero.
fn not_below_zero(value: &Value, what: &str) -> Parsed {
    let found = number(value, what)?;
    match found.filter(|number| *number < 0.0) {
        Some(below) => Err(BaselineProblem::new(
            format!("{what} is {below}, and nothing measured is below zero"),
            SAVE_ANEW,
        )),
        None => Ok(found),
    }
}

/// A value in a file; `None` if nothing was measured.
type Parsed = BaselineRead<Option<f64>>;

/// A number of a file; an error names any other value.
fn number(value: &Value, what: &str) -> Parsed {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => Ok(number.as_f64().filter(|number| number.is_finite())),
        other => {
            let text = format!("{what} is {other}, which is no number");
            Err(BaselineProblem::new(
                text,
                "a value that was not measured is null; have the file written anew",
            ))
        }
    }
}

fn compare_machines(there: Option<&Value>, here: &Machine, any: bool, file: &str) -> Result<Option<String>> {
    let Some(there) = there else {
        return Ok(Some(
            "the baseline says nothing of its machine: make sure that it was this one".to_owned(),
        ));
    };
    let here = machine::json(here);
    // A key that the file lacks is not compared.
    let differs = |key: &&&str| there.get(**key).is_some_and(|value| *value != here[**key]);
    let different: Vec<String> = FINGERPRINT
        .iter()
        .filter(differs)
        .map(|key| format!("{key} {} there, {} here", shown(&there[*key]), shown(&here[*key])))
        .collect();
    if !different.is_empty() {
        let text = clean(&different.join("; "));
        if any {
            return Ok(Some(format!("the baseline is of another machine: {text}")));
        }
        let message = format!("the baseline {file} is of another machine: {text}");
        return Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(
            "save a baseline on this machine, or compare all the same with --any-machine",
        )));
    }
    let kernels = (there.get("kernel"), &here["kernel"]);
    Ok(match kernels {
        (Some(then), now) if then != now => {
            Some(format!("the kernel was {} then and is {} now", shown(then), shown(now)))
        }
        _ => None,
    })
}

fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The command that is meant: by name or number, the same as ours, or the only one.
fn choose(
    mut commands: Vec<RecordedCommand>,
    named: Option<&str>,
    wanted: &str,
    file: &str,
) -> Result<RecordedCommand> {
    let place = |name: &str| commands.iter().position(|recorded| recorded.command == name);
    let number = |name: &str| {
        name.parse::<usize>().ok().and_then(|n| n.checked_sub(1)).filter(|n| *n < commands.len())
    };
    let found = match named {
        Some(name) => place(name).or_else(|| number(name)),
        None if commands.len() == 1 => Some(0),
        None => place(wanted),
    };
    if let Some(found) = found {
        return Ok(commands.swap_remove(found));
    }
    let names: Vec<String> =
        commands.iter().map(|recorded| format!("'{}'", clean(&recorded.command))).collect();
    let problem = match (named, names.is_empty()) {
        (_, true) => "it has no command".to_owned(),
        (Some(name), _) => {
            format!("it has no command '{}'; its commands are {}", clean(name), names.join(", "))
        }
        (None, _) => format!("which of its commands is meant? {}", names.join(", ")),
    };
    Err(BaselineProblem::new(problem, "name one with --baseline-command, by its text or its number from 1")
        .about(file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::testing::vm_with_soft;
    use serde_json::json;

    fn recorded(command: &str) -> RecordedCommand {
        RecordedCommand { command: command.to_owned(), ..RecordedCommand::default() }
    }

    fn problem(text: &str) -> String {
        parse(text).unwrap_err().text
    }

    #[test]
    fn files_that_are_no_baseline_say_so() {
        for (text, part) in [
            ("", "it is not JSON"),
            ("{", "it is not JSON"),
            ("{}", "no format that is known"),
            ("[1]", "no format that is known"),
            (r#"{"schema_version": 7}"#, "schema_version 7"),
            (r#"{"results": [{"times": [NaN]}]}"#, "NaN is no number"),
            (r#"{"schema_version": 0, "commands": []}"#, "older version, 0"),
            (r#"{"schema_version": 99, "commands": []}"#, "newer version, 99"),
            (r#"{"commands": []}"#, "no schema_version"),
        ] {
            assert!(problem(text).contains(part), "{text}: {}", problem(text));
        }
    }

    #[test]
    fn output_that_led_to_another_place_is_told() {
        let notes = |theirs: Option<&str>, ours: OutputStream| {
            let mut baseline = Baseline {
                file: "f".to_owned(),
                command: "a".to_owned(),
                series: Vec::new(),
                code: None,
                failures: Failures::default(),
                stdout: theirs.map(str::to_owned),
                processors: Vec::new(),
                notes: Vec::new(),
            };
            baseline.compare_output(&ours);
            baseline.notes
        };
        assert_eq!(notes(Some("discard"), OutputStream::Discard), [""; 0]);
        assert_eq!(notes(None, OutputStream::Discard), [""; 0], "unknown is no difference");
        let told = notes(Some("null"), OutputStream::Discard).remove(0);
        assert!(told.starts_with("standard output is 'discard' here and was 'null'"), "{told}");
    }

    #[test]
    fn another_machine_is_refused_unless_wanted() {
        let here = vm_with_soft();
        let same = machine::json(&here);
        let check = |there: Option<&Value>, any| compare_machines(there, &here, any, "b.json");
        assert_eq!(check(Some(&same), false).unwrap(), None);
        let mut other = same.clone();
        other["cpu_name"] = json!("Another CPU");
        let refused = check(Some(&other), false).unwrap_err();
        assert!(refused.to_string().contains("cpu_name Another CPU there, Intel(R) Xeon(R)"), "{refused}");
        assert!(check(Some(&other), true).unwrap().unwrap().contains("another machine"));
        let mut kernel = same;
        kernel["kernel"] = json!("5.0");
        assert_eq!(
            check(Some(&kernel), false).unwrap().unwrap(),
            "the kernel was 5.0 then and is 6.12.1 now"
        );
        assert!(check(None, false).unwrap().unwrap().contains("says nothing of its machine"));
    }

    #[test]
    fn the_command_is_the_only_one_the_same_or_the_one_named() {
        let commands = || ["a", "b c", "2x"].map(recorded).to_vec();
        let chosen = |named, wanted| choose(commands(), named, wanted, "f").map(|recorded| recorded.command);
        assert_eq!(chosen(None, "b c").unwrap(), "b c");
        assert_eq!(chosen(Some("a"), "b c").unwrap(), "a");
        assert_eq!(chosen(Some("3"), "").unwrap(), "2x");
        assert!(chosen(None, "z").unwrap_err().to_string().contains("'a', 'b c', '2x'"));
        assert!(chosen(Some("9"), "a").unwrap_err().to_string().contains("no command '9'"));
        assert_eq!(choose(commands()[..1].to_vec(), None, "z", "f").unwrap().command, "a");
        assert!(choose(Vec::new(), None, "z", "f").unwrap_err().to_string().contains("it has no command"));
    }
}
