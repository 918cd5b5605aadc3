//! JSON by `schemas/compare-1.json`.

use cyclometer_toolkit::Error;
use cyclometer_toolkit::interleaved::EarlyEnd;
use cyclometer_toolkit::stats::compare::{Basis, Compared, Design, GateOutcome, MetricChange};
use serde_json::{Value, json};

use super::code::series_json;
use super::{Contest, Reference, Versus};
use crate::json::{command, optional, pretty, statistics, steps};
use crate::machine;

/// Version of the schema; it grows when a reader of the old one could fail.
pub const SCHEMA_VERSION: u32 = 1;

/// The kind in a file that marks it as one of `compare`.
pub const KIND: &str = "compare";

/// The results, ending with a line end; they can be a baseline. The environment is never part of them.
pub fn render(contest: &Contest<'_>) -> String {
    let executions = contest.executions;
    let value = json!({
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "machine": machine::json(contest.machine),
        "design": {
            "kind": match contest.question.design { Design::Paired => "paired", Design::Apart => "apart" },
            "threshold": contest.question.threshold,
            "warmups": executions.warmups,
            "counted": executions.counted,
            "pairs": executions.native,
            "rounds": contest.comparison.rounds.iter().map(|round| json!({
                "order": round.order,
                "padding": round.padding,
            })).collect::<Vec<_>>(),
        },
        "commands": (0..contest.arms.len()).map(|arm| arm_json(contest, arm)).collect::<Vec<_>>(),
        "reference": reference(contest),
        "comparisons": contest.versus.iter().map(versus).collect::<Vec<_>>(),
        "output": output(contest),
        "ended": contest.comparison.ended.as_ref().map(ended),
        "warnings": contest.comparison.failed_cleanups.iter().map(Error::to_string).collect::<Vec<_>>(),
    });
    pretty(&value)
}

fn arm_json(contest: &Contest<'_>, arm: usize) -> Value {
    let mut value = command(&contest.results(arm));
    if let Value::Object(object) = &mut value {
        object.insert("name".to_owned(), Value::from(contest.arms[arm].name.clone()));
        object.insert("steps".to_owned(), steps(contest.report(arm)));
        object.insert("interrupted".to_owned(), json!(contest.report(arm).interrupted));
        // Without a run there are no counts; the reason is in the notes of the comparison.
        if let Some(code) = contest.arms[arm].code.as_ref().filter(|code| code.runs > 0) {
            object.insert("by".to_owned(), series_json(code));
        }
    }
    value
}

fn reference(contest: &Contest<'_>) -> Value {
    let failed = contest.reference_failures().count();
    match &contest.reference {
        Reference::First => {
            json!({ "kind": "command", "command": 0, "file": null, "failed_runs": failed, "notes": [] })
        }
        Reference::Baseline { file, command, notes, .. } => {
            json!({ "kind": "baseline", "command": command, "file": file, "failed_runs": failed, "notes": notes })
        }
    }
}

fn versus(versus: &Versus) -> Value {
    let mut value = json!({
        "command": versus.arm,
        "metrics": versus.metrics.iter().map(compared).collect::<Vec<_>>(),
        "gates": versus.gates.iter().map(gate).collect::<Vec<_>>(),
    });
    if let (Some(code), Value::Object(object)) = (&versus.code, &mut value) {
        object.insert("by".to_owned(), code.json());
    }
    value
}

fn compared(one: &Compared) -> Value {
    json!({
        "name": one.name,
        "unit": one.unit,
        "finding": one.finding.word(),
        "basis": one.basis.map(Basis::word),
        "n": n(one.basis),
        "change": one.change.map(change),
        "p": optional(one.p),
        "q": optional(one.q),
        "drift": optional(one.drift),
        "reason": one.reason,
        "a": statistics(&one.a),
        "b": statistics(&one.b),
    })
}

/// Pairs, or the runs of A and of B.
fn n(basis: Option<Basis>) -> Value {
    match basis {
        Some(Basis::Pairs(pairs)) => json!([pairs]),
        Some(Basis::Apart(a, b)) => json!([a, b]),
        _ => Value::Null,
    }
}

fn change(change: MetricChange) -> Value {
    json!({
        "is_relative": change.is_relative,
        "estimate": optional(Some(change.estimate)),
        "low": optional(change.interval.map(|(low, _)| low)),
        "high": optional(change.interval.map(|(_, high)| high)),
    })
}

fn gate(gate: &GateOutcome) -> Value {
    json!({
        "condition": gate.gate,
        "ruling": gate.ruling.word(),
        "reason": super::delta::obstacle(&gate.ruling),
        "metric": compared(&gate.compared),
    })
}

fn output(contest: &Contest<'_>) -> Value {
    json!({ "checked": contest.output_checked, "difference": contest.output_difference })
}

fn ended(ended: &EarlyEnd) -> Value {
    let kind = match ended {
        EarlyEnd::Budget => "budget",
        EarlyEnd::Interrupted(_) => "interrupted",
        EarlyEnd::Failed(_) => "failed",
        _ => "stopped",
    };
    json!({ "kind": kind, "text": super::delta::ended(ended) })
}

/// The keys of a machine that are the same where numbers can be compared.
pub const FINGERPRINT: [&str; 6] = ["os", "architecture", "vendor", "cpu_id", "cpu_name", "core_types"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{against_baseline, contest, shown};

    fn schema() -> jsonschema::Validator {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/compare-1.json"));
        jsonschema::validator_for(&serde_json::from_str(&text.unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn comparisons_obey_the_schema() {
        shown(|machine, comparison| {
            for contest in [contest(machine, comparison), against_baseline(machine, comparison)] {
                let value: Value = serde_json::from_str(&render(&contest)).unwrap();
                let schema = schema();
                let errors: Vec<String> =
                    schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
                assert_eq!(errors, [""; 0]);
            }
        });
    }

    #[test]
    fn the_schema_refuses_what_it_does_not_know() {
        shown(|machine, comparison| {
            let good: Value = serde_json::from_str(&render(&contest(machine, comparison))).unwrap();
            for (pointer, key, value) in [
                ("", "environment", json!({})),
                ("/comparisons/0/metrics/0", "finding", json!("better")),
                ("/comparisons/0/metrics/0", "p", json!(2)),
                ("/design", "kind", json!("blocked")),
            ] {
                let mut bad = good.clone();
                let object = bad.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
                object.insert(key.to_owned(), value);
                assert!(!schema().is_valid(&bad), "{pointer} {key}");
            }
        });
    }
}
