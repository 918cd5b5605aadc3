//! Results of other programs: hyperfine 1 and 2, and JSON with poop's names of metrics.

use cyclometer_toolkit::core::Provenance;
use cyclometer_toolkit::core::exec::ExitStatus;
use cyclometer_toolkit::stats::compare::{RunOf, Series};
use cyclometer_toolkit::stats::{Failures, RunFailure};
use serde_json::{Map, Value};

use super::{
    BaselineProblem, BaselineRead, Contents, RecordedCommand, SAVE_ANEW, not_below_zero, perf, text,
};

/// Metrics of other programs: their name, our name, the unit, and the factor to our unit.
///
/// # Source
///
/// hyperfine 2.0 `src/metric.rs`; poop `src/main.zig`.
const NAMES: [(&str, &str, &str, f64); 17] = [
    ("time_wall_clock", "wall_time", "ns", 1e9),
    ("time_user", "user_time", "ns", 1e9),
    ("time_system", "system_time", "ns", 1e9),
    ("memory_peak_resident", "peak_rss", "B", 1.0),
    ("wall_time", "wall_time", "ns", 1.0),
    ("peak_rss", "peak_rss", "B", 1.0),
    ("cpu_cycles", "cycles:u", "", 1.0),
    ("cycles", "cycles:u", "", 1.0),
    ("instructions", "instructions:u", "", 1.0),
    ("cache_references", "cache-references:u", "", 1.0),
    ("cache-references", "cache-references:u", "", 1.0),
    ("cache_misses", "cache-misses:u", "", 1.0),
    ("cache-misses", "cache-misses:u", "", 1.0),
    ("branch_misses", "branch-misses:u", "", 1.0),
    ("branch-misses", "branch-misses:u", "", 1.0),
    ("branches", "branches:u", "", 1.0),
    ("times", "wall_time", "ns", 1e9),
];

/// A metric of theirs; `None` for one that we do not have.
fn translated(theirs: &str, values: Vec<Option<f64>>) -> Option<Series> {
    let (_, ours, unit, scale) = NAMES.iter().find(|(name, ..)| *name == theirs)?;
    let runs = (0..).zip(values);
    let values = runs.map(|(run, value)| RunOf { run, value: value.map(|value| value * scale) }).collect();
    let is_counter = ours.ends_with(":u");
    Some(Series {
        name: (*ours).to_owned(),
        event: ours.trim_end_matches(":u").to_owned(),
        unit: (*unit).to_owned(),
        provenances: Some(vec![if is_counter { Provenance::Hardware } else { Provenance::Kernel }]),
        launch: Some("native".to_owned()),
        values,
        ..Series::default()
    })
}

/// Runs that failed, by their exit codes: 128 + n for signal n, null where none was known. A missing field
/// means that the number is not known.
///
/// # Source
///
/// hyperfine 1.20 `src/util/exit_code.rs`, `src/benchmark/benchmark_result.rs`.
fn failures<'a>(codes: impl Iterator<Item = Option<&'a Value>>) -> Failures {
    let failure = |code: Option<&Value>| match code?.as_i64().map(i32::try_from) {
        Some(Ok(code)) => RunFailure::of(ExitStatus::Code(code)),
        _ => Some(RunFailure::Unknown),
    };
    Failures::among(codes.map(failure))
}

/// hyperfine 2: every measurement of every run.
///
/// # Source
///
/// hyperfine 2.0 `src/export/json.rs`. Its counters are of user mode, on Linux.
pub(super) fn hyperfine_2(whole: &Value) -> BaselineRead<Contents> {
    let platform = whole.pointer("/metadata/platform/os").and_then(Value::as_str);
    let is_mac = platform.is_some_and(|os| os.eq_ignore_ascii_case("macos"));
    let mut commands = Vec::new();
    for result in results(whole)? {
        let runs = array(result, "measurements")?;
        let mut columns: Map<String, Value> = Map::new();
        for run in runs {
            for (name, measured) in run.as_object().into_iter().flatten() {
                let Some(value) = measured.get("value") else { continue };
                let column = columns.entry(name.clone()).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(column) = column {
                    column.push(value.clone());
                }
            }
        }
        let series = columns
            .iter()
            .filter(|(name, _)| !is_mac || name.starts_with("time") || name.starts_with("memory"));
        let series = series.map(|(name, column)| Ok(translated(name, numbers(column, name)?)));
        commands.push(RecordedCommand {
            code: None,
            command: text(result, "command")?,
            series: series.filter_map(BaselineRead::transpose).collect::<BaselineRead<_>>()?,
            failures: failures(runs.iter().map(|run| run.get("exit_code"))),
            stdout: None,
        });
    }
    let notes = vec!["the baseline is hyperfine's".to_owned()];
    Ok(Contents { commands, notes, ..Contents::default() })
}

