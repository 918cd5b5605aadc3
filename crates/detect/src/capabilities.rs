//! The summary that the C and Python interfaces export.

use cyclometer_core::counter::CounterMask;
use cyclometer_core::machine::{Architecture, Capabilities, CoreType, Machine, PmuFacts, Vendor};

/// Nothing known yet.
pub(crate) fn unknown() -> Capabilities {
    Capabilities {
        architecture: "unknown".to_owned(),
        counter_count: 0,
        fixed_counters: 0,
        counter_width_bits: None,
        user_mode_access: false,
        needs_kernel_patch: false,
    }
}

/// Sums a machine up, by its first core type.
pub(crate) fn summarise(machine: &Machine) -> Capabilities {
    let none = PmuFacts::default();
    let pmu = machine.core_types.first().map_or(&none, |core| &core.pmu);
    Capabilities {
        architecture: architecture(machine),
        counter_count: general_count(pmu.counters),
        fixed_counters: pmu.counters.fixed_bits().count_ones(),
        counter_width_bits: pmu.counter_width_bits,
        user_mode_access: machine.ladder.perf_hardware.is_ok() && user_reads_are_on(machine),
        // Only a changed kernel, or a module of its own, lets programs at Apple's registers.
        needs_kernel_patch: machine.cpu.vendor == Vendor::Apple,
    }
}

fn general_count(counters: CounterMask) -> u32 {
    counters.general_bits().count_ones()
}

/// Whether the kernel lets programs read counters without a system call.
///
/// # Source
///
/// x86: `rdpmc` in sysfs; arm64, riscv64: `Documentation/admin-guide/sysctl/kernel.rst`, `perf_user_access`.
/// Apple's driver never gives user access.
pub(crate) fn user_reads_are_on(machine: &Machine) -> bool {
    let by_sysctl = machine.access.perf_user_access.is_some_and(|mode| mode >= 1);
    match machine.architecture {
        Architecture::X86_64 => machine.core_pmus().any(|pmu| pmu.rdpmc.is_some_and(|mode| mode >= 1)),
        Architecture::Aarch64 => machine.cpu.vendor != Vendor::Apple && by_sysctl,
        Architecture::Riscv64 => by_sysctl,
        _ => false,
    }
}

/// Vendor and generation: `intel sapphirerapids`, `amd zen4`, `apple m1`, `arm neoverse-n1`.
fn architecture(machine: &Machine) -> String {
    let vendor = machine.cpu.vendor.to_string().to_lowercase();
    let generation = machine.core_types.first().and_then(generation);
    let generation = generation.unwrap_or_else(|| "unknown".to_owned());
    let short = generation.strip_prefix(&vendor).map(|rest| rest.trim_start_matches('-'));
    match short.filter(|rest| !rest.is_empty()) {
        Some(short) => format!("{vendor} {short}"),
        None if generation == vendor => vendor,
        None => format!("{vendor} {generation}"),
    }
}

fn generation(core: &CoreType) -> Option<String> {
    let id = core.cpu_id.as_deref().map(|id| id.split('/').next().unwrap_or(id).to_owned());
    id.or_else(|| Some(core.microarchitecture.as_deref()?.to_lowercase()))
}
