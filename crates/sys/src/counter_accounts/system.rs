//! The functions of macOS's system library.

use std::path::Path;

use super::AccountFunctions;
use crate::macos::Library;

/// The system library, which has the functions of the kernel's library, too.
const SYSTEM: &str = "/usr/lib/libSystem.B.dylib";

/// The functions of the system library; `None` where it has neither.
pub fn of_system() -> Option<AccountFunctions> {
    AccountFunctions::of_library(&Library::open(Path::new(SYSTEM)).ok()?)
}
