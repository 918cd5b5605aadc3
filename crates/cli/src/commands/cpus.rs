//! `cpus`: the CPUs and their counters.

use cyclometer_toolkit::Result;

use crate::args::{Cli, MachineArgs};
use crate::output::Channel;
use crate::render::{cpus, json};

/// Shows the CPUs.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for a recording that cannot be read.
pub fn run(args: &MachineArgs, cli: &Cli) -> Result<u8> {
    let machine = super::machine_of(args.machine.as_deref())?;
    super::print(&match args.json {
        true => json::pretty(&cpus::json(&machine)),
        false => cpus::render(&machine, super::paint(cli, Channel::Out)),
    })
}
