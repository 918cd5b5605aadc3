//! From the arguments of a tool to the command line that does the work.
//!
//! Each option has its value in the same word (`--event=NAME`), and a program follows `--`, so that no
//! argument can be taken for an option.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use rmcp::model::JsonObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{EntryLimit, KeptEntries, RefusedCall, Task, ToolKind, neutral_folder};
use crate::allowed::{AllowedFolders, AllowedProgram, ProgramRefusal};
use crate::call::Invocation;
use crate::params::{
    AdviseParams, CompareParams, CountSource, DoctorParams, ExplainParams, ListParams, MeasureParams,
    PlanParams, ProfileParams, ProfileRows, check_arguments, check_cpu, check_name, check_names, number,
};

/// The rows of a profile, and the changes of a comparison by function, unless the call says otherwise.
const USUAL_ROWS: EntryLimit = EntryLimit { most: 20, argument: "top", greatest: 200 };

/// The entries of a list, unless the call says otherwise.
const USUAL_ENTRIES: EntryLimit = EntryLimit { most: 50, argument: "limit", greatest: 500 };

/// The most programs of a comparison.
const MOST_COMMANDS: usize = 8;

/// The rules that calls are prepared by.
#[derive(Clone, Debug)]
pub struct CallRules {
    /// The folders whose programs may be run.
    pub allowed: AllowedFolders,
    /// The longest time of a call.
    pub timeout: Duration,
}

impl From<ProgramRefusal> for RefusedCall {
    fn from(refusal: ProgramRefusal) -> RefusedCall {
        RefusedCall::Refused(refusal.0)
    }
}

/// Checks the arguments of a call and makes the command line of it.
///
/// # Errors
///
/// The fault of the arguments, or the rule that they break.
pub fn prepare(
    kind: ToolKind,
    arguments: Option<JsonObject>,
    rules: &CallRules,
) -> Result<Task, RefusedCall> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    match kind {
        ToolKind::Measure => measure(read(arguments)?, rules),
        ToolKind::Compare => compare(read(arguments)?, rules),
        ToolKind::ProfileByFunction => profile(read(arguments)?, rules),
        ToolKind::Advise => advise(read(arguments)?, rules),
        ToolKind::Plan => plan(&read(arguments)?, rules),
        ToolKind::ListEvents => list_events(&read(arguments)?, rules),
        ToolKind::ExplainEvent => explain_event(&read(arguments)?, rules),
        ToolKind::Doctor => {
            let DoctorParams {} = read(arguments)?;
            Ok(lookup(kind, vec!["doctor".into(), "--json".into()], KeptEntries::All, rules))
        }
    }
}

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, RefusedCall> {
    serde_json::from_value(arguments).map_err(|error| RefusedCall::Params(error.to_string()))
}

fn measure(params: MeasureParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    let runs = number("runs", params.runs, 1, (1, 100)).map_err(RefusedCall::Params)?;
    let warmup = number("warmup", params.warmup, 0, (0, 20)).map_err(RefusedCall::Params)?;
    let mut args = of_stat();
    args.push(format!("--runs={runs}").into());
    args.push(format!("--warmup={warmup}").into());
    args.push(format!("--backend={}", params.source.unwrap_or(CountSource::Auto).name()).into());
    add_names(&mut args, &params.events, &params.metrics)?;
    let run = NamedProgram { program: &params.program, arguments: &params.arguments };
    run_one(ToolKind::Measure, args, &run, params.working_directory.as_deref(), params.timeout_seconds, rules)
}

fn profile(params: ProfileParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    let kept = first(params.top, USUAL_ROWS)?;
    let mut args = of_stat();
    args.push(format!("--by={}", params.by.unwrap_or(ProfileRows::Function).name()).into());
    add_names(&mut args, &params.events, &[])?;
    let run = NamedProgram { program: &params.program, arguments: &params.arguments };
    let folder = params.working_directory.as_deref();
    let kind = ToolKind::ProfileByFunction;
    let task = run_one(kind, args, &run, folder, params.timeout_seconds, rules)?;
    Ok(Task { kept, ..task })
}

