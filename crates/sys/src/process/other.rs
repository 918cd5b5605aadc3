//! The counterpart of `linux.rs` on other systems: no pidfd, `poll`, `SO_NOSIGPIPE`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// `ru_maxrss` is in bytes on macOS. Source: its `getrusage(2)`.
pub(super) const MAXRSS_UNIT_BYTES: u64 = 1;

/// This system has no such flag: see [`never_raise_sigpipe`].
pub(super) const QUIET: libc::c_int = 0;

/// `None`, because only processes are accounted for.
pub(super) const RUSAGE_OF_THREAD: Option<libc::c_int> = None;

/// A descriptor that becomes readable when a process ends; this system has none.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// A descriptor of a process.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn process(_pid: u32) -> io::Result<PidFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A descriptor of a thread.
    ///
    /// # Errors
    ///
    /// `Unsupported`.
    pub fn thread(_tid: u32) -> io::Result<PidFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes this process the parent of every orphan among its descendants; this system does not support that.
///
/// # Errors
///
/// `Unsupported`.
pub fn adopt_orphans() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Waits until one of at most four descriptors is readable, and returns its index; the first one wins. `None`
/// when the time is reached first.
///
/// # Errors
///
/// The operating system's. Handled signals do not end the wait.
pub fn poll_readable(fds: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Option<usize>> {
    let mut slots = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 4];
    for (slot, fd) in slots.iter_mut().zip(fds) {
        slot.fd = fd.as_raw_fd();
    }
    loop {
        // SAFETY: reads and writes the four slots.
        match unsafe { libc::poll(slots.as_mut_ptr(), 4, until.map_or(-1, milliseconds_left)) } {
            0 if until.is_some_and(|until| Instant::now() < until) => {}
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            _ => return Ok(slots.iter().position(|slot| slot.revents != 0)),
        }
    }
}

fn milliseconds_left(until: Instant) -> libc::c_int {
    let left = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
    left.try_into().unwrap_or(libc::c_int::MAX)
}

/// Sends without raising `SIGPIPE`; all of `bytes`, or an error.
pub(super) fn send_quietly(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: reads `bytes`.
        let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), QUIET) };
        match usize::try_from(sent) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(())
}

/// Makes sends on this socket never raise `SIGPIPE`.
pub(super) fn never_raise_sigpipe(socket: &UnixStream) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: reads one int.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NOSIGPIPE,
            (&raw const on).cast(),
            length,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Does nothing, because this system has no tracer.
pub(super) fn allow_any_tracer() {}

/// Does nothing, because this system has no tracer.
pub(super) fn allow_no_tracer() {}

/// Returns false, because layouts cannot be changed.
pub(super) fn fix_layout() -> bool {
    false
}

/// Checks that `/proc/PID` is the process that has this id for the current process.
///
/// # Errors
///
/// `Unsupported`: this system has no `/proc`.
pub fn check_process_list() -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no /proc"))
}

/// `None`, because this system does not say how often it samples what a CPU does.
pub fn kernel_ticks_per_second() -> Option<u64> {
    None
}
