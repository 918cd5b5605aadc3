//! Results that were written before: JSON of `advise` and of `stat`, and recordings.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use cyclometer_toolkit::advise::{FactOrigin, Facts, fact_name};
use cyclometer_toolkit::core::{Provenance, Rung};
use cyclometer_toolkit::recording::{Recording, RecordingTotals, is_recording};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};
use serde_json::Value;

use crate::commands::recorded;
use crate::failure::of_input;

/// Longest JSON that is read, in bytes.
const MAX_BYTES: u64 = 64 << 20;

/// Bytes at the start of a file that say whether it is a recording.
const START_BYTES: u64 = 8;

/// The facts of a file.
pub struct ReadFacts {
    /// The command that was measured; empty if it was something else.
    pub command: Vec<String>,
    /// Its numbers.
    pub facts: Facts,
    /// Notes on the file for the reader.
    pub notes: Vec<String>,
}

/// Reads a file.
///
/// # Errors
///
/// `ErrorKind::Io`; `ErrorKind::InvalidInput` for another kind of file.
pub fn read(path: &Path) -> Result<ReadFacts> {
    let failed = |error: io::Error| of_input(path, error);
    let mut source: Box<dyn Read> = match recorded::is_stdin(path) {
        true => Box::new(io::stdin()),
        false => Box::new(BufReader::new(File::open(path).map_err(failed)?)),
    };
    let mut start = Vec::new();
    source.by_ref().take(START_BYTES).read_to_end(&mut start).map_err(failed)?;
    let whole = start.as_slice().chain(source);
    if is_recording(&start) {
        let totals = Recording::open(whole).and_then(Recording::into_totals);
        return totals.map(|totals| of_recording(&totals)).map_err(|error| recorded::unreadable(path, error));
    }
    let mut bytes = Vec::new();
    whole.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refused(path, &format!("it is longer than {MAX_BYTES} bytes")));
    }
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| refused(path, &format!("it is not JSON: {error}")))?;
    parse(&value).map_err(|reason| refused(path, &reason))
}

fn refused(path: &Path, reason: &str) -> Error {
    let message = format!("cannot take results from {}: {reason}", recorded::name(path));
    let fix = "make one by `cyclometer advise --json -- COMMAND`, by `cyclometer stat --export-json FILE -- COMMAND`, \
               or by `cyclometer record -o FILE -- COMMAND`";
    Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(fix))
}

/// The facts of a document.
///
/// # Errors
///
/// The reason why it is neither of the two kinds.
fn parse(document: &Value) -> std::result::Result<ReadFacts, String> {
    match (
        document.get("schema_version").and_then(Value::as_u64),
        document.get("facts"),
        document.get("commands"),
    ) {
        (Some(1), Some(facts), _) => of_advice(document, facts),
        (Some(1), None, Some(commands)) => of_stat(commands),
        (Some(1), None, None) => Err("it has neither facts nor commands".to_owned()),
        (Some(other), ..) => Err(format!("its schema version is {other}, and 1 is known")),
        (None, ..) => Err("it has no schema version".to_owned()),
    }
}

fn words(value: Option<&Value>) -> Vec<String> {
    let words = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    words.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect()
}

fn of_advice(document: &Value, facts: &Value) -> std::result::Result<ReadFacts, String> {
    let mut read = Facts::default();
    for fact in facts.as_array().ok_or("its facts are no list")? {
        let name = fact.get("name").and_then(Value::as_str).ok_or("a fact has no name")?;
        let origin = fact.get("origin").and_then(Value::as_str);
        let origin = origin.and_then(|word| FactOrigin::ALL.into_iter().find(|origin| origin.word() == word));
        match (fact.get("value").and_then(Value::as_f64), origin) {
            (Some(value), Some(origin)) => read.put(name, value, origin),
            _ => read.lack(name, fact.get("reason").and_then(Value::as_str).unwrap_or("unknown")),
        }
    }
    Ok(ReadFacts {
        command: words(document.get("command")),
        facts: read,
        notes: words(document.get("notes")),
    })
}

