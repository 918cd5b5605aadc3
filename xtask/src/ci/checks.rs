//! The checks of the workspace, each a step of `cargo xtask ci`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::WorkspaceBuild;
use super::test_programs::{FEATURES, check_longest, run_side_by_side};
use crate::command::{apt, cargo, cargo_command, installed, step};
use crate::{clippy, root, tidy};

/// Makes a test fail where the program that it compares with is missing.
const REQUIRE_PEERS: &str = "CYCLOMETER_REQUIRE_PEERS";

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

/// The steps of `cargo xtask test`: with the features that are on by default, and by cargo alone.
pub(crate) fn quick() -> Result<()> {
    tidy::check(&root())?;
    format()?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    test_step("cargo test --workspace --locked", cargo_command(&["test", "--workspace", "--locked"]))?;
    documentation_with(&[])
}

pub(super) fn format() -> Result<()> {
    cargo(&["fmt", "--all", "--check"])
}

/// Builds all tests. The features that are off by default replace nothing unless the environment names fake
/// devices, so one build serves all tests. Lints without them: `targets`; a build without them: `release`.
pub(super) fn build() -> Result<()> {
    WorkspaceBuild::new().map(drop)
}

pub(super) fn lints() -> Result<()> {
    let what = ["clippy", "--workspace", "--all-targets", "--locked", "--features", FEATURES];
    cargo(&[&what[..], &["--", "-D", "warnings"]].concat())
}

/// Lints the SDK with its default features; in the other steps programs of the workspace turn them all on.
pub(super) fn sdk_alone() -> Result<()> {
    cargo(&["clippy", "--package", "cyclometer", "--lib", "--locked", "--", "-D", "warnings"])
}

/// Runs all test programs; a missing program to compare with is a failure.
pub(super) fn test_programs() -> Result<()> {
    let tests = WorkspaceBuild::new()?.tests;
    check_longest(&tests)?;
    with_skip_log(|log| {
        run_side_by_side(tests, |command| {
            command.env("CYCLOMETER_SKIP_LOG", log).env(REQUIRE_PEERS, "1");
        })
    })
}

pub(super) fn doc_tests() -> Result<()> {
    cargo(&["test", "--workspace", "--doc", "--locked", "--features", FEATURES])
}

/// Surroundings of a service or of a job under `nohup`: ignored signals, no home, files that are the owner's
/// alone, a decimal comma. The shell ignores the end of its own children last.
const HOSTILE: &str = "umask 077; comma=$(locale -a 2>/dev/null | grep '^de_DE' | head -n 1); \
    [ -n \"$comma\" ] || echo 'hostile surroundings: no locale de_DE, so no decimal comma' \
    >> \"$CYCLOMETER_SKIP_LOG\"; \
    trap '' HUP INT PIPE QUIT CHLD; exec env -u HOME LC_ALL=${comma:-C.UTF-8} \"$@\"";

/// Tests that run there: package, test program, and the beginning of the names of its tests.
const HOSTILE_TESTS: [(&str, &str, &str); 2] =
    [("cyclometer-cli", "main", "stat::"), ("cyclometer-sys", "cyclometer_sys", "")];

/// Runs a few short tests again where they are started so.
pub(super) fn in_hostile_surroundings() -> Result<()> {
    let build = WorkspaceBuild::new()?;
    for (package, target, module) in HOSTILE_TESTS {
        let program = build.test(package, target)?;
        let mut command = Command::new("sh");
        command.args(["-c", HOSTILE, "sh"]).arg(&program.file).arg(module);
        command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
        test_step(&format!("tests of {package} in hostile surroundings"), command)?;
    }
    Ok(())
}

/// Runs tests, and lists those that could not run here.
fn test_step(title: &str, mut test: Command) -> Result<()> {
    with_skip_log(|log| {
        test.env("CYCLOMETER_SKIP_LOG", log);
        step(title, test)
    })
}

/// Runs tests, and lists those that could not run here. They say why in a file, because the test runner
/// swallows the output of tests that pass.
fn with_skip_log(tests: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let log = root().join("target").join("skipped-tests.txt");
    std::fs::create_dir_all(root().join("target"))?;
    let _ = std::fs::remove_file(&log);
    tests(&log)?;
    tell_skipped(&log);
    Ok(())
}

fn tell_skipped(log: &Path) {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let reasons: std::collections::BTreeSet<&str> = text.lines().collect();
    eprintln!("==> tests that could not run here: {}", if reasons.is_empty() { "none" } else { "" });
    for reason in reasons {
        eprintln!("      {reason}");
    }
}

/// Documentation of all crates, with the features and the checked crates of `lints`.
pub(super) fn documentation() -> Result<()> {
    documentation_with(&["--features", FEATURES])
}

fn documentation_with(features: &[&str]) -> Result<()> {
    let mut doc = cargo_command(&["doc", "--workspace", "--no-deps", "--locked"]);
    doc.args(features).env("RUSTDOCFLAGS", "-D warnings");
    clippy::compiles(&mut doc)?;
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
pub(super) fn kernel_module() -> Result<()> {
    step("kernel/apple-pmu/check.sh", Command::new(root().join("kernel/apple-pmu/check.sh")))
}

pub(super) fn install_peers() -> Result<()> {
    let missing: Vec<&str> = PEERS.iter().copied().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    apt(&["update"])?;
    apt(&[&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}
