//! Counts of programs without the C library equal valgrind's, after the conventions of both.
//!
//! - Valgrind counts each iteration of a repeated string instruction as an instruction, and one more when it
//!   finds the count at zero; here the execution counts once, and iterations apart. (One that ends before its
//!   count is none the more for valgrind, and it executes `lods` once whatever the prefix says: the programs
//!   have neither.)
//! - Valgrind counts what an instruction reads and then writes as a load only: the programs have none of that
//!   either.
//! - With the C library the comparison would be about something else: valgrind puts code of its own into the
//!   program, and hides features of the processor.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::Command;

use cyclometer_soft::ExecutionEvent;
use support::programs::{BARE, BuildRecipe, build, unique};
use support::run::{TestJob, soft};
use support::{installed, ready};

/// The events of cachegrind: instructions, loads, stores, conditional branches, indirect jumps.
fn by_cachegrind(valgrind: &Path, program: &Path) -> [u64; 5] {
    let file = unique("cachegrind");
    let mut command = Command::new(valgrind);
    command.args(["-q", "--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes"]);
    command.arg(format!("--cachegrind-out-file={}", file.display())).arg(program);
    assert!(command.output().unwrap().status.code().is_some());
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    let field = |line: &str, name: &str| -> u64 {
        let names = text.lines().find_map(|line| line.strip_prefix("events: ")).unwrap();
        let at = names.split(' ').position(|known| known == name).unwrap();
        line.split_whitespace().nth(at).unwrap().parse().unwrap()
    };
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    ["Ir", "Dr", "Dw", "Bc", "Bi"].map(|name| field(summary, name))
}

/// The counts of a program: here, and by cachegrind; `None` where cachegrind cannot count it.
fn counts(source: &str) -> Option<[[u64; 5]; 2]> {
    if !ready() {
        return None;
    }
    let valgrind = installed("valgrind")?;
    let program = build(&BuildRecipe { source, flags: BARE })?;
    let run = TestJob::new(&program, &[]).direct().run(soft());
    let count = |event| run.counts[0].count(event).unwrap();
    let counted = [
        count(ExecutionEvent::Instructions) + count(ExecutionEvent::RepIterations),
        count(ExecutionEvent::Loads),
        count(ExecutionEvent::Stores),
        count(ExecutionEvent::ConditionalBranches),
        count(ExecutionEvent::IndirectBranches),
    ];
    Some([counted, by_cachegrind(&valgrind, &program)])
}

#[test]
fn jumps_calls_and_loops_count_as_under_valgrind() {
    if let Some([ours, theirs]) = counts("plain.S") {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn repeated_string_instructions_count_as_under_valgrind() {
    if let Some([ours, theirs]) = counts("copies.S") {
        // Valgrind makes branches of repetitions.
        assert_eq!(ours[..3], theirs[..3]);
    }
}
