//! The tables of names that mean the same request on every machine.
//!
//! # Source
//!
//! Codes: Linux `include/uapi/linux/perf_event.h` (`enum perf_hw_id`, `perf_hw_cache_id`,
//! `perf_hw_cache_op_id`, `perf_hw_cache_op_result_id`, `perf_sw_ids`). Names: `perf-list(1)`.

use cyclometer_core::event::OsMetric;
use cyclometer_core::event::Unit;

/// A generic hardware event of the kernel.
pub(crate) struct Hardware {
    /// Names, perf's first, then the portable one.
    pub names: &'static [&'static str],
    /// `PERF_COUNT_HW_*`.
    pub config: u64,
    /// The names of the event in a core PMU's own `events/` folder: Intel's and Arm's.
    pub sysfs: &'static [&'static str],
    pub about: &'static str,
}

impl Hardware {
    /// Whether every process that ran has a count above zero: cycles and instructions.
    pub fn never_zero(&self) -> bool {
        self.config <= 1
    }
}

pub(crate) const HARDWARE: &[Hardware] = &[
    Hardware {
        names: &["cycles", "cpu-cycles", "cpu_cycles"],
        config: 0,
        sysfs: &["cpu-cycles", "cpu_cycles", "cycles"],
        about: "core clock cycles while not halted",
    },
    Hardware {
        names: &["instructions"],
        config: 1,
        sysfs: &["instructions", "inst_retired"],
        about: "instructions retired",
    },
    Hardware {
        names: &["cache-references", "cache_references"],
        config: 2,
        sysfs: &["cache-references", "l1d_cache"],
        about: "cache accesses; which cache depends on the vendor",
    },
    Hardware {
        names: &["cache-misses", "cache_misses"],
        config: 3,
        sysfs: &["cache-misses", "l1d_cache_refill"],
        about: "cache misses; which cache depends on the vendor",
    },
    Hardware {
        names: &["branches", "branch-instructions", "branch_instructions"],
        config: 4,
        sysfs: &["branch-instructions", "branches", "br_retired", "pc_write_retired"],
        about: "branch instructions retired",
    },
    Hardware {
        names: &["branch-misses", "branch_misses"],
        config: 5,
        sysfs: &["branch-misses", "br_mis_pred"],
        about: "branches that were predicted wrongly",
    },
    Hardware {
        names: &["bus-cycles", "bus_cycles"],
        config: 6,
        sysfs: &["bus-cycles", "bus_cycles"],
        about: "cycles of the bus or reference clock",
    },
    Hardware {
        names: &["stalled-cycles-frontend", "idle-cycles-frontend", "stalls_frontend"],
        config: 7,
        sysfs: &["stalled-cycles-frontend", "stall_frontend"],
        about: "cycles in which the front end delivered nothing",
    },
    Hardware {
        names: &["stalled-cycles-backend", "idle-cycles-backend", "stalls_backend"],
        config: 8,
        sysfs: &["stalled-cycles-backend", "stall_backend"],
        about: "cycles in which the back end took nothing",
    },
    Hardware {
        names: &["ref-cycles", "ref_cycles"],
        config: 9,
        sysfs: &["ref-cycles"],
        about: "cycles at a constant frequency while not halted",
    },
];

/// A cache of the kernel's generic cache events.
pub(crate) struct Cache {
    /// Names, the canonical one first.
    pub names: &'static [&'static str],
    /// `PERF_COUNT_HW_CACHE_*`.
    pub id: u64,
    pub about: &'static str,
}

pub(crate) const CACHES: &[Cache] = &[
    Cache { names: &["L1-dcache", "l1-d", "l1d", "L1-data"], id: 0, about: "level 1 data cache" },
    Cache {
        names: &["L1-icache", "l1-i", "l1i", "L1-instruction"],
        id: 1,
        about: "level 1 instruction cache",
    },
    Cache { names: &["LLC", "L2"], id: 2, about: "last-level cache" },
    Cache { names: &["dTLB", "d-tlb", "Data-TLB"], id: 3, about: "data TLB" },
    Cache { names: &["iTLB", "i-tlb", "Instruction-TLB"], id: 4, about: "instruction TLB" },
    Cache { names: &["branch", "branches", "bpu", "btb", "bpc"], id: 5, about: "branch prediction unit" },
    Cache { names: &["node"], id: 6, about: "local memory node" },
];

