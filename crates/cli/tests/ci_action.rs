//! The scripts of the CI action and of the snippets for other services, on two revisions of a sample
//! repository.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use cyclometer_test_support::executable;
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
                "static __attribute__((noinline)) void work(int n) \
                 {{ volatile long sum = 0; for (int i = 0; i < n; i++) sum += i; }}\n\
                 int main(void) {{ work({rounds}); }}\n"
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

    /// A shell in the repository that finds the tool, and a `cargo` that builds the sample.
    fn shell(&self) -> Command {
        let tool = Path::new(env!("CARGO_BIN_EXE_cyclometer")).parent().unwrap();
        let programs = self.0.path().join(".git/programs");
        fs::create_dir_all(&programs).unwrap();
        let cargo = "#!/bin/sh\nmkdir -p target/release && cc -O1 -o target/release/prog prog.c\n";
        executable(&programs.join("cargo"), cargo.as_bytes());
        let path = format!("{}:{}:{}", programs.display(), tool.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.current_dir(self.0.path()).env("PATH", path);
        command
    }

    /// Runs the script with these variables.
    fn gate(&self, variables: &[(&str, &str)]) -> Output {
        let mut command = self.shell();
        command.arg(SCRIPT);
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

/// The value of a key in YAML or Groovy: what follows on its line.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(key));
    line.unwrap_or_else(|| panic!("no {key} in:\n{text}")).trim()
}

/// The first code block of the guide that has this text.
fn snippet(text: &str) -> String {
    let guide =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/ci-gates.md")).unwrap();
    let block = guide.split("```").skip(1).step_by(2).find(|block| block.contains(text));
    block.unwrap_or_else(|| panic!("the guide has no block with {text}")).to_owned()
}

/// The commands of a job of GitLab, as its runner executes them: each must succeed.
fn gitlab_script(job: &str) -> String {
    let block = snippet("CI_PIPELINE_SOURCE");
    let lines = block.lines().skip_while(|line| *line != format!("{job}:"));
    let script = lines.skip_while(|line| line.trim() != "script:").skip(1);
    let script: Vec<&str> = script.take_while(|line| line.starts_with("    ")).map(str::trim).collect();
    let commands = script.join(" ").replacen("- ", "", 1).replace(" - ", "\n");
    assert!(commands.contains("cyclometer compare"), "{commands}");
    commands
}

#[test]
fn the_action_writes_a_summary_with_the_functions_that_changed() {
    let Some(repository) = Repository::new(&[100_000, 110_000]) else { return };
    let folder = Path::new(SCRIPT).parent().unwrap();
    let action = fs::read_to_string(folder.join("action.yml")).unwrap();
    let step = action.split("- name: Compare with the base").nth(1).unwrap();
    let options = action.split("  options:").nth(1).unwrap();
    let summary = repository.0.path().join(".git/summary.md");
    fs::write(&summary, "of an earlier step\n").unwrap();
    let mut shell = repository.shell();
    shell.args(["-c", value(step, "run: ")]).env("GITHUB_ACTION_PATH", folder);
    shell.env("GITHUB_STEP_SUMMARY", &summary).env("CYCLOMETER_OPTIONS", value(options, "default:"));
    shell.env("CYCLOMETER_COMMANDS", "{tree}/target/release/prog").env("CYCLOMETER_BASE", "HEAD^");
    let out = shell.env("CYCLOMETER_BUILD", "cargo build --release").output().unwrap();
    let text = fs::read_to_string(&summary).unwrap();
    assert_eq!(out.status.code(), Some(1), "{text}{}", support::text(&out));
    assert!(text.starts_with("of an earlier step\n## Instructions of "), "{text}");
    assert!(text.contains("| `work prog` |"), "the function that changed: {text}");
    assert!(text.contains("**Failed:**"), "{text}");
}

#[test]
fn the_snippet_for_jenkins_keeps_the_summary() {
    let Some(repository) = Repository::new(&[1000, 1001]) else { return };
    let jenkins = snippet("archiveArtifacts");
    let command = value(&jenkins, "steps { sh '").split('\'').next().unwrap();
    let quoted = |key: &str| value(&jenkins, key).trim_matches(['=', ' ', '\'', '"']).to_owned();
    fs::create_dir(repository.0.path().join("ci")).unwrap();
    fs::copy(SCRIPT, repository.0.path().join("ci/gate.sh")).unwrap();
    repository.git(&["update-ref", "refs/remotes/origin/main", "HEAD^"]);
    let mut shell = repository.shell();
    shell.args(["-c", command]);
    shell.env("CYCLOMETER_BASE", quoted("CYCLOMETER_BASE =").replace("${env.CHANGE_TARGET}", "main"));
    for key in ["CYCLOMETER_BUILD", "CYCLOMETER_COMMANDS"] {
        shell.env(key, quoted(&format!("{key} =")));
    }
    let out = shell.output().unwrap();
    let summary = fs::read_to_string(repository.0.path().join("gate.md")).unwrap();
    assert_eq!(out.status.code(), Some(0), "{summary}{}", support::text(&out));
    assert!(summary.contains("No condition holds."), "{summary}");
}

#[test]
fn the_snippet_for_gitlab_compares_with_the_baseline_of_the_default_branch() {
    let Some(repository) = Repository::new(&[100_000, 110_000]) else { return };
    fs::create_dir(repository.0.path().join("bench")).unwrap();
    fs::write(repository.0.path().join("bench/input.txt"), "").unwrap();
    let job = |name: &str| repository.shell().args(["-ec", &gitlab_script(name)]).output().unwrap();
    repository.git(&["checkout", "-q", "HEAD^"]);
    let baseline = job("baseline");
    assert!(baseline.status.success(), "{}", support::text(&baseline));
    let same = job("gate");
    assert!(same.status.success(), "{}", support::text(&same));
    repository.git(&["checkout", "-q", "-"]);
    let more = job("gate");
    assert_eq!(more.status.code(), Some(1), "{}", support::text(&more));
    assert!(support::text(&more).contains("gate instructions > +0.5%: FAILED"), "{}", support::text(&more));
    fs::remove_file(repository.0.path().join("base.json")).unwrap();
    let without = job("gate");
    assert_eq!(without.status.code(), Some(125), "{}", support::text(&without));
    assert!(support::text(&without).contains("base.json"), "{}", support::text(&without));
}
