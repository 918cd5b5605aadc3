//! The tests that the module for Apple's registers has of its own: hotplug, idle states, restarts, other
//! drivers, refusals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::TrialContext;
use super::build::{Builder, before_path};
use super::emulator::{EmulatorEnd, console, within};
use super::fetch::{GuestKernel, script};
use super::outcome::{GuestOutcome, GuestRow};
use crate::root;

/// The machines of `kernel/apple-pmu/tests/guest.sh`, and what they are called in the table.
pub(super) const TESTS: &[(&str, &str)] = &[
    ("grant", "module-grant"),
    ("grant16", "module-grant16"),
    ("vm-on-mac", "module-vm-on-mac"),
    ("level", "module-level"),
    ("core", "module-core"),
    ("plain", "module-plain"),
];

/// The script's message when it lacks something.
const MISSING: i32 = 77;

/// Runs one of them.
pub(super) fn tried(
    (kind, name): (&str, &'static str),
    common: &TrialContext,
    builder: &mut Builder<'_, '_>,
) -> Result<GuestRow> {
    let module = builder.apple_module(true)?;
    let kernel = builder.fetcher.kernel(GuestKernel::Arm64With16KPages)?;
    let version = fs::read_to_string(kernel.join("package")).unwrap_or_default();
    let mut command = with_us(&root().join("kernel/apple-pmu/tests/guest.sh"));
    command.arg(kind).arg(module).env("KERNEL", kernel.join("image")).env("PLUGIN", &common.plugin);
    command.env("QEMU", common.emulator.launcher()).env("LIMIT", common.limit.as_secs().to_string());
    command
        .env("PATH", before_path(&commands(common, builder)?))
        .env_remove("CROSS_COMPILE")
        .env_remove("QOPTS");
    let log = builder.work.join(format!("{name}.log"));
    eprintln!("==> {name}");
    let begin = Instant::now();
    // The script has the same limit, and ends the emulator with it.
    let limit = common.limit + Duration::from_secs(30);
    let ended = within(command, &log, limit).context("starting kernel/apple-pmu/tests/guest.sh")?;
    let took = begin.elapsed();
    let lines = console(&log)?;
    let outcome = outcome(&ended, &lines);
    if !outcome.passed() {
        lines.iter().for_each(|line| eprintln!("    | {line}"));
    }
    let kernel = version.trim().trim_start_matches("linux-image-").to_owned();
    Ok(GuestRow { machine: name, kernel, outcome, took })
}

/// A script that ends when this program does, whatever the signal; it takes what it started with it.
/// `setpriv` is in util-linux.
fn with_us(script: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]).arg(script);
    command
}

/// A folder with what the script needs: compilers and `cpio` of the packages, the emulator's device tree
/// compiler.
fn commands(common: &TrialContext, builder: &mut Builder<'_, '_>) -> Result<PathBuf> {
    let folder = builder.work.join("commands");
    fs::create_dir_all(&folder)?;
    for tool in ["aarch64-linux-gnu-gcc", "cpio"] {
        let program = builder.fetcher.toolchain()?.join(tool);
        script(&folder.join(tool), &format!("#!/bin/sh\nexec '{}' \"$@\"\n", program.display()))?;
    }
    let launcher = common.emulator.launcher();
    let tree_compiler = match common.emulator.folder() {
        Some(own) => format!("#!/bin/sh\nPATH='{}'\nexec dtc \"$@\"\n", before_path(own)),
        None => format!("#!/bin/sh\nexec '{launcher}' dtc \"$@\"\n"),
    };
    script(&folder.join("dtc"), &tree_compiler)?;
    Ok(folder)
}

/// The script's last line is `done: N checks, M failed`, and its status agrees.
fn outcome(ended: &EmulatorEnd, lines: &[String]) -> GuestOutcome {
    let status = match ended {
        EmulatorEnd::Killed => return GuestOutcome::Broken("killed".to_owned()),
        EmulatorEnd::Exited(status) => status,
    };
    let last = lines.last().map_or("", String::as_str).to_owned();
    if status.code() == Some(MISSING) {
        return GuestOutcome::Skipped(last);
    }
    let failed: Vec<String> =
        lines.iter().filter_map(|line| line.strip_prefix("NOT OK")).map(str::to_owned).collect();
    let checks = lines
        .iter()
        .rev()
        .find_map(|line| line.strip_prefix("done: ")?.split_once(" checks")?.0.parse::<usize>().ok());
    match checks {
        Some(cases) if cases > 0 && status.success() == failed.is_empty() => {
            GuestOutcome::Finished { cases, failed }
        }
        _ => GuestOutcome::Broken(format!("{status}: {last}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    #[test]
    fn the_script_passes_by_its_last_line_and_its_status() {
        let of = |code: i32, text: &str| {
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            outcome(&EmulatorEnd::Exited(ExitStatus::from_raw(code << 8)), &lines)
        };
        assert!(of(0, "ok - a\ndone: 1 checks, 0 failed").passed());
        assert!(
            matches!(of(1, "NOT OK - a\ndone: 1 checks, 1 failed"), GuestOutcome::Finished { failed, .. } if failed.len() == 1)
        );
        assert!(matches!(of(1, "done: 1 checks, 0 failed"), GuestOutcome::Broken(_)));
        assert!(matches!(of(0, "ok - a"), GuestOutcome::Broken(_)));
        assert!(
            matches!(of(77, "guest.sh: no dtc: not tested"), GuestOutcome::Skipped(why) if why.contains("dtc"))
        );
    }
}