/// The words that `measure` and `profile_by_function` begin with: a program of one run reads nothing, and its
/// output is read and dropped.
fn of_stat() -> Vec<OsString> {
    ["stat", "--json", "--input=null", "--output=pipe"].map(OsString::from).to_vec()
}

fn advise(params: AdviseParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    let args = ["advise", "--json", "--input=null"].map(OsString::from).to_vec();
    let run = NamedProgram { program: &params.program, arguments: &params.arguments };
    run_one(ToolKind::Advise, args, &run, params.working_directory.as_deref(), params.timeout_seconds, rules)
}

fn compare(params: CompareParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    if !(2..=MOST_COMMANDS).contains(&params.commands.len()) {
        return Err(RefusedCall::Params(format!("commands has 2 to {MOST_COMMANDS} programs")));
    }
    let mut args = ["compare", "--export-json=-", "--quiet", "--input=null"].map(OsString::from).to_vec();
    if let Some(pairs) = params.pairs {
        let pairs = number("pairs", Some(pairs), 1, (1, 100)).map_err(RefusedCall::Params)?;
        args.push(format!("--pairs={pairs}").into());
    }
    if params.by_function {
        args.push("--by=function".into());
    }
    add_names(&mut args, &params.events, &params.metrics)?;
    // Commands are texts here, which the tool divides into words by the same rules. No text begins with -.
    let folder = rules.allowed.working_directory(params.working_directory.as_deref())?;
    for command in &params.commands {
        let run = NamedProgram { program: &command.program, arguments: &command.arguments };
        let words = run.words(&folder, rules)?;
        let words =
            words.iter().map(|word| word.to_str().ok_or_else(not_unicode)).collect::<Result<Vec<_>, _>>()?;
        args.push(shell_words::join(words).into());
    }
    let kept = match (params.top, params.by_function) {
        (Some(_), false) => return Err(RefusedCall::Params("top needs by_function".to_owned())),
        (top, _) => first(top, USUAL_ROWS)?,
    };
    let main = Invocation { args, folder, timeout: timeout(params.timeout_seconds, rules)? };
    Ok(Task { kind: ToolKind::Compare, main, encoding: None, kept })
}

fn not_unicode() -> RefusedCall {
    RefusedCall::Refused(
        "the path of the program is not UTF-8: rename it, or measure it with `measure`".to_owned(),
    )
}

/// A program and its arguments, as a call names them.
struct NamedProgram<'a> {
    program: &'a str,
    arguments: &'a [String],
}

impl NamedProgram<'_> {
    /// The program's path without links, and the arguments.
    fn words(&self, folder: &Path, rules: &CallRules) -> Result<Vec<OsString>, RefusedCall> {
        check_arguments(self.arguments).map_err(RefusedCall::Params)?;
        let program: AllowedProgram = rules.allowed.program(self.program, folder)?;
        let mut words = vec![program.path().as_os_str().to_owned()];
        words.extend(self.arguments.iter().map(OsString::from));
        Ok(words)
    }
}

fn run_one(
    kind: ToolKind,
    mut args: Vec<OsString>,
    run: &NamedProgram<'_>,
    folder: Option<&str>,
    seconds: Option<u64>,
    rules: &CallRules,
) -> Result<Task, RefusedCall> {
    let timeout = timeout(seconds, rules)?;
    let folder = rules.allowed.working_directory(folder)?;
    args.push("--".into());
    args.extend(run.words(&folder, rules)?);
    Ok(Task { kind, main: Invocation { args, folder, timeout }, encoding: None, kept: KeptEntries::All })
}

/// As many rows or entries as the call asks for, or the usual number.
fn first(asked: Option<u32>, usual: EntryLimit) -> Result<KeptEntries, RefusedCall> {
    let bounds = (1, usual.greatest);
    let most = number(usual.argument, asked, usual.most, bounds).map_err(RefusedCall::Params)?;
    Ok(KeptEntries::First(EntryLimit { most, ..usual }))
}

fn timeout(seconds: Option<u64>, rules: &CallRules) -> Result<Duration, RefusedCall> {
    match seconds.map(Duration::from_secs) {
        Some(Duration::ZERO) => Err(RefusedCall::Params("timeout_seconds is at least 1".to_owned())),
        Some(asked) => Ok(asked.min(rules.timeout)),
        None => Ok(rules.timeout),
    }
}

