//! Systems without kperf.

use std::path::{Path, PathBuf};

/// There is no library.
pub fn library() -> Option<PathBuf> {
    None
}

/// There is no other library.
pub(super) fn system_library(library: &Path) -> PathBuf {
    library.to_owned()
}
