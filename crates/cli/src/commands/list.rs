//! `list`: the events that can be named, and the metrics.

use cyclometer_toolkit::catalogue::{
    self, glossary,
    search::{self, Filter, Pattern},
    table::Cpu,
};
use cyclometer_toolkit::{
    Error, ErrorKind, EventTables, Listing, ListingKind, Machine, MetricListing, Recovery, Result,
    count_vendor_events, list_events_in, list_metrics, list_metrics_of, list_vendor_events,
};

use crate::args::{Cli, ListArgs};
use crate::output::{Channel, clean};
use crate::render::{events, json, list, metrics, portable};

/// Lists events, or metrics.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` when no event matches the pattern, `ErrorKind::InvalidInput` for a CPU that is
/// not known.
pub fn run(args: &ListArgs, cli: &Cli) -> Result<u8> {
    if args.metrics {
        return run_metrics(args, cli);
    }
    let of_files = !args.tables.is_empty() && args.machine.machine.is_none();
    if args.cpus || args.everywhere || args.cpu.is_some() || of_files {
        return run_catalogue(args, cli);
    }
    let machine = super::machine_of(args.machine.machine.as_deref())?;
    let pattern = args.pattern.as_deref().map(Pattern::parse).transpose()?;
    let mut tables = match args.machine.machine {
        None => super::tables_here(&machine),
        Some(_) => EventTables::embedded(),
    };
    for file in &args.tables {
        tables = tables.with_file(file, &machine)?;
    }
    let mut all = list_events_in(&machine, &tables);
    // Unasked, the vendor's hundreds would bury the rest.
    if let Some(pattern) = &pattern {
        let spelled = |name: &str| spelled(&machine, name);
        all.extend(list_vendor_events(&machine, &tables, &|name| pattern.fits(name, || spelled(name))));
    }
    let fits = |event: &&Listing| match &pattern {
        // Spelled-out names of the vendor's events have been compared above.
        Some(pattern) => event.kind == ListingKind::Vendor || list::fits(event, pattern),
        None => true,
    };
    let fitting: Vec<&Listing> = all.iter().filter(fits).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), args.pattern.as_deref()) {
        let vendor = list_vendor_events(&machine, &tables, &|_| true);
        let listed = list_events_in(&machine, &tables).into_iter().chain(vendor);
        let names: Vec<String> =
            listed.flat_map(|event| std::iter::once(event.name).chain(event.aliases)).collect();
        let help = "`cyclometer list` shows the events of this machine; a pattern may be '*l1d*miss*'";
        let message = format!("no event fits '{}'", clean(pattern));
        return Err(unknown(message, pattern, names.iter().map(String::as_str), help));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&list::json(&fitting)),
        false => {
            list::render(&fitting, super::paint(cli, Channel::Out))
                + &hint(&machine, &tables, args.pattern.as_deref())
        }
    })
}

/// The spelled-out form of one of the vendor's names on a machine.
fn spelled(machine: &Machine, name: &str) -> String {
    let id = machine.core_types.iter().find_map(|core| core.cpu_id.as_deref());
    let cpu = id.and_then(|id| catalogue::cpus::cpu(id).ok());
    cpu.map(|cpu| glossary::spell(name, cpu.family())).unwrap_or_default()
}

/// How to see the events of the vendor's, where they are not listed.
fn hint(machine: &Machine, tables: &EventTables, pattern: Option<&str>) -> String {
    let count = count_vendor_events(machine, tables);
    match (pattern, count) {
        (Some(_), _) | (None, 0) => String::new(),
        (None, _) => {
            format!(
                "and {count} events by the vendor's names: `cyclometer list PATTERN` searches them, too\n"
            )
        }
    }
}

/// The catalogue's own: its CPUs, the events of one, or those of all that fit.
fn run_catalogue(args: &ListArgs, cli: &Cli) -> Result<u8> {
    let (as_json, paint) = (args.machine.json, super::paint(cli, Channel::Out));
    if args.cpus {
        let all = cpus_fitting(args.pattern.as_deref())?;
        return super::print(&match as_json {
            true => json::pretty(&events::cpus_json(all.into_iter())),
            false => events::cpus(all.into_iter()),
        });
    }
    let pattern = Pattern::parse(args.pattern.as_deref().unwrap_or_default())?;
    let shown = || clean(args.pattern.as_deref().unwrap_or_default());
    if args.everywhere {
        let found = search::everywhere(&pattern);
        if found.is_empty() {
            let message = format!("no event of any CPU fits '{}'", shown());
            let help = "try a part of the name, or a pattern such as '*L1D*MISS*'";
            let all = search::everywhere(&Pattern::parse("")?);
            let names = all.iter().map(|found| found.name.as_str());
            return Err(unknown(message, args.pattern.as_deref().unwrap_or_default(), names, help));
        }
        return super::print(&match as_json {
            true => json::pretty(&events::everywhere_json(&found)),
            false => events::everywhere(&found, paint),
        });
    }
    let deprecated = args.deprecated.then_some(true);
    let filter = Filter { pattern, counter: args.counter, fixed: args.fixed, deprecated };
    let asked = super::Asked::read(args.cpu.as_deref(), &args.tables)?;
    let (mut text, mut objects) = (String::new(), Vec::new());
    for tables in asked.cores() {
        for (cpu, is_new) in super::each_with_better(&tables) {
            let found: Vec<_> = search::events(cpu, &filter).filter(|entry| is_new(entry.name())).collect();
            match (args.classes, as_json) {
                _ if found.is_empty() => {}
                // Names that the vendor gave up would be counted beside their successors.
                (true, _) => {
                    let current: Vec<_> =
                        found.into_iter().filter(|entry| args.deprecated || !entry.deprecated()).collect();
                    text += &events::classes(&cpu, &current, paint);
                }
                (_, true) => objects.extend(events::json(&cpu, &found, &asked.tables)),
                _ => text += &events::render(&cpu, &found, &asked.tables, (cli.verbose, paint)),
            }
        }
        if let (true, Some(cpu)) = (with_portable(args), tables.first()) {
            let found = portable::fitting(&tables, &filter.pattern);
            match as_json {
                true => objects.extend(portable::json(cpu, &found)),
                false => text += &portable::render(cpu, &found, paint),
            }
        }
    }
    if text.is_empty() && objects.is_empty() {
        return Err(nothing_fits(args, &asked));
    }
    super::print(&if as_json { json::pretty(&objects.into()) } else { text })
}

