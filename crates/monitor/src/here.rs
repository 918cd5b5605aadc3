//! The counters that the calling thread has open, by monitor.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use crate::shared::Shared;
use crate::thread::{Here, ThreadState};

thread_local! {
    /// The counters of this thread, one entry for each monitor that it has regions of.
    static THREADS: RefCell<Vec<ThreadEntry>> = const { RefCell::new(Vec::new()) };
}

struct ThreadEntry {
    monitor: u64,
    alive: Weak<Shared>,
    here: Here,
}

impl Drop for Shared {
    /// Closes the counters of the thread that drops the monitor. Each other thread closes its own when it
    /// measures again, or ends.
    fn drop(&mut self) {
        prune();
    }
}

/// The counters that this thread has open for a monitor. They are opened if necessary. `None` while the
/// thread ends.
pub(crate) fn here(shared: &Arc<Shared>) -> Option<Here> {
    THREADS
        .try_with(|threads| {
            let mut threads = threads.try_borrow_mut().ok()?;
            let found = threads.iter().position(|entry| entry.monitor == shared.id);
            if let Some(i) = found {
                let here = &threads[i].here;
                if here.try_borrow().is_ok_and(|state| state.birth.is_here()) {
                    return Some(Rc::clone(here));
                }
                threads.remove(i);
            }
            close_orphans(&mut threads);
            let here = Rc::new(RefCell::new(shared.open_here()));
            threads.push(ThreadEntry {
                monitor: shared.id,
                alive: Arc::downgrade(shared),
                here: Rc::clone(&here),
            });
            Some(here)
        })
        .ok()
        .flatten()
}

/// Closes counters of this thread whose monitors are gone, because they would take counters from others.
pub(crate) fn prune() {
    let _ =
        THREADS.try_with(|threads| threads.try_borrow_mut().map(|mut threads| close_orphans(&mut threads)));
}

fn close_orphans(threads: &mut Vec<ThreadEntry>) {
    threads.retain(|entry| entry.alive.strong_count() > 0);
}

/// Assigns the counters that were opened for building a monitor to the calling thread.
pub(crate) fn adopt(shared: &Arc<Shared>, state: ThreadState) -> Here {
    let here = Rc::new(RefCell::new(state));
    let entry = ThreadEntry { monitor: shared.id, alive: Arc::downgrade(shared), here: Rc::clone(&here) };
    let _ = THREADS.try_with(|threads| threads.try_borrow_mut().map(|mut threads| threads.push(entry)));
    here
}
