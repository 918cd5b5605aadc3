//! Waiting for a tracee or a socket, whichever comes first.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libc::c_int;

use super::Change;
use super::change::wait_for_any;

/// Lets a program with one thread wait for a change of a tracee (or child) until a socket becomes readable or
/// is closed.
///
/// It waits in `waitpid(2)` itself, so that a stop costs no signal and no second system call. The socket
/// raises `SIGIO`, whose handler ends the wait. If the signal arrives just before the wait begins, a timer
/// ends the wait as well. No event is lost if the caller first reads the socket:
///
/// ```no_run
/// # use cyclometer_sys::trace::Bell;
/// # fn serve(socket: &std::os::unix::net::UnixStream) -> std::io::Result<()> {
/// let bell = Bell::new(socket)?;
/// loop {
///     // … read the socket until it has nothing more …
///     while let Some((tid, change)) = bell.wait(None)? { /* … */ }
/// }
/// # }
/// ```
///
/// For its lifetime, `SIGIO` and `SIGALRM` have handlers that interrupt system calls (`EINTR`). The timer of
/// real time belongs to the bell, and `SIGCHLD` is not sent for stops. The process must not ignore `SIGCHLD`
/// or block the others, and must have only one bell at a time.
///
/// # Source
///
/// `sigaction(2)`, `SA_NOCLDSTOP`, `SA_RESTART`; `setitimer(2)`; `fcntl(2)`, `O_ASYNC`, `F_SETOWN_EX`.
#[derive(Debug)]
pub struct Bell<'a> {
    socket: BorrowedFd<'a>,
    former_flags: c_int,
    former: [(c_int, FormerAction); 3],
    /// The interval at which the timer ends waits; `None` where it is unknown.
    ticks: Cell<Option<Duration>>,
}

/// The former action of a signal.
struct FormerAction(libc::sigaction);

impl std::fmt::Debug for FormerAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Former")
    }
}

/// Whether the socket has raised its signal.
static RUNG: AtomicBool = AtomicBool::new(false);

/// Whether the timer has expired.
static TICKED: AtomicBool = AtomicBool::new(false);

/// The interval at which waits are ended until the socket's signal is noticed.
const AGAIN: Duration = Duration::from_millis(1);

/// Source: `include/uapi/asm-generic/fcntl.h`.
const F_SETOWN_EX: c_int = 15;

/// Source: `include/uapi/asm-generic/fcntl.h`.
const F_OWNER_TID: c_int = 0;

/// The receiver of a descriptor's signals. Source: `include/uapi/asm-generic/fcntl.h`, `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: c_int,
    id: libc::pid_t,
}

impl<'a> Bell<'a> {
    /// Creates a bell for a socket.
    ///
    /// Data that the socket already had does not end a wait: read the socket once first.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn new(socket: &'a UnixStream) -> io::Result<Bell<'a>> {
        let socket = socket.as_fd();
        let former_flags = flags(socket)?;
        RUNG.store(false, Ordering::SeqCst);
        TICKED.store(false, Ordering::SeqCst);
        let former = [
            (libc::SIGCHLD, act(libc::SIGCHLD, libc::SIG_DFL, libc::SA_NOCLDSTOP)?),
            (libc::SIGIO, act(libc::SIGIO, handler(rung), 0)?),
            (libc::SIGALRM, act(libc::SIGALRM, handler(ticked), 0)?),
        ];
        let bell = Bell { socket, former_flags, former, ticks: Cell::new(Some(Duration::ZERO)) };
        own(socket)?;
        set_flags(socket, former_flags | libc::O_ASYNC | libc::O_NONBLOCK)?;
        Ok(bell)
    }

    /// Waits for the next change of any child or tracee. `None` when the socket should be read, or after at
    /// most `most`. It may also return `None` without a reason.
    ///
    /// It reaps every process that ends, as [`wait`](super::wait) does. Without children and tracees it waits
    /// nevertheless.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn wait(&self, most: Option<Duration>) -> io::Result<Option<(u32, Change)>> {
        self.tick(most.unwrap_or(Duration::ZERO));
        // From here on only the handler sets the timer. Signals that arrived while the last change was
        // handled count as well: a tracer that is always busy would never notice them otherwise.
        if self.has_rung() | TICKED.swap(false, Ordering::SeqCst) {
            return Ok(None);
        }
        let change = match wait_for_any() {
            Err(e) if e.raw_os_error() == Some(libc::ECHILD) => pause(),
            change => change.map(Some),
        };
        match change {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {
                self.has_rung();
                TICKED.store(false, Ordering::SeqCst);
                Ok(None)
            }
            change => change,
        }
    }

    /// Whether the socket has raised its signal since the last call.
    fn has_rung(&self) -> bool {
        let rung = RUNG.swap(false, Ordering::SeqCst);
        if rung {
            self.ticks.set(None);
        }
        rung
    }

    /// Makes the timer end waits at this interval; zero disables it.
    fn tick(&self, every: Duration) {
        if self.ticks.replace(Some(every)) != Some(every) {
            set_timer(every);
        }
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let _ = set_flags(self.socket, self.former_flags);
        set_timer(Duration::ZERO);
        for (signal, FormerAction(former)) in &self.former {
            // SAFETY: reads one `sigaction`, which was in force before; a null old one is allowed.
            unsafe { libc::sigaction(*signal, former, std::ptr::null_mut()) };
        }
    }
}

