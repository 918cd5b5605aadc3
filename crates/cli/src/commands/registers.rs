//! `registers`: the addresses of a PMU's registers, and the meaning of their bits.

use cyclometer_toolkit::Result;
use cyclometer_toolkit::arch::Register;
use cyclometer_toolkit::catalogue::decode;
use cyclometer_toolkit::catalogue::table::Cpu;

use crate::args::{Cli, RegistersArgs};
use crate::output::Channel;
use crate::render::{json, registers};

/// Shows registers.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a CPU that is not known, and for a register that no core type of it has.
pub fn run(args: &RegistersArgs, cli: &Cli) -> Result<u8> {
    let cpus = super::cpus_of(args.cpu.as_deref())?;
    let named: Vec<(Cpu<'_>, Register)> = named(&cpus, &args.registers)?;
    let paint = super::paint(cli, Channel::Out);
    super::print(&match (args.json, args.registers.is_empty()) {
        (true, true) => json::pretty(&registers::json(&registers::all(&cpus))),
        (true, false) => json::pretty(&registers::json(&named)),
        (false, true) => registers::tables(&cpus, paint),
        (false, false) => registers::single(&named, paint),
    })
}

/// The registers of these names on the core types that have them.
fn named<'a>(cpus: &[Cpu<'a>], names: &[String]) -> Result<Vec<(Cpu<'a>, Register)>> {
    let mut found = Vec::new();
    for name in names {
        let on = |cpu: &Cpu<'a>| decode::register(cpu, name).map(|register| (*cpu, register));
        found.extend(super::those_that_have_it(cpus.iter().map(on).collect())?);
    }
    Ok(found)
}
