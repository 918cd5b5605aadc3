//! The events of this machine, for `list` and for suggestions of names.

use std::collections::{BTreeMap, HashSet};

use cyclometer_core::energy::EnergyDomain;
use cyclometer_core::event::{PerfClass, Unit};
use cyclometer_core::gpu::GpuQuantity;
use cyclometer_core::ladder::Cause;
use cyclometer_core::{CounterMask, LackReason, Machine, Modes, Rung};

use crate::accounts;
use crate::device;
use crate::energy;
use crate::generic::{
    ACCOUNTING, CACHES, CacheEvent, HARDWARE, PORTABLE_CACHE, PORTABLE_WITHOUT_GENERIC, SOFTWARE,
    accounting_source,
};
use crate::gpu::{self, GpuEvent};
use crate::host::{CoreTables, Tables, cores};
use crate::host_event::{self, HostEvent, RequestedEvent};
use crate::portable::{self, Portable};
use crate::registers;
use crate::resolve::unit_of;
use crate::soft;
use crate::table::{Cpu, Entry};

/// One event that can be requested by name.
#[derive(Clone, PartialEq, Debug)]
pub struct Listing {
    /// The name to use.
    pub name: String,
    /// Other spellings of it.
    pub aliases: Vec<String>,
    /// The kind of the event.
    pub kind: ListingKind,
    /// The best source for it on this machine.
    pub rung: Rung,
    /// Unit of its values.
    pub unit: Unit,
    /// The resolution of the name.
    pub resolution: String,
    /// Whether it can be counted here, otherwise the reason why not. Whether a cache event works is known
    /// only after it is opened.
    pub available: Result<(), String>,
    /// The description, in a line.
    pub description: String,
    /// The counters that may count it, according to a table; `None` if no table names them.
    pub counters: Option<CounterMask>,
    /// Whether the vendor deprecates it.
    pub deprecated: bool,
}

/// Kinds of event in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ListingKind {
    /// A generic hardware event.
    Hardware,
    /// A generic cache event.
    Cache,
    /// A software event of the kernel.
    Software,
    /// An event that only the software PMU has.
    Counted,
    /// An event with a name in a PMU device's folder of the kernel.
    Device,
    /// The operating system's accounting.
    Os,
    /// A portable event, with the vendor's event behind it.
    Portable,
    /// A vendor event.
    Vendor,
}

impl ListingKind {
    /// The word used in `list`.
    pub fn word(self) -> &'static str {
        match self {
            ListingKind::Hardware => "hardware",
            ListingKind::Cache => "cache",
            ListingKind::Software => "software",
            ListingKind::Counted => "counted",
            ListingKind::Device => "device",
            ListingKind::Os => "os",
            ListingKind::Portable => "portable",
            ListingKind::Vendor => "vendor",
        }
    }
}

/// Every event with a name on this machine, by kind. [`list_vendor`] lists the vendor's own events, of which
/// there are hundreds.
pub fn list(machine: &Machine, tables: &Tables) -> Vec<Listing> {
    if registers::is_simulated(machine) {
        return of_simulation(machine, tables);
    }
    let cores = cores(machine, tables);
    let known = cores.iter().any(|core| !core.tables.is_empty());
    let mut all = accounting();
    all.extend(energy_zones(machine));
    all.extend(gpus(machine));
    all.extend(software(machine));
    all.extend(hardware(machine));
    all.extend(counted(machine));
    all.extend(accounts_of_counters(machine));
    all.extend(caches(machine, known));
    match known {
        true => all.extend(portables(machine, &cores)),
        false => all.extend(without_generic()),
    }
    all.extend(devices(machine));
    match registers::has_kperf(machine) {
        true => all.into_iter().map(|listing| by_kperf(listing, machine, tables)).collect(),
        false => all,
    }
}

