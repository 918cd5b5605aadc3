//! JSON by `schemas/stat-1.json`.

use cyclometer_toolkit::core::count::CONFIDENCE;
use cyclometer_toolkit::core::exec::ExitStatus;
use cyclometer_toolkit::core::report::{FallbackStep, Run};
use cyclometer_toolkit::core::{Count, Plan, Report, Target};
use cyclometer_toolkit::stats::{
    DerivedSummary, DerivedValue, Failures, LineSummary, PartSummary, RunValue, Statistics,
};
use cyclometer_toolkit::{CommandSpec, MarkedRun, MarkedThread};
use serde_json::{Map, Number, Value, json};

use crate::regions::{CountedRegion, Regions, is_translated};
use crate::text::clean_os;
use crate::{Results, interval as rows_of_time, machine, target};

/// Version of the schema; it grows when a reader of the old one could fail.
pub const SCHEMA_VERSION: u32 = 1;

/// The results, ending with a line end. The environment is never part of them.
pub fn render(results: &Results<'_>) -> String {
    let report = results.report;
    let value = json!({
        "schema_version": SCHEMA_VERSION,
        "generator": concat!("cyclometer ", env!("CARGO_PKG_VERSION")),
        "machine": machine::json(results.machine),
        "commands": [command(results)],
        "steps": steps(report),
        "interrupted": report.interrupted,
    });
    pretty(&value)
}

/// One command with its runs and values.
pub fn command(results: &Results<'_>) -> Value {
    let report = results.report;
    let mut command = json!({
        "command": target::command_words(report),
        "target": target_json(report.target.as_ref()),
        "runs": report.runs.iter().map(run).collect::<Vec<_>>(),
        "sharing": sharing(&report.plan),
        "metrics": results.summary.lines.iter().map(metric).collect::<Vec<_>>(),
        "derived": results.summary.derived.iter().map(derived).collect::<Vec<_>>(),
        "failure": report.failure.as_ref().map(ToString::to_string),
        "failed_runs": Failures::of(report).count(),
        "streams": report.command.as_ref().map(streams),
    });
    if let Some(regions) = results.regions {
        extend(&mut command, json!({ "regions": regions_json(regions), "region_notes": regions.notes() }));
    }
    if let Some(intervals) = results.intervals {
        extend(&mut command, json!({ "intervals": rows_of_time::json(intervals) }));
    }
    if let Some(by_code) = results.by_code {
        extend(&mut command, json!({ "by": by_code.json() }));
    }
    command
}

fn streams(command: &CommandSpec) -> Value {
    let CommandSpec { stdin, stdout, stderr, .. } = command;
    json!({ "stdin": stdin.word(), "stdout": stdout.word(), "stderr": stderr.word() })
}

fn regions_json(regions: &Regions) -> Vec<Value> {
    fn runs(counted: &CountedRegion) -> impl Iterator<Item = (&MarkedRun, &Run)> {
        counted.region.runs.iter().zip(&counted.region.report.runs)
    }
    let region = |counted: &CountedRegion| {
        json!({
            "label": counted.region.label,
            "notes": counted.region.notes,
            "runs": runs(counted).map(|(run, of)| region_run(run, of, counted)).collect::<Vec<_>>(),
            "metrics": counted.summary.lines.iter().map(metric).collect::<Vec<_>>(),
            "derived": counted.summary.derived.iter().map(derived).collect::<Vec<_>>(),
        })
    };
    regions.all().iter().map(region).collect()
}

fn region_run(run: &MarkedRun, of: &Run, counted: &CountedRegion) -> Value {
    let thread = |thread: &MarkedThread| {
        json!({
            "pid": thread.pid,
            "tid": thread.tid,
            "calls": thread.calls,
            "ended": thread.ended,
            "time_ns": thread.time_ns,
            "values": counted.of_thread(thread).into_iter().map(|(name, value, count)| json!({
                "name": name,
                "value": optional(value),
                "count": count.verdict().word(),
                "reason": count.reason(),
            })).collect::<Vec<_>>(),
        })
    };
    json!({
        "run": run.run,
        "calls": run.calls,
        "ended": run.ended,
        "unmatched": run.unmatched,
        "time_ns": run.time_ns,
        "time_is_translated": is_translated(of),
        "threads": run.threads,
        "by_thread": run.by_thread.iter().map(thread).collect::<Vec<_>>(),
    })
}

/// The steps of recovery that were taken.
pub fn steps(report: &Report) -> Value {
    report.steps.iter().map(step).collect()
}

