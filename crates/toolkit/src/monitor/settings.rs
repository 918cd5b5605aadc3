//! Effects of configuration keys on a monitor.

use std::time::Duration;

use cyclometer_core::ladder::{Cause, CauseKind};
use cyclometer_core::machine::{Architecture, Vendor};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Candidate, Error, ErrorKind, Machine, Plan, Recovery, Result};
use cyclometer_monitor::LadderStep;

use crate::Config;

/// Applies the keys about machines to this one; the steps name the capabilities that they remove.
///
/// # Errors
///
/// `ErrorKind::PermissionDenied` where root's rights are required and missing.
pub(super) fn apply(config: &Config, machine: &mut Machine) -> Result<Vec<LadderStep>> {
    let mut steps = config.steps.clone();
    let unsupported = match machine.architecture {
        Architecture::X86_64 => {
            require_root(config, machine)?;
            config.x86.supported_vendors.as_deref().and_then(|names| vendor_missing(names, machine))
        }
        _ if machine.cpu.vendor == Vendor::Apple => {
            config.apple_silicon.supported_chips.as_deref().and_then(|names| chip_missing(names, machine))
        }
        _ => None,
    };
    if let Some(reason) = unsupported {
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::Configuration, reason.clone()));
        let because = (ErrorKind::ArchUnsupported, reason);
        steps.push(LadderStep::refused(None, "hardware counters", because, "went on with the next source"));
    }
    Ok(steps)
}

fn require_root(config: &Config, machine: &Machine) -> Result<()> {
    if config.x86.require_root != Some(true) || machine.access.root {
        return Ok(());
    }
    let message = "the configuration requires root's rights (x86.require_root), and this is another user";
    Err(Error::new(ErrorKind::PermissionDenied, message)
        .with_recovery(Recovery::fix("run as root, or set x86.require_root to false")))
}

fn vendor_missing(names: &[String], machine: &Machine) -> Option<String> {
    let vendor = machine.cpu.vendor.to_string();
    let named = names.iter().any(|name| name.eq_ignore_ascii_case(&vendor));
    (!named).then(|| format!("x86.supported_vendors names {}, and this CPU is of {vendor}", names.join(", ")))
}

fn chip_missing(names: &[String], machine: &Machine) -> Option<String> {
    let chip = chip(machine)?;
    let named = names.iter().flat_map(|name| chips(name)).any(|name| name.eq_ignore_ascii_case(&chip.name));
    let generation = chip.name.split(' ').next().unwrap_or_default();
    let of_generation =
        |name: &String| name.split(' ').next().is_some_and(|own| own.eq_ignore_ascii_case(generation));
    let named = named || !chip.is_exact && names.iter().any(of_generation);
    (!named).then(|| {
        format!("apple_silicon.supported_chips names {}, and this is {}", names.join(", "), chip.name)
    })
}

/// One of Apple's chips.
struct NamedChip {
    /// `M1`, `M1 Pro`.
    name: String,
    /// Whether the variant is known, and not only the generation.
    is_exact: bool,
}

fn chip(machine: &Machine) -> Option<NamedChip> {
    let sold = machine.cpu.name.as_deref().and_then(|name| name.strip_prefix("Apple "));
    if let Some(name) = sold.filter(|name| name.starts_with('M')) {
        return Some(NamedChip { name: name.to_owned(), is_exact: true });
    }
    let id = machine.core_types.iter().find_map(|core| core.cpu_id.as_deref()?.strip_prefix("apple-"))?;
    let generation = id.split(['/', '-']).next().unwrap_or(id);
    Some(NamedChip { name: generation.to_uppercase(), is_exact: false })
}

/// The chips of an entry: `M1 Pro/Max/Ultra` is three.
fn chips(entry: &str) -> Vec<String> {
    let Some((generation, variants)) = entry.trim().split_once(' ') else {
        return vec![entry.trim().to_owned()];
    };
    variants.split('/').map(|variant| format!("{generation} {}", variant.trim())).collect()
}

/// The step to report before registers are used that the kernel must give access to.
///
/// # Errors
///
/// `ErrorKind::KernelPatchNeeded` if the kernel gives no access. With `kernel_patch_required` set, a step
/// reports that instead.
pub(super) fn registers(config: &Config, machine: &Machine) -> Result<Option<LadderStep>> {
    if !machine.capabilities.needs_kernel_patch || machine.cpu.vendor != Vendor::Apple {
        return Ok(None);
    }
    let reason = "the kernel does not let programs read the counter registers".to_owned();
    match config.apple_silicon.kernel_patch_required {
        Some(true) => {
            let because = (ErrorKind::KernelPatchNeeded, reason);
            Ok(Some(LadderStep::refused(None, "sysreg", because, "warned, and went on with the next source")))
        }
        _ => Err(Error::new(ErrorKind::KernelPatchNeeded, reason)),
    }
}

/// Refuses more events than the configuration lets have a hardware counter.
pub(super) fn limit_counters(config: &Config, plan: &Plan) -> Result<()> {
    // A sum needs one for each of its summands.
    let wanted: usize = plan.lines.iter().filter_map(PlanLine::candidate).map(Candidate::counters).sum();
    match config.max_counters {
        Some(most) if wanted > most as usize => Err(Error::new(
            ErrorKind::HardwareLimit,
            format!("{wanted} events need a hardware counter, and max_counters is {most}"),
        )
        .with_recovery(Recovery::fix("measure fewer events at once, or raise max_counters"))),
        _ => Ok(()),
    }
}

