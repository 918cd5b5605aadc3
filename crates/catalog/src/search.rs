//! Search for events by pattern, over one CPU or all.

use std::collections::BTreeSet;

use cyclometer_core::{CounterId, Error, ErrorKind, Recovery, Result};
use regex_lite::{Regex, RegexBuilder};

use crate::glossary;
use crate::suggest;
use crate::table::{Cpu, Entry};

/// Longest pattern that is read, in bytes.
const MAX_PATTERN: usize = 1000;

/// A pattern for names.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Every name.
    Any,
    /// All of these words, in the name or in its spelling.
    Words(Vec<String>),
    /// A regular expression, made from `*` and `?` or written between slashes; case-insensitive.
    Regex(Regex),
}

impl Pattern {
    /// Reads words, a glob (`L1D*MISS?`) or a regular expression between slashes (`/^mem.*l3_miss$/`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for an invalid expression.
    pub fn parse(text: &str) -> Result<Pattern> {
        if text.len() > MAX_PATTERN {
            return Err(bad(text, "it is too long"));
        }
        let expression = match text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(expression) => expression.to_owned(),
            None if text.contains(['*', '?']) => glob(text),
            None if text.trim().is_empty() => return Ok(Pattern::Any),
            None => {
                return Ok(Pattern::Words(
                    text.to_lowercase().split_whitespace().map(str::to_owned).collect(),
                ));
            }
        };
        let built = RegexBuilder::new(&expression).case_insensitive(true).build();
        built.map(Pattern::Regex).map_err(|error| bad(text, &error.to_string()))
    }

    /// Whether the pattern fits an event's name; for words, also the name's spelling.
    pub fn fits(&self, name: &str, spelled: impl FnOnce() -> String) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Regex(regex) => regex.is_match(name),
            Pattern::Words(words) => {
                let lower = name.to_ascii_lowercase();
                let missing: Vec<&String> =
                    words.iter().filter(|word| !lower.contains(word.as_str())).collect();
                if missing.is_empty() {
                    return true;
                }
                let spelled = spelled().to_lowercase();
                missing.iter().all(|word| spelled.contains(word.as_str()))
            }
        }
    }
}

fn glob(text: &str) -> String {
    let mut expression = String::from("^");
    for c in text.chars() {
        match c {
            '*' => expression.push_str(".*"),
            '?' => expression.push('.'),
            other => expression.push_str(&regex_lite::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    expression + "$"
}

fn bad(text: &str, reason: &str) -> Error {
    let reason: String = reason.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    Error::new(ErrorKind::InvalidInput, format!("'{}' is no pattern: {reason}", suggest::shown(text)))
        .with_recovery(Recovery::fix("write words, a glob such as L1D*, or /a regular expression/"))
}

/// A filter for the events of a CPU.
#[derive(Clone, Debug)]
pub struct Filter {
    /// By name.
    pub pattern: Pattern,
    /// Only events that may use this counter.
    pub counter: Option<CounterId>,
    /// Only events with a fixed counter.
    pub fixed: bool,
    /// Only deprecated events (`Some(true)`), or none of them (`Some(false)`).
    pub deprecated: Option<bool>,
}

impl Filter {
    /// A filter for every event that fits a pattern.
    pub fn by(pattern: Pattern) -> Filter {
        Filter { pattern, counter: None, fixed: false, deprecated: None }
    }

    fn fits(&self, cpu: &Cpu<'_>, entry: &Entry<'_>) -> bool {
        let counters = entry.counters().unwrap_or(cpu.counters());
        let is_fixed = entry.counters().is_some_and(|counters| counters.fixed_bits() != 0);
        self.counter.is_none_or(|counter| counters.contains(counter))
            && (!self.fixed || is_fixed)
            && self.deprecated.is_none_or(|wanted| entry.deprecated() == wanted)
            && self.pattern.fits(entry.name(), || glossary::spell(entry.name(), cpu.family()))
    }
}

/// The events of a CPU that pass the filter, by name.
pub fn events<'a>(cpu: Cpu<'a>, filter: &Filter) -> impl Iterator<Item = Entry<'a>> {
    cpu.events().filter(move |entry| filter.fits(&cpu, entry))
}

/// An event with the CPUs that have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventMatch {
    /// Its name.
    pub name: String,
    /// The CPUs that have it, by id.
    pub cpus: Vec<&'static str>,
}

/// The events of all CPUs whose names fit, by name.
pub fn everywhere(pattern: &Pattern) -> Vec<EventMatch> {
    let mut found: std::collections::BTreeMap<&str, BTreeSet<&'static str>> =
        std::collections::BTreeMap::new();
    let fitting: std::collections::HashSet<&str> =
        crate::cpus::tables().names().filter(|name| pattern.fits(name, String::new)).collect();
    for cpu in crate::cpus::cpus() {
        for entry in cpu.events().filter(|entry| fitting.contains(entry.name())) {
            found.entry(entry.name()).or_default().insert(cpu.id());
        }
    }
    let one = |(name, cpus): (&str, BTreeSet<&'static str>)| EventMatch {
        name: name.to_owned(),
        cpus: cpus.into_iter().collect(),
    };
    found.into_iter().map(one).collect()
}
