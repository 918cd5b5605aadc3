//! The CPUs of the catalogue.

use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::suggest;
use crate::table::{Blob, Cpu};

/// The tables that the build embedded, read in place.
static TABLES: Blob<'static> = match Blob::new(include_bytes!(concat!(env!("OUT_DIR"), "/tables.bin"))) {
    Some(tables) => tables,
    None => panic!("the build wrote no tables"),
};

/// The embedded tables.
pub fn tables() -> Blob<'static> {
    TABLES
}

/// Every CPU, by id; core types of hybrids are CPUs of their own.
pub fn cpus() -> impl DoubleEndedIterator<Item = Cpu<'static>> + ExactSizeIterator {
    TABLES.cpus()
}

/// The CPU with an id, in any case.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] with the nearest ids; for the id of a hybrid without core type, with the ids
/// of its core types.
pub fn cpu(id: &str) -> Result<Cpu<'static>> {
    TABLES.cpu(id).ok_or_else(|| unknown(id))
}

/// The core types of a hybrid, or the CPU itself; empty for an unknown id.
pub fn core_types(id: &str) -> Vec<Cpu<'static>> {
    let inside = |cpu: &Cpu<'_>| {
        let rest = cpu
            .id()
            .get(id.len()..)
            .filter(|_| cpu.id().as_bytes()[..id.len()].eq_ignore_ascii_case(id.as_bytes()));
        matches!(rest, Some(rest) if rest.is_empty() || rest.starts_with('/'))
    };
    cpus().filter(|cpu| cpu.id().len() >= id.len() && inside(cpu)).collect()
}

fn unknown(id: &str) -> Error {
    let cores: Vec<String> = core_types(id).iter().map(|cpu| cpu.id().to_owned()).collect();
    let names = if cores.is_empty() { suggest::nearest(id, cpus().map(|cpu| cpu.id())) } else { cores };
    let recovery = match names.is_empty() {
        true => Recovery::fix("`cyclometer list --cpus` shows the CPUs of the catalogue"),
        false => Recovery::OfferNearest { names },
    };
    let message = format!("the catalogue has no CPU '{}'", suggest::shown(id));
    Error::new(ErrorKind::InvalidInput, message).with_recovery(recovery)
}
