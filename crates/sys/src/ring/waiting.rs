//! Waiting for samples.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use crate::perf::Event;
use crate::process::time_left;

/// What became of an event that was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// The kernel says that there are as many samples as were to be waited for.
    pub has_samples: bool,
    /// Nobody is left whom it could sample. Such an event is not to be waited for again: it would not wait.
    pub has_ended: bool,
}

/// Waits until one of these events has samples or has ended; tells which, one for each. None of them is when the time comes first.
///
/// # Errors
///
/// The operating system's. Signals that are handled elsewhere do not end the wait.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_poll`.
pub fn wait(events: &[&Event], until: Option<Instant>) -> io::Result<Vec<Woken>> {
    let slot =
        |event: &&Event| libc::pollfd { fd: event.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut slots: Vec<libc::pollfd> = events.iter().map(slot).collect();
    loop {
        let left = until.map(time_left);
        let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let number = slots.len() as libc::nfds_t;
        // SAFETY: reads and writes that many slots; the timeout is null or valid; no mask is set.
        if unsafe { libc::ppoll(slots.as_mut_ptr(), number, timeout, std::ptr::null()) } >= 0 {
            return Ok(slots.iter().map(woken).collect());
        }
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
}

fn woken(slot: &libc::pollfd) -> Woken {
    Woken {
        has_samples: slot.revents & libc::POLLIN != 0,
        has_ended: slot.revents & (libc::POLLHUP | libc::POLLERR) != 0,
    }
}
