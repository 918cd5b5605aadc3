//! `stat` with the software PMU, on real commands: the translated runs, and the remarks about them.
//!
//! Where tracing is not permitted, or there is a PMU that counts instead, the tests say so.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::{run, run_with, schema, software_pmu_works, stderr, stdout, text};

/// An event that no hardware has, so that these tests mean the same on every machine.
const EVENT: &str = "calls";

fn json(arguments: &[&str]) -> Value {
    let out = run_with(&["stat", "--json", "--output", "null"], arguments);
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let errors: Vec<String> = schema("stat-1.json").iter_errors(&value).map(|e| e.to_string()).collect();
    assert_eq!(errors, [""; 0], "{arguments:?}");
    value["commands"][0].clone()
}

fn launches(command: &Value) -> Vec<&str> {
    command["runs"].as_array().unwrap().iter().map(|run| run["launch"].as_str().unwrap()).collect()
}

/// The metric of an event, whatever modes its name shows.
fn metric<'a>(command: &'a Value, event: &str) -> &'a Value {
    let mut metrics = command["metrics"].as_array().unwrap().iter();
    metrics.find(|metric| metric["event"] == event).unwrap_or_else(|| panic!("no {event} in {command}"))
}

#[test]
fn a_named_event_translates_the_only_run_and_marks_its_times() {
    if !software_pmu_works() {
        return;
    }
    let command = json(&["-e", "calls,wall_time", "--", "true"]);
    assert_eq!(launches(&command), ["translated"]);
    let calls = metric(&command, EVENT);
    assert_eq!(
        (&calls["name"], &calls["count"], &calls["provenance"]),
        (&"calls:u".into(), &"exact".into(), &"counted".into())
    );
    assert!(calls["mean"].as_u64().unwrap() > 0, "{calls}");
    assert_eq!(metric(&command, "wall_time")["launch"], "translated");
    let out = run(&["stat", "-e", "calls,wall_time", "--", "true"]);
    assert!(text(&out).contains("true · 1 run, translated"), "{}", text(&out));
    assert!(text(&out).contains("≡ counted exactly by the software PMU"), "{}", text(&out));
}

/// The baselines that this machine has the features of, as the tool says.
fn baselines() -> Vec<&'static str> {
    let all = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"];
    let fails = |name: &&str| {
        let out = run(&["stat", "-e", EVENT, "--cpu-baseline", name, "--", "true"]);
        let lacks = text(&out).contains("is below the CPU baseline");
        assert_ne!(out.status.success(), lacks, "{}", text(&out));
        lacks
    };
    all.into_iter().filter(|name| !fails(name)).collect()
}

#[test]
fn a_command_is_told_of_the_processor_of_a_baseline() {
    if !software_pmu_works() {
        return;
    }
    let runs = |name: &str| {
        let arguments = [
            "-e",
            "simd_256,simd_512,instructions",
            "--cpu-baseline",
            name,
            "-r",
            "3",
            "--",
            "sort",
            "/etc/services",
        ];
        let command = json(&arguments);
        let told: Vec<&Value> =
            command["runs"].as_array().unwrap().iter().map(|run| &run["cpu_baseline"]).collect();
        assert_eq!(told, [&Value::from(name), &Value::from(name), &Value::Null]);
        let count = |event: &str| metric(&command, event)["mean"].as_u64().unwrap();
        (count("simd_256"), count("simd_512"))
    };
    for name in baselines() {
        let (half, full) = runs(name);
        assert_eq!(half > 0, ["x86-64-v3", "x86-64-v4"].contains(&name), "{name}: {half}");
        // The C library has better things than 512 bits on processors of that kind.
        assert!(full == 0 || name == "x86-64-v4", "{name}: {full}");
    }
}

