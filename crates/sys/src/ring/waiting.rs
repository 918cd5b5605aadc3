//! Waiting for samples.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use crate::perf::OpenEvent;
use crate::process::time_left;

/// The result of waiting for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Woken {
    /// Whether the kernel reports as many samples as were waited for.
    pub has_samples: bool,
    /// Whether all tasks that it samples have ended. Do not wait for such an event again: the wait would
    /// return at once.
    pub has_ended: bool,
    /// Whether it is pinned and did not get or keep its counter. Linux reports this from 6.15 on; before,
    /// such an event seems to have no samples. A wait for it would return at once.
    pub has_no_counter: bool,
}

/// Waits until one of these events has samples, has ended or has no counter. Returns one result for each
/// event; none of them is set when the time is reached first.
///
/// # Errors
///
/// The operating system's. Handled signals do not end the wait.
///
/// # Source
///
/// Linux `kernel/events/core.c`, `perf_poll`.
pub fn wait(events: &[&OpenEvent], until: Option<Instant>) -> io::Result<Vec<Woken>> {
    let slot =
        |event: &&OpenEvent| libc::pollfd { fd: event.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
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
    let says = |what: libc::c_short| slot.revents & what != 0;
    Woken {
        has_samples: says(libc::POLLIN),
        has_ended: says(libc::POLLHUP),
        has_no_counter: says(libc::POLLERR) && !says(libc::POLLHUP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_a_counter_has_not_ended() {
        let says = |revents| woken(&libc::pollfd { fd: 0, events: libc::POLLIN, revents });
        assert_eq!(says(0), Woken::default());
        assert_eq!(says(libc::POLLIN), Woken { has_samples: true, ..Woken::default() });
        assert_eq!(says(libc::POLLHUP), Woken { has_ended: true, ..Woken::default() });
        assert_eq!(says(libc::POLLERR), Woken { has_no_counter: true, ..Woken::default() });
        assert_eq!(says(libc::POLLHUP | libc::POLLERR), Woken { has_ended: true, ..Woken::default() });
    }
}
