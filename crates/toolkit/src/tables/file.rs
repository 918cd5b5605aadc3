//! A file of events as it was given, and which tables it makes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cyclometer_catalog::table::CpuTable;
use cyclometer_catalog::table::text::FIRST_LINE;
use cyclometer_catalog::{cpus, table_id};
use cyclometer_core::machine::{CoreType, Vendor};
use cyclometer_core::pmu::Family;
use cyclometer_core::{Error, ErrorKind, Machine, Recovery, Result};
use cyclometer_import::{ImportError, json, read_file};
use cyclometer_sys::invoker;

/// A path as a message shows it, with control characters escaped.
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
pub(super) struct EventFile {
    bytes: Vec<u8>,
    name: String,
}

impl EventFile {
    /// Opens the file with the rights of the user that called sudo.
    pub(super) fn read(path: &Path) -> Result<EventFile> {
        Ok(EventFile { bytes: read(path)?, name: shown(path) })
    }

    /// A file whose bytes are known.
    pub(super) fn of(bytes: Vec<u8>, name: String) -> EventFile {
        EventFile { bytes, name }
    }

    /// Its table, for a CPU or for the one that the file names.
    pub(super) fn table(&self, cpu: Option<&str>) -> Result<CpuTable> {
        read_file(&self.bytes, &self.name, cpu).map_err(wrong)
    }

    /// Its table where it says for which CPU: a chip of the catalogue, or any in a table of ours.
    pub(super) fn named(&self) -> Option<CpuTable> {
        let ours = FIRST_LINE.split(' ').next().unwrap_or(FIRST_LINE).as_bytes();
        let start = self.bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&self.bytes).trim_ascii_start();
        let table = self.table(None).ok()?;
        let is_chip = cpus::cpu(&table.header.cpu).is_ok() && !table.header.matches.is_empty();
        (is_chip || start.starts_with(ours)).then_some(table)
    }

    /// Its tables, for the core types of one CPU.
    pub(super) fn tables_for(&self, ids: &[&str]) -> Result<Vec<CpuTable>> {
        match (self.named(), ids) {
            (Some(table), _) if ids.iter().any(|id| id.eq_ignore_ascii_case(&table.header.cpu)) => {
                Ok(vec![table])
            }
            (Some(table), _) => {
                Err(self.of_another_cpu(&table.header.cpu, &format!("{} is asked for", ids.join(", ")), ids))
            }
            (None, [id]) => Ok(vec![self.table(Some(id))?]),
            (None, several) => self.for_several(several, None),
        }
    }

    /// The error where it could be for any of several CPUs.
    pub(super) fn for_which(&self, ids: &[String]) -> Error {
        let hint = match ids.is_empty() {
            true => "say it: --cpu ID; `cyclometer list --cpus` shows those of the catalogue".to_owned(),
            false => format!("say it: --cpu ID, with one of {}", ids.join(", ")),
        };
        self.error("it does not tell which CPU it is for", &hint)
    }

    /// Its tables, each named after the core type of the machine that it is for.
    pub(super) fn tables(&self, core: Option<&CoreType>, machine: &Machine) -> Result<Vec<CpuTable>> {
        let family = family(machine);
        if let Some(core) = core {
            return Ok(vec![self.table_for(table_id(core), family)?]);
        }
        let ids: Vec<&str> = different(machine).into_iter().map(table_id).collect();
        if let Ok(table) = self.table(None)
            && cpus::cpu(&table.header.cpu).is_ok()
            && !table.header.matches.is_empty()
        {
            return match ids.contains(&table.header.cpu.as_str()) {
                true => Ok(vec![table]),
                false => Err(self.of_another_cpu(
                    &table.header.cpu,
                    &format!("this machine has {}", ids.join(", ")),
                    &ids,
                )),
            };
        }
        match ids.as_slice() {
            [] => Err(self.error("the machine's CPU is not known", "nothing can be looked up in it here")),
            [id] => Ok(vec![self.table_for(id, family)?]),
            several => self.for_several(several, family),
        }
    }

    /// The tables of a file that distinguishes core types.
    fn for_several(&self, ids: &[&str], family: Option<Family>) -> Result<Vec<CpuTable>> {
        let read: Vec<Result<CpuTable>> = ids.iter().map(|id| self.table_for(id, family)).collect();
        let (good, bad): (Vec<_>, Vec<_>) = read.into_iter().partition(Result::is_ok);
        let good: Vec<CpuTable> = good.into_iter().flatten().collect();
        let same = good.windows(2).any(|pair| pair[0].events == pair[1].events);
        match (good.is_empty(), same) {
            (_, true) => {
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

    fn table_for(&self, id: &str, family: Option<Family>) -> Result<CpuTable> {
        let table = self.table(Some(id))?;
        match family {
            Some(family) if family != table.header.family => {
                let message = format!("it has events of {}", table.header.family.word());
                Err(self.error(&message, &format!("this machine's CPU is {}", family.word())))
            }
            _ => Ok(table),
        }
    }

    fn of_another_cpu(&self, cpu: &str, what: &str, ids: &[&str]) -> Error {
        let hint = match ids.first() {
            Some(id) => format!("to use its codes all the same, say for which core: --events {id}=FILE"),
            None => "the machine's CPU is not known".to_owned(),
        };
        self.error(&format!("it is of {cpu}, and {what}"), &hint)
    }

    fn error(&self, message: &str, hint: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("{}: {message}", self.name))
            .with_recovery(Recovery::fix(hint))
    }
}

fn wrong(error: ImportError) -> Error {
    Error::new(ErrorKind::InvalidInput, error.to_string())
        .with_recovery(Recovery::fix("name a whole file of events of the CPU that is meant"))
        .with_source(error)
}

/// The core types of a machine, those of one id once.
pub(super) fn different(machine: &Machine) -> Vec<&CoreType> {
    let mut all: Vec<&CoreType> = Vec::new();
    for core in &machine.core_types {
        if !all.iter().any(|known| table_id(known) == table_id(core)) {
            all.push(core);
        }
    }
    all
}

/// The register layout of a machine's PMU, if the vendor determines it.
fn family(machine: &Machine) -> Option<Family> {
    match machine.cpu.vendor {
        Vendor::Intel => Some(Family::Intel),
        Vendor::Amd | Vendor::Hygon => Some(Family::Amd),
        Vendor::Arm => Some(Family::Arm),
        Vendor::Apple => Some(Family::Apple),
        _ => None,
    }
}
