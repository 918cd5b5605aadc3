//! Results that `compare --save-baseline`, `compare --export-json` or `stat --export-json` wrote.

use cyclometer_toolkit::core::Provenance;
use cyclometer_toolkit::core::exec::ExitStatus;
use cyclometer_toolkit::stats::compare::{RunOf, Series};
use cyclometer_toolkit::stats::{Failures, RunFailure};
use serde_json::Value;

use super::{
    BaselineProblem, BaselineRead, Contents, Parsed, RecordedCommand, SAVE_ANEW, not_below_zero, number,
};
use crate::output::shown_command;
use crate::render::{compare, json};

/// Reads a file that has `commands`.
pub(super) fn read(whole: &Value, version: Option<&Value>) -> BaselineRead<Contents> {
    check_version(whole, version)?;
    let listed = list(whole, "commands", "the file")?;
    let commands = listed.iter().map(command).collect::<BaselineRead<_>>()?;
    let machine = whole.get("machine").filter(|machine| machine.is_object()).cloned();
    Ok(Contents {
        commands,
        machine,
        processors: processors(listed),
        notes: early_end(whole).into_iter().collect(),
    })
}

/// The CPU baselines of the counted runs of all commands, each once; `None` stands for the real processor.
fn processors(commands: &[Value]) -> Vec<Option<String>> {
    let runs = commands.iter().filter_map(|command| command.get("runs").and_then(Value::as_array)).flatten();
    let counted = runs.filter(|run| run.get("launch").and_then(Value::as_str) == Some("translated"));
    let told = |run: &Value| run.get("cpu_baseline").and_then(Value::as_str).map(str::to_owned);
    let mut all: Vec<Option<String>> = counted.map(told).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A note about a file that was saved before the measurement was complete.
fn early_end(whole: &Value) -> Option<String> {
    let ended = whole.get("ended").filter(|ended| ended.get("kind").is_some_and(|kind| kind != "budget"))?;
    let text = ended.get("text").and_then(Value::as_str).unwrap_or("ended early");
    Some(format!("the measurement of the baseline {text}"))
}

fn check_version(whole: &Value, version: Option<&Value>) -> BaselineRead<()> {
    let known = match whole.get("kind").and_then(Value::as_str) {
        Some(compare::json::KIND) => compare::json::SCHEMA_VERSION,
        _ => json::SCHEMA_VERSION,
    };
    let Some(version) = version.and_then(Value::as_u64) else {
        return Err(BaselineProblem::new("it has no schema_version", SAVE_ANEW));
    };
    match version.cmp(&u64::from(known)) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => {
            let text = format!("its schema is of an older version, {version}; version {known} is read");
            Err(BaselineProblem::new(text, SAVE_ANEW))
        }
        std::cmp::Ordering::Greater => {
            let text = format!("its schema is of a newer version, {version}; version {known} is read");
            Err(BaselineProblem::new(text, "update cyclometer, or save it anew with this version"))
        }
    }
}

fn command(value: &Value) -> BaselineRead<RecordedCommand> {
    let words = list(value, "command", "a command")?;
    let words: Vec<std::ffi::OsString> = words.iter().filter_map(Value::as_str).map(Into::into).collect();
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    let name = name.unwrap_or_else(|| shown_command(words.iter().map(AsRef::as_ref)));
    let runs = list(value, "runs", &name)?;
    let is_dropped = |run: &&Value| run.get("dropped_because").is_some_and(|reason| !reason.is_null());
    let (left_out, kept): (Vec<&Value>, Vec<&Value>) = runs.iter().partition(is_dropped);
    let dropped: Vec<u64> =
        left_out.into_iter().filter_map(|run| run.get("index").and_then(Value::as_u64)).collect();
    let mut series = Vec::new();
    for metric in list(value, "metrics", &name)? {
        series.push(of_metric(metric, &dropped, not_below_zero)?);
    }
    // A formula may have any sign.
    for metric in list(value, "derived", &name)? {
        series.push(of_metric(metric, &dropped, number)?);
    }
    let stdout = value.pointer("/streams/stdout").and_then(Value::as_str).map(str::to_owned);
    let code = super::code::read(value)?;
    let code = code.map(|code| super::code::counted(code, &series)).transpose()?.flatten();
    Ok(RecordedCommand {
        command: name,
        series,
        code,
        failures: Failures::among(kept.into_iter().map(failure)),
        stdout,
    })
}

/// The failure of a run.
fn failure(run: &Value) -> Option<RunFailure> {
    let number =
        |key: &str| run.get(key).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
    let signal = number("signal").map(ExitStatus::Signal);
    signal.or(number("exit").map(ExitStatus::Code)).and_then(RunFailure::of)
}

fn of_metric(metric: &Value, dropped: &[u64], valid: fn(&Value, &str) -> Parsed) -> BaselineRead<Series> {
    let text = |key: &str| metric.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").ok_or_else(|| BaselineProblem::new("a metric has no name", SAVE_ANEW))?;
    let mut values = Vec::new();
    for value in list(metric, "values", &name)? {
        let run = value.get("run").and_then(Value::as_u64);
        let run =
            run.ok_or_else(|| BaselineProblem::new(format!("a value of {name} has no run"), SAVE_ANEW))?;
        if dropped.contains(&run) {
            continue;
        }
        let run = u32::try_from(run).map_err(|_| {
            BaselineProblem::new(
                format!("a value of {name} has the run {run}, which is too large"),
                SAVE_ANEW,
            )
        })?;
        let what = format!("{name} in run {}", u64::from(run) + 1);
        let found = valid(value.get("value").unwrap_or(&Value::Null), &what)?;
        values.push(RunOf { run, value: found });
    }
    let provenances = metric.get("provenances").and_then(Value::as_array).map(|words| {
        let mut all: Vec<Provenance> =
            words.iter().filter_map(Value::as_str).filter_map(Provenance::named).collect();
        all.sort_unstable();
        all
    });
    let provenance = text("provenance").and_then(|word| Provenance::named(&word));
    let count = text("count").unwrap_or_default();
    let reason = (count != "exact").then(|| {
        let reason = text("reason").unwrap_or_else(|| "no reason is known".to_owned());
        format!("{}: {reason}", count.replace('_', " "))
    });
    Ok(Series {
        event: text("event").unwrap_or_else(|| name.split(':').next().unwrap_or_default().to_owned()),
        unit: text("unit").unwrap_or_default(),
        scope: text("scope"),
        provenances: provenance.map(|who| vec![who]).or(provenances).filter(|who| !who.is_empty()),
        launch: text("launch"),
        reason,
        values,
        name,
    })
}

