//! The events that the kernel opens when asked, class by class.

use cyclometer_core::machine::{Architecture, Machine, Os, ProcessTracer, Vendor};
use cyclometer_core::nvml::NvmlObstacle;
use cyclometer_core::pmu::KernelPmu;
use cyclometer_sys::process_list::ProcessList;

use crate::facts::{AccountFacts, FactSource, KpcCounters, NvmlFacts, PerfProbe, TraceRefusal};
use crate::process_list;
use crate::{DetectionDepth, text};

/// `PERF_TYPE_HARDWARE`; its event 0 is `PERF_COUNT_HW_CPU_CYCLES`.
///
/// # Source
///
/// `include/uapi/linux/perf_event.h`, as the other numbers here.
const TYPE_HARDWARE: u32 = 0;
/// `PERF_TYPE_SOFTWARE`.
const TYPE_SOFTWARE: u32 = 1;
/// `PERF_COUNT_SW_CPU_CLOCK`.
const CPU_CLOCK: u64 = 0;
/// `PERF_COUNT_SW_TASK_CLOCK`.
const TASK_CLOCK: u64 = 1;

/// Error numbers of Linux that tell causes apart; the same on all its 64-bit architectures that we know.
pub(crate) mod errno {
    /// Not permitted: seccomp, or no capability.
    pub(crate) const EPERM: i32 = 1;
    /// No such event.
    pub(crate) const ENOENT: i32 = 2;
    /// Out of memory.
    pub(crate) const ENOMEM: i32 = 12;
    /// Access denied: `perf_event_paranoid` or a security module.
    pub(crate) const EACCES: i32 = 13;
    /// Held by another.
    pub(crate) const EBUSY: i32 = 16;
    /// No such device.
    pub(crate) const ENODEV: i32 = 19;
    /// Invalid argument: an exclude bit that the PMU cannot do.
    pub(crate) const EINVAL: i32 = 22;
    /// No such system call.
    pub(crate) const ENOSYS: i32 = 38;
    /// Not supported by the driver.
    pub(crate) const EOPNOTSUPP: i32 = 95;
}

/// The answers of the kernel about access to each source, or conclusions from them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AccessProbes {
    /// A software event, user mode only.
    pub(crate) software: Result<(), i32>,
    /// A software event with kernel mode.
    pub(crate) kernel_mode: Result<(), i32>,
    /// A software event for every process on one CPU.
    pub(crate) cpu_wide: Result<(), i32>,
    /// Cycles, for each core PMU; one unnamed entry when the kernel shows no core PMU.
    pub(crate) hardware: Vec<HardwareProbe>,
    /// The depth of the detection.
    pub(crate) depth: DetectionDepth,
    /// Whether a process may be traced; `None` when nobody asked.
    pub(crate) trace: Option<Result<(), TraceRefusal>>,
    /// Whose processes `/proc` shows.
    pub(crate) processes: ProcessList,
    /// Facts about access to registers; `None` elsewhere than on Linux on x86-64.
    pub(crate) registers: Option<RegisterFacts>,
    /// The kernel is one of x86-64, though this program is not of that architecture.
    pub(crate) kernel_is_x86_64: bool,
    /// Apple's registers; `None` on machines that cannot have them.
    pub(crate) sysreg: Option<SysregProbe>,
    /// Accounts of counters; `None` on other systems than macOS.
    pub(crate) accounts: Option<AccountFacts>,
    /// kperf's counters; `None` where kperf is not asked: off macOS, without root, in a virtual machine.
    pub(crate) kpc: Option<Result<KpcCounters, i32>>,
    /// NVML; `None` where it is not asked, as it may wake devices.
    pub(crate) nvml: Option<Result<NvmlFacts, NvmlObstacle>>,
}

/// How Apple's registers are kept from user mode, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SysregProbe {
    /// Whether user mode may use them now.
    pub(crate) outcome: Result<(), i32>,
    /// The module that opens them is loaded (Linux).
    pub(crate) module: bool,
    /// The kernel is locked down, so that the module opens nothing (Linux).
    pub(crate) lockdown: bool,
}

/// The kernel's answer about its `msr` driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RegisterFacts {
    /// The first CPU has a device.
    pub(crate) has_device: bool,
    /// `none [integrity] confidentiality`; `None` where the kernel does not tell.
    pub(crate) lockdown: Option<String>,
    /// `on`, `off` or `default`; `None` where the kernel does not tell, or not us.
    pub(crate) allow_writes: Option<String>,
}

