//! `cargo xtask torture`: the corpus' short loads under random signals.
//!
//! While a load runs under the software PMU, the tool, its tracer and the program's processes are stopped and
//! continued, the tool is interrupted as by Ctrl-C or by a signal to it alone, it, its tracer or its helper
//! is killed or terminated, at random points. Whatever comes: nobody hangs, nothing is left behind, and the
//! output is the native one.
//! Only an interrupted program may stop early, or one whose tracer was killed, with which the kernel kills
//! it.

mod outside;
mod plan;
mod round;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cyclometer_sys::process::SIGINT;

use super::folder::CorpusFolder;
use super::program::{CorpusProgram, LoadScale};
use super::row::{Runner, Runs};
use super::running::Supervisor;
use super::table::PROGRAMS;
use super::{CorpusTool, SOURCES, named};
use crate::root;
use plan::SeededRandom;
use round::{NativeBaseline, TortureTally};

/// Rounds of one program before the next has its turn.
const ROUNDS: u32 = 12;

/// The time of a run that ends after a number of rounds.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The options of the command line.
#[derive(Debug, Default)]
struct TortureOptions {
    time: Duration,
    /// The most rounds.
    rounds: Option<u32>,
    seed: Option<u64>,
    tool: Option<PathBuf>,
    names: Vec<String>,
}

impl TortureOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<TortureOptions> {
        let mut options = TortureOptions::default();
        while let Some(argument) = arguments.next() {
            let mut number = || number(&argument, arguments.next());
            match argument.as_str() {
                "--minutes" => options.time = Duration::from_secs(60 * number()?),
                "--rounds" => options.rounds = Some(u32::try_from(number()?).unwrap_or(u32::MAX)),
                "--seed" => options.seed = Some(number()?),
                "--tool" => options.tool = Some(arguments.next().context("--tool needs a FILE")?.into()),
                option if option.starts_with('-') => {
                    bail!("'{option}' is no option; there are --minutes, --rounds, --seed and --tool")
                }
                name => options.names.push(name.to_owned()),
            }
        }
        if options.rounds.is_some_and(|rounds| rounds > 0) && options.time.is_zero() {
            options.time = LONGEST;
        }
        ensure!(!options.time.is_zero(), "--minutes N or --rounds N is needed, with N of 1 or more");
        Ok(options)
    }

    fn programs(&self) -> Result<Vec<&'static CorpusProgram>> {
        if self.names.is_empty() {
            return Ok(PROGRAMS.iter().filter(|program| program.torture().is_some()).collect());
        }
        self.names.iter().map(|name| named(name)).collect()
    }
}

fn number(option: &str, value: Option<String>) -> Result<u64> {
    let value = value.with_context(|| format!("{option} needs a number"))?;
    value.parse().with_context(|| format!("{option} {value}: no whole number of 0 or more"))
}

/// Runs rounds until the time is over; fails if any round did.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = TortureOptions::parse(arguments)?;
    let status = fs::read_to_string("/proc/self/status").context("/proc/self/status")?;
    ensure!(
        !ignores_interrupts(&status),
        "SIGINT is ignored here, as in what a script starts with &, and whatever is started would ignore it, too: \
         begin in the foreground, or in a shell with job control"
    );
    let programs = options.programs()?;
    let tool = CorpusTool::new(options.tool.clone())?;
    if let Some(reason) = tool.refuses()? {
        bail!("the software PMU does not work here: {reason}");
    }
    let seed = options.seed.unwrap_or_else(SeededRandom::seed);
    eprintln!("seed {seed}");
    let end = TortureEnd { at: Instant::now() + options.time, rounds: options.rounds.unwrap_or(u32::MAX) };
    let tally = torture(&programs, &tool, seed, end)?;
    eprintln!("seed {seed}: {tally}");
    ensure!(tally.faults() == 0, "{} rounds went wrong", tally.faults());
    ensure!(tally.rounds() > 0, "not one round was made");
    Ok(())
}

/// Whether a process ignores SIGINT, by its `/proc/PID/status`.
fn ignores_interrupts(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (SIGINT - 1)) != 0
}

/// The end of a run: whichever comes first.
#[derive(Clone, Copy)]
struct TortureEnd {
    at: Instant,
    rounds: u32,
}

impl TortureEnd {
    fn is_reached(self, tally: &TortureTally) -> bool {
        Instant::now() >= self.at || tally.rounds() >= self.rounds
    }
}

fn torture(
    programs: &[&'static CorpusProgram],
    tool: &CorpusTool,
    seed: u64,
    end: TortureEnd,
) -> Result<TortureTally> {
    let supervisor = Supervisor::new()?;
    let place = CorpusFolder::new(&root().join(SOURCES), LoadScale::Small)?;
    place.take(&tool.file)?;
    let runner = Runner { supervisor: &supervisor, place: &place, runs: Runs { native: 1, counted: 1 } };
    let mut random = SeededRandom::new(seed);
    let mut tally = TortureTally::default();
    for program in programs.iter().cycle() {
        if end.is_reached(&tally) {
            break;
        }
        match runner.missing(program) {
            Some(reason) => eprintln!("{}: SKIPPED: {reason}", program.name),
            None => turn(&runner, program, &mut random, &mut tally, end)?,
        }
        ensure!(programs.iter().any(|program| runner.missing(program).is_none()), "not one program is here");
    }
    Ok(tally)
}

/// Some rounds of one program.
fn turn(
    runner: &Runner<'_>,
    program: &'static CorpusProgram,
    random: &mut SeededRandom,
    tally: &mut TortureTally,
    end: TortureEnd,
) -> Result<()> {
    let baseline = NativeBaseline::new(runner, program)?;
    let before = tally.faults();
    for _ in 0..ROUNDS {
        if !end.is_reached(tally) {
            baseline.round(random, tally)?;
        }
    }
    eprintln!("{}: {} faults; {} rounds so far", program.name, tally.faults() - before, tally.rounds());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<TortureOptions> {
        TortureOptions::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn minutes_seed_and_names_are_read() {
        let options = parsed(&["--minutes", "2", "--seed", "7", "bash"]).unwrap();
        assert_eq!((options.time, options.seed), (Duration::from_secs(120), Some(7)));
        assert_eq!(options.programs().unwrap().len(), 1);
        let options = parsed(&["--rounds", "500"]).unwrap();
        assert_eq!((options.time, options.rounds), (LONGEST, Some(500)));
    }

    #[test]
    fn who_ignores_interrupts_is_known_by_its_status() {
        let status = |ignored: &str| format!("Name:\txtask\nSigBlk:\t0000000000000002\nSigIgn:\t{ignored}\n");
        assert!(!ignores_interrupts(&status("0000000000001000")));
        assert!(ignores_interrupts(&status("0000000000001006")));
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        for (arguments, words) in [
            (&[][..], "--minutes N or --rounds N is needed"),
            (&["--rounds", "0"], "--minutes N or --rounds N is needed"),
            (&["--minutes"], "--minutes needs a number"),
            (&["--minutes", "x"], "--minutes x: no whole number"),
            (&["--minutes", "0"], "--minutes N or --rounds N is needed"),
            (&["--hours", "1"], "'--hours' is no option"),
        ] {
            assert!(parsed(arguments).unwrap_err().to_string().starts_with(words), "{arguments:?}");
        }
    }
}