/// How long a region may last on registers that the kernel writes to as well.
///
/// # Source
///
/// On M3 and M4 values in PMCR0 were seen to last about 100 µs (`cyclometer_backend::registers::short`).
pub(super) fn longest_window(config: &Config, machine: &Machine) -> Option<Duration> {
    let configured = config.apple_silicon.max_monitor_duration_us;
    let of_apple = machine.cpu.vendor == Vendor::Apple;
    configured.filter(|_| of_apple).map(|us| Duration::from_micros(us.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::Intent;

    fn recorded(name: &str) -> Machine {
        let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        crate::replay_machine(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::default();
        change(&mut config);
        config
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    /// Whether hardware is used, and the steps.
    fn applied(config: &Config, machine: &str) -> (bool, Vec<String>) {
        let mut machine = recorded(machine);
        let steps = apply(config, &mut machine).unwrap();
        (machine.ladder.perf_hardware.is_ok(), steps.iter().map(LadderStep::to_string).collect())
    }

    #[test]
    fn hardware_of_vendors_that_are_not_named_is_not_used() {
        let config = config(|config| config.x86.supported_vendors = names(&["intel"]));
        assert_eq!(applied(&config, "skylake"), (true, vec![]));
        let (used, steps) = applied(&config, "zen4");
        assert!(!used);
        assert_eq!(
            steps,
            [
                "hardware counters: x86.supported_vendors names intel, and this CPU is of AMD; went on with the next source"
            ]
        );
        assert_eq!(applied(&config, "neoverse-n1").1, Vec::<String>::new(), "the key is about x86");
    }

    #[test]
    fn hardware_of_chips_that_are_not_named_is_not_used() {
        let of = |chips: &[&str]| config(|config| config.apple_silicon.supported_chips = names(chips));
        assert!(applied(&of(&["M1", "M2"]), "m1-asahi").1.is_empty());
        assert!(
            applied(&of(&["M1 Pro/Max/Ultra"]), "m1-asahi").1.is_empty(),
            "Linux tells the generation only"
        );
        assert_eq!(applied(&of(&["M2", "M3 Pro/Max"]), "m1-asahi").1.len(), 1);
        assert_eq!(applied(&of(&["M1"]), "skylake").1.len(), 0, "the key is about Apple's");
        assert_eq!(applied(&of(&["M1"]), "m4-macos").1.len(), 1);
    }

    #[test]
    fn a_list_of_variants_is_several_chips() {
        assert_eq!(chips("M1 Pro/Max/Ultra"), ["M1 Pro", "M1 Max", "M1 Ultra"]);
        assert_eq!(chips("M4"), ["M4"]);
    }

    #[test]
    fn where_root_is_required_others_are_refused() {
        let needs_root = config(|config| config.x86.require_root = Some(true));
        let mut machine = recorded("skylake");
        machine.access.root = false;
        let error = apply(&needs_root, &mut machine.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        machine.access.root = true;
        assert!(apply(&needs_root, &mut machine).is_ok());
    }

    #[test]
    fn more_events_than_counters_are_allowed_are_refused() {
        let machine = recorded("skylake");
        let plan = |list: &str| {
            let events = cyclometer_catalog::resolve_list(list, &machine, true).unwrap();
            cyclometer_plan::plan(events, &machine, Intent::default()).unwrap()
        };
        let two = config(|config| config.max_counters = Some(2));
        let error = limit_counters(&two, &plan("cycles,instructions,branches")).unwrap_err();
        assert_eq!(error.to_string(), "3 events need a hardware counter, and max_counters is 2");
        assert!(limit_counters(&two, &plan("cycles,instructions,page-faults,wall_time")).is_ok());
        assert!(limit_counters(&Config::default(), &plan("cycles,instructions,branches")).is_ok());
        // The sum of two events.
        let machine = recorded("zen4");
        let events = cyclometer_catalog::resolve_list("l1d_cache_loads,cycles", &machine, true).unwrap();
        let sum = cyclometer_plan::plan(events, &machine, Intent::default()).unwrap();
        assert!(limit_counters(&two, &sum).unwrap_err().to_string().starts_with("3 events need"));
    }

    #[test]
    fn a_kernel_that_gives_no_access_is_a_warning_where_the_patch_is_known_to_be_required() {
        let mut machine = recorded("m1-asahi");
        machine.capabilities.needs_kernel_patch = true;
        let required = config(|config| config.apple_silicon.kernel_patch_required = Some(true));
        let step = registers(&required, &machine).unwrap().unwrap();
        assert!(step.to_string().starts_with("sysreg: the kernel does not let"), "{step}");
        let error = registers(&Config::default(), &machine).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KernelPatchNeeded);
        machine.capabilities.needs_kernel_patch = false;
        assert_eq!(registers(&Config::default(), &machine).unwrap(), None);
    }

    #[test]
    fn windows_are_limited_on_apples_chips_only() {
        let limited = config(|config| config.apple_silicon.max_monitor_duration_us = Some(100));
        assert_eq!(longest_window(&limited, &recorded("m1-asahi")), Some(Duration::from_micros(100)));
        assert_eq!(longest_window(&limited, &recorded("skylake")), None);
    }
}
