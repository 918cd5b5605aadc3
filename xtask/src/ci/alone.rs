//! A second run, alone, of the few tests that failed beside others.
//!
//! Other programs, and other tests, use the machine while tests run. A test that fails beside them and passes
//! alone may depend on how busy the machine is, or on a race. It has failed all the same; the second run says
//! where to look.

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

/// Runs the tests that failed again, one after the other, and says which pass then. Returns the titles of
/// all programs.
pub(super) fn run_again(failed: &[FailedProgram], prepare: impl Fn(&mut Command)) -> Vec<String> {
    let too_many = failed.iter().map(|one| one.tests.len()).sum::<usize>() > MOST;
    for one in failed.iter().filter(|one| !too_many && !one.tests.is_empty()) {
        let mut command = one.program.command();
        command.args(["--exact", "--test-threads", "1"]).args(&one.tests);
        prepare(&mut command);
        if failing_tests(&format!("{}, again, alone", one.program.title()), command).is_none() {
            eprintln!("==> failed beside others, passed alone: {}", one.tests.join(", "));
        }
    }
    failed.iter().map(|one| one.program.title()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_passes_alone_has_failed_all_the_same() {
        let failed = |target: &str, file: &str, tests: &[&str]| FailedProgram {
            program: TestProgram {
                package: "p".to_owned(),
                target: target.to_owned(),
                file: file.into(),
                folder: "/".into(),
            },
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
        };
        let all = [
            failed("again", "/bin/false", &["a"]),
            failed("broke", "/bin/true", &[]),
            failed("alone", "/bin/true", &["b", "c"]),
        ];
        let runs = std::cell::Cell::new(0);
        let titles = run_again(&all, |_| runs.set(runs.get() + 1));
        assert_eq!(titles, ["p again", "p broke", "p alone"]);
        assert_eq!(runs.get(), 2, "no test of the one that broke is known");
        let many = failed("many", "/bin/true", &["a", "b", "c", "d", "e", "f"]);
        assert_eq!(run_again(&[many], |_| runs.set(9)), ["p many"]);
        assert_eq!(runs.get(), 2, "more than a few are no bad luck");
    }
}
