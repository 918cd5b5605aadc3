//! The source order: the sources of counts from best to always available, and the state of each on this
//! machine.

use std::fmt;

/// A source of counts; `auto` takes the best one that works, event by event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Rung {
    /// Linux's `perf_event_open`: the hardware PMU, kernel software events and dynamic PMUs.
    Perf,
    /// macOS's private kperf frameworks.
    Kperf,
    /// x86 model-specific registers, written by the tool itself; only on request.
    Msr,
    /// Apple's PMU system registers, written by the tool itself; only on request.
    Sysreg,
    /// macOS without root: `thread_selfcounts` and `proc_pid_rusage`.
    SelfCounts,
    /// The software PMU: the program runs under translation and is counted exactly.
    Soft,
    /// Clocks and accounting of the operating system; always available.
    Os,
    /// The drivers of GPUs: NVIDIA's management library and the files of amdgpu.
    Gpu,
    /// The registers of a simulated chip; only on a simulated machine, which has no other.
    Sim,
}

impl Rung {
    /// Every source of a real machine, best first.
    pub const ALL: [Rung; 8] =
        [Rung::Perf, Rung::Kperf, Rung::Msr, Rung::Sysreg, Rung::SelfCounts, Rung::Soft, Rung::Os, Rung::Gpu];

    /// The word used for `--backend` and in every output.
    pub fn word(self) -> &'static str {
        match self {
            Rung::Perf => "perf",
            Rung::Kperf => "kperf",
            Rung::Msr => "msr",
            Rung::Sysreg => "sysreg",
            Rung::SelfCounts => "selfcounts",
            Rung::Soft => "soft",
            Rung::Os => "os",
            Rung::Gpu => "gpu",
            Rung::Sim => "sim",
        }
    }

    /// A one-line description of the source.
    pub fn title(self) -> &'static str {
        match self {
            Rung::Perf => "hardware PMU through Linux perf_event",
            Rung::Kperf => "hardware PMU through macOS kperf",
            Rung::Msr => "x86 PMU registers through the msr driver",
            Rung::Sysreg => "Apple PMU registers from user space",
            Rung::SelfCounts => "macOS cycles and instructions without root",
            Rung::Soft => "software PMU: exact counts by translation",
            Rung::Os => "clocks and accounting of the operating system",
            Rung::Gpu => "GPUs through NVIDIA's NVML and amdgpu's files",
            Rung::Sim => "registers of a simulated chip",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The state of one source on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RungState {
    /// The source.
    pub rung: Rung,
    /// Whether it works.
    pub works: Works,
    /// Why it does not work, works in part, or has limits although it works; empty when it is complete.
    pub causes: Vec<Cause>,
}

/// Whether a source works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Works {
    /// Everything that it offers.
    Yes,
    /// In part; the causes say what is missing.
    Partly,
    /// Not at all; the causes say why.
    No,
    /// It belongs to another operating system or architecture.
    NotHere,
    /// This version of the program does not have it.
    NotBuilt,
}

impl Works {
    /// The word used in `doctor`.
    pub fn word(self) -> &'static str {
        match self {
            Works::Yes => "works",
            Works::Partly => "partly",
            Works::No => "no",
            Works::NotHere => "not on this system",
            Works::NotBuilt => "not in this version",
        }
    }
}

/// One reason why a source does not work completely.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cause {
    /// The kind of reason, for programs.
    pub kind: CauseKind,
    /// The reason in words, with the value found (`kernel.perf_event_paranoid is 3`).
    pub text: String,
    /// The one command that is the remedy; `None` when no command is.
    pub mend: Option<String>,
}

impl Cause {
    /// A reason without a remedy.
    pub fn new(kind: CauseKind, text: impl Into<String>) -> Cause {
        Cause { kind, text: text.into(), mend: None }
    }
}