/// JSON over several lines.
pub fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn target_json(target: Option<&Target>) -> Value {
    let (kind, id, cpus, path) = match target {
        None | Some(Target::Child(_)) => ("command", None, None, None),
        Some(Target::ThisThread) => ("this_thread", None, None, None),
        Some(Target::Thread(tid)) => ("thread", Some(*tid), None, None),
        Some(Target::Process { pid, .. }) => ("process", Some(*pid), None, None),
        Some(Target::Cpus(cpus)) => ("cpus", None, Some(cpus.to_string()), None),
        Some(Target::Cgroup { path, cpus }) => {
            ("cgroup", None, Some(cpus.to_string()), Some(clean_os(path.as_os_str())))
        }
        Some(Target::Several(targets)) => return several_json(targets),
        Some(_) => ("other", None, None, None),
    };
    json!({ "kind": kind, "id": id, "cpus": cpus, "path": path })
}

/// Processes or threads that are counted together.
fn several_json(targets: &[Target]) -> Value {
    let each: Vec<Value> = targets.iter().map(|target| target_json(Some(target))).collect();
    let ids: Vec<&Value> = each.iter().map(|target| &target["id"]).collect();
    let is_thread = |target: &Target| matches!(target, Target::Thread(_));
    let kind = if targets.iter().any(is_thread) { "threads" } else { "processes" };
    json!({ "kind": kind, "id": null, "ids": ids, "cpus": null, "path": null })
}

/// How events shared counters; null where all of them fit at once.
fn sharing(plan: &Plan) -> Value {
    let sharing = &plan.sharing;
    if sharing.sets.len() < 2 {
        return Value::Null;
    }
    json!({
        "passes": sharing.sets.len(),
        "lower_bound": sharing.lower_bound,
        "because": sharing.because.as_deref().unwrap_or_default(),
        "turns": plan.is_rotated(),
        "contradictions": sharing.contradictions,
    })
}

fn run(run: &Run) -> Value {
    let (exit, signal) = match run.exit {
        Some(ExitStatus::Code(code)) => (Some(code), None),
        Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    json!({
        "index": run.index,
        "launch": run.launch.word(),
        "layout": run.layout.map(|layout| layout.word()),
        "cpu_baseline": run.cpu_baseline.map(|baseline| baseline.word()),
        "pass": run.pass,
        "exit": exit,
        "signal": signal,
        "dropped_because": run.dropped_because,
        "wall_ns": run.wall_ns,
    })
}

fn metric(line: &LineSummary) -> Value {
    let skipped =
        line.skipped.iter().map(|s| json!({ "source": s.rung.word(), "reason": s.reason.to_string() }));
    let mut out = json!({
        "name": line.name,
        "event": line.event,
        "requested": line.requested,
        "unit": line.unit.symbol(),
        "scope": line.scope.word(),
        "modes": line.modes.map(|modes| modes.to_string()),
        "count": line.verdict.word(),
        "provenance": line.provenance.map(|who| who.word()),
        "source": line.rung.map(|rung| rung.word()),
        "resolution": line.resolution,
        "reason": line.reason,
        "notes": line.notes,
        "launch": line.launch.map(|launch| launch.word()),
        "determinism": line.determinism.map(|determinism| determinism.word()),
        "skipped": skipped.collect::<Vec<_>>(),
    });
    extend(&mut out, statistics(&line.statistics));
    extend(&mut out, interval(line));
    extend(
        &mut out,
        json!({
            "values": line.values.iter().map(run_value).collect::<Vec<_>>(),
            "parts": line.parts.iter().map(part).collect::<Vec<_>>(),
        }),
    );
    out
}

fn run_value(value: &RunValue) -> Value {
    let (raw, enabled, running) = match &value.count {
        Count::Scaled { raw, time_enabled_ns, time_running_ns, .. } => {
            (Some(*raw), Some(*time_enabled_ns), Some(*time_running_ns))
        }
        _ => (None, None, None),
    };
    json!({
        "run": value.run,
        "pass": value.pass,
        "value": optional(value.value),
        "count": value.count.verdict().word(),
        "reason": value.count.reason(),
        "raw": raw,
        "time_enabled_ns": enabled,
        "time_running_ns": running,
        "half_width": optional(value.half_width),
        "turn": value.rotation_group,
    })
}

fn part(part: &PartSummary) -> Value {
    let mut out = json!({
        "pmu": part.pmu.as_deref().unwrap_or_default(),
        "share": optional(Some(part.share)),
        "count": part.verdict.word(),
        "reason": part.reason,
    });
    extend(&mut out, statistics(&part.statistics));
    if let Some(summand) = &part.summand {
        extend(&mut out, json!({ "event": summand }));
    }
    out
}

fn derived(metric: &DerivedSummary) -> Value {
    let mut out = json!({
        "name": metric.name,
        "requested": metric.requested,
        "asked": metric.asked,
        "unit": metric.unit.symbol(),
        "formula": metric.formula,
        "inputs": metric.inputs,
        "modes": metric.modes.map(|modes| modes.to_string()),
        "count": metric.verdict.word(),
        "provenances": metric.provenances.iter().map(|who| who.word()).collect::<Vec<_>>(),
        "reason": metric.reason,
    });
    extend(&mut out, statistics(&metric.statistics));
    extend(&mut out, json!({ "values": metric.values.iter().map(derived_value).collect::<Vec<_>>() }));
    out
}

fn derived_value(value: &DerivedValue) -> Value {
    json!({
        "run": value.run,
        "pass": value.pass,
        "value": optional(value.value),
        "count": value.verdict.word(),
        "reason": value.reason,
    })
}

/// Statistics of values.
pub fn statistics(statistics: &Statistics) -> Value {
    json!({
        "n": statistics.n,
        "mean": optional(statistics.mean),
        "stddev": optional(statistics.stddev),
        "median": optional(statistics.median),
        "min": optional(statistics.min),
        "max": optional(statistics.max),
        "outliers": statistics.outliers,
        "median_low": optional(statistics.median_interval.map(|(low, _)| low)),
        "median_high": optional(statistics.median_interval.map(|(_, high)| high)),
    })
}

/// The interval of the mean, where values were estimated; or why there is none.
fn interval(line: &LineSummary) -> Value {
    let (interval, reason) = match &line.interval {
        Some(Ok(interval)) => (Some(interval), None),
        Some(Err(reason)) => (None, Some(reason)),
        None => (None, None),
    };
    let interval = interval.map(|interval| {
        json!({
            "half_width": optional(Some(interval.half_width)),
            "confidence": CONFIDENCE,
            "concentrated": interval.concentrated,
        })
    });
    let reason = reason.map(|reason| reason.to_string());
    json!({ "interval": interval, "interval_reason": reason })
}

fn step(step: &FallbackStep) -> Value {
    json!({ "event": step.event, "refused": step.refused, "done": step.done })
}

/// Whole numbers without a point; a value that is no number becomes null.
pub fn optional(value: Option<f64>) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Some(value) if value.fract() == 0.0 && value.abs() <= EXACT => Value::from(value as i64),
        Some(value) => Number::from_f64(value).map_or(Value::Null, Value::Number),
        None => Value::Null,
    }
}

fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend::<Map<String, Value>>(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        Show, counted_runs, every_verdict, failing_runs, golden, hybrid, interrupted, metrics, one_run,
        rotated, several_runs, three_passes, translated_run,
    };

    fn schema() -> jsonschema::Validator {
        let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../schemas/stat-1.json"));
        jsonschema::validator_for(&serde_json::from_str(&text.unwrap()).unwrap()).unwrap()
    }

    fn parsed(show: &Show) -> Value {
        serde_json::from_str(&show.show(render)).unwrap()
    }

    #[test]
    fn every_report_obeys_the_schema() {
        let schema = schema();
        let shows = [
            every_verdict(1),
            every_verdict(3),
            failing_runs(),
            hybrid(),
            interrupted(),
            one_run(),
            several_runs(),
            translated_run(),
            counted_runs(),
            rotated(&[200, 220]),
            rotated(&[30]),
            rotated(&[1]),
            three_passes(),
        ];
        for show in shows {
            let value = parsed(&show);
            let errors: Vec<String> =
                schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert_eq!(errors, [""; 0]);
        }
    }

    #[test]
    fn metrics_that_were_asked_for_obey_the_schema_and_have_no_number_without_a_value() {
        let (show, requests) = metrics(3);
        let value: Value = serde_json::from_str(&show.show_with(&requests, render)).unwrap();
        assert!(schema().is_valid(&value));
        let derived = value["commands"][0]["derived"].as_array().unwrap();
        let state =
            |metric: &Value| (metric["count"].clone(), metric["mean"].is_number(), metric["asked"].clone());
        let states: Vec<_> = derived.iter().map(state).collect();
        let expected = ["exact", "exact", "scaled", "not_counted", "not_counted"];
        let expected = expected.map(|word| (json!(word), word != "not_counted", json!(true)));
        assert_eq!(states, expected);
        assert_eq!(
            derived[3]["reason"],
            "page_walks:u is missing: the PMU cpu does not have this event (ENOENT)"
        );
        assert_eq!(derived[4]["reason"], "#smt_on is not known on this machine");
    }

    #[test]
    fn the_schema_refuses_what_it_does_not_know_and_a_mean_beside_no_count() {
        let schema = schema();
        let good = parsed(&every_verdict(1));
        for (pointer, key, value) in [
            ("", "environment", json!({})),
            ("/machine", "hostname", json!("h")),
            ("/commands/0/metrics/0", "count", json!("fine")),
            ("/commands/0/runs/0", "index", json!(-1)),
        ] {
            let mut bad = good.clone();
            let object = bad.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
            object.insert(key.to_owned(), value);
            assert!(!schema.is_valid(&bad), "{pointer} {key}");
        }
        let mut bad = parsed(&rotated(&[200]));
        let metrics = bad.pointer_mut("/commands/0/metrics").unwrap().as_array_mut().unwrap();
        metrics[0]["interval"] = metrics[1]["interval"].clone();
        assert!(!schema.is_valid(&bad), "an interval beside an exact count");
        let mut bad = good;
        let metrics = bad.pointer_mut("/commands/0/metrics").unwrap().as_array_mut().unwrap();
        let lost = metrics.iter_mut().find(|metric| metric["count"] == "lost").unwrap();
        lost["mean"] = json!(0);
        assert!(!schema.is_valid(&bad), "a number where nothing was counted");
    }

    #[test]
    fn every_value_tells_how_the_command_was_run() {
        let value = parsed(&counted_runs());
        let command = &value["commands"][0];
        let launch = |i: usize| (&command["runs"][i]["launch"], &command["runs"][i]["layout"]);
        assert_eq!(launch(0), (&json!("translated"), &json!("fixed")));
        assert_eq!(launch(2), (&json!("native"), &Value::Null));
        let metric = |name: &str| {
            let metrics = command["metrics"].as_array().unwrap();
            metrics.iter().find(|metric| metric["name"] == name).unwrap().clone()
        };
        let instructions = metric("instructions:u");
        assert_eq!(instructions["provenance"], "counted");
        assert_eq!(instructions["launch"], "translated");
        assert_eq!((&instructions["n"], &instructions["determinism"]), (&json!(2), &json!("deterministic")));
        assert_eq!(metric("branches:u")["determinism"], "varies");
        let wall = metric("wall_time");
        assert_eq!(
            (&wall["launch"], &wall["n"], &wall["determinism"]),
            (&json!("native"), &json!(3), &Value::Null)
        );
        let lost = parsed(&translated_run());
        assert_eq!(lost["commands"][0]["metrics"][0]["launch"], "translated", "the time of a translated run");
        assert_eq!(lost["commands"][0]["metrics"][6]["launch"], Value::Null, "what was lost has no value");
    }

    #[test]
    fn an_estimate_has_an_interval_or_a_reason_and_nothing_else_has() {
        let metrics = |show: &Show| parsed(show)["commands"][0]["metrics"].as_array().unwrap().clone();
        for metric in metrics(&rotated(&[200])) {
            let interval = &metric["interval"];
            let scaled = metric["count"] == "scaled";
            assert_eq!(interval.is_object(), scaled, "{metric}");
            assert_eq!(metric["values"][0]["half_width"].is_number(), scaled);
            assert_eq!(metric["interval_reason"], Value::Null);
        }
        for metric in metrics(&rotated(&[30])).iter().chain(&metrics(&every_verdict(1))) {
            let scaled = metric["count"] == "scaled";
            assert_eq!(metric["interval"], Value::Null);
            assert_eq!(metric["interval_reason"].is_string(), scaled, "{metric}");
        }
    }

    #[test]
    fn how_events_shared_counters_is_told_where_they_did() {
        let sharing = |show: &Show| parsed(show)["commands"][0]["sharing"].clone();
        assert_eq!(sharing(&several_runs()), Value::Null);
        let passes = sharing(&three_passes());
        assert_eq!(
            (&passes["passes"], &passes["lower_bound"], &passes["turns"]),
            (&json!(3), &json!(2), &json!(false))
        );
        assert_eq!(sharing(&rotated(&[30]))["turns"], json!(true));
    }

    #[test]
    fn what_was_not_counted_is_null_and_not_zero() {
        let value = parsed(&every_verdict(1));
        let metrics = value["commands"][0]["metrics"].as_array().unwrap();
        let uncounted: Vec<&Value> = metrics
            .iter()
            .filter(|metric| ["lost", "not_counted", "not_supported"].iter().any(|w| metric["count"] == *w))
            .collect();
        assert_eq!(uncounted.len(), 3);
        for metric in uncounted {
            assert!(metric["mean"].is_null() && metric["reason"].is_string(), "{metric}");
        }
    }

    #[test]
    fn numbers_keep_their_kind() {
        assert_eq!(optional(Some(3.0)), json!(3));
        assert_eq!(optional(Some(0.5)), json!(0.5));
        assert_eq!(optional(Some(f64::NAN)), Value::Null);
        assert_eq!(optional(None), Value::Null);
    }

    #[test]
    fn a_report_is_written_out_in_full() {
        golden("several.json", &several_runs().show(render));
    }
}
