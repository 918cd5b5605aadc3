//! `advise`: findings, files of results, histories, errors.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use support::{cyclometer, has, run, schema, skip, stderr, stdout};

fn checked(text: &str, name: &str) -> Value {
    let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    schema(name).validate(&json).unwrap_or_else(|error| panic!("{error}: {json:#}"));
    json
}

fn names(json: &Value) -> Vec<&str> {
    json["findings"].as_array().unwrap().iter().map(|finding| finding["rule"].as_str().unwrap()).collect()
}

/// A file with these facts.
fn facts(folder: &Path, facts: &[(&str, f64, &str)]) -> PathBuf {
    let facts: Vec<Value> = facts
        .iter()
        .map(
            |(name, value, origin)| json!({ "name": name, "value": value, "origin": origin, "reason": null }),
        )
        .collect();
    let path = folder.join("advice.json");
    fs::write(&path, json!({ "schema_version": 1, "command": ["./a b"], "facts": facts }).to_string())
        .unwrap();
    path
}

const FAULTS: &[(&str, f64, &str)] = &[
    ("wall_time", 2e9, "kernel"),
    ("user_time", 5e8, "kernel"),
    ("system_time", 1e9, "kernel"),
    ("minor_faults", 1e6, "kernel"),
];

#[test]
fn a_short_command_gives_advice_by_the_schema_and_says_what_was_not_measured() {
    let out = run(&["advise", "--json", "--", "true"]);
    assert!(out.status.success(), "{}", stderr(&out));
    let json = checked(&stdout(&out), "advise-1.json");
    assert_eq!(json["command"], json!(["true"]));
    assert_eq!(json["executions"][0], "native");
    let not_measured = json["not_measured"].as_array().unwrap();
    let lacks = |rule: &str| {
        let found = not_measured.iter().find(|one| one["rule"] == rule);
        found.map(|one| one["needs"].to_string())
    };
    // The windows of a command that does nothing are too few; on a busy machine it may last long enough.
    let facts = json["facts"].as_array().unwrap();
    let is_modelled = |fact: &Value| fact["name"] == "modelled_mispredictions" && fact["value"].is_number();
    let needs = lacks("branch-mispredictions").unwrap_or_default();
    let has_reason = needs.contains("too short") || needs.contains("did not run");
    assert!(has_reason || facts.iter().any(is_modelled), "{needs}");
    assert!(stderr(&out).contains("runs several times: native, counted, modelled"), "{}", stderr(&out));
}

#[test]
fn one_execution_is_native_and_the_rest_is_said_to_be_missing() {
    let out = run(&["advise", "--json", "--runs", "1", "--", "true"]);
    let json = checked(&stdout(&out), "advise-1.json");
    assert_eq!(json["executions"], json!(["native"]));
    let reason = json["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == "atomics").unwrap();
    assert_eq!((&reason["value"], &reason["reason"]), (&Value::Null, &json!("this execution was not made")));
}

#[test]
fn results_of_a_file_are_judged_again_and_the_table_fits() {
    let folder = tempfile::tempdir().unwrap();
    let path = facts(folder.path(), FAULTS);
    let out = run(&["advise", "--json", path.to_str().unwrap()]);
    let json = checked(&stdout(&out), "advise-1.json");
    assert_eq!(names(&json), ["page-faults"]);
    assert_eq!(json["from_file"], true);
    assert!(json["findings"][0]["next"][0].as_str().unwrap().ends_with("-- './a b'"), "{json:#}");
    let again = folder.path().join("again.json");
    fs::write(&again, stdout(&out)).unwrap();
    let again = run(&["advise", "--json", again.to_str().unwrap()]);
    assert_eq!(checked(&stdout(&again), "advise-1.json")["findings"], json["findings"]);
    let table = stdout(&run(&["advise", path.to_str().unwrap()]));
    assert!(table.contains("1. The program spends its time in page faults"), "{table}");
    let is_long = |line: &&str| line.chars().count() > 80 && !line.contains("next:");
    assert_eq!(table.lines().find(is_long), None);
}

#[test]
fn nothing_stands_out_where_no_number_is_beyond_its_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let mut quiet = FAULTS.to_vec();
    (quiet[2].1, quiet[3].1) = (1e6, 10.0);
    let out = run(&["advise", facts(folder.path(), &quiet).to_str().unwrap()]);
    assert!(stdout(&out).contains("Nothing stands out"), "{}", stdout(&out));
    assert!(out.status.success());
}

