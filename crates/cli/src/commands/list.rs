//! `list`: the events that can be named, and the metrics.

use cyclometer::catalogue::{
    self,
    search::{self, Filter, Pattern},
};
use cyclometer::{
    Error, ErrorKind, Listing, MetricListing, Result, list_events, list_metrics, list_metrics_of,
};

use crate::args::{Cli, ListArgs};
use crate::output::{Channel, clean};
use crate::render::{events, json, list, metrics};

/// Lists events, or metrics.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` when nothing fits the pattern, `ErrorKind::InvalidInput` for a CPU that is not known.
pub fn run(args: &ListArgs, cli: &Cli) -> Result<u8> {
    if args.metrics {
        return run_metrics(args, cli);
    }
    if args.cpus || args.everywhere || args.cpu.is_some() {
        return run_catalogue(args, cli);
    }
    let machine = super::machine_of(args.machine.machine.as_deref())?;
    let all = list_events(&machine);
    let pattern = args.pattern.as_deref();
    let fitting: Vec<&Listing> =
        all.iter().filter(|event| pattern.is_none_or(|pattern| list::fits(event, pattern))).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), pattern) {
        return Err(Error::new(ErrorKind::UnknownEvent, format!("no event fits '{}'", clean(pattern))));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&list::json(&fitting)),
        false => list::render(&fitting, super::paint(cli, Channel::Out)),
    })
}

/// The catalogue's own: its CPUs, the events of one, or those of all that fit.
fn run_catalogue(args: &ListArgs, cli: &Cli) -> Result<u8> {
    let (as_json, paint) = (args.machine.json, super::paint(cli, Channel::Out));
    if args.cpus {
        let all = catalogue::cpus::cpus();
        return super::print(&if as_json {
            json::pretty(&events::cpus_json(all))
        } else {
            events::cpus(all)
        });
    }
    let pattern = Pattern::parse(args.pattern.as_deref().unwrap_or_default())?;
    let shown = || clean(args.pattern.as_deref().unwrap_or_default());
    if args.everywhere {
        let found = search::everywhere(&pattern);
        if found.is_empty() {
            return Err(Error::new(
                ErrorKind::UnknownEvent,
                format!("no event of any CPU fits '{}'", shown()),
            ));
        }
        return super::print(&match as_json {
            true => json::pretty(&events::everywhere_json(&found)),
            false => events::everywhere(&found, paint),
        });
    }
    let deprecated = args.deprecated.then_some(true);
    let filter = Filter { pattern, counter: args.counter, fixed: args.fixed, deprecated };
    let (mut text, mut objects) = (String::new(), Vec::new());
    for cpu in super::cpus_of(args.cpu.as_deref())? {
        let found: Vec<_> = search::events(cpu, &filter).collect();
        match (args.classes, as_json) {
            _ if found.is_empty() => {}
            // Names that the vendor gave up would be counted beside their successors.
            (true, _) => {
                let current: Vec<_> =
                    found.into_iter().filter(|entry| args.deprecated || !entry.deprecated()).collect();
                text += &events::classes(&cpu, &current, paint);
            }
            (_, true) => objects.extend(events::json(&cpu, &found).as_array().cloned().unwrap_or_default()),
            _ => text += &events::render(&cpu, &found, cli.verbose, paint),
        }
    }
    if text.is_empty() && objects.is_empty() {
        let cpu = clean(args.cpu.as_deref().unwrap_or_default());
        return Err(Error::new(ErrorKind::UnknownEvent, format!("no event of {cpu} fits '{}'", shown())));
    }
    super::print(&if as_json { json::pretty(&objects.into()) } else { text })
}

fn run_metrics(args: &ListArgs, cli: &Cli) -> Result<u8> {
    let all = match &args.cpu {
        Some(cpu) => list_metrics_of(cpu)?,
        None => list_metrics(&super::machine_of(args.machine.machine.as_deref())?),
    };
    let pattern = args.pattern.as_deref();
    let fitting: Vec<&MetricListing> =
        all.iter().filter(|metric| pattern.is_none_or(|pattern| metrics::fits(metric, pattern))).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), pattern) {
        return Err(Error::new(ErrorKind::UnknownEvent, format!("no metric fits '{}'", clean(pattern))));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&metrics::json(&fitting)),
        false => metrics::render(&fitting, cli.verbose, super::paint(cli, Channel::Out)),
    })
}
