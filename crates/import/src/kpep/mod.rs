//! Apple's event databases (`/usr/share/kpep/*.plist`), as XML or binary property lists.
//!
//! # Layout
//!
//! `system`, in it `cpu`, in it `events` (a dictionary by name: `number`, `counters_mask`, `fixed_counter`,
//! `fallback`, `umask`, `description`, `errata`), `aliases` (alias to name), `config_counters`,
//! `fixed_counters` and `power_counters` (masks over PMC numbers), `architecture`. An event without a mask
//! may use every counter of `config_counters`. An event with a fallback can be counted by that event, too.
//!
//! # Source
//!
//! Readers of these files that others published: 0ax1/apmc `src/kpep.rs`; OpenJDK's JMH `kpep` style sheet.

mod binary;
mod encodings;
mod plist;
mod xml;

use std::collections::HashMap;

use cyclometer_catalog::table::{Also, TableEvent};
use cyclometer_core::{CounterMask, EventCode};

use crate::error::{ImportError, ImportResult};
use crate::json;
use crate::words;
use plist::Plist;

/// The most counters of a core.
const COUNTERS: u32 = 32;

/// A database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Database {
    /// Its name (`a14`); empty where the file has none.
    pub name: String,
    /// The file's name for the chip; empty where it has none.
    pub title: String,
    /// The counters: configurable ones by PMC number, and the fixed ones.
    pub counters: CounterMask,
    /// The counters that the power manager has until a program requests all.
    pub power: CounterMask,
    /// Its events, in the order of the file.
    pub events: Vec<TableEvent>,
}

/// Events that macOS renamed: the older name and the newer one. A database has one of the two.
///
/// # Source
///
/// hashintel/hash `libs/darwin-kperf/events` beside jiegec/apple-pmu `a14.md` to `as4.md`.
const RENAMED: [(&str, &str); 1] = [("ST_MEMORY_ORDER_VIOLATION_NONSPEC", "ST_MEM_ORDER_VIOL_LD_NONSPEC")];

/// Whether bytes start like a property list.
pub fn is_plist(bytes: &[u8]) -> bool {
    encodings::is_plist(bytes)
}

/// Reads a database.
///
/// # Errors
///
/// Bytes that are no property list or no database; one of another architecture than Arm's 64-bit one; an
/// event without a number, or with one or a mask that does not fit; an alias of nothing, or that is an event.
pub fn database(bytes: &[u8]) -> ImportResult<Database> {
    let root = encodings::parse(bytes)?;
    let cpu = root.get("system").and_then(|system| system.get("cpu"));
    let cpu = cpu.ok_or_else(|| ImportError::file("no event database: there is no 'system', 'cpu'"))?;
    let architecture = text(cpu, "architecture");
    if !matches!(architecture, "" | "arm64" | "arm64e") {
        let shown = json::shown(architecture);
        return Err(ImportError::file(format!("a database of '{shown}'; only those of arm64 are read")));
    }
    let Some(Plist::Dict(list)) = cpu.get("events") else {
        return Err(ImportError::file("no event database: there are no 'events' in 'system', 'cpu'"));
    };
    let config = mask(cpu, "cpu", "config_counters")?;
    let config = config.ok_or_else(|| ImportError::at("cpu, config_counters", "is missing"))?;
    let fixed = mask(cpu, "cpu", "fixed_counters")?.unwrap_or(0);
    let power = mask(cpu, "cpu", "power_counters")?.unwrap_or(0);
    if power & !config != 0 {
        let message = format!("{power:#x} is no part of the counters {config:#x}");
        return Err(ImportError::at("cpu, power_counters", message));
    }
    let mut events = KpepEvents { config, fixed, ..KpepEvents::default() };
    list.iter().try_for_each(|(name, event)| events.add(name, event))?;
    list.iter().try_for_each(|(name, event)| events.fall_back(name, text(event, "fallback")))?;
    cpu.get("aliases")
        .map_or(&[][..], Plist::entries)
        .iter()
        .try_for_each(|(alias, name)| events.alias(alias, name))?;
    RENAMED.iter().for_each(|(older, newer)| events.rename(older, newer));
    Ok(Database {
        power: CounterMask::from_bits(power, 0),
        name: words::word(text(&root, "name")),
        title: words::line(text(cpu, "marketing_name")),
        counters: CounterMask::from_bits(config, fixed),
        events: events.list,
    })
}

