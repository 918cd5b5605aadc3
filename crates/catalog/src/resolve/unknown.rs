//! Names that are not in the tables of a machine: names of other CPUs, portable names without a table, and
//! unknown names.

use cyclometer_core::syntax::EventRequest;
use cyclometer_core::{Error, ErrorKind, Event, LackReason, Recovery, Result};

use super::{Host, by_name, cache_event, refuse_terms, unsupported};
use crate::generic::{PORTABLE_CACHE, PORTABLE_WITHOUT_GENERIC};
use crate::host::{CoreTables, Tables};
use crate::{host_event, listing, meaning, pmu_names, portable, suggest};

/// Portable names if no table knows the machine's cores, and unknown names.
pub(super) fn without_table(name: &str, request: &EventRequest, host: &Host<'_>) -> Result<Event> {
    if let Some((_, cache)) = PORTABLE_CACHE.iter().find(|(portable, _)| portable.eq_ignore_ascii_case(name))
    {
        refuse_terms(request, "a generic event of the kernel")?;
        return Ok(cache_event(*cache, request, host.machine));
    }
    if let Some((portable, near)) =
        PORTABLE_WITHOUT_GENERIC.iter().find(|(p, _)| p.eq_ignore_ascii_case(name))
    {
        let reason = LackReason::NoGeneric { event: portable, nearest: near };
        return Ok(unsupported(request, reason));
    }
    if portable::find(name).is_some() {
        return Ok(unsupported(request, LackReason::NoTable { cores: cores_of(host) }));
    }
    let elsewhere = host_event::elsewhere(name);
    match elsewhere.is_empty() {
        true => Err(unknown_event(name, host)),
        false => Ok(unsupported(request, of_other_cpus(name, &elsewhere, host))),
    }
}

/// The machine's cores, by CPU id.
fn cores_of(host: &Host<'_>) -> Vec<String> {
    host.cores.iter().map(|core| core.id.to_owned()).collect()
}

fn of_other_cpus(name: &str, cpus: &[&str], host: &Host<'_>) -> LackReason {
    const NAMED: usize = 4;
    LackReason::OtherCpus {
        event: name.to_owned(),
        cores: cores_of(host),
        others: cpus.iter().take(NAMED).map(|cpu| (*cpu).to_owned()).collect(),
        more: cpus.len().saturating_sub(NAMED),
        has_table: host.has_tables(),
    }
}

fn unknown_event(name: &str, host: &Host<'_>) -> Error {
    let shown = suggest::shown(name);
    if let Some(error) = host.cores.iter().find_map(|core| needs_unit_mask(name, core)) {
        return error;
    }
    if let Some(error) = name.split_once("::").and_then(|(prefix, event)| of_pmu(prefix, event, name, host)) {
        return error;
    }
    let is_vendors = name.contains("::") || name.contains(|c: char| c.is_ascii_uppercase());
    if name.contains(':') && !is_vendors {
        return Error::new(
            ErrorKind::UnknownEvent,
            format!("'{shown}' looks like a tracepoint or breakpoint"),
        )
        .with_recovery(Recovery::fix("these are not counted; `cyclometer list` shows what is"));
    }
    let wanted = name.rsplit_once("::").map_or(name, |(_, event)| event).replace(':', ".");
    Error::new(ErrorKind::UnknownEvent, format!("no event is named '{shown}'"))
        .with_recovery(Recovery::OfferNearest { names: nearest(&wanted, host) })
}

/// The error for an event behind a PMU and two colons, except for the name of a family or an interface.
fn of_pmu(prefix: &str, event: &str, name: &str, host: &Host<'_>) -> Option<Error> {
    if let Some(cpu) = pmu_names::cpu_of(prefix) {
        return Some(meaning::unknown(&cpu, name));
    }
    if pmu_names::is_known(prefix) {
        return None;
    }
    let recovery = match !event.contains("::") && is_known(event, host) {
        true => Recovery::fix(format!("leave it out: {}", suggest::shown(event))),
        false => Recovery::OfferNearest { names: nearest(event, host) },
    };
    let (prefix, shown) = (suggest::shown(prefix), suggest::shown(name));
    let error = Error::new(ErrorKind::UnknownEvent, format!("no PMU is named '{prefix}' (in {shown})"));
    Some(error.with_recovery(recovery))
}

/// Whether a name without a PMU before it is that of an event, counted here or not.
fn is_known(event: &str, host: &Host<'_>) -> bool {
    by_name(event, &EventRequest::named(event), host).is_ok()
}

/// The events of a machine with the nearest names.
fn nearest(wanted: &str, host: &Host<'_>) -> Vec<String> {
    let listings = listing::list(host.machine, Tables::embedded());
    let mut known: Vec<&str> = listings
        .iter()
        .flat_map(|l| std::iter::once(&l.name).chain(&l.aliases))
        .map(String::as_str)
        .collect();
    for name in portable::names() {
        known.push(name);
    }
    let tables = host.cores.iter().flat_map(|core| &core.tables);
    known.extend(tables.flat_map(|cpu| cpu.events()).map(|entry| entry.name()));
    suggest::nearest(wanted, known.into_iter())
}

/// The error for an event without its unit mask.
fn needs_unit_mask(name: &str, core: &CoreTables<'_>) -> Option<Error> {
    core.tables.iter().find_map(|cpu| meaning::without_mask(cpu, name, name))
}
