//! An operating system without macOS's `sysctl` names.

/// There are no such names.
pub(super) fn read(_name: &str) -> Option<String> {
    None
}
