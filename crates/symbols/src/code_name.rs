//! The names of code.

use cyclometer_core::code::CodeOwner;

use crate::source_line::SourceLine;

/// The code that the counts of a row belong to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CodeName {
    /// The path of the file of code; `None`: code of no file, as compilers at run time make it.
    pub object: Option<String>,
    /// The function, or the function around the line; `None`: unknown, or not asked for.
    pub function: Option<String>,
    /// The function whose code an inlined function is in. `None`: the function is not inlined, or inlined
    /// functions were not asked for.
    pub inlined_into: Option<String>,
    /// The line; `None`: unknown, or not asked for.
    pub line: Option<SourceLine>,
    /// The process or thread that executed it; `None`: all of them are added up.
    pub owner: Option<CodeOwner>,
}
