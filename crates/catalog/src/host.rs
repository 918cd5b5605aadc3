//! The tables of the core types of a machine: those that the user gave, then the catalogue's.

use std::collections::HashMap;
use std::sync::Arc;

use cyclometer_core::machine::CoreType;
use cyclometer_core::pmu::KernelPmu;
use cyclometer_core::{CounterMask, Error, ErrorKind, Machine, Recovery, Result};

use crate::description::EventDescription;
use crate::table::{Blob, Cpu, CpuTable, blob};
use crate::{about, cpus, glossary};

/// The tables for event lookups: tables that the user gave, the newest first, then the catalogue's.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    given: Vec<Arc<UserTable>>,
}

/// A table that the user gave.
#[derive(Debug)]
struct UserTable {
    bytes: Vec<u8>,
    /// The file's own descriptions, by name in lower case.
    about: HashMap<String, String>,
}

impl UserTable {
    fn cpu(&self) -> Option<Cpu<'_>> {
        Blob::new(&self.bytes)?.cpus().next()
    }
}

/// The embedded tables alone.
static EMBEDDED: Tables = Tables { given: Vec::new() };

impl Tables {
    /// The catalogue's tables alone.
    pub fn embedded() -> &'static Tables {
        &EMBEDDED
    }

    /// Adds a table, whose events take precedence over those of all other tables of its CPU.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a table with too many names, definitions, masks or errata.
    pub fn give(&mut self, table: &CpuTable) -> Result<()> {
        let bytes = blob::write(std::slice::from_ref(table)).map_err(|error| {
            Error::new(ErrorKind::InvalidInput, format!("{}: {error}", table.header.cpu))
                .with_recovery(Recovery::fix("leave the events out that are not needed"))
                .with_source(error)
        })?;
        let described = table.events.iter().filter(|event| !event.about.is_empty());
        let about = described.map(|event| (event.name.to_lowercase(), event.about.clone())).collect();
        self.given.push(Arc::new(UserTable { bytes, about }));
        Ok(())
    }

    /// The tables that the user gave, the newest first.
    pub fn given(&self) -> impl Iterator<Item = Cpu<'_>> {
        self.given.iter().rev().filter_map(|given| given.cpu())
    }

    /// The tables of a CPU id, best first: the user's, then the catalogue's.
    pub fn of(&self, id: &str) -> Vec<Cpu<'_>> {
        let given = self.given().filter(|cpu| cpu.id().eq_ignore_ascii_case(id));
        given.chain(cpus::tables().cpu(id)).collect()
    }

    /// The description of an event of a CPU: the user's file's, else our line, else its name spelled out.
    pub fn describe(&self, name: &str, cpu: &Cpu<'_>) -> EventDescription {
        let of_cpu = |given: &&Arc<UserTable>| given.cpu().is_some_and(|own| own.id() == cpu.id());
        let given = self.given.iter().rev().filter(of_cpu);
        match given.filter_map(|given| given.about.get(&name.to_lowercase())).next() {
            Some(words) => EventDescription::of(words),
            None => match about::describe(name, cpu.family()) {
                Some(line) => line.clone(),
                None => glossary::description(name, cpu.family()),
            },
        }
    }
}

/// The id of a core type's tables: the id of its CPU, or for an unknown core the name of its PMU.
pub fn table_id(core: &CoreType) -> &str {
    core.cpu_id.as_deref().or(core.kernel_pmu.as_deref()).unwrap_or("cpu")
}

/// A core PMU of a machine with the tables of its core type.
#[derive(Clone, Debug)]
pub(crate) struct CoreTables<'a> {
    /// The kernel's device; `None` where the kernel has none.
    pub pmu: Option<&'a KernelPmu>,
    /// The tables, best first; empty for a core without a table.
    pub tables: Vec<Cpu<'a>>,
    /// The machine's counters; `None` when they are not known.
    pub counters: Option<CounterMask>,
    /// The core type's id, for messages.
    pub id: &'a str,
}

