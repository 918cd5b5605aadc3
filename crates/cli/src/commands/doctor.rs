//! `doctor`: which sources work, why others do not, what mends them.

use std::path::Path;

use cyclometer::{Machine, Result, record_machine};

use crate::args::{Cli, DoctorArgs};
use crate::export::Export;
use crate::output::Channel;
use crate::render::{doctor, json};

/// Diagnoses the machine.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for recordings that cannot be read or written.
pub fn run(args: &DoctorArgs, cli: &Cli) -> Result<u8> {
    let machine = match &args.record {
        None => super::machine_of(args.machine.as_deref())?,
        Some(path) => record(path)?,
    };
    if args.record.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        return Ok(crate::exit::OK);
    }
    super::print(&match args.json {
        true => json::pretty(&doctor::json(&machine)),
        false => doctor::render(&machine, super::paint(cli, Channel::Out)),
    })
}

fn record(path: &Path) -> Result<Machine> {
    let export = Export::open(path)?;
    let (machine, facts) = record_machine(concat!("recorded: by cyclometer ", env!("CARGO_PKG_VERSION")));
    export.write(&facts)?;
    Ok(machine)
}
