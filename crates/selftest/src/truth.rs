//! Known facts about events, by their names.

use cyclometer_kernels::KernelQuantity;

/// The known facts about an event before it is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Truth {
    /// It counts one of these, to the last one; which one depends on the CPU.
    Known(&'static [KernelQuantity]),
    /// It counts one of these, or so much more as speculation adds.
    Near(&'static [KernelQuantity]),
    /// Core clock cycles.
    Cycles,
    /// Cycles of another clock.
    OtherCycles,
    /// Branches that were predicted wrongly.
    BranchMisses,
    /// Data that the first-level cache does not hold.
    Misses,
    /// Requests that get past a first-level cache.
    Requests,
    /// Data that further caches, or TLBs, do not hold.
    FarMisses,
    /// Time on the CPU, in ns.
    Time,
    /// Page faults.
    Faults,
    /// Switches from one task to another.
    Switches,
    /// Nothing.
    Unknown,
}

/// Every branch; or the taken ones, which is what Linux's generic event is on Arm.
///
/// # Source
///
/// Linux `arch/arm64/kernel/perf_event.c` (later `drivers/perf/arm_pmuv3.c`):
/// `PERF_COUNT_HW_BRANCH_INSTRUCTIONS` is PC_WRITE_RETIRED, software changes of the PC, where the PMU has it.
const BRANCHES: &[KernelQuantity] = &[KernelQuantity::Branches, KernelQuantity::TakenBranches];

/// Loads; or all accesses, which is what some PMUs count that do not tell them apart.
///
/// # Source
///
/// Arm Architecture Reference Manual, L1D_CACHE: reads and writes; Linux `arch/x86/events/amd/core.c`: the
/// generic event is data cache accesses.
const LOADS: &[KernelQuantity] = &[KernelQuantity::Loads, KernelQuantity::Accesses];

const STORES: &[KernelQuantity] = &[KernelQuantity::Stores, KernelQuantity::Accesses];

impl Truth {
    /// The known facts about an event of this name, in any case and with hyphens or underscores: the kernel's
    /// generic names, the portable ones and the software PMU's.
    pub fn of(name: &str) -> Truth {
        let name = name.to_ascii_lowercase().replace('-', "_");
        if name == "branches" || name == "branch_instructions" {
            return Truth::Known(BRANCHES);
        }
        if let Some(quantity) = KernelQuantity::ALL.iter().position(|quantity| quantity.word() == name) {
            return Truth::Known(&KernelQuantity::ALL[quantity..=quantity]);
        }
        match name.as_str() {
            "cycles" | "cpu_cycles" => Truth::Cycles,
            "ref_cycles" | "bus_cycles" => Truth::OtherCycles,
            "branch_misses" | "branch_load_misses" => Truth::BranchMisses,
            "branch_loads" => Truth::Near(BRANCHES),
            "memory_instructions" | "l1d_cache_accesses" => Truth::Near(&[KernelQuantity::Accesses]),
            "l1_dcache_loads" | "l1d_cache_loads" | "dtlb_loads" => Truth::Near(LOADS),
            "l1_dcache_stores" | "l1d_cache_stores" | "dtlb_stores" => Truth::Near(STORES),
            "l1_dcache_load_misses" | "l1d_cache_misses" => Truth::Misses,
            "cache_references" | "llc_loads" | "l2_cache_loads" | "l2_cache_accesses" => Truth::Requests,
            "cache_misses" | "llc_misses" | "llc_load_misses" | "l2_cache_misses" | "dram_loads"
            | "dtlb_load_misses" | "dtlb_misses" | "l1_dtlb_misses" => Truth::FarMisses,
            "cpu_clock" | "task_clock" => Truth::Time,
            "page_faults" | "minor_faults" => Truth::Faults,
            "context_switches" => Truth::Switches,
            _ => Truth::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_however_they_are_spelled() {
        for (name, truth) in [
            ("instructions", Truth::Known(&[KernelQuantity::Instructions])),
            ("branch-instructions", Truth::Known(BRANCHES)),
            ("branches_taken", Truth::Known(&[KernelQuantity::TakenBranches])),
            ("L1-dcache-loads", Truth::Near(LOADS)),
            ("LLC-load-misses", Truth::FarMisses),
            ("cpu-cycles", Truth::Cycles),
            ("iTLB-loads", Truth::Unknown),
        ] {
            assert_eq!(Truth::of(name), truth, "{name}");
        }
    }
}
