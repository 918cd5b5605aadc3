//! The software PMU's source: whether a program may be traced here, else why not.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Architecture, Machine, Os};

use super::{cause, mended};
use crate::probes::{PerfProbes, errno};

/// Name of Yama's setting.
const SCOPE: &str = "kernel.yama.ptrace_scope";

/// How it fares: by the kernel's answer where it was asked, else by what Yama says.
pub(super) fn rung(machine: &Machine, probes: &PerfProbes) -> RungState {
    let (works, cause) = match elsewhere(machine, probes) {
        Some((works, cause)) => (works, Some(cause)),
        None => match refusal(machine, probes) {
            Some(cause) => (Works::No, Some(cause)),
            None => (Works::Yes, None),
        },
    };
    RungState { rung: Rung::Soft, works, causes: cause.into_iter().collect() }
}

/// Why this is no machine for it, if so.
fn elsewhere(machine: &Machine, probes: &PerfProbes) -> Option<(Works, Cause)> {
    let other = |text| cause(CauseKind::OtherSystem, text);
    if machine.os != Os::Linux {
        return Some((Works::NotHere, other("it runs on Linux on x86-64 only so far")));
    }
    if machine.architecture == Architecture::X86_64 {
        return None;
    }
    let narrow = "this is a 32-bit program on a 64-bit kernel: the 64-bit one could translate";
    match probes.kernel_is_x86_64 {
        true => Some((Works::No, other(narrow))),
        false => Some((Works::NotHere, other("x86-64 only so far"))),
    }
}

fn refusal(machine: &Machine, probes: &PerfProbes) -> Option<Cause> {
    if let Some(cause) = probes.processes.cause() {
        return Some(cause);
    }
    match probes.trace {
        Some(Ok(())) => None,
        Some(Err(errno)) => Some(yama(machine).unwrap_or_else(|| refused(errno, machine))),
        None => yama(machine),
    }
}

/// Permissions that Yama refuses.
///
/// # Source
///
/// Linux `Documentation/admin-guide/LSM/Yama.rst`: 1 allows whom the traced program names, which ours does; 2
/// asks for a capability; 3 forbids all, until the next boot.
fn yama(machine: &Machine) -> Option<Cause> {
    let capable = machine.access.capabilities.iter().any(|name| name == "CAP_SYS_PTRACE");
    let place = machine.container.as_ref().map_or("", |_| " (to be set on the host)");
    match machine.access.ptrace_scope {
        Some(2) if !capable => Some(mended(
            CauseKind::NoPermission,
            format!("{SCOPE} is 2: only CAP_SYS_PTRACE may trace{place}"),
            format!("sudo sysctl {SCOPE}=1"),
        )),
        Some(3..) => Some(cause(
            CauseKind::NoPermission,
            format!("{SCOPE} is 3: nobody may trace until the next boot{place}"),
        )),
        _ => None,
    }
}

/// Why tracing failed, by error number, where Yama does not explain it.
fn refused(errno: i32, machine: &Machine) -> Cause {
    let filtered = machine.access.seccomp == Some(2);
    match errno {
        errno::EPERM | errno::EACCES | errno::ENOSYS if filtered => filter(machine),
        errno::EPERM | errno::EACCES => cause(
            CauseKind::NoPermission,
            format!("the kernel refuses ptrace (error {errno}): a security module or a sandbox does"),
        ),
        errno::ENOSYS => cause(CauseKind::NotInKernel, "the kernel has no ptrace"),
        other => cause(CauseKind::NotInKernel, format!("a process cannot be traced here (error {other})")),
    }
}

/// # Source
///
/// Docker's and Podman's default profile (`seccomp/default.json` of moby and of containers/common): ptrace is
/// allowed from Linux 4.8 on, and with CAP_SYS_PTRACE on any kernel.
fn filter(machine: &Machine) -> Cause {
    let text = "a seccomp filter forbids ptrace";
    match machine.container.as_deref() {
        Some(tool @ ("docker" | "podman")) => {
            let text = format!("{text} in this container");
            mended(CauseKind::Seccomp, text, format!("{tool} run --cap-add SYS_PTRACE …"))
        }
        Some("kubernetes") => {
            let mend = "in the pod: securityContext: {capabilities: {add: [SYS_PTRACE]}}";
            mended(CauseKind::Seccomp, format!("{text} in this pod"), mend)
        }
        _ => cause(CauseKind::Seccomp, format!("{text}; start the program without it")),
    }
}
