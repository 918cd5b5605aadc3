//! `cargo xtask mutate`: parsers of foreign bytes on changed files, by the program of `tests/fuzz-targets`.

use std::process::Command;

use anyhow::{Context, Result};

use crate::ci::WorkspaceBuild;
use crate::command::{cargo, cargo_command, step};
use crate::root;

/// The package of the program.
const PACKAGE: &str = "cyclometer-fuzz-targets";

/// Changes of each format in continuous integration.
const FILES: &str = "300";

/// Changes of each format that a command reads: each one starts a process.
const COMMAND_FILES: &str = "20";

/// Builds the program, the tool and its server for agents, and runs the first with the arguments of the
/// command line.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    cargo(&["build", "--locked", "--package", "cyclometer-cli", "--package", "cyclometer-mcp"])?;
    let tool = target().join("debug/cyclometer");
    let mut command = cargo_command(&["run", "--locked", "--package", PACKAGE, "--bin", "mutate", "--"]);
    command.arg("--tool").arg(tool).args(arguments);
    step("mutate", command)
}

/// The step of continuous integration: programs that are built, some hundred changes of each format.
pub(crate) fn some() -> Result<()> {
    let build = WorkspaceBuild::new()?;
    let mut command = Command::new(build.program("mutate").context("cargo built no mutate")?);
    command
        .args(["--files", FILES, "--command-files", COMMAND_FILES, "--tool"])
        .arg(&build.tool)
        .current_dir(root());
    step("mutate", command)
}

/// Where everything is built.
fn target() -> std::path::PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}
