//! `stat -M` and `list --metrics` from the outside.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use serde_json::Value;
use support::{cyclometer, stderr, stdout};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_metric_that_cannot_be_counted_says_why_in_every_format() {
    // Only the operating system's accounting: no counts, wherever this runs.
    let out = cyclometer()
        .args([
            "stat",
            "-M",
            "ipc,cpu_utilization",
            "--backend",
            "os",
            "--json",
            "--output",
            "null",
            "--",
            "true",
        ])
        .output()
        .unwrap();
    let value = json(&stdout(&out));
    let derived = value["commands"][0]["derived"].as_array().unwrap().clone();
    assert_eq!(derived[0]["asked"], true);
    assert_eq!((&derived[0]["count"], &derived[0]["mean"]), (&Value::from("not_counted"), &Value::Null));
    assert!(derived[0]["reason"].as_str().unwrap().contains("instructions"), "{derived:?}");
    assert_eq!(derived[1]["name"], "cpu_utilization");
    assert!(derived[1]["mean"].is_number(), "{derived:?}");
    let out = cyclometer().args(["stat", "-M", "ipc", "--backend", "os", "--", "true"]).output().unwrap();
    assert!(stderr(&out).contains("not countable"), "{}", stderr(&out));
}

#[test]
fn a_metric_without_a_value_is_not_strict() {
    let with = |metric: &str| {
        let arguments = ["stat", "-M", metric, "--backend", "os", "--strict", "--", "true"];
        cyclometer().args(arguments).output().unwrap().status.code()
    };
    assert_eq!(with("ipc"), Some(124));
}

#[test]
fn metrics_without_other_events_count_only_what_they_need() {
    let out = cyclometer()
        .args(["stat", "-M", "cpu_utilization", "--json", "--output", "null", "--", "true"])
        .output()
        .unwrap();
    let value = json(&stdout(&out));
    let metrics = value["commands"][0]["metrics"].as_array().unwrap().clone();
    let names: Vec<&str> = metrics.iter().filter_map(|metric| metric["name"].as_str()).collect();
    assert_eq!(names, ["user_time", "system_time", "wall_time"]);
}

#[test]
fn an_unknown_metric_is_refused_before_anything_runs() {
    let out = cyclometer().args(["stat", "-M", "ipk", "--", "touch", "/nonexistent/file"]).output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    let text = stderr(&out);
    assert!(text.contains("'ipk'") && text.contains("ipc"), "{text}");
}

#[test]
fn metrics_of_any_cpu_are_listed_with_their_formulas() {
    let out =
        cyclometer().args(["list", "--metrics", "TopdownL1", "--cpu", "amdzen5", "--json"]).output().unwrap();
    let all = json(&stdout(&out));
    let names: Vec<&str> =
        all.as_array().unwrap().iter().filter_map(|metric| metric["name"].as_str()).collect();
    assert_eq!(names, ["frontend_bound", "bad_speculation", "backend_bound", "smt_contention", "retiring"]);
    assert_eq!(all[4]["events"], serde_json::json!(["ls_not_halted_cyc", "ex_ret_ops"]));
    let out = cyclometer().args(["list", "--metrics", "--cpu", "amdzen55"]).output().unwrap();
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("amdzen5"), "{}", stderr(&out));
    let out = cyclometer().args(["list", "--metrics", "--cpu", "amdzen5", "--fixed"]).output().unwrap();
    assert_eq!(out.status.code(), Some(125), "metrics have no counters");
}

#[test]
fn a_pattern_that_no_metric_fits_points_to_the_list_of_metrics() {
    for (cpu, expected) in [
        (&[][..], "`cyclometer list --metrics` shows"),
        (&["--cpu", "amdzen5"], "--metrics --cpu amdzen5` shows"),
    ] {
        let out = cyclometer().args(["list", "--metrics", "nosuch"]).args(cpu).output().unwrap();
        assert_eq!(out.status.code(), Some(125));
        let text = stderr(&out);
        assert!(text.contains("no metric fits 'nosuch'") && text.contains(expected), "{text}");
    }
}
