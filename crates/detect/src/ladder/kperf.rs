//! The source kperf of macOS: whether its counters can be used, else why not, and the remedy.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Machine, Os, Vendor};

use super::{cause, mended};
use crate::apple::{POWER_COUNTERS, names};
use crate::facts::KpcCounters;
use crate::probes::{AccessProbes, errno};

/// The state of kperf.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
    let (works, causes) = match refusal(machine, probes) {
        Err((works, cause)) => (works, vec![cause]),
        Ok(limits) if limits.iter().any(|limit| limit.kind == CauseKind::HeldByAnother) => {
            (Works::Partly, limits)
        }
        Ok(limits) => (Works::Yes, limits),
    };
    RungState { rung: Rung::Kperf, works, causes }
}

/// The limits of kperf where it works.
fn refusal(machine: &Machine, probes: &AccessProbes) -> Result<Vec<Cause>, (Works, Cause)> {
    if machine.os != Os::MacOs {
        return Err((Works::NotHere, cause(CauseKind::OtherSystem, "it belongs to macOS")));
    }
    if machine.cpu.vendor != Vendor::Apple {
        let text = "kperf is used on Apple's own chips only";
        return Err((Works::NotHere, cause(CauseKind::OtherSystem, text)));
    }
    if machine.hypervisor.is_some() {
        return Err((Works::No, no_counters_in_a_guest()));
    }
    let Some(outcome) = probes.kpc else {
        let text = "kperf counts for root only";
        return Err((Works::No, mended(CauseKind::NotRoot, text, "sudo cyclometer …")));
    };
    match outcome {
        Ok(counters) => offered(machine, counters).map_err(|cause| (Works::No, cause)),
        Err(errno) => Err((Works::No, refused(errno))),
    }
}

/// # Source
///
/// xnu `pexpert/pexpert/arm64/board_config.h`, `VMAPPLE`: a guest has two counters, none of them
/// configurable.
fn no_counters_in_a_guest() -> Cause {
    let text = "macOS in a virtual machine has no configurable counters; run cyclometer on the Mac itself";
    cause(CauseKind::NoVirtualPmu, text)
}

/// The cause of an error number.
///
/// # Source
///
/// xnu `bsd/kern/kern_kpc.c`, `bsd/kern/kern_ktrace.c`, `osfmk/kern/kpc_common.c`.
fn refused(number: i32) -> Cause {
    match number {
        errno::EPERM => {
            let text =
                "the kernel refuses kperf even to root (error 1): a sandbox or another owner of ktrace";
            cause(CauseKind::NoPermission, text)
        }
        errno::EBUSY => {
            let text = "another program has the PMU (error 16), such as Instruments or ktrace; quit it";
            cause(CauseKind::HeldByAnother, text)
        }
        errno::ENOENT => cause(CauseKind::NotInKernel, "this macOS has no kperf framework that counts"),
        number => cause(CauseKind::NoPermission, format!("kperf refuses to count (error {number})")),
    }
}

fn offered(machine: &Machine, offered: KpcCounters) -> Result<Vec<Cause>, Cause> {
    let KpcCounters { configurable, forced } = offered;
    let power = POWER_COUNTERS.general_bits().count_ones();
    let mut limits = Vec::new();
    match configurable {
        8 if forced => {}
        8 => limits.push(taken()),
        0 => return Err(cause(CauseKind::NoPmu, "kperf offers no configurable counters here")),
        few if few + power == 8 => limits.push(power_manager(few, forced)),
        other => {
            let text = format!("kperf offers {other} configurable counters; only layouts of 8 are known");
            return Err(cause(CauseKind::UnknownCpu, text));
        }
    }
    if counts_user_mode_only(machine) {
        let text = "configurable counters count user mode only since macOS 15; fixed counters add the kernel";
        limits.push(cause(CauseKind::NoModeFilter, text));
    }
    Ok(limits)
}

fn taken() -> Cause {
    let text = "another program has requested all counters: events can be counted while it does not count";
    cause(CauseKind::HeldByAnother, text)
}

fn power_manager(left: u32, forced: bool) -> Cause {
    let kept = names(POWER_COUNTERS);
    let holder = match forced {
        true => format!("the power manager keeps {kept}"),
        false => {
            format!("another program has requested all counters, so {kept} stay with the power manager")
        }
    };
    let text = format!(
        "{holder}: {left} configurable counters are left, and events of {kept} alone cannot be counted"
    );
    cause(CauseKind::HeldByAnother, text)
}

/// Whether the kernel drops kernel mode from configurable counters.
///
/// # Source
///
/// xnu-11215.1.10 `osfmk/arm64/kpc.c`, `set_modes`: Darwin 24, which is macOS 15.
fn counts_user_mode_only(machine: &Machine) -> bool {
    machine.darwin_version().is_none_or(|major| major >= 24)
}
