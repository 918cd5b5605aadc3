//! The command-line tool as users have it: optimized, with the features that are on by default. All other
//! tests have a build with every feature.

use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Runs the main commands of a release build.
pub(crate) fn check(tool: &Path) -> Result<()> {
    eprintln!("==> the main commands of the release build");
    counts(tool)?;
    catalogue(tool)?;
    lacks_optional_formats(tool)
}

fn run(tool: &Path, arguments: &[&str]) -> Result<Output> {
    let out = Command::new(tool).args(arguments).output();
    out.with_context(|| format!("starting {}", tool.display()))
}

/// The output of a command that succeeds.
fn printed(tool: &Path, arguments: &[&str]) -> Result<String> {
    let out = run(tool, arguments)?;
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    ensure!(out.status.success(), "cyclometer {}: {}\n{message}", arguments.join(" "), out.status);
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// An event that every kernel counts has a number.
fn counts(tool: &Path) -> Result<()> {
    let text = printed(tool, &["stat", "--json", "--output", "null", "-e", "task-clock", "true"])?;
    let report: Value = serde_json::from_str(&text).context("the report of stat")?;
    ensure!(mentions(&report, "task-clock"), "stat --json does not have the event task-clock:\n{text}");
    Ok(())
}

/// Whether a text is a value anywhere in a report.
fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text == word,
        Value::Array(values) => values.iter().any(|value| mentions(value, word)),
        Value::Object(fields) => fields.values().any(|value| mentions(value, word)),
        _ => false,
    }
}

fn catalogue(tool: &Path) -> Result<()> {
    let text = printed(tool, &["encode", "--cpu", "skylake", "INST_RETIRED.ANY_P"])?;
    ensure!(text.contains("0xc0"), "encode does not have the code of INST_RETIRED.ANY_P:\n{text}");
    Ok(())
}

/// A format that is not built in has an error with its remedy.
fn lacks_optional_formats(tool: &Path) -> Result<()> {
    for format in ["parquet", "firefox"] {
        let out = run(tool, &["convert", "no-such-file", "--to", format, "-o", "/no/such/folder"])?;
        let message = String::from_utf8_lossy(&out.stderr);
        let expected = format!(
            "cyclometer: error: this cyclometer was built without --to {format}\n\
             help: build it with `cargo install --locked cyclometer-cli --features {format}`, or convert to csv\n"
        );
        ensure!(message.starts_with(&expected), "convert --to {format}: {}\n{message}", out.status);
    }
    Ok(())
}
