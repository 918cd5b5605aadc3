//! A machine as plain values: the result of `detect`, on which all later stages rely.

use std::fmt;

use crate::counter::CounterMask;
use crate::cpuset::CpuSet;
use crate::energy::EnergyZone;
use crate::gpu::Gpus;
use crate::ladder::Ladder;
use crate::pmu::KernelPmu;

/// The properties of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Operating system.
    pub os: Os,
    /// Version of the operating system's kernel (`6.12.107`), if known.
    pub kernel_release: Option<String>,
    /// Instruction set.
    pub architecture: Architecture,
    /// The CPU as sold: vendor, ids, name.
    pub cpu: MachineCpu,
    /// One entry for each core type; hybrids and big.LITTLE have several.
    pub core_types: Vec<CoreType>,
    /// The CPUs that are online.
    pub online: CpuSet,
    /// Whether cores run several hardware threads at once; `None` when unknown.
    #[doc(alias = "hyper-threading")]
    pub smt_active: Option<bool>,
    /// The hypervisor below us: its name or vendor string; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// The kind of container that we run in, if any.
    pub container: Option<String>,
    /// The PMU devices of the kernel.
    pub pmus: Vec<KernelPmu>,
    /// The energy counters of the kernel's power capping.
    pub energy: Vec<EnergyZone>,
    /// The GPUs, as far as they can be found without waking their drivers.
    pub gpus: Gpus,
    /// The rights of this process.
    pub access: AccessRights,
    /// The summary that the C and Python interfaces export.
    pub capabilities: Capabilities,
    /// The state of each source of counts on this machine.
    pub ladder: Ladder,
}

impl Machine {
    /// The core PMUs, one for each core type that the kernel drives.
    pub fn core_pmus(&self) -> impl Iterator<Item = &KernelPmu> {
        self.pmus.iter().filter(|pmu| pmu.is_core())
    }

    /// The major version of Darwin, the kernel of macOS: 24 is that of macOS 15, 25 that of macOS 26. `None`
    /// on other systems, and where the release is not known.
    pub fn darwin_version(&self) -> Option<u32> {
        let release = self.kernel_release.as_ref().filter(|_| self.os == Os::MacOs)?;
        release.split('.').next()?.parse().ok()
    }

    /// The device of that name.
    pub fn pmu(&self, name: &str) -> Option<&KernelPmu> {
        self.pmus.iter().find(|pmu| pmu.name == name)
    }
}

/// Operating systems.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Os {
    /// Linux.
    Linux,
    /// macOS.
    MacOs,
    /// Any other; only the source `os` works.
    Other,
}

impl fmt::Display for Os {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Os::Linux => "Linux",
            Os::MacOs => "macOS",
            Os::Other => "other",
        })
    }
}

/// Instruction sets, as `uname -m` spells them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Architecture {
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
    /// Any other.
    Other,
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
            Architecture::Riscv64 => "riscv64",
            Architecture::Other => "other",
        })
    }
}

/// CPU vendors that make a difference to the PMU.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Vendor {
    /// Intel (`GenuineIntel`).
    Intel,
    /// AMD (`AuthenticAMD`).
    Amd,
    /// Hygon (`HygonGenuine`): a Zen 1 core.
    Hygon,
    /// Apple (MIDR implementer 0x61).
    Apple,
    /// Arm (MIDR implementer 0x41).
    Arm,
    /// Another designer, by its name or id.
    Other(String),
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vendor::Intel => f.write_str("Intel"),
            Vendor::Amd => f.write_str("AMD"),
            Vendor::Hygon => f.write_str("Hygon"),
            Vendor::Apple => f.write_str("Apple"),
            Vendor::Arm => f.write_str("Arm"),
            Vendor::Other(name) => f.write_str(name),
        }
    }
}

/// The ids by which vendors' event files are chosen.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CpuId {
    /// x86: family (with the extended family), model (with the extended model), stepping.
    X86 {
        /// Family, decimal in Intel's map file.
        family: u32,
        /// Model, hexadecimal in Intel's map file.
        model: u32,
        /// Stepping.
        stepping: u32,
    },
    /// Arm: the main id register of the first online CPU.
    #[doc(alias = "MIDR_EL1")]
    Arm {
        /// MIDR_EL1.
        midr: u32,
    },
    /// RISC-V: the three machine ids.
    RiscV {
        /// `mvendorid`.
        mvendorid: u64,
        /// `marchid`.
        marchid: u64,
        /// `mimpid`.
        mimpid: u64,
    },
    /// macOS: `hw.cpufamily`.
    AppleFamily {
        /// `hw.cpufamily`.
        cpufamily: u32,
    },
    /// Unknown ids.
    Unknown,
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CpuId::X86 { family, model, stepping } => {
                write!(f, "family {family} model {model:#04x} stepping {stepping}")
            }
            CpuId::Arm { midr } => write!(f, "MIDR {midr:#010x}"),
            CpuId::RiscV { mvendorid, marchid, mimpid } => {
                write!(f, "mvendorid {mvendorid:#x} marchid {marchid:#x} mimpid {mimpid:#x}")
            }
            CpuId::AppleFamily { cpufamily } => write!(f, "cpufamily {cpufamily:#010x}"),
            CpuId::Unknown => f.write_str("unknown"),
        }
    }
}

