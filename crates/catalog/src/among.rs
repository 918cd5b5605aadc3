//! Lookups in several tables of one CPU.

use cyclometer_core::syntax::{EventRequest, Selector};
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::decode::Explained;
use crate::select::{Selected, select};
use crate::table::Cpu;

/// The event in the first table that has it; see [`table_for`].
///
/// # Errors
///
/// Those of [`table_for`].
pub fn select_in<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<Vec<Selected<'a>>> {
    answer(tables, request).map(|(_, selected)| selected)
}

/// The table that resolves an event. A table with a generic event of the kernel by this name comes first.
/// Otherwise it is the first table, best first, that has an event of this name or code.
///
/// # Errors
///
/// Those of [`select`]. If a table has the event but rejects the request, the error is that of the first such
/// table. Otherwise it has the nearest names of all tables.
pub fn table_for<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<Cpu<'a>> {
    answer(tables, request).map(|(cpu, _)| cpu)
}

fn answer<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<(Cpu<'a>, Vec<Selected<'a>>)> {
    let named = matches!(request.selector, Selector::Name(_));
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for cpu in tables {
        match select(*cpu, request) {
            Ok(selected) => found.push((*cpu, selected)),
            // The table has the event, or the name has a syntax error: no other table's event of that name is
            // meant.
            Err(error) if named && error.kind() == ErrorKind::InvalidInput && found.is_empty() => {
                return Err(error);
            }
            Err(error) => errors.push(error),
        }
    }
    let is_kernels = |one: &Selected<'_>| named && one.generic.is_some();
    let is_known = |one: &Selected<'_>| one.entry.is_some();
    let at = found
        .iter()
        .position(|(_, all)| all.iter().any(is_kernels))
        .or_else(|| found.iter().position(|(_, all)| all.iter().all(is_known)))
        .unwrap_or(0);
    match at < found.len() {
        true => Ok(found.swap_remove(at)),
        false => Err(one_of(errors)),
    }
}

/// Explains a value by each table of a CPU and merges the explanations: all names, the first table's first.
///
/// `explain` is one of [`crate::decode`]'s functions. A label is right if one table finds that it is.
pub fn decode_in(tables: &[Cpu<'_>], explain: impl Fn(&Cpu<'_>) -> Explained) -> Option<Explained> {
    let mut all = tables.iter().map(explain);
    let mut found = all.next()?;
    for other in all {
        merge(&mut found, other);
    }
    drop_nameless(&mut found);
    Some(found)
}

fn merge(found: &mut Explained, other: Explained) {
    let Explained { decoded, names, alike, label, .. } = other;
    for ((event, names), alike) in decoded.events.into_iter().zip(names).zip(alike) {
        let at = found.decoded.events.iter().position(|known| *known == event).unwrap_or_else(|| {
            found.decoded.events.push(event);
            found.names.push(Vec::new());
            found.alike.push(Vec::new());
            found.names.len() - 1
        });
        add(&mut found.names[at], names);
        add(&mut found.alike[at], alike);
    }
    found.label = match (found.label.take(), label) {
        (Some(mut own), Some(other)) => {
            add(&mut own.is, other.is);
            add(&mut own.meant, other.meant);
            Some(own)
        }
        _ => None,
    };
}

/// Removes events without a name in any table if another event has one, because a word of perf is one event.
/// Events of a counter are kept.
fn drop_nameless(found: &mut Explained) {
    for (names, alike) in found.names.iter().zip(&mut found.alike) {
        if !names.is_empty() {
            alike.clear();
        }
    }
    let any = found.names.iter().any(|names| !names.is_empty());
    if !any || found.decoded.events.iter().any(|event| event.counter.is_some()) {
        return;
    }
    let keep: Vec<bool> = found.names.iter().map(|names| !names.is_empty()).collect();
    retain(&mut found.decoded.events, &keep);
    retain(&mut found.names, &keep);
    retain(&mut found.alike, &keep);
}

fn retain<T>(all: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    all.retain(|_| keep.next() == Some(&true));
}

fn add(known: &mut Vec<String>, more: Vec<String>) {
    for name in more {
        if !known.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            known.push(name);
        }
    }
}

/// The error of the last table, which is the catalogue's, with the names that all tables suggested.
fn one_of(mut errors: Vec<Error>) -> Error {
    let mut offered: Vec<String> = Vec::new();
    for error in &errors {
        if let Recovery::OfferNearest { names } = error.recovery() {
            offered.extend(names.iter().filter(|name| !offered.contains(name)).cloned().collect::<Vec<_>>());
        }
    }
    let last = errors
        .pop()
        .unwrap_or_else(|| Error::new(ErrorKind::ArchUnsupported, "there is no table of the CPU"));
    match offered.is_empty() {
        true => last,
        false => last.with_recovery(Recovery::OfferNearest { names: offered }),
    }
}