/// An operation on a cache.
pub(crate) struct CacheOp {
    pub names: &'static [&'static str],
    /// `PERF_COUNT_HW_CACHE_OP_*`.
    pub id: u64,
    /// The ends of the canonical name for accesses and for misses.
    pub canonical: [&'static str; 2],
    pub about: &'static str,
}

pub(crate) const CACHE_OPS: &[CacheOp] = &[
    CacheOp { names: &["load", "loads", "read"], id: 0, canonical: ["loads", "load-misses"], about: "loads" },
    CacheOp {
        names: &["store", "stores", "write"],
        id: 1,
        canonical: ["stores", "store-misses"],
        about: "stores",
    },
    CacheOp {
        names: &["prefetch", "prefetches", "speculative-read", "speculative-load"],
        id: 2,
        canonical: ["prefetches", "prefetch-misses"],
        about: "prefetches",
    },
];

const CACHE_RESULTS: &[(&[&str], u64)] =
    &[(&["refs", "reference", "ops", "access"], 0), (&["misses", "miss"], 1)];

/// A generic cache event: the cache, the operation, and whether it counts misses only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheEvent {
    pub cache: u64,
    pub op: u64,
    pub result: u64,
}

impl CacheEvent {
    /// `perf_event_attr.config` of the generic event.
    pub fn config(self) -> u64 {
        self.cache | self.op << 8 | self.result << 16
    }

    /// perf's canonical name.
    pub fn name(self) -> String {
        let cache = CACHES[self.cache as usize].names[0];
        format!("{cache}-{}", CACHE_OPS[self.op as usize].canonical[self.result as usize])
    }

    /// The description.
    pub fn about(self) -> String {
        let (op, cache) = (CACHE_OPS[self.op as usize].about, CACHES[self.cache as usize].about);
        if self.result == 1 {
            format!("{op} that missed the {cache}")
        } else {
            format!("{op} in the {cache}")
        }
    }

    /// Every combination in the kernel's interface.
    pub fn all() -> impl Iterator<Item = CacheEvent> {
        let ops = |cache: u64| match cache {
            1 => vec![0, 2],
            4 | 5 => vec![0],
            _ => vec![0, 1, 2],
        };
        (0..7).flat_map(move |cache| {
            ops(cache)
                .into_iter()
                .flat_map(move |op| (0..2).map(move |result| CacheEvent { cache, op, result }))
        })
    }

    /// Reads perf's spellings: `L1-dcache-load-misses`, `LLC-loads`, `dTLB-misses`.
    pub fn parse(name: &str) -> Option<CacheEvent> {
        let lower = name.to_ascii_lowercase();
        CACHES
            .iter()
            .flat_map(|cache| cache.names.iter().map(move |alias| (cache.id, alias.to_ascii_lowercase())))
            .filter_map(|(id, alias)| {
                let rest = lower.strip_prefix(&alias)?.strip_prefix('-')?;
                parse_cache_tail(id, rest)
            })
            .find(|event| CacheEvent::all().any(|known| known == *event))
    }
}

fn parse_cache_tail(cache: u64, tail: &str) -> Option<CacheEvent> {
    let result = |word: &str| CACHE_RESULTS.iter().find(|(names, _)| names.contains(&word)).map(|r| r.1);
    if let Some(result) = result(tail) {
        return Some(CacheEvent { cache, op: 0, result });
    }
    CACHE_OPS.iter().find_map(|op| {
        op.names.iter().find_map(|name| match tail.strip_prefix(name)? {
            "" => Some(CacheEvent { cache, op: op.id, result: 0 }),
            rest => Some(CacheEvent { cache, op: op.id, result: result(rest.strip_prefix('-')?)? }),
        })
    })
}

/// Portable names of cache events.
pub(crate) const PORTABLE_CACHE: &[(&str, CacheEvent)] = &[
    ("l1d_cache_loads", CacheEvent { cache: 0, op: 0, result: 0 }),
    ("l1d_cache_misses", CacheEvent { cache: 0, op: 0, result: 1 }),
    ("l1i_cache_misses", CacheEvent { cache: 1, op: 0, result: 1 }),
    ("llc_loads", CacheEvent { cache: 2, op: 0, result: 0 }),
    ("llc_misses", CacheEvent { cache: 2, op: 0, result: 1 }),
    ("dtlb_misses", CacheEvent { cache: 3, op: 0, result: 1 }),
    ("itlb_misses", CacheEvent { cache: 4, op: 0, result: 1 }),
];

