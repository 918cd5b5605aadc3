//! Numbers that only fall.
//!
//! `ratchet.txt` has the number of findings of each kind in the tree. More are an error. Fewer are an error
//! too, because the difference would be free for new findings; `cargo xtask tidy --lower` writes the lower
//! number.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};

/// The number of worst places in a message.
const SHOWN: usize = 12;

/// The committed limits, in the file's order.
pub(super) struct RatchetLimits(Vec<(String, usize)>);

/// The findings of one check.
pub(super) struct CheckCount {
    /// The name of the check in the file.
    pub name: String,
    pub count: usize,
    /// The number that is aimed at, in words.
    pub target: String,
    /// All findings.
    pub places: Vec<String>,
    /// The findings in short, as messages show them, worst first.
    pub worst: Vec<String>,
}

/// The files of findings of the form `path:line: text`, those with most findings first.
pub(super) fn worst_files(places: &[String]) -> Vec<String> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for place in places {
        *files.entry(place.split(':').next().unwrap_or(place)).or_default() += 1;
    }
    let mut files: Vec<(&str, usize)> = files.into_iter().collect();
    files.sort_by_key(|(_, count)| usize::MAX - count);
    files.into_iter().map(|(file, count)| format!("{file}: {count}")).collect()
}

impl RatchetLimits {
    pub fn parse(text: &str) -> Result<RatchetLimits> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
        let limit = |line: &str| {
            let (name, number) = line.rsplit_once(": ").with_context(|| format!("no number in {line:?}"))?;
            let number = number.trim().parse().with_context(|| format!("no number in {line:?}"))?;
            Ok((name.to_owned(), number))
        };
        lines.map(limit).collect::<Result<_>>().map(RatchetLimits)
    }

    /// The finding of a count that is not its limit; a check without a limit may find nothing.
    pub fn finding(&self, measured: &CheckCount) -> Option<String> {
        let CheckCount { name, count, target, worst, .. } = measured;
        let limit = self.0.iter().find(|(known, _)| known == name).map_or(0, |(_, limit)| *limit);
        match count.cmp(&limit) {
            Ordering::Equal => None,
            Ordering::Less => Some(format!(
                "{name}: {count}, {limit} are recorded; commit the lower number: cargo xtask tidy --lower"
            )),
            Ordering::Greater => {
                let mut text = format!("{name}: {count}, at most {limit} are allowed (target: {target})");
                for place in worst.iter().take(SHOWN) {
                    let _ = write!(text, "\n      {place}");
                }
                if worst.len() > SHOWN {
                    let _ = write!(text, "\n      and {} more: cargo xtask tidy --list", worst.len() - SHOWN);
                }
                Some(text)
            }
        }
    }

    /// The text of the file with the limits lowered to what was measured; a check that finds nothing has no
    /// line.
    pub fn lowered(&self, measured: &[CheckCount]) -> String {
        let mut text =
            "# The most findings that `cargo xtask tidy` accepts; `cargo xtask tidy --lower` lowers them.\n"
                .to_owned();
        for (name, limit) in &self.0 {
            let count =
                measured.iter().find(|measured| measured.name == *name).map_or(0, |found| found.count);
            if count > 0 {
                let _ = writeln!(text, "{name}: {}", count.min(*limit));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, count: usize) -> CheckCount {
        let places: Vec<String> = (0..count).map(|place| format!("place {place}")).collect();
        CheckCount { name: name.to_owned(), count, target: "none".to_owned(), worst: places.clone(), places }
    }

    fn limits() -> RatchetLimits {
        RatchetLimits::parse("# Limits\n\nlong comments: 3\nimport cycles in crates/a: 20\n").unwrap()
    }

    #[test]
    fn more_than_the_limit_is_an_error_with_places() {
        let text = limits().finding(&measured("long comments", 4)).unwrap();
        assert!(
            text.starts_with("long comments: 4, at most 3 are allowed (target: none)\n      place 0\n"),
            "{text}"
        );
        let text = limits().finding(&measured("import cycles in crates/a", 21)).unwrap();
        assert!(text.ends_with("place 11\n      and 9 more: cargo xtask tidy --list"), "{text}");
    }

    #[test]
    fn a_check_without_a_limit_may_find_nothing() {
        assert_eq!(limits().finding(&measured("import cycles in crates/b", 0)), None);
        assert!(limits().finding(&measured("import cycles in crates/b", 1)).is_some());
    }

    #[test]
    fn fewer_than_the_limit_are_an_error_with_the_command_that_lowers_it() {
        let expected =
            "long comments: 2, 3 are recorded; commit the lower number: cargo xtask tidy --lower".to_owned();
        assert_eq!(limits().finding(&measured("long comments", 2)), Some(expected));
        assert!(limits().finding(&measured("import cycles in crates/a", 0)).is_some());
        assert_eq!(limits().finding(&measured("long comments", 3)), None);
    }

    #[test]
    fn limits_are_lowered_and_never_raised() {
        let text =
            limits().lowered(&[measured("long comments", 9), measured("import cycles in crates/a", 7)]);
        assert!(text.ends_with("\nlong comments: 3\nimport cycles in crates/a: 7\n"), "{text}");
        let text = limits().lowered(&[measured("long comments", 1)]);
        assert!(text.ends_with("\nlong comments: 1\n"), "{text}");
    }

    #[test]
    fn the_file_with_most_findings_comes_first() {
        let places = ["a.rs:1: x", "b.rs:1: x", "b.rs:2: y: z"].map(str::to_owned);
        assert_eq!(worst_files(&places), ["b.rs: 2", "a.rs: 1"]);
    }

    #[test]
    fn a_line_without_a_number_is_an_error() {
        assert!(RatchetLimits::parse("long comments: many").is_err());
        assert!(RatchetLimits::parse("long comments").is_err());
    }
}