fn list<'a>(value: &'a Value, key: &str, of: &str) -> BaselineRead<&'a Vec<Value>> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| BaselineProblem::new(format!("{of} has no list '{key}'"), SAVE_ANEW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::compare::testing::{contest, shown};
    use cyclometer_toolkit::stats::compare::{ComparisonFinding, Design, Question, compare};

    #[test]
    fn what_compare_wrote_is_read_again_with_every_value() {
        shown(|machine, comparison| {
            let contest = contest(machine, comparison);
            let text = compare::json::render(&contest);
            let contents = super::super::parse(&text).unwrap();
            assert_eq!(contents.commands.len(), 2);
            for (RecordedCommand { command, series, failures, stdout, .. }, arm) in
                contents.commands.iter().zip(&contest.arms)
            {
                assert_eq!(command, &arm.name);
                assert_eq!((failures.count(), stdout.as_deref()), (0, Some("inherit")));
                let question = Question { design: Design::Apart, threshold: 0.005 };
                for one in compare(&arm.series, &[series], question).remove(0) {
                    assert!(one.finding != ComparisonFinding::Changed, "{one:?}");
                    assert_eq!(one.a, one.b, "{}", one.name);
                }
                for (read, written) in series.iter().zip(&arm.series) {
                    assert_eq!((&read.name, &read.values), (&written.name, &written.values));
                    assert_eq!((&read.provenances, &read.scope), (&written.provenances, &written.scope));
                }
            }
        });
    }

    #[test]
    fn the_processor_of_counted_runs_and_an_early_end_are_read() {
        let text = r#"{"schema_version": 1, "kind": "compare", "ended": {"kind": "failed", "text": "ended early: no"},
            "commands": [{"command": ["a"], "metrics": [], "derived": [], "runs": [
            {"index": 0, "launch": "translated", "cpu_baseline": "x86-64-v2"},
            {"index": 1, "launch": "translated", "cpu_baseline": "x86-64-v2"},
            {"index": 2, "launch": "native", "cpu_baseline": null}]}]}"#;
        let contents = super::super::parse(text).unwrap();
        assert_eq!(contents.processors, [Some("x86-64-v2".to_owned())]);
        assert_eq!(contents.notes, ["the measurement of the baseline ended early: no"]);
        let whole = text.replace("failed", "budget").replace("\"x86-64-v2\"", "null");
        let contents = super::super::parse(&whole).unwrap();
        assert_eq!((contents.processors, contents.notes.len()), (vec![None], 0));
    }

    #[test]
    fn runs_that_failed_and_where_output_went_are_read() {
        let text = r#"{"schema_version": 1, "commands": [{"command": ["a"], "metrics": [], "derived": [],
            "streams": {"stdin": "null", "stdout": "null", "stderr": "null"}, "runs": [
            {"index": 0, "exit": 2, "signal": null, "dropped_because": null},
            {"index": 1, "exit": null, "signal": 9, "dropped_because": null},
            {"index": 2, "exit": 0, "signal": null, "dropped_because": null},
            {"index": 3, "exit": 2, "signal": null, "dropped_because": "exited with status 2"}]}]}"#;
        let contents = super::super::parse(text).unwrap();
        let told = contents.commands[0].failures.text().unwrap();
        assert_eq!(told, "2 of 3 runs failed (1 with exit status 2, 1 with signal 9)");
        assert_eq!(contents.commands[0].stdout.as_deref(), Some("null"));
        // Older files have no streams.
        let older = text.replace("streams", "other");
        assert_eq!(super::super::parse(&older).unwrap().commands[0].stdout, None);
    }

    #[test]
    fn a_value_that_is_no_number_is_named() {
        let text = r#"{"schema_version": 1, "commands": [{"command": ["a"], "runs": [], "derived": [],
            "metrics": [{"name": "cycles:u", "values": [{"run": 0, "value": "NaN"}]}]}]}"#;
        let problem = super::super::parse(text).unwrap_err();
        assert_eq!(problem.text, "cycles:u in run 1 is \"NaN\", which is no number");
        let problem = super::super::parse(&text.replace("\"NaN\"", "-5")).unwrap_err();
        assert_eq!(problem.text, "cycles:u in run 1 is -5, and nothing measured is below zero");
        for run in [u64::from(u32::MAX) + 1, u64::MAX] {
            let problem = super::super::parse(&text.replace("\"run\": 0", &format!("\"run\": {run}")));
            let told = format!("a value of cycles:u has the run {run}, which is too large");
            assert_eq!(problem.unwrap_err().text, told);
        }
        let last = text.replace("\"run\": 0", &format!("\"run\": {}", u32::MAX)).replace("\"NaN\"", "5");
        assert!(super::super::parse(&last).is_ok());
    }
}
