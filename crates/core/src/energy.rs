//! Energy counters of the kernel's power capping: zones of the machine, each with a counter.

use std::time::Duration;

/// An upper bound of the power of any zone.
const MOST_WATTS: u64 = 2_000;

/// The part of a machine that an energy counter covers.
///
/// # Source
///
/// Linux `drivers/powercap/intel_rapl_common.c`, `rapl_domain_names`; `arch/x86/events/rapl.c`,
/// `rapl_domain_names`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum EnergyDomain {
    /// A whole CPU package.
    Package,
    /// The cores of a package.
    Cores,
    /// The graphics of a package.
    Gpu,
    /// The memory at a package.
    Ram,
    /// The whole platform.
    Platform,
}

impl EnergyDomain {
    /// Every domain.
    pub const ALL: [EnergyDomain; 5] = [
        EnergyDomain::Package,
        EnergyDomain::Cores,
        EnergyDomain::Gpu,
        EnergyDomain::Ram,
        EnergyDomain::Platform,
    ];

    /// The name of the domain's event in perf's PMU `power`.
    pub const fn event(self) -> &'static str {
        match self {
            EnergyDomain::Package => "energy-pkg",
            EnergyDomain::Cores => "energy-cores",
            EnergyDomain::Gpu => "energy-gpu",
            EnergyDomain::Ram => "energy-ram",
            EnergyDomain::Platform => "energy-psys",
        }
    }

    /// A short description of the part that it covers.
    pub const fn about(self) -> &'static str {
        match self {
            EnergyDomain::Package => "energy of the CPU packages",
            EnergyDomain::Cores => "energy of the cores of the CPU packages",
            EnergyDomain::Gpu => "energy of the graphics in the CPU packages",
            EnergyDomain::Ram => "energy of the memory at the CPU packages",
            EnergyDomain::Platform => "energy of the whole platform",
        }
    }

    /// The domain of a zone, from the zone's name in the kernel: `package-0`, `core`.
    pub fn of_zone(name: &str) -> Option<EnergyDomain> {
        match name {
            "core" => Some(EnergyDomain::Cores),
            "uncore" => Some(EnergyDomain::Gpu),
            "dram" => Some(EnergyDomain::Ram),
            "psys" => Some(EnergyDomain::Platform),
            // The kernel uses `package-1-die-0` on packages with several dies.
            name if name.starts_with("package-") => Some(EnergyDomain::Package),
            _ => None,
        }
    }
}

/// A zone with an energy counter, in µJ.
///
/// # Source
///
/// Linux `Documentation/ABI/testing/sysfs-class-powercap`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnergyZone {
    /// The part that it covers.
    pub domain: EnergyDomain,
    /// The zone's folder (`/sys/class/powercap/intel-rapl:0`), with the files `energy_uj` and
    /// `max_energy_range_uj`.
    pub folder: String,
    /// The greatest value of the counter, after which it wraps to 0.
    pub max_energy_range_uj: u64,
}

impl EnergyZone {
    /// The file of the zone's counter.
    pub fn file(&self) -> String {
        format!("{}/energy_uj", self.folder)
    }

    /// The zone's name in the kernel: the end of its folder.
    pub fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    /// The longest time between two reads in which the counter cannot wrap twice. It assumes `MOST_WATTS`.
    pub fn longest_pause(&self) -> Duration {
        Duration::from_micros(self.max_energy_range_uj / MOST_WATTS)
    }

    /// The energy used between two values of the counter, which wrapped at most once in between.
    pub fn between(&self, before_uj: u64, now_uj: u64) -> u64 {
        match now_uj.checked_sub(before_uj) {
            Some(used) => used,
            None => self.max_energy_range_uj.saturating_sub(before_uj).saturating_add(now_uj),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_the_domains_of_perfs_events() {
        let cases = [
            ("package-0", "energy-pkg"),
            ("package-1-die-0", "energy-pkg"),
            ("core", "energy-cores"),
            ("uncore", "energy-gpu"),
            ("dram", "energy-ram"),
            ("psys", "energy-psys"),
        ];
        for (zone, event) in cases {
            assert_eq!(EnergyDomain::of_zone(zone).map(EnergyDomain::event), Some(event), "{zone}");
        }
        assert_eq!(EnergyDomain::of_zone("battery"), None);
    }

    #[test]
    fn a_counter_that_began_anew_is_put_together() {
        let folder = "/sys/class/powercap/intel-rapl:0:1".to_owned();
        let zone = EnergyZone { domain: EnergyDomain::Cores, folder, max_energy_range_uj: 1_000 };
        assert_eq!((zone.between(100, 400), zone.between(900, 50), zone.between(7, 7)), (300, 150, 0));
        assert_eq!(zone.name(), "intel-rapl:0:1");
        let usual = EnergyZone { max_energy_range_uj: 262_143_328_850, ..zone.clone() };
        assert_eq!(usual.longest_pause().as_secs(), 131);
        // A wrong range from the kernel must not produce a huge difference.
        assert_eq!(zone.between(2_000, 5), 5);
    }
}
