//! Comments whose sentences have a noun as their subject.
//!
//! In the sentence "What was lost is counted" the reader has to build the subject; "Lost samples are counted"
//! names it. The check counts sentences of comments that begin with Who, What, Nobody, Somebody or Of;
//! questions may begin so.

use super::files::{SourceFile, comment};

const CLAUSES: &[&str] = &["Nobody", "Of", "Somebody", "What", "Who"];

/// Sentences that begin with a clause, as `path:line: sentence`.
pub(super) fn clauses(file: &SourceFile) -> Vec<String> {
    let mut found = Vec::new();
    let mut paragraph: Option<(usize, String)> = None;
    for (index, line) in file.text.lines().enumerate() {
        match comment(line).filter(|text| !text.is_empty()) {
            Some(text) => {
                let (_, paragraph) = paragraph.get_or_insert_with(|| (index + 1, String::new()));
                paragraph.push_str(text);
                paragraph.push('\n');
            }
            None => found.extend(paragraph.take().map(|(line, text)| in_paragraph(&file.path, line, &text))),
        }
    }
    found.extend(paragraph.map(|(line, text)| in_paragraph(&file.path, line, &text)));
    found.into_iter().flatten().collect()
}

fn in_paragraph(path: &str, first_line: usize, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut start = 0;
    for end in ends(text) {
        let sentence = &text[start..end];
        let words = sentence.trim_start_matches(|letter: char| !letter.is_alphanumeric());
        let line = first_line + text[..end - words.len()].matches('\n').count();
        let first = words.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or("");
        if CLAUSES.contains(&first) && !words.trim_end().ends_with('?') {
            found.push(format!("{path}:{line}: {}", words.lines().next().unwrap_or("")));
        }
        start = end;
    }
    found
}

/// The ends of the sentences of a text, in bytes.
fn ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    let inner = text.char_indices().filter_map(|(at, letter)| {
        let after = at + letter.len_utf8();
        let ended = ['.', '?', '!'].contains(&letter) && text[after..].starts_with(char::is_whitespace);
        ended.then_some(after)
    });
    inner.chain([text.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let file = SourceFile::new("a.rs", text).unwrap();
        assert_eq!(clauses(&file), expected);
    }

    #[test]
    fn sentences_that_begin_with_a_clause_are_found() {
        check(
            "/// What was lost.\nfn a() {}\n    // Who waits.\n",
            &["a.rs:1: What was lost.", "a.rs:3: Who waits."],
        );
        check(
            "//! Samples. Nobody\n//! reads them. Of\n//! these, two.\n",
            &["a.rs:1: Nobody", "a.rs:2: Of"],
        );
    }

    #[test]
    fn a_line_that_goes_on_with_such_a_word_is_not_found() {
        check("// The kernel decides\n// What it keeps.\n", &[]);
        check("// Somebodyelse, Office and Whatever begin otherwise. Offsets do too.\n", &[]);
    }

    #[test]
    fn questions_may_begin_so() {
        check("// What does the kernel keep? The registers.\n", &[]);
        check("// What does the kernel keep? What was written.\n", &["a.rs:1: What was written."]);
    }

    #[test]
    fn code_and_texts_are_not_comments() {
        check("const A: &str = \"What was lost.\";\nWhat!(1);\n", &[]);
    }

    #[test]
    fn the_line_is_that_of_the_sentence() {
        check("// One.\n//\n// Two.\n// What is three.\n", &["a.rs:4: What is three."]);
    }
}
