//! Settings of the allocator.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::c_int;

/// The end of the allocator's memory up to which large pages were requested.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Makes the allocator reuse freed memory, instead of returning it to the kernel and requesting it again.
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
        // SAFETY: takes numbers, and a refusal changes nothing; one thread is the caller's promise, and a
        // second one would only find the old settings.
        unsafe { libc::mallopt(what, value) };
    }
    ASKED.store(end(), Ordering::Relaxed);
    begin_large();
    enlarge();
}

/// Makes the next allocations start at a boundary of large pages. The gap before it is never touched, and
/// takes no memory.
fn begin_large() {
    const LARGE: usize = 2 << 20;
    // More than the allocator usually has left, so that it extends its memory for it.
    const MUCH: usize = 1 << 18;
    // Bytes that the allocator writes after an allocation, which would make the page there a small one.
    const BEHIND: usize = 64;
    // `black_box` prevents the compiler from omitting the unused allocation.
    // SAFETY: memory that nobody uses.
    let next = black_box(unsafe { libc::malloc(MUCH) });
    // Called before the next memory is touched: where a small page exists, no large one is used.
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

/// Requests large pages for memory that the allocator received since the last call. They take a quarter of
/// the time of small pages to be provided, and cause fewer misses. Existing pages do not change, nor does
/// anything on systems without large pages. It is cheap when there is no new memory, so it can be called
/// often. [`keep`] must be called first; it makes the allocator request enough memory at a time for such
/// pages.
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

/// The end of the allocator's heap.
///
/// # Source
///
/// `sbrk(2)`.
fn end() -> usize {
    // SAFETY: changes nothing.
    unsafe { libc::sbrk(0) as usize }
}
