//! `completions`: scripts for shells.

use clap::CommandFactory;
use clap_complete::Shell;
use cyclometer_toolkit::Result;

use crate::args::Cli;

/// Prints the script for a shell.
///
/// # Errors
///
/// `ErrorKind::Io` when standard output does not take it.
pub fn run(shell: Shell) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "cyclometer", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
