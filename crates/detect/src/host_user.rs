//! User and kernel of a POSIX host.

/// The release of the kernel.
pub(super) fn kernel_release() -> Option<String> {
    cyclometer_sys::host::uname().map(|uname| uname.release)
}

/// The effective user id.
pub(super) fn euid() -> Option<u32> {
    Some(cyclometer_sys::host::effective_uid())
}
