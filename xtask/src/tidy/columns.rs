//! Comments that fit the width of `rustfmt.toml`, which wraps code alone.

use super::files::{SourceFile, comment};

/// `max_width` of `rustfmt.toml`.
pub(super) const WIDTH: usize = 110;

/// Comment lines that are too long, as `path:line: columns`. Tables and addresses cannot be wrapped.
pub(super) fn long_comments(file: &SourceFile) -> Vec<String> {
    file.text
        .lines()
        .enumerate()
        .filter(|(_, line)| comment(line).is_some_and(|text| !text.starts_with('|') && !text.contains("://")))
        .map(|(index, line)| (index + 1, line.chars().count()))
        .filter(|(_, columns)| *columns > WIDTH)
        .map(|(line, columns)| format!("{}:{line}: {columns} columns", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let file = SourceFile::new("a.rs", &format!("{text}struct A;")).unwrap();
        assert_eq!(long_comments(&file), expected);
    }

    #[test]
    fn comments_end_before_the_limit() {
        let fits = format!("/// {}\n", "é".repeat(WIDTH - 4));
        check(&fits, &[]);
        check(&format!("{fits} {fits}"), &["a.rs:2: 111 columns"]);
    }

    #[test]
    fn code_tables_and_addresses_may_be_longer() {
        let long = "a".repeat(WIDTH);
        check(&format!("const A: u8 = {long};\n/// | {long} |\n// https://example.org/{long}\n"), &[]);
    }

    #[test]
    fn the_limit_is_that_of_the_formatter() {
        let settings = std::fs::read_to_string(crate::root().join("rustfmt.toml")).unwrap();
        assert!(settings.contains(&format!("max_width = {WIDTH}")));
    }
}
