//! The framework of macOS.

use std::path::PathBuf;

/// The path of the framework, and no other: a library of that name in another folder is never opened.
pub fn library() -> Option<PathBuf> {
    Some(PathBuf::from(cyclometer_sys::macos::KPERF))
}
