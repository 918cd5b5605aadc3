//! The CPU and its core types, by architecture.

use cyclometer_core::CpuSet;
use cyclometer_core::machine::{Architecture, CoreType, Os};
use cyclometer_core::pmu::KernelPmu;

use crate::detected::{DetectedCpu, DetectionContext, covers, unknown};
use crate::facts::FactSource;
use crate::{apple, arm, riscv, x86};

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

/// Gives each core type the kernel device that counts on its CPUs.
pub(crate) fn attach_kernel_pmus(core_types: &mut [CoreType], pmus: &[KernelPmu]) {
    for core in core_types {
        let device = pmus.iter().find(|pmu| pmu.is_core() && covers(pmu, &core.cpus));
        core.kernel_pmu = device.map(|pmu| pmu.name.clone());
    }
}
