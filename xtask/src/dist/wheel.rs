//! The Python wheel: one for all versions of Python 3 (abi3) and all Linux systems with glibc 2.17
//! (manylinux2014).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::place::BuildPlace;
use super::release::Release;
use crate::bindings::VirtualEnvironment;
use crate::command::step;

/// The builder of wheels, and the linker that links with an old glibc.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.15.2"];

/// Builds the wheel for this machine.
pub(super) fn build(release: &Release, place: &BuildPlace, out: &Path) -> Result<PathBuf> {
    let environment = VirtualEnvironment::fresh(&place.folder.join("venv"))?;
    let mut pip = Command::new(environment.program("pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(TOOLS);
    step(&format!("pip install {}", TOOLS.join(" ")), pip)?;
    let mut maturin = Command::new(environment.program("maturin"));
    maturin.current_dir(place.source.join("bindings/python"));
    maturin.args([
        "build",
        "--release",
        "--locked",
        "--zig",
        "--compatibility",
        "manylinux2014",
        "--quiet",
        "--out",
    ]);
    maturin.arg(out).env("CARGO_TARGET_DIR", &place.folder);
    maturin.env("CARGO_ENCODED_RUSTFLAGS", place.rust_flags(&[]));
    maturin.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    maturin.env("PATH", with_first(&environment.program("")));
    step("maturin build", maturin)?;
    let files = std::fs::read_dir(out).with_context(|| out.display().to_string())?;
    let wheels = files.filter_map(|file| file.ok().map(|file| file.path()));
    let mut wheels = wheels.filter(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheels.next().with_context(|| format!("maturin wrote no wheel to {}", out.display()))?;
    ensure!(
        wheel.to_string_lossy().contains("abi3-manylinux"),
        "{} is not for all of Linux",
        wheel.display()
    );
    Ok(wheel)
}

/// The search path with a folder before all others.
fn with_first(folder: &Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
    std::env::join_paths(all).unwrap_or(path)
}