/// Portable names without a generic event of the kernel.
pub(crate) const PORTABLE_WITHOUT_GENERIC: &[(&str, &str)] =
    &[("l2_cache_loads", "cache-references"), ("l2_cache_misses", "cache-misses")];

/// A software event of the kernel.
pub(crate) struct SoftwareEvent {
    pub names: &'static [&'static str],
    /// `PERF_COUNT_SW_*`.
    pub config: u64,
    /// Counts nanoseconds instead of events.
    pub clock: bool,
    /// Happens in kernel mode only, so that a user-mode count would be a meaningless zero.
    pub kernel_only: bool,
    /// The operating system's accounting of the same quantity.
    pub os: Option<OsMetric>,
    pub about: &'static str,
}

const fn software(
    names: &'static [&'static str],
    config: u64,
    os: Option<OsMetric>,
    about: &'static str,
) -> SoftwareEvent {
    SoftwareEvent { names, config, clock: false, kernel_only: false, os, about }
}

impl SoftwareEvent {
    /// Unit of its values.
    pub fn unit(&self) -> Unit {
        if self.clock { Unit::Nanoseconds } else { Unit::Count }
    }
}

pub(crate) const SOFTWARE: &[SoftwareEvent] = &[
    SoftwareEvent {
        clock: true,
        ..software(
            &["cpu-clock", "cpu_clock"],
            0,
            Some(OsMetric::CpuTime),
            "CPU time by a high-resolution timer",
        )
    },
    SoftwareEvent {
        clock: true,
        ..software(
            &["task-clock", "task_clock"],
            1,
            Some(OsMetric::CpuTime),
            "time that the task was on a CPU",
        )
    },
    software(&["page-faults", "faults", "page_faults"], 2, Some(OsMetric::PageFaults), "page faults"),
    SoftwareEvent {
        kernel_only: true,
        ..software(
            &["context-switches", "cs", "context_switches"],
            3,
            Some(OsMetric::ContextSwitches),
            "switches from one task to another",
        )
    },
    SoftwareEvent {
        kernel_only: true,
        ..software(
            &["cpu-migrations", "migrations", "cpu_migrations"],
            4,
            None,
            "moves of the task to another CPU",
        )
    },
    software(&["minor-faults", "minor_faults"], 5, Some(OsMetric::MinorFaults), "page faults without I/O"),
    software(&["major-faults", "major_faults"], 6, Some(OsMetric::MajorFaults), "page faults with I/O"),
    software(&["alignment-faults"], 7, None, "unaligned accesses that the kernel had to mend"),
    software(&["emulation-faults"], 8, None, "instructions that the kernel had to emulate"),
    software(&["dummy"], 9, None, "nothing; for testing"),
    SoftwareEvent {
        kernel_only: true,
        ..software(&["cgroup-switches"], 11, None, "switches to a task of another control group")
    },
];

/// A metric of the operating system's accounting.
pub(crate) struct Accounting {
    pub names: &'static [&'static str],
    pub metric: OsMetric,
    pub unit: Unit,
    /// The origin of the value.
    pub resolution: &'static str,
    pub about: &'static str,
}

impl Accounting {
    /// Whether perf has this time, too: `duration_time`, `user_time` and `system_time`, which it takes with
    /// modes.
    pub(crate) fn is_perfs_time(&self) -> bool {
        matches!(self.metric, OsMetric::WallTime | OsMetric::UserTime | OsMetric::SystemTime)
    }
}