fn add_names(args: &mut Vec<OsString>, events: &[String], metrics: &[String]) -> Result<(), RefusedCall> {
    check_names("event", events).map_err(RefusedCall::Params)?;
    check_names("metric", metrics).map_err(RefusedCall::Params)?;
    args.extend(events.iter().map(|event| format!("--event={event}").into()));
    args.extend(metrics.iter().map(|metric| format!("--metrics={metric}").into()));
    Ok(())
}

fn plan(params: &PlanParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    let mut args = ["plan", "--json"].map(OsString::from).to_vec();
    add_cpu(&mut args, params.cpu.as_deref())?;
    if params.events.is_empty() {
        return Err(RefusedCall::Params("events names at least one event".to_owned()));
    }
    add_names(&mut args, &params.events, &[])?;
    Ok(lookup(ToolKind::Plan, args, KeptEntries::All, rules))
}

fn list_events(params: &ListParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    let kept = first(params.limit, USUAL_ENTRIES)?;
    let mut args = ["list", "--json"].map(OsString::from).to_vec();
    if params.metrics {
        args.push("--metrics".into());
    }
    add_cpu(&mut args, params.cpu.as_deref())?;
    if let Some(pattern) = &params.pattern {
        check_name("pattern", pattern).map_err(RefusedCall::Params)?;
        args.extend(["--".into(), pattern.into()]);
    }
    Ok(lookup(ToolKind::ListEvents, args, kept, rules))
}

fn explain_event(params: &ExplainParams, rules: &CallRules) -> Result<Task, RefusedCall> {
    check_name("event", &params.event).map_err(RefusedCall::Params)?;
    let event = without_modifiers(params.event.trim());
    let command = |subcommand: &str| -> Result<Vec<OsString>, RefusedCall> {
        let mut args = vec![subcommand.into(), "--json".into()];
        add_cpu(&mut args, params.cpu.as_deref())?;
        args.extend(["--".into(), event.into()]);
        Ok(args)
    };
    let task = lookup(ToolKind::ExplainEvent, command("list")?, KeptEntries::Event(event.to_owned()), rules);
    let encoding = Invocation { args: command("encode")?, ..task.main.clone() };
    Ok(Task { encoding: Some(encoding), ..task })
}

/// The name of an event without `:u` and the like.
fn without_modifiers(event: &str) -> &str {
    let is_modifier = |text: &str| !text.is_empty() && text.chars().all(|c| "ukhpGHDSeW".contains(c));
    match event.rsplit_once(':') {
        Some((name, modifiers)) if !name.is_empty() && is_modifier(modifiers) => name,
        _ => event,
    }
}

fn add_cpu(args: &mut Vec<OsString>, cpu: Option<&str>) -> Result<(), RefusedCall> {
    if let Some(cpu) = cpu {
        check_cpu(cpu).map_err(RefusedCall::Params)?;
        args.push(format!("--cpu={cpu}").into());
    }
    Ok(())
}

