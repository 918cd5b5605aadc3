//! The counterpart of `linux.rs` on macOS: kernel queues in place of pidfds, `poll`, `SO_NOSIGPIPE`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use super::pid::to_pid;
pub use super::posix::poll_readable;
use super::posix::send_all;

/// `ru_maxrss` is in bytes on macOS. Source: its `getrusage(2)`.
pub(super) const MAXRSS_UNIT_BYTES: u64 = 1;

/// This system has no such flag: see [`never_raise_sigpipe`].
pub(super) const QUIET: libc::c_int = 0;

/// `None`, because only processes are accounted for.
pub(super) const RUSAGE_OF_THREAD: Option<libc::c_int> = None;

/// Does nothing, because this system has no signal for the death of a parent.
pub(super) fn end_with_parent() -> io::Result<()> {
    Ok(())
}

/// A descriptor that becomes readable when a process ends: a kernel queue whose only event is that.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// A descriptor of a process.
    ///
    /// # Errors
    ///
    /// The operating system's: `ESRCH`, also for a child that has ended and is not reaped.
    ///
    /// # Source
    ///
    /// `kqueue(2)`, `EVFILT_PROC`, `NOTE_EXIT`; xnu `bsd/kern/kern_event.c`: a queue can be polled, and is
    /// not inherited by children.
    pub fn process(pid: u32) -> io::Result<PidFd> {
        let pid = to_pid(pid)?;
        // SAFETY: makes a descriptor and touches no memory of ours.
        let queue = unsafe { libc::kqueue() };
        if queue < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made it for us alone.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        let end = libc::kevent {
            ident: pid.unsigned_abs() as usize,
            filter: libc::EVFILT_PROC,
            flags: libc::EV_ADD,
            fflags: libc::NOTE_EXIT,
            data: 0,
            udata: ptr::null_mut(),
        };
        // SAFETY: reads one event, and has room for none.
        match unsafe { libc::kevent(queue.as_raw_fd(), &raw const end, 1, ptr::null_mut(), 0, ptr::null()) } {
            0 => Ok(PidFd(queue)),
            _ => Err(io::Error::last_os_error()),
        }
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

/// Sends without raising `SIGPIPE`; all of `bytes`, or an error.
pub(super) fn send_quietly(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    send_all(socket, bytes, QUIET)
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
