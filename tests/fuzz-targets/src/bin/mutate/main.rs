//! Runs every parser of foreign bytes on changed files of its corpus.
//!
//! No change may make a parser panic, run for more than 10 s of CPU time, or take more than 2 GiB. A
//! change that does is kept in a file, whose name has the target, the seed and the number of the change.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "a tool of the project talks to its developers")]

mod commands;
mod in_process;
mod limits;
mod options;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cyclometer_fuzz_targets::mutation::{MutationRandom, mutated};
use cyclometer_fuzz_targets::{SELF_TEST, TARGETS, corpus};
use options::{MutateOptions, MutateRequest};

/// Most faults of a target before the next target begins.
const MOST_FAULTS: usize = 20;

fn main() -> ExitCode {
    let request = MutateOptions::parse(std::env::args().skip(1));
    match request.and_then(|request| match request {
        MutateRequest::All(options) => all(&options),
        MutateRequest::Child(child) => in_process::child(&child),
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn all(options: &MutateOptions) -> Result<()> {
    eprintln!("seed {}, {} changed files for each format", options.seed, options.files);
    let mut faults = 0;
    let self_test = options.names(SELF_TEST.name).then_some(&SELF_TEST);
    for target in TARGETS.iter().filter(|target| options.wants(target.name)).chain(self_test) {
        faults += told(target.name, target.reads, in_process::run(target, options)?);
    }
    for target in commands::TARGETS.iter().filter(|target| options.wants(target.name)) {
        match &options.tool {
            Some(tool) => faults += told(target.name, target.reads, commands::run(target, tool, options)?),
            None => eprintln!("==> skipped: {}: there is no --tool FILE", target.name),
        }
    }
    if faults > 0 {
        bail!("{faults} changed files broke a promise; they are in {}", options.keep.display());
    }
    Ok(())
}

fn told(name: &str, reads: &str, faults: usize) -> usize {
    let verdict = if faults == 0 { "ok".to_owned() } else { format!("{faults} FAULTS") };
    eprintln!("{name:<20} {verdict:<10} {reads}");
    faults
}

/// A change of a file of a target's corpus.
fn changed(name: &str, files: &[Vec<u8>], seed: u64, number: u64) -> Vec<u8> {
    let mut random = MutationRandom::new(name, seed, number);
    let file = &files[number as usize % files.len()];
    // The files themselves come first.
    if number < files.len() as u64 { file.clone() } else { mutated(file, files, &mut random) }
}

/// Keeps a file that broke a promise.
fn keep(options: &MutateOptions, name: &str, number: u64, bytes: &[u8], why: &str) -> Result<()> {
    std::fs::create_dir_all(&options.keep).context("the folder of kept files")?;
    let path = options.keep.join(format!("{name}-{}-{number}", options.seed));
    write(&path, bytes)?;
    eprintln!("{name}: change {number}: {why}\n    kept in {}", path.display());
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The corpus of a target.
fn files(name: &str) -> Result<Vec<Vec<u8>>> {
    corpus::of(name)
}