#[test]
fn a_command_that_fails_passes_its_status_on() {
    if !has("sh") {
        return skip("there is no sh");
    }
    let out = run(&["advise", "--", "sh", "-c", "exit 3"]);
    assert_eq!(out.status.code(), Some(3), "{}", stderr(&out));
    assert!(stdout(&out).contains("the native run of the command failed"), "{}", stdout(&out));
}

/// A program of threads, of this C source.
fn compiled(folder: &Path, text: &str) -> PathBuf {
    let (source, program) = (folder.join("a.c"), folder.join("a"));
    fs::write(&source, text).unwrap();
    let made =
        Command::new("gcc").args(["-O1", "-pthread", "-w", "-o"]).args([&program, &source]).status().unwrap();
    assert!(made.success());
    program
}

#[test]
fn threads_that_wait_in_a_system_call_outlive_the_windows() {
    if !has("gcc") {
        return skip("there is no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(
        folder.path(),
        "#include <pthread.h>\n#include <unistd.h>\n\
        static volatile long x; static int ends[2];\n\
        static void *wait(void *a) { char c; read(ends[0], &c, 1); return 0; }\n\
        static void *work(void *a) { for (long i = 0; i < 100000000; i++) x++; write(ends[1], \"\", 1); return 0; }\n\
        int main() { pthread_t one, other; pipe(ends); pthread_create(&one, 0, wait, 0);\n\
        pthread_create(&other, 0, work, 0); pthread_join(one, 0); pthread_join(other, 0); return 0; }\n",
    );
    let out = cyclometer().args(["advise", "--json", "--"]).arg(&program).output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let json = checked(&stdout(&out), "advise-1.json");
    assert_eq!(json["failed"], json!({ "exit": null, "signal": null }), "{}", json["notes"]);
}

#[test]
fn a_command_that_fails_in_the_last_execution_only_passes_its_status_on() {
    if !has("sh") {
        return skip("there is no sh");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "n=$(cat n 2>/dev/null); n=$((n + 1)); echo $n > n; test $n -lt 3 || exit 4";
    let out = cyclometer()
        .args(["advise", "--json", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let json = checked(&stdout(&out), "advise-1.json");
    let executions = json["executions"].as_array().unwrap();
    if !executions.contains(&json!("modelled")) || executions.len() < 3 {
        return skip("not every execution works here");
    }
    assert_eq!(out.status.code(), Some(4), "{}", stderr(&out));
    assert!(
        json["notes"].to_string().contains("the modelled run of the command failed"),
        "{}",
        json["notes"]
    );
}

#[test]
fn a_process_that_ends_under_its_threads_ends() {
    if !has("gcc") {
        return skip("there is no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <pthread.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        static volatile long x; static long n;\n\
        static void *end(void *a) { for (long i = 0; i < n; i++) x++; exit(0); }\n\
        static void *spin(void *a) { for (;;) x++; }\n\
        int main(int c, char **v) { pthread_t t; n = 20000000; pthread_create(&t, 0, spin, 0);\n\
        pthread_create(&t, 0, spin, 0); pthread_create(&t, 0, end, 0); for (;;) pause(); }\n";
    let program = compiled(folder.path(), text);
    let out = cyclometer().args(["advise", "--json", "--"]).arg(&program).output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let json = checked(&stdout(&out), "advise-1.json");
    let threads =
        json["facts"].as_array().unwrap().iter().find(|fact| fact["name"] == "most_threads").unwrap();
    assert!(threads["value"].is_null() || threads["value"].as_f64() >= Some(2.0), "{threads}");
}

#[test]
fn the_odd_run_of_a_history_is_named_with_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..12 {
        let instructions = if n == 7 { 1.2e6 } else { 1e6 + f64::from(n * 37 % 11) };
        let metric = |event: &str, value: f64| json!({ "event": event, "mean": value, "provenance": "counted", "launch": "translated" });
        let mut metrics =
            vec![metric("instructions", instructions), metric("loads", 5e5 + f64::from(n * 53 % 13) * 100.0)];
        metrics.push(
            json!({ "event": "page-faults", "mean": 80.0, "provenance": "kernel", "launch": "translated" }),
        );
        let results = json!({ "schema_version": 1, "commands": [{ "command": ["a"], "metrics": metrics }] });
        fs::write(folder.path().join(format!("{n:02}.json")), results.to_string()).unwrap();
    }
    fs::write(folder.path().join("notes.txt"), "no run").unwrap();
    let path = folder.path().to_str().unwrap();
    let json = checked(&stdout(&run(&["advise", "--json", "--history", path])), "advise-history-1.json");
    assert_eq!(json["unlike"].as_array().unwrap().len(), 1, "{json:#}");
    assert_eq!(json["unlike"][0]["run"], "07.json");
    assert_eq!(json["unlike"][0]["counters"][0]["counter"], "instructions");
    let table = stdout(&run(&["advise", "--history", path]));
    assert!(table.contains("1 of 12 runs unlike the others, by 2 counters"), "{table}");
    assert!(table.contains("07.json"), "{table}");
    // Those of a translated run are the translation's.
    assert_eq!(json["left_out"], json!(["page_faults"]));
    assert!(table.contains("page_faults"), "{table}");
}

#[test]
fn a_history_of_one_counter_names_one() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..8 {
        let metric =
            json!({ "event": "loads", "mean": 1e6 + f64::from(n * 37 % 11), "provenance": "counted" });
        let results = json!({ "schema_version": 1, "commands": [{ "command": ["a"], "metrics": [metric] }] });
        fs::write(folder.path().join(format!("{n}.json")), results.to_string()).unwrap();
    }
    let table = stdout(&run(&["advise", "--history", folder.path().to_str().unwrap()]));
    assert!(table.starts_with("0 of 8 runs unlike the others, by 1 counter\n"), "{table}");
}

#[test]
fn a_recording_is_judged_by_its_totals_also_when_it_ends_early() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.cyc");
    let path = path.to_str().unwrap();
    let events = "user_time,system_time,page-faults";
    let made = run(&["record", "-q", "-I", "50", "-e", events, "-o", path, "--", "sleep", "0.2"]);
    if !made.status.success() {
        return skip("nothing can be recorded here");
    }
    let json = checked(&stdout(&run(&["advise", "--json", path])), "advise-1.json");
    assert_eq!((&json["command"], &json["from_file"]), (&json!(["sleep", "0.2"]), &json!(true)));
    let names = |json: &Value| -> Vec<String> {
        let facts = json["facts"].as_array().unwrap();
        facts.iter().map(|fact| fact["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(
        ["user_time", "page_faults", "wall_time"].iter().all(|name| names(&json).iter().any(|n| n == name))
    );
    // A program that does nothing has no page faults that cost.
    assert_eq!(json["findings"], json!([]));
    let bytes = fs::read(path).unwrap();
    let cut = folder.path().join("cut.cyc");
    fs::write(&cut, &bytes[..bytes.len() - 9]).unwrap();
    let json = checked(&stdout(&run(&["advise", "--json", cut.to_str().unwrap()])), "advise-1.json");
    assert!(json["notes"].to_string().contains("ends early"), "{json:#}");
    assert!(names(&json).contains(&"page_faults".to_owned()), "{json:#}");
    fs::write(&cut, [&bytes[..20], &[7; 40][..]].concat()).unwrap();
    let out = run(&["advise", cut.to_str().unwrap()]);
    let text = support::unwrapped(&out);
    assert_eq!(out.status.code(), Some(125), "{text}");
    assert!(text.contains("cut.cyc"), "{text}");
}

#[test]
fn results_of_cpus_are_judged_by_the_names_that_they_have() {
    let folder = tempfile::tempdir().unwrap();
    let metric = |event: &str, value: f64| json!({ "event": event, "mean": value, "provenance": "kernel", "launch": "native" });
    let metrics = [
        metric("user_time", 2e8),
        metric("system_time", 1.8e9),
        metric("wall_time", 1e9),
        metric("page-faults", 1.5e6),
    ];
    let target = json!({ "kind": "cpus", "id": null, "cpus": "0-1", "path": null });
    let command = json!({ "command": ["sleep", "1"], "target": target, "metrics": metrics });
    let path = folder.path().join("cpus.json");
    fs::write(&path, json!({ "schema_version": 1, "commands": [command] }).to_string()).unwrap();
    let json = checked(&stdout(&run(&["advise", "--json", path.to_str().unwrap()])), "advise-1.json");
    assert_eq!(names(&json)[0], "page-faults", "{json:#}");
    // The finding is no finding about the command in whose time the CPUs were measured.
    assert_eq!(json["command"], json!([]));
    assert!(json["notes"][0].as_str().unwrap().contains("the CPUs 0-1"), "{json:#}");
}

#[test]
fn errors_name_the_file_and_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, wrong) = (folder.path().join("none"), folder.path().join("wrong.json"));
    fs::create_dir(&empty).unwrap();
    fs::write(&wrong, "{").unwrap();
    for (arguments, message, help) in [
        (&["advise"][..], "nothing to advise on", "--history"),
        (&["advise", "/no/such.json"], "cannot read /no/such.json", "there is no such file"),
        (&["advise", wrong.to_str().unwrap()], "it is not JSON", "stat --export-json"),
        (
            &["advise", "--history", empty.to_str().unwrap()],
            "has 0 runs, and 8 are needed",
            "stat --export-json",
        ),
        (&["advise", "--history", "/no/such"], "/no/such", "--history"),
    ] {
        let out = run(arguments);
        let text = support::unwrapped(&out);
        assert_eq!(out.status.code(), Some(125), "{arguments:?}: {text}");
        assert!(text.contains(message) && text.contains(help), "{arguments:?}: {text}");
    }
    assert_eq!(run(&["advise", "--runs", "4", "--", "true"]).status.code(), Some(125));
    assert_eq!(run(&["advise", "--", "/no/such/program"]).status.code(), Some(127));
}

/// Whether a process exists and has not ended.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    !matches!(state, None | Some("Z" | "X"))
}

fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|id| id.trim() != "0"))
}