fn lookup(kind: ToolKind, args: Vec<OsString>, kept: KeptEntries, rules: &CallRules) -> Task {
    let main = Invocation { args, folder: neutral_folder(), timeout: rules.timeout };
    Task { kind, main, encoding: None, kept }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt as _;

    fn rules(folder: &Path) -> CallRules {
        let program = folder.join("prog");
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        CallRules {
            allowed: AllowedFolders::new(&[folder.to_owned()]).unwrap(),
            timeout: Duration::from_secs(9),
        }
    }

    fn prepared(kind: ToolKind, arguments: Value) -> Result<Task, RefusedCall> {
        let folder = tempfile::tempdir().unwrap();
        let Value::Object(arguments) = arguments else { panic!("{arguments}") };
        prepare(kind, Some(arguments), &rules(folder.path()))
    }

    fn words(kind: ToolKind, arguments: Value) -> Vec<String> {
        let task = prepared(kind, arguments).unwrap();
        task.main.args.iter().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn arguments_of_a_program_stay_behind_the_dashes() {
        let all = words(
            ToolKind::Measure,
            json!({"program": "prog", "arguments": ["--backend", "-e", "$HOME; rm"], "events": ["instructions"], "runs": 2}),
        );
        let dashes = all.iter().position(|word| word == "--").unwrap();
        assert!(all[dashes + 1].starts_with('/') && all[dashes + 1].ends_with("/prog"), "{all:?}");
        assert_eq!(all[dashes + 2..], ["--backend", "-e", "$HOME; rm"]);
        assert!(all[..dashes].contains(&"--event=instructions".to_owned()), "{all:?}");
    }

    #[test]
    fn programs_to_compare_survive_being_divided_into_words() {
        let arguments = ["a b", "'", "\"$HOME\"", "", "-x", "{a,b}", "*", "ü\n"];
        let one = json!({"program": "prog", "arguments": arguments});
        let all = words(ToolKind::Compare, json!({"commands": [one, one]}));
        let text = all.last().unwrap();
        let divided = shell_words::split(text).unwrap();
        assert_eq!(divided[1..], arguments);
        assert!(text.starts_with('/') || text.starts_with("'/"), "{text}");
    }

    #[test]
    fn options_cannot_be_smuggled_in() {
        for (kind, arguments) in [
            (ToolKind::Measure, json!({"program": "prog", "events": ["--output=/etc/x"]})),
            (ToolKind::Measure, json!({"program": "prog", "metrics": ["-o"]})),
            (ToolKind::Measure, json!({"program": "prog", "source": "--x"})),
            (ToolKind::Measure, json!({"program": "prog", "export_json": "/x"})),
            (ToolKind::Plan, json!({"events": ["-h"]})),
            (ToolKind::Plan, json!({"events": []})),
            (ToolKind::Plan, json!({"events": ["cycles"], "cpu": "--machine=/etc/passwd"})),
            (ToolKind::ListEvents, json!({"pattern": "--events=/etc/passwd"})),
            (ToolKind::ExplainEvent, json!({"event": "-x"})),
            (ToolKind::Doctor, json!({"restore": true})),
        ] {
            assert!(matches!(prepared(kind, arguments.clone()), Err(RefusedCall::Params(_))), "{arguments}");
        }
    }

    #[test]
    fn numbers_out_of_bounds_are_wrong_and_a_longer_time_is_cut() {
        for arguments in [
            json!({"program": "prog", "runs": 0}),
            json!({"program": "prog", "runs": 101}),
            json!({"program": "prog", "runs": -1}),
            json!({"program": "prog", "runs": 1.5}),
            json!({"program": "prog", "timeout_seconds": 0}),
            json!({"program": 5}),
            json!({}),
        ] {
            assert!(
                matches!(prepared(ToolKind::Measure, arguments.clone()), Err(RefusedCall::Params(_))),
                "{arguments}"
            );
        }
        let one = json!({"program": "prog"});
        assert!(matches!(
            prepared(ToolKind::Compare, json!({"commands": [one]})),
            Err(RefusedCall::Params(_))
        ));
        let task = prepared(ToolKind::Measure, json!({"program": "prog", "timeout_seconds": 7})).unwrap();
        assert_eq!(task.main.timeout, Duration::from_secs(7));
        let task = prepared(ToolKind::Measure, json!({"program": "prog", "timeout_seconds": 70})).unwrap();
        assert_eq!(task.main.timeout, Duration::from_secs(9));
    }

    #[test]
    fn every_tool_that_runs_programs_refuses_one_outside() {
        let program = json!({"program": "/bin/sh"});
        for kind in ToolKind::ALL.into_iter().filter(|kind| kind.runs_programs()) {
            let arguments = match kind {
                ToolKind::Compare => json!({"commands": [{"program": "prog"}, program]}),
                _ => program.clone(),
            };
            assert!(matches!(prepared(kind, arguments), Err(RefusedCall::Refused(_))), "{kind:?}");
        }
    }

    #[test]
    fn modifiers_are_no_part_of_a_name() {
        assert_eq!(without_modifiers("instructions:u"), "instructions");
        assert_eq!(without_modifiers("BR_INST_RETIRED:CONDITIONAL"), "BR_INST_RETIRED:CONDITIONAL");
        assert_eq!(without_modifiers(":u"), ":u");
    }
}
