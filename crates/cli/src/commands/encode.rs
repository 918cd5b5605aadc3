//! `encode`: what to write where to count an event.

use cyclometer::catalogue::encode::{Encoding, encode, encode_all};
use cyclometer::catalogue::table::Cpu;
use cyclometer::core::CounterId;
use cyclometer::core::syntax::parse_events;
use cyclometer::{Error, ErrorKind, Recovery, Result};

use crate::args::{Cli, EncodeArgs};
use crate::output::Channel;
use crate::render::{encoding, json};

/// Encodes events.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU that is not known or a value that does not fit, `ErrorKind::UnknownEvent` for
/// a name that no core type of it has.
pub fn run(args: &EncodeArgs, cli: &Cli) -> Result<u8> {
    let cpus = super::cpus_of(args.cpu.as_deref())?;
    if args.events.is_empty() && !args.all {
        return Err(Error::new(ErrorKind::InvalidInput, "no event is named")
            .with_recovery(Recovery::fix("name events, or --all for every event of the CPU")));
    }
    let mut found: Vec<(Cpu<'static>, Encoding<'static>)> = Vec::new();
    if args.all {
        found.extend(cpus.iter().flat_map(|cpu| encode_all(*cpu).map(|encoding| (*cpu, encoding))));
    }
    for list in &args.events {
        for request in parse_events(list)? {
            let counter = args.counter.or(request.pin.map(CounterId::General));
            let on = |cpu: &Cpu<'static>| encode(*cpu, &request, counter).map(|all| (*cpu, all));
            let each: Vec<Result<(Cpu<'static>, Vec<Encoding<'static>>)>> = cpus.iter().map(on).collect();
            found.extend(
                super::those_that_have_it(each)?
                    .into_iter()
                    .flat_map(|(cpu, all)| all.into_iter().map(move |encoding| (cpu, encoding))),
            );
        }
    }
    if !args.all {
        found.iter().try_for_each(|(cpu, encoding)| possible(cpu, encoding, args.counter.is_some()))?;
    }
    super::print(&match args.json {
        true => json::pretty(&encoding::json(&found)),
        false => encoding::render(&found, super::paint(cli, Channel::Out)),
    })
}

/// An event that was asked for and has no bits at all is an error, and one that a counter asked for cannot count.
fn possible(cpu: &Cpu<'_>, encoding: &Encoding<'_>, counter_named: bool) -> Result<()> {
    let reason = match (&encoding.perf, &encoding.registers) {
        (Err(perf), Err(_)) => perf,
        (_, Err(reason)) if counter_named => reason,
        _ => return Ok(()),
    };
    let message = format!("{} on {}: {}", encoding.selected.name, cpu.id(), encoding::said(reason));
    let help = format!("`cyclometer list --cpu {}` shows what its events may have", cpu.id());
    Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(help)))
}