/// Formats whose files do not name their format: hyperfine 1, JSON with poop's names, one object of perf.
pub(super) fn without_version(whole: &Value) -> BaselineRead<Contents> {
    if whole.get("counter-value").is_some() {
        return perf::read(&[vec![whole.clone()]]);
    }
    let all = match whole {
        Value::Array(all) => all,
        _ => match results(whole) {
            Ok(all) => all,
            Err(_) => return Err(unknown()),
        },
    };
    match all.first() {
        Some(first) if first.get("times").is_some() => hyperfine_1(all),
        Some(first) if first.get("measurements").is_some_and(Value::is_object) => poop(all),
        _ => Err(unknown()),
    }
}

fn unknown() -> BaselineProblem {
    BaselineProblem::new(
        "it is in no format that is known here",
        "give a file of --save-baseline, `stat --export-json`, hyperfine --export-json or `perf stat -j`",
    )
}

/// hyperfine 1: the wall times of all runs, and peaks where there are any; of the CPU times only means.
///
/// # Source
///
/// hyperfine 1.20 `src/benchmark/benchmark_result.rs`.
fn hyperfine_1(results: &[Value]) -> BaselineRead<Contents> {
    let mut commands = Vec::new();
    for result in results {
        let wall = numbers(result.get("times").unwrap_or(&Value::Null), "times")?;
        let mut series: Vec<Series> = translated("time_wall_clock", wall).into_iter().collect();
        for (theirs, name) in [("user", "time_user"), ("system", "time_system")] {
            let mean = not_below_zero(result.get(theirs).unwrap_or(&Value::Null), theirs)?;
            series.extend(translated(name, vec![mean]).filter(|_| mean.is_some()));
        }
        if let Some(peaks @ Value::Array(_)) = result.get("memory_usage_byte") {
            series.extend(translated("memory_peak_resident", numbers(peaks, "memory_usage_byte")?));
        }
        let codes = result.get("exit_codes").and_then(Value::as_array).into_iter().flatten();
        commands.push(RecordedCommand {
            code: None,
            command: text(result, "command")?,
            series,
            failures: failures(codes.map(Some)),
            stdout: None,
        });
    }
    let notes = vec!["the baseline is hyperfine's; of user and system time it has means alone".to_owned()];
    Ok(Contents { commands, notes, ..Contents::default() })
}

/// JSON with poop's names: for each command its measurements by those names, each with its samples or its
/// mean.
///
/// poop itself exports nothing; this is the format that users add to it.
fn poop(results: &[Value]) -> BaselineRead<Contents> {
    let mut commands = Vec::new();
    for result in results {
        let mut series = Vec::new();
        for (name, measured) in result.get("measurements").and_then(Value::as_object).into_iter().flatten() {
            let samples =
                measured.get("samples").or_else(|| measured.get("values")).filter(|list| list.is_array());
            let values = match samples {
                Some(samples) => numbers(samples, name)?,
                None => vec![not_below_zero(measured.get("mean").unwrap_or(&Value::Null), name)?],
            };
            series.extend(translated(name, values));
        }
        commands.push(RecordedCommand {
            command: text(result, "command")?,
            series,
            ..RecordedCommand::default()
        });
    }
    let notes = vec!["the baseline has poop's names of metrics".to_owned()];
    Ok(Contents { commands, notes, ..Contents::default() })
}

fn results(whole: &Value) -> BaselineRead<&Vec<Value>> {
    array(whole, "results")
}

fn array<'a>(value: &'a Value, key: &str) -> BaselineRead<&'a Vec<Value>> {
    let found = value.get(key).and_then(Value::as_array);
    found.ok_or_else(|| BaselineProblem::new(format!("there is no list '{key}'"), SAVE_ANEW))
}

