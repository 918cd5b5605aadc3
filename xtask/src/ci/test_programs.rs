//! The test programs of the workspace: built once, with every feature, and run side by side.
//!
//! `cargo test` runs one program after the other, so a program whose tests wait leaves CPUs idle.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::alone::{self, FailedProgram};
use super::test_program::{TestProgram, failing_tests};
use crate::command::cargo_command;

/// The features that are off by default, which all tests have.
pub(super) const FEATURES: &str = "cyclometer-cli/fake-devices,cyclometer-cli/firefox,cyclometer-cli/parquet";

/// The programs with the longest tests, the longest first: those of 20 s and more. They begin first, so
/// that none of them runs alone at the end.
const LONGEST: &[&str] = &[
    "cyclometer-soft main",
    "cyclometer-soft lockstep",
    "cyclometer-soft hostile",
    "cyclometer-cli main",
    "cyclometer-c programs",
    "cyclometer-backend windows",
    "cyclometer-toolkit main",
];

/// The programs of the workspace, built with every feature.
pub(crate) struct WorkspaceBuild {
    pub tests: Vec<TestProgram>,
    /// The command-line tool.
    pub tool: PathBuf,
    /// Every program that is no test.
    programs: Vec<PathBuf>,
}

impl WorkspaceBuild {
    /// Builds what is not built yet.
    pub(crate) fn new() -> Result<WorkspaceBuild> {
        let options = ["test", "--workspace", "--locked", "--features", FEATURES, "--no-run"];
        let mut command = cargo_command(&options);
        command.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
        eprintln!("==> cargo {}", options.join(" "));
        let out = command.output().context("starting cargo")?;
        ensure!(out.status.success(), "building the tests: {}", out.status);
        WorkspaceBuild::of_messages(&String::from_utf8_lossy(&out.stdout))
    }

    fn of_messages(messages: &str) -> Result<WorkspaceBuild> {
        let messages: Vec<Value> =
            messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let tests: Vec<TestProgram> = messages.iter().filter_map(test_program).collect();
        ensure!(!tests.is_empty(), "cargo built no test program");
        let is_program =
            |message: &&Value| message["target"]["kind"][0] == "bin" && message["profile"]["test"] == false;
        let programs: Vec<PathBuf> = messages.iter().filter(is_program).filter_map(executable).collect();
        let tool = named(&programs, "cyclometer").context("cargo built no command-line tool")?;
        Ok(WorkspaceBuild { tests, tool, programs })
    }

    /// The program with a name.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        named(&self.programs, name)
    }

    /// The program with the tests of a target.
    pub(crate) fn test(&self, package: &str, target: &str) -> Result<&TestProgram> {
        let found = self.tests.iter().find(|test| test.package == package && test.target == target);
        found.with_context(|| format!("{package} has no test program {target}"))
    }
}

fn named(programs: &[PathBuf], name: &str) -> Option<PathBuf> {
    programs.iter().find(|program| program.file_stem().is_some_and(|stem| stem == name)).cloned()
}

fn executable(message: &Value) -> Option<PathBuf> {
    message["executable"].as_str().map(PathBuf::from)
}

fn test_program(message: &Value) -> Option<TestProgram> {
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    // "path+file:///folder#name@version", and without the name where it is the folder's.
    let id = message["package_id"].as_str()?.rsplit_once('#')?.1;
    let package = id.split_once('@').map_or_else(
        || folder.file_name().map(|name| name.to_string_lossy().into_owned()),
        |(name, _)| Some(name.to_owned()),
    )?;
    let target = message["target"]["name"].as_str()?.to_owned();
    Some(TestProgram { package, target, file: executable(message)?, folder })
}