impl RegisterFacts {
    /// Asks, without opening a device.
    ///
    /// # Source
    ///
    /// `msr(4)`; `kernel_lockdown(7)`; Linux `arch/x86/kernel/msr.c`, module parameter `allow_writes`.
    fn ask(facts: &dyn FactSource, first_cpu: i32) -> RegisterFacts {
        RegisterFacts {
            has_device: facts.list(&format!("/dev/cpu/{first_cpu}")).iter().any(|name| name == "msr"),
            lockdown: text::line(facts, "/sys/kernel/security/lockdown"),
            allow_writes: text::line(facts, "/sys/module/msr/parameters/allow_writes"),
        }
    }
}

/// Whether a core PMU counts cycles for a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HardwareProbe {
    /// The device; `None` when the kernel shows none.
    pub(crate) device: Option<String>,
    /// Whether the user-mode count opens.
    pub(crate) outcome: Result<(), i32>,
    /// Whether it opens with every mode, when the PMU refused to leave modes out.
    pub(crate) every_mode: Option<Result<(), i32>>,
}

impl HardwareProbe {
    /// Whether it counts at all.
    pub(crate) fn works(&self) -> bool {
        self.outcome.is_ok() || self.every_mode == Some(Ok(()))
    }
}

/// Asks the kernel; off Linux every answer is "no such system call", without asking.
///
/// # Source
///
/// Linux `kernel/events/core.c` and `include/linux/perf_event.h`: an event of all processes on a CPU needs a
/// `perf_event_paranoid` of 0 or less, or `CAP_PERFMON`; one of kernel mode 1; one of a process's user mode
/// nothing (2 in some distributions). `account_event` waits for all CPUs (5 to 20 ms) where no process has
/// had an event for a second.
pub(crate) fn run(facts: &dyn FactSource, machine: &Machine, depth: DetectionDepth) -> AccessProbes {
    let x86 = machine.architecture == Architecture::X86_64;
    let sysreg = sysreg(facts, machine);
    if machine.os != Os::Linux {
        let none = Err(errno::ENOSYS);
        return AccessProbes {
            software: none,
            kernel_mode: none,
            cpu_wide: none,
            hardware: Vec::new(),
            depth,
            trace: None,
            processes: ProcessList::Own,
            registers: None,
            kernel_is_x86_64: x86,
            sysreg,
            accounts: facts.counter_accounts(),
            kpc: asks_kpc(machine).then(|| facts.kpc_probe()),
            nvml: None,
        };
    }
    let task_clock = user_only(TYPE_SOFTWARE, TASK_CLOCK);
    let first_cpu = machine.online.iter().next().and_then(|cpu| i32::try_from(cpu).ok()).unwrap_or(0);
    let cpu_wide = PerfProbe { pid: -1, cpu: first_cpu, ..user_only(TYPE_SOFTWARE, CPU_CLOCK) };
    let cpu_wide = facts.perf_probe(&cpu_wide);
    let hardware = hardware(facts, machine);
    let counts = hardware.iter().any(HardwareProbe::works);
    // A user who may count every process on a CPU may count one, in all modes, unless a security module tells
    // those apart: then opening the event says so. The first event of a process after a second without one is
    // dear.
    let implied = !depth.tries_all() && cpu_wide.is_ok();
    let ask = |probe: PerfProbe| if implied { Ok(()) } else { facts.perf_probe(&probe) };
    AccessProbes {
        software: ask(task_clock),
        kernel_mode: ask(PerfProbe { exclude_kernel: false, ..task_clock }),
        cpu_wide,
        hardware,
        depth,
        trace: (x86 && tries_tracing(depth, machine.access.tracer.as_ref(), counts))
            .then(|| facts.trace_probe()),
        processes: process_list::ask(facts),
        registers: x86.then(|| RegisterFacts::ask(facts, first_cpu)),
        kernel_is_x86_64: x86 || is_x86_64(facts, machine),
        sysreg,
        accounts: None,
        kpc: None,
        nvml: asks_nvml(machine, depth).then(|| facts.nvml_probe().map_err(fit_to_be_shown)),
    }
}

/// An obstacle whose reason, which is the dynamic linker's, has no control characters.
fn fit_to_be_shown(obstacle: NvmlObstacle) -> NvmlObstacle {
    match obstacle {
        NvmlObstacle::NoLibrary(reason) => NvmlObstacle::NoLibrary(text::clean(&reason)),
        other => other,
    }
}

/// Whether kperf is asked: it answers root alone, and a virtual machine has no configurable counters.
fn asks_kpc(machine: &Machine) -> bool {
    machine.os == Os::MacOs
        && machine.cpu.vendor == Vendor::Apple
        && machine.access.root
        && machine.hypervisor.is_none()
}

