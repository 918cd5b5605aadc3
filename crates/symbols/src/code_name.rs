//! The names of code.

use crate::object_file::SourceLine;

/// The code that the counts of a row belong to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CodeName {
    /// The path of the file of code; `None`: code of no file, as compilers at run time make it.
    pub object: Option<String>,
    /// The function, or the function around the line; `None`: unknown, or not asked for.
    pub function: Option<String>,
    /// Of an inlined function, the function whose code it is in. `None`: it is not inlined, or inlined
    /// functions were not asked for.
    pub inlined_into: Option<String>,
    /// The line; `None`: unknown, or not asked for.
    pub line: Option<SourceLine>,
}
