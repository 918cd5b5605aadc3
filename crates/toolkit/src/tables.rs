//! Tables of events that users give at run time, before those of the catalogue.

mod file;
pub(crate) mod host_database;

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use cyclometer_catalog::about::EventDescription;
use cyclometer_catalog::table::{Cpu, CpuTable, Entry};
use cyclometer_catalog::{Tables, cpus, table_id};
use cyclometer_core::machine::CoreType;
use cyclometer_core::{Machine, Result};
use cyclometer_detect::FactSource;

use file::{EventFile, different};

/// The tables that events are looked up in: files of the user's, each before the earlier ones, then the
/// catalogue's.
///
/// ```no_run
/// use cyclometer::{EventTables, machine};
///
/// # fn main() -> cyclometer::Result<()> {
/// let machine = machine();
/// let tables = EventTables::embedded().with_file("skylake_core.json".as_ref(), &machine)?;
/// assert!(tables.cpu("skylake")?.event("INST_RETIRED.ANY").is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventTables {
    tables: Tables,
}

impl EventTables {
    /// The catalogue's tables alone.
    pub fn embedded() -> EventTables {
        EventTables::default()
    }

    /// As `EventTables::here`, of facts.
    pub(crate) fn of_facts(facts: &dyn FactSource, machine: &Machine) -> (EventTables, Option<String>) {
        host_database::tables(facts, machine)
    }

    /// Adds a file: a table of ours, Intel's perfmon JSON, Linux's pmu-events JSON, Arm's JSON, or an Apple
    /// kpep property list.
    ///
    /// `argument` is the file's path, or `CPU=PATH` with the id of one of the machine's core types
    /// (`alderlake/atom`) or its PMU (`cpu_atom`). The prefix is needed where the file does not name its core
    /// type and the machine has several. It is also needed to use a file of another CPU all the same. The
    /// file is opened with the rights of the user that called sudo.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` for a file that cannot be read. `ErrorKind::InvalidInput` for a file of another
    /// format, a truncated or too large one, or one of another CPU. Also for a file that does not name its
    /// core type.
    pub fn with_file(mut self, argument: &Path, machine: &Machine) -> Result<EventTables> {
        let (core, path) = qualified(argument, machine);
        let tables = EventFile::read(path)?.tables(core, machine)?;
        self.give(tables)?;
        Ok(self)
    }

    /// The tables of files for questions about a CPU, on any machine, and the ids of the core types in
    /// question.
    ///
    /// With `cpu`, an id of the catalogue or a new one, the files are for that CPU; `ID=PATH` says for which
    /// core type of it. Without it they are for the CPUs that they name, or for the machine, as
    /// [`EventTables::with_file`] takes them. Each file is read once, with the rights of the user that called
    /// sudo.
    ///
    /// # Errors
    ///
    /// As [`EventTables::with_file`]; also for a file that does not name its CPU where several are named, or
    /// this machine's is not known.
    pub fn of_files(
        files: &[PathBuf],
        cpu: Option<&str>,
        here: impl FnOnce() -> Machine,
    ) -> Result<(EventTables, Vec<String>)> {
        let mut tables = EventTables::embedded();
        let ids = match cpu {
            Some(id) => tables.add_for(files, id)?,
            None => tables.add_for_what_they_name(files, here)?,
        };
        Ok((tables, ids))
    }

    fn add_for(&mut self, files: &[PathBuf], id: &str) -> Result<Vec<String>> {
        let cores = cpus::core_types(id);
        let ids: Vec<&str> = if cores.is_empty() { vec![id] } else { cores.iter().map(Cpu::id).collect() };
        for argument in files {
            let (core, path) = named_before(argument, |name| find(&ids, name));
            let file = EventFile::read(path)?;
            self.give(match core {
                Some(core) => vec![file.table(Some(core))?],
                None => file.tables_for(&ids)?,
            })?;
        }
        Ok(ids.into_iter().map(str::to_owned).collect())
    }

