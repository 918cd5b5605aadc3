//! The event database that macOS has for the chip that it runs on.

use cyclometer_catalog::cpus;
use cyclometer_catalog::table::{CpuTable, TableEvent};
use cyclometer_core::machine::{Os, Vendor};
use cyclometer_core::{CounterMask, Error, ErrorKind, Machine, Result};
use cyclometer_detect::FactSource;
use cyclometer_import::kpep;

use super::EventTables;
use super::file::EventFile;

/// The folder of the databases.
///
/// # Source
///
/// jiegec/apple-pmu `README.md`: `cpu_<type>_<subtype>_<family>.plist` is a link to the database of the chip.
const FOLDER: &str = "/usr/share/kpep";

/// The catalogue's tables, and before them the database of the machine's macOS, if it is a Mac.
///
/// # Errors
///
/// The reason why there is no database, with the catalogue's tables that serve in its place.
pub(super) fn tables(facts: &dyn FactSource, machine: &Machine) -> (EventTables, Option<String>) {
    let is_mac = machine.os == Os::MacOs && machine.cpu.vendor == Vendor::Apple && facts.os() == Os::MacOs;
    if !is_mac {
        return (EventTables::embedded(), None);
    }
    match database(facts, machine) {
        Ok(tables) => (tables, None),
        Err(error) => {
            let warning = format!("{error}; event names are those of the built-in tables");
            (EventTables::embedded(), Some(warning))
        }
    }
}

/// The counters that the power manager has until a program requests all, by the database of this chip.
pub(crate) fn power_counters(facts: &dyn FactSource) -> Option<CounterMask> {
    let bytes = facts.read_bytes(&path(facts)?)?;
    kpep::database(&bytes).ok().map(|database| database.power).filter(|power| !power.is_empty())
}

fn database(facts: &dyn FactSource, machine: &Machine) -> Result<EventTables> {
    let path = path(facts).ok_or_else(|| wrong("macOS does not tell the type of its CPU".to_owned()))?;
    let bytes =
        facts.read_bytes(&path).ok_or_else(|| wrong(format!("cannot read the event database {path}")))?;
    let given = EventFile::of(bytes, path.clone()).tables(None, machine)?;
    given.iter().try_for_each(|table| fits(table, &path))?;
    let mut tables = EventTables::embedded();
    tables.give(given)?;
    Ok(tables)
}

/// Whether the chip's registers have room for each selector of its database.
fn fits(table: &CpuTable, path: &str) -> Result<()> {
    let bits = cpus::cpu(&table.header.cpu).ok().and_then(|cpu| cpu.selector_bits());
    let Some(bits) = bits else { return Ok(()) };
    let is_too_wide = |event: &&TableEvent| u32::from(event.code.select) >> bits != 0;
    table.events.iter().find(is_too_wide).map_or(Ok(()), |event| {
        let (name, select) = (&event.name, event.code.select);
        Err(wrong(format!("{path}: {name} has the selector {select:#x}, and this chip's have {bits} bits")))
    })
}

/// The database of this chip.
fn path(facts: &dyn FactSource) -> Option<String> {
    let number = |name| facts.sysctl(name)?.parse::<i64>().ok().map(|number| number as u32);
    let [kind, subtype, family] = ["hw.cputype", "hw.cpusubtype", "hw.cpufamily"].map(number);
    Some(format!("{FOLDER}/cpu_{:x}_{:x}_{:x}.plist", kind?, subtype?, family?))
}

fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Io, text)
}
