//! Tables of events that users give at run time, before those of the catalogue.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cyclometer_catalog::table::{Cpu, CpuTable, Entry};
use cyclometer_catalog::{Tables, cpus, table_id};
use cyclometer_core::machine::{CoreType, Vendor};
use cyclometer_core::pmu::Family;
use cyclometer_core::{Error, ErrorKind, Machine, Recovery, Result};
use cyclometer_import::{ImportError, json, read_file};
use cyclometer_sys::invoker;

/// The tables that events are looked up in: files of the user's, each before the earlier ones, then the catalogue's.
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

    /// Adds a file: a table of ours, Intel's perfmon JSON, Linux's pmu-events JSON, Arm's JSON, or an Apple kpep property
    /// list.
    ///
    /// `argument` is the file's path, or `CPU=PATH` with the id of one of the machine's core types (`alderlake/atom`) or its
    /// PMU (`cpu_atom`): needed where the file does not tell its core type and the machine has several, or is of
    /// another CPU and to be used all the same. The file is opened with the rights of whoever called sudo.
    ///
    /// # Errors
    ///
    /// `ErrorKind::Io` for a file that cannot be read; `ErrorKind::InvalidInput` for one that is no such file, is truncated
    /// or too large, is of another CPU, or does not tell its core type.
    pub fn with_file(mut self, argument: &Path, machine: &Machine) -> Result<EventTables> {
        let (core, path) = qualified(argument, machine);
        let file = EventFile { bytes: read(path)?, name: shown(path) };
        for table in file.tables(core, machine)? {
            self.tables.give(&table)?;
        }
        Ok(self)
    }

    /// Adds a file for a CPU of the catalogue, or for a new one, on whatever machine this runs.
    ///
    /// # Errors
    ///
    /// As [`EventTables::with_file`].
    pub fn with_file_of(mut self, path: &Path, cpu: Option<&str>) -> Result<EventTables> {
        let file = EventFile { bytes: read(path)?, name: shown(path) };
        self.tables.give(&file.table(cpu)?)?;
        Ok(self)
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

    /// What an event of a CPU counts: the words of the file that was given, else our line on it, else its name spelled out.
    pub fn describe(&self, name: &str, cpu: &Cpu<'_>) -> String {
        self.tables.describe(name, cpu)
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }
}

/// A file with the core type that stands before it, if one does.
fn qualified<'p, 'm>(argument: &'p Path, machine: &'m Machine) -> (Option<&'m CoreType>, &'p Path) {
    let split = argument.to_str().and_then(|text| text.split_once('='));
    let Some((name, path)) = split else { return (None, argument) };
    let is_named = |core: &&CoreType| {
        let id = core.cpu_id.as_deref().is_some_and(|id| id.eq_ignore_ascii_case(name));
        id || core.kernel_pmu.as_deref() == Some(name)
    };
    match machine.core_types.iter().find(is_named) {
        Some(core) => (Some(core), Path::new(path)),
        None => (None, argument),
    }
}

/// What a message may show of a path: control characters escaped.
fn shown(path: &Path) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_debug().collect() } else { String::from(c) };
    path.display().to_string().chars().map(escaped).collect()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read {}: {error}", shown(path))).with_source(error)
    };
    let file = invoker::with_rights(|| File::open(path)).and_then(|file| file).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(json::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > json::MAX_BYTES {
        let message = format!("{} is longer than {} bytes", shown(path), json::MAX_BYTES);
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(bytes)
}

/// A file that was read.
struct EventFile {
    bytes: Vec<u8>,
    name: String,
}

impl EventFile {
    fn table(&self, cpu: Option<&str>) -> Result<CpuTable> {
        read_file(&self.bytes, &self.name, cpu).map_err(wrong)
    }

    /// Its tables, each named after the core type of the machine that it is for.
    fn tables(&self, core: Option<&CoreType>, machine: &Machine) -> Result<Vec<CpuTable>> {
        if let Some(core) = core {
            return Ok(vec![self.table_for(core, machine)?]);
        }
        let cores = different(machine);
        if let Ok(table) = self.table(None)
            && cpus::cpu(&table.header.cpu).is_ok()
            && !table.header.matches.is_empty()
        {
            return match cores.iter().find(|core| table_id(core) == table.header.cpu) {
                Some(_) => Ok(vec![table]),
                None => Err(self.of_another_cpu(&table.header.cpu, &cores)),
            };
        }
        match cores.as_slice() {
            [] => Err(self.error("the machine's CPU is not known", "nothing can be looked up in it here")),
            [core] => Ok(vec![self.table_for(core, machine)?]),
            several => self.for_several(several, machine),
        }
    }

    /// The tables of a file that tells the core types apart.
    fn for_several(&self, cores: &[&CoreType], machine: &Machine) -> Result<Vec<CpuTable>> {
        let read: Vec<Result<CpuTable>> = cores.iter().map(|core| self.table_for(core, machine)).collect();
        let (good, bad): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
        let good: Vec<CpuTable> = good.into_iter().flatten().collect();
        let same = good.windows(2).any(|pair| pair[0].events == pair[1].events);
        match (good.is_empty(), same) {
            (_, true) => {
                let ids: Vec<&str> = cores.iter().map(|core| table_id(core)).collect();
                let hint = format!("say it: --events {}=FILE; there are {}", ids[0], ids.join(", "));
                Err(self.error("it does not tell which core type it is for", &hint))
            }
            (true, false) => Err(bad
                .into_iter()
                .find_map(Result::err)
                .unwrap_or_else(|| self.error("it has no events", ""))),
            (false, false) => Ok(good),
        }
    }

    fn table_for(&self, core: &CoreType, machine: &Machine) -> Result<CpuTable> {
        let table = self.table(Some(table_id(core)))?;
        match family(machine) {
            Some(family) if family != table.header.family => {
                let message = format!("it has events of {}", table.header.family.word());
                Err(self.error(&message, &format!("this machine's CPU is {}", family.word())))
            }
            _ => Ok(table),
        }
    }

    fn of_another_cpu(&self, cpu: &str, cores: &[&CoreType]) -> Error {
        let ids: Vec<&str> = cores.iter().map(|core| table_id(core)).collect();
        let hint = match ids.first() {
            Some(id) => format!("to use its codes all the same, say for which core: --events {id}=FILE"),
            None => "the machine's CPU is not known".to_owned(),
        };
        self.error(&format!("it is of {cpu}, and this machine has {}", ids.join(", ")), &hint)
    }

    fn error(&self, message: &str, hint: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("{}: {message}", self.name))
            .with_recovery(Recovery::fix(hint))
    }
}

fn wrong(error: ImportError) -> Error {
    Error::new(ErrorKind::InvalidInput, error.to_string())
        .with_recovery(Recovery::fix("name a whole file of events of this machine's CPU"))
        .with_source(error)
}

/// The core types of a machine, those of one id once.
fn different(machine: &Machine) -> Vec<&CoreType> {
    let mut all: Vec<&CoreType> = Vec::new();
    for core in &machine.core_types {
        if !all.iter().any(|known| table_id(known) == table_id(core)) {
            all.push(core);
        }
    }
    all
}

/// How the machine's registers are laid out, where its vendor tells.
fn family(machine: &Machine) -> Option<Family> {
    match machine.cpu.vendor {
        Vendor::Intel => Some(Family::Intel),
        Vendor::Amd | Vendor::Hygon => Some(Family::Amd),
        Vendor::Arm => Some(Family::Arm),
        Vendor::Apple => Some(Family::Apple),
        _ => None,
    }
}