/// The resolution of an event of the PMU on a Mac, where kperf counts it.
fn by_kperf(listing: Listing, machine: &Machine, tables: &Tables) -> Listing {
    use ListingKind::{Cache, Hardware, Portable, Vendor};
    if !matches!(listing.kind, Hardware | Cache | Portable | Vendor) || listing.rung != Rung::Perf {
        return listing;
    }
    let found = registers::by_kperf(&listing.name, machine, tables);
    let resolution = found.as_ref().map(|candidate| candidate.resolution.clone()).unwrap_or_default();
    let found = found.map_err(|reason| reason.to_string());
    let available = found.and_then(|_| registers::kperf_counts(machine));
    Listing { rung: Rung::Kperf, resolution, available, ..listing }
}

/// The events of a simulated machine: those of its PMU, because it has no other source.
fn of_simulation(machine: &Machine, tables: &Tables) -> Vec<Listing> {
    let cores = cores(machine, tables);
    let mut all = hardware(machine);
    all.extend(caches(machine, true));
    all.extend(portables(machine, &cores));
    all.into_iter().map(|listing| simulated(listing, machine, tables)).collect()
}

/// The resolution of an event on a simulated chip.
fn simulated(listing: Listing, machine: &Machine, tables: &Tables) -> Listing {
    let found = registers::simulated(&listing.name, machine, tables);
    let resolution = found.as_ref().map(|candidate| candidate.resolution.clone()).unwrap_or_default();
    Listing {
        rung: Rung::Sim,
        resolution,
        available: found.map(|_| ()).map_err(|reason| reason.to_string()),
        ..listing
    }
}

/// The vendor's events of a machine's core types whose name or alias `fits`, by name.
pub fn list_vendor(machine: &Machine, tables: &Tables, fits: &dyn Fn(&str) -> bool) -> Vec<Listing> {
    let cores = cores(machine, tables);
    let aliases = cores.iter().flat_map(|core| &core.tables).flat_map(|cpu| cpu.aliases());
    let by_alias: HashSet<&str> =
        aliases.filter(|(alias, _)| fits(alias)).map(|(_, entry)| entry.name()).collect();
    let entries = vendors_entries(&cores);
    let wanted = entries.values().filter(|(_, entry)| fits(entry.name()) || by_alias.contains(entry.name()));
    let listed = wanted.map(|(cpu, entry)| vendors(machine, tables, &cores, (cpu, entry)));
    match (registers::is_simulated(machine), registers::has_kperf(machine)) {
        (true, _) => listed.map(|listing| simulated(listing, machine, tables)).collect(),
        (_, true) => listed.map(|listing| by_kperf(listing, machine, tables)).collect(),
        _ => listed.collect(),
    }
}

/// The total number of events of [`list_vendor`].
pub fn count_vendor(machine: &Machine, tables: &Tables) -> usize {
    vendors_entries(&cores(machine, tables)).len()
}

/// Every event of the tables by its name in lower case, from the first table that has it.
fn vendors_entries<'a>(cores: &[CoreTables<'a>]) -> BTreeMap<String, (Cpu<'a>, Entry<'a>)> {
    let mut found = BTreeMap::new();
    for cpu in cores.iter().flat_map(|core| &core.tables) {
        for entry in cpu.events() {
            found.entry(entry.name().to_ascii_lowercase()).or_insert((*cpu, entry));
        }
    }
    found
}

