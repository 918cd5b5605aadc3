//! Event names spelled out: `MEM_LOAD_RETIRED.L3_MISS` is "memory loads, retired: level-3 cache miss".
//!
//! The words are data (`data/glossary`), ours, and read when a name is first spelled out. An unknown part of
//! a name is shown as it is, so that a spelling never hides anything.

use std::collections::HashMap;
use std::sync::LazyLock;

use cyclometer_core::pmu::Family;

use crate::description::{EventDescription, GENERAL};

/// The data; its head describes the format.
const DATA: &str = include_str!("../data/glossary");

/// The longest run of parts in the data.
const LONGEST_RUN: usize = 5;

/// The section for all families.
const COMMON: &str = "*";

type PartWords = HashMap<&'static str, &'static str>;

static GLOSSARY: LazyLock<HashMap<&'static str, PartWords>> = LazyLock::new(read);

fn read() -> HashMap<&'static str, PartWords> {
    let mut sections: HashMap<_, PartWords> = HashMap::new();
    let mut section = COMMON;
    for line in DATA.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((parts, words)) = line.split_once(" = ") {
            sections.entry(section).or_default().insert(parts, words.trim());
        }
    }
    sections
}

/// The words of a run of parts, the family's own first.
fn words(run: &str, family: Family) -> Option<&'static str> {
    let section = |name: &str| GLOSSARY.get(name)?.get(run).copied();
    section(family.word()).or_else(|| section(COMMON))
}

/// A run of parts of a name, spelled out if it is known.
#[derive(PartialEq, Eq, Debug)]
struct PartRun {
    /// The number of parts.
    parts: usize,
    /// Its words; `None` for a part that is not in the glossary.
    words: Option<String>,
}

/// Spells a name out; unknown parts are shown as they are.
pub fn spell(name: &str, family: Family) -> String {
    description(name, family).to_string()
}

/// Spells a name out as the description of its event.
pub fn description(name: &str, family: Family) -> EventDescription {
    let sections = name.split(['.', ':', '=']).map(|section| spell_section(section, family));
    let mut sections: Vec<EventDescription> = sections.filter(|section| *section != none()).collect();
    let last = sections.pop().unwrap_or_else(none);
    let before: String = sections.iter().map(|section| format!("{section}: ")).collect();
    EventDescription { words: before + &last.words, ..last }
}

fn none() -> EventDescription {
    EventDescription::default()
}

fn spell_section(section: &str, family: Family) -> EventDescription {
    let parts = parts(section);
    let mut out = none();
    let mut at = 0;
    for run in runs(&parts, family) {
        let words = run.words.as_deref().unwrap_or(parts[at]);
        at += run.parts;
        if words == GENERAL {
            out.on_general_counter = true;
            continue;
        }
        // Only the end of a section has an event's counters.
        out = EventDescription::of(out.to_string());
        append(&mut out.words, words);
    }
    out.words.truncate(out.words.trim_end_matches(',').len());
    out
}

/// Appends words, with a comma if they ask for one.
fn append(out: &mut String, words: &str) {
    let (comma, words) = words.strip_prefix(", ").map_or((false, words), |words| (true, words));
    if comma && !out.is_empty() && !out.ends_with(',') {
        out.push(',');
    }
    if !out.is_empty() {
        out.push(' ');
    }
    out.push_str(words);
}

/// The parts of a name, or of a section of it.
fn parts(name: &str) -> Vec<&str> {
    name.split(['_', '.', '-', ':', '=']).filter(|part| !part.is_empty()).collect()
}

/// Divides parts into runs: at each position the longest known run.
fn runs(parts: &[&str], family: Family) -> Vec<PartRun> {
    let mut runs = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        let run = run_at(&parts[at..], family);
        at += run.parts;
        runs.push(run);
    }
    runs
}

fn run_at(parts: &[&str], family: Family) -> PartRun {
    let known = |length: usize| {
        let run = parts[..length].join("_").to_ascii_lowercase();
        Some(PartRun { parts: length, words: Some(words(&run, family)?.to_owned()) })
    };
    (1..=parts.len().min(LONGEST_RUN))
        .rev()
        .find_map(known)
        .unwrap_or_else(|| PartRun { parts: 1, words: numbered(parts[0], family) })
}

