//! Signals that are blocked in the calling thread for a while.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

use libc::c_int;

/// Blocks signals in the calling thread for its lifetime; they stay pending.
///
/// A process that is forked meanwhile starts with the same mask and no pending signals.
pub(crate) struct Masked {
    former: libc::sigset_t,
    /// Not `Send`, because a mask belongs to a thread.
    not_send: PhantomData<*const ()>,
}

impl Masked {
    /// Blocks all signals that can be blocked.
    pub(crate) fn all() -> Masked {
        let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: initialises the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: initialised above.
        Masked::these(&unsafe { all.assume_init() })
    }

    /// Blocks the signals of a set.
    pub(crate) fn these(signals: &libc::sigset_t) -> Masked {
        let mut former = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: reads one initialised set and writes another; it fails only for an unknown way of setting.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, signals, former.as_mut_ptr()) };
        // SAFETY: zeroed, and written by the call.
        Masked { former: unsafe { former.assume_init() }, not_send: PhantomData }
    }
}

impl Drop for Masked {
    fn drop(&mut self) {
        // SAFETY: a mask that was in force before; a null old one is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.former, std::ptr::null_mut()) };
    }
}

impl std::fmt::Debug for Masked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Masked")
    }
}

/// Unblocks all signals in the calling thread, permanently.
pub(crate) fn clear_mask() {
    // SAFETY: reads an initialised set; a null old one is allowed.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(&[]), std::ptr::null_mut()) };
}

/// A set of the existing signals among `signals`.
pub(crate) fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: initialises the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: the set is initialised; a signal that does not exist is refused.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: c_int) -> bool {
        let mut mask = set_of(&[]);
        // SAFETY: a null new set changes nothing; the old one is written.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask) };
        // SAFETY: reads an initialised set.
        unsafe { libc::sigismember(&mask, signal) == 1 }
    }

    #[test]
    fn signals_are_blocked_as_long_as_the_mask_lives() {
        let outer = Masked::these(&set_of(&[libc::SIGUSR1]));
        {
            let _all = Masked::all();
            assert!(is_blocked(libc::SIGUSR1) && is_blocked(libc::SIGHUP));
        }
        assert!(is_blocked(libc::SIGUSR1) && !is_blocked(libc::SIGHUP));
        drop(outer);
        assert!(!is_blocked(libc::SIGUSR1));
    }
}
