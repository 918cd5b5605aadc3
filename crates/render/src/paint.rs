//! Colour: always in addition to a word or a sign, never alone.

use std::ffi::OsStr;

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paint {
    on: bool,
}

/// The use of colour that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColourUse {
    /// Where the device that shows the text has colour.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The kind of a text, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Nothing special.
    Plain,
    /// A heading.
    Heading,
    /// A value, or a source that works.
    Good,
    /// A text that needs attention.
    Caution,
    /// A missing value, or a source that does not work.
    Bad,
    /// Text of less interest.
    Dim,
}

/// The kind of device that shows a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShownBy {
    /// A file or a pipe, a terminal without colour, or any terminal if the user wants no colour.
    Plain,
    /// A terminal with colour.
    ColourTerminal,
}

impl ShownBy {
    /// The kind of device that shows a stream; `no_color` and `term` are the environment variables of those
    /// names.
    ///
    /// # Source
    ///
    /// <https://no-color.org>: set and not empty means no colour. ncurses' entry `dumb` of `terminfo(5)` has no colour.
    pub fn of(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> ShownBy {
        let is_forbidden = no_color.is_some_and(|value| !value.is_empty());
        match is_terminal && !is_forbidden && !is_dumb(term) {
            true => ShownBy::ColourTerminal,
            false => ShownBy::Plain,
        }
    }
}

/// Whether a value of `TERM` is of a terminal that can print and no more.
pub fn is_dumb(term: Option<&OsStr>) -> bool {
    term.is_some_and(|term| term == "dumb")
}

impl Paint {
    /// Never any colour.
    pub const NONE: Paint = Paint { on: false };

    /// The requested use of colour, given the device that shows the stream.
    pub fn new(when: ColourUse, shown_by: ShownBy) -> Paint {
        let on = match when {
            ColourUse::Always => true,
            ColourUse::Never => false,
            ColourUse::Auto => shown_by == ShownBy::ColourTerminal,
        };
        Paint { on }
    }

    /// The text in its style.
    pub fn paint(self, style: Style, text: &str) -> String {
        let code = match style {
            _ if !self.on || text.is_empty() => return text.to_owned(),
            Style::Plain => return text.to_owned(),
            Style::Heading => "1",
            Style::Good => "32",
            Style::Caution => "33",
            Style::Bad => "31",
            Style::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_off_where_it_is_not_wanted() {
        for (when, shown_by, expected) in [
            (ColourUse::Never, ShownBy::ColourTerminal, "no"),
            (ColourUse::Auto, ShownBy::Plain, "no"),
            (ColourUse::Auto, ShownBy::ColourTerminal, "\x1b[31mno\x1b[0m"),
            (ColourUse::Always, ShownBy::Plain, "\x1b[31mno\x1b[0m"),
        ] {
            assert_eq!(Paint::new(when, shown_by).paint(Style::Bad, "no"), expected, "{when:?} {shown_by:?}");
        }
    }

    #[test]
    fn a_terminal_that_can_only_print_is_known_by_its_name() {
        assert!(is_dumb(Some(OsStr::new("dumb"))));
        for term in [None, Some(""), Some("xterm"), Some("dumber")] {
            assert!(!is_dumb(term.map(OsStr::new)), "{term:?}");
        }
    }
}
