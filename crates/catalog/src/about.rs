//! Descriptions of the most used events, one line each, in our own words.
//!
//! The lines are data (`data/about`, a file for each family), by the vendor's name of the event. A line holds
//! for every CPU of the family that has the name. Vendors' own texts are shown only from a file that the user
//! gives.

use std::collections::HashMap;
use std::sync::LazyLock;

use cyclometer_core::pmu::Family;

pub use crate::description::EventDescription;

type Lines = HashMap<String, EventDescription>;

static INTEL: LazyLock<Lines> = LazyLock::new(|| read(include_str!("../data/about/intel")));
static AMD: LazyLock<Lines> = LazyLock::new(|| read(include_str!("../data/about/amd")));
static ARM: LazyLock<Lines> = LazyLock::new(|| read(include_str!("../data/about/arm")));
static RISCV: LazyLock<Lines> = LazyLock::new(|| read(include_str!("../data/about/riscv")));
static APPLE: LazyLock<Lines> = LazyLock::new(|| read(include_str!("../data/about/apple")));

fn lines(family: Family) -> &'static Lines {
    match family {
        Family::Intel => &INTEL,
        Family::Amd => &AMD,
        Family::Arm => &ARM,
        Family::RiscV => &RISCV,
        Family::Apple => &APPLE,
    }
}

/// Lines by name in lower case.
fn read(text: &'static str) -> Lines {
    entries(text).map(|(name, words)| (name.to_ascii_lowercase(), EventDescription::read(words))).collect()
}

/// The name and the words of each line that is no comment.
fn entries(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once("  ")).map(|(name, words)| (name, words.trim()))
}

/// The description of an event, by its name in any case; `None` where there is no line for it.
pub fn describe(name: &str, family: Family) -> Option<&'static EventDescription> {
    lines(family).get(&name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus;

    const TEXTS: [(Family, &str); 5] = [
        (Family::Intel, include_str!("../data/about/intel")),
        (Family::Amd, include_str!("../data/about/amd")),
        (Family::Arm, include_str!("../data/about/arm")),
        (Family::RiscV, include_str!("../data/about/riscv")),
        (Family::Apple, include_str!("../data/about/apple")),
    ];

    #[test]
    fn every_line_is_read_and_none_stands_there_twice() {
        for (family, text) in TEXTS {
            let written = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
            assert_eq!(lines(family).len(), written, "{}", family.word());
        }
    }

    #[test]
    fn every_described_event_is_in_a_table_of_the_family() {
        for (family, text) in TEXTS {
            let cpus: Vec<_> = cpus::cpus().filter(|cpu| cpu.family() == family).collect();
            for (name, _) in entries(text).filter(|_| !cpus.is_empty()) {
                assert!(cpus.iter().any(|cpu| cpu.event(name).is_some()), "{}: {name}", family.word());
            }
        }
    }

    #[test]
    fn lines_are_short_and_are_no_sentences_of_a_manual() {
        for (family, text) in TEXTS {
            for (name, words) in entries(text) {
                assert!(
                    (10..=100).contains(&words.len()),
                    "{}: {name}: {} bytes",
                    family.word(),
                    words.len()
                );
                assert!(!words.ends_with('.') && !words.starts_with("Counts"), "{name}");
                assert!(words.is_ascii(), "{name}");
            }
        }
    }

    #[test]
    fn enough_events_of_each_family_have_a_line() {
        let floors = [(Family::Intel, 385), (Family::Amd, 310), (Family::Arm, 215), (Family::RiscV, 215)];
        for (family, floor) in floors.into_iter().chain([(Family::Apple, 135)]) {
            assert!(lines(family).len() >= floor, "{}: {}", family.word(), lines(family).len());
        }
    }

    #[test]
    fn names_are_found_in_any_case_in_their_family_only() {
        let found = describe("inst_retired.any", Family::Intel);
        assert_eq!(
            found.map(ToString::to_string).as_deref(),
            Some("instructions retired, on a counter of its own")
        );
        assert_eq!(describe("INST_RETIRED.ANY", Family::Arm), None);
        assert_eq!(describe("no such event", Family::Intel), None);
    }
}
