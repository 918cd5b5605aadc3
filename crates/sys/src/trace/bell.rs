//! Waiting for a tracee or a socket, whichever comes first.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libc::c_int;

use crate::mask::{Masked, set_of};

/// Lets a program with one thread sleep until a tracee (or child) changes *or* a socket becomes readable or is
/// closed.
///
/// As long as it lives, `SIGCHLD` and `SIGIO` are blocked in the calling thread, and the socket does not block and
/// tells of itself by `SIGIO`. What comes while nobody sleeps pends and ends the next sleep, so that nothing is
/// lost by looking first:
///
/// ```no_run
/// # use cyclometer_sys::trace::{self, Bell};
/// # fn serve(socket: &std::os::unix::net::UnixStream) -> std::io::Result<()> {
/// let bell = Bell::new(socket)?;
/// loop {
///     while let Some((tid, change)) = trace::wait()? { /* … */ }
///     // … read the socket until it has nothing more …
///     bell.sleep()?;
/// }
/// # }
/// ```
///
/// The process must not ignore `SIGCHLD`, and no other thread may take it: then it would not pend.
///
/// # Source
///
/// `signal(7)`; `sigwaitinfo(2)`; `fcntl(2)`, `O_ASYNC`, `F_SETOWN_EX`.
#[derive(Debug)]
pub struct Bell<'a> {
    socket: BorrowedFd<'a>,
    former_flags: c_int,
    /// Given back last, when nothing pends any more.
    _masked: Masked,
}

/// Source: `include/uapi/asm-generic/fcntl.h`.
const F_SETOWN_EX: c_int = 15;

/// Source: `include/uapi/asm-generic/fcntl.h`.
const F_OWNER_TID: c_int = 0;

/// Who gets the signals of a descriptor. Source: `include/uapi/asm-generic/fcntl.h`, `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: c_int,
    id: libc::pid_t,
}

impl<'a> Bell<'a> {
    /// Makes it for a socket.
    ///
    /// What the socket had before that does not end a sleep: look at it once first.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn new(socket: &'a UnixStream) -> io::Result<Bell<'a>> {
        let socket = socket.as_fd();
        let former_flags = flags(socket)?;
        let bell = Bell { socket, former_flags, _masked: Masked::these(&rung_by()) };
        own(socket)?;
        set_flags(socket, former_flags | libc::O_ASYNC | libc::O_NONBLOCK)?;
        Ok(bell)
    }

    /// Sleeps until there may be something to look at; it may also wake for nothing.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn sleep(&self) -> io::Result<()> {
        // SAFETY: reads an initialised set; a null description is allowed.
        woken(unsafe { libc::sigwaitinfo(&rung_by(), std::ptr::null_mut()) })
    }

    /// The same, for `most` at most.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn doze(&self, most: Duration) -> io::Result<()> {
        let most =
            libc::timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
        // SAFETY: reads an initialised set and a time; a null description is allowed.
        woken(unsafe { libc::sigtimedwait(&rung_by(), std::ptr::null_mut(), &most) })
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let _ = set_flags(self.socket, self.former_flags);
        take_pending();
    }
}

fn woken(signal: c_int) -> io::Result<()> {
    if signal >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(()),
        e => Err(e),
    }
}

/// The signals that end a sleep.
fn rung_by() -> libc::sigset_t {
    set_of(&[libc::SIGCHLD, libc::SIGIO])
}

/// Takes what pends, whose default would be to end the process.
fn take_pending() {
    let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    loop {
        // SAFETY: reads an initialised set and a time; a null description is allowed.
        let taken = unsafe { libc::sigtimedwait(&rung_by(), std::ptr::null_mut(), &now) };
        if taken < 0 {
            return;
        }
    }
}

fn flags(socket: BorrowedFd<'_>) -> io::Result<c_int> {
    // SAFETY: only asks for flags.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) })
}

fn set_flags(socket: BorrowedFd<'_>, flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// Has the socket's signals sent to the calling thread.
fn own(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    let owner = Owner { kind: F_OWNER_TID, id: unsafe { libc::gettid() } };
    // SAFETY: reads one `f_owner_ex`, which `owner` is.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), F_SETOWN_EX, &raw const owner) }).map(drop)
}

fn known(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
