//! Zones of the kernel's power capping that count energy.

use cyclometer_core::energy::{EnergyDomain, EnergyZone};
use cyclometer_core::machine::Os;

use crate::facts::FactSource;
use crate::text;

/// Where the kernel lists its zones.
const ZONES: &str = "/sys/class/powercap";

/// The control type whose zones are those of perf's PMU `power`, on AMD's processors, too. `intel-rapl-mmio`
/// has the same package again.
const CONTROL_TYPE: &str = "intel-rapl:";

/// Every zone whose counter has a range, sorted by name. Whether the counter may be read is found out when it
/// is.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-class-powercap`; `drivers/powercap/intel_rapl_msr.c`.
pub(crate) fn detect(facts: &dyn FactSource) -> Vec<EnergyZone> {
    if facts.os() != Os::Linux {
        return Vec::new();
    }
    let zones = text::entries(facts, ZONES);
    let of_type = zones.iter().filter(|name| name.starts_with(CONTROL_TYPE));
    of_type.filter_map(|name| zone(facts, format!("{ZONES}/{name}"))).collect()
}

fn zone(facts: &dyn FactSource, folder: String) -> Option<EnergyZone> {
    let domain = EnergyDomain::of_zone(&text::line(facts, &format!("{folder}/name"))?)?;
    let range: u64 = text::number(facts, &format!("{folder}/max_energy_range_uj"))?;
    (range > 0).then_some(EnergyZone { domain, folder, max_energy_range_uj: range })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    fn zones(text: &str) -> Vec<EnergyZone> {
        detect(&RecordedFacts::parse(text).unwrap())
    }

    #[test]
    fn zones_are_found_with_their_domains_and_ranges() {
        let found = zones(
            "note synthetic: x\nos linux\n\
             list /sys/class/powercap intel-rapl intel-rapl-mmio:0 intel-rapl:0 intel-rapl:0:0 intel-rapl:1\n\
             file /sys/class/powercap/intel-rapl-mmio:0/name package-0\n\
             file /sys/class/powercap/intel-rapl-mmio:0/max_energy_range_uj 262143328850\n\
             file /sys/class/powercap/intel-rapl:0/name package-0\n\
             file /sys/class/powercap/intel-rapl:0/max_energy_range_uj 262143328850\n\
             file /sys/class/powercap/intel-rapl:0:0/name core\n\
             file /sys/class/powercap/intel-rapl:0:0/max_energy_range_uj 262143328850\n\
             file /sys/class/powercap/intel-rapl:1/name thermal\n\
             file /sys/class/powercap/intel-rapl:1/max_energy_range_uj 1\n",
        );
        let names: Vec<_> = found.iter().map(|zone| (zone.name(), zone.domain)).collect();
        assert_eq!(names, [("intel-rapl:0", EnergyDomain::Package), ("intel-rapl:0:0", EnergyDomain::Cores)]);
        assert_eq!(found[0].file(), "/sys/class/powercap/intel-rapl:0/energy_uj");
    }

    #[test]
    fn a_machine_without_power_capping_has_none() {
        assert_eq!(zones("note synthetic: x\nos linux\n"), []);
        let without_range = "note synthetic: x\nos linux\nlist /sys/class/powercap intel-rapl:0\n\
                             file /sys/class/powercap/intel-rapl:0/name package-0\n";
        assert_eq!(zones(without_range), []);
    }
}
