//! The source of x86 registers: whether they can be written here, else why not, and the command that permits
//! it.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Machine, Vendor};

use super::{cause, mended, virtual_pmu};
use crate::probes::{AccessProbes, RegisterFacts};

/// How it fares on Linux on x86-64.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
    let facts = probes.registers.as_ref();
    let refused = match no_counters(machine) {
        Some(cause) => vec![cause],
        None => facts.map(|facts| refusals(machine, facts)).unwrap_or_default(),
    };
    match refused.is_empty() {
        true => {
            RungState { rung: Rung::Msr, works: Works::Yes, causes: guest(machine).into_iter().collect() }
        }
        false => RungState { rung: Rung::Msr, works: Works::No, causes: refused },
    }
}

/// Why there is nothing to write to, if so.
fn no_counters(machine: &Machine) -> Option<Cause> {
    if !matches!(machine.cpu.vendor, Vendor::Intel | Vendor::Amd | Vendor::Hygon) {
        return Some(cause(
            CauseKind::UnknownCpu,
            "the counter registers of this vendor's CPUs are not known",
        ));
    }
    if machine.core_types.iter().any(|core| !core.pmu.counters.is_empty()) {
        return None;
    }
    Some(match &machine.hypervisor {
        Some(hypervisor) => {
            let (advice, mend) = virtual_pmu::remedy(hypervisor);
            let text = format!("no counters in this virtual machine ({hypervisor}): {advice}");
            Cause { kind: CauseKind::NoVirtualPmu, text, mend: mend.map(str::to_owned) }
        }
        None => cause(CauseKind::NoPmu, "the CPU tells of no counters"),
    })
}

/// Obstacles, each with its own remedy, in the order in which they are met.
fn refusals(machine: &Machine, facts: &RegisterFacts) -> Vec<Cause> {
    let each = [driver(machine, facts), rights(machine), lockdown(facts), filter(facts), watchdog(machine)];
    each.into_iter().flatten().collect()
}

fn driver(machine: &Machine, facts: &RegisterFacts) -> Option<Cause> {
    let place = match &machine.container {
        Some(_) => " on the host, or its devices are not passed on to this container",
        None => "",
    };
    let text = format!("there is no /dev/cpu/*/msr: the msr driver is not loaded{place}");
    (!facts.has_device).then(|| mended(CauseKind::NotInKernel, text, "sudo modprobe msr"))
}

/// # Source
///
/// Linux `arch/x86/kernel/msr.c`, `msr_open`: the device asks for `CAP_SYS_RAWIO`, and is root's.
fn rights(machine: &Machine) -> Option<Cause> {
    let access = &machine.access;
    if !access.root {
        let text = "writing registers needs root (CAP_SYS_RAWIO)";
        return Some(mended(CauseKind::NotRoot, text, "sudo cyclometer … --backend msr"));
    }
    if access.capabilities.iter().any(|name| name == "CAP_SYS_RAWIO") {
        return None;
    }
    let text = "root lacks CAP_SYS_RAWIO here, which writing registers needs";
    Some(match machine.container.as_deref() {
        Some(tool @ ("docker" | "podman")) => {
            mended(CauseKind::NoPermission, text, format!("{tool} run --privileged …"))
        }
        Some("kubernetes") => {
            mended(CauseKind::NoPermission, text, "in the pod: securityContext: {privileged: true}")
        }
        _ => cause(CauseKind::NoPermission, text),
    })
}

/// # Source
///
/// `kernel_lockdown(7)`: a locked-down kernel lets nobody write to MSRs; `/sys/kernel/security/lockdown` has
/// the level in brackets.
fn lockdown(facts: &RegisterFacts) -> Option<Cause> {
    let level = facts.lockdown.as_deref()?.split_once('[')?.1.split_once(']')?.0;
    let text = format!(
        "the kernel is locked down ({level}): registers cannot be written until it is booted without \
         lockdown, which Secure Boot may turn on"
    );
    (level != "none").then(|| cause(CauseKind::NoPermission, text))
}

/// # Source
///
/// Linux `arch/x86/kernel/msr.c`, `filter_write` (5.9).
fn filter(facts: &RegisterFacts) -> Option<Cause> {
    let off = facts.allow_writes.as_deref() == Some("off");
    let mend = "echo on | sudo tee /sys/module/msr/parameters/allow_writes";
    off.then(|| mended(CauseKind::NoPermission, "msr.allow_writes is off: registers cannot be written", mend))
}

/// With the watchdog on, perf has a counter of every CPU, and what enables the others.
fn watchdog(machine: &Machine) -> Option<Cause> {
    let text = "the NMI watchdog is on: perf owns the PMU for it, and would write to the same registers";
    let on = machine.access.nmi_watchdog == Some(true);
    on.then(|| mended(CauseKind::NmiWatchdog, text, "sudo sysctl kernel.nmi_watchdog=0"))
}

/// Notes about a virtual machine.
///
/// # Source
///
/// Seen with QEMU 7.2 and 11.1 without KVM: every register reads as 0 and takes every value without keeping
/// it.
fn guest(machine: &Machine) -> Option<Cause> {
    let hypervisor = machine.hypervisor.as_ref()?;
    let text = format!(
        "in a virtual machine ({hypervisor}) writes may vanish: what was written is read back, and the counters must \
         move, before anything is believed"
    );
    Some(cause(CauseKind::HypervisorFilter, text))
}
