//! Where facts come from.

use cyclometer_core::machine::{Architecture, Os};
use cyclometer_core::nvml::NvmlObstacle;
pub use cyclometer_sys::macos::KpcCounters;
use cyclometer_sys::tracer_call::TracerCall;

/// The longest file that is read, in bytes; what is longer is cut at the last full line.
///
/// `/proc/cpuinfo` of a large server has about 1.5 KiB for each CPU.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// The longest directory that is read, in entries.
pub(crate) const MAX_ENTRIES: usize = 4096;

/// One try to open a counting event with `perf_event_open(2)`; it is closed at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PerfProbe {
    /// `perf_event_attr.type`.
    pub pmu_type: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// Leave user mode out.
    pub exclude_user: bool,
    /// Leave kernel mode out.
    pub exclude_kernel: bool,
    /// 0 for the calling process, -1 for every process.
    pub pid: i32,
    /// CPU number, or -1 for every CPU.
    pub cpu: i32,
}

/// Why the software PMU cannot trace a process here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceRefusal {
    /// A system call that it needs was refused.
    Call {
        /// The system call.
        call: TracerCall,
        /// The error number, in Linux's numbering.
        errno: i32,
    },
    /// Another process traces what starts here.
    Traced {
        /// Its process id.
        by: u32,
    },
}

/// A source of facts about one machine.
///
/// Answers are bounded, and asking twice gives the same answer.
pub trait FactSource {
    /// The operating system.
    fn os(&self) -> Os;

    /// The instruction set of the kernel.
    fn architecture(&self) -> Architecture;

    /// The release of the kernel (`6.12.107`), if known.
    fn kernel_release(&self) -> Option<String>;

    /// The effective user id; `None` where there are no user ids.
    fn euid(&self) -> Option<u32>;

    /// How many CPUs there are, for systems that list them nowhere; at least 1.
    fn online_cpu_count(&self) -> u32;

    /// The text of a file, at most 1 MiB, without line breaks at its end; `None` when it cannot be read.
    ///
    /// Bytes that are no UTF-8 become U+FFFD.
    fn read(&self, path: &str) -> Option<String>;

    /// The bytes of a file, at most 1 MiB; `None` when it cannot be read or is longer.
    fn read_bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.read(path).map(String::into_bytes)
    }

    /// The names in a directory, sorted, at most 4096; empty when it cannot be read.
    fn list(&self, dir: &str) -> Vec<String>;

    /// EAX, EBX, ECX, EDX of a `CPUID` leaf, on one CPU or (with `None`) on any.
    ///
    /// `None` when there is no such instruction, or that CPU cannot be asked.
    fn cpuid(&self, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]>;

    /// A `sysctl` of macOS by name, numbers in decimal; `None` when there is none.
    fn sysctl(&self, name: &str) -> Option<String>;

    /// Whether the kernel opens an event.
    ///
    /// # Errors
    ///
    /// The error number of `perf_event_open(2)`, in Linux's numbering.
    fn perf_probe(&self, probe: &PerfProbe) -> Result<(), i32>;

    /// Whether one process may trace another that agrees to it, as the software PMU does, with each system
    /// call that it needs. Tried for real, by two short-lived processes.
    ///
    /// # Errors
    ///
    /// The first thing that was refused.
    fn trace_probe(&self) -> Result<(), TraceRefusal>;

    /// Whether the software PMU runs this process. Asked of whatever traces it, which changes nothing; only
    /// where something does.
    fn is_counted_by_software(&self) -> bool;

    /// Whether user mode may use the registers of Apple's PMU. Tried for real, by one read on one of Apple's
    /// cores, whose refusal is caught; on any other core nothing is tried.
    ///
    /// # Errors
    ///
    /// An error number in Linux's numbering: `EOPNOTSUPP` when the CPU refuses, `ENODEV` when it is none of
    /// Apple's.
    fn sysreg_probe(&self) -> Result<(), i32>;

    /// The accounts of counters that macOS keeps for threads and processes; `None` on other systems. Found
    /// out on this thread and process, which changes nothing.
    fn counter_accounts(&self) -> Option<AccountFacts>;

    /// The configurable counters of macOS's kperf. Tried for real: all counters are requested, and released.
    ///
    /// # Errors
    ///
    /// An error number: `ENOENT` without the framework, `EPERM` without root, `EBUSY` while another client of
    /// the kernel has the PMU.
    fn kpc_probe(&self) -> Result<KpcCounters, i32>;

    /// The driver and the devices that NVIDIA's management library lists. Asking may wake devices, and is
    /// limited in time.
    ///
    /// # Errors
    ///
    /// Why the library gave no answer.
    fn nvml_probe(&self) -> Result<NvmlFacts, NvmlObstacle>;
}

/// The driver and the devices that NVIDIA's management library lists.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NvmlFacts {
    /// The version of the driver.
    pub driver: String,
    /// Name (`nvidia0`, `nvidia0-mig1`) and model of each device, MIG instances behind their device.
    pub devices: Vec<(String, String)>,
}

/// Which accounts of counters the system has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountFacts {
    /// Those of processes; `None` without the function or when it fails.
    pub process: Option<ProcessAccounts>,
    /// Whether there are those of the calling thread.
    pub thread: bool,
    /// Whether this process has cycles and instructions in its account: without counters they are 0.
    pub counts: bool,
}

/// Which numbers are in the accounts of processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessAccounts {
    /// Cycles and instructions (before macOS 13).
    Totals,
    /// Also the shares of performance cores, and energy.
    ByCoreType,
}
