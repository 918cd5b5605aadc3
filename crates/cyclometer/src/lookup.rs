//! Which of several tables of one CPU answers.

use cyclometer_catalog::select::{Selected, select};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::syntax::{EventRequest, Selector};
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

/// The event in the first table that has it; see [`table_for`].
pub(crate) fn select_in<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<Vec<Selected<'a>>> {
    answer(tables, request).map(|(_, selected)| selected)
}

/// The table that answers for an event: one that has a generic event of the kernel's by this name, else the first, best
/// first, that has an event of this name or code.
///
/// # Errors
///
/// Those of [`select`]: of the first table that has the event and refuses what is asked of it, else with the names of all
/// tables that are near.
pub fn table_for<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<Cpu<'a>> {
    answer(tables, request).map(|(cpu, _)| cpu)
}

fn answer<'a>(tables: &[Cpu<'a>], request: &EventRequest) -> Result<(Cpu<'a>, Vec<Selected<'a>>)> {
    let named = matches!(request.selector, Selector::Name(_));
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for cpu in tables {
        match select(*cpu, request) {
            Ok(selected) => found.push((*cpu, selected)),
            // It has the event, or the name is none: another table's event of that name is not meant.
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

/// The error of the last table, the catalogue's, with the names that any offered.
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
