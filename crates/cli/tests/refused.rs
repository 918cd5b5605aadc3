//! The software PMU where tracing is restricted: the reason names the refused operation, and the remedy lifts
//! the restriction.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use support::{machine, run, skip, soft_state, software_pmu_is_first, software_pmu_works, stderr, unwrapped};

/// Each system call that the software PMU cannot do without.
const CALLS: [&str; 5] = ["ptrace", "process_vm_readv", "process_vm_writev", "memfd_create", "ftruncate"];

/// `EPERM`, `ENOSYS`, and death.
const PUNISHMENTS: [&str; 3] = ["1", "38", "0"];

/// An event that no hardware has, so that these tests mean the same on every machine.
const EVENT: &str = "calls";

/// The program of fixtures that refuses a system call; `None`, and a word why, where there is no compiler or
/// no such filter.
fn refuser() -> Option<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match BUILT.get_or_init(build_refuser) {
        Ok(built) => Some(built),
        Err(why) => {
            skip(why);
            None
        }
    }
}

/// Builds the program under a name that is always the same, so that the next run of the tests replaces it.
fn build_refuser() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/programs/refuse.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let draft = tempfile::Builder::new().tempfile_in(folder).unwrap().into_temp_path();
    let compiled = Command::new("cc").arg(source).arg("-o").arg(&draft).output();
    let compiled = compiled.map_err(|error| format!("cc: {error}"))?;
    assert!(compiled.status.success(), "{}", stderr(&compiled));
    let built = folder.join("refuse");
    draft.persist(&built).unwrap();
    let tried = Command::new(&built).args(["ptrace", "1", "true"]).output().unwrap();
    match tried.status.success() {
        true => Ok(built),
        false => Err(format!("no filter can be installed: {}", stderr(&tried))),
    }
}

/// Runs the tool where a system call is refused.
fn refused(refuser: &Path, call: &str, error: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(refuser);
    command.args([call, error, env!("CARGO_BIN_EXE_cyclometer")]).args(arguments);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_call_that_a_filter_refuses_is_named_in_the_table_and_by_doctor() {
    if !software_pmu_works() {
        return;
    }
    let Some(refuser) = refuser() else { return };
    for (call, error) in CALLS.into_iter().flat_map(|call| PUNISHMENTS.map(|error| (call, error))) {
        let expected = format!("a seccomp filter forbids {call}");
        let state = soft_state(&refused(refuser, call, error, &["doctor", "--json"]));
        assert_eq!((&state["works"], &state["causes"][0]["kind"]), (&"no".into(), &"seccomp".into()));
        assert!(state["causes"][0]["text"].as_str().unwrap().starts_with(&expected), "{state}");
        let out = refused(refuser, call, error, &["stat", "--backend", "soft", "-e", EVENT, "--", "true"]);
        let text = unwrapped(&out);
        assert_eq!(out.status.code(), Some(0), "the command itself ran: {text}");
        assert!(text.contains("not counted") && text.contains(&expected), "{call} {error}: {text}");
    }
}

#[test]
fn a_filter_on_limits_is_named_and_not_taken_for_a_limit() {
    if !software_pmu_works() {
        return;
    }
    let Some(refuser) = refuser() else { return };
    for error in ["1", "38"] {
        let state = soft_state(&refused(refuser, "prlimit64", error, &["doctor", "--json"]));
        let cause = &state["causes"][0];
        assert_eq!((&state["works"], &cause["kind"]), (&"no".into(), &"seccomp".into()), "{state}");
        let text = cause["text"].as_str().unwrap();
        assert!(text.starts_with("a seccomp filter forbids prlimit64"), "{text}");
    }
}

#[test]
fn a_machine_without_a_pmu_says_why_the_software_pmu_does_not_count() {
    if !software_pmu_is_first() {
        return;
    }
    let Some(refuser) = refuser() else { return };
    for list in ["instructions", "instructions,branches,page-faults"] {
        let text = unwrapped(&refused(refuser, "memfd_create", "1", &["stat", "-e", list, "--", "true"]));
        let expected = "the software PMU cannot count it: a seccomp filter forbids memfd_create";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("no PMU in this virtual machine"), "{text}");
    }
}

#[test]
fn a_refused_call_is_no_reason_where_the_software_pmu_could_not_count() {
    if !software_pmu_is_first() {
        return;
    }
    let Some(refuser) = refuser() else { return };
    let pid = std::process::id().to_string();
    let cases: [&[&str]; 7] = [
        &["-e", "instructions", "-p", &pid, "--", "sleep", "0.05"],
        &["-e", "instructions", "-t", &pid, "--", "sleep", "0.05"],
        &["-e", "instructions", "-a", "--", "sleep", "0.05"],
        &["-e", "instructions:k", "--", "true"],
        &["-e", "instructions:uk", "-r", "3", "--", "true"],
        &["-e", "instructions:G", "--", "true"],
        &["--", "true"],
    ];
    for arguments in cases {
        let arguments = [&["stat"], arguments].concat();
        for call in ["ptrace", "memfd_create"] {
            let text = unwrapped(&refused(refuser, call, "1", &arguments));
            let names_it = text.contains(call) || text.contains("the software PMU cannot count it");
            assert!(!names_it && text.contains("instructions"), "{call} {arguments:?}: {text}");
        }
    }
}

