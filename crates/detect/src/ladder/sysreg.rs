//! The source of Apple's PMU registers: whether user mode has them here, or could get them.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Machine, Os, Vendor};

use super::{cause, mended};
use crate::probes::{AccessProbes, SysregProbe};

/// How it fares. Nothing is opened to find that out: on Linux, where the module gives access for as long as
/// its device is open, it works if the module is loaded, we may open the device, and nobody else does.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
    let (works, causes) = match refusal(machine, probes) {
        Some((works, cause)) => (works, vec![cause]),
        None => (Works::Yes, Vec::new()),
    };
    RungState { rung: Rung::Sysreg, works, causes }
}

fn refusal(machine: &Machine, probes: &AccessProbes) -> Option<(Works, Cause)> {
    let apple = machine.cpu.vendor == Vendor::Apple && matches!(machine.os, Os::Linux | Os::MacOs);
    if !apple {
        return Some((Works::NotHere, cause(CauseKind::OtherSystem, "it belongs to Apple's CPUs")));
    }
    if let Some(hypervisor) = &machine.hypervisor {
        let text = format!("Apple's registers are not passed on to virtual machines ({hypervisor})");
        return Some((Works::No, cause(CauseKind::NoVirtualPmu, text)));
    }
    let Some(probe) = &probes.sysreg else {
        return Some((Works::NotHere, cause(CauseKind::OtherSystem, "it needs a program for arm64")));
    };
    let found = match machine.os {
        Os::MacOs => probe.outcome.err().map(closed_by_macos),
        _ => on_linux(machine, probe),
    };
    found.map(|cause| (Works::No, cause))
}

/// # Source
///
/// xnu `osfmk/arm64/monotonic_arm64.c`: what it writes to PMCR0 leaves the bit of user access 0.
fn closed_by_macos(errno: i32) -> Cause {
    let text = format!(
        "this kernel does not let user mode at Apple's PMU registers (error {errno}): only a patched one does"
    );
    cause(CauseKind::NoUserAccess, text)
}

/// # Source
///
/// `kernel/apple-pmu/README.md`: who may open the device, and when.
fn on_linux(machine: &Machine, probe: &SysregProbe) -> Option<Cause> {
    let device = "/dev/apple_pmu_el0";
    let capable = machine.access.capabilities.iter().any(|name| name == "CAP_SYS_RAWIO");
    if !probe.module {
        let text = "the module apple_pmu_el0, which opens the registers to user mode, is not loaded \
                    (to be built from kernel/apple-pmu first)";
        return Some(mended(CauseKind::NotInKernel, text, "sudo modprobe apple_pmu_el0"));
    }
    if probe.outcome.is_ok() {
        let text = format!("another process has {device} open, and the registers cannot be shared");
        return Some(mended(CauseKind::HeldByAnother, text, format!("sudo fuser -v {device}")));
    }
    if probe.lockdown {
        let text =
            format!("the kernel is locked down (/sys/kernel/security/lockdown): {device} stays closed");
        return Some(cause(CauseKind::NoPermission, text));
    }
    if !machine.access.root || !capable {
        let text = format!("{device} is for root with CAP_SYS_RAWIO alone");
        return Some(mended(CauseKind::NotRoot, text, "sudo cyclometer …"));
    }
    None
}
