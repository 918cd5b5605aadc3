//! `plan`: which events fit together on a CPU.

use cyclometer::catalogue::table::Cpu;
use cyclometer::core::syntax::{EventRequest, parse_events};
use cyclometer::placement::place;
use cyclometer::{Error, ErrorKind, Recovery, Result, table_for};

use crate::args::{Cli, PlanArgs};
use crate::output::Channel;
use crate::render::placement::OnCpu;
use crate::render::{json, placement};

/// Places events.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU that is not known, `ErrorKind::UnknownEvent` for an event that it does not have.
pub fn run(args: &PlanArgs, cli: &Cli) -> Result<u8> {
    let mut requests: Vec<EventRequest> = Vec::new();
    for list in &args.events {
        requests.extend(parse_events(list)?);
    }
    if requests.is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "no event is named")
            .with_recovery(Recovery::fix("name events with -e")));
    }
    let asked = super::Asked::read(args.cpu.as_deref(), &args.tables)?;
    let cores = asked.cores();
    for request in &requests {
        super::those_that_have_it(cores.iter().map(|tables| table_for(tables, request)).collect())?;
    }
    let placed: Result<Vec<Option<OnCpu<'_>>>> = cores.iter().map(|tables| on(tables, &requests)).collect();
    let placed: Vec<OnCpu<'_>> = placed?.into_iter().flatten().collect();
    super::print(&match args.json {
        true => json::pretty(&placement::json(&placed)),
        false => placement::render(&placed, super::paint(cli, Channel::Out)),
    })
}

/// The events that a core type has, placed, and those that it lacks; `None` where there is no table.
fn on<'a>(tables: &[Cpu<'a>], requests: &[EventRequest]) -> Result<Option<OnCpu<'a>>> {
    let Some(cpu) = tables.first().copied() else { return Ok(None) };
    let (mut held, mut lacking) = (Vec::new(), Vec::new());
    for request in requests {
        match table_for(tables, request) {
            Ok(_) => held.push(request.clone()),
            Err(error) => lacking.push((request.text.clone(), error.to_string())),
        }
    }
    Ok(Some(OnCpu { cpu, placement: place(tables, &held)?, lacking }))
}
