//! `selftest`: compares the counts of events over loops of known length with the known numbers.

use std::ffi::OsString;

use cyclometer_toolkit::selftest::{SelfTest, run_kernel};
use cyclometer_toolkit::{Launcher, Result, diagnosed_machine};

use crate::args::{Cli, SelftestArgs};
use crate::export::Export;
use crate::output::Channel;
use crate::render::{json, selftest};
use crate::{exit, failure};

/// Runs a loop to be counted, if the arguments are `selftest --kernel NAME:ROUNDS`; `None` if they are not.
///
/// It stands before the parser of arguments, so that little is translated for a loop. These arguments are
/// undocumented: the program starts itself with them.
pub fn kernel(mut words: impl Iterator<Item = OsString>) -> Option<Result<u8>> {
    let is_meant = words.next()? == "selftest" && words.next()? == "--kernel";
    let spec = words.next().filter(|_| is_meant)?;
    Some(run_kernel(&spec.to_string_lossy()).map(|()| exit::OK))
}

/// Tests the sources of this machine; the exit code says whether a count contradicts the known number.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` and `ErrorKind::EventUnsupported` for a source that cannot be tested,
/// `ErrorKind::Io` for a report that cannot be written.
pub fn run(args: &SelftestArgs, cli: &Cli) -> Result<u8> {
    let report = args.report.as_deref().map(|path| Export::open("--report", path)).transpose()?;
    let launcher = Launcher::start()?;
    let machine = diagnosed_machine();
    let test = SelfTest::new(machine.clone()).backend(args.backend.rung()).program(own_program()?);
    let launcher = launcher.with_signals(super::watch()?);
    let examined = test.run(&launcher)?;
    let is_shown = report.as_ref().is_none_or(|report| !report.is_stdout());
    if let Some(report) = report {
        report.write(&json::pretty(&selftest::json(&examined, &machine)))?;
    }
    if is_shown {
        super::print(&match args.json {
            true => json::pretty(&selftest::json(&examined, &machine)),
            false => selftest::render(&examined, &machine, cli.verbose, super::paint(cli, Channel::Out)),
        })?;
    }
    Ok(match examined.interrupted {
        Some(signal) => exit::of_interrupted(signal, None),
        None if examined.is_true() => exit::OK,
        None => exit::UNTRUE,
    })
}

/// This program, which runs loops for the software PMU to count.
fn own_program() -> Result<std::path::PathBuf> {
    std::env::current_exe().map_err(|error| failure::of_system("find this program's file", error))
}
