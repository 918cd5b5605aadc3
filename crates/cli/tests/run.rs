//! `run`: programs whose own regions are counted, also where there is no PMU.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stdout, reason = "a program under test prints what it counted")]

use crate::support;

use std::process::Command;

use cyclometer_toolkit::Monitor;
use support::{run, stderr, stdout};

/// Set for the program that counts itself, which is this test program.
const COUNTS_ITSELF: &str = "CYCLOMETER_TEST_COUNTS_ITSELF";

/// Rounds of the region that is counted. Each has a branch and an addition at least.
const ROUNDS: u64 = 100_000;

#[test]
fn a_program_that_counts_itself() {
    if std::env::var_os(COUNTS_ITSELF).is_none() {
        return;
    }
    let monitor = Monitor::builder().event("instructions,calls").build().unwrap();
    for rounds in [0, ROUNDS, 2 * ROUNDS] {
        monitor.measure(&format!("{rounds}"), || (0..rounds).for_each(|n| _ = std::hint::black_box(n)));
    }
    for region in monitor.regions() {
        let [instructions, calls] = [0, 1].map(|event| {
            let count = &region.values[event].count;
            format!("{count:?} {}", count.reason().unwrap_or_default())
        });
        println!("{} {instructions} {calls}", region.label);
    }
}

fn counting_itself(start: &[&str]) -> String {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(start.first().map_or_else(|| program.as_os_str(), AsRef::as_ref));
    if !start.is_empty() {
        command.args(&start[1..]).arg(&program);
    }
    command.args(["--exact", "run::a_program_that_counts_itself", "--nocapture"]).env(COUNTS_ITSELF, "1");
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    stdout(&out)
}

fn exact(text: &str, label: &str, event: usize) -> u64 {
    let row = text.lines().find_map(|line| line.strip_prefix(&format!("{label} "))).unwrap();
    let number = row.split("Exact(").nth(event + 1).unwrap_or_else(|| panic!("{text}"));
    number.split(')').next().unwrap().parse().unwrap()
}

#[test]
fn regions_of_a_program_are_counted_without_a_pmu() {
    if !support::software_pmu_is_first() {
        return support::skip("there is a PMU, or no software PMU");
    }
    let native = counting_itself(&[]);
    assert!(native.contains("`cyclometer run -- PROGRAM` counts it"), "{native}");
    let text = counting_itself(&[env!("CARGO_BIN_EXE_cyclometer"), "run", "--"]);
    let [none, one, two] = ["0", "100000", "200000"].map(|rounds| exact(&text, rounds, 0));
    assert_eq!(two - one, one - none, "each round is the same: {text}");
    assert!(one - none >= 2 * ROUNDS, "{text}");
    let named = counting_itself(&[env!("CARGO_BIN_EXE_cyclometer"), "run", "-e", "instructions", "--"]);
    assert_eq!(exact(&named, "100000", 0) - exact(&named, "0", 0), one - none);
}

#[test]
fn the_program_has_its_streams_its_arguments_and_its_exit_status() {
    let out =
        run(&["run", "--", "sh", "-c", "echo out; echo err >&2; echo \"$#\"; exit 7", "a", "b c", "--"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(7), "out\n2\n"));
    assert!(stderr(&out).ends_with("err\n"), "{}", stderr(&out));
    let killed = run(&["run", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.code(), Some(128 + 15));
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    for (words, code, text) in [
        (&["run", "--", "./no-such-program"][..], 127, "no-such-program"),
        (&["run", "--", "/"], 126, "/"),
        (&["run"], 125, "PROGRAM"),
        (&["run", "-e", "no-such-event", "--", "true"], 125, "no-such-event"),
    ] {
        let out = run(words);
        assert_eq!(out.status.code(), Some(code), "{words:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(text), "{words:?}: {}", stderr(&out));
    }
}
