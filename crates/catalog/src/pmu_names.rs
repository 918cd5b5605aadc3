//! The names of PMUs in front of an event: perf's before a slash, libpfm4's before two colons.
//!
//! # Source
//!
//! Linux `/sys/bus/event_source/devices`; libpfm4 4.13, `pfm_pmu_info_t::name`.

use cyclometer_core::pmu::{CorePmuName, Family};
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::table::Cpu;
use crate::{cpus, suggest};

/// libpfm4's names of core PMUs, and the CPU that each is.
const LIBPFM: &[(&str, &str)] = &[
    ("nhm", "nehalemep"),
    ("nhm_ex", "nehalemex"),
    ("wsm", "westmereep-sp"),
    ("wsm_dp", "westmereep-dp"),
    ("snb", "sandybridge"),
    ("snb_ep", "jaketown"),
    ("ivb", "ivybridge"),
    ("ivb_ep", "ivytown"),
    ("hsw", "haswell"),
    ("hsw_ep", "haswellx"),
    ("bdw", "broadwell"),
    ("bdw_ep", "broadwellx"),
    ("skl", "skylake"),
    ("skx", "skylakex"),
    ("clx", "cascadelakex"),
    ("icl", "icelake"),
    ("icx", "icelakex"),
    ("tgl", "tigerlake"),
    ("spr", "sapphirerapids"),
    ("emr", "emeraldrapids"),
    ("gnr", "graniterapids"),
    ("adl_glc", "alderlake/core"),
    ("adl_grt", "alderlake/atom"),
    ("knl", "knightslanding"),
    ("slm", "silvermont"),
    ("glm", "goldmont"),
    ("atom", "bonnell"),
    ("amd64_fam17h", "amdzen1"),
    ("amd64_fam17h_zen1", "amdzen1"),
    ("amd64_fam17h_zen2", "amdzen2"),
    ("amd64_fam19h_zen3", "amdzen3"),
    ("amd64_fam19h_zen4", "amdzen4"),
    ("amd64_fam1ah_zen5", "amdzen5"),
    ("arm_ac53", "cortex-a53"),
    ("arm_ac57", "cortex-a57"),
    ("arm_ac72", "cortex-a72"),
    ("arm_ac76", "cortex-a76"),
    ("arm_a64fx", "a64fx"),
    ("arm_n1", "neoverse-n1"),
    ("arm_n2", "neoverse-n2"),
    ("arm_n3", "neoverse-n3"),
    ("arm_v1", "neoverse-v1"),
    ("arm_v2", "neoverse-v2"),
    ("arm_v3", "neoverse-v3"),
];

/// libpfm4's names of AMD's events from Zen on, and AMD's names.
///
/// # Source
///
/// libpfm4 4.13, `lib/events/amd64_events_fam17h_zen2.h`, `amd64_events_fam19h_zen4.h`; AMD's processor
/// programming references of family 19h, PMCx0C0 to PMCx0D1.
const AMD_EVENTS: &[(&str, &str)] = &[
    ("CYCLES_NOT_IN_HALT", "ls_not_halted_cyc"),
    ("RETIRED_INSTRUCTIONS", "ex_ret_instr"),
    ("RETIRED_OPS", "ex_ret_ops"),
    ("RETIRED_UOPS", "ex_ret_ops"),
    ("RETIRED_BRANCH_INSTRUCTIONS", "ex_ret_brn"),
    ("RETIRED_BRANCH_INSTRUCTIONS_MISPREDICTED", "ex_ret_brn_misp"),
    ("RETIRED_TAKEN_BRANCH_INSTRUCTIONS", "ex_ret_brn_tkn"),
    ("RETIRED_TAKEN_BRANCH_INSTRUCTIONS_MISPREDICTED", "ex_ret_brn_tkn_misp"),
    ("RETIRED_FAR_CONTROL_TRANSFERS", "ex_ret_brn_far"),
    ("RETIRED_NEAR_RETURNS", "ex_ret_near_ret"),
    ("RETIRED_NEAR_RETURNS_MISPREDICTED", "ex_ret_near_ret_mispred"),
    ("RETIRED_CONDITIONAL_BRANCH_INSTRUCTIONS", "ex_ret_cond"),
];

/// The CPU of the catalogue that a prefix before two colons names: by libpfm4's name or its own id.
pub(crate) fn cpu_of(prefix: &str) -> Option<Cpu<'static>> {
    let prefix = prefix.to_ascii_lowercase();
    let by_libpfm = LIBPFM.iter().find(|(known, _)| *known == prefix).map(|(_, id)| *id);
    cpus::cpu(by_libpfm.unwrap_or(&prefix)).ok()
}

