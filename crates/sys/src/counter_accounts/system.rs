//! The functions of macOS's system library.

use std::mem::offset_of;
use std::path::Path;

use super::{AccountFunctions, RusageInfo};
use crate::macos::Library;

/// The places of numbers, by the struct of the C library's headers.
const _: () = {
    const fn number(index: usize) -> usize {
        16 + 8 * index
    }
    assert!(offset_of!(libc::rusage_info_v4, ri_child_user_time) == number(RusageInfo::CHILD_USER_TIME));
    assert!(offset_of!(libc::rusage_info_v4, ri_child_elapsed_abstime) == number(RusageInfo::CHILD_ELAPSED));
    assert!(offset_of!(libc::rusage_info_v4, ri_instructions) == number(RusageInfo::INSTRUCTIONS));
    assert!(offset_of!(libc::rusage_info_v4, ri_cycles) == number(RusageInfo::CYCLES));
    assert!(size_of::<libc::rusage_info_v4>() <= size_of::<RusageInfo>());
};

/// The system library, which has the functions of the kernel's library, too.
const SYSTEM: &str = "/usr/lib/libSystem.B.dylib";

/// The functions of the system library; `None` where it has neither.
pub fn of_system() -> Option<AccountFunctions> {
    AccountFunctions::of_library(&Library::open(Path::new(SYSTEM)).ok()?)
}
