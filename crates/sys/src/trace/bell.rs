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

/// Lets a program with one thread wait for a change of a tracee (or child) until a socket becomes readable or is closed.
///
/// It waits in `waitpid(2)` itself, so that a stop costs no signal and no second look. The socket tells of itself by `SIGIO`,
/// whose handler ends the wait. Should it come when the wait is about to begin, a timer ends that too, so that nothing is
/// lost by looking first:
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
/// As long as it lives, `SIGIO` and `SIGALRM` have handlers that interrupt system calls (`EINTR`), the timer of real time is
/// its own, and `SIGCHLD` does not come for stops. The process must not ignore `SIGCHLD` or block the others, and have one bell
/// at a time.
///
/// # Source
///
/// `sigaction(2)`, `SA_NOCLDSTOP`, `SA_RESTART`; `setitimer(2)`; `fcntl(2)`, `O_ASYNC`, `F_SETOWN_EX`.
#[derive(Debug)]
pub struct Bell<'a> {
    socket: BorrowedFd<'a>,
    former_flags: c_int,
    former: [(c_int, Former); 3],
    /// How often the timer ends a wait; `None` where that is not known.
    ticks: Cell<Option<Duration>>,
}

/// What a signal did before.
struct Former(libc::sigaction);

impl std::fmt::Debug for Former {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Former")
    }
}

/// The socket has told of itself.
static RUNG: AtomicBool = AtomicBool::new(false);

/// The timer has come.
static TICKED: AtomicBool = AtomicBool::new(false);

/// How often a wait is ended until it is heard that the socket has told of itself.
const AGAIN: Duration = Duration::from_millis(1);

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
    /// What the socket had before that does not end a wait: look at it once first.
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

    /// The next change of any child or tracee, which is waited for; `None` when the socket is to be looked at, or after `most`
    /// or less. It may also come back for nothing.
    ///
    /// It reaps whatever ends, as [`wait`](super::wait) does. Where there is neither child nor tracee, it waits all the same.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn wait(&self, most: Option<Duration>) -> io::Result<Option<(u32, Change)>> {
        self.tick(most.unwrap_or(Duration::ZERO));
        // From here on the handler sets the timer, and nothing else does. What came while the last change was handled counts: who
        // is always busy would never hear of it.
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

    /// Whether the socket has told of itself since it was asked for the last time.
    fn has_rung(&self) -> bool {
        let rung = RUNG.swap(false, Ordering::SeqCst);
        if rung {
            self.ticks.set(None);
        }
        rung
    }

    /// Has the timer end waits so often; never: zero.
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
        for (signal, Former(former)) in &self.former {
            // SAFETY: reads one `sigaction`, which was in force before; a null old one is allowed.
            unsafe { libc::sigaction(*signal, former, std::ptr::null_mut()) };
        }
    }
}

/// Who waits hears of it, or is about to wait and is woken up by the timer.
extern "C" fn rung(_: c_int) {
    RUNG.store(true, Ordering::SeqCst);
    set_timer(AGAIN);
}

/// It has ended a system call, or comes before the next one.
extern "C" fn ticked(_: c_int) {
    TICKED.store(true, Ordering::SeqCst);
}

fn handler(handler: extern "C" fn(c_int)) -> libc::sighandler_t {
    handler as libc::sighandler_t
}

/// Sets what a signal does; what it did before.
fn act(signal: c_int, handler: libc::sighandler_t, flags: c_int) -> io::Result<Former> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let place = action.as_mut_ptr();
    // SAFETY: `action` has this field.
    unsafe { (*place).sa_sigaction = handler };
    // SAFETY: as above.
    unsafe { (*place).sa_flags = flags };
    let mut former = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: reads an action, of which zero means no signal and no other flag, and writes another; the handlers store an atomic
    // and set a timer, which may be done between any two instructions.
    known(unsafe { libc::sigaction(signal, place, former.as_mut_ptr()) })?;
    // SAFETY: zeroed, and written by the call.
    Ok(Former(unsafe { former.assume_init() }))
}

/// Has `SIGALRM` come so often; never: zero. It leaves `errno` alone, as it cannot fail.
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
