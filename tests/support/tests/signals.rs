//! Test programs take the default action of every signal, whatever their parent ignores.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::process::Command;

// A program that uses any part of the crate is reset.
use cyclometer_test_support::one_line;

/// The variable that makes [`program`] answer.
const ASKED: &str = "CYCLOMETER_TEST_SIGNALS";

/// Rust's runtime ignores SIGPIPE, and the C library keeps the first two real-time signals to itself.
const NOT_OURS: u64 = 1 << 12 | 0b11 << 31;

fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(&one_line(mask), 16).unwrap()
}

/// The test program that the others start.
#[test]
fn program() {
    if std::env::var_os(ASKED).is_some() {
        assert_eq!(ignored() & !NOT_OURS, 0);
        // Where SIGCHLD is ignored, the end of a child is not known.
        assert_eq!(Command::new("sh").args(["-c", "exit 7"]).status().unwrap().code(), Some(7));
        assert_eq!(Command::new("sh").args(["-c", "kill -INT $$"]).status().unwrap().code(), None);
    }
}

#[test]
fn a_test_program_starts_with_default_signals_where_its_parent_ignores_them() {
    let own = std::env::current_exe().unwrap();
    for signals in ["HUP", "INT QUIT", "CHLD", "HUP INT QUIT PIPE CHLD TERM USR1 TSTP"] {
        let script = format!("trap '' {signals}; exec \"$0\" --exact program");
        let out = Command::new("sh").args(["-c", &script]).arg(&own).env(ASKED, "yes").output().unwrap();
        assert!(out.status.success(), "{signals}: {out:?}");
    }
}
