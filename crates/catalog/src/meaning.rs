//! The meaning of an event's name in the tables of a core type, and the error where it has none.
//!
//! Events of a machine ([`crate::host_event`]) and events of a CPU of the catalogue ([`crate::select`]) are
//! found here alone, by the same spellings and with the same suggestions.

use cyclometer_arch::Coded;
use cyclometer_core::syntax::Term;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::portable::{self, PortableEvents};
use crate::table::{Cpu, Entry};
use crate::{pmu_names, suggest, terms};

/// The meaning of a name in the tables of a core type.
pub(crate) enum NameMeaning<'a> {
    /// The vendor's event.
    Event(FoundEntry<'a>),
    /// A portable name: the vendor's events that are added up, or one.
    Portable {
        /// The events.
        summands: Vec<FoundEntry<'a>>,
        /// A note for readers of the value.
        note: Option<&'static str>,
    },
    /// A portable name for which the vendor has no event.
    NoCounterpart {
        /// The reason.
        reason: &'static str,
        /// The nearest events of the vendor.
        nearest: Vec<&'static str>,
    },
    /// No event of these tables.
    Unknown,
}

impl<'a> NameMeaning<'a> {
    /// The meaning of a name with these terms in tables, best first. A load latency may be written without
    /// the threshold of the vendor's names where a term gives one.
    pub(crate) fn of(name: &str, terms: &[Term], tables: &[Cpu<'a>]) -> NameMeaning<'a> {
        let has_threshold = || terms.iter().any(|term| term.name == "ldlat");
        let latency = || FoundEntry::named(&format!("{name}_GT_4"), tables).filter(|_| has_threshold());
        if let Some(found) = FoundEntry::named(name, tables).or_else(latency) {
            return NameMeaning::Event(found);
        }
        let (Some(portable), Some(cpu)) = (portable::find(name), tables.first()) else {
            return NameMeaning::Unknown;
        };
        let has = |name: &str| FoundEntry::named(name, tables).is_some();
        match portable.among(cpu.family(), cpu.id(), has) {
            PortableEvents::Event { names, note } => {
                let summands = names.iter().filter_map(|name| FoundEntry::named(name, tables)).collect();
                NameMeaning::Portable { summands, note }
            }
            PortableEvents::None { reason, nearest } => NameMeaning::NoCounterpart { reason, nearest },
        }
    }
}

/// An event of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundEntry<'a> {
    /// The table.
    pub cpu: Cpu<'a>,
    /// The event.
    pub entry: Entry<'a>,
}

impl<'a> FoundEntry<'a> {
    /// The event of that name in the first table that has it.
    pub(crate) fn named(name: &str, tables: &[Cpu<'a>]) -> Option<FoundEntry<'a>> {
        tables.iter().find_map(|cpu| Some(FoundEntry { cpu: *cpu, entry: entry(cpu, name)? }))
    }

    /// Its code with terms that refine it.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` for a term that the event cannot have, or a value that its field cannot
    /// hold.
    pub(crate) fn refined<'t>(&self, terms: impl IntoIterator<Item = &'t Term>, text: &str) -> Result<Coded> {
        let mut coded = terms::coded(&self.entry);
        terms.into_iter().try_for_each(|term| terms::apply(&self.cpu, &mut coded, term, text))?;
        Ok(coded)
    }
}

/// The entry for a name on a CPU: its own spelling, libpfm4's with colons and the PMU before it, or perf's of
/// an offcore response.
pub(crate) fn entry<'a>(cpu: &Cpu<'a>, name: &str) -> Option<Entry<'a>> {
    let name = name.split_once("::").map_or(name, |(_, event)| event);
    cpu.event(name)
        .or_else(|| cpu.event(&name.replace(':', ".")))
        .or_else(|| cpu.event(&name.replace(':', "_")))
        .or_else(|| cpu.event(&offcore_response(name)?))
}

/// The vendor's spelling on Cascade Lake, `OFFCORE_RESPONSE:request=A:response=B.C`, of perf's
/// `OFFCORE_RESPONSE.A.B.C`. No grammar of events accepts the vendor's spelling.
fn offcore_response(name: &str) -> Option<String> {
    let mut parts = name.splitn(3, '.');
    let (event, request, response) = (parts.next()?, parts.next()?, parts.next()?);
    let is_one = event.eq_ignore_ascii_case("OFFCORE_RESPONSE");
    is_one.then(|| format!("{event}:request={request}:response={response}"))
}

