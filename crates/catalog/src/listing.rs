//! What this machine offers, for `list` and for the nearest names.

use cyclometer_core::event::{PerfClass, Unit};
use cyclometer_core::{Machine, Modes, Rung};

use crate::device;
use crate::generic::{
    ACCOUNTING, CACHES, CacheEvent, HARDWARE, PORTABLE_CACHE, PORTABLE_WITHOUT_GENERIC, SOFTWARE,
    accounting_source,
};
use crate::resolve::unit_of;
use crate::soft;

/// One event that can be asked for by name.
#[derive(Clone, PartialEq, Debug)]
pub struct Listing {
    /// The name to use.
    pub name: String,
    /// Other spellings of it.
    pub aliases: Vec<String>,
    /// What kind of event it is.
    pub kind: Kind,
    /// The best source for it on this machine.
    pub rung: Rung,
    /// Unit of its values.
    pub unit: Unit,
    /// What the name resolves to.
    pub resolution: String,
    /// Whether it can be counted here, else why not. Cache events are known only when opened.
    pub available: Result<(), String>,
    /// What it counts, in a line.
    pub description: String,
}

/// Kinds of event in a listing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A generic hardware event.
    Hardware,
    /// A generic cache event.
    Cache,
    /// A software event of the kernel.
    Software,
    /// An event that the software PMU alone has.
    Counted,
    /// An event that the kernel names in a PMU device's folder.
    Device,
    /// The operating system's accounting.
    Os,
}

impl Kind {
    /// The word used in `list`.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Hardware => "hardware",
            Kind::Cache => "cache",
            Kind::Software => "software",
            Kind::Counted => "counted",
            Kind::Device => "device",
            Kind::Os => "os",
        }
    }
}

/// Every event that can be named on this machine, by kind.
pub fn list(machine: &Machine) -> Vec<Listing> {
    let mut all = accounting();
    all.extend(software(machine));
    all.extend(hardware(machine));
    all.extend(counted(machine));
    all.extend(caches(machine));
    all.extend(without_generic());
    all.extend(devices(machine));
    all
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
            kind: Kind::Os,
            rung: Rung::Os,
            unit: a.unit.clone(),
            resolution: a.resolution.to_owned(),
            available: Ok(()),
            description: a.about.to_owned(),
        }
    };
    ACCOUNTING.iter().map(entry).collect()
}

fn software(machine: &Machine) -> Vec<Listing> {
    let entry = |s: &crate::generic::Software| {
        let (name, aliases) = names(s.names);
        let by_perf = machine.ladder.perf_software.clone();
        let (rung, available, resolution) = match (by_perf, s.os) {
            (Err(_), Some(metric)) => (Rung::Os, Ok(()), accounting_source(metric).to_owned()),
            (by_perf, _) => (Rung::Perf, by_perf, format!("software/config={:#x}/", s.config)),
        };
        let (kind, unit, description) = (Kind::Software, s.unit(), s.about.to_owned());
        Listing { name, aliases, kind, rung, unit, resolution, available, description }
    };
    SOFTWARE.iter().map(entry).collect()
}

fn hardware(machine: &Machine) -> Vec<Listing> {
    let entry = |h: &crate::generic::Hardware| {
        let (name, aliases) = names(h.names);
        let by_perf = machine.ladder.perf_hardware.clone();
        let by_soft = soft::find(h.names).filter(|_| by_perf.is_err() && soft::available(machine).is_ok());
        let (rung, available, resolution) = match by_soft {
            Some(event) => (Rung::Soft, Ok(()), event.candidate(Modes::USER).resolution),
            None => (Rung::Perf, by_perf, format!("generic hardware event {}", h.config)),
        };
        let (kind, unit, description) = (Kind::Hardware, Unit::Count, h.about.to_owned());
        Listing { name, aliases, kind, rung, unit, resolution, available, description }
    };
    HARDWARE.iter().map(entry).collect()
}