/// Whether portable events are listed beside the vendor's: not under filters of counters and of what the
/// vendor says.
fn with_portable(args: &ListArgs) -> bool {
    args.counter.is_none() && !args.fixed && !args.deprecated && !args.classes
}

/// The CPUs whose id or title contains a text, in any case; all CPUs without a text.
fn cpus_fitting(pattern: Option<&str>) -> Result<Vec<Cpu<'static>>> {
    let part = pattern.unwrap_or_default().to_lowercase();
    let fits = |cpu: &Cpu<'_>| cpu.id().contains(&part) || cpu.title().to_lowercase().contains(&part);
    let found: Vec<Cpu<'static>> = catalogue::cpus::cpus().filter(fits).collect();
    if found.is_empty() {
        let message = format!("no CPU of the catalogue fits '{}'", clean(pattern.unwrap_or_default()));
        return Err(Error::new(ErrorKind::InvalidInput, message)
            .with_recovery(Recovery::fix("`cyclometer list --cpus` shows them all")));
    }
    Ok(found)
}

/// The error if no event of a CPU matches.
fn nothing_fits(args: &ListArgs, asked: &super::Asked) -> Error {
    let cpu = clean(args.cpu.as_deref().unwrap_or(&asked.ids.join(", ")));
    let mut message = format!("no event of {cpu}");
    let filters = [
        args.deprecated.then(|| "is deprecated".to_owned()),
        args.fixed.then(|| "has a fixed counter".to_owned()),
        args.counter.map(|counter| format!("may use counter {counter}")),
        args.pattern.as_deref().map(|pattern| format!("fits '{}'", clean(pattern))),
    ];
    let filters: Vec<String> = filters.into_iter().flatten().collect();
    message += &format!(" {}", filters.join(" and "));
    let help = match args.counter {
        Some(_) => format!("`cyclometer list --cpu {cpu} --classes` shows the counters that there are"),
        None => format!("`cyclometer list --cpu {cpu}` shows them all"),
    };
    // Under filters the nearest name may be one that they exclude.
    let pattern = args.pattern.as_deref().filter(|_| with_portable(args)).unwrap_or_default();
    let tables = asked.cores().into_iter().flatten();
    let names = tables.flat_map(|cpu| cpu.events().map(|entry| entry.name()).collect::<Vec<_>>());
    unknown(message, pattern, names, &help)
}

/// The error for a pattern that fits no name, with the names that are nearest to it or with other help.
fn unknown<'a>(message: String, pattern: &str, names: impl Iterator<Item = &'a str>, help: &str) -> Error {
    let recovery = match catalogue::nearest_names(pattern, names) {
        names if names.is_empty() => Recovery::fix(help),
        names => Recovery::OfferNearest { names },
    };
    Error::new(ErrorKind::UnknownEvent, message).with_recovery(recovery)
}

fn run_metrics(args: &ListArgs, cli: &Cli) -> Result<u8> {
    let all = match &args.cpu {
        Some(cpu) => list_metrics_of(cpu)?,
        None => list_metrics(&super::machine_of(args.machine.machine.as_deref())?),
    };
    let pattern = args.pattern.as_deref().map(Pattern::parse).transpose()?;
    let fits =
        |metric: &&MetricListing| pattern.as_ref().is_none_or(|pattern| metrics::fits(metric, pattern));
    let fitting: Vec<&MetricListing> = all.iter().filter(fits).collect();
    if let (true, Some(pattern)) = (fitting.is_empty(), args.pattern.as_deref()) {
        let of = args.cpu.as_deref().map(|cpu| format!(" --cpu {}", clean(cpu))).unwrap_or_default();
        let help = format!("`cyclometer list --metrics{of}` shows them all");
        let message = format!("no metric fits '{}'", clean(pattern));
        return Err(unknown(message, pattern, all.iter().map(|metric| metric.name.as_str()), &help));
    }
    super::print(&match args.machine.json {
        true => json::pretty(&metrics::json(&fitting)),
        false => metrics::render(&fitting, cli.verbose, super::paint(cli, Channel::Out)),
    })
}