/// The error for a name that a CPU does not have: a unit mask is missing, other CPUs have it, or the nearest
/// names.
pub(crate) fn unknown(cpu: &Cpu<'_>, name: &str) -> Error {
    if name.contains('=') {
        let message = format!("'{}' is a field without an event", suggest::shown(name));
        return Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(
            "write it behind its event, as in cpu/event=0xc5,umask=1/ or EVENT:cmask=1",
        ));
    }
    let event = name.split_once("::").map_or(name, |(_, event)| event);
    if let Some(vendors) = pmu_names::vendors_name(cpu, event) {
        let message = format!("'{}' is libpfm4's name of an event of {}", suggest::shown(name), cpu.id());
        return Error::new(ErrorKind::UnknownEvent, message)
            .with_recovery(Recovery::fix(format!("write the vendor's name: {vendors}")));
    }
    if let Some(error) = without_mask(cpu, event, name) {
        return error;
    }
    let mut names: Vec<&str> = cpu.events().map(|entry| entry.name()).collect();
    for name in portable::names() {
        names.push(name);
    }
    let near = suggest::nearest(&event.replace(':', "."), names.into_iter());
    let message = format!("{} has no event named '{}'", cpu.id(), suggest::shown(name));
    let recovery = match near.is_empty() {
        false => Recovery::OfferNearest { names: near },
        true => Recovery::fix(format!("`cyclometer list --cpu {}` shows its events", cpu.id())),
    };
    Error::new(ErrorKind::UnknownEvent, message).with_recovery(recovery)
}

/// The error for an event of a CPU that lacks its unit mask; `None` where that is not what is missing.
/// `shown` is the name as it was written.
pub(crate) fn without_mask(cpu: &Cpu<'_>, event: &str, shown: &str) -> Option<Error> {
    let names = parts_of(cpu, event);
    let message =
        format!("'{}' alone is ambiguous on {}: it has unit masks", suggest::shown(shown), cpu.id());
    let error = Error::new(ErrorKind::UnknownEvent, message);
    (!names.is_empty()).then(|| error.with_recovery(Recovery::OfferNearest { names }))
}

/// The first events whose names begin with this one and a separator.
fn parts_of(cpu: &Cpu<'_>, name: &str) -> Vec<String> {
    const OFFERED: usize = 5;
    let begins = |own: &str| {
        let head = own.as_bytes().get(..name.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
            && own.as_bytes().get(name.len()) == Some(&b'.')
    };
    cpu.events()
        .map(|entry| entry.name())
        .filter(|own| begins(own))
        .take(OFFERED)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::cpu;
    use cyclometer_core::syntax::parse_event;

    fn meaning<'a>(name: &str, tables: &[Cpu<'a>]) -> NameMeaning<'a> {
        let request = parse_event(name).unwrap();
        let cyclometer_core::syntax::Selector::Name(name) = &request.selector else { panic!("{name}") };
        NameMeaning::of(name, &request.attributes, tables)
    }

    fn names(meaning: &NameMeaning<'_>) -> Vec<String> {
        match meaning {
            NameMeaning::Event(found) => vec![found.entry.name().to_owned()],
            NameMeaning::Portable { summands, .. } => {
                summands.iter().map(|found| found.entry.name().to_owned()).collect()
            }
            NameMeaning::NoCounterpart { .. } | NameMeaning::Unknown => Vec::new(),
        }
    }

    #[test]
    fn a_name_has_one_meaning_in_every_spelling() {
        let skylake = [cpu("skylake").unwrap()];
        for spelling in ["BR_MISP_RETIRED.ALL_BRANCHES", "skl::BR_MISP_RETIRED:ALL_BRANCHES", "branch_misses"]
        {
            assert_eq!(names(&meaning(spelling, &skylake)), ["BR_MISP_RETIRED.ALL_BRANCHES"], "{spelling}");
        }
        let latency = meaning("MEM_TRANS_RETIRED.LOAD_LATENCY:ldlat=64", &skylake);
        assert_eq!(names(&latency), ["MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4"]);
        assert!(matches!(meaning("MEM_TRANS_RETIRED.LOAD_LATENCY", &skylake), NameMeaning::Unknown));
        assert!(matches!(meaning("instructions", &[]), NameMeaning::Unknown), "there is no table");
    }

    #[test]
    fn the_first_table_that_has_a_name_gives_its_meaning() {
        let tables = [cpu("skylake").unwrap(), cpu("zen4").unwrap_or_else(|_| cpu("amdzen4").unwrap())];
        let NameMeaning::Event(found) = meaning("ex_ret_brn_misp", &tables) else { panic!() };
        assert_eq!(found.cpu.id(), tables[1].id());
    }

    #[test]
    fn an_event_without_its_unit_mask_is_told_from_an_unknown_one() {
        let skylake = cpu("skylake").unwrap();
        assert!(without_mask(&skylake, "BR_MISP_RETIRED", "BR_MISP_RETIRED").is_some());
        assert!(without_mask(&skylake, "NO_SUCH", "NO_SUCH").is_none());
        let error = unknown(&skylake, "skl::BR_MISP_RETIRED").to_string();
        assert!(error.contains("'skl::BR_MISP_RETIRED' alone is ambiguous on skylake"), "{error}");
    }
}
