//! The allocator's habits.

use libc::c_int;

/// Keeps memory that was freed for the next use, instead of giving it back and taking it again at each turn.
///
/// For a process with one thread.
///
/// # Source
///
/// `mallopt(3)`.
pub(crate) fn keep() {
    const ENOUGH: c_int = 32 << 20;
    for (what, value) in
        [(libc::M_TRIM_THRESHOLD, ENOUGH), (libc::M_MMAP_THRESHOLD, ENOUGH), (libc::M_TOP_PAD, 4 << 20)]
    {
        // SAFETY: takes numbers, and a refusal changes nothing; one thread is the caller's promise, and a second one
        // would only find the old habits.
        unsafe { libc::mallopt(what, value) };
    }
}
