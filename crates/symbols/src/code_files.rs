//! The files that names are from.

use std::path::PathBuf;

use cyclometer_core::code::{CodeObject, ProcessMemory};

/// A file in which a program names code that it made while it ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NameFile {
    /// Its path.
    pub path: String,
    /// Its content, or why it is not used, in words that follow the path.
    pub content: Result<Vec<u8>, String>,
}

/// Access to the files that names are from.
pub trait CodeFiles {
    /// The path of a file that was counted; `None` where it is another one since: the names of a replaced
    /// file would be wrong.
    fn counted_file(&self, object: &CodeObject) -> Option<PathBuf>;

    /// The files that name the code which a process made, the best first; files that do not exist are left
    /// out.
    fn name_files(&self, memory: ProcessMemory) -> Vec<NameFile>;
}
