//! An error in a file.

use std::fmt;

/// An error in an event file, and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImportError {
    /// The place: the event and its field (`BR_INST_RETIRED.ALL_BRANCHES, UMask`); empty for the whole file.
    pub place: String,
    /// The error at that position.
    pub message: String,
}

/// The result of a reader.
pub type ImportResult<T> = Result<T, ImportError>;

impl ImportError {
    /// The whole file.
    pub fn file(message: impl Into<String>) -> ImportError {
        ImportError { place: String::new(), message: message.into() }
    }

    /// One position in it.
    pub fn at(place: impl Into<String>, message: impl Into<String>) -> ImportError {
        ImportError { place: place.into(), message: message.into() }
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

impl std::error::Error for ImportError {}
