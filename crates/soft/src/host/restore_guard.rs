//! Changes of a stopped program that are undone on every way out: at the end, on an error, and in a panic.
//!
//! A system call on behalf of a program needs other registers, another signal mask, other bytes in its code
//! or its stack, and descriptors of its table. A program that continues with one of these left behind is
//! broken, and the tracer outlives a panic in a handler.

use std::io;

/// Undoes a change when it is dropped.
pub(super) struct RestoreGuard<F: FnMut() -> io::Result<()>> {
    restore: F,
    is_done: bool,
}

impl<F: FnMut() -> io::Result<()>> RestoreGuard<F> {
    /// A guard for a change that is made after this, or was made just before.
    pub(super) fn new(restore: F) -> RestoreGuard<F> {
        RestoreGuard { restore, is_done: false }
    }

    /// Undoes the change now.
    ///
    /// # Errors
    ///
    /// The operating system's, when the program is gone.
    pub(super) fn restore(mut self) -> io::Result<()> {
        self.is_done = true;
        (self.restore)()
    }
}

impl<F: FnMut() -> io::Result<()>> Drop for RestoreGuard<F> {
    fn drop(&mut self) {
        if !self.is_done {
            // A program that is gone has nothing to restore.
            let _ = (self.restore)();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_change_is_undone_once_on_every_way_out() {
        let undone = Cell::new(0);
        let count = || {
            undone.set(undone.get() + 1);
            Ok(())
        };
        RestoreGuard::new(count).restore().unwrap();
        assert_eq!(undone.get(), 1);
        let early = || -> io::Result<()> {
            let _guard = RestoreGuard::new(count);
            Err(io::ErrorKind::NotFound.into())
        };
        assert!(early().is_err());
        assert_eq!(undone.get(), 2);
        let panics = catch_unwind(AssertUnwindSafe(|| {
            let _guard = RestoreGuard::new(count);
            panic!("expected");
        }));
        assert!(panics.is_err());
        assert_eq!(undone.get(), 3);
    }

    #[test]
    fn an_error_of_the_restoration_is_reported_or_ignored_when_it_is_dropped() {
        let refused = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(RestoreGuard::new(refused).restore().unwrap_err().kind(), io::ErrorKind::NotFound);
        drop(RestoreGuard::new(refused));
    }
}
