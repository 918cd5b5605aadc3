//! The helper process: forked while the program is small, it creates commands as siblings of itself.
//!
//! The protocol uses one stream socket. A request is a [`RequestHeader`] with the descriptors (gate, then the
//! streams that are replaced), followed by the strings, each with its NUL. The answer is a pid or a negative
//! error number. The helper ends at the end of the stream.

mod descriptors;
pub(super) mod message;
mod region;
mod serve;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::origin::Origin;
use super::wait::{self, Reap};
use super::witness::Witness;
use super::{Strings, Traced};
use message::RequestHeader;

/// Our end of the helper.
#[derive(Debug)]
pub(super) struct Helper {
    socket: OwnedFd,
    pid: u32,
    /// The process that forked the helper. After a fork of the program, only that process may end it.
    owner: u32,
}

impl Helper {
    /// Forks the helper.
    pub(super) fn start(origin: &Origin) -> io::Result<Option<Helper>> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the child calls only functions that are safe after fork, allocates nothing and never
        // returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => serve::run(theirs.as_raw_fd(), origin),
            pid => {
                let pid = pid.unsigned_abs();
                Ok(Some(Helper { socket: ours.into(), pid, owner: std::process::id() }))
            }
        }
    }

    /// A witness that reads the signals of this helper.
    pub(super) fn witness(&self) -> Witness {
        Witness::of(self.pid)
    }

    /// Creates a process; see `Launcher::spawn`. Negative streams are not replaced.
    pub(super) fn spawn(
        &self,
        strings: &Strings,
        streams: [RawFd; 3],
        gate: RawFd,
        traced: Option<Traced>,
    ) -> io::Result<u32> {
        self.converse(strings, streams, gate, traced).map_err(|e| match e.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
                io::Error::new(e.kind(), "the helper process that starts commands is gone")
            }
            _ => e,
        })
    }

    fn converse(
        &self,
        strings: &Strings,
        streams: [RawFd; 3],
        gate: RawFd,
        traced: Option<Traced>,
    ) -> io::Result<u32> {
        let (header, payload) = RequestHeader::describe(strings, streams, traced)?;
        let replaced = streams.into_iter().filter(|fd| *fd >= 0);
        let fds: Vec<RawFd> = std::iter::once(gate).chain(replaced).collect();
        let request = [&header.to_bytes()[..], &payload].concat();
        // A single message wakes the helper only once.
        let sent = message::send(self.socket.as_raw_fd(), &request, &fds)?;
        super::linux::send_quietly(&self.socket, request.get(sent..).unwrap_or_default())?;
        self.watch_for_answer();
        let mut answer = [0; 4];
        if !message::receive_exactly(self.socket.as_raw_fd(), &mut answer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match i32::from_ne_bytes(answer) {
            pid if pid > 0 => Ok(pid.unsigned_abs()),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }
}

impl Helper {
    /// Polls for the answer for a short while before sleeping. The answer comes within microseconds, and
    /// waking a sleeping CPU takes longer, especially in a virtual machine.
    fn watch_for_answer(&self) {
        let end = Instant::now() + WATCH;
        while Instant::now() < end && !message::is_there(self.socket.as_raw_fd()) {
            std::thread::yield_now();
        }
    }
}

/// The longest time to poll for an answer.
const WATCH: Duration = Duration::from_micros(200);

impl Drop for Helper {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            // The helper needs no cleanup and might be stopped, so it is killed without a request.
            let _ = wait::signal(self.pid, libc::SIGKILL);
            let _ = wait::reap(self.pid, Reap::Block);
        }
    }
}
