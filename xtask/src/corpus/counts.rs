//! The tool's verdict about its counts, from its JSON.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

/// The events that are counted: some that are counted per block, some per access, and the calls of the
/// system.
pub(super) const EVENTS: &[&str] =
    &["instructions", "branches", "branches_taken", "calls", "loads", "stores", "system_calls"];

/// The counts of one run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum RunCounts {
    /// All of them, by event.
    Exact(BTreeMap<String, u64>),
    /// Not one of them can be told, and why.
    Lost(String),
}

/// The common result of several runs.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum CountAgreement {
    /// Each run was counted; the events that were not the same in each, with their spread relative to the
    /// largest.
    Exact { varies: Vec<(String, f64)> },
    /// At least one was not; the reasons, and how many runs were.
    Lost { reasons: BTreeSet<String>, exact: usize },
}

/// Reads the counts from the tool's export.
pub(super) fn counted(export: &str) -> Result<RunCounts> {
    let export: Value = serde_json::from_str(export).context("the tool's export is no JSON")?;
    let metrics = export["commands"][0]["metrics"].as_array().context("the tool's export has no metrics")?;
    let mut counts = BTreeMap::new();
    for event in EVENTS {
        let metric = metrics.iter().find(|metric| metric["event"] == *event);
        let metric = metric.with_context(|| format!("the tool's export has no {event}"))?;
        match (metric["count"].as_str(), metric["mean"].as_u64(), metric["reason"].as_str()) {
            (Some("exact"), Some(value), _) => drop(counts.insert((*event).to_owned(), value)),
            (Some("lost"), None, Some(reason)) => return Ok(RunCounts::Lost(plain(reason))),
            (Some("partial"), Some(_), Some(reason)) => {
                return Ok(RunCounts::Lost(format!("in part: {}", plain(reason))));
            }
            _ => anyhow::bail!("{event} is neither exact nor lost with a reason: {metric}"),
        }
    }
    Ok(RunCounts::Exact(counts))
}

/// Where the machine of an export is told, for the page: CPU, virtual machine, kernel.
pub(super) fn machine(export: &str) -> Option<String> {
    let export: Value = serde_json::from_str(export).ok()?;
    let machine = &export["machine"];
    let text = |key: &str| machine[key].as_str().map(str::to_owned);
    let hypervisor = text("hypervisor").map_or(String::new(), |name| format!(", {name}"));
    let cpu = format!("{} ({})", text("cpu_name")?, text("cpu_id")?);
    Some(format!("{cpu}{hypervisor}, {} {}", text("os")?, text("kernel")?))
}

/// A reason without what is another in every run: process ids and addresses.
fn plain(reason: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in reason.split(' ') {
        let (bare, end) = word.strip_suffix(':').map_or((word, ""), |bare| (bare, ":"));
        if bare.starts_with("0x") && words.last() == Some(&"at") {
            words.pop();
        } else if !is_pid(bare) {
            words.push(word);
            continue;
        }
        if !words.is_empty() && !end.is_empty() {
            words.push(end);
        }
    }
    words.join(" ").replace(" :", ":").replace("detached: ", "")
}

/// Whether a word is a number in parentheses.
fn is_pid(word: &str) -> bool {
    let number = word.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The verdict over all runs of a row.
pub(super) fn verdict(runs: &[RunCounts]) -> CountAgreement {
    let mut exact = Vec::new();
    let mut reasons = BTreeSet::new();
    for run in runs {
        match run {
            RunCounts::Exact(counts) => exact.push(counts),
            RunCounts::Lost(reason) => drop(reasons.insert(reason.clone())),
        }
    }
    if !reasons.is_empty() {
        return CountAgreement::Lost { reasons, exact: exact.len() };
    }
    let spreads = EVENTS.iter().map(|event| (*event, spread(&exact, event)));
    CountAgreement::Exact {
        varies: spreads.filter(|(_, spread)| *spread > 0.0).map(|(e, s)| (e.to_owned(), s)).collect(),
    }
}

/// The distance of the smallest from the largest count of an event, in parts of the largest.
fn spread(runs: &[&BTreeMap<String, u64>], event: &str) -> f64 {
    let values = || runs.iter().filter_map(|run| run.get(event).copied());
    match (values().min(), values().max()) {
        (Some(least), Some(most)) if most > least => (most - least) as f64 / most as f64,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn export(metric: impl Fn(&str) -> Value) -> String {
        let metrics: Vec<Value> = EVENTS.iter().map(|event| metric(event)).collect();
        json!({"commands": [{"metrics": metrics}]}).to_string()
    }

    fn exact(value: u64) -> RunCounts {
        let metric = |event: &str| json!({"event": event, "count": "exact", "mean": value, "reason": null});
        counted(&export(metric)).unwrap()
    }

    #[test]
    fn exact_counts_are_read() {
        let RunCounts::Exact(counts) = exact(7) else { panic!() };
        assert_eq!(counts.len(), EVENTS.len());
        assert!(counts.values().all(|count| *count == 7));
    }

    #[test]
    fn what_is_neither_exact_nor_lost_with_a_reason_is_an_error() {
        for (count, mean, reason) in [
            ("exact", json!(null), json!(null)),
            ("lost", json!(null), json!(null)),
            ("lost", json!(3), json!("why")),
            ("not_supported", json!(null), json!("why")),
        ] {
            let metric =
                |event: &str| json!({"event": event, "count": count, "mean": mean, "reason": reason});
            assert!(counted(&export(metric)).is_err(), "{count}");
        }
        assert!(counted("{}").is_err());
        assert!(counted("").is_err());
    }

    #[test]
    fn reasons_come_without_ids_and_addresses() {
        let metric = |event: &str| {
            json!({"event": event, "count": "lost", "mean": null,
                   "reason": "java (12): detached at 0x7ff8: the program started a thread"})
        };
        let expected = RunCounts::Lost("java: the program started a thread".to_owned());
        assert_eq!(counted(&export(metric)).unwrap(), expected);
        assert_eq!(plain("detached at 0x1: far (jump) of 64 bits"), "far (jump) of 64 bits");
        assert_eq!(plain("the tracer has gone"), "the tracer has gone");
    }

    #[test]
    fn counts_that_differ_vary_by_their_spread() {
        assert_eq!(verdict(&[exact(8), exact(8)]), CountAgreement::Exact { varies: vec![] });
        let CountAgreement::Exact { varies } = verdict(&[exact(8), exact(6), exact(7)]) else { panic!() };
        assert_eq!(varies.len(), EVENTS.len());
        assert_eq!(varies.first(), Some(&("instructions".to_owned(), 0.25)));
    }

    #[test]
    fn what_is_counted_in_part_is_lost_with_the_reason() {
        let metric = |event: &str| {
            let reason = "without what sh (7) did after another process traced it (ptrace)";
            json!({"event": event, "count": "partial", "mean": 5, "reason": reason})
        };
        let expected = "in part: without what sh did after another process traced it (ptrace)";
        assert_eq!(counted(&export(metric)).unwrap(), RunCounts::Lost(expected.to_owned()));
    }

    #[test]
    fn one_lost_run_loses_the_row() {
        let lost = RunCounts::Lost("why".to_owned());
        let expected = CountAgreement::Lost { reasons: BTreeSet::from(["why".to_owned()]), exact: 1 };
        assert_eq!(verdict(&[exact(8), lost]), expected);
    }
}