    fn add_for_what_they_name(
        &mut self,
        files: &[PathBuf],
        here: impl FnOnce() -> Machine,
    ) -> Result<Vec<String>> {
        let machine = LazyCell::new(here);
        let (mut ids, mut others): (Vec<String>, Vec<(Option<&CoreType>, EventFile)>) = Default::default();
        for argument in files {
            match named_file(argument, &machine)? {
                (Some(table), _, _) => {
                    ids.extend((!ids.contains(&table.header.cpu)).then(|| table.header.cpu.clone()));
                    self.give(vec![table])?;
                }
                (None, core, file) => others.push((core, file)),
            }
        }
        match (ids.as_slice(), others.first()) {
            ([], _) => return self.add_for_machine(others, &machine),
            ([_, _, ..], Some((_, file))) => return Err(file.for_which(&ids)),
            ([id, ..], _) => {
                others.iter().try_for_each(|(_, file)| self.give(vec![file.table(Some(id))?]))?;
            }
        }
        Ok(ids)
    }

    fn add_for_machine(
        &mut self,
        files: Vec<(Option<&CoreType>, EventFile)>,
        machine: &Machine,
    ) -> Result<Vec<String>> {
        let ids: Vec<String> = different(machine).into_iter().map(|core| table_id(core).to_owned()).collect();
        for (core, file) in files {
            match ids.is_empty() {
                true => return Err(file.for_which(&[])),
                false => self.give(file.tables(core, machine)?)?,
            }
        }
        Ok(ids)
    }

    fn give(&mut self, tables: Vec<CpuTable>) -> Result<()> {
        tables.iter().try_for_each(|table| self.tables.give(table))
    }

    /// The best table of a CPU: the newest that was given, else the catalogue's.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` with the nearest ids.
    pub fn cpu(&self, id: &str) -> Result<Cpu<'_>> {
        match self.tables.of(id).into_iter().next() {
            Some(cpu) => Ok(cpu),
            None => cpus::cpu(id),
        }
    }

    /// Every table of a CPU, best first.
    pub fn all_of(&self, id: &str) -> Vec<Cpu<'_>> {
        self.tables.of(id)
    }

    /// The event of that name in the best table of a CPU that has it.
    pub fn event(&self, id: &str, name: &str) -> Option<Entry<'_>> {
        self.tables.of(id).into_iter().find_map(|cpu| cpu.event(name))
    }

    /// The description of an event of a CPU: the words of the given file, else our line on it, else its name
    /// spelled out.
    pub fn describe(&self, name: &str, cpu: &Cpu<'_>) -> String {
        description(self, name, cpu).to_string()
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// The description of an event of a CPU, with its counters apart: the user's file's, else ours, else its name
/// spelled out.
pub fn description(tables: &EventTables, name: &str, cpu: &Cpu<'_>) -> EventDescription {
    tables.tables.describe(name, cpu)
}

/// A file; its table where it, or the word before it, names the CPU; the machine's core type, where that
/// does.
fn named_file<'m>(
    argument: &Path,
    machine: &'m LazyCell<Machine, impl FnOnce() -> Machine>,
) -> Result<(Option<CpuTable>, Option<&'m CoreType>, EventFile)> {
    let (id, path) = named_before(argument, |name| cpus::cpu(name).ok().map(|cpu| cpu.id()));
    if let Some(id) = id {
        let file = EventFile::read(path)?;
        return Ok((Some(file.table(Some(id))?), None, file));
    }
    // Looking at the machine takes a while, so it is done only for a possible name of its PMU.
    let (core, path) = match argument.to_string_lossy().contains('=') {
        true => qualified(argument, machine),
        false => (None, path),
    };
    let file = EventFile::read(path)?;
    Ok((file.named().filter(|_| core.is_none()), core, file))
}

/// A file, and the result of `name` for the word before it, if the word is a name.
fn named_before<T>(argument: &Path, name: impl FnOnce(&str) -> Option<T>) -> (Option<T>, &Path) {
    let split = argument.to_str().and_then(|text| text.split_once('='));
    match split.and_then(|(word, path)| Some((name(word)?, path))) {
        Some((named, path)) => (Some(named), Path::new(path)),
        None => (None, argument),
    }
}

fn find<'i>(ids: &[&'i str], name: &str) -> Option<&'i str> {
    ids.iter().find(|id| id.eq_ignore_ascii_case(name)).copied()
}

/// A file with the core type before it, by its id or its PMU, if there is one.
fn qualified<'p, 'm>(argument: &'p Path, machine: &'m Machine) -> (Option<&'m CoreType>, &'p Path) {
    named_before(argument, |name| {
        machine.core_types.iter().find(|core| {
            let id = core.cpu_id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(name));
            id || core.kernel_pmu.as_deref() == Some(name)
        })
    })
}
