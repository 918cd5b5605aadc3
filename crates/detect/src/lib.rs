//! Facts about a machine, live or replayed, turned into a [`Machine`] and its ladder.
//!
//! Everything that detection knows comes through a [`FactSource`]: the host ([`HostFacts`]), a text file
//! ([`RecordedFacts`]), or either of them while it is being written down ([`FactRecorder`]). [`detect`]
//! itself does no I/O, never fails and never panics: what cannot be found out stays unknown.
//!
//! ```
//! use cyclometer_detect::{HostFacts, FactRecorder, RecordedFacts, detect};
//!
//! let recorder = FactRecorder::new(&HostFacts);
//! let here = detect(&recorder);
//! let replayed = RecordedFacts::parse(&recorder.to_text("recorded: an example"))?;
//! assert_eq!(detect(&replayed), here);
//! # Ok::<(), cyclometer_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod access;
mod amd;
mod apple;
mod arm;
mod caches;
mod capabilities;
mod container;
mod cores;
mod cpuid;
mod detected;
mod energy;
mod facts;
mod gpu;
mod host;
mod hypervisor;
mod intel;
mod ladder;
mod pmus;
mod probes;
mod process_list;
mod recorded;
mod recorder;
mod riscv;
mod text;
mod tlbs;
mod x86;

use cyclometer_core::CpuSet;
use cyclometer_core::machine::{Architecture, Machine, Os};

pub use apple::with_power_counters;
pub use caches::cache_geometry;
pub use cyclometer_sys::tracer_call::TracerCall;
pub use facts::{AccountFacts, FactSource, KpcCounters, NvmlFacts, PerfProbe, ProcessAccounts, TraceRefusal};
pub use host::HostFacts;
pub use recorded::RecordedFacts;
pub use recorder::FactRecorder;
pub use tlbs::tlb_geometry;

/// Finds out what machine this is, what its PMU has, what we may do, and how each source of counts fares.
///
/// Never fails: what the facts do not tell is `None`, empty or unknown in the result.
pub fn detect(facts: &dyn FactSource) -> Machine {
    detect_with(facts, DetectionDepth::Diagnosis)
}

/// The same without NVIDIA's management library, which may wake devices.
pub fn detect_without_nvml(facts: &dyn FactSource) -> Machine {
    detect_with(facts, DetectionDepth::Everything)
}

/// The same for a session that is about to count: what costs time is not asked where a better source works.
///
/// Then the software PMU counts as working unless a setting forbids it: trying costs two processes. Nor is it
/// tried where another process traces this one, as what traces could be disturbed: then starting a command
/// tells. And where all processes may be counted on a CPU, one is not tried.
pub fn detect_for_counting(facts: &dyn FactSource) -> Machine {
    detect_with(facts, DetectionDepth::WhatCounts)
}

/// The same for a program that counts its own regions. The software PMU counts these only where it runs the
/// program already, so that tracing is never tried: a program that it runs and that traces is not counted any
/// more.
pub fn detect_for_regions(facts: &dyn FactSource) -> Machine {
    detect_with(facts, DetectionDepth::Regions)
}

/// How much is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DetectionDepth {
    /// Everything.
    Diagnosis,
    /// Everything but questions to drivers of GPUs.
    Everything,
    /// Only the facts that the best working source needs.
    WhatCounts,
    /// The facts that regions of this program need.
    Regions,
}

impl DetectionDepth {
    /// Whether every source is tried, and not only those on which a decision depends.
    pub(crate) fn tries_all(self) -> bool {
        matches!(self, DetectionDepth::Diagnosis | DetectionDepth::Everything)
    }
}

fn detect_with(facts: &dyn FactSource, depth: DetectionDepth) -> Machine {
    let online = online_cpus(facts);
    let hypervisor = hypervisor::detect(facts);
    let pmus = pmus::detect(facts);
    let access = access::detect(facts);
    let mut found = cores::detect(facts, &online, &pmus, hypervisor.is_some());
    cores::attach_kernel_pmus(&mut found.core_types, &pmus);
    let mut machine = Machine {
        os: facts.os(),
        kernel_release: facts.kernel_release().map(|release| text::clean(&release)),
        architecture: facts.architecture(),
        cpu: found.cpu,
        core_types: found.core_types,
        online,
        smt_active: smt_active(facts),
        hypervisor,
        container: container::detect(facts),
        pmus,
        energy: energy::detect(facts),
        gpus: gpu::detect(facts, depth),
        access,
        capabilities: capabilities::unknown(),
        ladder: ladder::empty(),
    };
    let probes = probes::run(facts, &machine, depth);
    if let Some(Ok(counters)) = probes.kpc {
        apple::limit_to_offered(&mut machine.core_types, counters);
    }
    if let Some(Ok(found)) = &probes.nvml {
        gpu::with_nvml(&mut machine.gpus, found);
    }
    machine.ladder = ladder::build(&machine, &probes);
    machine.capabilities = capabilities::summarise(&machine);
    machine
}

/// The CPUs that are online; as many as the system says it has where nothing lists them.
fn online_cpus(facts: &dyn FactSource) -> CpuSet {
    let listed = match facts.os() {
        Os::Linux => text::cpu_list(facts, "/sys/devices/system/cpu/online"),
        Os::MacOs => text::sysctl_number(facts, "hw.logicalcpu").map(first_cpus),
        _ => None,
    };
    listed
        .filter(|cpus| !cpus.is_empty())
        .unwrap_or_else(|| first_cpus(facts.online_cpu_count().max(1).into()))
}

/// Whether the kernel runs more than one thread on a core.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-devices-system-cpu`, `/sys/devices/system/cpu/smt/active`.
fn smt_active(facts: &dyn FactSource) -> Option<bool> {
    match facts.read("/sys/devices/system/cpu/smt/active")?.trim() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn first_cpus(count: u64) -> CpuSet {
    (0..count.min(cyclometer_core::cpuset::CPU_LIMIT.into()) as u32).collect()
}

/// Whether the instruction set is one whose `CPUID` instruction tells about the CPU.
fn has_cpuid(facts: &dyn FactSource) -> bool {
    facts.architecture() == Architecture::X86_64
}
