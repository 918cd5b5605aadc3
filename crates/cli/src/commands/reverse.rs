//! `reverse`: finds out what events count.

use cyclometer::reverse::MOST_CODES;
use cyclometer::sweep::SweepSettings;
use cyclometer::{Result, Simulated, simulated};

use super::read_semantics;
use crate::args::{Cli, ReverseArgs};
use crate::export::Export;
use crate::output::{self, Channel};
use crate::progress::Progress;
use crate::render::{json, reversed};
use crate::{exit, failure};

/// Sweeps the codes, and shows the verdict on each.
///
/// # Errors
///
/// Usage that makes no sense, and those of [`Simulated::reverse`].
pub fn run(args: &ReverseArgs, cli: &Cli) -> Result<u8> {
    let simulated = machine(args)?;
    let settings = SweepSettings { repeats: args.repeats, seed: args.seed, ..SweepSettings::default() };
    if let Some(events) = &args.check {
        return super::claims::run(&simulated, events, &settings, args, cli);
    }
    let codes = match &args.ids {
        Some(text) => codes_of(text)?,
        None => simulated.usual_codes(),
    };
    let export =
        args.export_events.as_deref().map(|path| Export::open("--export-events", path)).transpose()?;
    if args.dry_run {
        super::print(&reversed::dry_run(&codes, &settings))?;
        return Ok(exit::OK);
    }
    let total = u32::try_from(codes.len()).unwrap_or(u32::MAX);
    let mut progress = Progress::of_codes(total, super::shows_progress());
    let found = simulated.reverse(&codes, &settings, |now| {
        progress.advance(u32::try_from(now.done).unwrap_or(u32::MAX));
    })?;
    drop(progress);
    let is_shown = export.as_ref().is_none_or(|export| !export.is_stdout());
    if let Some(export) = export {
        export.write(&simulated.event_table(&found))?;
    }
    if !is_shown {
        return Ok(exit::OK);
    }
    super::print(&match args.json {
        true => json::pretty(&reversed::json(&found, &settings)),
        false => reversed::render(&found, cli.verbose, super::paint(cli, Channel::Out)),
    })?;
    Ok(exit::OK)
}

fn machine(args: &ReverseArgs) -> Result<Simulated> {
    let Some(name) = &args.machine else {
        return Err(failure::usage(
            "the PMU of this machine cannot be swept yet",
            "name a simulated machine, as in --machine sim:apple-m1",
        ));
    };
    if !name.starts_with(simulated::PREFIX) {
        let message = format!("'{}' is no machine to sweep", output::clean(name));
        return Err(failure::usage(message, "name a simulated one, as in --machine sim:apple-m1"));
    }
    let found = Simulated::find(name)?.with_seed(args.seed);
    match &args.semantics {
        Some(file) => Ok(found.with_semantics(read_semantics(file)?)),
        None => Ok(found),
    }
}

/// The codes of a list of numbers and ranges, ascending, each once.
fn codes_of(text: &str) -> Result<Vec<u32>> {
    let mut codes = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last && ((last - first) as usize) < MOST_CODES => {
                codes.extend(first..=last);
            }
            _ => return Err(unknown_codes(part)),
        }
    }
    codes.sort_unstable();
    codes.dedup();
    Ok(codes)
}

fn number(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn unknown_codes(part: &str) -> cyclometer::Error {
    failure::usage(
        format!("--ids: '{}' is no code and no range of at most {MOST_CODES} codes", output::clean(part)),
        "write numbers and ranges, as in 0x00-0xff,0x1cd",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbers_and_ranges() {
        assert_eq!(codes_of("0x10-0x12,7,0x11").unwrap(), [7, 0x10, 0x11, 0x12]);
        for wrong in ["", "x", "0x12-0x10", "1,,2", "0-0x10000", "-5", "0x1ffffffff"] {
            assert!(codes_of(wrong).is_err(), "{wrong}");
        }
    }
}
