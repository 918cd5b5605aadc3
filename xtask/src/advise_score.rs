//! `cargo xtask advise-score`: how right the findings of `advise` are.
//!
//! Programs with one known fault, and programs without any, are compiled from `programs` with sizes and other
//! work drawn by a seed. Programs of the system are larger; each has no known fault, or unpredictable
//! branches by an independent simulation. `advise` runs each of them, and its first finding is compared with
//! the fault.
//!
//! It depends on time, on the scheduler and on a disk, so that it is run by hand. Tests judge the facts that
//! it records by the rules (`fixtures/advise`).

mod installed;
mod programs;
mod report;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::root;
use installed::{installed, write_inputs};
use programs::{ScoreProgram, programs};
use report::{AdviceTally, NamedFault};

const USAGE: &str = "usage: cargo xtask advise-score [--seed N] [--tool FILE] [--record FOLDER] [NAME...]";

/// Precision and recall below which it fails.
const LEAST: f64 = 0.9;

/// The options of the command line.
#[derive(Debug)]
struct AdviseScoreOptions {
    seed: u64,
    tool: PathBuf,
    /// Where the facts of each program are written.
    record: Option<PathBuf>,
    /// The programs whose names contain one of these; none: all.
    names: Vec<String>,
}

impl AdviseScoreOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<AdviseScoreOptions> {
        let tool = root().join("target/release/cyclometer");
        let mut options = AdviseScoreOptions { seed: 1, tool, record: None, names: Vec::new() };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--seed" => options.seed = value()?.parse().context("--seed needs a number")?,
                "--tool" => options.tool = fs::canonicalize(value()?).context("--tool")?,
                "--record" => options.record = Some(value()?.into()),
                name if name.starts_with('-') => bail!("'{name}' is no option\n{USAGE}"),
                name => options.names.push(name.to_owned()),
            }
        }
        ensure!(
            options.tool.is_file(),
            "{} does not exist: build it, cargo build --release, or name one with --tool",
            options.tool.display()
        );
        Ok(options)
    }

    fn wants(&self, program: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| program.contains(name))
    }
}

/// Scores the rules.
pub fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = AdviseScoreOptions::parse(arguments)?;
    if let Some(folder) = &options.record {
        fs::create_dir_all(folder)?;
    }
    let folder = tempfile_folder()?;
    let mut tally = AdviceTally::default();
    for program in programs(options.seed).iter().filter(|program| options.wants(&program.name)) {
        let outcome = score(program, &folder, &options).with_context(|| program.name.clone())?;
        eprintln!("{outcome}");
        tally.add(outcome);
    }
    write_inputs(&folder, options.seed)?;
    for program in installed(options.seed).iter().filter(|program| options.wants(program.name)) {
        if !program.is_installed() {
            eprintln!("  {:14} left out: {} is not installed", program.name, program.command[0]);
            continue;
        }
        let advice = advise(&program.command, &folder, &options).with_context(|| program.name)?;
        let outcome = judged(program.name, program.fault, &advice, &options)?;
        eprintln!("{outcome}");
        tally.add(outcome);
    }
    fs::remove_dir_all(&folder)?;
    eprintln!("{tally}");
    let [precision, recall] = [tally.precision(), tally.recall()];
    ensure!(
        precision >= LEAST && recall >= LEAST,
        "precision {precision:.2} and recall {recall:.2} must be {LEAST}"
    );
    Ok(())
}

/// A folder on the disk of the working tree: waits for a device need one.
fn tempfile_folder() -> Result<PathBuf> {
    let folder = root().join("target").join(format!("advise-score-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn score(program: &ScoreProgram, folder: &Path, options: &AdviseScoreOptions) -> Result<NamedFault> {
    let binary = folder.join(&program.name);
    compile(program, &binary)?;
    let advice = advise(&[&binary], folder, options)?;
    fs::remove_file(&binary)?;
    judged(&program.name, program.fault, &advice, options)
}

/// The advice for a command.
fn advise<S: AsRef<OsStr>>(command: &[S], folder: &Path, options: &AdviseScoreOptions) -> Result<Value> {
    let output = Command::new(&options.tool)
        .args(["advise", "--json", "--"])
        .args(command)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "advise ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("advise wrote no JSON")
}

fn judged(
    name: &str,
    fault: Option<&'static str>,
    advice: &Value,
    options: &AdviseScoreOptions,
) -> Result<NamedFault> {
    if let Some(folder) = &options.record {
        write_fixture(name, fault, advice, folder)?;
    }
    Ok(NamedFault::of(name, fault, advice))
}

fn compile(program: &ScoreProgram, binary: &Path) -> Result<()> {
    let source = root().join("xtask/src/advise_score/programs").join(program.file);
    let status = Command::new("gcc")
        .args(["-O2", "-pthread", "-w", "-g"])
        .args(program.definitions())
        .arg("-o")
        .args([binary, &source])
        .status()
        .context("gcc")?;
    ensure!(status.success(), "gcc ended with {status}");
    Ok(())
}

/// The facts and the fault of a program, as tests read them.
fn write_fixture(name: &str, fault: Option<&str>, advice: &Value, folder: &Path) -> Result<()> {
    let facts = advice["facts"].as_array().context("no facts")?;
    let lines = facts.iter().filter_map(|fact| {
        let origin = fact["origin"].as_str()?;
        Some(format!("{} {} {origin}\n", fact["name"].as_str()?, fact["value"]))
    });
    let fault = fault.unwrap_or("none");
    let text = format!("fault {fault}\n") + &lines.collect::<String>();
    Ok(fs::write(folder.join(format!("{name}.facts")), text)?)
}