impl<'a> CoreTables<'a> {
    fn new(pmu: Option<&'a KernelPmu>, core: Option<&'a CoreType>, tables: &'a Tables) -> CoreTables<'a> {
        let id = core.map_or("cpu", table_id);
        let counters = core.and_then(|core| core.pmu.known_counters());
        CoreTables { pmu, tables: tables.of(id), counters, id }
    }

    /// The PMU's name, even if the kernel has no device for it.
    pub fn pmu_name(&self) -> &'a str {
        self.pmu.map_or("cpu", |pmu| pmu.name.as_str())
    }
}

/// The core PMUs of a machine; if the kernel has none, the core types that have tables, each once.
pub(crate) fn cores<'a>(machine: &'a Machine, tables: &'a Tables) -> Vec<CoreTables<'a>> {
    let of_pmu = |pmu: &'a KernelPmu| {
        let types = &machine.core_types;
        let own = types.iter().find(|core| core.kernel_pmu.as_deref() == Some(&pmu.name));
        let only = types.first().filter(|_| types.len() == 1);
        CoreTables::new(Some(pmu), own.or(only), tables)
    };
    let all: Vec<CoreTables<'a>> = machine.core_pmus().map(of_pmu).collect();
    if !all.is_empty() {
        return all;
    }
    let mut all: Vec<CoreTables<'a>> = Vec::new();
    for core in machine.core_types.iter().map(|core| CoreTables::new(None, Some(core), tables)) {
        if !all.iter().any(|known| known.id == core.id) {
            all.push(core);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Header, TableEvent};
    use crate::testing::{hybrid, vm_without_pmu};

    fn table(cpu: &str, name: &str, about: &str) -> CpuTable {
        let header = Header { cpu: cpu.to_owned(), selector_bits: Some(8), ..Header::default() };
        let event = TableEvent { name: name.to_owned(), about: about.to_owned(), ..TableEvent::default() };
        CpuTable { header, events: vec![event], generic: Vec::new() }
    }

    #[test]
    fn the_newest_table_of_a_cpu_comes_first_and_the_catalogues_last() {
        let mut tables = Tables::default();
        tables.give(&table("skylake", "OLDER", "")).unwrap();
        tables.give(&table("haswell", "OTHER", "")).unwrap();
        tables.give(&table("skylake", "NEWER", "")).unwrap();
        let firsts: Vec<&str> =
            tables.of("Skylake").iter().map(|cpu| cpu.events().next().unwrap().name()).collect();
        assert_eq!(firsts[..2], ["NEWER", "OLDER"]);
        assert_eq!(firsts.len(), 3);
        assert_eq!(tables.of("no-such-cpu").len(), 0);
    }

    #[test]
    fn a_files_words_go_before_ours_and_those_before_the_spelled_name() {
        let mut tables = Tables::default();
        tables.give(&table("skylake", "INST_RETIRED.ANY", "the file's words")).unwrap();
        let skylake = tables.of("skylake")[0];
        assert_eq!(tables.describe("inst_retired.any", &skylake).words, "the file's words");
        let embedded = Tables::embedded();
        let ours = embedded.describe("INST_RETIRED.ANY", &skylake);
        assert_eq!(ours.words, "instructions retired, on a counter of its own");
        assert_eq!(embedded.describe("Zork_RETIRED.QUUX9", &skylake).words, "Zork, retired: QUUX9");
    }

    #[test]
    fn every_core_pmu_gets_the_tables_of_its_core_type() {
        let mut machine = hybrid();
        machine.core_types[0].cpu_id = Some("alderlake/core".to_owned());
        machine.core_types[1].cpu_id = Some("alderlake/atom".to_owned());
        let found = cores(&machine, Tables::embedded());
        let ids: Vec<_> = found.iter().map(|core| (core.pmu_name(), core.tables[0].id())).collect();
        assert_eq!(ids, [("cpu_core", "alderlake/core"), ("cpu_atom", "alderlake/atom")]);
        assert!(cores(&vm_without_pmu(), Tables::embedded()).is_empty());
    }

    #[test]
    fn a_core_that_is_not_known_is_served_by_the_name_of_its_pmu() {
        let machine = hybrid();
        let mut tables = Tables::default();
        tables.give(&table("cpu_atom", "MINE", "")).unwrap();
        let found = cores(&machine, &tables);
        assert_eq!(found[1].tables[0].event("mine").unwrap().name(), "MINE");
        assert!(found[0].tables.is_empty());
    }
}
