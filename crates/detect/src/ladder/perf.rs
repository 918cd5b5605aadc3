//! The perf source: the events that the kernel refuses, the reason, and the remedy.

use cyclometer_core::ladder::{Cause, CauseKind, Rung, RungState, Works};
use cyclometer_core::machine::{Architecture, Machine, Os, Vendor};

use super::{cause, mended, virtual_pmu};
use crate::capabilities::user_reads_are_on;
use crate::probes::{AccessProbes, HardwareProbe, errno};

/// Name of the setting that restricts perf.
const PARANOID: &str = "kernel.perf_event_paranoid";

/// The highest `perf_event_paranoid` at which an unprivileged user may do something.
///
/// # Source
///
/// `Documentation/admin-guide/sysctl/kernel.rst`, `perf_event_paranoid`; 3 and 4 are patches of Debian,
/// Ubuntu and Android that refuse everything.
#[derive(Clone, Copy)]
enum PrivilegeNeed {
    User = 2,
    Kernel = 1,
    WholeCpus = 0,
}

/// A machine and the answers of its kernel.
pub(super) struct PerfFindings<'a> {
    machine: &'a Machine,
    probes: &'a AccessProbes,
}

impl<'a> PerfFindings<'a> {
    pub(super) fn new(machine: &'a Machine, probes: &'a AccessProbes) -> PerfFindings<'a> {
        PerfFindings { machine, probes }
    }

    /// The state of the source. It does not work when no event opens. It works partly when hardware events do
    /// not open, or not for user mode alone, which the default events need.
    pub(super) fn rung(&self) -> RungState {
        let (works, causes) = match self.refused_as_a_whole() {
            Some((works, cause)) => (works, vec![cause]),
            None => {
                let refused: Vec<Cause> =
                    self.hardware_causes().into_iter().chain(self.modes_together()).collect();
                let works = if refused.is_empty() { Works::Yes } else { Works::Partly };
                (works, refused.into_iter().chain(self.limits()).collect())
            }
        };
        RungState { rung: Rung::Perf, works, causes }
    }

    /// Whether hardware events count on at least one core type.
    pub(super) fn hardware(&self) -> Result<(), Cause> {
        if let Some((_, cause)) = self.refused_as_a_whole() {
            return Err(cause);
        }
        if self.probes.hardware.iter().any(HardwareProbe::works) {
            return Ok(());
        }
        if let Some(hypervisor) = self.machine.hypervisor.as_ref().filter(|_| self.lacks_a_core_pmu()) {
            let text = format!("no PMU in this virtual machine ({hypervisor})");
            return Err(cause(CauseKind::NoVirtualPmu, text));
        }
        let first = self.hardware_causes().into_iter().next();
        Err(first.unwrap_or_else(|| cause(CauseKind::NoPmu, "no core PMU")))
    }

    fn lacks_a_core_pmu(&self) -> bool {
        self.probes.hardware.iter().all(|probe| probe.device.is_none())
    }

    pub(super) fn software(&self) -> Result<(), Cause> {
        self.class(self.probes.software, PrivilegeNeed::User)
    }

    pub(super) fn kernel_mode(&self) -> Result<(), Cause> {
        self.class(self.probes.kernel_mode, PrivilegeNeed::Kernel)
    }

    pub(super) fn cpu_wide(&self) -> Result<(), Cause> {
        self.class(self.probes.cpu_wide, PrivilegeNeed::WholeCpus)
    }

    fn class(&self, outcome: Result<(), i32>, need: PrivilegeNeed) -> Result<(), Cause> {
        if let Some((_, cause)) = self.refused_as_a_whole() {
            return Err(cause);
        }
        outcome.map_err(|errno| self.refusal(errno, need))
    }

    /// Why nothing of perf works, if so: no kernel support, or even a software event is refused.
    fn refused_as_a_whole(&self) -> Option<(Works, Cause)> {
        if self.machine.os != Os::Linux {
            return Some((Works::NotHere, cause(CauseKind::OtherSystem, "perf belongs to Linux")));
        }
        if self.machine.access.perf_event_paranoid.is_none() && self.probes.software.is_err() {
            let text = "the kernel has no perf (there is no /proc/sys/kernel/perf_event_paranoid)";
            return Some((Works::No, cause(CauseKind::NotInKernel, text)));
        }
        let any_hardware = self.probes.hardware.iter().any(HardwareProbe::works);
        let errno = self.probes.software.err().filter(|_| !any_hardware)?;
        Some((Works::No, self.refusal(errno, PrivilegeNeed::User)))
    }

    /// Why hardware events do not count, one cause for each core PMU that refuses.
    fn hardware_causes(&self) -> Vec<Cause> {
        let refusing = self.probes.hardware.iter().filter(|probe| !probe.works());
        refusing.map(|probe| self.hardware_cause(probe)).collect()
    }

    fn hardware_cause(&self, probe: &HardwareProbe) -> Cause {
        let Some(device) = &probe.device else { return self.no_core_pmu() };
        let errno = probe.every_mode.unwrap_or(probe.outcome).err().unwrap_or(errno::EINVAL);
        match errno {
            errno::ENOENT | errno::ENODEV => self.no_cycles(device),
            errno::EBUSY => cause(
                CauseKind::HeldByAnother,
                format!("{device} is held by another user of its counters (a driver, or an exclusive event)"),
            ),
            errno::EACCES | errno::EPERM if probe.every_mode.is_some() => {
                let restricted = self.refusal(errno, PrivilegeNeed::Kernel);
                let text = format!("{device} cannot leave kernel mode out, and {}", restricted.text);
                Cause { text, ..restricted }
            }
            _ => self.refusal(errno, PrivilegeNeed::User),
        }
    }

    fn no_core_pmu(&self) -> Cause {
        if let Some(hypervisor) = &self.machine.hypervisor {
            let (advice, mend) = virtual_pmu::remedy(hypervisor);
            let text = format!("no PMU in this virtual machine ({hypervisor}): {advice}");
            return Cause { kind: CauseKind::NoVirtualPmu, text, mend: mend.map(str::to_owned) };
        }
        match self.machine.core_types.iter().any(|core| core.cpu_id.is_some()) {
            true => {
                cause(CauseKind::NoPmu, "the kernel drives no PMU of this CPU (driver or firmware lacks it)")
            }
            false => {
                cause(CauseKind::UnknownCpu, "neither the kernel nor this program knows the PMU of this CPU")
            }
        }
    }

    fn no_cycles(&self, device: &str) -> Cause {
        match &self.machine.hypervisor {
            Some(hypervisor) => cause(
                CauseKind::HypervisorFilter,
                format!("{device} is there, but the hypervisor ({hypervisor}) does not let it count cycles"),
            ),
            None => cause(CauseKind::NoPmu, format!("{device} is there, but does not count cycles")),
        }
    }

    /// The meaning of an error number of `perf_event_open`, given the rights of this process.
    ///
    /// The kernel says `EACCES` for `perf_event_paranoid`; Docker's seccomp filter says `EPERM`.
    fn refusal(&self, errno: i32, need: PrivilegeNeed) -> Cause {
        let filtered = self.machine.access.seccomp == Some(2);
        match errno {
            errno::EPERM | errno::ENOSYS if filtered => self.seccomp(),
            errno::EACCES | errno::EPERM if self.is_paranoid(need) => self.paranoid(need),
            errno::EACCES if filtered => self.seccomp(),
            errno::EACCES | errno::EPERM => cause(
                CauseKind::NoPermission,
                format!(
                    "the kernel refuses (error {errno}) though {PARANOID} allows it: a security module does"
                ),
            ),
            errno::ENOSYS => cause(CauseKind::NotInKernel, "the kernel has no perf_event_open"),
            other => cause(CauseKind::NotInKernel, format!("the kernel refuses with error {other}")),
        }
    }

    fn is_paranoid(&self, need: PrivilegeNeed) -> bool {
        let access = &self.machine.access;
        !access.perfmon_capable() && access.perf_event_paranoid.is_some_and(|level| level > need as i32)
    }

    fn paranoid(&self, need: PrivilegeNeed) -> Cause {
        let level = self.machine.access.perf_event_paranoid.unwrap_or(i32::MAX);
        let what = match need {
            PrivilegeNeed::User => "nothing may be counted without CAP_PERFMON",
            PrivilegeNeed::Kernel => "user mode only",
            PrivilegeNeed::WholeCpus => "own processes only, no whole CPUs",
        };
        let place = self.machine.container.as_ref().map_or("", |_| " (to be set on the host)");
        let text = format!("{PARANOID} is {level}: {what}{place}");
        mended(CauseKind::NoPermission, text, format!("sudo sysctl {PARANOID}={}", need as i32))
    }

    fn seccomp(&self) -> Cause {
        let text = "a seccomp filter forbids perf_event_open";
        match self.machine.container.as_deref() {
            Some(tool @ ("docker" | "podman")) => {
                let text = format!("{text} in this container (--cap-add PERFMON lifts it, too)");
                mended(CauseKind::Seccomp, text, format!("{tool} run --security-opt seccomp=unconfined …"))
            }
            Some("kubernetes") => {
                let mend = "in the pod: securityContext: {seccompProfile: {type: Unconfined}}";
                mended(CauseKind::Seccomp, format!("{text} in this pod"), mend)
            }
            _ => cause(CauseKind::Seccomp, format!("{text}; start the program without it")),
        }
    }

    /// Features that are not offered although the source works.
    fn limits(&self) -> Vec<Cause> {
        let hardware = self.probes.hardware.iter().any(HardwareProbe::works);
        let kernel_mode =
            self.probes.kernel_mode.err().map(|errno| self.refusal(errno, PrivilegeNeed::Kernel));
        let cpu_wide = self.probes.cpu_wide.err().map(|errno| self.refusal(errno, PrivilegeNeed::WholeCpus));
        let of_hardware = [self.watchdog(), self.user_reads()];
        let of_hardware = of_hardware.into_iter().flatten().filter(|_| hardware);
        kernel_mode.into_iter().chain(cpu_wide).chain(of_hardware).collect()
    }

    /// A PMU that counts only with every mode, so that `:u` cannot be had.
    fn modes_together(&self) -> Option<Cause> {
        let together = self.probes.hardware.iter().find(|probe| probe.every_mode == Some(Ok(())))?;
        let device = together.device.as_deref().unwrap_or("the PMU");
        let text = format!("{device} cannot leave kernel mode out: its counts include the kernel");
        Some(cause(CauseKind::NoModeFilter, text))
    }

    /// The watchdog of x86 takes a counter for itself.
    ///
    /// # Source
    ///
    /// `Documentation/admin-guide/lockup-watchdogs.rst`; on other architectures it uses no counter by
    /// default.
    fn watchdog(&self) -> Option<Cause> {
        let on = self.machine.access.nmi_watchdog == Some(true);
        let x86 = self.machine.architecture == Architecture::X86_64;
        let text = "the NMI watchdog takes one counter of every CPU";
        (on && x86).then(|| mended(CauseKind::NmiWatchdog, text, "sudo sysctl kernel.nmi_watchdog=0"))
    }

    fn user_reads(&self) -> Option<Cause> {
        if user_reads_are_on(self.machine) {
            return None;
        }
        let text = "counters cannot be read from user space; reads go through the kernel";
        let sysctl =
            self.machine.access.perf_user_access.map(|_| "sudo sysctl kernel.perf_user_access=1".to_owned());
        let mend = match self.machine.architecture {
            Architecture::X86_64 => self.rdpmc_command(),
            _ if self.machine.cpu.vendor == Vendor::Apple => None,
            _ => sysctl,
        };
        Some(Cause { kind: CauseKind::NoUserAccess, text: text.to_owned(), mend })
    }

    fn rdpmc_command(&self) -> Option<String> {
        let off = self.machine.core_pmus().find(|pmu| pmu.rdpmc == Some(0))?;
        Some(format!("echo 1 | sudo tee /sys/bus/event_source/devices/{}/rdpmc", off.name))
    }
}
