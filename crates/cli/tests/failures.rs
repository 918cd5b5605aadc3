//! Problems that must not pass for a good measurement: runs that failed, and shell syntax that no shell
//! reads.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use support::{cyclometer, run_with, schema, stderr, stdout};

const STAT: [&str; 7] = ["stat", "--backend", "os", "-e", "wall_time", "-r", "3"];

const COMPARE: [&str; 9] = ["compare", "--backend", "os", "-e", "page-faults", "-p", "2", "-w", "0"];

/// A condition that never holds.
const GATE: [&str; 2] = ["--fail-if", "page-faults > +1G"];

fn compare(folder: &Path, options: &[&str]) -> Output {
    cyclometer().current_dir(folder).args(COMPARE).args(options).output().unwrap()
}

fn obeys(value: &Value, name: &str) {
    let errors: Vec<String> = schema(name).iter_errors(value).map(|e| e.to_string()).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn failures_that_are_ignored_are_counted_in_every_format() {
    let with = |options: &[&str]| run_with(&STAT, &[options, &["-i", "--", "sh", "-c", "exit 2"]].concat());
    let out = with(&[]);
    assert_eq!(out.status.code(), Some(0));
    let table = stdout(&out);
    assert!(table.contains("· 3 runs, all failed\n"), "{table}");
    assert!(table.contains("all 3 runs failed (exit status 2)"), "{table}");
    let value: Value = serde_json::from_str(&stdout(&with(&["--json"]))).unwrap();
    assert_eq!(value["commands"][0]["failed_runs"], 3);
    obeys(&value, "stat-1.json");
    let markdown = stdout(&with(&["--export-markdown", "-"]));
    assert!(markdown.contains("**all 3 runs failed (exit status 2)**"), "{markdown}");
    let csv = stdout(&with(&["--export-csv", "-"]));
    assert!(csv.lines().nth(1).unwrap().ends_with(",3"), "{csv}");
}

#[test]
fn some_failures_and_signals_are_told_apart_from_good_runs() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("n");
    // The first run is good, the second exits with 7, the third is killed.
    let script = r#"echo >> "$0"; case $(wc -l < "$0" | tr -d ' ') in 2) exit 7;; 3) kill -KILL $$;; esac"#;
    let out = run_with(&STAT, &["-i", "--", "sh", "-c", script, counter.to_str().unwrap()]);
    let table = stdout(&out);
    assert!(table.contains("· 3 runs, 2 of them failed\n"), "{table}");
    assert!(table.contains("2 of 3 runs failed (1 with exit status 7, 1 with signal 9)"), "{table}");
    let out = run_with(&STAT, &["-i", "--", "true"]);
    assert!(!stdout(&out).contains("failed"), "{}", stdout(&out));
}

#[test]
fn commands_that_both_fail_are_told_to_in_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let both = ["-i", "false", "false"];
    let with = |options: &[&str]| stdout(&compare(folder.path(), &[options, &both].concat()));
    let table = with(&[]);
    assert_eq!(table.matches("false · 2 runs, all failed\n").count(), 2, "{table}");
    assert!(table.contains("A false · both runs failed\nB false · both runs failed\n"), "{table}");
    let markdown = with(&["--export-markdown", "-"]);
    assert_eq!(markdown.matches("**both runs failed (exit status 1)**").count(), 2, "{markdown}");
    let csv = with(&["--export-csv", "-"]);
    assert!(csv.lines().next().unwrap().ends_with(",a_failed,b_failed"), "{csv}");
    assert!(csv.lines().nth(1).unwrap().ends_with(",2,2"), "{csv}");
    let value: Value = serde_json::from_str(&with(&["--export-json", "-"])).unwrap();
    assert_eq!(
        (&value["commands"][1]["failed_runs"], &value["reference"]["failed_runs"]),
        (&2.into(), &2.into())
    );
    obeys(&value, "compare-1.json");
}

#[test]
fn a_gate_decides_over_failures_only_when_they_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    for commands in [["false", "false"], ["true", "false"], ["false", "true"]] {
        let with = |options: &[&str]| compare(folder.path(), &[options, &GATE, &["-i"], &commands].concat());
        for options in [&[][..], &["-q"]] {
            let out = with(options);
            assert_eq!(out.status.code(), Some(125), "{commands:?} {out:?}");
            let text = stdout(&out) + &stderr(&out);
            assert!(
                text.contains("impossible") && text.contains("both runs failed (exit status 1)"),
                "{text}"
            );
            assert!(support::one_line(&text).contains("--accept-failures"), "{text}");
        }
        assert_eq!(with(&["-q", "--accept-failures"]).status.code(), Some(0), "{commands:?}");
    }
    let out = compare(folder.path(), &[&GATE[..], &["-q", "-i", "true", "true"]].concat());
    assert_eq!(out.status.code(), Some(0), "-i alone is no failure: {out:?}");
}

