//! The cost of runs under cyclometer and under its peers, alternating, as ratios.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its results")]

mod catalog;
mod limits;
mod per_run;
mod plan;
mod sdk;
mod soft;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

const USAGE: &str = "usage: cyclometer-benches [runs | catalog | plan | sdk | soft [PROGRAM...] | compilers [PROGRAM...] | redundancy [PROGRAM...] | where [PROGRAM...]]";

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        None => per_run::main(),
        Some((which, [])) if which == "runs" => per_run::main(),
        Some((which, [])) if which == "catalog" => catalog::main(),
        Some((which, [])) if which == "plan" => plan::main(),
        Some((which, [])) if which == "sdk" => sdk::main(),
        Some((which, programs)) if which == "soft" => soft::main(programs),
        Some((which, programs)) if which == "compilers" => soft::compilers::main(programs),
        Some((which, programs)) if which == "redundancy" => soft::redundancy::main(programs),
        Some((which, programs)) if which == "where" => soft::by_code::main(programs),
        _ => bail!("{USAGE}"),
    }
}

/// Builds a target in release mode; returns its path below the target folder.
fn build(what: &[&str], path: &str) -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let status = Command::new("cargo")
        .args(["build", "--release", "--quiet"])
        .args(what)
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the release build failed");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join(path))
}

fn build_cyclometer() -> Result<PathBuf> {
    build(&["--package", "cyclometer-cli"], "cyclometer")
}

/// A command without standard streams.
fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Whether a program is installed and prints its version; prints a note if not.
fn installed(program: &str) -> bool {
    let found = quiet(program).arg("--version").status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Median of the ratios, pair by pair: a machine's drift hits both.
fn ratio(ours: &[f64], peer: &[f64]) -> f64 {
    median(&ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect::<Vec<_>>())
}

/// The median; not a number if there are no values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(high) = sorted.get(sorted.len() / 2) else { return f64::NAN };
    if sorted.len() % 2 == 1 { *high } else { f64::midpoint(sorted[sorted.len() / 2 - 1], *high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), 3.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_ratio_is_taken_pair_by_pair() {
        assert_eq!(ratio(&[2.0, 40.0, 6.0], &[1.0, 20.0, 2.0]), 2.0);
    }
}