/// Whether NVML is asked: for a diagnosis, on a machine whose driver can be reached.
fn asks_nvml(machine: &Machine, depth: DetectionDepth) -> bool {
    depth == DetectionDepth::Diagnosis && machine.gpus.nvidia_nodes
}

/// Whether tracing is tried, which forks: only where a decision depends on it, and never by a program that
/// the software PMU counts, which detaches from programs that trace.
fn tries_tracing(depth: DetectionDepth, tracer: Option<&ProcessTracer>, hardware_counts: bool) -> bool {
    match (depth, tracer) {
        (_, Some(ProcessTracer::SoftwarePmu)) | (DetectionDepth::Regions, _) => false,
        (DetectionDepth::Diagnosis | DetectionDepth::Everything, _) => true,
        (DetectionDepth::WhatCounts, tracer) => tracer.is_none() && !hardware_counts,
    }
}

/// Asks for Apple's registers, on Apple's machines without a hypervisor, which passes none of them on.
///
/// # Source
///
/// `kernel/apple-pmu/apple_pmu_el0.c`: the device's name.
fn sysreg(facts: &dyn FactSource, machine: &Machine) -> Option<SysregProbe> {
    let has_them = machine.cpu.vendor == Vendor::Apple
        && machine.hypervisor.is_none()
        && machine.architecture == Architecture::Aarch64;
    has_them.then(|| {
        let module = facts.read("/sys/class/misc/apple_pmu_el0/dev").is_some();
        // Without the module nothing can have opened them under Linux, so nothing is tried.
        let asks = module || machine.os == Os::MacOs;
        let outcome = if asks { facts.sysreg_probe() } else { Err(errno::EOPNOTSUPP) };
        SysregProbe { outcome, module, lockdown: is_locked_down(facts) }
    })
}

/// Whether root, too, is kept from the kernel's memory and registers.
///
/// # Source
///
/// Linux `security/lockdown/lockdown.c`: the level in force stands in brackets, and the lowest is `none`.
fn is_locked_down(facts: &dyn FactSource) -> bool {
    let levels = facts.read("/sys/kernel/security/lockdown");
    levels.is_some_and(|levels| levels.contains('[') && !levels.contains("[none]"))
}

/// The kernel's name for itself, where this program is of an architecture that we have no name for.
///
/// # Source
///
/// Linux `Documentation/admin-guide/sysctl/kernel.rst`, `arch` (6.1).
fn is_x86_64(facts: &dyn FactSource, machine: &Machine) -> bool {
    let unknown = machine.architecture == Architecture::Other;
    unknown && text::line(facts, "/proc/sys/kernel/arch").as_deref() == Some("x86_64")
}

fn user_only(pmu_type: u32, config: u64) -> PerfProbe {
    PerfProbe { pmu_type, config, exclude_user: false, exclude_kernel: true, pid: 0, cpu: -1 }
}

/// One probe for each core PMU. With several, generic events would bind one of them at the kernel's whim,
/// so each is asked for its own cycles.
fn hardware(facts: &dyn FactSource, machine: &Machine) -> Vec<HardwareProbe> {
    let devices: Vec<&KernelPmu> = machine.core_pmus().collect();
    let generic = user_only(TYPE_HARDWARE, 0);
    match devices.as_slice() {
        [] => vec![try_cycles(facts, None, generic)],
        [device] => vec![try_cycles(facts, Some(device), generic)],
        several => {
            let cycles = cycles_code(&machine.cpu.vendor);
            let own = |device: &KernelPmu| user_only(device.pmu_type, cycles);
            several.iter().map(|device| try_cycles(facts, Some(device), own(device))).collect()
        }
    }
}

fn try_cycles(facts: &dyn FactSource, device: Option<&KernelPmu>, probe: PerfProbe) -> HardwareProbe {
    let outcome = facts.perf_probe(&probe);
    let every_mode = match outcome {
        Err(errno::EINVAL | errno::EOPNOTSUPP) => {
            Some(facts.perf_probe(&PerfProbe { exclude_kernel: false, ..probe }))
        }
        _ => None,
    };
    HardwareProbe { device: device.map(|device| device.name.clone()), outcome, every_mode }
}

/// The raw code of cycles, for CPUs with several core PMUs.
///
/// # Source
///
/// Intel SDM volume 3B, architectural event UnHalted Core Cycles; Linux `drivers/perf/apple_m1_cpu_pmu.c`,
/// `M1_PMU_PERFCTR_CORE_ACTIVE_CYCLE`; Arm ARM, PMUv3 event CPU_CYCLES.
fn cycles_code(vendor: &Vendor) -> u64 {
    match vendor {
        Vendor::Intel => 0x3c,
        Vendor::Apple => 0x02,
        _ => 0x11,
    }
}
