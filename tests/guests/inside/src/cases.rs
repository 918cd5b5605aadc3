//! Cases and their report: one line each, and a last line with their number.

use std::process::ExitCode;

use anyhow::Result;

/// Counts cases as they run.
pub(crate) struct Cases {
    run: usize,
    failed: usize,
}

impl Cases {
    pub(crate) fn new() -> Self {
        Self { run: 0, failed: 0 }
    }

    /// Runs a case. One that fails does not end the suite.
    pub(crate) fn case(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        self.run += 1;
        match check() {
            Ok(()) => println!("case: passed: {name}"),
            Err(error) => {
                self.failed += 1;
                println!("case: FAILED: {name}");
                for line in format!("{error:#}").lines() {
                    println!("why: {line}");
                }
            }
        }
    }

    /// Prints the number of cases: without this line the suite did not come to its end.
    pub(crate) fn finish(self) -> ExitCode {
        println!("suite: {} cases, {} failed", self.run, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
