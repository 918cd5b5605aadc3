//! Code that no compiler makes: what is allowed of it counts as stepped.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::support;

use support::compare::{assert_lost, assert_same_end, check_exact};
use support::programs::{BARE, BuildRecipe, build};
use support::ready;
use support::run::{TestJob, TraceMethod, soft};

/// Builds a part of `odd.S` and compares its counts.
#[track_caller]
fn check(parts: &[&str]) {
    if !ready() {
        return;
    }
    let flags = [BARE, parts].concat();
    if let Some(program) = build(&BuildRecipe { source: "odd.S", flags: &flags }) {
        check_exact(&TestJob::new(program, &[]));
    }
}

#[test]
fn indirect_branches_as_long_as_an_instruction_can_be_count_as_stepped() {
    check(&["-DLONG_BRANCHES"]);
}

#[test]
fn returns_from_a_stack_that_cannot_be_written_count_as_stepped() {
    check(&["-DREAD_ONLY_STACK"]);
}

#[test]
fn a_return_to_nowhere_from_such_a_stack_faults_where_it_goes() {
    check(&["-DREAD_ONLY_STACK", "-DTO_NOWHERE"]);
}

#[test]
fn more_jumps_to_one_place_than_are_linked_at_once_count_as_stepped() {
    check(&["-DCROWD"]);
}

#[test]
fn a_program_that_sets_its_trap_flag_is_stepped_as_natively() {
    for part in ["-DIRET_STEPS", "-DPOPF_STEPS"] {
        let flags = [BARE, &[part]].concat();
        let program = ready().then(|| build(&BuildRecipe { source: "far.S", flags: &flags })).flatten();
        let Some(program) = program else { return };
        let job = TestJob::new(program, &[]);
        let translated = job.run(soft());
        // The status tells the address of each step.
        assert_same_end(&translated, &job.run(TraceMethod::Nobody));
        assert_lost(&translated.counts[0], "steps itself");
    }
}
