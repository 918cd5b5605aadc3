//! The build budget: what the command-line tool may cost someone who installs it from source.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::run::{cargo_command, output, step};

/// Crates that the release build of the command-line tool may compile.
const CRATES: usize = 120;
/// Time that a cold release build of it may take on two cores.
const TIME: Duration = Duration::from_secs(90);
const TOOL: &str = "cyclometer-cli";

/// Counts the crates and times a cold release build in a folder of its own.
pub(crate) fn check(root: &Path) -> Result<()> {
    let crates = crates()?;
    ensure!(crates <= CRATES, "{TOOL} needs {crates} crates; the budget is {CRATES}");
    let took = cold_build(root)?;
    eprintln!("==> budget: {crates} crates of {CRATES}, {:.0} s of {} s", took.as_secs_f64(), TIME.as_secs());
    ensure!(
        took <= TIME,
        "a cold release build took {:.0} s; the budget is {} s",
        took.as_secs_f64(),
        TIME.as_secs()
    );
    Ok(())
}

fn crates() -> Result<usize> {
    let args = ["tree", "--package", TOOL, "--edges", "normal,build", "--prefix", "none", "--format", "{p}"];
    let tree = output("cargo", &args)?;
    Ok(tree.lines().map(|line| line.trim_end_matches(" (*)")).collect::<BTreeSet<_>>().len())
}

fn cold_build(root: &Path) -> Result<Duration> {
    let folder = root.join("target").join("budget");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let mut fetch = cargo_command(&["fetch", "--locked", "--quiet"]);
    fetch.stdout(std::process::Stdio::null());
    step("cargo fetch", fetch)?;
    let mut build = cargo_command(&["build", "--release", "--locked", "--quiet", "--package", TOOL]);
    build.env("CARGO_TARGET_DIR", &folder);
    let start = Instant::now();
    step("a cold release build", build)?;
    let took = start.elapsed();
    std::fs::remove_dir_all(&folder)?;
    Ok(took)
}
