//! Cleaned text: everything that is shown goes through here.

use std::ffi::OsStr;

/// Text with control characters escaped, bidirectional overrides included, so that no name can drive a
/// terminal, divide a row, or look like another.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() || is_invisible_control(c) {
            true => out += &escape(c),
            false => out.push(c),
        }
    }
    out
}

/// A character as shells read it within `$'…'`.
///
/// # Source
///
/// `bash(1)`, "QUOTING".
fn escape(c: char) -> String {
    match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\r' => r"\r".to_owned(),
        c if c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c => format!("\\u{:04x}", u32::from(c)),
    }
}

/// Cleaned text of a name or argument that need not be Unicode.
pub fn clean_os(text: &OsStr) -> String {
    clean(&text.to_string_lossy())
}

/// Formatting characters that reorder or hide text (Unicode Annex 9, explicit directional formatting).
fn is_invisible_control(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A command as it is shown: arguments with blanks are quoted, for people and not for a shell; control
/// characters are escaped.
pub fn shown_command<'a>(words: impl Iterator<Item = &'a OsStr>) -> String {
    words.map(|word| shown_word(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
}

fn shown_word(word: &str) -> String {
    let cleaned = clean(word);
    if cleaned != word {
        // The word's own backslashes come first: those of the escapes are not doubled.
        return format!("$'{}'", clean(&word.replace('\\', r"\\").replace('\'', r"\'")));
    }
    let plain = !word.is_empty() && !word.contains([' ', '\'', '"', '\\']);
    if plain { cleaned } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let expected = r"a\x1b[31mb\nc\u009bd\u202ee\x7f\t";
        assert_eq!(clean("a\x1b[31mb\nc\u{9b}d\u{202e}e\x7f\t"), expected);
        assert_eq!(clean("größe ≡"), "größe ≡");
    }

    #[test]
    fn commands_are_shown_with_their_blanks_quoted() {
        let words = ["sh", "-c", "echo 'a b'", ""];
        let shown = shown_command(words.iter().map(OsStr::new));
        assert_eq!(shown, r"sh -c 'echo '\''a b'\''' ''");
    }

    #[test]
    fn arguments_with_line_ends_are_shown_as_a_shell_reads_them() {
        let words = ["printf", "a\tb\n", "it's\\\n", "\x1b[2J"];
        let shown = shown_command(words.iter().map(OsStr::new));
        assert_eq!(shown, r"printf $'a\tb\n' $'it\'s\\\n' $'\x1b[2J'");
    }
}