/// A part that is a number, or known letters followed by a number: `PORT3`.
fn numbered(part: &str, family: Family) -> Option<String> {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &part[letters.len()..];
    match (letters.is_empty(), number.is_empty()) {
        (true, _) => Some(number.to_owned()),
        (false, true) => None,
        (false, false) => Some(format!(
            "{} {number}",
            words(&letters.to_ascii_lowercase(), family)?.trim_start_matches(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus;

    fn check(family: Family, name: &str, expected: &str) {
        assert_eq!(spell(name, family), expected, "{name}");
    }

    #[test]
    fn names_are_spelled_out() {
        check(Family::Intel, "MEM_LOAD_RETIRED.L3_MISS", "memory loads, retired: level-3 cache miss");
        check(Family::Intel, "BR_MISP_RETIRED.ALL_BRANCHES", "mispredicted branches, retired: all branches");
        check(Family::Intel, "INT_MISC.RECOVERY_CYCLES", "miscellaneous: recovery cycles");
        check(Family::Intel, "UOPS_DISPATCHED.PORT_5_11", "micro-operations dispatched: port 5 11");
        check(Family::Amd, "ls_dmnd_fills_from_sys.dram_io_far", AMD_FAR);
        check(Family::Amd, "ex_ret_brn_tkn_misp", "retired branches, taken, mispredicted");
        check(Family::Arm, "L1D_CACHE_REFILL_RD", "level-1 data cache refills for reads");
        check(Family::Arm, "BR_MIS_PRED_RETIRED", "branches, mispredicted, retired");
        check(
            Family::Apple,
            "BRANCH_COND_MISPRED_NONSPEC",
            "branches conditional, mispredicted, not speculative",
        );
        check(Family::Intel, "OFFCORE_RESPONSE:request=ALL_RFO:response=LLC_MISS", OFFCORE);
        check(Family::RiscV, "FW_SFENCE_VMA_SENT", "firmware address fences sent");
    }

    #[test]
    fn the_counter_in_a_name_is_apart_from_what_the_event_counts() {
        let described = |name| description(name, Family::Intel);
        let slots = described("TOPDOWN.SLOTS_P");
        assert!(slots.on_general_counter && !slots.words.contains("counter"), "{slots:?}");
        assert_eq!(slots.to_string(), format!("{}, on a general counter", slots.words));
        assert!(!described("TOPDOWN.SLOTS").on_general_counter);
        let inside = described("SLOTS_P.ANY");
        assert!(
            !inside.on_general_counter && inside.words.contains(", on a general counter: "),
            "{inside:?}"
        );
        check(Family::Intel, "P", "on a general counter");
    }

    const OFFCORE: &str =
        "off-core response: request: all reads for ownership: response: last-level cache miss";
    const AMD_FAR: &str = "load-store unit demand fills from system: DRAM or I/O far";

    #[test]
    fn an_unknown_part_is_shown_as_it_is() {
        check(Family::Intel, "Zork_RETIRED.QUUX9", "Zork, retired: QUUX9");
        check(Family::Intel, "", "");
        check(Family::Intel, "..__..", "");
    }

    #[test]
    fn a_number_and_known_letters_with_a_number_are_known() {
        assert_eq!(numbered("512", Family::Intel).as_deref(), Some("512"));
        assert_eq!(numbered("PORT3", Family::Intel).as_deref(), Some("port 3"));
        assert_eq!(numbered("QUUX3", Family::Intel), None);
        assert_eq!(numbered("QUUX", Family::Intel), None);
    }

    #[test]
    fn the_same_part_differs_between_families() {
        assert_eq!(words("dsb", Family::Arm), Some("synchronisation barriers (DSB)"));
        assert_eq!(words("dsb", Family::Intel), Some("decoded-operation cache"));
        assert_eq!(words("dsb", Family::Apple), None);
    }

    #[test]
    fn every_line_of_the_data_is_read() {
        let lines = DATA.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
        assert_eq!(GLOSSARY.values().map(HashMap::len).sum::<usize>(), lines, "a part stands there twice");
        let families = Family::ALL.map(Family::word);
        assert!(GLOSSARY.keys().all(|section| *section == COMMON || families.contains(section)));
        for (parts, words) in GLOSSARY.values().flatten() {
            assert!(!words.is_empty() && *parts == parts.to_ascii_lowercase(), "{parts}");
            assert!(parts.split('_').count() <= LONGEST_RUN, "{parts} is never looked for");
        }
    }

    /// The number of known parts and of all parts in the names of a family's tables, each name as often as it
    /// occurs.
    fn coverage(family: Family) -> (usize, usize) {
        let names = cpus::cpus().filter(|cpu| cpu.family() == family).flat_map(|cpu| cpu.events());
        names.fold((0, 0), |(known, all), event| {
            let runs = runs(&parts(event.name()), family);
            let of = |runs: &mut dyn Iterator<Item = &PartRun>| runs.map(|run| run.parts).sum::<usize>();
            let known_here = of(&mut runs.iter().filter(|run| run.words.is_some()));
            (known + known_here, all + of(&mut runs.iter()))
        })
    }

    #[test]
    fn nearly_all_parts_of_all_names_are_known() {
        for (family, floor) in [
            (Family::Intel, 0.99),
            (Family::Amd, 0.99),
            (Family::Arm, 0.96),
            (Family::RiscV, 0.98),
            (Family::Apple, 0.99),
        ] {
            let (known, all) = coverage(family);
            let share = known as f64 / all.max(1) as f64;
            assert!(all == 0 || share >= floor, "{}: {known} of {all} parts, {share:.4}", family.word());
        }
    }
}
