//! Systems whose allocator has no such settings.

/// Does nothing.
pub(crate) fn keep() {}

/// Does nothing.
pub(crate) fn enlarge() {}
