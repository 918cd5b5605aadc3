//! One program with tests: its command, its line, and which of its tests failed.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program with tests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TestProgram {
    /// The package.
    pub package: String,
    /// The name of the target: of a file of `tests`, of the library or of the program.
    pub target: String,
    pub file: PathBuf,
    /// The folder of the package, where its tests run.
    pub folder: PathBuf,
}

impl TestProgram {
    /// A command that runs the tests as `cargo test` does.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.file);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    pub(super) fn title(&self) -> String {
        format!("{} {}", self.package, self.target)
    }
}

/// Runs a test program and prints a line, or all of its output. The tests that fail, none of which is known
/// where the program itself broke; `None`: all pass.
pub(super) fn failing_tests(title: &str, mut command: Command) -> Option<Vec<String>> {
    let begin = Instant::now();
    match command.stdin(Stdio::null()).output() {
        Ok(out) => {
            eprintln!("{}", line(title, &out, begin.elapsed()));
            if out.status.success() {
                return None;
            }
            eprintln!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
            Some(names_of_failures(&String::from_utf8_lossy(&out.stdout)))
        }
        Err(error) => {
            eprintln!("{title}: cannot be started: {error}");
            Some(Vec::new())
        }
    }
}

/// A test program's line: how many tests passed, by its own word where it has one.
fn line(title: &str, out: &Output, took: Duration) -> String {
    let text = String::from_utf8_lossy(&out.stdout);
    let result = text.lines().rev().find_map(|line| line.strip_prefix("test result: "));
    let counts =
        result.and_then(|line| Some(line.split_once(". ")?.1.split_once("; 0 measured")?.0.to_owned()));
    let verdict = counts.unwrap_or_else(|| out.status.to_string());
    format!("      {:>6.1} s  {title}: {verdict}", took.as_secs_f64())
}

/// The names in the list of failures that a test program prints last.
fn names_of_failures(output: &str) -> Vec<String> {
    let Some((_, list)) = output.rsplit_once("\nfailures:\n") else { return Vec::new() };
    list.lines().map_while(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_read_from_the_list_at_the_end() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nfailures:\n    no\n\n\nfailures:\n    \
                      a::first\n    b\n\ntest result: FAILED. 1 passed; 2 failed; 0 ignored\n";
        assert_eq!(names_of_failures(output), ["a::first", "b"]);
        assert!(names_of_failures("Segmentation fault\n").is_empty());
    }

    #[test]
    fn a_line_has_the_counts_of_the_test_program() {
        let out = |program: &str| Command::new("sh").args(["-c", program]).output().unwrap();
        let text = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s'";
        let took = Duration::from_millis(1540);
        assert_eq!(line("p t", &out(text), took), "         1.5 s  p t: 3 passed; 0 failed; 1 ignored");
        assert_eq!(line("p t", &out("exit 3"), took), "         1.5 s  p t: exit status: 3");
    }
}