fn vendors(
    machine: &Machine,
    tables: &Tables,
    cores: &[CoreTables<'_>],
    (cpu, entry): (&Cpu<'_>, &Entry<'_>),
) -> Listing {
    let of_table = of_table(entry.name(), machine, cores);
    let mut description = tables.describe(entry.name(), cpu).to_string();
    let errata: Vec<&str> = entry.errata().collect();
    if !errata.is_empty() {
        description += &format!("; errata {}", errata.join(", "));
    }
    Listing {
        aliases: entry.aliases().map(str::to_owned).collect(),
        kind: ListingKind::Vendor,
        description,
        counters: entry.counters(),
        deprecated: entry.deprecated(),
        ..of_table
    }
}

/// The resolution of a table's name on a machine.
fn of_table(name: &str, machine: &Machine, cores: &[CoreTables<'_>]) -> Listing {
    let wanted = RequestedEvent { name, terms: &[], text: name };
    let found = host_event::find(&wanted, cores, Modes::USER);
    let found = found.map_err(|error| error.to_string()).and_then(|found| found.ok_or_else(String::new));
    let (resolution, available) = match found {
        Ok(HostEvent { candidate: Some(candidate), .. }) => {
            (candidate.resolution, reason(&machine.ladder.perf_hardware))
        }
        Ok(HostEvent { missing, .. }) => (String::new(), Err(LackReason::CorePmus(missing).to_string())),
        Err(reason) => (String::new(), Err(reason)),
    };
    Listing { name: name.to_owned(), resolution, available, ..blank(ListingKind::Portable) }
}

/// An empty listing of a kind, counted by perf.
fn blank(kind: ListingKind) -> Listing {
    Listing {
        name: String::new(),
        aliases: Vec::new(),
        kind,
        rung: Rung::Perf,
        unit: Unit::Count,
        resolution: String::new(),
        available: Ok(()),
        description: String::new(),
        counters: None,
        deprecated: false,
    }
}

/// The portable events whose names belong to no other kind.
fn portables(machine: &Machine, cores: &[CoreTables<'_>]) -> Vec<Listing> {
    let taken = |name: &str| {
        HARDWARE.iter().any(|hardware| crate::generic::named(hardware.names, name))
            || soft::find(&[name]).is_some()
            || CacheEvent::parse(name).is_some()
    };
    let entry = |portable: &Portable| Listing {
        aliases: portable.aliases().iter().filter(|alias| !taken(alias)).map(|a| (*a).to_owned()).collect(),
        description: portable.about().to_owned(),
        ..of_table(portable.name(), machine, cores)
    };
    portable::all().iter().filter(|portable| !taken(portable.name())).map(entry).collect()
}

fn names(names: &[&str]) -> (String, Vec<String>) {
    (names[0].to_owned(), names[1..].iter().map(|n| (*n).to_owned()).collect())
}

fn accounting() -> Vec<Listing> {
    let entry = |a: &crate::generic::Accounting| {
        let (name, aliases) = names(a.names);
        Listing {
            name,
            aliases,
            rung: Rung::Os,
            unit: a.unit.clone(),
            resolution: a.resolution.to_owned(),
            description: a.about.to_owned(),
            ..blank(ListingKind::Os)
        }
    };
    ACCOUNTING.iter().map(entry).collect()
}

/// Energy that only the kernel's power capping counts, not a PMU.
fn energy_zones(machine: &Machine) -> Vec<Listing> {
    let by_pmu = |domain: EnergyDomain| {
        machine.pmu(energy::PMU).is_some_and(|pmu| pmu.events.contains_key(domain.event()))
    };
    let entry = |domain: EnergyDomain| {
        let candidate = energy::candidate(domain, machine)?;
        Some(Listing {
            name: domain.event().to_owned(),
            aliases: vec![format!("{}/{}/", energy::PMU, domain.event())],
            rung: Rung::Os,
            unit: energy::unit(),
            resolution: candidate.resolution,
            description: domain.about().to_owned(),
            ..blank(ListingKind::Os)
        })
    };
    EnergyDomain::ALL.into_iter().filter(|domain| !by_pmu(*domain)).filter_map(entry).collect()
}

/// The quantities of GPUs, on a machine that may have one.
fn gpus(machine: &Machine) -> Vec<Listing> {
    let entry = |quantity: GpuQuantity| {
        let candidate = GpuEvent { quantity, device: None }.candidate(machine).ok()?;
        Some(Listing {
            name: format!("{}-{}", gpu::PMU, quantity.name()),
            aliases: vec![format!("{}/{}/", gpu::PMU, quantity.name())],
            rung: Rung::Gpu,
            unit: quantity.unit(),
            resolution: candidate.resolution,
            available: machine.ladder.check(Rung::Gpu, "there is no GPU here"),
            description: quantity.about().to_owned(),
            ..blank(ListingKind::Device)
        })
    };
    GpuQuantity::ALL.into_iter().filter_map(entry).collect()
}

fn software(machine: &Machine) -> Vec<Listing> {
    let entry = |s: &crate::generic::SoftwareEvent| {
        let (name, aliases) = names(s.names);
        let by_perf = reason(&machine.ladder.perf_software);
        let (rung, available, resolution) = match (by_perf, s.os) {
            (Err(_), Some(metric)) => (Rung::Os, Ok(()), accounting_source(metric).to_owned()),
            (by_perf, _) => (Rung::Perf, by_perf, format!("software/config={:#x}/", s.config)),
        };
        let (kind, unit, description) = (ListingKind::Software, s.unit(), s.about.to_owned());
        Listing { name, aliases, rung, unit, resolution, available, description, ..blank(kind) }
    };
    SOFTWARE.iter().map(entry).collect()
}

fn hardware(machine: &Machine) -> Vec<Listing> {
    let entry = |h: &crate::generic::Hardware| {
        let (name, aliases) = names(h.names);
        let by_perf = reason(&machine.ladder.perf_hardware);
        let by_soft = soft::find(h.names).filter(|_| by_perf.is_err() && soft::available(machine).is_ok());
        let account = accounts::of_generic(h.names)
            .filter(|_| by_perf.is_err() && accounts::available(machine).is_ok());
        let (rung, available, resolution) = match (account, by_soft) {
            (Some(account), _) => (Rung::SelfCounts, Ok(()), account.resolution.to_owned()),
            (None, Some(event)) => (Rung::Soft, Ok(()), event.candidate(Modes::USER).resolution),
            (None, None) => (Rung::Perf, by_perf, format!("generic hardware event {}", h.config)),
        };
        let (kind, unit, description) = (ListingKind::Hardware, Unit::Count, h.about.to_owned());
        Listing { name, aliases, rung, unit, resolution, available, description, ..blank(kind) }
    };
    HARDWARE.iter().map(entry).collect()
}

/// The events of macOS's accounts of counters, except for generic events.
fn accounts_of_counters(machine: &Machine) -> Vec<Listing> {
    let entry = |account: &accounts::AccountEvent| {
        let (name, aliases) = names(account.names);
        Listing {
            name,
            aliases,
            rung: Rung::SelfCounts,
            unit: account.unit(),
            resolution: account.resolution.to_owned(),
            available: match account.lacks_core_types(machine) {
                Some(reason) => Err(reason.to_string()),
                None => accounts::available(machine),
            },
            description: account.about.to_owned(),
            ..blank(ListingKind::Os)
        }
    };
    accounts::EVENTS.iter().filter(|_| accounts::is_here(machine)).map(entry).collect()
}

/// The events of the software PMU, except for generic events.
fn counted(machine: &Machine) -> Vec<Listing> {
    let is_generic = |event: &soft::SoftEvent| HARDWARE.iter().any(|h| h.names.contains(&event.name));
    let entry = |event: soft::SoftEvent| Listing {
        name: event.name.to_owned(),
        aliases: event.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        rung: Rung::Soft,
        unit: event.unit(),
        resolution: event.candidate(Modes::USER).resolution,
        available: soft::available(machine),
        description: event.about.to_owned(),
        ..blank(ListingKind::Counted)
    };
    soft::soft_events().filter(|event| !is_generic(event)).map(entry).collect()
}

/// With `known` tables, the portable names mean the vendor's events and not these.
fn caches(machine: &Machine, known: bool) -> Vec<Listing> {
    let names: &[(&str, CacheEvent)] = if known { &[] } else { PORTABLE_CACHE };
    let portable = |event: CacheEvent| names.iter().filter(move |p| p.1 == event).map(|p| p.0.to_owned());
    let short = |event: CacheEvent| {
        let name = event.name();
        let tail = name.strip_prefix(CACHES[event.cache as usize].names[0]).map(str::to_owned)?;
        let second = CACHES[event.cache as usize].names.get(1)?;
        Some(format!("{second}{tail}"))
    };
    CacheEvent::all()
        .map(|event| Listing {
            name: event.name(),
            aliases: portable(event).chain(short(event)).collect(),
            resolution: format!("generic cache event {:#x}", event.config()),
            available: reason(&machine.ladder.perf_hardware),
            description: event.about(),
            ..blank(ListingKind::Cache)
        })
        .collect()
}

fn without_generic() -> Vec<Listing> {
    let entry = |(name, near): &(&str, &str)| Listing {
        name: (*name).to_owned(),
        available: Err(format!("the kernel has no generic event for it; nearest: {near}")),
        description: name.replace('_', " ").replace("l2", "level 2"),
        ..blank(ListingKind::Cache)
    };
    PORTABLE_WITHOUT_GENERIC.iter().map(entry).collect()
}

fn devices(machine: &Machine) -> Vec<Listing> {
    let mut all = Vec::new();
    for pmu in &machine.pmus {
        for name in pmu.events.keys() {
            let text = format!("{}/{name}/", pmu.name);
            let encoded = device::encode_named(pmu, name, &text);
            all.push(Listing {
                name: text,
                unit: unit_of(pmu.events[name].unit.clone()),
                resolution: encoded.as_ref().map(|e| e.event.to_string()).unwrap_or_default(),
                available: match &encoded {
                    Ok(e) => device_available(machine, e.event.class),
                    Err(error) => Err(error.to_string()),
                },
                description: format!("named by the kernel: {}", pmu.events[name].terms.trim()),
                ..blank(ListingKind::Device)
            });
        }
    }
    all
}

/// Whether perf counts a class of events, with the reason in words if not.
fn reason(counts: &Result<(), Cause>) -> Result<(), String> {
    counts.clone().map_err(|cause| cause.text)
}

fn device_available(machine: &Machine, class: PerfClass) -> Result<(), String> {
    match class {
        PerfClass::Core => reason(&machine.ladder.perf_hardware),
        PerfClass::SystemDevice => reason(&machine.ladder.perf_cpu_wide),
        _ => reason(&machine.ladder.perf_software),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve_list;
    use crate::testing::{big_little, hybrid, skylake, vm_with_soft, vm_without_pmu};

    #[test]
    fn every_listed_name_and_alias_resolves() {
        for machine in [skylake(), hybrid(), big_little(), vm_without_pmu(), vm_with_soft()] {
            for listing in list(&machine, Tables::embedded()) {
                for name in std::iter::once(&listing.name).chain(&listing.aliases) {
                    resolve_list(name, &machine, true).unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
        }
    }

    #[test]
    fn what_the_software_pmu_counts_is_listed_once_with_its_state() {
        let find = |machine: &Machine, name: &str| {
            let found: Vec<Listing> =
                list(machine, Tables::embedded()).into_iter().filter(|l| l.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found.into_iter().next().unwrap()
        };
        let here = find(&vm_with_soft(), "instructions");
        assert_eq!((here.rung, here.available, here.kind), (Rung::Soft, Ok(()), ListingKind::Hardware));
        assert_eq!(here.resolution, "soft/instructions/");
        assert_eq!(find(&vm_without_pmu(), "instructions").rung, Rung::Perf);
        assert_eq!(find(&vm_with_soft(), "calls").available, Ok(()));
        assert!(find(&vm_without_pmu(), "calls").available.is_err());
        assert_eq!(find(&skylake(), "calls").kind, ListingKind::Counted);
    }

    #[test]
    fn without_a_pmu_hardware_events_say_why() {
        let all = list(&vm_without_pmu(), Tables::embedded());
        let cycles = all.iter().find(|l| l.name == "cycles").unwrap();
        assert_eq!(cycles.available, Err("no PMU in this VM".to_owned()));
        assert!(all.iter().any(|l| l.kind == ListingKind::Software && l.available.is_ok()));
    }
}
