//! The software PMU's source: whether a program may be traced here, else why not.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Architecture, Machine, Os, ProcessTracer};
use cyclometer_sys::process_list::ProcessList;
use cyclometer_sys::tracer_call::{MEMORY_FILE_BYTES, NeededBytes, PRIVATE_BYTES, TracerCall};

use super::{cause, mended};
use crate::DetectionDepth;
use crate::facts::TraceRefusal;
use crate::probes::{AccessProbes, errno};

/// Name of Yama's setting.
const SCOPE: &str = "kernel.yama.ptrace_scope";

/// How it fares: by the kernel's answer where it was asked, else by what Yama says.
pub(super) fn rung(machine: &Machine, probes: &AccessProbes) -> RungState {
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
fn elsewhere(machine: &Machine, probes: &AccessProbes) -> Option<(Works, Cause)> {
    let other = |text| cause(CauseKind::OtherSystem, text);
    if machine.os != Os::Linux {
        return Some((Works::NotHere, other("it runs on Linux on x86-64 only so far")));
    }
    if machine.architecture == Architecture::X86_64 {
        return None;
    }
    let narrow = "this is a 32-bit program on a 64-bit kernel: use the 64-bit cyclometer";
    match probes.kernel_is_x86_64 {
        true => Some((Works::No, other(narrow))),
        false => Some((Works::NotHere, other("x86-64 only so far"))),
    }
}

fn refusal(machine: &Machine, probes: &AccessProbes) -> Option<Cause> {
    if machine.access.tracer == Some(ProcessTracer::SoftwarePmu) {
        return under_itself(probes.depth);
    }
    if let Some(cause) = without_processes(probes.processes) {
        return Some(cause);
    }
    match &probes.trace {
        Some(Ok(())) => None,
        Some(Err(TraceRefusal::Traced { by })) => Some(traced(*by, machine)),
        Some(Err(TraceRefusal::Call { call, errno })) => {
            let yama = yama(machine).filter(|_| *call == TracerCall::Ptrace);
            Some(yama.unwrap_or_else(|| refused(*call, *errno, machine)))
        }
        None => yama(machine),
    }
}

/// The reason why a program cannot use the software PMU that runs it. Its regions can: their counts are
/// reported to it.
fn under_itself(depth: DetectionDepth) -> Option<Cause> {
    let text = "it already counts this process and what that starts, and a process can have one tracer only";
    (depth != DetectionDepth::Regions).then(|| cause(CauseKind::HeldByAnother, text))
}

/// The list of processes is missing, or is that of unrelated processes: a tracer reads mappings and
/// descriptors there.
fn without_processes(list: ProcessList) -> Option<Cause> {
    let mend = match list {
        ProcessList::Missing => "unshare --mount-proc cyclometer … (or mount -t proc proc /proc)",
        _ => "unshare --mount-proc cyclometer … (or start the sandbox with its own: bwrap --proc /proc)",
    };
    list.obstacle().map(|text| mended(CauseKind::NoProcessList, text, mend))
}

/// Another process traces what starts here.
fn traced(by: u32, machine: &Machine) -> Cause {
    let unnamed = || ProcessTracer::Other { pid: by, name: None };
    let tracer = machine.access.tracer.clone().unwrap_or_else(unnamed);
    let text = format!(
        "{tracer} traces every process that starts here, and a process can have one tracer only: count without it"
    );
    cause(CauseKind::HeldByAnother, text)
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
            format!("{SCOPE} is 3: tracing is disabled until the next boot{place}"),
        )),
        _ => None,
    }
}

/// Why a system call failed, by error number, where Yama does not explain it.
fn refused(call: TracerCall, errno: i32, machine: &Machine) -> Cause {
    let filtered = machine.access.seccomp == Some(2);
    match (call, errno) {
        // The hard limit is known to be too low here, also where a filter keeps it from being raised.
        (TracerCall::RaiseFileSize, errno::EPERM) => small_files(),
        (TracerCall::MapPrivate, errno::ENOMEM) => little_memory(),
        (_, errno::EPERM | errno::EACCES | errno::ENOSYS) if filtered => filter(call, machine),
        (_, errno::EPERM | errno::EACCES) => cause(
            CauseKind::NoPermission,
            format!("the kernel refuses {call} (error {errno}): a security module or a sandbox does"),
        ),
        (_, errno::ENOSYS) => cause(CauseKind::NotInKernel, format!("the kernel has no {call}")),
        _ => cause(CauseKind::NotInKernel, format!("{call} fails here (error {errno})")),
    }
}

/// The reason where the limit on the size of files may not be raised.
fn small_files() -> Cause {
    let text = format!(
        "the size of files is limited to less than {} (RLIMIT_FSIZE, `ulimit -f`), which is what its memory file needs, \
         and the limit may not be raised",
        NeededBytes(MEMORY_FILE_BYTES)
    );
    mended(CauseKind::FileSizeLimit, text, "sudo prlimit --fsize=unlimited --pid $$")
}

/// The reason where the tracer could not have the memory that it needs.
fn little_memory() -> Cause {
    let text = format!(
        "private memory is limited to less than the {} that the tracer needs (RLIMIT_DATA, `ulimit -d`, or RLIMIT_AS, \
         `ulimit -v`)",
        NeededBytes(PRIVATE_BYTES)
    );
    mended(CauseKind::MemoryLimit, text, "sudo prlimit --data=unlimited --as=unlimited --pid $$")
}

/// # Source
///
/// Docker's and Podman's default profile (`seccomp/default.json` of moby and of containers/common): ptrace,
/// process_vm_readv and process_vm_writev are allowed from Linux 4.8 on, and with CAP_SYS_PTRACE on any
/// kernel.
fn filter(call: TracerCall, machine: &Machine) -> Cause {
    let text = format!("a seccomp filter forbids {call}");
    let of_tracers =
        matches!(call, TracerCall::Ptrace | TracerCall::ProcessVmReadv | TracerCall::ProcessVmWritev);
    match machine.container.as_deref() {
        Some(tool @ ("docker" | "podman")) => {
            let option =
                if of_tracers { "--cap-add SYS_PTRACE" } else { "--security-opt seccomp=unconfined" };
            mended(CauseKind::Seccomp, format!("{text} in this container"), format!("{tool} run {option} …"))
        }
        Some("kubernetes") => {
            let context = match of_tracers {
                true => "capabilities: {add: [SYS_PTRACE]}",
                false => "seccompProfile: {type: Unconfined}",
            };
            let mend = format!("in the pod: securityContext: {{{context}}}");
            mended(CauseKind::Seccomp, format!("{text} in this pod"), mend)
        }
        _ => cause(CauseKind::Seccomp, format!("{text}; start the program without it")),
    }
}
