//! `selftest` from the outside: the software PMU's counts of loops of known length, and the report about
//! them.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use serde_json::Value;
use support::{run, schema, skip, stderr, stdout};

fn section<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let sections = report["sections"].as_array().unwrap();
    sections.iter().find(|section| section["kind"] == kind).unwrap()
}

/// The report of a test, which must obey its schema.
fn valid(text: &str) -> Value {
    let report: Value = serde_json::from_str(text).unwrap();
    let errors: Vec<String> =
        schema("selftest-1.json").iter_errors(&report).take(3).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    report
}

/// Checks that every kernel executes the instructions of its source: the software PMU, which does not know
/// the kernels, counts them.
#[test]
fn the_software_pmu_counts_the_known_number_of_everything_in_every_loop() {
    let out = run(&["selftest", "--backend", "soft", "--json"]);
    if stderr(&out).contains("cannot be tested") {
        skip("the software PMU does not work here: loops of known length are not counted");
        return;
    }
    let report = valid(&stdout(&out));
    let events = section(&report, "translated")["events"].as_array().unwrap();
    assert_eq!(events.len(), 13);
    for event in events {
        assert_eq!(event["verdict"], "exact", "{event}");
        let measurements = event["measurements"].as_array().unwrap();
        assert!(measurements.len() >= 10, "{event}");
        let somewhere = measurements.iter().any(|one| one["expected"].as_u64().unwrap() > 0);
        assert!(somewhere, "{} is 0 in every loop, so nothing was tried", event["event"]);
    }
    assert_eq!((out.status.code(), &report["truth"]), (Some(0), &Value::Bool(true)));
}

#[test]
fn software_events_tell_the_truth_and_a_report_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let out = run(&["selftest", "--backend", "perf", "--report", file.to_str().unwrap()]);
    if stderr(&out).contains("cannot be tested") {
        skip("there are no perf events here: selftest counts none");
        return;
    }
    let report = valid(&std::fs::read_to_string(&file).unwrap());
    let wrong = report["wrong"].as_array().unwrap();
    assert_eq!(out.status.code(), Some(i32::from(!wrong.is_empty())), "{}", stderr(&out));
    let software = section(&report, "software");
    if software["absent"].is_null() {
        let events = software["events"].as_array().unwrap();
        // Without the right to count the kernel, events are counted in user mode; context switches are not
        // counted there.
        let is = |event: &Value, name: &str| event["event"] == name || event["event"] == format!("{name}:u");
        let of = |name: &str| events.iter().find(|event| is(event, name)).unwrap();
        for name in ["task-clock", "page-faults", "context-switches"] {
            let denied = name == "context-switches" && of("page-faults")["event"] == "page-faults:u";
            let verdict = if denied { "not_counted" } else { "plausible" };
            assert_eq!(of(name)["verdict"], verdict, "{events:?}");
        }
    }
    assert!(stdout(&out).contains("the kernel's software events (perf)"), "{}", stdout(&out));
}

/// The report is anonymous: it contains neither the user nor the host nor anything of the environment.
#[test]
fn a_report_names_no_user_no_host_and_nothing_of_the_environment() {
    let secret = "hedgehog-4711";
    let mut command = support::cyclometer();
    command
        .args(["selftest", "--backend", "perf", "--report", "-"])
        .env("SECRET", secret)
        .env("USER", secret);
    let out = command.output().unwrap();
    if stderr(&out).contains("cannot be tested") {
        skip("there are no perf events here: selftest writes no report");
        return;
    }
    let text = stdout(&out);
    valid(&text);
    assert!(!text.contains(secret));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert!(host.trim().len() < 6 || !text.contains(host.trim()), "{text}");
}

/// Whether a process catches a signal.
#[cfg(target_os = "linux")]
fn catches(pid: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let set = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set & (1 << (signal - 1)) != 0)
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupted_test_reports_what_it_has() {
    use std::os::unix::process::CommandExt;
    use std::process::Stdio;
    // A terminal sends SIGINT and SIGQUIT to the whole group.
    let everything = [
        ("-INT", 2, true),
        ("-QUIT", 3, true),
        ("-QUIT", 3, false),
        ("-TERM", 15, false),
        ("-HUP", 1, false),
    ];
    // Where a core is written.
    let folder = tempfile::tempdir().unwrap();
    for (signal, number, whole_group) in everything {
        let mut child = support::cyclometer()
            .args(["selftest", "--backend", "soft", "--json"])
            .process_group(0)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let has_ended = |child: &mut std::process::Child| child.try_wait().unwrap().is_some();
        while !catches(child.id(), number) && !has_ended(&mut child) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let whom = format!("{}{}", if whole_group { "-" } else { "" }, child.id());
        let sent = std::process::Command::new("kill").args([signal, "--", &whom]).status().unwrap();
        let out = child.wait_with_output().unwrap();
        if stderr(&out).contains("cannot be tested") {
            skip("the software PMU does not work here: no test is interrupted");
            return;
        }
        assert!(sent.success());
        assert_eq!(out.status.code(), Some(128 + number), "{signal}: {}", stderr(&out));
        let report = valid(&stdout(&out));
        assert_eq!(report["interrupted"], number);
        let events = section(&report, "translated")["events"].as_array().unwrap();
        let why = format!("interrupted by signal {number}");
        assert!(!events.is_empty() && events.iter().all(|event| event["why"] == why), "{events:?}");
    }
}

#[test]
fn what_cannot_be_tested_is_an_error_with_a_remedy() {
    for (words, said) in [
        (&["selftest", "--backend", "msr"][..], "does not count threads"),
        (&["selftest", "--kernel", "nothing:5"][..], "loops are additions"),
        (&["selftest", "--report", "/no/such/folder/report.json"][..], "/no/such/folder/report.json"),
        (&["selftest", "--json", "--report", "x.json"][..], "cannot be used with"),
    ] {
        let out = run(words);
        assert_eq!(out.status.code(), Some(125), "{words:?}");
        assert!(stderr(&out).contains(said), "{words:?}: {}", stderr(&out));
    }
}
