//! The program itself. Cargo builds it for this file, and `cargo xtask ci` takes it for emulated machines.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;

#[test]
fn a_region_without_a_case_is_refused() {
    // Never without an argument: as process 1, the program mounts file systems and switches the machine off.
    let mut command = Command::new(env!("CARGO_BIN_EXE_cyclometer-guest"));
    let out = command.args(["regions", "no such case"]).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("no such case"), "{out:?}");
}