/// Kinds of reason why a source does not work. They are distinct because each has another remedy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CauseKind {
    /// The kernel's settings or our rights forbid it.
    NoPermission,
    /// The hypervisor passes no PMU on to this virtual machine.
    NoVirtualPmu,
    /// The machine has no PMU that the kernel drives.
    NoPmu,
    /// The hypervisor offers a PMU but filters events.
    HypervisorFilter,
    /// The CPU is unknown to the kernel or to the tool.
    UnknownCpu,
    /// Another program or driver holds the PMU.
    HeldByAnother,
    /// The NMI watchdog takes one counter.
    NmiWatchdog,
    /// A seccomp filter forbids the system call.
    Seccomp,
    /// The source needs root.
    NotRoot,
    /// The kernel was built without support.
    NotInKernel,
    /// Counters cannot be read from user space.
    NoUserAccess,
    /// The PMU cannot separate modes: its counts include the kernel.
    NoModeFilter,
    /// `/proc` is missing, or shows the processes of another PID namespace.
    NoProcessList,
    /// The limit on the size of files (`RLIMIT_FSIZE`) is too low, and may not be raised.
    FileSizeLimit,
    /// The limit on private memory or addresses is too low.
    MemoryLimit,
    /// The tool's configuration does not list the machine.
    Configuration,
    /// The machine has no such device.
    NoDevice,
    /// The device has no driver that answers.
    NoDriver,
    /// The device does not report the quantity.
    UnsupportedByDevice,
    /// The library of the driver cannot be opened.
    NoLibrary,
    /// Versions of a driver and its library do not fit together.
    VersionMismatch,
    /// The driver does not answer, or reports a fault of the device.
    DriverFault,
    /// Other operating system or architecture.
    OtherSystem,
    /// Not in this version of the program.
    NotBuilt,
}

impl CauseKind {
    /// The word used in `doctor --json`.
    pub fn word(self) -> &'static str {
        match self {
            CauseKind::NoPermission => "no_permission",
            CauseKind::NoVirtualPmu => "no_virtual_pmu",
            CauseKind::NoPmu => "no_pmu",
            CauseKind::HypervisorFilter => "hypervisor_filter",
            CauseKind::UnknownCpu => "unknown_cpu",
            CauseKind::HeldByAnother => "held_by_another",
            CauseKind::NmiWatchdog => "nmi_watchdog",
            CauseKind::Seccomp => "seccomp",
            CauseKind::NotRoot => "not_root",
            CauseKind::NotInKernel => "not_in_kernel",
            CauseKind::NoUserAccess => "no_user_access",
            CauseKind::NoModeFilter => "no_mode_filter",
            CauseKind::NoProcessList => "no_process_list",
            CauseKind::FileSizeLimit => "file_size_limit",
            CauseKind::MemoryLimit => "memory_limit",
            CauseKind::Configuration => "configuration",
            CauseKind::NoDevice => "no_device",
            CauseKind::NoDriver => "no_driver",
            CauseKind::UnsupportedByDevice => "unsupported_by_device",
            CauseKind::NoLibrary => "no_library",
            CauseKind::VersionMismatch => "version_mismatch",
            CauseKind::DriverFault => "driver_fault",
            CauseKind::OtherSystem => "other_system",
            CauseKind::NotBuilt => "not_built",
        }
    }
}

/// Every source with its state, best first, and what perf offers by class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder {
    /// The sources, best first.
    pub rungs: Vec<RungState>,
    /// Whether perf counts hardware events; else why not.
    pub perf_hardware: Result<(), Cause>,
    /// Whether perf counts kernel software events; else why not.
    pub perf_software: Result<(), Cause>,
    /// Whether perf may count in kernel mode; else why not.
    pub perf_kernel_mode: Result<(), Cause>,
    /// Whether perf may count whole CPUs; else why not.
    pub perf_cpu_wide: Result<(), Cause>,
}

impl Ladder {
    /// The state of one source.
    pub fn state(&self, rung: Rung) -> Option<&RungState> {
        self.rungs.iter().find(|state| state.rung == rung)
    }

    /// Whether this is a machine for the source, even if it does not work there now.
    pub fn suits(&self, rung: Rung) -> bool {
        self.state(rung).is_some_and(|state| !matches!(state.works, Works::NotHere | Works::NotBuilt))
    }

    /// Whether a source works, otherwise the reason; `missing` is that of a source which the machine lacks.
    ///
    /// # Errors
    ///
    /// The text of the first cause.
    pub fn check(&self, rung: Rung, missing: &str) -> Result<(), String> {
        let state = self.state(rung).ok_or_else(|| missing.to_owned())?;
        match state.works {
            Works::Yes | Works::Partly => Ok(()),
            works => {
                Err(state.causes.first().map_or_else(|| works.word().to_owned(), |cause| cause.text.clone()))
            }
        }
    }
}