/// Interrupts the wait. If the wait is just about to begin, the timer ends it.
extern "C" fn rung(_: c_int) {
    RUNG.store(true, Ordering::SeqCst);
    set_timer(AGAIN);
}

/// Has interrupted a system call, or arrives before the next one.
extern "C" fn ticked(_: c_int) {
    TICKED.store(true, Ordering::SeqCst);
}

fn handler(handler: extern "C" fn(c_int)) -> libc::sighandler_t {
    handler as libc::sighandler_t
}

/// Sets the action of a signal; returns the former one.
fn act(signal: c_int, handler: libc::sighandler_t, flags: c_int) -> io::Result<FormerAction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let place = action.as_mut_ptr();
    // SAFETY: `action` has this field.
    unsafe { (*place).sa_sigaction = handler };
    // SAFETY: as above.
    unsafe { (*place).sa_flags = flags };
    let mut former = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads an action, of which zero means no signal and no other flag, and writes another; the
    // handlers store an atomic and set a timer, which may be done between any two instructions.
    known(unsafe { libc::sigaction(signal, place, former.as_mut_ptr()) })?;
    // SAFETY: zeroed, and written by the call.
    Ok(FormerAction(unsafe { former.assume_init() }))
}

/// Sets the interval of `SIGALRM`; zero disables it. `errno` is preserved, as the call cannot fail.
fn set_timer(every: Duration) {
    let time = libc::timeval { tv_sec: every.as_secs().cast_signed(), tv_usec: every.subsec_micros().into() };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: reads one `itimerval`; a null old one is allowed.
    unsafe { libc::syscall(libc::SYS_setitimer, libc::ITIMER_REAL, &raw const timer, 0) };
}

/// Waits for a signal.
fn pause<T>() -> io::Result<T> {
    // SAFETY: takes no descriptors, so that the pointer to them is never used.
    unsafe { libc::poll(std::ptr::null_mut(), 0, -1) };
    Err(io::Error::last_os_error())
}

fn flags(socket: BorrowedFd<'_>) -> io::Result<c_int> {
    // SAFETY: only asks for flags.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) })
}

fn set_flags(socket: BorrowedFd<'_>, flags: c_int) -> io::Result<()> {
    // SAFETY: takes a number.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags) }).map(drop)
}

/// Directs the socket's signals to the calling thread.
fn own(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    let owner = Owner { kind: F_OWNER_TID, id: unsafe { libc::gettid() } };
    // SAFETY: reads one `f_owner_ex`, which `owner` is.
    known(unsafe { libc::fcntl(socket.as_raw_fd(), F_SETOWN_EX, &raw const owner) }).map(drop)
}

fn known(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}