#[test]
fn a_gate_over_any_program_exits_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    // Conditions that every change meets, and that none does.
    let (holds, does_not) = ("wall_time > -99.9999%", "wall_time < -99.9999%");
    let accepted = ["-i", "--accept-failures"];
    for (options, gate, commands, code) in [
        (&[][..], holds, ["seq 9", "factor 97"], 1),
        (&[], does_not, ["seq 9", "factor 97"], 0),
        (&[], does_not, ["factor 97", "expr 1 - 1"], 125),
        (&["-i"], holds, ["factor 97", "expr 1 - 1"], 125),
        (&["-i"], does_not, ["expr 1 - 1", "seq 9"], 125),
        (&accepted, holds, ["expr 1 - 1", "seq 9"], 1),
        (&accepted, does_not, ["expr 1 - 1", "factor 97"], 0),
    ] {
        // Six pairs are the fewest that decide.
        let six = ["compare", "--backend", "os", "-e", "wall_time", "-w", "0", "-p", "6", "--fail-if", gate];
        for quiet in [&[][..], &["-q"]] {
            let words = [&six[..], options, quiet, &commands].concat();
            let out = cyclometer().current_dir(folder.path()).args(&words).output().unwrap();
            assert_eq!(out.status.code(), Some(code), "{words:?}: {out:?}");
        }
    }
}

#[test]
fn failures_in_baselines_are_read_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let saved = compare(folder.path(), &["-q", "-i", "--save-baseline", "own.json", "--", "false"]);
    assert_eq!(saved.status.code(), Some(0), "{saved:?}");
    assert!(stderr(&saved).contains("warning: the baseline own.json: both runs failed"), "{saved:?}");
    let stat = ["stat", "--backend", "os", "-e", "page-faults", "-i", "-q", "--export-json"];
    run_with(&stat, &[at("stat.json").to_str().unwrap(), "--", "false"]);
    let one = r#"{"results": [{"command": "x", "times": [1, 1, 1], "memory_usage_byte": [1, 1, 1], "exit_codes": [0, 1, 0]}]}"#;
    fs::write(at("hyperfine-1.json"), one).unwrap();
    let two = r#"{"schema_version": 2, "results": [{"command": "x", "measurements": [
        {"time_wall_clock": {"value": 1}, "memory_peak_resident": {"value": 1}, "exit_code": null}]}]}"#;
    fs::write(at("hyperfine-2.json"), two).unwrap();
    for (name, metric, told) in [
        ("own.json", "page-faults", "both runs failed (exit status 1)"),
        ("stat.json", "page-faults", "the run failed (exit status 1)"),
        ("hyperfine-1.json", "wall_time", "1 of 3 runs failed (exit status 1)"),
        ("hyperfine-2.json", "wall_time", "the run failed (an unknown status)"),
    ] {
        let gate = format!("{metric} > -99%");
        let options = ["-e", metric, "--baseline", name, "--fail-if", &gate];
        let out = compare(folder.path(), &[&options[..], &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{name}: {out:?}");
        assert!(stdout(&out).contains(told), "{name}: {}", stdout(&out));
        assert!(!stdout(&out).contains("FAILED"), "{name}: {}", stdout(&out));
        let out =
            compare(folder.path(), &[&options[..], &["--accept-failures", "-q", "--", "true"]].concat());
        assert!(matches!(out.status.code(), Some(0 | 1)), "{name}: {out:?}");
    }
}

#[test]
fn shell_syntax_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (words, named) in [
        (&["touch ran < x", "touch ran"][..], "has an unquoted '<'"),
        (&["touch ran", "touch ran > x"], "has an unquoted '>'"),
        (&["touch ran 2>/dev/null", "touch ran"], "has an unquoted '2>'"),
        (&["touch ran | cat", "touch ran"], "has an unquoted '|'"),
        (&["touch ran && true", "touch ran"], "has an unquoted '&&'"),
        (&["touch ran; true", "touch ran"], "has an unquoted ';'"),
        (&["FOO=1 touch ran", "touch ran"], "begins with 'FOO='"),
        (&["touch ran *", "touch ran"], "has an unquoted '*'"),
        (&["touch ran ~/x", "touch ran"], "has an unquoted '~'"),
        (&["touch ran # x", "touch ran"], "has an unquoted '#'"),
        (&["touch ran \"$HOME\"", "touch ran"], "has '$HOME' in double quotes"),
        (&["--setup", "(touch ran)", "true", "true"], "--setup '(touch ran)'"),
        (&["--prepare", "touch ran > x", "true", "true"], "--prepare 'touch ran > x'"),
        (&["--setup", "touch ran; true", "true", "true"], "--setup 'touch ran; true'"),
        (&["--cleanup", "X=1 touch ran", "true", "true"], "--cleanup 'X=1 touch ran'"),
        (&["--conclude", "touch ran &", "--save-baseline", "b", "--", "true"], "--conclude 'touch ran &'"),
    ] {
        let out = compare(folder.path(), words);
        assert_eq!(out.status.code(), Some(125), "{words:?}: {out:?}");
        let text = stderr(&out);
        assert!(text.contains(named), "{words:?}: {text}");
        assert!(text.contains("help: have a shell run") && text.contains("-S"), "{words:?}: {text}");
        assert!(!folder.path().join("ran").exists(), "{words:?}");
    }
    let out = compare(folder.path(), &["-S", "echo > x", "test -e x || true"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let out = compare(folder.path(), &["touch '<' 'a;b'", r"touch \> x"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(folder.path().join("<").exists() && folder.path().join("a;b").exists());
}
