//! `cargo xtask nightly`: the checks that take too long for continuous integration.
//!
//! Each is a process with its output in a file. All run, whatever fails; a table at the end has the outcomes.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::root;

/// A long check.
struct NightlyCheck {
    name: String,
    purpose: String,
    /// The arguments of cargo.
    arguments: Vec<String>,
    /// Arguments of cargo that fail where a tool is missing, and the remedy.
    needs: Option<(&'static [&'static str], &'static str)>,
}

impl NightlyCheck {
    fn new(name: &str, purpose: &str, arguments: &str) -> NightlyCheck {
        NightlyCheck {
            name: name.to_owned(),
            purpose: purpose.to_owned(),
            arguments: arguments.split(' ').map(str::to_owned).collect(),
            needs: None,
        }
    }

    /// Why it cannot run here.
    fn lacks(&self) -> Option<String> {
        let (arguments, remedy) = self.needs?;
        let out = cargo(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let works = out.is_ok_and(|status| status.success());
        (!works).then(|| format!("cargo {} does not work here; {remedy}", arguments.join(" ")))
    }
}

/// The tests of the software PMU that are ignored elsewhere.
const LOCKSTEP: &str =
    "test --release --locked --package cyclometer-soft --test main --test lockstep -- --ignored";

/// The oldest compiler has to be that of `rust-version` in Cargo.toml.
const OLDEST_RUST: &str = "+1.88 check --workspace --all-targets --locked --target-dir target/oldest-rust";

/// Every long check. `minutes` is the time of those that end only then.
fn checks(minutes: u64) -> Result<Vec<NightlyCheck>> {
    let check = NightlyCheck::new;
    let torture = format!("xtask torture --minutes {minutes}");
    let score = "run --release --locked --package xtask -- reverse-score";
    let bench = "run --release --locked --package cyclometer-benches --";
    let mut checks = vec![
        check("mutate", "5,000 changed files of each format", "xtask mutate --files 5000"),
        check("torture", "programs under random signals", &torture),
        check("dist", "what users install, made twice and used in a clean Debian system", "xtask dist-check"),
        check("corpus", "sixty programs under the software PMU", "xtask corpus"),
        check("guests", "every emulated machine", "xtask guests"),
        check("lockstep", "the software PMU against single steps", LOCKSTEP),
        check("reverse-score", "verdicts of reverse on hidden events", score),
        NightlyCheck {
            needs: Some((&["deny", "--version"], "install it: cargo install cargo-deny")),
            ..check("deny", "cargo deny, with advisories", "deny --locked check --disable-fetch")
        },
        NightlyCheck {
            needs: Some((&["+1.88", "--version"], "install it: rustup toolchain install 1.88")),
            ..check("oldest-rust", "a build by the rust-version of Cargo.toml", OLDEST_RUST)
        },
    ];
    for which in ["catalog", "plan", "sdk", "soft"] {
        let name = format!("bench-{which}");
        checks.push(check(&name, "limits of a benchmark", &format!("{bench} {which}")));
    }
    for target in fuzz_targets()? {
        let seconds = minutes * 60;
        let arguments = format!(
            "+nightly fuzz run {target} fuzz/corpus/{target} fuzz/seeds/{target} -- -max_total_time={seconds}"
        );
        let remedy = "install it: rustup toolchain install nightly, cargo install cargo-fuzz";
        checks.push(NightlyCheck {
            needs: Some((&["+nightly", "fuzz", "--version"], remedy)),
            ..check(&format!("fuzz-{target}"), "a parser under libFuzzer", &arguments)
        });
    }
    Ok(checks)
}

/// The names of the programs of `fuzz`.
fn fuzz_targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The options of the command line.
#[derive(Debug, PartialEq, Eq)]
struct NightlyOptions {
    list: bool,
    only: Vec<String>,
    minutes: u64,
}

impl NightlyOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<NightlyOptions> {
        let mut options = NightlyOptions { list: false, only: Vec::new(), minutes: 10 };
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--list" => options.list = true,
                "--only" => options.only.push(arguments.next().context("--only needs a NAME; see --list")?),
                "--minutes" => {
                    let minutes = arguments.next().and_then(|text| text.parse().ok());
                    options.minutes =
                        minutes.filter(|n| *n > 0).context("--minutes needs a number of 1 or more")?;
                }
                other => bail!("'{other}' is no option; there are --list, --only NAME and --minutes N"),
            }
        }
        Ok(options)
    }

    /// The checks that are to run.
    fn chosen(&self, mut checks: Vec<NightlyCheck>) -> Result<Vec<NightlyCheck>> {
        let unknown = self.only.iter().find(|name| checks.iter().all(|check| check.name != **name));
        if let Some(unknown) = unknown {
            bail!("no check '{unknown}'; see --list");
        }
        checks.retain(|check| self.only.is_empty() || self.only.contains(&check.name));
        Ok(checks)
    }
}

