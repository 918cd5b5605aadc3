//! `doctor`: the sources that work, and for the others the reasons and remedies.

use std::path::Path;

use cyclometer_toolkit::{
    LeftRegisters, Machine, Result, diagnosed_machine_with_gpus, left_registers, record_machine,
    restore_registers,
};

use crate::args::{Cli, DoctorArgs};
use crate::export::{self, Export};
use crate::output::Channel;
use crate::render::{doctor, json};

/// Diagnoses the machine.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for recordings that cannot be read or written; the reason
/// why registers could not be restored.
pub fn run(args: &DoctorArgs, cli: &Cli) -> Result<u8> {
    if args.restore {
        return restore();
    }
    let machine = match (&args.record, &args.machine) {
        (Some(path), _) => record(path)?,
        (None, Some(named)) => super::machine_of(Some(named))?,
        (None, None) => diagnosed_machine_with_gpus(),
    };
    if args.record.as_deref().is_some_and(export::is_stdout) {
        return Ok(crate::exit::OK);
    }
    let left = match &args.machine {
        None => left_registers(),
        // A recording describes another machine.
        Some(_) => Vec::<LeftRegisters>::new(),
    };
    super::print(&match args.json {
        true => json::pretty(&doctor::json(&machine, &left)),
        false => doctor::render(&machine, &left, super::paint(cli, Channel::Out)),
    })
}

/// Restores all registers that it can, then returns the first failure.
fn restore() -> Result<u8> {
    let all = restore_registers();
    super::print(&doctor::restored(&all))?;
    let failure = all.into_iter().find_map(|restoration| restoration.outcome.err());
    failure.map_or(Ok(crate::exit::OK), Err)
}

fn record(path: &Path) -> Result<Machine> {
    let export = Export::open("--record", path)?;
    let (machine, facts) = record_machine(concat!("recorded: by cyclometer ", env!("CARGO_PKG_VERSION")));
    export.write(&facts)?;
    Ok(machine)
}
