//! The source order: how each source of counts fares here, and the remedy.

use cyclometer_core::ladder::{Cause, CauseKind, Ladder, Rung, RungState, Works};
use cyclometer_core::machine::{Architecture, Machine, Os};

use crate::probes::AccessProbes;

mod gpu;
mod kperf;
mod msr;
mod perf;
mod selfcounts;
mod soft;
mod sysreg;
mod virtual_pmu;

/// A source order without sources.
pub(crate) fn empty() -> Ladder {
    let unknown = || Err(cause(CauseKind::NoPmu, "not probed"));
    Ladder {
        rungs: Vec::new(),
        perf_hardware: unknown(),
        perf_software: unknown(),
        perf_kernel_mode: unknown(),
        perf_cpu_wide: unknown(),
    }
}

/// Every source, best first. `machine.ladder` and `machine.capabilities` are not looked at.
pub(crate) fn build(machine: &Machine, probes: &AccessProbes) -> Ladder {
    let perf = perf::PerfFindings::new(machine, probes);
    Ladder {
        rungs: Rung::ALL.into_iter().map(|rung| state(rung, machine, probes, &perf)).collect(),
        perf_hardware: perf.hardware(),
        perf_software: perf.software(),
        perf_kernel_mode: perf.kernel_mode(),
        perf_cpu_wide: perf.cpu_wide(),
    }
}

fn state(rung: Rung, machine: &Machine, probes: &AccessProbes, perf: &perf::PerfFindings<'_>) -> RungState {
    let x86_linux = machine.os == Os::Linux && machine.architecture == Architecture::X86_64;
    match rung {
        Rung::Perf => perf.rung(),
        Rung::Kperf => kperf::rung(machine, probes),
        Rung::Msr if x86_linux => msr::rung(machine, probes),
        Rung::Msr => built_where(rung, false, "it belongs to Linux on x86-64"),
        Rung::Sysreg => sysreg::rung(machine, probes),
        Rung::SelfCounts => selfcounts::rung(machine, probes),
        Rung::Soft => soft::rung(machine, probes),
        Rung::Gpu => gpu::rung(machine, probes),
        _ => RungState { rung, works: Works::Yes, causes: Vec::new() },
    }
}

/// A source that this version does not have; `here` tells whether a later one could work on this machine.
fn built_where(rung: Rung, here: bool, elsewhere: &str) -> RungState {
    let (works, cause) = match here {
        true => (Works::NotBuilt, cause(CauseKind::NotBuilt, "not in this version")),
        false => (Works::NotHere, cause(CauseKind::OtherSystem, elsewhere)),
    };
    RungState { rung, works, causes: vec![cause] }
}

/// A cause that no command mends.
fn cause(kind: CauseKind, text: impl Into<String>) -> Cause {
    Cause::new(kind, text)
}

/// A cause and the command that mends it.
fn mended(kind: CauseKind, text: impl Into<String>, mend: impl Into<String>) -> Cause {
    Cause { kind, text: text.into(), mend: Some(mend.into()) }
}
