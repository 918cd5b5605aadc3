//! The CPU and its core types, by architecture.

use cyclometer_core::CpuSet;
use cyclometer_core::machine::{Architecture, CoreType, CpuId, MachineCpu, Os, PmuFacts, Vendor};
use cyclometer_core::pmu::KernelPmu;

use crate::facts::FactSource;
use crate::{apple, arm, riscv, x86};

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

/// Finds out which CPU it is and which types of cores it has.
pub(crate) fn detect(
    facts: &dyn FactSource,
    online: &CpuSet,
    pmus: &[KernelPmu],
    virtualised: bool,
) -> DetectedCpu {
    let around = DetectionContext { online, pmus, virtualised };
    match (facts.os(), facts.architecture()) {
        (_, Architecture::X86_64) => x86::detect(facts, &around),
        (Os::MacOs, Architecture::Aarch64) => apple::on_macos(facts, &around),
        (_, Architecture::Aarch64) => arm::detect(facts, &around),
        (_, Architecture::Riscv64) => riscv::detect(facts, &around),
        _ => unknown(&around),
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

/// Gives each core type the kernel device that counts on its CPUs.
pub(crate) fn attach_kernel_pmus(core_types: &mut [CoreType], pmus: &[KernelPmu]) {
    for core in core_types {
        let device = pmus.iter().find(|pmu| pmu.is_core() && covers(pmu, &core.cpus));
        core.kernel_pmu = device.map(|pmu| pmu.name.clone());
    }
}

/// Whether the device counts on any of these CPUs; one without a `cpus` file counts on all.
fn covers(pmu: &KernelPmu, cpus: &CpuSet) -> bool {
    pmu.cpus.as_ref().is_none_or(|covered| !covered.intersection(cpus).is_empty())
}