/// Asks again and again, for a minute at most.
fn within_time<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while std::time::Instant::now() < end {
        if let Some(found) = ask() {
            return Some(found);
        }
        std::thread::sleep(std::time::Duration::from_micros(500));
    }
    None
}

#[test]
fn a_tool_that_is_killed_in_a_window_takes_the_program_with_it() {
    if !has("gcc") {
        return skip("there is no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    // The trap of a step would not end this program. Its third execution works until it is killed.
    let program = compiled(
        folder.path(),
        "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        static volatile long x; static void trap(int n) { (void)n; }\n\
        int main() { signal(SIGTRAP, trap); alarm(150); FILE *f = fopen(\"pids\", \"a+\"); int n = 0, c;\n\
        while ((c = fgetc(f)) != EOF) n += c == '\\n'; fprintf(f, \"%d\\n\", getpid()); fclose(f);\n\
        for (long i = 0; n >= 2 || i < 200000000; i++) x++; return 0; }\n",
    );
    let mut tool = cyclometer()
        .args(["advise", "--json", "--"])
        .arg(&program)
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let send = |signal: &str, pid: u32| {
        Command::new("kill")
            .args([signal, &pid.to_string()])
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap()
    };
    let third = || fs::read_to_string(folder.path().join("pids")).ok()?.lines().nth(2)?.parse::<u32>().ok();
    let id = tool.id();
    // The tool is stopped for the look, so that its window does not end meanwhile.
    let stepped = within_time(|| {
        let pid = third().filter(|pid| is_traced(*pid))?;
        send("-STOP", id);
        std::thread::sleep(std::time::Duration::from_millis(20));
        let found = Some(pid).filter(|pid| is_traced(*pid));
        found.is_none().then(|| send("-CONT", id));
        found
    });
    tool.kill().unwrap();
    tool.wait().unwrap();
    let has_ended = stepped.map(|pid| within_time(|| (!is_alive(pid)).then_some(())).is_some());
    if let Some(pid) = third() {
        send("-KILL", pid);
    }
    match has_ended {
        Some(has_ended) => assert!(has_ended, "the program outlived its tracer"),
        None => skip("the program was not stepped"),
    }
}
