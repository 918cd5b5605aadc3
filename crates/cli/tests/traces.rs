//! Checks that a session leaves nothing behind on the machine.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::cyclometer;

/// The settings that counting may tempt a program to change.
const SETTINGS: [&str; 3] = ["perf_event_paranoid", "nmi_watchdog", "perf_event_max_sample_rate"];

fn settings() -> Vec<Option<String>> {
    SETTINGS.iter().map(|name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()).collect()
}

/// The processes of a process group, zombies included, as `pid (name) state`.
fn members(group: u32) -> Vec<String> {
    let stats = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        // Processes come and go while we look.
        fs::read_to_string(entry.ok()?.path().join("stat")).ok()
    });
    stats.filter(|stat| group_of(stat) == Some(group)).map(|stat| stat.chars().take(60).collect()).collect()
}

/// The process group of a line of `/proc/PID/stat`: the third field behind the name (`proc_pid_stat(5)`).
fn group_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split_whitespace().nth(2)?.parse().ok()
}

fn within_a_minute(mut is_true: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(300);
    loop {
        if is_true() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `stat` with all its processes in a group of their own, in an empty folder; gives the exit code.
fn leaves_nothing(arguments: &[&str], meanwhile: impl FnOnce(&mut Child)) -> Option<i32> {
    let folder = tempfile::tempdir().unwrap();
    let before = settings();
    let mut child = cyclometer()
        .arg("stat")
        .args(arguments)
        .current_dir(folder.path())
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(
        within_a_minute(|| !members(child.id()).is_empty()),
        "the group is looked for in the wrong place"
    );
    meanwhile(&mut child);
    let status = child.wait().unwrap();
    let gone = within_a_minute(|| members(child.id()).is_empty());
    assert!(gone, "{arguments:?} left {:?}", members(child.id()));
    assert_eq!(settings(), before, "{arguments:?} changed one of {SETTINGS:?}");
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert!(files.is_empty(), "{arguments:?} left {files:?}");
    status.code()
}

fn terminate(child: &Child, witness: &Path) {
    assert!(within_a_minute(|| witness.exists()), "the command was not started");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn finished_runs_leave_nothing_behind() {
    assert_eq!(leaves_nothing(&["-r", "5", "--", "true"], |_| ()), Some(0));
}

#[test]
fn a_command_that_is_not_found_leaves_nothing_behind() {
    assert_eq!(leaves_nothing(&["-r", "3", "--", "no_such_command_here"], |_| ()), Some(127));
}

#[test]
fn an_aborted_session_leaves_nothing_behind() {
    let elsewhere = tempfile::tempdir().unwrap();
    let witness = elsewhere.path().join("started");
    // A process that the command itself starts and leaves running is its own affair, hence exec.
    let script = format!("touch '{}'; exec sleep 60", witness.display());
    let code = leaves_nothing(&["-r", "5", "--", "sh", "-c", &script], |child| terminate(child, &witness));
    assert_eq!(code, Some(128 + 15));
}

#[test]
fn the_group_is_read_behind_names_with_blanks_and_brackets() {
    assert_eq!(group_of("7 (a) b) Z 1 42 42 0"), Some(42));
}
