//! `plan`: which events fit together on a CPU, and in how many passes all of them.

use cyclometer_toolkit::catalogue::table::Cpu;
use cyclometer_toolkit::core::syntax::{EventRequest, parse_events};
use cyclometer_toolkit::core::{CounterMask, Modifiers};
use cyclometer_toolkit::placement::{Placement, Wishes, held_by_power_manager, held_by_watchdog};
use cyclometer_toolkit::{Error, ErrorKind, Machine, Recovery, Result, diagnosed_machine, table_for};

use crate::args::{Cli, PlanArgs};
use crate::exit;
use crate::output::Channel;
use crate::render::placement::{self, PlacementOnCpu};
use crate::render::{json, placement_json};

/// The word for every event of a CPU.
const ALL: &str = "all";

/// Places events in as few passes as possible; the exit code says whether all requested events can be
/// counted.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU that is not known, `ErrorKind::UnknownEvent` for an event that it does
/// not have.
pub fn run(args: &PlanArgs, cli: &Cli) -> Result<u8> {
    let named = args.machine.as_deref().map(|path| super::machine_of(Some(path))).transpose()?;
    let asked = match &named {
        Some(machine) => super::Asked::of_machine(machine)?,
        None => super::Asked::read(args.cpu.as_deref(), &args.tables)?,
    };
    let cores = asked.cores();
    let requests = requests(args)?;
    for request in requests.iter().filter(|request| !is_all(request)) {
        super::those_that_have_it(cores.iter().map(|tables| table_for(tables, request)).collect())?;
    }
    // Counters that are in use on this machine say nothing about another machine.
    let is_here = named.is_none() && args.cpu.is_none() && args.tables.is_empty();
    let here = if is_here { Some(diagnosed_machine()) } else { named };
    let placed = cores.iter().filter_map(|tables| on(tables, &requests, args, here.as_ref()).transpose());
    let placed: Vec<PlacementOnCpu<'_>> = placed.collect::<Result<_>>()?;
    let printed = super::print(&match args.json {
        true => json::pretty(&placement_json::object(args.cpu.as_deref(), &placed)),
        false => placement::render(&placed, args.explain, super::paint(cli, Channel::Out)),
    })?;
    let whole = placed.iter().all(|on| on.placement.packing.refused.is_empty());
    Ok(if whole { printed } else { exit::FAILURE })
}

fn requests(args: &PlanArgs) -> Result<Vec<EventRequest>> {
    let mut requests: Vec<EventRequest> = Vec::new();
    for list in &args.events {
        let groups = requests.iter().filter_map(|request| request.group).max().map_or(0, |last| last + 1);
        let more = parse_events(list)?.into_iter();
        requests.extend(
            more.map(|request| EventRequest { group: request.group.map(|group| group + groups), ..request }),
        );
    }
    match requests.is_empty() {
        true => Err(Error::new(ErrorKind::InvalidInput, "no event is named")
            .with_recovery(Recovery::fix("name events with -e"))),
        false => Ok(requests),
    }
}

fn is_all(request: &EventRequest) -> bool {
    let bare = request.modifiers == Modifiers::default() && request.pin.is_none() && request.group.is_none();
    bare && request.text.eq_ignore_ascii_case(ALL)
}

/// The events that a core type has, placed, and those that it lacks; `None` if it has no table.
fn on<'a>(
    tables: &[Cpu<'a>],
    requests: &[EventRequest],
    args: &PlanArgs,
    here: Option<&Machine>,
) -> Result<Option<PlacementOnCpu<'a>>> {
    let Some(cpu) = tables.first().copied() else { return Ok(None) };
    let (mut held, mut lacking) = (Vec::new(), Vec::new());
    for request in requests {
        match table_for(tables, request) {
            Ok(_) => held.push(request.clone()),
            Err(_) if is_all(request) => held.extend(every_event(tables)),
            Err(error) => lacking.push((request.text.clone(), error.to_string())),
        }
    }
    let asked = args.without.iter().fold(CounterMask::EMPTY, |all, mask| all.or(*mask)).and(cpu.counters());
    let watchdog = here.map_or(CounterMask::EMPTY, |machine| held_by_watchdog(machine, cpu.counters()));
    let power = here.map_or(CounterMask::EMPTY, |machine| held_by_power_manager(machine, &cpu));
    let wishes = Wishes { without: asked.or(watchdog).or(power), repeats: args.repeat };
    Ok(Some(PlacementOnCpu {
        cpu,
        placement: Placement::of(tables, &held, wishes)?,
        lacking,
        asked,
        watchdog,
        power,
    }))
}

/// Every event of the tables by its name, whatever characters the name has.
fn every_event(tables: &[Cpu<'_>]) -> Vec<EventRequest> {
    let mut all = Vec::new();
    for (cpu, is_new) in super::each_with_better(tables) {
        let names = cpu.events().map(|entry| entry.name()).filter(|name| is_new(name));
        all.extend(names.map(EventRequest::named));
    }
    all
}
