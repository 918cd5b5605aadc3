//! Property lists as values, with limits, so that a hostile file cannot make a reader recurse without end or
//! grow without bound.

use crate::error::{ImportError, ImportResult};
use crate::json::{MAX_BYTES, MAX_TEXT, MAX_VALUES};

/// The deepest nesting of arrays and dictionaries. Real databases have five levels.
pub(super) const MAX_DEPTH: usize = 64;

/// The most text in a file, in bytes: a binary list can name one text many times.
const MAX_TOTAL_TEXT: usize = MAX_BYTES;

/// A value of a property list.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Plist {
    /// Keys with values, in the order of the file.
    Dict(Vec<(String, Plist)>),
    /// A list.
    Array(Vec<Plist>),
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i128),
    /// Values that no event database needs: truth values, dates, data, real numbers.
    Other,
}

impl Plist {
    /// The value of a key; `None` for what is no dictionary.
    pub(super) fn get(&self, key: &str) -> Option<&Plist> {
        self.entries().iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The entries of a dictionary; none of what is none.
    pub(super) fn entries(&self) -> &[(String, Plist)] {
        match self {
            Plist::Dict(entries) => entries,
            _ => &[],
        }
    }
}

/// The values that a file may still contain.
#[derive(Debug)]
pub(super) struct PlistBudget {
    values: usize,
    text: usize,
}

impl Default for PlistBudget {
    fn default() -> PlistBudget {
        PlistBudget { values: MAX_VALUES, text: MAX_TOTAL_TEXT }
    }
}

impl PlistBudget {
    /// One more value at some depth.
    pub(super) fn value(&mut self, depth: usize) -> ImportResult<()> {
        if depth > MAX_DEPTH {
            return Err(ImportError::file(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let rest = self.values.checked_sub(1);
        self.values = rest.ok_or_else(|| ImportError::file(format!("more than {MAX_VALUES} values")))?;
        Ok(())
    }

    /// A text of so many bytes.
    pub(super) fn text(&mut self, bytes: usize) -> ImportResult<()> {
        if bytes > MAX_TEXT {
            return Err(ImportError::file(format!("a text of {bytes} bytes; at most {MAX_TEXT} are read")));
        }
        let rest = self.text.checked_sub(bytes);
        self.text =
            rest.ok_or_else(|| ImportError::file(format!("more than {MAX_TOTAL_TEXT} bytes of text")))?;
        Ok(())
    }
}
