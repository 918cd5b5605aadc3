//! The source of GPUs: which devices it reads, and why not others.

use cyclometer_core::gpu::GpuAccess;
use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Machine, Os};

use super::{cause, mended};
use crate::probes::AccessProbes;

/// How it fares.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
    let mut causes = Vec::new();
    let by_nvml = match nvml(machine, probes) {
        Some(Ok(())) => true,
        Some(Err(cause)) => {
            causes.push(cause);
            false
        }
        None => false,
    };
    causes.extend(machine.gpus.devices.iter().filter_map(|device| match &device.access {
        GpuAccess::Unsupported(reason) => {
            Some(cause(unsupported(machine.os), format!("{}: {reason}", device.name)))
        }
        _ => None,
    }));
    let works = match (by_nvml || machine.gpus.by_files().next().is_some(), causes.is_empty()) {
        (true, true) => Works::Yes,
        (true, false) => Works::Partly,
        (false, false) if machine.os == Os::Linux => Works::No,
        (false, false) => Works::NotHere,
        (false, true) => {
            causes.push(cause(CauseKind::NoDevice, "there is no GPU of NVIDIA or AMD here"));
            Works::NotHere
        }
    };
    RungState { rung: Rung::Gpu, works, causes }
}

fn unsupported(os: Os) -> CauseKind {
    if os == Os::Linux { CauseKind::UnsupportedByDevice } else { CauseKind::OtherSystem }
}

/// Whether NVML works; `None` where no trace of NVIDIA's driver is found. A measurement does not ask it
/// before an event needs it: then the driver counts as working.
fn nvml(machine: &Machine, probes: &AccessProbes) -> Option<Result<(), Cause>> {
    match &probes.nvml {
        Some(Ok(found)) if found.devices.is_empty() => {
            Some(Err(cause(CauseKind::NoDevice, "NVML lists no device")))
        }
        Some(Ok(_)) => Some(Ok(())),
        Some(Err(obstacle)) => Some(Err(obstacle.cause())),
        None if !machine.gpus.may_have_nvml() => None,
        None if !machine.gpus.nvidia_nodes => Some(Err(without_nodes(machine))),
        None => Some(Ok(())),
    }
}

/// The driver is loaded, and its device files are missing.
fn without_nodes(machine: &Machine) -> Cause {
    let text = "NVIDIA's driver is loaded, and its device file /dev/nvidiactl is missing";
    match &machine.container {
        Some(_) => mended(
            CauseKind::NoPermission,
            format!("{text}: the container was started without GPUs"),
            "docker run --gpus all IMAGE",
        ),
        None => mended(CauseKind::NoPermission, text, "sudo nvidia-modprobe"),
    }
}