/// The vendor's name on a CPU of an event that libpfm4 names otherwise.
pub(crate) fn vendors_name(cpu: &Cpu<'_>, event: &str) -> Option<&'static str> {
    let (_, name) = AMD_EVENTS.iter().find(|(libpfm, _)| libpfm.eq_ignore_ascii_case(event))?;
    (cpu.family() == Family::Amd && cpu.event(name).is_some()).then_some(*name)
}

/// Rejects a prefix before the two colons of a name if it is another PMU than the CPU's.
pub(crate) fn check_prefix(cpu: &Cpu<'_>, name: &str) -> Result<()> {
    let Some((prefix, _)) = name.split_once("::") else { return Ok(()) };
    let prefix = prefix.to_ascii_lowercase();
    if let Some((_, id)) = LIBPFM.iter().find(|(known, _)| *known == prefix) {
        return if cpu.id() == *id { Ok(()) } else { Err(other(cpu, &prefix)) };
    }
    let own = cpu.id().split('/').any(|part| part == prefix) || cpu.id() == prefix;
    let family = prefix == cpu.family().word() || prefix == "perf";
    let architecture = prefix == "ix86arch" && cpu.family() == Family::Intel;
    match own || family || architecture {
        true => Ok(()),
        false if Family::ALL.iter().any(|family| family.word() == prefix) => Err(other(cpu, &prefix)),
        false => check_pmu(cpu, &prefix),
    }
}

/// Whether the prefix before the two colons of a name is the PMU of a CPU of the catalogue.
pub(crate) fn is_known(prefix: &str) -> bool {
    let named = format!("{prefix}::");
    cpus::cpus().any(|cpu| check_prefix(&cpu, &named).is_ok())
}

/// Rejects a device of the kernel that is not the CPU's core PMU.
pub(crate) fn check_pmu(cpu: &Cpu<'_>, pmu: &str) -> Result<()> {
    let core_type = cpu.id().split_once('/').map(|(_, core)| core);
    let arm = matches!(cpu.family(), Family::Arm | Family::Apple);
    let is_core = match CorePmuName::of(pmu) {
        Some(CorePmuName::Cpu) => !arm,
        Some(CorePmuName::CoreType(named @ ("core" | "atom" | "lowpower"))) => core_type == Some(named),
        Some(CorePmuName::Arm { .. }) => cpu.family() == Family::Arm,
        Some(CorePmuName::Apple) => cpu.family() == Family::Apple,
        Some(CorePmuName::CoreType(_)) | None => {
            let message = format!("no core PMU is named '{}'", suggest::shown(pmu));
            return Err(Error::new(ErrorKind::EventUnsupported, message).with_recovery(Recovery::fix(
                "the catalogue has the events of cores only; leave the PMU away",
            )));
        }
    };
    if is_core { Ok(()) } else { Err(other(cpu, pmu)) }
}

fn other(cpu: &Cpu<'_>, pmu: &str) -> Error {
    let message = format!("{} is not the PMU of {}", suggest::shown(pmu), cpu.id());
    Error::new(ErrorKind::EventUnsupported, message)
        .with_recovery(Recovery::fix("name its own CPU with --cpu, or leave the PMU away"))
}

/// The kernel's device for the cores of a CPU, if its name is the same on every machine.
pub fn device(cpu: &Cpu<'_>) -> Option<&'static str> {
    match (cpu.id().split_once('/').map(|(_, core)| core), cpu.family()) {
        (Some("core"), _) => Some("cpu_core"),
        (Some("atom"), _) => Some("cpu_atom"),
        (Some("lowpower"), _) => Some("cpu_lowpower"),
        (None, Family::Intel | Family::Amd | Family::RiscV) => Some("cpu"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::cpu;

    #[test]
    fn a_pmu_in_front_must_be_the_cpus() {
        let fits = |id: &str, pmu: &str| check_pmu(&cpu(id).unwrap(), pmu).is_ok();
        for (id, pmu, expected) in [
            ("skylake", "cpu", true),
            ("skylake", "cpu_core", false),
            ("skylake", "uncore_imc", false),
            ("alderlake/atom", "cpu_atom", true),
            ("alderlake/atom", "cpu_core", false),
            ("neoverse-n1", "armv8_pmuv3_0", true),
            ("neoverse-n1", "cpu", false),
            ("apple-m1", "apple_firestorm_pmu", true),
        ] {
            assert_eq!(fits(id, pmu), expected, "{id} {pmu}");
        }
    }

    #[test]
    fn a_prefix_must_be_the_cpus() {
        let fits = |id: &str, name: &str| check_prefix(&cpu(id).unwrap(), name).is_ok();
        for (id, name, expected) in [
            ("skylake", "skl::X", true),
            ("skylake", "intel::X", true),
            ("skylake", "ix86arch::X", true),
            ("skylake", "hsw::X", false),
            ("skylake", "amd::X", false),
            ("alderlake/core", "adl_glc::X", true),
            ("alderlake/core", "adl_grt::X", false),
            ("alderlake/atom", "cpu_atom::X", true),
            ("skylake", "nonsense::X", false),
            ("skylake", "X", true),
        ] {
            assert_eq!(fits(id, name), expected, "{id} {name}");
        }
    }

    #[test]
    fn libpfms_names_are_of_cpus_that_there_are() {
        for (name, id) in LIBPFM {
            assert!(cpu(id).is_ok(), "{name} {id}");
        }
    }
}
