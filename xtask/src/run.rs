//! The commands that check the whole project, step by step.

use std::process::Command;

use anyhow::{Context, Result};

use crate::command::{apt, cargo, cargo_command, installed, output, step};
use crate::{bindings, budget, corpus, dist, guests, root, targets, tidy};

/// Debian packages whose programs the full form compares with, or needs to try what is installed.
const PEERS: &[&str] = &[
    "time",
    "linux-perf",
    "gzip",
    "gcc",
    "g++",
    "make",
    "pkg-config",
    "valgrind",
    "python3-venv",
    "prometheus",
];

/// The steps of `cargo xtask test`.
pub(crate) fn quick() -> Result<()> {
    tests(Peers::Optional)
}

/// The steps of `cargo xtask ci`.
pub(crate) fn full() -> Result<()> {
    install_peers()?;
    tests(Peers::Required)?;
    in_hostile_surroundings()?;
    on_fake_devices()?;
    with_all_formats()?;
    bindings::python()?;
    dist::crates::package()?;
    corpus::small()?;
    targets::check()?;
    kernel_module()?;
    guests::reduced()?;
    budget::check(&root())
}

/// Whether a test may skip when the program that it compares with is missing.
#[derive(PartialEq)]
enum Peers {
    Optional,
    Required,
}

fn tests(peers: Peers) -> Result<()> {
    tidy::check(&root())?;
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    let mut test = cargo_command(&["test", "--workspace", "--locked"]);
    if peers == Peers::Required {
        test.env("CYCLOMETER_REQUIRE_PEERS", "1");
    }
    test_step("cargo test --workspace --locked", test)?;
    documentation()
}

/// Tests of programs that find simulated chips behind what they take for devices; built with a feature of
/// their own.
const ON_FAKE_DEVICES: &[&str] = &["kperf", "msr", "registers", "selfcounts", "sweep"];

/// Lints and runs them.
fn on_fake_devices() -> Result<()> {
    let packages =
        ["--package", "cyclometer-backend", "--package", "cyclometer", "--package", "cyclometer-cli"];
    let feature = ["--features", "fake-devices", "--locked"];
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(&[&["clippy"], &packages[..], &feature, &lints].concat())?;
    let names: Vec<&str> = ON_FAKE_DEVICES.iter().flat_map(|name| ["--test", *name]).collect();
    cargo(&[&["test"], &packages[..], &feature, names.as_slice()].concat())
}

/// Lints and tests conversions with all their formats; the other steps have none of the optional ones.
fn with_all_formats() -> Result<()> {
    let tool = ["--package", "cyclometer-cli", "--locked"];
    let lints = ["--all-targets", "--", "-D", "warnings"];
    cargo(&[&["clippy"], &tool[..], &["--features", "parquet,firefox"], &lints].concat())?;
    cargo(&[&["test"], &tool[..], &["--features", "parquet,firefox", "--test", "convert"]].concat())
}

/// Surroundings of a service or of a job under `nohup`: ignored signals, no home, files that are the owner's
/// alone, a decimal comma. The shell ignores the end of its own children last.
const HOSTILE: &str = "umask 077; comma=$(locale -a 2>/dev/null | grep '^de_DE' | head -n 1); \
    [ -n \"$comma\" ] || echo 'hostile surroundings: no locale de_DE, so no decimal comma' \
    >> \"$CYCLOMETER_SKIP_LOG\"; \
    trap '' HUP INT PIPE QUIT CHLD; exec env -u HOME LC_ALL=${comma:-C.UTF-8} \"$@\"";

/// Runs a few short test programs again where they are started so.
fn in_hostile_surroundings() -> Result<()> {
    let version = output("rustc", &["--version", "--verbose"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let runner = format!("target.{host}.runner=[\"sh\", \"-c\", '''{HOSTILE}''', \"sh\"]");
    for (package, tests) in [("cyclometer-cli", &["--test", "stat"][..]), ("cyclometer-sys", &["--lib"])] {
        let mut test = cargo_command(&["test", "--locked", "--config", &runner, "--package", package]);
        test.args(tests);
        test_step(&format!("tests of {package} in hostile surroundings"), test)?;
    }
    Ok(())
}

/// Runs tests, and lists those that could not run here. They say why in a file, because the test runner
/// swallows the output of tests that pass.
fn test_step(title: &str, mut test: Command) -> Result<()> {
    let log = root().join("target").join("skipped-tests.txt");
    std::fs::create_dir_all(root().join("target"))?;
    let _ = std::fs::remove_file(&log);
    test.env("CYCLOMETER_SKIP_LOG", &log);
    step(title, test)?;
    tell_skipped(&log);
    Ok(())
}

fn tell_skipped(log: &std::path::Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let reasons: std::collections::BTreeSet<&str> = text.lines().collect();
    eprintln!("==> tests that could not run here: {}", if reasons.is_empty() { "none" } else { "" });
    for reason in reasons {
        eprintln!("      {reason}");
    }
}

fn documentation() -> Result<()> {
    let mut doc = cargo_command(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    step("cargo doc", doc)
}

/// Rewrites the golden files.
pub(crate) fn golden() -> Result<()> {
    let mut test = cargo_command(&["test", "--workspace"]);
    test.env("UPDATE_GOLDEN", "1");
    step("cargo test with UPDATE_GOLDEN=1", test)
}

/// Builds the module for Apple's registers where kernel headers and a compiler for arm64 are; its script says
/// what is missing.
fn kernel_module() -> Result<()> {
    step("kernel/apple-pmu/check.sh", Command::new(root().join("kernel/apple-pmu/check.sh")))
}

fn install_peers() -> Result<()> {
    let missing: Vec<&str> = PEERS.iter().copied().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}
