//! Whether counters may be read in user space on a machine, as far as the machine tells before anything was opened.

use cyclometer_backend::Serialisation;
use cyclometer_core::Machine;
use cyclometer_core::machine::Architecture;

/// The serialisation to read with, or why reads go through the kernel.
///
/// What is said here only spares an attempt: whether an instruction may be executed is for the kernel's page to say, each time.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-bus-event_source-devices` (`rdpmc`), `Documentation/admin-guide/sysctl/kernel.rst`
/// (`perf_user_access`).
pub(super) fn user_reads(
    machine: &Machine,
    how: Serialisation,
    checks_setting: bool,
) -> Result<Serialisation, String> {
    if machine.core_pmus().count() > 1 {
        return Err("the cores of this machine have different counters, and the thread may move".to_owned());
    }
    match machine.architecture {
        Architecture::Other => Err("this architecture has no counters that programs can read".to_owned()),
        _ if !checks_setting => Ok(how),
        Architecture::X86_64 if machine.core_pmus().any(|pmu| pmu.rdpmc == Some(0)) => {
            Err("the kernel's setting rdpmc is 0".to_owned())
        }
        Architecture::Aarch64 | Architecture::Riscv64 if machine.access.perf_user_access == Some(0) => {
            Err("kernel.perf_user_access is 0".to_owned())
        }
        _ => Ok(how),
    }
}
