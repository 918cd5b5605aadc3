//! `doctor`, `cpus`, `list`, `completions` and `man` from the outside.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use serde_json::Value;
use support::{run, schema, stderr, stdout};

#[test]
fn help_and_version_succeed_on_standard_output() {
    for arguments in [&["--version"][..], &["--help"], &["stat", "--help"], &["doctor", "-h"]] {
        let out = run(arguments);
        assert_eq!(out.status.code(), Some(0), "{arguments:?}");
        assert!(!stdout(&out).is_empty() && stderr(&out).is_empty(), "{arguments:?}");
    }
    assert!(stdout(&run(&["--help"])).contains("124      --strict"));
}

#[test]
fn help_fits_a_narrow_terminal_and_groups_its_options() {
    for arguments in [
        &["--help"][..],
        &["stat", "-h"],
        &["stat", "--help"],
        &["list", "-h"],
        &["compare", "-h"],
        &["compare", "--help"],
    ] {
        let text = stdout(&run(arguments));
        let wide = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{arguments:?}");
    }
    let text = stdout(&run(&["stat", "-h"]));
    for heading in ["What and how often:", "The command:", "Results:", "Exit status:"] {
        assert!(text.lines().any(|line| line.starts_with(heading)), "{heading} in {text}");
    }
    assert!(stderr(&run(&[])).contains("Usage: cyclometer"), "help is shown where no command is given");
}

#[test]
fn no_command_and_unknown_ones_are_errors_of_usage() {
    for arguments in [&[][..], &["frobnicate"], &["completions", "no-shell"], &["man", "no-command"]] {
        let out = run(arguments);
        assert_eq!(out.status.code(), Some(125), "{arguments:?}");
        assert!(stdout(&out).is_empty() && !stderr(&out).is_empty(), "{arguments:?}");
    }
}

#[test]
fn the_diagnosis_of_this_machine_obeys_its_schema() {
    let out = run(&["doctor", "--json"]);
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let schema = schema("doctor-1.json");
    let errors: Vec<String> =
        schema.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
    let ladder = value["ladder"].as_array().unwrap();
    let accounts = ladder.iter().find(|state| state["rung"] == "os").unwrap();
    assert_eq!(accounts["works"], "yes");
}

#[test]
fn a_recorded_machine_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.txt");
    let path = path.to_str().unwrap();
    let recorded = run(&["doctor", "--json", "--record", path]);
    assert_eq!(recorded.status.code(), Some(0), "{recorded:?}");
    for command in ["doctor", "cpus", "list"] {
        let here = run(&[command, "--json"]);
        let replayed = run(&[command, "--json", "--machine", path]);
        assert_eq!(stdout(&here), stdout(&replayed), "{command}");
    }
}

#[test]
fn every_recorded_machine_can_be_diagnosed() {
    let schema = schema("doctor-1.json");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let path = path.to_str().unwrap();
        let value: Value =
            serde_json::from_str(&stdout(&run(&["doctor", "--json", "--machine", path]))).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|e| e.to_string()).collect();
        assert_eq!(errors, [""; 0], "{path}");
        for command in ["doctor", "cpus"] {
            let text = stdout(&run(&[command, "--machine", path]));
            assert!(
                !text.is_empty() && text.lines().all(|line| line.chars().count() <= 80),
                "{path}: {text}"
            );
        }
        seen += 1;
    }
    assert!(seen >= 10, "{seen} machines in {folder}");
}

#[test]
fn recordings_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage");
    std::fs::write(&garbage, "\u{1b}[2J this is no recording\n").unwrap();
    for path in [garbage.to_str().unwrap(), "/no/such/recording", "/"] {
        let out = run(&["doctor", "--machine", path]);
        assert_eq!(out.status.code(), Some(125), "{path}: {out:?}");
        assert!(stderr(&out).starts_with("cyclometer: error: "), "{}", stderr(&out));
        assert!(!stderr(&out).contains('\u{1b}'));
    }
}

#[test]
fn events_are_found_by_part_and_by_pattern() {
    let names = |pattern: &str| -> Vec<String> {
        let value: Value = serde_json::from_str(&stdout(&run(&["list", pattern, "--json"]))).unwrap();
        let events = value.as_array().unwrap().iter();
        events.map(|event| event["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("WALL_TIME"), ["wall_time"]);
    assert!(names("*faults").contains(&"page-faults".to_owned()));
    let out = run(&["list", "no_such_event_at_all"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("no_such_event_at_all"));
}

#[test]
fn cpus_are_told_for_people_and_as_json() {
    assert!(stdout(&run(&["cpus"])).contains("counters: "));
    let value: Value = serde_json::from_str(&stdout(&run(&["cpus", "--json"]))).unwrap();
    assert!(!value["core_types"].as_array().unwrap().is_empty());
}

#[test]
fn completions_and_manual_come_from_the_definition() {
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&run(&["completions", shell])).contains("export-markdown"), "{shell}");
    }
    assert!(stdout(&run(&["man"])).contains(".TH cyclometer 1"));
    assert!(stdout(&run(&["man", "stat"])).contains("ignore\\-failure"));
}

#[test]
fn colour_is_used_only_when_asked_for() {
    assert!(!stdout(&run(&["doctor"])).contains('\u{1b}'));
    assert!(stdout(&run(&["doctor", "--color", "always"])).contains('\u{1b}'));
}
