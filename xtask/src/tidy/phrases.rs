//! Phrases that texts for users do not use, each with its replacement.
//!
//! Readers had to read each of them twice. The check reads the string literals of shipped code, the
//! documentation comments of the command line, which are its help, and the pages for users.

use std::path::Path;

use anyhow::Result;

use super::Violations;
use super::files::{SourceFile, comment};
use super::pages;

/// The phrase, in lower case, and its replacement.
const PHRASES: &[(&str, &str)] = &[
    ("are sensible", "recommended minimum: …"),
    ("as they are timed", "timed natively"),
    ("certain at", "false discovery rate"),
    ("how the runs lie", "distribution of the runs"),
    ("in the program's name", "on behalf of the tracee"),
    ("is timed as it is", "is timed natively"),
    ("knows its processor", "cannot be given to a process that is already running"),
    ("may all stand on one side", "may be attributed to user or kernel time alone"),
    ("mend: ", "fix: "),
    ("nobody says", "by default, or unknown"),
    ("others held all counters", "all counters were in use by others"),
    ("poop's manner", "poop's names of metrics"),
    ("said nothing for", "did not respond within"),
    ("take turns", "share counters in rotation"),
    ("timed as they are", "timed natively"),
    ("told the truth", "counts correctly"),
    ("took turns", "shared counters in rotation"),
    ("turn never came", "not scheduled during the run"),
    ("what mends", "the fix"),
];

/// The folders of shipped code.
const SHIPPED: &[&str] = &["bindings/", "crates/"];

/// The files whose documentation comments are the help of commands.
const HELP: &[&str] = &[
    "crates/cli/src/args.rs",
    "crates/cli/src/commands/compare/args.rs",
    "crates/cli/src/commands/record/args.rs",
];

/// Adds each forbidden phrase of a text for users, of the code and of the pages.
pub(super) fn check(root: &Path, files: &[SourceFile], found: &mut Violations) -> Result<()> {
    let shipped = files.iter().filter(|file| SHIPPED.iter().any(|folder| file.path.starts_with(folder)));
    for file in shipped {
        add(&file.path, &shown_text(file.shipped(), HELP.contains(&file.path.as_str())), found);
    }
    for page in pages::for_users(root)? {
        add(&page.path, &page.text, found);
    }
    Ok(())
}

fn add(path: &str, text: &str, found: &mut Violations) {
    for (phrase, instead) in phrases_of(text) {
        found.add(format!("{path}: a text for users has \"{phrase}\"; write \"{instead}\""));
    }
}

/// The forbidden phrases of a text, also where a line ends within one.
fn phrases_of(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    PHRASES.iter().copied().filter(move |(phrase, _)| text.contains(phrase))
}

/// The string literals of a file, and its documentation comments if they are wanted.
fn shown_text(text: &str, with_documentation: bool) -> String {
    let (comments, code): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| comment(line).is_some());
    let mut shown = literals(&code.join("\n"));
    if with_documentation {
        let help = comments.iter().filter_map(|line| line.trim_start().strip_prefix("///"));
        shown.extend(help.map(str::to_owned));
    }
    shown.join("\n")
}

/// The texts between double quotes. A quote as a character, `'"'`, begins none; a backslash at the end of a
/// line continues the literal.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut literal: Option<String> = None;
    let code = code.replace("'\"'", "").replace("'\\\"'", "");
    let mut letters = code.chars();
    while let Some(letter) = letters.next() {
        match (letter, &mut literal) {
            ('"', None) => literal = Some(String::new()),
            ('"', Some(_)) => found.extend(literal.take()),
            ('\\', Some(text)) => {
                text.extend(letters.next().map(|next| if next == 'n' { ' ' } else { next }))
            }
            (letter, Some(text)) => text.push(letter),
            (_, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phrases(code: &str, with_documentation: bool) -> Vec<&'static str> {
        phrases_of(&shown_text(code, with_documentation)).map(|(phrase, _)| phrase).collect()
    }

    #[test]
    fn a_phrase_is_found_in_a_literal_that_goes_on_in_the_next_line() {
        assert_eq!(phrases("let a = \"events took \\\n    turns\";", false), ["took turns"]);
        assert_eq!(phrases("f('\"', \"Nobody\\nsays\");", false), ["nobody says"]);
        assert_eq!(phrases("let a = \"say \\\"mend: x\\\"\";", false), ["mend: "]);
    }

    #[test]
    fn comments_and_code_may_have_it_but_for_help() {
        let code = "/// These take\n/// turns.\n// They take turns.\nlet took = turns; // \n";
        assert_eq!(phrases(code, false), [""; 0]);
        assert_eq!(phrases(code, true), ["take turns"]);
    }

    #[test]
    fn a_phrase_of_two_literals_is_none() {
        assert_eq!(phrases("(\"they\", take, \"turns\")", false), [""; 0]);
    }

    #[test]
    fn phrases_are_in_lower_case_and_in_order() {
        assert!(PHRASES.is_sorted());
        assert!(PHRASES.iter().all(|(phrase, _)| *phrase == phrase.to_lowercase()));
    }
}