#[test]
fn a_baseline_needs_a_name_that_there_is_and_something_to_translate() {
    let out = run(&["stat", "--cpu-baseline", "x86-64-v9", "--", "true"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(text(&out).contains("there are x86-64, x86-64-v2, x86-64-v3, x86-64-v4"), "{}", text(&out));
    for arguments in [&["-e", "task_clock"][..], &["--backend", "os"]] {
        let out = run_with(&["stat", "--cpu-baseline", "x86-64"], &[arguments, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{}", text(&out));
        assert!(text(&out).contains("there is none: name an event"), "{}", text(&out));
    }
}

#[test]
fn a_baseline_is_for_a_command_and_for_what_the_processor_has() {
    let pid = std::process::id().to_string();
    let out = run(&["stat", "-e", EVENT, "--cpu-baseline", "x86-64", "-p", &pid]);
    assert_eq!(out.status.code(), Some(125), "{}", text(&out));
    assert!(
        text(&out).contains("there is no command") && text(&out).contains("-- COMMAND"),
        "{}",
        text(&out)
    );
    let missing = |name: &&str| !baselines().contains(name);
    let Some(name) =
        software_pmu_works().then(|| ["x86-64-v4", "x86-64-v3"].into_iter().find(missing)).flatten()
    else {
        return;
    };
    let out = run(&["stat", "-e", EVENT, "--cpu-baseline", name, "--", "true"]);
    let highest = format!("the highest that it has all of is {}", baselines().last().unwrap());
    assert!(text(&out).contains(&highest), "{}", text(&out));
}

#[test]
fn the_only_run_of_the_default_events_stays_native() {
    let command = json(&["--", "true"]);
    assert_eq!(launches(&command), ["native"]);
    assert_eq!(metric(&command, "wall_time")["launch"], "native");
}

#[test]
fn a_line_says_how_to_count_where_there_is_no_pmu() {
    let command = json(&["--", "true"]);
    if !software_pmu_works() || !metric(&command, "instructions")["mean"].is_null() {
        return support::skip("there is a PMU, or no software PMU");
    }
    let out = run(&["stat", "--", "true"]);
    let hint = "to count instructions exactly, by translation: -e instructions, or -r 3";
    assert!(stderr(&out).contains(hint), "{}", stderr(&out));
    let command = json(&["-r", "3", "--", "true"]);
    assert_eq!(launches(&command), ["translated", "translated", "native"]);
    let instructions = metric(&command, "instructions");
    assert_eq!((&instructions["count"], &instructions["n"]), (&"exact".into(), &2.into()));
    assert_eq!(metric(&command, "wall_time")["n"], 1);
    assert!(metric(&command, "cycles")["mean"].is_null(), "nobody counts cycles");
}

#[test]
fn k_of_n_runs_are_counted_and_the_others_timed() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let script = format!("echo x >> {}", log.display());
    for (options, translated, n) in [
        (&["-r", "2"][..], 1, 2),
        (&["-r", "4"], 2, 4),
        (&["-r", "4", "--counted", "3"], 3, 4),
        (&["-r", "2", "--counted", "all"], 2, 2),
        (&["-r", "2", "-w", "1"], 1, 3),
    ] {
        fs::write(&log, "").unwrap();
        let events = ["-e", "calls,wall_time", "--", "sh", "-c", &script];
        let command = json(&[options, &events].concat());
        let runs = launches(&command);
        assert_eq!(runs.iter().filter(|launch| **launch == "translated").count(), translated, "{options:?}");
        assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), n, "{options:?}");
        assert_eq!(metric(&command, EVENT)["n"], translated, "{options:?}");
        let timed = if translated == runs.len() { translated } else { runs.len() - translated };
        assert_eq!(metric(&command, "wall_time")["n"], timed, "{options:?}");
    }
}

#[test]
fn the_command_keeps_its_streams_and_its_status() {
    if !software_pmu_works() {
        return;
    }
    let out = run_with(&["stat", "-e", EVENT, "--"], &["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((stdout(&out).as_str(), out.status.code()), ("out\n", Some(7)));
    assert!(stderr(&out).starts_with("err\n") && stderr(&out).contains("calls:u"), "{}", stderr(&out));
    let out = run_with(&["stat", "-e", EVENT, "--"], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(out.status.code(), Some(137), "{out:?}");
    for (command, code) in [("no_such_command_here", 127), ("/", 126)] {
        let out = run_with(&["stat", "-e", EVENT, "--"], &[command]);
        assert_eq!(out.status.code(), Some(code), "{out:?}");
    }
}

#[test]
fn descendants_are_counted_with_the_command() {
    if !software_pmu_works() {
        return;
    }
    let calls = |script: &str| {
        let command = json(&["-e", EVENT, "--", "sh", "-c", script]);
        metric(&command, EVENT)["mean"].as_u64().unwrap_or_else(|| panic!("{command}"))
    };
    let one = calls("/bin/true; exit 0");
    let three = calls("/bin/true; /bin/true; /bin/true; exit 0");
    assert!(three > one, "{three} of three, {one} of one");
}

/// Processes that a test leaves behind, by their ids in a file. They end with it.
struct ProcessesLeft(PathBuf);

impl Drop for ProcessesLeft {
    fn drop(&mut self) {
        let pids = fs::read_to_string(&self.0).unwrap_or_default();
        // One that has ended already is no fault.
        let _ = Command::new("kill").args(pids.split_whitespace()).output();
    }
}

#[test]
fn what_goes_on_behind_the_command_is_told_to_be_missing() {
    if !software_pmu_works() {
        return;
    }
    let script = |text: &str| metric(&json(&["-e", EVENT, "--", "sh", "-c", text]), EVENT).clone();
    assert_eq!(script("sleep 0.1 & wait")["count"], "exact");
    let folder = tempfile::tempdir().unwrap();
    let left = ProcessesLeft(folder.path().join("pids"));
    let waiting = format!("sleep 1000 >/dev/null 2>&1 & echo $! >> {};", left.0.display());
    let one = script(&waiting);
    assert_eq!((&one["count"], one["mean"].as_u64() > Some(0)), (&"partial".into(), true), "{one}");
    let reason = "without what a process did that still ran when the command had ended";
    assert!(one["reason"].as_str().is_some_and(|told| told.contains(reason)), "{one}");
    let out = run(&["stat", "-e", EVENT, "--", "sh", "-c", &waiting]);
    assert!(text(&out).contains("partial: ") && !text(&out).contains('≡'), "{}", text(&out));
    let two = script(&waiting.repeat(2));
    assert!(two["reason"].as_str().is_some_and(|told| told.contains("what 2 processes did")), "{two}");
}

#[test]
fn a_program_that_starts_threads_is_counted() {
    if !software_pmu_works() {
        return;
    }
    // The harness of this test runs every test in a thread of its own.
    let own = std::env::current_exe().unwrap();
    let arguments = ["--exact", "soft::a_test_for_another_test", "--test-threads", "2"];
    let command = json(&[&["-e", EVENT, "--", own.to_str().unwrap()][..], &arguments].concat());
    assert_eq!(command["runs"][0]["exit"], 0);
    let calls = metric(&command, EVENT);
    assert!(calls["mean"].as_u64().is_some_and(|mean| mean > 100), "{calls}");
}

#[test]
fn a_program_that_ignores_traps_runs_on_and_its_counts_are_lost() {
    if !software_pmu_works() {
        return;
    }
    let command = json(&["-e", EVENT, "--", "sh", "-c", "trap '' TRAP; exit 0"]);
    assert_eq!(command["runs"][0]["exit"], 0);
    let calls = metric(&command, EVENT);
    assert_eq!((&calls["count"], &calls["mean"]), (&"lost".into(), &Value::Null), "{calls}");
    assert!(calls["reason"].as_str().unwrap().contains("ignores SIGTRAP"), "{calls}");
}

#[test]
fn a_test_for_another_test() {}

#[test]
fn intervals_below_10_ms_are_refused_before_anything_runs() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("witness");
    let touch = ["--", "touch", witness.to_str().unwrap()];
    let out = run(&[&["stat", "-I", "9", "-e", EVENT][..], &touch].concat());
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("calls: the software PMU is read every 10 ms at most"), "{}", stderr(&out));
    assert!(!witness.exists(), "the command must not have run");
    let out = run(&["stat", "-I", "10", "-e", EVENT, "--", "sleep", "0.35"]);
    let rows = stderr(&out).lines().filter(|line| line.ends_with("calls:u")).count();
    assert!(out.status.success() && rows >= 3, "{}", stderr(&out));
}

#[test]
fn rows_of_a_program_that_is_translated_anew_add_up_to_its_count() {
    if !software_pmu_works() {
        return;
    }
    // It runs long enough to be retranslated by its execution profile, and is read while it runs.
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let arguments =
        ["--no-hints", "--backend", "soft", "-I", "100", "-e", EVENT, "--json", "--output", "null"];
    let out = run_with(&["stat"], &[&arguments[..], &["--", "sh", "-c", script]].concat());
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let total = metric(&value["commands"][0], EVENT)["mean"].as_u64().unwrap();
    let rows: Vec<u64> = stderr(&out).lines().filter_map(row).collect();
    assert!(rows.len() > 1, "{out:?}");
    assert_eq!(rows.iter().sum::<u64>(), total, "{out:?}");
}

/// The count of a row of `-I`.
fn row(line: &str) -> Option<u64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, count, event] = words[..] else { return None };
    event.starts_with(EVENT).then(|| count.replace(',', "").parse().ok())?
}

