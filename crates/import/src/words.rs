//! Words and sentences of strangers, made fit to be shown.

/// The longest description that is kept, in characters.
const MAX_LINE: usize = 2000;

/// A text in one line: every run of spaces, line ends and control characters is one space.
pub(crate) fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line: Vec<&str> = words.collect();
    line.join(" ").chars().take(MAX_LINE).collect()
}

/// A word of printable ASCII; what is none is empty.
pub(crate) fn word(text: &str) -> String {
    let text = text.trim();
    let fits = text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { text.to_owned() } else { String::new() }
}

/// A date of the form `05/27/2026` as `2026-05-27`; what is none is empty.
pub(crate) fn date(text: &str) -> String {
    let parts: Vec<&str> = text.trim().split('/').collect();
    let digits = |part: &str, n: usize| part.len() == n && part.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_slice() {
        [month, day, year] if digits(month, 2) && digits(day, 2) && digits(year, 4) => {
            format!("{year}-{month}-{day}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_one_line_that_no_terminal_obeys() {
        assert_eq!(line(" Counts\r\n a \u{1b}[31mthing\t. "), "Counts a [31mthing .");
        assert_eq!(line(&"x".repeat(3000)).len(), MAX_LINE);
    }

    #[test]
    fn dates_sort() {
        assert_eq!(date("05/27/2026"), "2026-05-27");
        for other in ["", "5/27/2026", "2026-05-27", "aa/bb/cccc"] {
            assert_eq!(date(other), "", "{other}");
        }
    }

    #[test]
    fn a_version_is_a_printable_word() {
        assert_eq!(word(" 1.40 "), "1.40");
        assert_eq!(word("1 40"), "");
        assert_eq!(word("\u{1b}[2J"), "");
    }
}
