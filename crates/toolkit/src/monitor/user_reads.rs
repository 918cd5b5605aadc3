//! Whether counters may be read in user space on a machine, as far as that is known before they are opened.

use cyclometer_backend::Serialisation;
use cyclometer_core::Machine;
use cyclometer_core::machine::Architecture;

/// The serialisation to read with, or why reads go through the kernel.
///
/// This check only spares an attempt: the kernel's page decides each time whether the instruction may be
/// executed.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-bus-event_source-devices` (`rdpmc`),
/// `Documentation/admin-guide/sysctl/kernel.rst` (`perf_user_access`).
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

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(name: &str) -> Machine {
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        crate::replay_machine(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn the_kernels_setting_is_asked_where_the_configuration_wants_it() {
        let mut machine = recorded("skylake");
        let read = |machine: &Machine, checks| user_reads(machine, Serialisation::None, checks);
        for (setting, allowed) in [(None, true), (Some(1), true), (Some(2), true), (Some(0), false)] {
            machine.pmus.iter_mut().for_each(|pmu| pmu.rdpmc = setting);
            assert_eq!(read(&machine, true).is_ok(), allowed, "rdpmc is {setting:?}");
            assert_eq!(read(&machine, false), Ok(Serialisation::None), "it is left to the page");
        }
        assert_eq!(read(&machine, true).unwrap_err(), "the kernel's setting rdpmc is 0");
    }

    #[test]
    fn arm_has_a_setting_of_its_own() {
        let mut machine = recorded("neoverse-n1");
        for (setting, allowed) in [(None, true), (Some(1), true), (Some(0), false)] {
            machine.access.perf_user_access = setting;
            assert_eq!(user_reads(&machine, Serialisation::Full, true).is_ok(), allowed, "{setting:?}");
        }
    }

    #[test]
    fn hybrids_are_read_through_the_kernel() {
        let hybrid = recorded("alder-lake");
        let why = user_reads(&hybrid, Serialisation::None, false).unwrap_err();
        assert!(why.contains("different counters"), "{why}");
    }
}