#[test]
fn strict_takes_its_counts_and_not_the_times_of_its_runs() {
    if !software_pmu_works() {
        return;
    }
    for (events, code) in [(EVENT, 0), ("calls,wall_time", 124), ("calls:k", 124)] {
        let out = run(&["stat", "--strict", "-e", events, "--", "true"]);
        assert_eq!(out.status.code(), Some(code), "{events}: {out:?}");
    }
    let out = run(&["stat", "--strict", "-r", "2", "-e", "calls,wall_time", "--", "true"]);
    assert_eq!(out.status.code(), Some(0), "a native run gives the time: {out:?}");
}

#[test]
fn what_it_cannot_count_is_said_and_not_zero() {
    let own = std::process::id().to_string();
    for (arguments, reason) in [
        (&["-e", "calls:k", "true"][..], "the software PMU sees user mode only"),
        (&["-p", &own, "-e", EVENT, "sleep", "0.05"], "the software PMU counts commands that it starts"),
    ] {
        if !software_pmu_works() {
            return;
        }
        let out = run_with(&["stat"], arguments);
        assert_eq!(out.status.code(), Some(0), "{out:?}");
        assert!(stderr(&out).contains(reason) && stderr(&out).contains("not supported"), "{}", stderr(&out));
    }
}

#[test]
fn the_software_pmu_alone_can_be_asked_for() {
    if !software_pmu_works() {
        return;
    }
    let command = json(&["--backend", "soft", "--", "true"]);
    assert_eq!(launches(&command), ["translated"]);
    let instructions = metric(&command, "instructions");
    assert_eq!((&instructions["count"], &instructions["source"]), (&"exact".into(), &"soft".into()));
    assert_eq!(metric(&command, "wall_time")["count"], "not_supported");
}

#[test]
fn more_counted_runs_than_runs_are_a_mistake() {
    let out = run(&["stat", "-r", "2", "--counted", "3", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("--counted 3 is more than there are runs (2)"), "{}", stderr(&out));
}
