//! Names of code: which function, line or file the count of an instruction belongs to.
//!
//! ```text
//! CodeCounts (file, offset) ──ObjectFile──> function, line ──group──> CountsByCode: rows, largest first
//! ```
//!
//! - [`ObjectFile`]: the symbols of a file, also of its separate file with debug information.
//! - [`group`]: the counts of instructions, added up by function, line or file; [`group_with_inlined`]: by
//!   function, those that are inlined apart.
//! - [`CallGraph`]: inclusive counts and calls, from the instructions by call path.
//! - [`changes`]: the counts by function or file of two commands, matched by name.
//!
//! Counts come before names: a file without symbols, or one that was replaced, has a row of its own, and the
//! rows always add up to the sum over all instructions.
#![forbid(unsafe_code)]

mod call_graph;
mod changes;
mod code_files;
mod code_name;
mod debug_sections;
mod demangled;
mod function_names;
mod grouped;
mod inlined_functions;
mod innermost;
mod line_tables;
mod linkage_stubs;
mod named_object;
mod object_file;
mod run_time_names;
mod same_names;
mod separate;
mod source_line;

pub use call_graph::{CallEdge, CallGraph, CallPathNode, InclusiveCount};
pub use changes::{
    CodeChange, CodeChanges, CodeCountsOfSides, CodeMatch, CodeSeries, changes, left_out_note, mean,
};
pub use code_files::{CodeFiles, NameFile};
pub use code_name::CodeName;
pub use debug_sections::UnreadSection;
pub use grouped::{CallsOfFunction, CountsByCode, CountsOfCode, Grouping, group, group_with_inlined};
pub use object_file::{DebugPart, FunctionSymbol, ObjectError, ObjectFile};
pub use source_line::SourceLine;
