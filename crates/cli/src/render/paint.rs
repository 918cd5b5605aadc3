//! Colour: always in addition to a word or a sign, never alone.

use std::ffi::OsStr;

use crate::args::ColorWhen;
use crate::output::Channel;

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paint {
    on: bool,
}

/// What a text is, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Nothing special.
    Plain,
    /// A heading.
    Heading,
    /// A value, or something that works.
    Good,
    /// Something to be aware of.
    Caution,
    /// Something that is missing or does not work.
    Bad,
    /// Of less interest.
    Dim,
}

impl Paint {
    /// No colour at all.
    #[cfg(test)]
    pub const NONE: Paint = Paint { on: false };

    /// As asked for on a stream; `no_color` is the variable of that name.
    ///
    /// # Source
    ///
    /// <https://no-color.org>: set and not empty means no colour.
    pub fn new(when: ColorWhen, channel: Channel, no_color: Option<&OsStr>) -> Paint {
        let forbidden = no_color.is_some_and(|value| !value.is_empty());
        let on = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => channel.is_terminal() && !forbidden,
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
        let never = Paint::new(ColorWhen::Never, Channel::Out, None);
        assert_eq!(never.paint(Style::Bad, "no"), "no");
        let forbidden = Paint::new(ColorWhen::Auto, Channel::Out, Some(OsStr::new("1")));
        assert_eq!(forbidden.paint(Style::Bad, "no"), "no");
        let always = Paint::new(ColorWhen::Always, Channel::Out, Some(OsStr::new("1")));
        assert_eq!(always.paint(Style::Bad, "no"), "\x1b[31mno\x1b[0m");
    }
}
