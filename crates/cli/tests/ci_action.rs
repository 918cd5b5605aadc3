//! The scripts of the CI action and of the snippets for other services, on two revisions of a sample
//! repository.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::path::{Path, PathBuf};
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

    /// Puts the script where the snippets of the guide have it.
    fn with_script(&self) {
        fs::create_dir(self.0.path().join("ci")).unwrap();
        fs::copy(SCRIPT, self.0.path().join("ci/gate.sh")).unwrap();
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
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/ci-services.md")).unwrap();
    let block = guide.split("```").skip(1).step_by(2).find(|block| block.contains(text));
    block.unwrap_or_else(|| panic!("the guide has no block with {text}")).to_owned()
}

/// The script of the jobs of GitLab with the variables of one of them, as its runner executes it.
fn gitlab_job(shell: &mut Command, job: &str) -> Output {
    let block = snippet("CI_PIPELINE_SOURCE");
    let section = |name: &str| -> Vec<String> {
        let lines = block.lines().skip_while(|line| *line != format!("{name}:")).skip(1);
        lines.take_while(|line| line.starts_with(' ')).map(str::to_owned).collect()
    };
    let (shared, own) = (section(".instructions"), section(job));
    assert!(own.contains(&"  extends: .instructions".to_owned()), "{own:?}");
    for line in shared.iter().chain(&own) {
        if let Some((name, value)) = line.trim().split_once(": ").filter(|(name, _)| name.starts_with("CYC"))
        {
            shell.env(name, value.trim_matches('"'));
        }
    }
    let script = shared.iter().skip_while(|line| *line != "  script:").nth(1).unwrap();
    shell.args(["-ec", script.trim().strip_prefix("- ").unwrap()]).output().unwrap()
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
    repository.with_script();
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
    repository.with_script();
    let job = |name: &str| {
        let out = gitlab_job(&mut repository.shell(), name);
        let summary = fs::read_to_string(repository.0.path().join("gate.md")).unwrap();
        (out.status.code(), format!("{summary}{}", support::text(&out)))
    };
    let (code, first) = job("gate");
    assert_eq!(code, Some(0), "{first}");
    assert!(first.contains("no run on the target branch has saved a baseline yet"), "{first}");
    repository.git(&["checkout", "-q", "HEAD^"]);
    let (code, saved) = job("baseline");
    assert_eq!(code, Some(0), "{saved}");
    let (code, same) = job("gate");
    assert_eq!(code, Some(0), "{same}");
    assert!(same.contains("No condition holds."), "{same}");
    repository.git(&["checkout", "-q", "-"]);
    let (code, more) = job("gate");
    assert_eq!(code, Some(1), "{more}");
    assert!(
        more.contains("A: `head/target/release/prog bench/input.txt (baseline ")
            && !more.contains("/tmp/tmp."),
        "{more}"
    );
    assert!(more.contains("gate instructions > +0.5%: failed") && more.contains("| `work prog` |"), "{more}");
}

#[test]
fn the_snippet_for_jenkins_compares_with_the_artefact_of_the_target_branch() {
    let Some(repository) = Repository::new(&[100_000, 110_000]) else { return };
    repository.with_script();
    let jenkins = snippet("copyArtifacts");
    let stage = |name: &str| -> Output {
        let steps = jenkins.split(&format!("stage('{name}')")).nth(1).unwrap();
        let command = steps.split("sh '").nth(1).unwrap().split('\'').next().unwrap();
        let mut shell = repository.shell();
        for line in jenkins.lines().filter_map(|line| line.trim().split_once(" = ")) {
            shell.env(line.0, line.1.trim_matches('\''));
        }
        shell.args(["-c", command]).output().unwrap()
    };
    repository.git(&["checkout", "-q", "HEAD^"]);
    let saved = stage("baseline");
    assert_eq!(saved.status.code(), Some(0), "{}", support::text(&saved));
    let artefacts = repository.0.path().join(value(&jenkins, "CYCLOMETER_BASELINE = ").trim_matches('\''));
    assert_eq!(fs::read_dir(&artefacts).unwrap().count(), 4, "three words and one command");
    repository.git(&["checkout", "-q", "-"]);
    let more = stage("gate");
    let summary = fs::read_to_string(repository.0.path().join("gate.md")).unwrap();
    assert_eq!(more.status.code(), Some(1), "{summary}{}", support::text(&more));
    assert!(summary.contains("| `work prog` |"), "the function that changed: {summary}");
}

#[test]
fn the_action_keeps_the_baseline_that_it_fetches() {
    let action = fs::read_to_string(Path::new(SCRIPT).parent().unwrap().join("action.yml")).unwrap();
    let step = |name: &str| -> String {
        let text =
            action.split(&format!("- name: {name}")).nth(1).unwrap_or_else(|| panic!("no step {name}"));
        text.split("- name: ").next().unwrap().to_owned()
    };
    let (fetch, keep) = (step("Fetch the baseline"), step("Keep the baseline"));
    let folder = value(&fetch, "path:");
    assert_eq!(value(&keep, "path:"), folder);
    assert!(value(&step("Compare"), "CYCLOMETER_BASELINE:").contains(&format!("'{folder}'")), "{action}");
    // The branch of a push is the target branch of a later pull request.
    let fetched = value(&fetch, "restore-keys:").replace("github.base_ref", "github.ref_name");
    assert_eq!(value(&keep, "key:"), format!("{fetched}${{{{ github.sha }}}}"));
    assert!(value(&fetch, "key:").starts_with(value(&fetch, "restore-keys:")), "{fetch}");
}