/// Events as they are read.
#[derive(Default)]
struct KpepEvents {
    list: Vec<TableEvent>,
    /// Where the event of a name or alias stands.
    places: HashMap<String, usize>,
    config: u64,
    fixed: u64,
}

impl KpepEvents {
    fn add(&mut self, name: &str, event: &Plist) -> ImportResult<()> {
        let name = json::event_name(name)?;
        if !matches!(event, Plist::Dict(_)) {
            return Err(ImportError::at(name, "is no dictionary"));
        }
        if self.places.insert(name.to_ascii_lowercase(), self.list.len()).is_some() {
            return Err(ImportError::at(name, "is there twice"));
        }
        let counters = self.counters(name, event)?;
        let select = integer(event, name, "number", u16::MAX.into())?;
        if select.is_none() && counters.fixed_bits() == 0 {
            return Err(ImportError::at(format!("{name}, number"), "is missing"));
        }
        self.list.push(TableEvent {
            name: name.to_owned(),
            code: EventCode {
                select: select.unwrap_or(0) as u16,
                umask: integer(event, name, "umask", u8::MAX.into())?.unwrap_or(0) as u8,
                ..EventCode::default()
            },
            counters: Some(counters),
            errata: errata(text(event, "errata")),
            about: words::line(text(event, "description")),
            ..TableEvent::default()
        });
        Ok(())
    }

    /// The counters of an event: a fixed one by its number, or those of its mask.
    fn counters(&self, name: &str, event: &Plist) -> ImportResult<CounterMask> {
        if let Some(number) = integer(event, name, "fixed_counter", (COUNTERS - 1).into())? {
            let fixed = 1 << number;
            let exists = self.fixed & fixed != 0;
            let unknown =
                || ImportError::at(format!("{name}, fixed_counter"), format!("there is no counter {number}"));
            return exists.then_some(CounterMask::from_bits(0, fixed)).ok_or_else(unknown);
        }
        let mask = mask(event, name, "counters_mask")?.unwrap_or(self.config);
        if mask & !self.config != 0 || mask == 0 {
            let message = format!("{mask:#x} is no part of the counters {:#x}", self.config);
            return Err(ImportError::at(format!("{name}, counters_mask"), message));
        }
        Ok(CounterMask::from_bits(mask, 0))
    }

    /// Lets an event be counted by the event that it names as its fallback, too.
    fn fall_back(&mut self, name: &str, fallback: &str) -> ImportResult<()> {
        if fallback.is_empty() {
            return Ok(());
        }
        let place = |name: &str| self.places.get(&name.to_ascii_lowercase()).copied();
        let (Some(own), Some(other)) = (place(name), place(fallback)) else {
            let message = format!("'{}' is no event", json::shown(fallback));
            return Err(ImportError::at(format!("{name}, fallback"), message));
        };
        if own != other {
            let other = &self.list[other];
            let also = Also { code: other.code, counters: other.counters };
            self.list[own].also.push(also);
        }
        Ok(())
    }

    /// Gives an event its name of another version of macOS as an alias.
    fn rename(&mut self, older: &str, newer: &str) {
        let place = |name: &str| self.places.get(&name.to_ascii_lowercase()).copied();
        let (own, alias) = match (place(older), place(newer)) {
            (Some(own), None) => (own, newer),
            (None, Some(own)) => (own, older),
            _ => return,
        };
        self.places.insert(alias.to_ascii_lowercase(), own);
        self.list[own].aliases.push(alias.to_owned());
    }

