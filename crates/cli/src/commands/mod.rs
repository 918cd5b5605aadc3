//! One module for each subcommand.

pub mod advise;
mod by_code;
pub mod claims;
pub mod compare;
pub mod completions;
pub mod convert;
pub mod cpus;
pub mod decode;
pub mod doctor;
pub mod encode;
pub mod list;
pub mod man;
pub mod mcp;
pub mod phases;
pub mod plan;
pub mod plot;
pub mod record;
mod recorded;
pub mod registers;
pub mod reverse;
pub mod run;
pub mod selftest;
pub mod stat;
mod streams;
mod sweep_journal;
mod sweep_log;
mod threshold;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cyclometer_toolkit::catalogue::{self, table::Cpu};
use cyclometer_toolkit::semantics::{self, Semantics};
use cyclometer_toolkit::{
    Error, ErrorKind, EventTables, Machine, Recovery, Result, SignalWatch, Simulated, diagnosed_machine,
    replay_machine, simulated,
};

use crate::args::Cli;
use crate::export::cannot_print;
use crate::failure::{FileUse, of_file, of_system};
use crate::output::{self, Channel, clean, clean_os, tell};
use crate::render::paint::{Paint, ShownBy, is_dumb};

/// Longest recording that is read, in bytes: a machine's facts take far less.
const MAX_RECORDING_BYTES: u64 = 16 * 1024 * 1024;

/// The id of the tables of a CPU that the catalogue does not have.
const UNKNOWN_CPU: &str = "cpu";

/// This machine, the one of a recording, or a simulated one.
fn machine_of(named: Option<&Path>) -> Result<Machine> {
    let Some(path) = named else { return Ok(diagnosed_machine()) };
    match path.to_str().filter(|name| name.starts_with(simulated::PREFIX)) {
        Some(name) => Ok(Simulated::find(name)?.machine()),
        None => replay_machine(&read_recording(path)?),
    }
}

/// The meanings of a simulated machine's events.
fn read_semantics(path: &Path) -> Result<Semantics> {
    let failed = |error: std::io::Error| of_file("--semantics", FileUse::Read, path, error);
    let mut bytes = Vec::new();
    // A byte more than is allowed shows that the file is too long.
    let mut file = File::open(path).map_err(failed)?.take(semantics::MAX_BYTES as u64 + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    Semantics::parse(&bytes).map_err(|error| {
        let message = format!("--semantics: {}: {error}", clean_os(path.as_os_str()));
        Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(error.remedy))
    })
}

fn read_recording(path: &Path) -> Result<String> {
    let failed = |error: std::io::Error| of_file("--machine", FileUse::Read, path, error);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_RECORDING_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_RECORDING_BYTES {
        let name = clean_os(path.as_os_str());
        let message =
            format!("{name} is longer than {MAX_RECORDING_BYTES} bytes, so it is no recording of a machine");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(text)
}

/// Watches for signals that end a measurement early.
fn watch() -> Result<SignalWatch> {
    SignalWatch::install().map_err(|error| of_system("watch signals", error))
}

/// The tables of this machine, with a warning where its own event database cannot be used.
fn tables_here(machine: &Machine) -> EventTables {
    let (tables, warning) = EventTables::here(machine);
    if let Some(warning) = warning {
        tell(&format!("cyclometer: warning: {}\n", clean(&warning)));
    }
    tables
}

/// The CPUs that a question is about, with the files that describe them.
struct Asked {
    tables: EventTables,
    ids: Vec<String>,
}

impl Asked {
    /// The core types of a machine.
    fn of_machine(machine: &Machine) -> Result<Asked> {
        let ids = cpus_on(machine)?.iter().map(|cpu| cpu.id().to_owned()).collect();
        Ok(Asked { tables: EventTables::embedded(), ids })
    }

    /// The core types of this machine.
    fn here(machine: &Machine) -> Result<Asked> {
        let tables = tables_here(machine);
        let mut ids: Vec<String> = match cpus_on(machine) {
            // A chip that the catalogue lacks has the tables of its own event database.
            Err(_) if !tables.all_of(UNKNOWN_CPU).is_empty() => vec![UNKNOWN_CPU.to_owned()],
            known => known?.iter().map(|cpu| cpu.id().to_owned()).collect(),
        };
        ids.dedup();
        Ok(Asked { tables, ids })
    }

    /// The tables of `--cpu` and `--events`; those of this machine without these options.
    fn read(cpu: Option<&str>, files: &[PathBuf]) -> Result<Asked> {
        match (files, cpu) {
            ([], None) => return Asked::here(&diagnosed_machine()),
            ([], Some(id)) => {
                let ids = cpus_of(Some(id))?.iter().map(|cpu| cpu.id().to_owned()).collect();
                return Ok(Asked { tables: EventTables::embedded(), ids });
            }
            _ => {}
        }
        let (tables, ids) = EventTables::of_files(files, cpu, diagnosed_machine)?;
        Ok(Asked { tables, ids })
    }

    /// For each core type that there is a table of, its tables, best first.
    fn cores(&self) -> Vec<Vec<Cpu<'_>>> {
        let tables = self.ids.iter().map(|id| self.tables.all_of(id));
        tables.filter(|tables| !tables.is_empty()).collect()
    }
}

