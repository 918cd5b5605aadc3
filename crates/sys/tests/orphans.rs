//! Orphans that this process adopts. The test has a process of its own, because adoption cannot be undone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::process::Command;

use cyclometer_sys::process::{Reap, SIGKILL, Status, adopt_orphans, reap, signal};
// Default signals.
use cyclometer_test_support as _;

#[test]
fn what_a_command_leaves_behind_becomes_our_child() {
    adopt_orphans().unwrap();
    let script = "sleep 60 >/dev/null 2>&1 & echo $!";
    let out = Command::new("sh").args(["-c", script]).output().unwrap();
    let orphan: u32 = String::from_utf8(out.stdout).unwrap().trim().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{orphan}/stat")).unwrap();
    let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
    assert_eq!(parent, std::process::id().to_string());
    signal(orphan, SIGKILL).unwrap();
    let ended = reap(orphan, Reap::Block).unwrap().unwrap();
    assert_eq!(ended.status, Status::Signal(SIGKILL));
}