/// The CPU of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MachineCpu {
    /// The designer.
    pub vendor: Vendor,
    /// Ids for the event files.
    pub id: CpuId,
    /// The machine's name for it (`Intel(R) Xeon(R) Processor`), if it has one.
    pub name: Option<String>,
}

/// One type of core.
#[derive(Clone, PartialEq, Debug)]
pub struct CoreType {
    /// Id in the manner of Linux's pmu-events folders: `sapphirerapids`, `alderlake/core`,
    /// `neoverse-n1`, `apple-m1`; `None` when the core is not known.
    pub cpu_id: Option<String>,
    /// The name of the microarchitecture: `Golden Cove`, `Zen 4`, `Firestorm`.
    pub microarchitecture: Option<String>,
    /// The online CPUs of this type.
    pub cpus: CpuSet,
    /// The capabilities of its PMU.
    pub pmu: PmuFacts,
    /// The kernel's device for it, if there is one.
    pub kernel_pmu: Option<String>,
}

impl CoreType {
    /// The name of its PMU: the kernel's device, or the core type's id where the kernel has no device.
    pub fn pmu_name(&self) -> &str {
        self.kernel_pmu.as_deref().or(self.cpu_id.as_deref()).unwrap_or("cpu")
    }
}

/// The PMU's properties as reported by the hardware (or the hypervisor).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PmuFacts {
    /// Architectural version: Intel's perfmon version, AMD's PerfMon version, PMUv3's minor version.
    pub version: Option<u32>,
    /// The counters that are seen; holes are possible. Without a general one,
    /// [`known_counters`](PmuFacts::known_counters) has none.
    pub counters: CounterMask,
    /// Width of the general counters in bits; `None` when unknown.
    pub counter_width_bits: Option<u32>,
    /// The event selects and unit masks that general counters count, where only a part of the CPU's tables is
    /// implemented; `None` when unknown.
    pub implemented: Option<Vec<(u16, u8)>>,
    /// The origin of the figures (`CPUID 0xA`), for `doctor`.
    pub source: String,
}

impl PmuFacts {
    /// The counters, if the general ones are known. Facts without general counters are taken for incomplete.
    pub fn known_counters(&self) -> Option<CounterMask> {
        (self.counters.general_bits() != 0).then_some(self.counters)
    }
}

/// The summary of the unified interface.
///
/// # Source
///
/// The capability record of the unified interface that the project implements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Architecture as data: vendor and generation (`intel sapphirerapids`).
    pub architecture: String,
    /// Programmable counters of the first core type.
    pub counter_count: u32,
    /// Fixed counters of the first core type.
    pub fixed_counters: u32,
    /// Counter width in bits; `None` when unknown.
    pub counter_width_bits: Option<u32>,
    /// Whether counters can be read from user space now.
    pub user_mode_access: bool,
    /// Whether register access would need a changed kernel.
    pub needs_kernel_patch: bool,
}

/// The rights of this process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AccessRights {
    /// Whether the effective user is root.
    pub root: bool,
    /// `kernel.perf_event_paranoid`; `None` when the kernel has no perf.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.perf_user_access` (arm64, riscv64).
    pub perf_user_access: Option<i32>,
    /// `kernel.nmi_watchdog`.
    pub nmi_watchdog: Option<bool>,
    /// Effective capabilities that matter, by name (`CAP_PERFMON`, `CAP_SYS_ADMIN`, …).
    pub capabilities: Vec<String>,
    /// Seccomp mode of this process: 0 none, 1 strict, 2 filter.
    pub seccomp: Option<u32>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<i32>,
    /// The tracer of this process, if it has one; a process has at most one.
    pub tracer: Option<ProcessTracer>,
}

/// The tracer of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ProcessTracer {
    /// The software PMU: this process is translated and counted.
    SoftwarePmu,
    /// Another program, such as a debugger.
    Other {
        /// Its process id.
        pid: u32,
        /// Its name, if the kernel reports it.
        name: Option<String>,
    },
}

impl fmt::Display for ProcessTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessTracer::SoftwarePmu => f.write_str("the software PMU"),
            ProcessTracer::Other { pid, name: Some(name) } => write!(f, "{name} (process {pid})"),
            ProcessTracer::Other { pid, name: None } => write!(f, "process {pid}"),
        }
    }
}

impl AccessRights {
    /// Whether perf's restrictions are lifted, by root's, CAP_PERFMON's or CAP_SYS_ADMIN's rights.
    pub fn perfmon_capable(&self) -> bool {
        self.capabilities.iter().any(|c| c == "CAP_PERFMON" || c == "CAP_SYS_ADMIN")
    }
}
