//! Regions for languages that cannot bind a guard to a scope: C, Python.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use crate::region::Region;
use crate::report::Measured;
use crate::shared::Shared;

thread_local! {
    /// The regions that were begun in this thread and have not ended, the latest last.
    static OPEN: RefCell<Vec<(u64, Region)>> = const { RefCell::new(Vec::new()) };
}

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A region in explicit begin and stop calls. It may be moved to other threads, be stopped twice or be
/// forgotten.
///
/// The region belongs to the thread that began it. Only that thread can read and stop it; other threads get
/// errors. It ends when this value is dropped in its thread, and at the latest with its thread. A [`Region`]
/// is a few instructions cheaper and makes the same mistakes impossible.
///
/// ```
/// fn sends(region: cyclometer_monitor::BegunRegion) {
///     std::thread::spawn(move || drop(region));
/// }
/// ```
#[derive(Debug)]
pub struct BegunRegion {
    number: u64,
    label: Box<str>,
    thread: std::thread::ThreadId,
    stopped: bool,
}

impl BegunRegion {
    pub(crate) fn begin(shared: &Arc<Shared>, label: &str) -> BegunRegion {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let thread = std::thread::current().id();
        let begun = BegunRegion { number, label: label.into(), thread, stopped: false };
        // The list is gone while the thread ends; the monitor counts such a region as missed.
        let _ = OPEN.try_with(|open| {
            open.borrow_mut().reserve(1);
            let region = Region::begin(shared, label);
            open.borrow_mut().push((number, region));
        });
        begun
    }

    /// The label.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether it has not been stopped yet.
    pub fn is_open(&self) -> bool {
        !self.stopped
    }

    /// Ends the region and returns its counts, once.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` where the region was stopped before, where this is another thread (the
    /// region stays open), and where its thread has ended.
    pub fn stop(&mut self) -> Result<Measured> {
        self.check()?;
        let region = take(self.number).ok_or_else(|| self.vanished())?;
        self.stopped = true;
        Ok(region.stop())
    }

    /// The counts of all regions of this label so far, in all threads: those that ended, and this one up to
    /// now.
    ///
    /// # Errors
    ///
    /// As [`BegunRegion::stop`].
    pub fn so_far(&self) -> Result<Measured> {
        self.check()?;
        let read = |open: &RefCell<Vec<(u64, Region)>>| {
            open.borrow().iter().rev().find(|(number, _)| *number == self.number).map(|(_, own)| own.so_far())
        };
        OPEN.try_with(read).ok().flatten().ok_or_else(|| self.vanished())
    }

    fn check(&self) -> Result<()> {
        if self.stopped {
            return Err(self.error("was stopped before", "stop a region once; begin another one"));
        }
        if self.thread != std::thread::current().id() {
            let hint = "read and stop a region in the thread that began it: its counters are that thread's";
            return Err(self.error("belongs to another thread", hint));
        }
        Ok(())
    }

    fn vanished(&self) -> Error {
        self.error("ended with its thread", "stop regions before their thread ends")
    }

    fn error(&self, what: &str, hint: &str) -> Error {
        Error::new(ErrorKind::InvalidInput, format!("the region `{}` {what}", self.label))
            .with_recovery(Recovery::fix(hint))
    }
}

impl Drop for BegunRegion {
    fn drop(&mut self) {
        if !self.stopped && self.thread == std::thread::current().id() {
            drop(take(self.number));
        }
    }
}

/// Removes the open region with a number and returns it.
fn take(number: u64) -> Option<Region> {
    let remove = |open: &RefCell<Vec<(u64, Region)>>| {
        let mut open = open.borrow_mut();
        let at = open.iter().rposition(|(own, _)| *own == number)?;
        Some(open.remove(at).1)
    };
    OPEN.try_with(remove).ok().flatten()
}
