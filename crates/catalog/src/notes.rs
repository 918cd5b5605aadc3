//! Notes about the value of a generic event on this machine.

use cyclometer_core::event::OsMetric;
use cyclometer_core::machine::Vendor;
use cyclometer_core::{Machine, Modes};

/// The note for generic event `config`, if there is one for this vendor.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c` (`intel_perfmon_event_map`), `arch/x86/events/amd/core.c`
/// (`amd_*_perfmon_event_map`), `drivers/perf/arm_pmuv3.c` (`armv8_pmuv3_perf_map`).
pub(crate) fn generic(config: u64, machine: &Machine) -> Option<String> {
    let cache = match machine.cpu.vendor {
        Vendor::Intel => "the last-level cache",
        Vendor::Amd | Vendor::Hygon => "the level 2 cache",
        Vendor::Arm => "the level 1 data cache",
        _ => "a cache that the kernel's driver chose",
    };
    match config {
        2 | 3 => Some(format!("means {cache} on this CPU: not comparable across vendors")),
        _ => None,
    }
}

/// The note for a raw code.
///
/// # Source
///
/// `perf_event_open(2)`, `PERF_TYPE_RAW`; Linux `drivers/perf/arm_pmuv3.c` checks no raw number against
/// PMCEID.
pub(crate) const RAW: &str = "a raw code that the CPU lacks counts zero; the kernel does not check it";

/// The note for a clock of the kernel that was requested in some modes only.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `task_clock_event_read`, `cpu_clock_event_read`: attributes are ignored.
pub(crate) fn clock(name: &str, modes: Modes) -> String {
    format!("{name} counts all modes together: ':{modes}' changes nothing, as in perf")
}

/// The note for one of perf's times that was requested in some modes only.
///
/// # Source
///
/// Linux `tools/perf/util/evsel.c`, `evsel__tool_event`: its value does not depend on the attributes.
pub(crate) fn time(name: &str, modes: Modes) -> String {
    format!("':{modes}' does not change {name}, as in perf")
}

/// The note for an event of the software PMU, if there is one.
pub(crate) fn soft(name: &str) -> Option<&'static str> {
    match name {
        "loads" | "stores" | "bytes_loaded" | "bytes_stored" => Some(
            "memory operands of instructions: not accesses of a cache, and not a vendor's event of that name",
        ),
        "fp_add" | "fp_mul" | "fp_div_sqrt" | "fp_fma" | "fp_operations" => {
            Some("each element of a packed instruction counts, also one that a mask leaves out")
        }
        _ => None,
    }
}

/// The note for a metric of the operating system's accounting, if there is one.
///
/// # Source
///
/// Linux `kernel/sched/cputime.c`, `cputime_adjust`; `getrusage(2)`.
pub(crate) fn accounting(metric: OsMetric) -> Option<&'static str> {
    match metric {
        OsMetric::UserTime | OsMetric::SystemTime => Some(
            "many kernels split CPU time by sampling at their tick: a few milliseconds may be attributed to \
                 user or kernel time alone",
        ),
        OsMetric::PeakRss => Some("of the largest process, not the sum"),
        OsMetric::VoluntarySwitches | OsMetric::InvoluntarySwitches => {
            Some("counted to the very end of the process; perf's context-switches ends a little earlier")
        }
        _ => None,
    }
}
