//! A host without POSIX users.

/// Not known here.
pub(super) fn kernel_release() -> Option<String> {
    None
}

/// There are no user ids.
pub(super) fn euid() -> Option<u32> {
    None
}
