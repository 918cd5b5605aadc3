//! The table of the software PMU's events, read in place.

use cyclometer_core::event::Unit;
use cyclometer_core::ladder::Works;
use cyclometer_core::{Candidate, Machine, Modes, Rung};

/// The table; its head describes the format.
const TABLE: &str = include_str!("../data/soft/x86_64");

/// The line between the header and the events.
const EVENTS: &str = "events";

/// An event of the software PMU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SoftEvent {
    /// Its name, which is also the software PMU's own.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: Vec<&'static str>,
    /// The unit's symbol; empty for a number of events.
    pub unit: &'static str,
    /// The description, in a line.
    pub about: &'static str,
}

/// The events of the software PMU, in the order of their table.
pub fn soft_events() -> impl Iterator<Item = SoftEvent> {
    let lines = TABLE.lines().skip_while(|line| *line != EVENTS).skip(1);
    lines.filter_map(read)
}

/// Reads a line of the table; `None` for one that is no event.
fn read(line: &'static str) -> Option<SoftEvent> {
    let mut fields = line.splitn(4, '|').map(str::trim).map(|field| if field == "-" { "" } else { field });
    let (name, aliases, unit, about) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let aliases = aliases.split(',').map(str::trim).filter(|alias| !alias.is_empty()).collect();
    Some(SoftEvent { name, aliases, unit, about })
}

impl SoftEvent {
    /// Whether it has this name, in any case.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        std::iter::once(&self.name).chain(&self.aliases).any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The unit of its values.
    pub(crate) fn unit(&self) -> Unit {
        if self.unit == "B" { Unit::Bytes } else { Unit::Count }
    }

    /// The candidate that counts it.
    pub(crate) fn candidate(&self, modes: Modes) -> Candidate {
        Candidate::soft(self.name, modes)
    }
}

/// The event of one of these names.
pub(crate) fn find(names: &[&str]) -> Option<SoftEvent> {
    soft_events().find(|event| names.iter().any(|name| event.is_named(name)))
}

/// Whether the software PMU could count on this kind of machine, even if it is forbidden now, or this program
/// was built without it.
pub(crate) fn is_here(machine: &Machine) -> bool {
    machine.ladder.state(Rung::Soft).is_some_and(|state| state.works != Works::NotHere)
}

/// Whether the software PMU works on this machine, otherwise the reason.
pub(crate) fn available(machine: &Machine) -> Result<(), String> {
    machine.ladder.check(Rung::Soft, "there is no software PMU here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_line_behind_the_header_is_an_event() {
        let lines = TABLE.lines().skip_while(|line| *line != EVENTS).skip(1);
        assert_eq!(lines.count(), soft_events().count());
        assert!(soft_events().count() > 30);
        for event in soft_events() {
            assert!(!event.name.is_empty() && !event.about.is_empty(), "{event:?}");
            assert!(["", "B"].contains(&event.unit), "{event:?}");
            assert!(event.aliases.iter().all(|alias| !alias.contains(' ')), "{event:?}");
        }
    }

    #[test]
    fn the_header_has_what_every_table_has() {
        let header: Vec<&str> = TABLE.lines().take_while(|line| *line != EVENTS).collect();
        for key in ["match", "family", "modes", "version", "date", "sources", "licence"] {
            let found = header.iter().filter(|line| line.split_whitespace().next() == Some(key)).count();
            assert_eq!(found, 1, "{key}");
        }
    }

    #[test]
    fn no_name_means_two_events() {
        let mut seen = HashSet::new();
        for event in soft_events() {
            for name in event.aliases.iter().chain([&event.name]) {
                assert!(seen.insert(name.to_lowercase()), "{name} is there twice");
            }
        }
    }

    #[test]
    fn nothing_that_can_only_be_modelled_is_in_the_table() {
        for name in ["cycles", "branch-misses", "cache-misses", "l1d_cache_loads", "dtlb_misses"] {
            assert_eq!(find(&[name]), None, "{name}");
        }
    }
}
