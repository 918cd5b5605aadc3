//! The same compared with PAPI, if its headers and library are installed: a C program reads its counters,
//! alternating with ours.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::{Pairs, READ_LIMIT, ROUNDS, THREE, TIMES, each, monitor, region};
use crate::limits::BrokenLimits;

const PROGRAM: &str = include_str!("papi.c");

/// Measures everything compared with PAPI, or prints the reason why not.
pub(super) fn main(limits: &mut BrokenLimits) -> Result<()> {
    let built = match build() {
        Ok(built) => built,
        Err(reason) => {
            eprintln!("skipped: PAPI: {reason}");
            return Ok(());
        }
    };
    println!("\n| beside PAPI | cyclometer | PAPI | ratio | limit |\n|---|---|---|---|---|");
    let one = monitor(THREE[0])?;
    let counter = one.counter(THREE[0]).context("page faults are not counted by perf here")?;
    let mut papi = Papi::start(&built, &THREE[..1])?;
    let pairs = papi.pairs("read", 1, || counter.read().unwrap_or_default())?;
    let ratio = pairs.print("one software event, one read beside PAPI_read", Some(READ_LIMIT));
    limits.must(ratio <= READ_LIMIT, &format!("a read is {ratio:.2} times PAPI's, at most {READ_LIMIT}"));
    let pairs = papi.pairs("read", 2, || region(&one))?;
    pairs.print("one software event, a region beside two PAPI_read", None);
    let pairs = papi.pairs("start", 1, || region(&one))?;
    pairs.print("one software event, a region beside PAPI_start and PAPI_stop", None);
    drop(papi);
    let three = monitor(&THREE.join(","))?;
    let mut papi = Papi::start(&built, &THREE)?;
    let pairs = papi.pairs("read", 2, || region(&three))?;
    pairs.print("three software events, a region beside two PAPI_read", None);
    Ok(())
}

/// Compiles the program with the C compiler, which also searches `CPATH` and `LIBRARY_PATH`.
fn build() -> Result<TempDir> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("papi.c");
    std::fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(folder.path().join("papi")).arg(&source).arg("-lpapi");
    let output = compiler.output().context("there is no C compiler")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().find(|line| line.contains("error") || line.contains("cannot find"));
    ensure!(output.status.success(), "no program can be built with it: {}", first.unwrap_or_default());
    Ok(folder)
}

/// The program, which waits for orders: an operation and a number of repetitions.
struct Papi {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Papi {
    fn start(built: &TempDir, events: &[&str]) -> Result<Papi> {
        let named = events.iter().map(|event| format!("perf::{}", event.to_uppercase()));
        let mut child = Command::new(built.path().join("papi"))
            .args(named)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let orders = child.stdin.take().context("no standard input")?;
        let answers = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Papi { child, orders, answers })
    }

    /// Measurements of ours and of an order to PAPI, alternating.
    fn pairs(&mut self, order: &str, times: u32, mut ours: impl FnMut() -> u64) -> Result<Pairs> {
        let mut pairs = Pairs { ours: Vec::new(), peer: Vec::new() };
        for _ in 0..ROUNDS {
            pairs.ours.push(each(&mut ours));
            pairs.peer.push(self.each(order)? * f64::from(times));
        }
        Ok(pairs)
    }

    /// Seconds of one repetition.
    fn each(&mut self, order: &str) -> Result<f64> {
        writeln!(self.orders, "{order} {TIMES}")?;
        self.orders.flush()?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            bail!("the program that reads PAPI's counters ended");
        }
        Ok(answer.trim().parse::<f64>()? / 1e9 / f64::from(TIMES))
    }
}

impl Drop for Papi {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
