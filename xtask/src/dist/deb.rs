//! The Debian package, by cargo-deb: its table is in `crates/cli/Cargo.toml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use super::release::Release;
use super::target::DistTarget;
use crate::command::step;
use crate::root;
use crate::tools::CargoTool;

const CARGO_DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.8.0" };

/// The folder of manual pages, completions and documents that the table names, from the root.
pub(super) const SHARE: &str = "target/dist/share";

/// Makes the package of a program that was built in `build`; [`SHARE`] is written.
pub(super) fn package(release: &Release, target: &DistTarget, build: &Path, out: &Path) -> Result<PathBuf> {
    let to = out.join(format!("cyclometer_{}_{}.deb", release.version, target.debian));
    let mut deb = Command::new(CARGO_DEB.program()?);
    deb.current_dir(root()).args(["--package", "cyclometer-cli", "--no-build", "--no-strip", "--quiet"]);
    deb.args(["--target", target.triple, "--output"]).arg(&to);
    deb.env("CARGO_TARGET_DIR", build).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    step(&format!("cargo-deb {}", to.display()), deb)?;
    ensure!(to.is_file(), "cargo-deb did not write {}", to.display());
    Ok(to)
}
