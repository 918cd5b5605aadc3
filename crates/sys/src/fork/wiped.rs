//! Linux: a page that the kernel wipes in every forked child, whichever system call forks it.

use std::sync::atomic::AtomicU32;

use super::super::fork_handler;

/// The word in that page. Kernels before 4.14 cannot wipe pages; there a handler of the C library sets the
/// word to zero.
///
/// # Source
///
/// `madvise(2)`, `MADV_WIPEONFORK`.
pub(super) fn word() -> &'static AtomicU32 {
    wiped().unwrap_or_else(fork_handler::word)
}

fn wiped() -> Option<&'static AtomicU32> {
    let length = size_of::<AtomicU32>();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, of nobody else's memory.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping that was just made.
    if unsafe { libc::madvise(start, length, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: the mapping that was just made, which nobody uses.
        unsafe { libc::munmap(start, length) };
        return None;
    }
    // SAFETY: a page of zeros, aligned, writable, and never unmapped.
    Some(unsafe { &*start.cast::<AtomicU32>() })
}
