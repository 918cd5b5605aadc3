//! Waiting for an end, a point in time or a signal, whichever is first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cyclometer_sys::process::{PidFd, poll_readable};
use cyclometer_sys::signals::Watch;

/// The events that a wait ends with.
#[derive(Debug)]
pub(super) struct Vigil {
    /// Reports the end; `None` where the kernel has no PID file descriptors, or nothing ends.
    pub(super) end: Option<PidFd>,
    /// Reports signals to this process.
    pub(super) signals: Option<Arc<Watch>>,
    /// Without `end`: how often to check whether the target has ended; `None` when nothing ends.
    pub(super) look_every: Option<Duration>,
}

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum News {
    /// The kernel reported that the process has ended.
    Ended,
    /// It is time to check whether the process has ended.
    Look,
    /// The deadline was reached.
    Time,
    /// A signal with this number came to this process.
    Signal(i32),
}

impl Vigil {
    /// Waits for the next event.
    pub(super) fn next(&self, until: Option<Instant>) -> io::Result<News> {
        let nap = self.look_every.filter(|_| self.end.is_none()).map(|nap| Instant::now() + nap);
        let (stop, news) = match (until, nap) {
            (Some(until), Some(nap)) if nap < until => (Some(nap), News::Look),
            (None, Some(nap)) => (Some(nap), News::Look),
            (until, _) => (until, News::Time),
        };
        loop {
            match self.poll(stop)? {
                None => return Ok(news),
                Some(News::Look) => {}
                Some(news) => return Ok(news),
            }
        }
    }

    /// `Look` is a false alarm here.
    fn poll(&self, stop: Option<Instant>) -> io::Result<Option<News>> {
        let ends = self.end.iter().map(|end| (end.as_fd(), true));
        let signals = self.signals.iter().map(|watch| (watch.as_fd(), false));
        let (fds, are_ends): (Vec<BorrowedFd<'_>>, Vec<bool>) = ends.chain(signals).unzip();
        let Some(index) = poll_readable(&fds, stop)? else { return Ok(None) };
        if are_ends.get(index) == Some(&true) {
            return Ok(Some(News::Ended));
        }
        let caught = self.signals.as_ref().and_then(|watch| watch.take());
        Ok(Some(caught.map_or(News::Look, News::Signal)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_pidfd_the_vigil_looks_until_its_time() {
        let look_every = Some(Duration::from_millis(5));
        let vigil = Vigil { end: None, signals: None, look_every };
        assert_eq!(vigil.next(None).unwrap(), News::Look);
        assert_eq!(vigil.next(Some(Instant::now() + Duration::from_secs(300))).unwrap(), News::Look);
        assert_eq!(vigil.next(Some(Instant::now())).unwrap(), News::Time);
    }
}
