//! `reverse`: finds out what events count.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cyclometer_toolkit::reverse::{MOST_CODES, SweepMachine, SweepOptions};
use cyclometer_toolkit::sweep::SweepSettings;
use cyclometer_toolkit::{InputStream, OutputStream, Result, Simulated, simulated};

use super::read_semantics;
use super::sweep_journal::JournalFile;
use super::sweep_log::{SweepLog, dry_run};
use crate::args::{Cli, ReverseArgs, ReverseMethod};
use crate::exit;
use crate::export::{self, Export};
use crate::failure::{self, FileUse, of_file};
use crate::output::{self, Channel};
use crate::render::plot::verdicts::verdicts;
use crate::render::{json, reversed};

/// Sweeps the codes, and shows the verdict on each.
///
/// # Errors
///
/// Usage that makes no sense, and those of [`SweepMachine::reverse`].
pub fn run(args: &ReverseArgs, cli: &Cli) -> Result<u8> {
    let resumed = args.resume.as_deref().map(JournalFile::resume).transpose()?;
    let seed = resumed.as_ref().map_or(args.seed, |(_, journal)| journal.header.settings.seed);
    let machine = machine(args, seed)?;
    let (file, journal) = resumed.map_or((None, None), |(file, journal)| (Some(file), Some(journal)));
    let settings = match &journal {
        Some(journal) => journal.header.settings.clone(),
        None => settings(args, &machine),
    };
    let options = SweepOptions {
        denied: args.deny.as_deref().map(denied).transpose()?.unwrap_or_default(),
        step_limit: Duration::from_secs(args.step_limit),
        resumed: journal,
        ..SweepOptions::new(settings)
    };
    if let Some(events) = &args.check {
        return super::claims::run(&machine, events, &options, file, args, cli);
    }
    let codes = match (&options.resumed, &args.ids) {
        (Some(journal), _) => journal.header.codes.clone(),
        (None, Some(text)) => codes_of(text)?,
        (None, None) => machine.usual_codes(),
    };
    match (&args.kernel, &args.control, args.method) {
        (Some(_), _, Some(ReverseMethod::Inference)) => {
            return Err(failure::usage(
                "--method inference has kernels of its own",
                "leave out --kernel and --control, or name --method threshold",
            ));
        }
        (Some(real), Some(control), _) => {
            return super::threshold::run(&machine, (real, control), &codes, &options, args, cli);
        }
        (_, _, Some(ReverseMethod::Threshold)) => {
            return Err(failure::usage(
                "--method threshold needs two kernels",
                "name them: --kernel real.s --control fake.s, or --kernel update_l2 --control update_l1",
            ));
        }
        _ => {}
    }
    let open = |option: &'static str, path: &Option<PathBuf>| {
        path.as_deref().map(|path| Export::open(option, path)).transpose()
    };
    export::check(
        &[("--export-events", args.export_events.as_deref()), ("--html", args.html.as_deref())],
        &[],
        (&InputStream::Null, &OutputStream::Null),
    )?;
    let (events, html) = (open("--export-events", &args.export_events)?, open("--html", &args.html)?);
    if args.dry_run {
        return super::print(&dry_run(&machine, &codes, args.ids.is_none(), &options)?);
    }
    let mut observer = SweepLog::begin(args, file, codes.len())?;
    let found = machine.reverse(&codes, &options, &mut observer)?;
    drop(observer);
    let is_shown = [&events, &html].into_iter().flatten().all(|export| !export.is_stdout());
    events.map_or(Ok(()), |export| export.write(&machine.event_table(&found)))?;
    html.map_or(Ok(()), |export| {
        export.write(&verdicts(&found, &machine.identity(), &reversed::notes(&found, &machine)))
    })?;
    if !is_shown {
        return Ok(exit::OK);
    }
    super::print(&match args.json {
        true => json::pretty(&reversed::json(&found, &machine, &options.settings)),
        false => reversed::render(&found, &machine, cli.verbose, super::paint(cli, Channel::Out)),
    })?;
    Ok(exit::OK)
}

fn settings(args: &ReverseArgs, machine: &SweepMachine) -> SweepSettings {
    let usual = machine.usual_settings();
    let iterations = args.iterations.unwrap_or(usual.iterations);
    SweepSettings { repeats: args.repeats, seed: args.seed, iterations, ..usual }
}

fn machine(args: &ReverseArgs, seed: u64) -> Result<SweepMachine> {
    let Some(name) = &args.machine else { return SweepMachine::here(args.backend.rung(), args.cpu) };
    if !name.starts_with(simulated::PREFIX) {
        let message = format!("'{}' is no machine to sweep", output::clean(name));
        return Err(failure::usage(
            message,
            "name a simulated one, as in --machine sim:apple-m1; without --machine this one is swept",
        ));
    }
    let found = Simulated::find(name)?.with_seed(seed);
    Ok(SweepMachine::simulated(match &args.semantics {
        Some(file) => found.with_semantics(read_semantics(file)?),
        None => found,
    }))
}

/// The longest list of denied codes that is read, in bytes.
const MAX_DENIED_BYTES: u64 = 1 << 20;

/// The codes of a list of denied codes.
fn denied(path: &Path) -> Result<BTreeSet<u32>> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_DENIED_BYTES).read_to_string(&mut text));
    read.map_err(|error| of_file("--deny", FileUse::Read, path, error))?;
    denied_codes(&text).map_err(|(line, content)| {
        let message = format!(
            "--deny: {}: line {line}: '{}' is no code and no range of codes",
            output::clean_os(path.as_os_str()),
            output::clean(&content)
        );
        failure::usage(message, "write a code or a range a line, as in 0x1c or 0x40-0x4f; # begins a comment")
    })
}

/// The codes of its lines, or the first line that has none.
fn denied_codes(text: &str) -> std::result::Result<BTreeSet<u32>, (usize, String)> {
    let mut codes = BTreeSet::new();
    for (index, line) in text.lines().enumerate() {
        let content = line.split('#').next().unwrap_or_default().trim();
        if !content.is_empty() {
            codes.extend(codes_of(content).map_err(|_| (index + 1, content.to_owned()))?);
        }
    }
    Ok(codes)
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

fn unknown_codes(part: &str) -> cyclometer_toolkit::Error {
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

    #[test]
    fn denied_codes_are_lines_with_comments() {
        let codes = denied_codes("# harmful here\n0x10-0x12 # three\n\n7\n").unwrap();
        assert_eq!(codes.into_iter().collect::<Vec<_>>(), [7, 0x10, 0x11, 0x12]);
        assert_eq!(denied_codes("7\nnonsense # why\n"), Err((2, "nonsense".to_owned())));
    }
}