fn numbers(list: &Value, name: &str) -> BaselineRead<Vec<Option<f64>>> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    (1..).zip(list).map(|(run, value)| not_below_zero(value, &format!("{name} in run {run}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn series<'a>(contents: &'a Contents, name: &str) -> &'a Series {
        let all = &contents.commands[0].series;
        all.iter().find(|series| series.name == name).unwrap_or_else(|| panic!("no {name} in {all:?}"))
    }

    #[test]
    fn hyperfine_1_gives_times_of_all_runs() {
        let text = r#"{"results": [{"command": "sleep 1", "mean": 1.0, "stddev": 0.1, "median": 1.0, "user": 0.25,
            "system": 0.5, "min": 0.9, "max": 1.1, "times": [0.9, 1.0, 1.1], "exit_codes": [0, 0, 0],
            "memory_usage_byte": [1024, 2048, 1024]}]}"#;
        let contents = parse(text).unwrap();
        assert_eq!(contents.commands[0].command, "sleep 1");
        assert_eq!(series(&contents, "wall_time").present(), [0.9e9, 1e9, 1.1e9]);
        assert_eq!(series(&contents, "user_time").present(), [0.25e9]);
        assert_eq!(series(&contents, "peak_rss").present(), [1024.0, 2048.0, 1024.0]);
    }

    #[test]
    fn failures_of_hyperfines_runs_are_read_by_their_exit_codes() {
        let failures = |text: &str| parse(text).unwrap().commands[0].failures.text();
        let one = |codes: &str| {
            failures(&format!(r#"{{"results": [{{"command": "a", "times": [1, 1, 1]{codes}}}]}}"#))
        };
        assert_eq!(one(""), None);
        assert_eq!(one(r#", "exit_codes": [0, 0, 0]"#), None);
        let told = one(r#", "exit_codes": [0, 2, null]"#).unwrap();
        assert_eq!(told, "2 of 3 runs failed (1 with exit status 2, 1 with an unknown status)");
        let two = failures(
            r#"{"schema_version": 2, "results": [{"command": "a", "measurements": [
            {"time_wall_clock": {"value": 1}, "exit_code": 1}, {"time_wall_clock": {"value": 1}, "exit_code": 1},
            {"time_wall_clock": {"value": 1}}]}]}"#,
        );
        assert_eq!(two.unwrap(), "2 of 3 runs failed (exit status 1)");
    }

    #[test]
    fn hyperfine_2_gives_every_measurement() {
        let text = r#"{"schema_version": 2, "metadata": {"platform": {"os": "linux", "architecture": "x86_64"}},
            "primary_metric": "time_wall_clock", "results": [{"command": "sleep 1", "name": "one", "measurements": [
            {"time_wall_clock": {"value": 1.0, "unit": "second"}, "memory_peak_resident": {"value": 4096, "unit": "byte"},
             "instructions": {"value": 1000}, "something_new": {"value": 1}, "exit_code": 0},
            {"time_wall_clock": {"value": 1.5, "unit": "second"}, "memory_peak_resident": {"value": 8192, "unit": "byte"},
             "instructions": {"value": 1001}, "exit_code": 0}]}]}"#;
        let contents = parse(text).unwrap();
        assert_eq!(series(&contents, "wall_time").present(), [1e9, 1.5e9]);
        assert_eq!(series(&contents, "instructions:u").present(), [1000.0, 1001.0]);
        let mac = parse(&text.replace("linux", "macos")).unwrap();
        assert!(
            mac.commands[0].series.iter().all(|series| !series.name.ends_with(":u")),
            "they have the kernel's as well"
        );
    }

    #[test]
    fn poops_manner_gives_samples_or_a_mean() {
        let text = r#"[{"command": "a b", "measurements": {"wall_time": {"mean": 5000000, "std_dev": 1, "unit": "nanoseconds"},
            "cpu_cycles": {"samples": [10, 11, 12]}}}]"#;
        let contents = parse(text).unwrap();
        assert_eq!(series(&contents, "wall_time").present(), [5e6]);
        assert_eq!(series(&contents, "cycles:u").present(), [10.0, 11.0, 12.0]);
    }

    #[test]
    fn values_that_are_no_numbers_are_named() {
        for (text, expected) in [
            (
                r#"{"results": [{"command": "a", "times": [1, "x"]}]}"#,
                "times in run 2 is \"x\", which is no number",
            ),
            (r#"{"results": [{"times": [1]}]}"#, "there is no text 'command'"),
            (r#"{"schema_version": 2, "results": [{"command": "a"}]}"#, "there is no list 'measurements'"),
        ] {
            assert_eq!(parse(text).unwrap_err().text, expected);
        }
    }
}
