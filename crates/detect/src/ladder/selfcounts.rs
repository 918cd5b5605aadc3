//! The source of macOS's accounts of counters: which this version of macOS has, and what they lack.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Machine, Os};

use super::{cause, mended, virtual_pmu};
use crate::facts::{AccountFacts, ProcessAccounts};
use crate::probes::AccessProbes;

/// The command that brings a newer macOS.
const UPDATE: &str = "softwareupdate --install --all";

/// How it fares on macOS.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
    let (works, causes) = match (machine.os, &probes.accounts) {
        (Os::MacOs, Some(facts)) => judged(machine, facts),
        (Os::MacOs, None) => (Works::No, vec![too_old()]),
        _ => (Works::NotHere, vec![cause(CauseKind::OtherSystem, "it belongs to macOS")]),
    };
    RungState { rung: Rung::SelfCounts, works, causes }
}

fn judged(machine: &Machine, facts: &AccountFacts) -> (Works, Vec<Cause>) {
    let Some(process) = facts.process else { return (Works::No, vec![too_old()]) };
    if !facts.counts {
        return (Works::No, vec![without_counters(machine)]);
    }
    let mut causes = Vec::new();
    if !facts.thread {
        let text =
            "macOS has no accounts of single threads before 12.4: a Monitor counts whole processes only";
        causes.push(mended(CauseKind::NotInKernel, text, UPDATE));
    }
    if process == ProcessAccounts::Totals {
        let text = "macOS tells neither performance cores nor energy before 13";
        causes.push(mended(CauseKind::NotInKernel, text, UPDATE));
    }
    let works = if causes.is_empty() { Works::Yes } else { Works::Partly };
    causes.push(cause(
        CauseKind::NoModeFilter,
        "cycles, instructions and energy only, user and kernel mode together, without child processes",
    ));
    (works, causes)
}

/// # Source
///
/// xnu `bsd/sys/resource.h`: `RUSAGE_INFO_V4` has cycles and instructions.
fn too_old() -> Cause {
    let text = "macOS accounts for no cycles and instructions here (proc_pid_rusage lacks them before 10.13)";
    mended(CauseKind::NotInKernel, text, UPDATE)
}

/// # Source
///
/// xnu `osfmk/kern/recount.c`: without counters that the kernel drives the accounts stay 0.
fn without_counters(machine: &Machine) -> Cause {
    match &machine.hypervisor {
        Some(hypervisor) => {
            let (advice, mend) = virtual_pmu::remedy(hypervisor);
            let text = format!("cycles stay 0 in this virtual machine ({hypervisor}): {advice}");
            Cause { kind: CauseKind::NoVirtualPmu, text, mend: mend.map(str::to_owned) }
        }
        None => cause(CauseKind::NoPmu, "the kernel accounts 0 cycles for this process"),
    }
}