    fn alias(&mut self, alias: &str, name: &Plist) -> ImportResult<()> {
        let place = || format!("aliases, {}", json::shown(alias));
        let alias = json::event_name(alias).map_err(|error| ImportError::at("aliases", error.message))?;
        let Plist::Text(name) = name else { return Err(ImportError::at(place(), "is no text")) };
        let target = self.places.get(&name.to_ascii_lowercase()).copied();
        let target =
            target.ok_or_else(|| ImportError::at(place(), format!("'{}' is no event", json::shown(name))))?;
        if self.places.insert(alias.to_ascii_lowercase(), target).is_some() {
            return Err(ImportError::at(place(), "is an event, or there twice"));
        }
        self.list[target].aliases.push(alias.to_owned());
        Ok(())
    }
}

fn text<'a>(dict: &'a Plist, key: &str) -> &'a str {
    match dict.get(key) {
        Some(Plist::Text(text)) => text.trim(),
        _ => "",
    }
}

/// A whole number, or none where there is no such key.
fn integer(dict: &Plist, name: &str, key: &str, most: u64) -> ImportResult<Option<u64>> {
    let error = |message: String| Err(ImportError::at(format!("{name}, {key}"), message));
    match dict.get(key) {
        None => Ok(None),
        Some(Plist::Integer(number)) => match u64::try_from(*number) {
            Ok(number) if number <= most => Ok(Some(number)),
            _ => error(format!("{number} is not from 0 to {most}")),
        },
        Some(_) => error("is no whole number".to_owned()),
    }
}

fn mask(dict: &Plist, name: &str, key: &str) -> ImportResult<Option<u64>> {
    integer(dict, name, key, (1 << COUNTERS) - 1)
}

