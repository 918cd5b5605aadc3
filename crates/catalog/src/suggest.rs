//! The nearest names for an unknown name.

use std::collections::HashSet;

/// The number of suggestions.
const OFFERED: usize = 3;

/// The least similarity of a suggestion, from 0 to 1.
const LEAST: f64 = 0.5;

/// The names of `known` that are most similar to `name`, best first, without dissimilar ones. The first of
/// several spellings of a name is offered.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let fold = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let wanted = fold(name);
    let mut seen = HashSet::new();
    let mut scored: Vec<(f64, &str)> = known
        .filter(|candidate| seen.insert(fold(candidate)))
        .map(|candidate| (likeness(&wanted, &fold(candidate)), candidate))
        .filter(|(score, _)| *score >= LEAST)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().take(OFFERED).map(|(_, candidate)| candidate.to_owned()).collect()
}

/// An input in the form for messages: control characters escaped, at most 80 characters.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

fn likeness(a: &str, b: &str) -> f64 {
    let bonus = if b.starts_with(a) || b.contains(a) { 0.25 } else { 0.0 };
    // A distance is at least the difference of the lengths. Computing it takes time proportional to the
    // product of the lengths, which would be long for an untrusted name of many thousand letters.
    let most = a.len().min(b.len()) as f64 / a.chars().count().max(b.chars().count()).max(1) as f64;
    if most + bonus < LEAST { 0.0 } else { strsim::normalized_damerau_levenshtein(a, b) + bonus }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_name_first() {
        let known = ["cycles", "instructions", "branch-misses", "cache-misses", "ref-cycles"];
        for (typo, first) in
            [("cycels", "cycles"), ("instrutions", "instructions"), ("branch_mises", "branch-misses")]
        {
            assert_eq!(nearest(typo, known.into_iter())[0], first);
        }
    }

    #[test]
    fn two_spellings_of_a_name_are_offered_once() {
        let known = ["bus_cycles", "cycles", "bus-cycles", "BUS_CYCLES"];
        assert_eq!(nearest("bus-cycels", known.into_iter()), ["bus_cycles", "cycles"]);
    }

    #[test]
    fn nothing_is_offered_for_what_is_unlike_everything() {
        assert_eq!(nearest("zzzzzzzzzz", ["cycles", "instructions"].into_iter()), Vec::<String>::new());
    }
}
