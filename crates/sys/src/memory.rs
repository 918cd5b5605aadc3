//! The allocator's habits.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

/// Up to where the allocator's memory was asked to be in large pages.
static ASKED: AtomicUsize = AtomicUsize::new(0);

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
        [(libc::M_TRIM_THRESHOLD, ENOUGH), (libc::M_MMAP_THRESHOLD, ENOUGH), (libc::M_TOP_PAD, 8 << 20)]
    {
        // SAFETY: takes numbers, and a refusal changes nothing; one thread is the caller's promise, and a second one
        // would only find the old habits.
        unsafe { libc::mallopt(what, value) };
    }
    ASKED.store(end(), Ordering::Relaxed);
    begin_large();
    enlarge();
}

/// Has the next allocations be in large pages, where one begins. What lies before is never touched, and takes no memory.
fn begin_large() {
    const LARGE: usize = 2 << 20;
    // More than is left over as a rule: it comes from what the allocator is given for it.
    const MUCH: usize = 1 << 18;
    // What the allocator writes behind an allocation, which would make the page there a small one.
    const BEHIND: usize = 64;
    // What is not used is no reason for the compiler to leave it out.
    // SAFETY: memory that nobody uses.
    let next = black_box(unsafe { libc::malloc(MUCH) });
    // Before what comes now is touched: where a small page is, no large one comes.
    enlarge();
    // SAFETY: just allocated, or null.
    unsafe { libc::free(next) };
    let touched = next as usize + MUCH + BEHIND;
    let gap = touched.next_multiple_of(LARGE) - next as usize;
    if !next.is_null() {
        // SAFETY: as above; it is never freed.
        black_box(unsafe { libc::malloc(gap) });
    }
}

/// Has what the allocator was given since the last time be in large pages: a quarter of the time that small ones take to come,
/// and fewer misses. What is there already stays as it is; where there are none, so does all. To be called often, and does
/// hardly anything when nothing was given. [`keep`] comes first, which has the allocator take as much at a time as such a page
/// needs.
///
/// # Source
///
/// `madvise(2)`, `MADV_HUGEPAGE`.
pub(crate) fn enlarge() {
    let end = end();
    let start = ASKED.swap(end, Ordering::Relaxed).next_multiple_of(4096);
    if start < end {
        // SAFETY: changes no byte of the range, only how large the pages are that it is made of.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Where the allocator's memory ends that grows.
///
/// # Source
///
/// `sbrk(2)`.
fn end() -> usize {
    // SAFETY: changes nothing.
    unsafe { libc::sbrk(0) as usize }
}
