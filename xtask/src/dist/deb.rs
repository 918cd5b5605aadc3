//! The Debian packages, by cargo-deb: their tables are in `crates/cli/Cargo.toml` (with the server for
//! agents) and `crates/exporter/Cargo.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::programs::{DistProgram, EXPORTER, TOOL};
use super::release::Release;
use super::target::DistTarget;
use crate::command::step;
use crate::root;
use crate::tools::CargoTool;

const CARGO_DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0" };

/// The programs that have a package, which is named as they are.
pub(super) const PACKAGES: [DistProgram; 2] = [TOOL, EXPORTER];

/// The folder of manual pages, completions and documents that the table names, from the root.
pub(super) const SHARE: &str = "target/dist/share";

/// Makes the package of a program. All programs were built in `build`, and [`SHARE`] is written.
pub(super) fn package(
    release: &Release,
    target: &DistTarget,
    program: DistProgram,
    build: &Path,
    out: &Path,
) -> Result<PathBuf> {
    let to = out.join(format!("{}_{}_{}.deb", program.name, release.version, target.debian));
    let mut deb = Command::new(CARGO_DEB.program()?);
    deb.current_dir(root()).args(["--package", program.package, "--no-build", "--no-strip", "--quiet"]);
    deb.args(["--target", target.triple, "--output"]).arg(&to);
    deb.env("CARGO_TARGET_DIR", build).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    step(&format!("cargo-deb {}", to.display()), deb)?;
    ensure!(to.is_file(), "cargo-deb did not write {}", to.display());
    Ok(to)
}
