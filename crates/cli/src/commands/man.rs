//! `man`: the manual pages.

use clap::CommandFactory;
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use crate::args::Cli;
use crate::failure;
use crate::output::clean;

/// Prints the manual page of the program or of a subcommand, in troff.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a subcommand that there is not.
pub fn run(subcommand: Option<&str>) -> Result<u8> {
    let mut program = Cli::command();
    program.build();
    let page = match subcommand {
        None => program,
        Some(name) => program.find_subcommand(name).cloned().ok_or_else(|| unknown(name))?,
    };
    let mut troff = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut troff);
    rendered.map_err(|error| failure::of_system("write the manual page", error))?;
    super::print(&String::from_utf8_lossy(&troff))
}

fn unknown(name: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("there is no subcommand '{}'", clean(name)))
        .with_recovery(Recovery::fix("`cyclometer --help` names them"))
}
