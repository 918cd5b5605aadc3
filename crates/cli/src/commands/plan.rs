//! `plan`: which events fit together on a CPU.

use cyclometer::catalogue::select::select;
use cyclometer::catalogue::table::Cpu;
use cyclometer::core::syntax::{EventRequest, parse_events};
use cyclometer::placement::place;
use cyclometer::{Error, ErrorKind, Recovery, Result};

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
    let cpus = super::cpus_of(args.cpu.as_deref())?;
    for request in &requests {
        super::those_that_have_it(cpus.iter().map(|cpu| select(*cpu, request)).collect())?;
    }
    let placed: Result<Vec<OnCpu>> = cpus.into_iter().map(|cpu| on(cpu, &requests)).collect();
    let placed = placed?;
    super::print(&match args.json {
        true => json::pretty(&placement::json(&placed)),
        false => placement::render(&placed, super::paint(cli, Channel::Out)),
    })
}

/// The events that a core type has, placed, and those that it lacks.
fn on(cpu: Cpu<'static>, requests: &[EventRequest]) -> Result<OnCpu> {
    let (mut held, mut lacking) = (Vec::new(), Vec::new());
    for request in requests {
        match select(cpu, request) {
            Ok(_) => held.push(request.clone()),
            Err(error) => lacking.push((request.text.clone(), error.to_string())),
        }
    }
    Ok(OnCpu { cpu, placement: place(&[cpu], &held)?, lacking })
}