pub(crate) const ACCOUNTING: &[Accounting] = &[
    Accounting {
        names: &["wall_time", "duration_time", "wall-time"],
        metric: OsMetric::WallTime,
        unit: Unit::Nanoseconds,
        resolution: "CLOCK_MONOTONIC",
        about: "elapsed time from start to end",
    },
    Accounting {
        names: &["user_time", "user-time"],
        metric: OsMetric::UserTime,
        unit: Unit::Nanoseconds,
        resolution: "rusage.ru_utime of a command; /proc or cgroup of what runs",
        about: "CPU time in user mode",
    },
    Accounting {
        names: &["system_time", "sys_time", "system-time"],
        metric: OsMetric::SystemTime,
        unit: Unit::Nanoseconds,
        resolution: "rusage.ru_stime of a command; /proc or cgroup of what runs",
        about: "CPU time in kernel mode",
    },
    Accounting {
        names: &["cpu_time", "cpu-time"],
        metric: OsMetric::CpuTime,
        unit: Unit::Nanoseconds,
        resolution: "rusage.ru_utime + ru_stime of a command; /proc or cgroup of what runs",
        about: "CPU time in both modes",
    },
    Accounting {
        names: &["peak_rss", "max_rss", "peak-rss"],
        metric: OsMetric::PeakRss,
        unit: Unit::Bytes,
        resolution: "rusage.ru_maxrss of a command; /proc or cgroup of what runs",
        about: "peak resident memory of the largest process",
    },
    Accounting {
        names: &["voluntary_switches", "voluntary-switches"],
        metric: OsMetric::VoluntarySwitches,
        unit: Unit::Count,
        resolution: "rusage.ru_nvcsw of a command; /proc or cgroup of what runs",
        about: "context switches because the task waited",
    },
    Accounting {
        names: &["involuntary_switches", "involuntary-switches"],
        metric: OsMetric::InvoluntarySwitches,
        unit: Unit::Count,
        resolution: "rusage.ru_nivcsw of a command; /proc or cgroup of what runs",
        about: "context switches because the scheduler took the CPU away",
    },
];

/// The origin of the accounting that corresponds to a software event.
pub(crate) fn accounting_source(metric: OsMetric) -> &'static str {
    match metric {
        OsMetric::PageFaults => "rusage.ru_minflt + ru_majflt of a command; /proc or cgroup of what runs",
        OsMetric::MinorFaults => "rusage.ru_minflt of a command; /proc or cgroup of what runs",
        OsMetric::MajorFaults => "rusage.ru_majflt of a command; /proc or cgroup of what runs",
        OsMetric::ContextSwitches => "rusage.ru_nvcsw + ru_nivcsw of a command; /proc or cgroup of what runs",
        other => ACCOUNTING.iter().find(|a| a.metric == other).map_or("accounting", |a| a.resolution),
    }
}

/// Whether `name` is one of `names`, in any case.
pub(crate) fn named(names: &[&str], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_events_have_the_kernels_codes() {
        let cases = [
            ("L1-dcache-loads", 0x0),
            ("L1-dcache-load-misses", 0x1_0000),
            ("l1d-misses", 0x1_0000),
            ("LLC-stores", 0x102),
            ("llc-store-misses", 0x1_0102),
            ("dTLB-prefetches", 0x203),
            ("iTLB-load-misses", 0x1_0004),
            ("node-loads", 0x6),
        ];
        for (name, config) in cases {
            assert_eq!(CacheEvent::parse(name).unwrap().config(), config, "{name}");
        }
    }

    #[test]
    fn canonical_cache_names_are_read_back() {
        for event in CacheEvent::all() {
            assert_eq!(CacheEvent::parse(&event.name()), Some(event));
        }
    }

    #[test]
    fn what_is_no_cache_event_is_none() {
        for name in ["L1-dcache", "L1-dcache-", "L9-loads", "iTLB-stores", "LLC-load-hits", "branches"] {
            assert_eq!(CacheEvent::parse(name), None, "{name}");
        }
    }

    #[test]
    fn no_name_stands_in_two_tables() {
        let mut names: Vec<String> =
            HARDWARE.iter().flat_map(|h| h.names).map(|n| n.to_lowercase()).collect();
        names.extend(SOFTWARE.iter().flat_map(|s| s.names).map(|n| n.to_lowercase()));
        names.extend(ACCOUNTING.iter().flat_map(|a| a.names).map(|n| n.to_lowercase()));
        names.extend(PORTABLE_CACHE.iter().map(|p| p.0.to_lowercase()));
        names.extend(PORTABLE_WITHOUT_GENERIC.iter().map(|p| p.0.to_lowercase()));
        let soft_only =
            crate::soft_events().filter(|event| !HARDWARE.iter().any(|h| named(h.names, event.name)));
        names.extend(soft_only.flat_map(|s| s.aliases.into_iter().chain([s.name])).map(str::to_lowercase));
        names.extend(CacheEvent::all().map(|event| event.name().to_lowercase()));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
