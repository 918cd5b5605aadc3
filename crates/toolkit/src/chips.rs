//! Descriptions of the counter registers of a machine's CPUs.

use cyclometer_arch::{Chip, ChipCounters, Coded};
use cyclometer_backend::registers::{Chips, CorePmu};
use cyclometer_catalog::among::select_in;
use cyclometer_catalog::table::Cpu;
use cyclometer_catalog::ways::usable;
use cyclometer_catalog::{cpus, select, table_id};
use cyclometer_core::machine::{CoreType, Vendor};
use cyclometer_core::pmu::Family;
use cyclometer_core::syntax::parse_events;
use cyclometer_core::{CounterMask, Machine};

use crate::EventTables;

/// The chips of a machine with every register that may have been written. These are the registers of the
/// CPU's table, and of the counters that the machine reports.
pub(crate) fn for_restoring(machine: &Machine) -> Chips {
    let each = machine.core_types.iter().filter_map(|core| Some((core.cpus.clone(), chip(machine, core)?)));
    Chips::new(each.collect())
}

/// The PMUs that a machine reports, for the driver; without those of core types that have no table.
pub(crate) fn for_counting(machine: &Machine, tables: &EventTables) -> Vec<CorePmu> {
    let core = |core: &CoreType| {
        let tables = tables.all_of(table_id(core));
        let table = select::chip(tables.first()?);
        let counters = core.pmu.known_counters().unwrap_or(table.counters.known());
        let pmu_version = core.pmu.version.or(table.pmu_version);
        Some(CorePmu {
            name: core.pmu_name().to_owned(),
            cpus: core.cpus.clone(),
            chip: Chip { counters: ChipCounters::of(counters), pmu_version, ..table },
            cycles: cycles(&tables, counters),
        })
    };
    machine.core_types.iter().filter_map(core).collect()
}

/// The code that counts cycles on general counters.
pub(crate) fn cycles(tables: &[Cpu<'_>], counters: CounterMask) -> Option<Coded> {
    let request = parse_events("cycles").ok()?.pop()?;
    let coded = select_in(tables, &request).ok()?.first()?.coded;
    Some(coded.on(usable(counters, coded.counters, None)))
}

/// The chip of a core type: its table's, or what its vendor's have in common.
pub(crate) fn chip(machine: &Machine, core: &CoreType) -> Option<Chip> {
    let table = core.cpu_id.as_deref().and_then(|id| cpus::cpu(id).ok());
    let base = match table {
        Some(table) => select::chip(&table),
        None => Chip { family: family(&machine.cpu.vendor)?, ..Chip::default() },
    };
    let counters = ChipCounters::of(base.counters.known().or(core.pmu.counters));
    Some(Chip { counters, pmu_version: core.pmu.version.or(base.pmu_version), ..base })
}

fn family(vendor: &Vendor) -> Option<Family> {
    match vendor {
        Vendor::Intel => Some(Family::Intel),
        Vendor::Amd | Vendor::Hygon => Some(Family::Amd),
        Vendor::Apple => Some(Family::Apple),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay_machine;
    use cyclometer_arch::{PmuReg, Register};

    fn chips(recording: &str) -> Chips {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines");
        let text = std::fs::read_to_string(format!("{folder}/{recording}.txt")).unwrap();
        for_restoring(&replay_machine(&text).unwrap())
    }

    fn has(chips: &Chips, cpu: u32, name: &str) -> bool {
        let chip = chips.of(cpu).unwrap();
        Register::parse(chip, name).is_ok_and(|register| PmuReg::of(chip, register).is_ok())
    }

    #[test]
    fn each_core_type_of_a_hybrid_has_its_own_counters() {
        let chips = chips("alder-lake");
        assert!(has(&chips, 0, "IA32_PERFEVTSEL7") && has(&chips, 0, "IA32_FIXED_CTR3"));
        assert!(has(&chips, 16, "IA32_PERFEVTSEL5") && !has(&chips, 16, "IA32_PERFEVTSEL7"));
        assert_eq!(chips.of(99), None);
    }

    #[test]
    fn the_version_is_the_machines() {
        assert!(has(&chips("zen4"), 0, "PERF_CNTR_GLOBAL_CTL"));
        assert!(has(&chips("zen2"), 0, "PERF_CTL5") && !has(&chips("zen2"), 0, "PERF_CNTR_GLOBAL_CTL"));
    }

    #[test]
    fn a_cpu_without_a_table_has_the_registers_of_its_vendor() {
        let text = "note synthetic: a test\nos linux\narchitecture x86_64\n\
                    file /sys/devices/system/cpu/online 0\n\
                    cpuid * 0x0 0 0x00000016 0x756e6547 0x6c65746e 0x49656e69\n\
                    cpuid * 0x1 0 0x00000f4a 0x00100800 0x7ffafbbf 0xbfebfbff\n\
                    cpuid * 0xa 0 0x07300402 0x00000000 0x00000000 0x00000603\n";
        let chips = for_restoring(&replay_machine(text).unwrap());
        assert!(has(&chips, 0, "IA32_PERFEVTSEL3") && !has(&chips, 0, "IA32_PERFEVTSEL4"));
    }
}
