//! Process 1: mounts the file systems that programs expect, starts the suite, reaps orphans, and switches the
//! machine off.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use rustix::process::{WaitOptions, wait};
use rustix::system::{RebootCommand, reboot};

use crate::cases::Cases;
use crate::selftest::Truths;
use crate::{apple, msr, nothing, overflows, perf, reads, regions, rights, selftest};

/// Mount point and type.
const MOUNTS: &[(&str, &str)] = &[
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/run", "tmpfs"),
    ("/tmp", "tmpfs"),
    ("/sys/fs/cgroup", "cgroup2"),
];

/// Runs as process 1 or, started by it, as the suite.
pub(crate) fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("suite") => return suite(),
        Some("pause") => return perf::pause(),
        Some("overflows") => return overflows::main(&std::env::args().skip(2).collect::<Vec<_>>()),
        Some("regions") => return regions::main(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {}
    }
    if std::process::id() != 1 {
        eprintln!("cyclometer-guest is process 1 of an emulated machine: run `cargo xtask guests`");
        return ExitCode::FAILURE;
    }
    if let Err(error) = machine() {
        println!("suite: not started: {error:#}");
    }
    let _ = reboot(RebootCommand::PowerOff);
    ExitCode::FAILURE
}

fn machine() -> Result<()> {
    for (folder, kind) in MOUNTS {
        fs::create_dir_all(folder).with_context(|| format!("making {folder}"))?;
        mount(*kind, *folder, *kind, MountFlags::empty(), None)
            .with_context(|| format!("mounting {folder}"))?;
    }
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    fs::set_permissions("/tmp", everybody)?;
    let suite = Command::new("/init").arg("suite").spawn().context("starting the suite")?;
    let suite = i32::try_from(suite.id()).context("the suite's id")?;
    // Orphans become children of process 1.
    while let Ok(gone) = wait(WaitOptions::empty()) {
        if gone.is_some_and(|(pid, _)| pid.as_raw_nonzero().get() == suite) {
            break;
        }
    }
    Ok(())
}

/// All cases for the machine that the kernel's command line names.
fn suite() -> ExitCode {
    let machine = std::env::var("machine").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("suite: {machine} begins on {}", release.trim());
    let mut cases = Cases::new();
    match machine.as_str() {
        "arm64" => {
            both(&mut cases, &perf::ARM64);
            reads::cases(&mut cases, &reads::ARM64);
            overflows::cases(&mut cases, &overflows::ARM64);
        }
        "arm64-hybrid" => {
            both(&mut cases, &perf::ARM64_HYBRID);
            reads::of_a_hybrid(&mut cases);
        }
        "riscv64" => {
            both(&mut cases, &perf::RISCV64);
            reads::cases(&mut cases, &reads::RISCV64);
            overflows::cases(&mut cases, &overflows::RISCV64);
        }
        "riscv64-nofilter" => {
            nothing::no_filter(&mut cases);
            overflows::without_interrupts(&mut cases);
        }
        "x86" => {
            both(&mut cases, &perf::X86);
            reads::cases(&mut cases, &reads::X86);
            overflows::cases(&mut cases, &overflows::X86);
            msr::cases(&mut cases);
        }
        "x86-amd" => {
            both(&mut cases, &perf::X86_AMD);
            reads::cases(&mut cases, &reads::X86_AMD);
            overflows::cases(&mut cases, &overflows::X86_AMD);
            msr::cases(&mut cases);
        }
        "x86-two" => reads::on_two_cpus(&mut cases),
        "x86-hybrid" => {
            both(&mut cases, &perf::X86_HYBRID);
            reads::of_a_hybrid(&mut cases);
            overflows::cases(&mut cases, &overflows::X86_HYBRID);
        }
        "arm64-nopmu" => {
            nothing::no_pmu(&mut cases);
            reads::without_a_pmu(&mut cases);
            overflows::without_a_pmu(&mut cases);
        }
        "x86-nopmu" => {
            nothing::counted_by_software(&mut cases);
            reads::without_a_pmu(&mut cases);
            msr::no_registers(&mut cases);
        }
        "x86-vanishing" => {
            msr::vanishing_writes(&mut cases);
            reads::without_a_pmu(&mut cases);
        }
        "apple" => apple::granted(&mut cases),
        "apple-vm" | "apple-other-core" => apple::refused_by_module(&mut cases),
        _ => cases.case("the machine is known", || anyhow::bail!("no cases for machine={machine:?}")),
    }
    if let Some(truths) = truths(&machine) {
        selftest::cases(&mut cases, truths);
        // Only machines with an instruction clock: on others it takes long.
        if matches!(machine.as_str(), "arm64" | "riscv64") {
            selftest::of_user(&mut cases, truths);
        }
    }
    cases.finish()
}

/// The expected results of `selftest`. Every event except instructions and cycles reads 0 in the emulators'
/// PMUs.
fn truths(machine: &str) -> Option<Truths> {
    const COUNTS: (&str, &str) = ("instructions", "exact");
    const CYCLES: (&str, &str) = ("cycles", "plausible");
    const TOGETHER: (&str, &str) = ("3 x instructions", "plausible");
    const AMD: &[(&str, &str)] =
        &[COUNTS, CYCLES, TOGETHER, ("branches", "wrong"), ("branch-misses", "wrong")];
    let hardware = match machine {
        "arm64" => Some(&[COUNTS, CYCLES, TOGETHER, ("branches", "not_counted")][..]),
        // One counter counts instructions, and the driver claims that all three events are on it.
        "riscv64" => Some(&[COUNTS, CYCLES, ("3 x instructions", "wrong"), ("branches", "not_counted")][..]),
        // The CPUID lacks branches.
        "x86" => Some(&[COUNTS, CYCLES, TOGETHER, ("branches", "not_counted")][..]),
        "x86-amd" => Some(AMD),
        "x86-hybrid" => Some(&[COUNTS, CYCLES, TOGETHER][..]),
        // Each CPU also counts what the other executes meanwhile.
        "arm64-hybrid" => Some(&[CYCLES][..]),
        "riscv64-nofilter" => Some(&[("instructions", "unjudged")][..]),
        "arm64-nopmu" | "x86-nopmu" | "x86-vanishing" => None,
        _ => return None,
    };
    Some(hardware)
}

fn both(cases: &mut Cases, pmu: &perf::Pmu) {
    perf::cases(cases, pmu);
    rights::cases(cases, pmu);
}