/// The tables of a core type, each with those that go before it.
fn each_with_better<'t, 'a>(
    tables: &'t [Cpu<'a>],
) -> impl Iterator<Item = (Cpu<'a>, impl Fn(&str) -> bool + 't)> {
    tables.iter().enumerate().map(move |(n, cpu)| {
        let is_new = move |name: &str| tables[..n].iter().all(|better| better.event(name).is_none());
        (*cpu, is_new)
    })
}

/// The CPUs of the catalogue that an id means, or the core types of this machine.
fn cpus_of(id: Option<&str>) -> Result<Vec<Cpu<'static>>> {
    let Some(id) = id else { return cpus_on(&diagnosed_machine()) };
    match catalogue::cpus::core_types(id) {
        found if found.is_empty() => catalogue::cpus::cpu(id).map(|cpu| vec![cpu]),
        found => Ok(found),
    }
}

fn cpus_on(machine: &Machine) -> Result<Vec<Cpu<'static>>> {
    let known = |id: &String| catalogue::cpus::cpu(id).ok();
    let found: Vec<Cpu<'static>> =
        machine.core_types.iter().filter_map(|core| known(core.cpu_id.as_ref()?)).collect();
    if found.is_empty() {
        let message = "the catalogue does not have this machine's CPU";
        return Err(Error::new(ErrorKind::ArchUnsupported, message)
            .with_recovery(Recovery::fix("name one with --cpu; `cyclometer list --cpus` shows them")));
    }
    Ok(found)
}

/// The results of the core types that have an event; the first error if none has it.
fn those_that_have_it<T>(each: Vec<Result<T>>) -> Result<Vec<T>> {
    let (mut found, mut first) = (Vec::new(), None);
    for one in each {
        match one {
            Ok(one) => found.push(one),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    match (found.is_empty(), first) {
        (true, Some(error)) => Err(error),
        _ => Ok(found),
    }
}

/// Prints a result.
fn print(text: &str) -> Result<u8> {
    output::put(Channel::Out, text).map_err(|error| cannot_print(&error))?;
    Ok(crate::exit::OK)
}

fn paint(cli: &Cli, channel: Channel) -> Paint {
    let (no_color, term) = (std::env::var_os("NO_COLOR"), std::env::var_os("TERM"));
    Paint::new(cli.color.into(), ShownBy::of(channel.is_terminal(), no_color.as_deref(), term.as_deref()))
}

/// Whether standard error is a terminal on which a bar can be drawn over and over.
fn shows_progress() -> bool {
    Channel::Err.is_terminal() && !is_dumb(std::env::var_os("TERM").as_deref())
}
