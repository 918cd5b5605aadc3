//! Permissions of this process: sysctls, capabilities, seccomp.

use cyclometer_core::machine::{AccessRights, Os, ProcessTracer};

use crate::facts::FactSource;
use crate::text;

/// The capabilities that matter to counting, by bit.
///
/// # Source
///
/// `include/uapi/linux/capability.h`.
const CAPABILITIES: [(u32, &str); 7] = [
    (14, "CAP_IPC_LOCK"),
    (17, "CAP_SYS_RAWIO"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (34, "CAP_SYSLOG"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];

/// The rights of this process.
pub(crate) fn detect(facts: &dyn FactSource) -> AccessRights {
    let root = facts.euid() == Some(0);
    if facts.os() != Os::Linux {
        return AccessRights { root, ..AccessRights::default() };
    }
    let status = facts.read("/proc/self/status").unwrap_or_default();
    AccessRights {
        root,
        perf_event_paranoid: text::number(facts, "/proc/sys/kernel/perf_event_paranoid"),
        perf_user_access: text::number(facts, "/proc/sys/kernel/perf_user_access"),
        nmi_watchdog: text::number::<u32>(facts, "/proc/sys/kernel/nmi_watchdog").map(|on| on != 0),
        capabilities: capabilities(facts, &status),
        seccomp: text::field(&status, "Seccomp").and_then(|mode| mode.parse().ok()),
        ptrace_scope: text::number(facts, "/proc/sys/kernel/yama/ptrace_scope"),
        tracer: tracer(facts, &status),
    }
}

/// The tracer of this process; only a tracer is asked whether it is the software PMU.
///
/// # Source
///
/// `proc_pid_status(5)`, `TracerPid`: 0 where nothing does, or what does is in another list of processes.
fn tracer(facts: &dyn FactSource, status: &str) -> Option<ProcessTracer> {
    let pid = text::field(status, "TracerPid")?.parse().ok().filter(|pid| *pid != 0)?;
    match facts.is_counted_by_software() {
        true => Some(ProcessTracer::SoftwarePmu),
        false => Some(other_tracer(facts, pid)),
    }
}

/// A tracer that is not the software PMU.
pub(crate) fn other_tracer(facts: &dyn FactSource, pid: u32) -> ProcessTracer {
    let name = text::line(facts, &format!("/proc/{pid}/comm"));
    ProcessTracer::Other { pid, name: name.map(|name| text::clean(&name)) }
}

/// Effective capabilities by name; none inside a user namespace, where perf does not honour them.
///
/// # Source
///
/// `capabilities(7)`; `perfmon_capable()` of the kernel asks in the initial user namespace.
fn capabilities(facts: &dyn FactSource, status: &str) -> Vec<String> {
    let effective = text::field(status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let effective = effective.filter(|_| in_initial_user_namespace(facts)).unwrap_or(0);
    let held = CAPABILITIES.iter().filter(|(bit, _)| effective >> bit & 1 == 1);
    held.map(|(_, name)| (*name).to_owned()).collect()
}

/// Whether user ids are mapped one to one; also when the kernel has no user namespaces.
fn in_initial_user_namespace(facts: &dyn FactSource) -> bool {
    let Some(map) = facts.read("/proc/self/uid_map") else { return true };
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    fn access(body: &str) -> AccessRights {
        detect(&RecordedFacts::parse(&format!("note synthetic: a test\nos linux\n{body}")).unwrap())
    }

    #[test]
    fn capabilities_are_named() {
        let access =
            access("euid 1000\nfile /proc/self/status\n| CapEff:\t0000004000200000\n| Seccomp:\t2\n");
        assert_eq!(access.capabilities, ["CAP_SYS_ADMIN", "CAP_PERFMON"]);
        assert_eq!(access.seccomp, Some(2));
        assert!(access.perfmon_capable() && !access.root);
    }

    #[test]
    fn capabilities_in_a_user_namespace_do_not_count() {
        let status = "file /proc/self/status\n| CapEff:\t000001ffffffffff\n";
        let namespaced = access(&format!("{status}file /proc/self/uid_map 0 1000 1\n"));
        assert_eq!(namespaced.capabilities, Vec::<String>::new());
        let initial =
            access(&format!("{status}file /proc/self/uid_map\n|          0          0 4294967295\n"));
        assert!(initial.perfmon_capable());
    }

    #[test]
    fn a_tracer_is_told_by_its_name_and_the_software_pmu_by_its_answer() {
        let traced = "file /proc/self/status\n| TracerPid:\t71\n";
        let named = access(&format!("{traced}file /proc/71/comm strace\n")).tracer;
        assert_eq!(named.map(|tracer| tracer.to_string()).as_deref(), Some("strace (process 71)"));
        assert_eq!(access(traced).tracer, Some(ProcessTracer::Other { pid: 71, name: None }));
        assert_eq!(access(&format!("{traced}counted software\n")).tracer, Some(ProcessTracer::SoftwarePmu));
        for untraced in
            ["file /proc/self/status\n| TracerPid:\t0\n", "file /proc/self/status\n| CapEff:\t0\n"]
        {
            assert_eq!(access(&format!("{untraced}counted software\n")).tracer, None, "it is not even asked");
        }
    }

    #[test]
    fn a_kernel_without_perf_has_no_paranoia() {
        assert_eq!(access("euid 0\n").perf_event_paranoid, None);
        assert_eq!(access("file /proc/sys/kernel/perf_event_paranoid -1\n").perf_event_paranoid, Some(-1));
    }
}
