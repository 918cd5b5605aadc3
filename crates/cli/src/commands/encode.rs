//! `encode`: perf's words and the register values that count an event.

use cyclometer_toolkit::catalogue::encode::{EventEncoding, encode, encode_all};
use cyclometer_toolkit::catalogue::table::Cpu;
use cyclometer_toolkit::core::CounterId;
use cyclometer_toolkit::core::syntax::{EventRequest, parse_events};
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result, table_for};

use crate::args::{Cli, EncodeArgs};
use crate::output::Channel;
use crate::render::{encoding, json};

/// Encodes events.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU that is not known or a value that does not fit,
/// `ErrorKind::UnknownEvent` for a name that no core type of it has.
pub fn run(args: &EncodeArgs, cli: &Cli) -> Result<u8> {
    if args.events.is_empty() && !args.all {
        return Err(Error::new(ErrorKind::InvalidInput, "no event is named")
            .with_recovery(Recovery::fix("name events, or --all for every event of the CPU")));
    }
    let asked = super::Asked::read(args.cpu.as_deref(), &args.tables)?;
    let cores = asked.cores();
    let mut found: Vec<(Cpu<'_>, EventEncoding<'_>)> = Vec::new();
    if args.all {
        found.extend(cores.iter().flat_map(|tables| all_of(tables)));
    }
    for list in &args.events {
        for request in parse_events(list)? {
            let counter = args.counter.or(request.pin.map(CounterId::General));
            let on = |tables: &Vec<_>| on(tables, &request, counter);
            found.extend(super::those_that_have_it(cores.iter().map(on).collect())?.into_iter().flatten());
        }
    }
    if !args.all {
        found.iter().try_for_each(|(cpu, encoding)| possible(cpu, encoding, args.counter.is_some()))?;
    }
    super::print(&match args.json {
        true => json::pretty(&encoding::json(&found)),
        false => encoding::render(&found, &asked.tables, super::paint(cli, Channel::Out)),
    })
}

/// Every event of a core type, from the first table that has it.
fn all_of<'a>(tables: &[Cpu<'a>]) -> Vec<(Cpu<'a>, EventEncoding<'a>)> {
    let of = |(cpu, is_new): (Cpu<'a>, _)| own(cpu, is_new);
    super::each_with_better(tables).flat_map(of).collect()
}

fn own<'a>(cpu: Cpu<'a>, is_new: impl Fn(&str) -> bool) -> Vec<(Cpu<'a>, EventEncoding<'a>)> {
    let all = encode_all(cpu).filter(|encoding| is_new(&encoding.selected.name));
    all.map(|encoding| (cpu, encoding)).collect()
}

/// An event of a core type by the table that answers for it.
fn on<'a>(
    tables: &[Cpu<'a>],
    request: &EventRequest,
    counter: Option<CounterId>,
) -> Result<Vec<(Cpu<'a>, EventEncoding<'a>)>> {
    let cpu = table_for(tables, request)?;
    let all = encode(cpu, request, counter)?;
    Ok(all.into_iter().map(|encoding| (cpu, encoding)).collect())
}

/// An event without any encoding is an error, and so is one that the requested counter cannot count.
fn possible(cpu: &Cpu<'_>, encoding: &EventEncoding<'_>, counter_named: bool) -> Result<()> {
    let reason = match (&encoding.perf, &encoding.registers) {
        (Err(perf), Err(_)) => perf,
        (_, Err(reason)) if counter_named => reason,
        _ => return Ok(()),
    };
    let message = format!("{} on {}: {reason}", encoding.selected.name, cpu.id());
    let help = format!("`cyclometer list --cpu {}` shows what its events may have", cpu.id());
    Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(help)))
}