/// The file with the results of the only command of a baseline.
fn only_results(folder: &Path) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = entries.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let file = files.next().unwrap();
    assert!(files.next().is_none(), "{}", folder.display());
    file
}

/// The variables with which the script saves or reads a baseline.
const BASELINE: (&str, &str) = ("CYCLOMETER_BASELINE", "kept/baseline");
const SAVE: (&str, &str) = ("CYCLOMETER_SAVE", "yes");

#[test]
fn a_baseline_that_cannot_be_compared_with_is_refused_with_the_remedy() {
    let Some(repository) = Repository::new(&[1000]) else { return };
    let folder = repository.0.path().join(BASELINE.1);
    let saved = repository.gate(&[BASELINE, SAVE]);
    assert_eq!(saved.status.code(), Some(0), "{}", support::text(&saved));
    assert!(stdout(&saved).starts_with("## Baseline of "), "{}", stdout(&saved));
    let same = repository.gate(&[BASELINE, ("CYCLOMETER_BASE", "")]);
    assert_eq!(same.status.code(), Some(0), "{}", support::text(&same));
    assert!(stdout(&same).contains("against the baseline of "), "{}", stdout(&same));
    let added = repository.gate(&[BASELINE, ("CYCLOMETER_COMMANDS", "{tree}/prog\n{tree}/prog added")]);
    assert_eq!(added.status.code(), Some(0), "{}", support::text(&added));
    assert!(stdout(&added).contains("the baseline does not have this command yet"), "{}", stdout(&added));
    let file = only_results(&folder);
    let text = fs::read_to_string(&file).unwrap();
    let mut results: serde_json::Value = serde_json::from_str(&text).unwrap();
    results["machine"]["cpu_name"] = "another processor".into();
    fs::write(&file, results.to_string()).unwrap();
    let other = repository.gate(&[BASELINE]);
    assert_eq!(other.status.code(), Some(125), "{}", support::text(&other));
    let told = stdout(&other);
    assert!(told.contains("is of another machine: cpu_name another processor there"), "{told}");
    assert!(told.contains("Run the job of the target branch on a runner of this kind"), "{told}");
    let any = repository.gate(&[BASELINE, ("CYCLOMETER_OPTIONS", "--any-machine")]);
    assert_eq!(any.status.code(), Some(0), "{}", support::text(&any));
    fs::write(folder.join("version"), "cyclometer 0.0.1\n").unwrap();
    let older = repository.gate(&[BASELINE]);
    assert_eq!(older.status.code(), Some(125), "{}", support::text(&older));
    assert!(
        stdout(&older).contains("saved by cyclometer 0.0.1, and this is cyclometer "),
        "{}",
        stdout(&older)
    );
    assert!(stderr(&older).contains("run the job of the target branch again"), "{}", stderr(&older));
}

#[test]
fn a_baseline_is_replaced_as_a_whole_or_not_at_all() {
    let Some(repository) = Repository::new(&[1000, 2000]) else { return };
    let folder = repository.0.path().join(BASELINE.1);
    assert_eq!(repository.gate(&[BASELINE, SAVE]).status.code(), Some(0));
    let before = fs::read_to_string(only_results(&folder)).unwrap();
    let failing = repository.gate(&[BASELINE, SAVE, ("CYCLOMETER_COMMANDS", "{tree}/prog\n{tree}/missing")]);
    assert_eq!(failing.status.code(), Some(125), "{}", support::text(&failing));
    assert_eq!(fs::read_to_string(only_results(&folder)).unwrap(), before);
    let beside: Vec<_> = fs::read_dir(folder.parent().unwrap()).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    let two = [BASELINE, SAVE, ("CYCLOMETER_COMMANDS", "{tree}/prog 1\n{tree}/prog 2")];
    assert_eq!(repository.gate(&two).status.code(), Some(0));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 5, "three words and two commands");
    let thesis = repository.0.path().join("thesis");
    fs::create_dir(&thesis).unwrap();
    fs::write(thesis.join("thesis.txt"), "").unwrap();
    let refused = repository.gate(&[("CYCLOMETER_BASELINE", "thesis"), SAVE]);
    assert_eq!(refused.status.code(), Some(125), "{}", support::text(&refused));
    assert!(stderr(&refused).contains("thesis exists and is no baseline"), "{}", stderr(&refused));
    assert!(thesis.join("thesis.txt").is_file());
    let nowhere = repository.gate(&[SAVE]);
    assert_eq!(nowhere.status.code(), Some(125), "{}", support::text(&nowhere));
    assert!(stderr(&nowhere).contains("CYCLOMETER_SAVE needs the folder"), "{}", stderr(&nowhere));
}
