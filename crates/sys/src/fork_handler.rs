//! A word that the C library's `fork` sets to zero in the child.

use std::sync::atomic::{AtomicU32, Ordering};

static WORD: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    WORD.store(0, Ordering::Relaxed);
}

/// The word, with the handler in place.
///
/// # Source
///
/// `pthread_atfork(3)`: its third argument is called in the child.
pub(crate) fn word() -> &'static AtomicU32 {
    // SAFETY: the handler only stores to a static word, which is allowed at any time in a forked child.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    &WORD
}
