//! Colour: always in addition to a word or a sign, never alone.

use std::ffi::OsStr;

use crate::args::ColorWhen;
use crate::output::Channel;

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paint {
    on: bool,
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
    /// The kind of device that shows one of our streams; `no_color` and `term` are the variables of those
    /// names.
    ///
    /// # Source
    ///
    /// <https://no-color.org>: set and not empty means no colour. ncurses' entry `dumb` of `terminfo(5)` has no colour.
    pub fn of(channel: Channel, no_color: Option<&OsStr>, term: Option<&OsStr>) -> ShownBy {
        let is_forbidden = no_color.is_some_and(|value| !value.is_empty());
        match channel.is_terminal() && !is_forbidden && !is_dumb(term) {
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
    #[cfg(test)]
    pub const NONE: Paint = Paint { on: false };

    /// The requested use of colour, given the device that shows the stream.
    pub fn new(when: ColorWhen, shown_by: ShownBy) -> Paint {
        let on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => shown_by == ShownBy::ColourTerminal,
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
            (ColorWhen::Never, ShownBy::ColourTerminal, "no"),
            (ColorWhen::Auto, ShownBy::Plain, "no"),
            (ColorWhen::Auto, ShownBy::ColourTerminal, "\x1b[31mno\x1b[0m"),
            (ColorWhen::Always, ShownBy::Plain, "\x1b[31mno\x1b[0m"),
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
