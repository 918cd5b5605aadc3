//! `reverse`: verdicts on the events of simulated chips, and questions that make no sense.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs;

use serde_json::Value;
use support::{cyclometer, run, schema, stderr, stdout};

const HIDDEN: &str = "cyclometer-semantics 1
0x20 counters=0x0e0 counts stores
0x21 counters=0x3fc counts conditional-branches + calls
0x22 counters=0x3fc counts stores at-most 1 per cycle
";

fn reversed(options: &[&str]) -> Value {
    let out = run(&[&["reverse", "--json", "--repeats", "2"], options].concat());
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let errors: Vec<String> = schema("reverse-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

fn event(report: &Value, code: u64) -> &Value {
    report["events"].as_array().unwrap().iter().find(|event| event["code"] == code).unwrap()
}

#[test]
fn documented_events_of_a_chip_are_found_out_with_their_counters() {
    let report = reversed(&["--machine", "sim:apple-m1", "--ids", "0x8d,0x95,0x0d,0xff"]);
    let loads = event(&report, 0x95);
    assert_eq!((loads["verdict"].as_str(), loads["text"].as_str()), (Some("A"), Some("loads")));
    assert_eq!(loads["counters"], serde_json::json!(["5", "6", "7"]));
    assert_eq!(loads["documented"][0]["name"], "INST_INT_LD");
    assert_eq!(event(&report, 0x8d)["text"], "branches");
    let faults = &event(&report, 0x0d)["hypotheses"];
    assert_eq!(faults[0]["sum"], "faults", "its published label is another: {faults}");
    assert_eq!(event(&report, 0xff)["verdict"], "E");
    assert_eq!(report["control"]["identified"], 0);
}

#[test]
fn hidden_meanings_are_found_out_and_those_that_are_no_sums_are_never_identified() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hidden.txt");
    fs::write(&file, HIDDEN).unwrap();
    let options = ["--machine", "sim:apple-m1", "--semantics", file.to_str().unwrap(), "--ids", "0x20-0x22"];
    let report = reversed(&options);
    assert_eq!(event(&report, 0x20)["text"], "stores");
    assert_eq!(event(&report, 0x20)["counters"], serde_json::json!(["5", "6", "7"]));
    assert_eq!(event(&report, 0x21)["text"], "conditional-branches + calls");
    assert_ne!(event(&report, 0x22)["verdict"], "A", "{}", event(&report, 0x22));
    assert_eq!(event(&report, 0x20)["documented"], serde_json::json!([]), "names say nothing here");
    let again = reversed(&options);
    assert_eq!(report, again, "a seed repeats everything");
}

#[test]
fn identified_events_are_a_file_that_stat_counts_by() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (hidden, events) = (path("hidden.txt"), path("found.txt"));
    fs::write(&hidden, HIDDEN).unwrap();
    let machine = ["--machine", "sim:apple-m1", "--semantics", &hidden];
    reversed(&[&machine[..], &["--ids", "0x20-0x22", "--export-events", &events]].concat());
    let written = fs::read_to_string(&events).unwrap();
    assert!(written.contains("stores_0x20 event=0x20 counters=0xe0\n"), "{written}");
    assert!(!written.contains("0x22"), "it is no sum: {written}");
    let list = "stores_0x20,conditional_branches_plus_calls_0x21";
    let options = ["stat", "--json", "--events", &events, "-e", list, "--workload", "loop:1"];
    let out = run(&[&options[..], &machine].concat());
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().all(|metric| metric["mean"].as_f64().is_some_and(|n| n > 0.0)), "{report}");
}

#[test]
fn the_table_fits_on_a_terminal_and_counts_every_verdict() {
    let out = run(&["reverse", "--machine", "sim:skylake", "--ids", "0xc4,0xd0,0x81d0", "--repeats", "2"]);
    let text = stdout(&out);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("moved by no kernel") && text.contains("0x81d0"), "{text}");
}

#[test]
fn questions_that_make_no_sense_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad"), "cyclometer-semantics 1\n0x20 counts nonsense\n").unwrap();
    for (options, said) in [
        (&[][..], "name a simulated machine"),
        (&["--machine", "apple-m1"], "is no machine to sweep"),
        (&["--machine", "sim:nonsense"], "nonsense"),
        (&["--machine", "sim:apple-m1", "--ids", "0xff-0x00"], "is no code and no range"),
        (&["--machine", "sim:apple-m1", "--ids", "0x1000"], "0x1000"),
        (&["--machine", "sim:apple-m1", "--repeats", "0"], "--repeats"),
        (&["--machine", "sim:apple-m1", "--semantics", "bad"], "line 2"),
        (&["--machine", "sim:apple-m1", "--semantics", "missing"], "missing"),
    ] {
        let out = cyclometer().arg("reverse").args(options).current_dir(folder.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
    let dry = run(&["reverse", "--machine", "sim:apple-m1", "--dry-run"]);
    assert!(stdout(&dry).contains("256 codes") && stdout(&dry).contains("nothing was swept"), "{dry:?}");
}
