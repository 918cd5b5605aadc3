//! Clippy as the compiler of other cargo commands, so that no crate is compiled once for lints and
//! once more for the command.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::command::output;

/// The arguments of `cargo clippy -- -D warnings`, as its compiler gets them.
///
/// # Source
///
/// `src/main.rs` of rust-clippy: arguments are joined by this word.
const ARGUMENTS: &str = "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__";

/// Makes cargo, started by a command, compile the crates of its workspace by clippy, whose warnings are
/// errors. Cargo finds crates that `cargo clippy -- -D warnings` has checked.
///
/// # Errors
///
/// Clippy is not installed.
pub(crate) fn compiles(command: &mut Command) -> Result<()> {
    let driver = Path::new(output("rustc", &["--print", "sysroot"])?.trim()).join("bin/clippy-driver");
    ensure!(driver.is_file(), "there is no {}: install clippy", driver.display());
    command.env("RUSTC_WORKSPACE_WRAPPER", driver).env("CLIPPY_ARGS", ARGUMENTS);
    Ok(())
}