fn errata(list: &str) -> Vec<String> {
    list.split([',', ' ']).map(words::word).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "<key>architecture</key><string>arm64</string><key>config_counters</key><integer>1020</integer>
        <key>fixed_counters</key><integer>3</integer>";
    const EVENTS: &str = "<key>FIXED_CYCLES</key><dict><key>fixed_counter</key><integer>0</integer>
            <key>counters_mask</key><integer>1</integer></dict>
        <key>INST_ALL</key><dict><key>number</key><integer>140</integer><key>counters_mask</key><integer>128</integer>
            <key>description</key><string>Everything that\nretires</string></dict>
        <key>MAP_STALL</key><dict><key>number</key><integer>118</integer></dict>";
    const ALIASES: &str = "<key>Cycles</key><string>FIXED_CYCLES</string>";

    fn read(head: &str, events: &str, aliases: &str) -> ImportResult<Database> {
        let cpu =
            format!("{head}<key>events</key><dict>{events}</dict><key>aliases</key><dict>{aliases}</dict>");
        let text = format!(
            "<plist><dict><key>name</key><string>a99</string><key>system</key><dict><key>cpu</key><dict>{cpu}</dict></dict></dict></plist>"
        );
        database(text.as_bytes())
    }

    #[test]
    fn events_have_numbers_counters_and_aliases() {
        let database = read(HEAD, EVENTS, ALIASES).unwrap();
        assert_eq!((database.name.as_str(), database.counters), ("a99", CounterMask::from_bits(0x3fc, 3)));
        let events: Vec<_> =
            database.events.iter().map(|e| (e.name.as_str(), e.code.select, e.counters)).collect();
        let masks = [(0, 1), (0x80, 0), (0x3fc, 0)].map(|(g, f)| Some(CounterMask::from_bits(g, f)));
        assert_eq!(
            events,
            [("FIXED_CYCLES", 0, masks[0]), ("INST_ALL", 0x8c, masks[1]), ("MAP_STALL", 0x76, masks[2])]
        );
        assert_eq!(database.events[0].aliases, ["Cycles"]);
        assert_eq!(database.events[1].about, "Everything that retires");
    }

    #[test]
    fn a_fallback_is_another_code_of_the_event_and_must_be_there() {
        let fixed = "<key>FIXED_INSTRUCTIONS</key><dict><key>fixed_counter</key><integer>1</integer>
            <key>fallback</key><string>INST_ALL</string></dict>";
        let database = read(HEAD, &format!("{fixed}{EVENTS}"), "").unwrap();
        let also: Vec<_> =
            database.events[0].also.iter().map(|also| (also.code.select, also.counters)).collect();
        assert_eq!(also, [(0x8c, Some(CounterMask::from_bits(0x80, 0)))]);
        let error = read(HEAD, fixed, "").unwrap_err();
        assert_eq!(error.to_string(), "FIXED_INSTRUCTIONS, fallback: 'INST_ALL' is no event");
    }

    #[test]
    fn the_power_managers_counters_and_unit_masks_are_read() {
        let head = format!("{HEAD}<key>power_counters</key><integer>224</integer>");
        let events = EVENTS
            .replace("<integer>118</integer>", "<integer>118</integer><key>umask</key><integer>3</integer>");
        let database = read(&head, &events, "").unwrap();
        assert_eq!((database.power, database.events[2].code.umask), (CounterMask::from_bits(0xe0, 0), 3));
        let outside = head.replace("224", "2048");
        let error = read(&outside, EVENTS, "").unwrap_err();
        assert_eq!(error.to_string(), "cpu, power_counters: 0x800 is no part of the counters 0x3fc");
    }

    #[test]
    fn a_name_of_another_version_of_macos_is_an_alias() {
        let named =
            |name: &str| format!("<key>{name}</key><dict><key>number</key><integer>196</integer></dict>");
        let [(older, newer)] = RENAMED;
        for (name, alias) in [(older, newer), (newer, older)] {
            assert_eq!(read(HEAD, &named(name), "").unwrap().events[0].aliases, [alias]);
        }
        let both = read(HEAD, &(named(older) + &named(newer)), "").unwrap();
        assert!(both.events.iter().all(|event| event.aliases.is_empty()));
    }

    #[test]
    fn errors_name_the_event_and_the_field() {
        let refused = |from: &str, to: &str, expected: &str| {
            let [head, events, aliases] = [HEAD, EVENTS, ALIASES].map(|part| part.replacen(from, to, 1));
            assert_ne!([head.as_str(), &events, &aliases], [HEAD, EVENTS, ALIASES], "{from}");
            assert_eq!(read(&head, &events, &aliases).unwrap_err().to_string(), expected);
        };
        refused("arm64", "x86_64", "a database of 'x86_64'; only those of arm64 are read");
        refused(">140<", ">65536<", "INST_ALL, number: 65536 is not from 0 to 65535");
        refused(">140<", ">-1<", "INST_ALL, number: -1 is not from 0 to 65535");
        refused(">128<", ">2048<", "INST_ALL, counters_mask: 0x800 is no part of the counters 0x3fc");
        refused(
            "<integer>0</integer>",
            "<integer>2</integer>",
            "FIXED_CYCLES, fixed_counter: there is no counter 2",
        );
        refused("<integer>118</integer>", "<true/>", "MAP_STALL, number: is no whole number");
        refused("<key>number</key><integer>118</integer>", "", "MAP_STALL, number: is missing");
        refused("MAP_STALL", "inst_all", "inst_all: is there twice");
        refused("config_counters", "counters", "cpu, config_counters: is missing");
        refused("<string>FIXED_CYCLES", "<string>NONE", "aliases, Cycles: 'NONE' is no event");
        refused("<key>Cycles", "<key>MAP_STALL", "aliases, MAP_STALL: is an event, or there twice");
    }

    #[test]
    fn what_is_no_database_is_refused() {
        let refused = |text: &str, expected: &str| {
            assert_eq!(database(text.as_bytes()).unwrap_err().to_string(), expected);
        };
        refused("<plist><true/></plist>", "no event database: there is no 'system', 'cpu'");
        refused(
            "<plist><dict><key>system</key><dict><key>cpu</key><dict/></dict></dict></plist>",
            "no event database: there are no 'events' in 'system', 'cpu'",
        );
    }
}
