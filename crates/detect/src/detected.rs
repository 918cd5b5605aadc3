//! The CPU that detection found, and the inputs of finding it.

use cyclometer_core::CpuSet;
use cyclometer_core::machine::{CoreType, CpuId, MachineCpu, PmuFacts, Vendor};
use cyclometer_core::pmu::KernelPmu;

/// The CPU that detection found.
pub(crate) struct DetectedCpu {
    /// The CPU as a whole.
    pub(crate) cpu: MachineCpu,
    /// Its core types; at least one.
    pub(crate) core_types: Vec<CoreType>,
}

/// The inputs of detecting the CPU, besides the facts.
pub(crate) struct DetectionContext<'a> {
    /// The CPUs that are online.
    pub(crate) online: &'a CpuSet,
    /// The kernel's devices.
    pub(crate) pmus: &'a [KernelPmu],
    /// Whether a hypervisor is below us.
    pub(crate) virtualised: bool,
}

impl DetectionContext<'_> {
    /// Whether the kernel drives a core PMU on any of `cpus`.
    pub(crate) fn has_core_pmu(&self, cpus: &CpuSet) -> bool {
        self.pmus.iter().any(|pmu| pmu.is_core() && covers(pmu, cpus))
    }
}

/// A CPU of which nothing is known.
pub(crate) fn unknown(around: &DetectionContext<'_>) -> DetectedCpu {
    let vendor = Vendor::Other("unknown".to_owned());
    DetectedCpu {
        cpu: MachineCpu { vendor, id: CpuId::Unknown, name: None },
        core_types: vec![core_type(None, None, around.online.clone(), PmuFacts::default())],
    }
}

/// A core type that has no kernel device yet.
pub(crate) fn core_type(
    cpu_id: Option<String>,
    microarchitecture: Option<&str>,
    cpus: CpuSet,
    pmu: PmuFacts,
) -> CoreType {
    let microarchitecture = microarchitecture.map(str::to_owned);
    CoreType { cpu_id, microarchitecture, cpus, pmu, kernel_pmu: None }
}

/// Facts that say that there are no counters, and who says so.
pub(crate) fn no_counters(source: &str) -> PmuFacts {
    PmuFacts { source: source.to_owned(), ..PmuFacts::default() }
}

/// Whether the device counts on any of these CPUs; one without a `cpus` file counts on all.
pub(crate) fn covers(pmu: &KernelPmu, cpus: &CpuSet) -> bool {
    pmu.cpus.as_ref().is_none_or(|covered| !covered.intersection(cpus).is_empty())
}