#[test]
fn the_line_of_what_is_not_counted_has_whole_reasons_and_remedies() {
    let Some(refuser) = refuser() else { return };
    let check = |call: &str, source: &str, arguments: &[&str]| {
        let doctor = machine(&refused(refuser, call, "1", &["doctor", "--json"]));
        let sources = doctor["ladder"].as_array().unwrap();
        let cause = &sources.iter().find(|state| state["rung"] == source).unwrap()["causes"][0];
        let remedy = cause["mend"].as_str().map(|mend| format!("; to permit it: {mend}")).unwrap_or_default();
        let expected = format!("{}{remedy}. `cyclometer doctor` says more", cause["text"].as_str().unwrap());
        let text = unwrapped(&refused(refuser, call, "1", arguments));
        assert!(text.contains(&expected), "{expected}: {text}");
    };
    check("perf_event_open", "perf", &["stat", "--", "true"]);
    if software_pmu_works() {
        check("ptrace", "soft", &["stat", "--backend", "soft", "--", "true"]);
        check("memfd_create", "soft", &["stat", "--backend", "soft", "-r", "3", "--", "true"]);
    }
}

#[test]
fn another_refused_call_keeps_the_software_pmu_from_nothing() {
    if !software_pmu_works() {
        return;
    }
    let Some(refuser) = refuser() else { return };
    let out = refused(refuser, "perf_event_open", "1", &["stat", "-e", EVENT, "--", "true"]);
    assert!(unwrapped(&out).contains("counted exactly by the software PMU"), "{}", unwrapped(&out));
}

/// Whether a program can be had that traces.
fn has_strace() -> bool {
    let found = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let found = found.is_ok_and(|out| out.status.success());
    if !found {
        skip("strace is not installed, or may not trace");
    }
    found
}

fn under_strace(options: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new("strace");
    command.args(options).args(["-o", "/dev/null", env!("CARGO_BIN_EXE_cyclometer")]).args(arguments);
    command.env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_tracer_that_follows_every_process_is_named() {
    if !software_pmu_works() || !has_strace() {
        return;
    }
    let out = under_strace(&["-f"], &["stat", "-e", EVENT, "--", "true"]);
    let said = unwrapped(&out);
    assert!(out.status.success(), "the command itself ran: {said}");
    assert!(said.contains("not counted") && said.contains("strace (process "), "{said}");
    let state = soft_state(&under_strace(&["-f"], &["doctor", "--json"]));
    let text = state["causes"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("strace (process ") && text.contains("traces every process"), "{state}");
}

#[test]
fn a_tracer_of_the_tool_alone_is_in_nobodys_way() {
    if !software_pmu_works() || !has_strace() {
        return;
    }
    let out = under_strace(&[], &["stat", "-e", EVENT, "--", "true"]);
    assert!(unwrapped(&out).contains("counted exactly by the software PMU"), "{}", unwrapped(&out));
    assert_eq!(soft_state(&under_strace(&[], &["doctor", "--json"]))["works"], "yes");
}

#[test]
fn the_tool_under_the_software_pmu_says_so_and_is_counted() {
    if !software_pmu_works() {
        return;
    }
    let own = env!("CARGO_BIN_EXE_cyclometer");
    let out = run(&["stat", "-e", EVENT, "--", own, "doctor"]);
    let text = unwrapped(&out);
    assert!(text.contains("it already counts this process and what that starts"), "{text}");
    assert!(text.contains("counted exactly by the software PMU"), "{text}");
}

#[test]
fn tracing_works_where_the_ends_of_children_are_ignored() {
    if !software_pmu_works() {
        return;
    }
    let own = env!("CARGO_BIN_EXE_cyclometer");
    let ignoring = |what: &str| {
        let script = format!("trap '' CHLD; exec '{own}' {what}");
        Command::new("sh").args(["-c", &script]).env("NO_COLOR", "1").output().unwrap()
    };
    assert_eq!(soft_state(&ignoring("doctor --json"))["works"], "yes");
    let counted = ignoring(&format!("stat -e {EVENT} -- true"));
    assert!(unwrapped(&counted).contains("counted exactly by the software PMU"), "{}", unwrapped(&counted));
    let failing = ignoring("stat --backend os -- sh -c 'exit 7'");
    assert_eq!(failing.status.code(), Some(7), "{}", unwrapped(&failing));
}
