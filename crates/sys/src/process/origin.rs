//! The state that a command must inherit from this program: signals and limits.

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::c_int;

/// The last signal number on Linux; signals unknown to the system are skipped.
const LAST_SIGNAL: c_int = 64;

/// Every signal.
pub(crate) fn all_signals() -> impl Iterator<Item = c_int> {
    1..=LAST_SIGNAL
}

/// Dispositions, mask and limits at the time when the launcher was started.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// Bit `n - 1`: signal `n` was ignored.
    ignored: u64,
    mask: libc::sigset_t,
    open_files: libc::rlimit,
}

impl std::fmt::Debug for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Origin").field("ignored", &self.ignored).finish_non_exhaustive()
    }
}

impl Origin {
    pub(super) fn record() -> io::Result<Origin> {
        let ignored: u64 = all_signals().filter(|signal| is_ignored(*signal)).map(bit).sum();
        let ignored =
            if KeptChildren::are_ignored_without() { ignored | bit(libc::SIGCHLD) } else { ignored };
        Ok(Origin { ignored, mask: current_mask()?, open_files: super::limits::open_files()? })
    }

    fn ignores(&self, signal: c_int) -> bool {
        // Rust's runtime ignores SIGPIPE before `main`, so its former disposition is unknown.
        signal != libc::SIGPIPE && self.ignored & bit(signal) != 0
    }

    /// Restores the dispositions of `signals`. Allocates no memory.
    pub(super) fn restore_signals(&self, signals: impl Iterator<Item = c_int>) {
        for signal in signals {
            set(signal, if self.ignores(signal) { libc::SIG_IGN } else { libc::SIG_DFL });
        }
    }

    /// Restores the signal mask and the limit. Allocates no memory.
    pub(super) fn restore_mask_and_limit(&self) {
        // SAFETY: `mask` is an initialised set; a null old set is allowed.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) };
        // SAFETY: reads one rlimit. Lowering a limit to what it was cannot fail.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &self.open_files) };
    }
}

/// Keeps `SIGCHLD` at its default while one of these values exists. If it were ignored, the kernel would reap
/// our children, and their exit statuses would be lost.
#[derive(Debug)]
pub(super) struct KeptChildren(());

/// Number of [`KeptChildren`], and whether the signal was ignored before the first.
struct Kept {
    holders: usize,
    ignored_before: bool,
}

static KEPT: Mutex<Kept> = Mutex::new(Kept { holders: 0, ignored_before: false });

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptChildren {
    pub(super) fn hold() -> KeptChildren {
        let mut kept = kept();
        if kept.holders == 0 {
            kept.ignored_before = is_ignored(libc::SIGCHLD);
            if kept.ignored_before {
                set(libc::SIGCHLD, libc::SIG_DFL);
            }
        }
        kept.holders += 1;
        KeptChildren(())
    }

    /// Whether the signal would be ignored without these values.
    fn are_ignored_without() -> bool {
        let kept = kept();
        kept.holders > 0 && kept.ignored_before
    }
}

impl Drop for KeptChildren {
    fn drop(&mut self) {
        let mut kept = kept();
        kept.holders -= 1;
        // A disposition that the program has set since remains.
        if kept.holders == 0 && kept.ignored_before && is_default(libc::SIGCHLD) {
            set(libc::SIGCHLD, libc::SIG_IGN);
        }
    }
}

fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

fn is_ignored(signal: c_int) -> bool {
    disposition(signal) == Some(libc::SIG_IGN)
}

fn is_default(signal: c_int) -> bool {
    disposition(signal) == Some(libc::SIG_DFL)
}

/// The disposition of a signal; `None` for one that does not exist.
fn disposition(signal: c_int) -> Option<libc::sighandler_t> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written to `action`.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all bytes are initialised, to zero or by the call, and any value is valid.
    let action = unsafe { action.assume_init() };
    (done == 0).then_some(action.sa_sigaction)
}

/// Sets a disposition without a handler; signals that cannot be set are not changed. Allocates no memory.
pub(crate) fn set(signal: c_int, disposition: libc::sighandler_t) {
    // SAFETY: all zero is a valid sigaction: default, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = disposition;
    // SAFETY: reads one sigaction whose disposition is SIG_DFL or SIG_IGN; a null old one is allowed.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Blocks signals in the calling thread. Allocates no memory.
pub(super) fn block(signals: &[c_int]) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set is initialised; a signal that does not exist is refused.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: reads an initialised set; a null old one is allowed.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) };
}

fn current_mask() -> io::Result<libc::sigset_t> {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: a null new set changes nothing; the old one is written to `mask`.
    let error = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: the call succeeded and wrote the set.
    Ok(unsafe { mask.assume_init() })
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A single test, because a disposition belongs to the whole process. It runs where that is the only
    /// thread.
    #[test]
    fn children_are_kept_as_long_as_one_launcher_lives() {
        let said = crate::daemon::fork(|mut socket| {
            use std::io::Write;
            set(libc::SIGCHLD, libc::SIG_IGN);
            let (one, origin) = (KeptChildren::hold(), Origin::record().unwrap());
            let other = KeptChildren::hold();
            let first = (is_default(libc::SIGCHLD), origin.ignores(libc::SIGCHLD));
            drop(one);
            let second = is_default(libc::SIGCHLD);
            drop(other);
            let third = is_ignored(libc::SIGCHLD);
            let chosen = KeptChildren::hold();
            set(libc::SIGCHLD, libc::SIG_DFL);
            drop(KeptChildren::hold());
            let _ = write!(socket, "{first:?} {second} {third} {}", is_default(libc::SIGCHLD));
            drop(chosen);
        });
        let mut heard = String::new();
        std::io::Read::read_to_string(&mut said.unwrap().socket(), &mut heard).unwrap();
        assert_eq!(heard, "(true, true) true true true");
    }
}
