//! `cargo xtask reverse-score`: how right the verdicts of `reverse` are.
//!
//! For each seed a table of hidden events is generated and put into a simulated chip. The sweep counts its
//! codes as it counts those of any chip, inference judges the counts, and the verdicts are compared with the
//! table, which neither of them sees.

mod found;
mod hidden_chip;
mod report;
mod tally;
mod threshold_method;
mod truth;

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use cyclometer_semantics::SemanticsShape;
use cyclometer_sim::Model;
use cyclometer_sweep::SweepSettings;

use hidden_chip::HiddenChip;
use tally::Tally;

const USAGE: &str = "usage: cargo xtask reverse-score [--seeds A-B] [--chip ID]... [--list]";

/// Seeds of tables that were not looked at while the method was developed.
const SEEDS: RangeInclusive<u64> = 900_000..=900_019;

/// A chip of each instruction set.
const CHIPS: [&str; 2] = ["apple-m1", "sapphirerapids"];

/// The options of the command line.
#[derive(Debug)]
struct ScoreOptions {
    seeds: RangeInclusive<u64>,
    chips: Vec<&'static Model>,
    /// Names the sums that no hypothesis of their verdict explains, and dead codes that are not found.
    list: bool,
}

impl ScoreOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<ScoreOptions> {
        let (mut seeds, mut chips, mut list) = (SEEDS, Vec::new(), false);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"));
            match argument.as_str() {
                "--seeds" => seeds = seeds_of(&value()?)?,
                "--chip" => chips.push(chip(&value()?)?),
                "--list" => list = true,
                _ => bail!("'{argument}' is no option\n{USAGE}"),
            }
        }
        if chips.is_empty() {
            chips = CHIPS.iter().map(|id| chip(id)).collect::<Result<_>>()?;
        }
        Ok(ScoreOptions { seeds, chips, list })
    }
}

fn seeds_of(text: &str) -> Result<RangeInclusive<u64>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let seed = |text: &str| text.parse::<u64>().with_context(|| format!("'{text}' is no seed: --seeds 1-20"));
    let (first, last) = (seed(first)?, seed(last)?);
    ensure!(first <= last, "--seeds {text}: the first seed is greater than the last one");
    Ok(first..=last)
}

fn chip(id: &str) -> Result<&'static Model> {
    let id = id.strip_prefix("sim:").unwrap_or(id);
    let known = || Model::ALL.iter().map(|model| model.id).collect::<Vec<_>>().join(", ");
    Model::find(id).with_context(|| format!("no simulated chip is called '{id}'; there are {}", known()))
}

/// Runs the score.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = ScoreOptions::parse(arguments)?;
    let mut all = Tally::default();
    for model in options.chips {
        let chip = HiddenChip::new(model)?;
        let tally = of_seeds(&chip, options.seeds.clone())?;
        eprintln!("{}", report::of_chip(&chip, &options.seeds, &tally));
        all.add(tally);
    }
    if options.list {
        all.lacking().iter().for_each(|event| eprintln!("{event}"));
    }
    eprintln!("{}", report::limits(&all));
    let missed = all.missed_limits();
    ensure!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}

/// The tally of all seeds, on all CPUs.
fn of_seeds(chip: &HiddenChip, seeds: RangeInclusive<u64>) -> Result<Tally> {
    let next = Mutex::new(seeds);
    let shape = chip.shape();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let worker = || {
        let mut tally = Tally::default();
        while let Some(seed) = next.lock().ok().and_then(|mut seeds| seeds.next()) {
            tally.add(of_seed(chip, seed, &shape, SweepSettings::default())?);
        }
        Ok(tally)
    };
    let tallies: Vec<Result<Tally>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, _>| {
            worker.join().unwrap_or_else(|_| bail!("a thread of the score panicked"))
        };
        workers.into_iter().map(join).collect()
    });
    let mut all = Tally::default();
    for tally in tallies {
        all.add(tally?);
    }
    Ok(all)
}

fn of_seed(chip: &HiddenChip, seed: u64, shape: &SemanticsShape, settings: SweepSettings) -> Result<Tally> {
    let settings = SweepSettings { seed, ..settings };
    let swept = chip.sweep(seed, shape, &settings)?;
    Ok(Tally::of(chip, &swept, seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<ScoreOptions> {
        ScoreOptions::parse(arguments.iter().map(|&argument| argument.to_owned()))
    }

    #[test]
    fn a_small_hidden_table_is_scored_without_a_wrong_verdict() {
        let chip = HiddenChip::new(Model::find("apple-m1").unwrap()).unwrap();
        let shape = SemanticsShape {
            codes: 1..14,
            singles: 4,
            sums: 2,
            scaled: 1,
            duplicates: 0,
            speculative: 1,
            noisy: 0,
            saturating: 1,
            thresholds: 1,
            states: 1,
            durations: 1,
            differing: 0,
            ..chip.shape()
        };
        let settings = SweepSettings { iterations: 2047, repeats: 2, seed: 1, ..SweepSettings::default() };
        let tally = of_seed(&chip, 1, &shape, settings).unwrap();
        assert_eq!(tally.wrong(), [""; 0]);
        assert!(tally.live() >= 9 && tally.identified() >= 3, "{tally:?}");
    }

    #[test]
    fn options_name_seeds_and_chips() {
        let default = options(&[]).unwrap();
        assert_eq!((default.seeds, default.chips.len()), (SEEDS, 2));
        let some = options(&["--seeds", "3-5", "--chip", "skylake", "--chip", "sim:apple-m4"]).unwrap();
        assert_eq!(some.seeds, 3..=5);
        assert_eq!(some.chips.iter().map(|chip| chip.id).collect::<Vec<_>>(), ["skylake", "apple-m4"]);
        assert_eq!(options(&["--seeds", "7"]).unwrap().seeds, 7..=7);
    }

    #[test]
    fn options_that_cannot_be_are_refused_with_a_remedy() {
        let refusal = |arguments: &[&str]| format!("{:#}", options(arguments).unwrap_err());
        assert!(refusal(&["--seeds", "5-3"]).contains("greater than the last"));
        assert!(refusal(&["--seeds", "x"]).contains("--seeds 1-20"));
        assert!(refusal(&["--seeds"]).contains("needs a value"));
        assert!(refusal(&["--chip", "z80"]).contains("apple-m1, "));
        assert!(refusal(&["fast"]).contains(USAGE));
    }
}