/// Runs the checks, and prints a table of them.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = NightlyOptions::parse(arguments)?;
    let checks = options.chosen(checks(options.minutes)?)?;
    if options.list {
        checks.iter().for_each(|check| eprintln!("{:<22} {}", check.name, check.purpose));
        return Ok(());
    }
    let folder = root().join("target/nightly");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let done = checks.iter().map(|check| one(check, &folder)).collect::<Result<Vec<_>>>()?;
    eprint!("{}", table(&done));
    let failed = done.iter().filter(|row| matches!(row.outcome, NightlyOutcome::Failed(_)));
    let failed: Vec<&str> = failed.map(|row| row.name.as_str()).collect();
    ensure!(failed.is_empty(), "failed: {}; their output is in {}", failed.join(", "), folder.display());
    let any = done.iter().any(|row| matches!(row.outcome, NightlyOutcome::Passed));
    ensure!(any, "every check was skipped");
    Ok(())
}

/// A row of the table.
struct NightlyRow {
    name: String,
    took: Duration,
    outcome: NightlyOutcome,
}

enum NightlyOutcome {
    Passed,
    Failed(String),
    Skipped(String),
}

fn one(check: &NightlyCheck, folder: &Path) -> Result<NightlyRow> {
    eprintln!("==> {}: cargo {}", check.name, check.arguments.join(" "));
    let begin = Instant::now();
    let outcome = match check.lacks() {
        Some(reason) => NightlyOutcome::Skipped(reason),
        None => ran(check, &folder.join(format!("{}.log", check.name)))?,
    };
    Ok(NightlyRow { name: check.name.clone(), took: begin.elapsed(), outcome })
}

fn ran(check: &NightlyCheck, log: &PathBuf) -> Result<NightlyOutcome> {
    if let Some(target) = check.name.strip_prefix("fuzz-") {
        // New files of libFuzzer go to the first folder.
        fs::create_dir_all(root().join("fuzz/corpus").join(target))?;
    }
    let file = File::create(log).with_context(|| format!("writing {}", log.display()))?;
    let mut command = cargo(&check.arguments);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let status = command.status().context("starting cargo")?;
    Ok(if status.success() { NightlyOutcome::Passed } else { NightlyOutcome::Failed(status.to_string()) })
}

/// Cargo as the shell finds it: rustup's takes the name of a toolchain.
fn cargo(arguments: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).current_dir(root());
    // These name the toolchain that runs this program.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

fn table(rows: &[NightlyRow]) -> String {
    let mut text = format!("\n{:<22} {:>7}  outcome\n", "check", "s");
    for NightlyRow { name, took, outcome } in rows {
        let outcome = match outcome {
            NightlyOutcome::Passed => "passed".to_owned(),
            NightlyOutcome::Failed(why) => format!("FAILED: {why}"),
            NightlyOutcome::Skipped(why) => format!("skipped: {why}"),
        };
        let _ = writeln!(text, "{name:<22} {:>7.0}  {outcome}", took.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<NightlyOptions> {
        NightlyOptions::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn names_are_chosen_and_an_unknown_one_is_told() {
        let options = parsed(&["--only", "guests", "--only", "mutate", "--minutes", "3"]).unwrap();
        let chosen = options.chosen(checks(options.minutes).unwrap()).unwrap();
        let names: Vec<&str> = chosen.iter().map(|check| check.name.as_str()).collect();
        assert_eq!(names, ["mutate", "guests"]);
        let unknown = parsed(&["--only", "gests"]).unwrap().chosen(checks(1).unwrap());
        assert_eq!(unknown.err().unwrap().to_string(), "no check 'gests'; see --list");
    }

    #[test]
    fn the_oldest_compiler_is_that_of_the_workspace() {
        let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let line = manifest.lines().find(|line| line.starts_with("rust-version = ")).unwrap();
        let version = OLDEST_RUST.split(' ').next().unwrap().trim_start_matches('+');
        assert_eq!(line, format!("rust-version = \"{version}\""));
    }

    #[test]
    fn the_minutes_reach_the_checks_that_have_no_end() {
        let checks = checks(7).unwrap();
        let arguments = |name: &str| {
            checks.iter().find(|check| check.name == name).map(|check| check.arguments.join(" ")).unwrap()
        };
        assert_eq!(arguments("torture"), "xtask torture --minutes 7");
        assert!(arguments("fuzz-machine").ends_with("-max_total_time=420"));
        assert!(arguments("corpus") == "xtask corpus");
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        for (arguments, words) in [
            (&["--only"][..], "--only needs a NAME"),
            (&["--minutes", "0"], "--minutes needs a number"),
            (&["--minutes"], "--minutes needs a number"),
            (&["guests"], "'guests' is no option"),
        ] {
            assert!(parsed(arguments).unwrap_err().to_string().starts_with(words), "{arguments:?}");
        }
    }

    #[test]
    fn a_check_that_fails_or_lacks_a_tool_is_a_row_and_not_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let failing = NightlyCheck::new("bad", "", "no-such-command-of-cargo");
        let row = one(&failing, folder.path()).unwrap();
        assert!(matches!(&row.outcome, NightlyOutcome::Failed(_)));
        assert!(fs::read_to_string(folder.path().join("bad.log")).unwrap().contains("no-such-command"));
        let needs = Some((&["no-such-tool"][..], "install it"));
        let lacking = NightlyCheck { needs, ..NightlyCheck::new("none", "", "--version") };
        let row = one(&lacking, folder.path()).unwrap();
        let NightlyOutcome::Skipped(reason) = &row.outcome else { panic!("it ran") };
        assert_eq!(reason, "cargo no-such-tool does not work here; install it");
        let table = table(&[row]);
        assert!(table.contains("  skipped: cargo no-such-tool"), "{table}");
    }
}
