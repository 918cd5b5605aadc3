//! The words for what an event counts, apart from the counters that count it.

use std::fmt;

/// The description of an event, in our words, a file's, or as its name spelled out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventDescription {
    /// The quantity that is counted.
    pub words: String,
    /// Whether the vendor's name is that of the event on a general counter, beside one of the same quantity
    /// on a fixed counter.
    pub on_general_counter: bool,
}

impl EventDescription {
    /// Words that say nothing about counters.
    pub fn of(words: impl Into<String>) -> EventDescription {
        EventDescription { words: words.into(), on_general_counter: false }
    }

    /// Reads a line of the data, which has [`GENERAL`] at its end where that holds.
    pub(crate) fn read(line: &str) -> EventDescription {
        match line.strip_suffix(GENERAL) {
            Some(words) => EventDescription { words: words.trim_end().to_owned(), on_general_counter: true },
            None => EventDescription::of(line),
        }
    }
}

/// Stands in the data for events on a general counter.
pub(crate) const GENERAL: &str = "[general]";

impl fmt::Display for EventDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        match (self.on_general_counter, self.words.is_empty()) {
            (false, _) => Ok(()),
            (true, true) => f.write_str("on a general counter"),
            (true, false) => f.write_str(", on a general counter"),
        }
    }
}