/// What the software PMU counts beside the generic events.
fn counted(machine: &Machine) -> Vec<Listing> {
    let is_generic = |event: &soft::SoftEvent| HARDWARE.iter().any(|h| h.names.contains(&event.name));
    let entry = |event: soft::SoftEvent| Listing {
        name: event.name.to_owned(),
        aliases: event.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
        kind: Kind::Counted,
        rung: Rung::Soft,
        unit: event.unit(),
        resolution: event.candidate(Modes::USER).resolution,
        available: soft::available(machine),
        description: event.about.to_owned(),
    };
    soft::soft_events().filter(|event| !is_generic(event)).map(entry).collect()
}

fn caches(machine: &Machine) -> Vec<Listing> {
    let portable =
        |event: CacheEvent| PORTABLE_CACHE.iter().filter(move |p| p.1 == event).map(|p| p.0.to_owned());
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
            kind: Kind::Cache,
            rung: Rung::Perf,
            unit: Unit::Count,
            resolution: format!("generic cache event {:#x}", event.config()),
            available: machine.ladder.perf_hardware.clone(),
            description: event.about(),
        })
        .collect()
}

fn without_generic() -> Vec<Listing> {
    let entry = |(name, near): &(&str, &str)| Listing {
        name: (*name).to_owned(),
        aliases: Vec::new(),
        kind: Kind::Cache,
        rung: Rung::Perf,
        unit: Unit::Count,
        resolution: String::new(),
        available: Err(format!("the kernel has no generic event for it; nearest: {near}")),
        description: name.replace('_', " ").replace("l2", "level 2"),
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
                aliases: Vec::new(),
                kind: Kind::Device,
                rung: Rung::Perf,
                unit: unit_of(pmu.events[name].unit.clone()),
                resolution: encoded.as_ref().map(|e| e.event.to_string()).unwrap_or_default(),
                available: match &encoded {
                    Ok(e) => device_available(machine, e.event.class),
                    Err(error) => Err(error.to_string()),
                },
                description: format!("named by the kernel: {}", pmu.events[name].terms.trim()),
            });
        }
    }
    all
}

fn device_available(machine: &Machine, class: PerfClass) -> Result<(), String> {
    match class {
        PerfClass::Core => machine.ladder.perf_hardware.clone(),
        PerfClass::SystemDevice => machine.ladder.perf_cpu_wide.clone(),
        _ => machine.ladder.perf_software.clone(),
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
            for listing in list(&machine) {
                for name in std::iter::once(&listing.name).chain(&listing.aliases) {
                    resolve_list(name, &machine, true).unwrap_or_else(|e| panic!("{name}: {e}"));
                }
            }
        }
    }

    #[test]
    fn what_the_software_pmu_counts_is_listed_once_with_its_state() {
        let find = |machine: &Machine, name: &str| {
            let found: Vec<Listing> = list(machine).into_iter().filter(|l| l.name == name).collect();
            assert_eq!(found.len(), 1, "{name}");
            found.into_iter().next().unwrap()
        };
        let here = find(&vm_with_soft(), "instructions");
        assert_eq!((here.rung, here.available, here.kind), (Rung::Soft, Ok(()), Kind::Hardware));
        assert_eq!(here.resolution, "soft/instructions/");
        assert_eq!(find(&vm_without_pmu(), "instructions").rung, Rung::Perf);
        assert_eq!(find(&vm_with_soft(), "calls").available, Ok(()));
        assert!(find(&vm_without_pmu(), "calls").available.is_err());
        assert_eq!(find(&skylake(), "calls").kind, Kind::Counted);
    }

    #[test]
    fn without_a_pmu_hardware_events_say_why() {
        let all = list(&vm_without_pmu());
        let cycles = all.iter().find(|l| l.name == "cycles").unwrap();
        assert_eq!(cycles.available, Err("no PMU in this VM".to_owned()));
        assert!(all.iter().any(|l| l.kind == Kind::Software && l.available.is_ok()));
    }
}
