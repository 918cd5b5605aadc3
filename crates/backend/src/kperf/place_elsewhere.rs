//! Systems without kperf.

use std::path::PathBuf;

/// There is no library.
pub fn library() -> Option<PathBuf> {
    None
}
