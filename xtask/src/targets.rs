//! Other targets: lints, assembly, and tests of instructions that only an emulator has here.

use std::path::Path;

use anyhow::Result;

use crate::command::{apt, cargo, cargo_command, installed, output, step};

/// Targets that are checked besides the host's own.
const TARGETS: [&str; 3] = [ARM64, "riscv64gc-unknown-linux-gnu", "aarch64-apple-darwin"];

const ARM64: &str = "aarch64-unknown-linux-gnu";

/// Debian packages that link programs for arm64, and run them on any machine.
const EMULATOR: &[&str] = &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user-static"];

/// Checks every target whose standard library can be had, and runs the tests of arm64; says what is skipped.
pub(crate) fn check() -> Result<()> {
    let (found, lacking): (Vec<&str>, Vec<&str>) =
        TARGETS.into_iter().partition(|target| has_library(target));
    for target in lacking {
        skipped(&format!("the check for {target}"), "its standard library is not installed");
    }
    if !found.is_empty() {
        check_all(&found)?;
    }
    arm64_instructions()
}

/// Lints all crates of the command-line tool and of the C interface, which has the façade with all of its
/// features, for some targets, and assembles what is written in their instructions: a check does not look at
/// them. Nothing is linked. One command for all targets keeps all CPUs busy.
fn check_all(targets: &[&str]) -> Result<()> {
    let targets: Vec<&str> = targets.iter().flat_map(|target| ["--target", *target]).collect();
    let packages = ["--package", "cyclometer-cli", "--package", "cyclometer-c", "--locked"];
    let of_tool = [&packages[..], &targets].concat();
    match output("cargo", &["clippy", "--version"]) {
        Ok(_) => cargo(&[&["clippy"], &of_tool[..], &["--", "-D", "warnings"]].concat())?,
        Err(_) => {
            skipped("lints for other targets", "clippy is not installed: types are checked only");
            cargo(&[&["check"], &of_tool[..]].concat())?;
        }
    }
    cargo(&[&["build", "--package", "cyclometer-kernels", "--locked"], &targets[..]].concat())
}

/// The tests that execute arm64's instructions: packages, and which of their tests.
///
/// The emulator has none of Apple's registers: what is tried there is that an access which the CPU refuses is
/// survived. Loops of kernels must come to their end there.
const EMULATED: [(&str, &str); 2] = [("cyclometer-sys", "apple"), ("cyclometer-kernels", "")];

/// Runs [`EMULATED`] in an emulator of user mode.
fn arm64_instructions() -> Result<()> {
    let what = "the tests of arm64's instructions";
    if !has_library(ARM64) {
        skipped(what, "the standard library of arm64 is not installed");
        return Ok(());
    }
    if !has_packages(EMULATOR) {
        skipped(what, &format!("the packages {} are not installed", EMULATOR.join(", ")));
        return Ok(());
    }
    EMULATED.into_iter().try_for_each(|(package, tests)| {
        let args = ["test", "--package", package, "--lib", "--locked", "--target", ARM64, "--", tests];
        let mut command = cargo_command(&args);
        let prefix = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU";
        command
            .env(format!("{prefix}_LINKER"), "aarch64-linux-gnu-gcc")
            .env(format!("{prefix}_RUSTFLAGS"), "-Ctarget-feature=+crt-static")
            .env(format!("{prefix}_RUNNER"), "qemu-aarch64-static");
        step(&format!("cargo {} in an emulator", args.join(" ")), command)
    })
}

/// Whether a target's standard library is there, after rustup, where there is one, was asked to get it; where
/// there is none the distribution's packages may have it.
pub(crate) fn has_library(target: &str) -> bool {
    let _ = output("rustup", &["target", "add", target]);
    let folder = output("rustc", &["--print", "target-libdir", "--target", target]);
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Whether Debian packages are there, after they were asked for. Other distributions have none of them.
fn has_packages(packages: &[&str]) -> bool {
    let lacking = || packages.iter().copied().filter(|package| !installed(package)).collect::<Vec<_>>();
    let wanted = lacking();
    let known = wanted.iter().all(|package| output("apt-cache", &["show", package]).is_ok());
    if !wanted.is_empty() && known {
        let _ = apt(&[&["install", "--yes", "--no-install-recommends"], wanted.as_slice()].concat());
    }
    lacking().is_empty()
}

fn skipped(what: &str, why: &str) {
    eprintln!("==> skipped: {what}: {why}");
}
