//! The framework of macOS.

use std::path::{Path, PathBuf};

/// The path of the framework, and no other: a library of that name in another folder is never opened.
pub fn library() -> Option<PathBuf> {
    Some(PathBuf::from(cyclometer_sys::macos::KPERF))
}

/// The system library.
pub(super) fn system_library(_library: &Path) -> PathBuf {
    PathBuf::from("/usr/lib/libSystem.B.dylib")
}
