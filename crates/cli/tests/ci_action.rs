//! The script of the CI action, on two revisions of a sample repository.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{stderr, stdout};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.github/actions/cyclometer/gate.sh");

/// A repository with a program that makes as many rounds in each revision as these numbers say.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new(rounds: &[u32]) -> Option<Repository> {
        if !support::has("git") || !support::has("cc") {
            support::skip("there is no git or no cc");
            return None;
        }
        if !support::software_pmu_is_first() {
            return None;
        }
        let repository = Repository(tempfile::tempdir().unwrap());
        repository.git(&["init", "-q", "."]);
        for rounds in rounds {
            let source = format!(
                "int main(void) {{ volatile long sum = 0; for (int i = 0; i < {rounds}; i++) sum += i; }}\n"
            );
            fs::write(repository.0.path().join("prog.c"), source).unwrap();
            repository.git(&["add", "."]);
            repository.git(&[
                "-c",
                "user.email=a@example.org",
                "-c",
                "user.name=a",
                "commit",
                "-qm",
                "rounds",
            ]);
        }
        Some(repository)
    }

    fn git(&self, words: &[&str]) -> String {
        let out = Command::new("git").args(words).current_dir(self.0.path()).output().unwrap();
        assert!(out.status.success(), "git {words:?}: {}", stderr(&out));
        stdout(&out)
    }

    /// Runs the script with these variables.
    fn gate(&self, variables: &[(&str, &str)]) -> Output {
        let tool = Path::new(env!("CARGO_BIN_EXE_cyclometer")).parent().unwrap();
        let path = format!("{}:{}", tool.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg(SCRIPT).current_dir(self.0.path()).env("PATH", path);
        let usual = [
            ("CYCLOMETER_COMMANDS", "{tree}/prog"),
            ("CYCLOMETER_BASE", "HEAD^"),
            ("CYCLOMETER_BUILD", "cc -O1 -o prog prog.c"),
            ("CYCLOMETER_EVENTS", "instructions,branches"),
        ];
        let out = command.envs(usual).envs(variables.iter().copied()).output().unwrap();
        assert_eq!(self.git(&["worktree", "list"]).lines().count(), 1, "a checkout is left");
        out
    }
}

#[test]
fn more_instructions_fail_with_a_table_and_the_condition() {
    let Some(repository) = Repository::new(&[100_000, 110_000]) else { return };
    let out = repository.gate(&[]);
    let text = stdout(&out);
    assert_eq!(out.status.code(), Some(1), "{text}{}", stderr(&out));
    assert!(text.starts_with("## Instructions of "), "{text}");
    assert!(text.contains("| branches:u |") && text.contains("exactly +10,000 | changed |"), "{text}");
    assert!(text.contains("**Failed:**") && text.contains("gate instructions > +0.5%: failed"), "{text}");
    assert!(text.contains("base/prog") && !text.contains("/tmp"), "{text}");
    let accepted = repository.gate(&[("CYCLOMETER_FAIL_IF", "instructions > +20%; branches > +30%")]);
    assert_eq!(accepted.status.code(), Some(0), "{}", stdout(&accepted));
    assert!(stdout(&accepted).contains("`branches > +30%`: passed"), "{}", stdout(&accepted));
}

#[test]
fn a_revision_equals_itself_for_each_of_its_commands() {
    let Some(repository) = Repository::new(&[1000]) else { return };
    let commands = "{tree}/prog\n\n   \n{tree}/prog 'a b' {tree}/x";
    let out = repository.gate(&[("CYCLOMETER_COMMANDS", commands), ("CYCLOMETER_BASE", "HEAD")]);
    assert_eq!(out.status.code(), Some(0), "{}{}", stdout(&out), stderr(&out));
    assert_eq!(stdout(&out).matches("No condition holds.").count(), 2, "{}", stdout(&out));
    assert_eq!(stdout(&out).matches("| 0 % | exactly | same |").count(), 4, "{}", stdout(&out));
}

#[test]
fn what_cannot_be_compared_is_named() {
    let Some(repository) = Repository::new(&[1000, 2000]) else { return };
    for (variable, value, text) in [
        ("CYCLOMETER_COMMANDS", "", "CYCLOMETER_COMMANDS is not set"),
        ("CYCLOMETER_COMMANDS", "./prog", "no {tree} in the command: ./prog"),
        ("CYCLOMETER_COMMANDS", "{tree}/missing", "missing"),
        ("CYCLOMETER_BASE", "no-such-revision", "no-such-revision cannot be checked out"),
        ("CYCLOMETER_BUILD", "exit 3", "cannot be built by: exit 3"),
        ("CYCLOMETER_FAIL_IF", "nonsense", "nonsense"),
    ] {
        let out = repository.gate(&[(variable, value)]);
        assert_eq!(out.status.code(), Some(125), "{variable}={value}: {}", stdout(&out));
        assert!(support::text(&out).contains(text), "{variable}={value}: {}", support::text(&out));
    }
}
