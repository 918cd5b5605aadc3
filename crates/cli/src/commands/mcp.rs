//! `mcp`: the server for coding agents, a program of its own.

use std::ffi::OsString;
use std::io::ErrorKind as IoKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use crate::failure::reason;

/// The program.
const PROGRAM: &str = "cyclometer-mcp";

/// Executes the server in the place of this process.
///
/// # Errors
///
/// `ErrorKind::CommandNotFound` if it is not installed, `ErrorKind::CommandNotExecutable` if the system
/// refuses to execute it.
pub fn run(args: &[OsString]) -> Result<u8> {
    // Without a slash in it, the name is looked up in PATH.
    let program = beside().unwrap_or_else(|| PROGRAM.into());
    let error = Command::new(&program).args(args).exec();
    Err(match error.kind() {
        IoKind::NotFound => {
            let message =
                format!("{PROGRAM} is not installed: it lies neither beside cyclometer nor in PATH");
            Error::new(ErrorKind::CommandNotFound, message).with_recovery(Recovery::fix(
                "`cargo install --locked --path crates/mcp` in a clone of the repository installs it",
            ))
        }
        _ => {
            let message = format!("cannot execute {}: {}", program.display(), reason(&error));
            Error::new(ErrorKind::CommandNotExecutable, message).with_recovery(Recovery::fix(
                "install it again: `cargo install --locked --force --path crates/mcp` in a clone of the repository",
            ))
        }
    })
}

/// The server beside this program.
fn beside() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.parent()?.join(PROGRAM)).filter(|path| path.exists())
}
