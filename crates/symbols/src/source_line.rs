//! Lines of source code.

/// A line of source code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceLine {
    /// The file.
    pub file: String,
    /// The line, from 1; `None`: the compiler gives none.
    pub line: Option<u32>,
}
