//! A second run, alone, of the few tests that failed beside others.
//!
//! Other programs, and other tests, use the machine while tests run. A test that fails beside them and passes
//! alone depends on how busy the machine is: a fault of the test, which is named, and no fault of what it
//! tests.

use std::process::Command;

use super::test_program::{TestProgram, failing_tests};

/// The most tests that run again, in all programs together: more is no bad luck.
const MOST: usize = 5;

/// A test program that failed.
pub(super) struct FailedProgram {
    pub program: TestProgram,
    /// The names of its tests that failed; none is known where the program itself broke.
    pub tests: Vec<String>,
}

/// Runs the tests that failed again, one after the other. Returns the titles of the programs that fail again,
/// and of those without a second run.
pub(super) fn run_again(failed: Vec<FailedProgram>, prepare: impl Fn(&mut Command)) -> Vec<String> {
    let too_many = failed.iter().map(|one| one.tests.len()).sum::<usize>() > MOST;
    let fails = |one: &FailedProgram| {
        if too_many || one.tests.is_empty() {
            return true;
        }
        let mut command = one.program.command();
        command.args(["--exact", "--test-threads", "1"]).args(&one.tests);
        prepare(&mut command);
        let failing = failing_tests(&format!("{}, again, alone", one.program.title()), command);
        if failing.is_none() {
            let names = one.tests.join(", ");
            eprintln!(
                "==> failed beside others, passed alone; mend the test: {}: {names}",
                one.program.title()
            );
        }
        failing.is_some()
    };
    failed.iter().filter(|one| fails(one)).map(|one| one.program.title()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_alone_is_no_failure_and_what_broke_or_fails_again_is_one() {
        let failed = |target: &str, file: &str, tests: &[&str]| FailedProgram {
            program: TestProgram {
                package: "p".to_owned(),
                target: target.to_owned(),
                file: file.into(),
                folder: "/".into(),
            },
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        let all = vec![
            failed("again", "/bin/false", &["a"]),
            failed("broke", "/bin/true", &[]),
            failed("alone", "/bin/true", &["b", "c"]),
        ];
        assert_eq!(run_again(all, |_| ()), ["p again", "p broke"]);
        let many = failed("many", "/bin/true", &["a", "b", "c", "d", "e", "f"]);
        assert_eq!(run_again(vec![many], |_| ()), ["p many"], "more than a few are no bad luck");
    }
}
