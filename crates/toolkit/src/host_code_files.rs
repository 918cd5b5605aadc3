//! The files of this machine that names of code are from.

use std::path::PathBuf;

use cyclometer_backend::{counted_file, name_files};
use cyclometer_core::code::{CodeObject, ProcessMemory};
use cyclometer_symbols::{CodeFiles, NameFile};

/// The files of this machine, checked: a file that was replaced since it was counted, or one that another
/// user may have written, gives no names.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostCodeFiles;

impl CodeFiles for HostCodeFiles {
    fn counted_file(&self, object: &CodeObject) -> Option<PathBuf> {
        counted_file(object)
    }

    fn name_files(&self, memory: ProcessMemory) -> Vec<NameFile> {
        let file =
            |(path, content): (PathBuf, _)| NameFile { path: path.to_string_lossy().into_owned(), content };
        name_files(memory).into_iter().map(file).collect()
    }
}