fn of_stat(commands: &Value) -> std::result::Result<ReadFacts, String> {
    let [command] = commands.as_array().map(Vec::as_slice).unwrap_or_default() else {
        return Err("it has the results of several commands, or of none".to_owned());
    };
    let mut read = Facts::default();
    let metrics = command.get("metrics").and_then(Value::as_array).ok_or("its command has no metrics")?;
    for metric in metrics {
        let event = metric.get("event").or_else(|| metric.get("name")).and_then(Value::as_str);
        let name = fact_name(event.ok_or("a metric has no name")?);
        let origin = match metric.get("provenance").and_then(Value::as_str) {
            Some("hardware") => FactOrigin::Hardware,
            Some("counted") => FactOrigin::Counted,
            Some("modelled" | "simulated") => FactOrigin::Modelled,
            _ => FactOrigin::Kernel,
        };
        // Times of translated runs are those of the translation.
        let is_translated_time = metric.get("launch").and_then(Value::as_str) == Some("translated")
            && origin == FactOrigin::Kernel;
        match metric.get("mean").and_then(Value::as_f64).filter(|_| !is_translated_time) {
            Some(value) => read.put(&name, value, origin),
            None => read
                .lack(&name, metric.get("reason").and_then(Value::as_str).unwrap_or("of a translated run")),
        }
    }
    for metric in command.get("derived").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default() {
        let name = metric.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(value) = metric.get("mean").and_then(Value::as_f64) {
            read.put(&fact_name(name.split(':').next().unwrap_or(name)), value, FactOrigin::Hardware);
        }
    }
    let words = words(command.get("command"));
    Ok(match target_words(command.get("target")) {
        Some(target) => {
            let note = format!("the counts are those of {target}, with everything that ran there");
            ReadFacts { command: Vec::new(), facts: read, notes: vec![note] }
        }
        None => ReadFacts { command: words, facts: read, notes: Vec::new() },
    })
}

/// The CPUs or the control group that were measured instead of a command.
fn target_words(target: Option<&Value>) -> Option<String> {
    let field = |name| target?.get(name)?.as_str();
    match field("kind")? {
        "cpus" => Some(format!("the CPUs {}", field("cpus").unwrap_or_default())),
        "cgroup" => Some(format!("the control group {}", field("path").unwrap_or_default())),
        _ => None,
    }
}