/// Runs test programs, as many at once as there are CPUs; the output of those that fail is shown. A few tests
/// that fail run again alone afterwards, to tell whether they depend on the others ([`alone`]).
///
/// # Errors
///
/// The names of the programs that failed. All run, whatever fails.
pub(super) fn run_side_by_side(
    mut tests: Vec<TestProgram>,
    prepare: impl Fn(&mut Command) + Sync,
) -> Result<()> {
    tests.sort_by_key(|test| rank(&test.title()));
    let at_once = thread::available_parallelism().map_or(2, |cpus| cpus.get().max(2));
    let waiting = Mutex::new(VecDeque::from(tests));
    let failed = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(program) = next() {
                    let mut command = program.command();
                    prepare(&mut command);
                    if let Some(tests) = failing_tests(&program.title(), command) {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(FailedProgram { program, tests });
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed = alone::run_again(&failed, prepare);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// The place of a program in the order in which they begin.
fn rank(title: &str) -> usize {
    LONGEST.iter().position(|name| title == *name).unwrap_or(LONGEST.len())
}

/// Makes sure that each of the longest programs exists: a name that is outdated would change nothing,
/// silently.
pub(super) fn check_longest(tests: &[TestProgram]) -> Result<()> {
    let exists = |name: &&&str| tests.iter().any(|test| test.title() == **name);
    let gone: Vec<&str> = LONGEST.iter().filter(|name| !exists(name)).copied().collect();
    ensure!(gone.is_empty(), "no test program {}: change LONGEST in {}", gone.join(", "), file!());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#cyclometer-cli@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["test"],"name":"stat"},"profile":{"test":true},"executable":"/t/stat-1"}"#;
    const TOOL: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#cyclometer-cli@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"cyclometer"},"profile":{"test":false},"executable":"/t/cyclometer"}"#;
    const OF_TOOL: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/xtask#0.1.0","manifest_path":"/w/xtask/Cargo.toml","target":{"kind":["bin"],"name":"xtask"},"profile":{"test":true},"executable":"/t/xtask-1"}"#;

    #[test]
    fn test_programs_and_the_tool_are_read_from_the_messages_of_cargo() {
        let build = WorkspaceBuild::of_messages(&[TEST, TOOL, OF_TOOL, "no JSON"].join("\n")).unwrap();
        assert_eq!(build.tool, PathBuf::from("/t/cyclometer"));
        let titles: Vec<String> = build.tests.iter().map(TestProgram::title).collect();
        assert_eq!(titles, ["cyclometer-cli stat", "xtask xtask"]);
        assert_eq!(build.test("cyclometer-cli", "stat").unwrap().folder, PathBuf::from("/w/crates/cli"));
        let missing = build.test("cyclometer-cli", "stats").unwrap_err().to_string();
        assert_eq!(missing, "cyclometer-cli has no test program stats");
        assert!(WorkspaceBuild::of_messages(TOOL).is_err(), "no test program is an error");
        assert!(WorkspaceBuild::of_messages(TEST).is_err(), "no tool is an error");
    }

    #[test]
    fn every_program_runs_and_those_that_fail_are_named() {
        let program = |target: &str, file: &str| TestProgram {
            package: "p".to_owned(),
            target: target.to_owned(),
            file: file.into(),
            folder: "/".into(),
        };
        let tests = ["a", "b", "c"].map(|name| program(name, "true")).to_vec();
        run_side_by_side(tests.clone(), |_| ()).unwrap();
        let mut broken = tests;
        broken.insert(1, program("bad", "false"));
        broken.push(program("missing", "/no/such/program"));
        let error = run_side_by_side(broken, |_| ()).unwrap_err().to_string();
        assert!(error == "failed: p bad, p missing" || error == "failed: p missing, p bad", "{error}");
    }

    #[test]
    fn the_longest_programs_begin_first_and_an_outdated_name_is_an_error() {
        assert!(rank("cyclometer-soft main") < rank("cyclometer-soft lockstep"));
        assert!(rank("cyclometer-backend windows") < rank("cyclometer-sim main"));
        let program = |title: &&str| {
            let (package, target) = title.split_once(' ').unwrap();
            TestProgram {
                package: package.to_owned(),
                target: target.to_owned(),
                file: "/x".into(),
                folder: "/".into(),
            }
        };
        let mut tests: Vec<TestProgram> = LONGEST.iter().map(program).collect();
        check_longest(&tests).unwrap();
        tests.remove(1);
        let error = check_longest(&tests).unwrap_err().to_string();
        assert!(error.starts_with("no test program cyclometer-soft lockstep: change LONGEST"), "{error}");
    }
}