/// The facts of a recording: its totals.
fn of_recording(recording: &RecordingTotals) -> ReadFacts {
    let mut read = Facts::default();
    let events = &recording.header.events;
    // Times of translated runs are those of the translation.
    let is_translated = events.iter().any(|event| event.source == Some(Rung::Soft));
    for (event, count) in events.iter().zip(&recording.totals) {
        let name = fact_name(event.name.split(':').next().unwrap_or(&event.name));
        let origin = match event.provenance {
            Some(Provenance::Hardware) => FactOrigin::Hardware,
            Some(Provenance::Counted) => FactOrigin::Counted,
            Some(Provenance::Modelled | Provenance::Simulated) => FactOrigin::Modelled,
            _ => FactOrigin::Kernel,
        };
        match count.value() {
            Some(_) if is_translated && origin == FactOrigin::Kernel => {
                read.lack(&name, "of a translated run")
            }
            Some(value) => read.put(&name, value as f64 * event.scale, origin),
            None => read.lack(&name, count.reason().unwrap_or_default()),
        }
    }
    if let Some(elapsed_ns) = recording.elapsed_ns.filter(|_| !is_translated && !read.has("wall_time")) {
        read.put("wall_time", elapsed_ns as f64, FactOrigin::Kernel);
    }
    let early = "the recording ends early: the numbers are those of its rows".to_owned();
    ReadFacts {
        command: recording.header.command.clone(),
        facts: read,
        notes: (!recording.is_complete).then_some(early).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_toolkit::core::{Count, Unit};
    use cyclometer_toolkit::recording::{RecordedEvent, RecordingHeader};
    use serde_json::json;

    fn recorded(events: &[(&str, Rung, Provenance, Count)]) -> RecordingTotals {
        let event = |(name, source, provenance, _): &(&str, Rung, Provenance, Count)| RecordedEvent {
            name: (*name).to_owned(),
            unit: Unit::Count,
            scale: 2.0,
            source: Some(*source),
            provenance: Some(*provenance),
            modes: None,
        };
        RecordingTotals {
            header: RecordingHeader {
                tool: String::new(),
                machine: Default::default(),
                command: vec!["a".to_owned()],
                target: None,
                start_unix_ns: None,
                events: events.iter().map(event).collect(),
                boundaries: vec![],
                sources: vec![],
                notes: vec![],
            },
            totals: events.iter().map(|(.., count)| count.clone()).collect(),
            elapsed_ns: Some(9),
            is_complete: true,
        }
    }

    #[test]
    fn totals_of_a_recording_are_facts_in_their_unit_and_missing_ones_have_reasons() {
        let lost = Count::Lost { reason: "the CPU went away".into() };
        let read = of_recording(&recorded(&[
            ("cycles:u", Rung::Perf, Provenance::Hardware, Count::Exact(5)),
            ("page-faults", Rung::Perf, Provenance::Kernel, Count::Exact(7)),
            ("llc_misses", Rung::Perf, Provenance::Hardware, lost),
        ]));
        assert_eq!(read.command, ["a"]);
        let value = |name| read.facts.value(name);
        assert_eq!([value("cycles"), value("page_faults"), value("wall_time")], [10.0, 14.0, 9.0].map(Ok));
        assert_eq!(value("llc_misses"), Err("llc_misses: the CPU went away".to_owned()));
    }

    #[test]
    fn a_recording_of_a_translated_run_has_counts_and_no_times() {
        let read = of_recording(&recorded(&[
            ("instructions:u", Rung::Soft, Provenance::Counted, Count::Exact(5)),
            ("user_time", Rung::Os, Provenance::Kernel, Count::Exact(7)),
        ]));
        assert_eq!(read.facts.value("instructions"), Ok(10.0));
        assert!(!read.facts.has("user_time") && !read.facts.has("wall_time"));
    }

    fn refused_because(document: Value) -> String {
        match parse(&document) {
            Err(reason) => reason,
            Ok(_) => panic!("{document} was read"),
        }
    }

    #[test]
    fn facts_and_their_reasons_are_read_back() {
        let document = json!({ "schema_version": 1, "command": ["a"], "facts": [
            { "name": "user_time", "value": 5.0, "origin": "kernel", "reason": null },
            { "name": "cycles", "value": null, "origin": null, "reason": "no PMU" },
        ]});
        let read = parse(&document).unwrap();
        assert_eq!(read.command, ["a"]);
        assert_eq!(read.facts.value("user_time"), Ok(5.0));
        assert_eq!(read.facts.value("cycles"), Err("cycles: no PMU".to_owned()));
    }

    #[test]
    fn results_of_stat_are_facts_and_translated_times_are_none() {
        let metric = |event: &str, launch: &str, provenance: &str| json!({ "event": event, "mean": 7.0, "launch": launch, "provenance": provenance });
        let document = json!({ "schema_version": 1, "commands": [{ "command": ["a"], "metrics": [
            metric("minor-faults", "native", "kernel"),
            metric("user_time", "translated", "kernel"),
            metric("instructions", "translated", "counted"),
        ]}]});
        let read = parse(&document).unwrap();
        assert_eq!(read.facts.value("minor_faults"), Ok(7.0));
        assert!(read.facts.value("user_time").is_err());
        assert_eq!(read.facts.value("instructions"), Ok(7.0));
    }

    #[test]
    fn other_documents_are_refused_with_the_reason() {
        assert!(refused_because(json!({})).contains("no schema version"));
        assert!(refused_because(json!({ "schema_version": 2 })).contains("is 2"));
        assert!(refused_because(json!({ "schema_version": 1 })).contains("neither"));
        assert!(refused_because(json!({ "schema_version": 1, "commands": [] })).contains("none"));
        assert!(refused_because(json!({ "schema_version": 1, "facts": 5 })).contains("no list"));
    }
}
