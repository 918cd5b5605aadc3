//! Changes of a tracee's state.

use std::io;

use libc::c_int;

/// A change of a tracee's state. All but the first two are stops: the tracee waits for a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It exited with this status, 0 to 255.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// This signal is about to be delivered: [`resume`](super::resume) with it, or with 0 to suppress it.
    /// `SIGTRAP` also comes from steps and breakpoints; see [`signal_info`](super::signal_info).
    Signal(i32),
    /// It stopped with its whole process, by this signal (`SIGSTOP`, `SIGTSTP`, `SIGTTIN`, `SIGTTOU`):
    /// [`listen`](super::listen) keeps it stopped.
    Group(i32),
    /// It stopped because of [`interrupt`](super::interrupt), because it was traced from its creation, or
    /// because its process was continued.
    Interrupted,
    /// It called `fork(2)`; the child has the id in [`event_message`](super::event_message).
    Fork,
    /// It called `vfork(2)`.
    VFork,
    /// Its `vfork(2)` is over: the child executed a program, or ended.
    VForkDone,
    /// It called `clone(2)` for a thread, or for a process that is neither of the above.
    Clone,
    /// It executed a new program and is before that program's first instruction.
    Exec,
    /// It is about to end.
    Exiting,
    /// Another stop: bits 8 to 15 are the event, 0 to 7 the signal;
    /// [`Options::SYSGOOD`](super::Options::SYSGOOD) adds 0x80.
    Other(i32),
}

/// The signal of a stop at a system call, with [`Options::SYSGOOD`](super::Options::SYSGOOD).
const SYSTEM_CALL: c_int = libc::SIGTRAP | 0x80;

impl Change {
    /// # Source
    ///
    /// `ptrace(2)`, "Stopped states": `status >> 8` is the signal and, above it, the event.
    pub(super) fn decode(status: c_int) -> Change {
        if libc::WIFEXITED(status) {
            return Change::Exited(libc::WEXITSTATUS(status));
        }
        if libc::WIFSIGNALED(status) {
            return Change::Killed(libc::WTERMSIG(status));
        }
        let signal = libc::WSTOPSIG(status);
        match status >> 16 {
            0 if signal == SYSTEM_CALL => Change::Other(signal),
            0 => Change::Signal(signal),
            libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Change::Interrupted,
            libc::PTRACE_EVENT_STOP => Change::Group(signal),
            libc::PTRACE_EVENT_FORK => Change::Fork,
            libc::PTRACE_EVENT_VFORK => Change::VFork,
            libc::PTRACE_EVENT_VFORK_DONE => Change::VForkDone,
            libc::PTRACE_EVENT_CLONE => Change::Clone,
            libc::PTRACE_EVENT_EXEC => Change::Exec,
            libc::PTRACE_EVENT_EXIT => Change::Exiting,
            _ => Change::Other(status >> 8),
        }
    }
}

/// The next change of any child or tracee, without waiting for it; `None` when none has changed, or when
/// neither children nor tracees exist.
///
/// It reaps every process that ends. The calling process must have no children for which other code waits.
///
/// # Errors
///
/// The operating system's.
///
/// # Source
///
/// `waitpid(2)`, `WNOHANG`, `__WALL`.
pub fn wait() -> io::Result<Option<(u32, Change)>> {
    let mut status = 0;
    // SAFETY: writes one status.
    match unsafe { libc::waitpid(-1, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            e => Err(e),
        },
        tid => Ok(Some((tid.unsigned_abs(), Change::decode(status)))),
    }
}

/// Waits for the next change of any child or tracee, or for a signal.
///
/// # Errors
///
/// The operating system's: `EINTR`; `ECHILD` when there is neither.
///
/// # Source
///
/// `waitpid(2)`, `__WALL`.
pub(super) fn wait_for_any() -> io::Result<(u32, Change)> {
    let mut status = 0;
    // SAFETY: writes one status.
    match unsafe { libc::waitpid(-1, &mut status, libc::__WALL) } {
        -1 => Err(io::Error::last_os_error()),
        tid => Ok((tid.unsigned_abs(), Change::decode(status))),
    }
}

/// The next change of one thread, without waiting for it; `None` when nothing has changed.
///
/// # Errors
///
/// The operating system's: `ECHILD` when it is neither a child nor a tracee.
///
/// # Source
///
/// `waitpid(2)`, `WNOHANG`, `__WALL`.
pub fn poll(tid: u32) -> io::Result<Option<Change>> {
    let mut status = 0;
    // SAFETY: writes one status.
    match unsafe { libc::waitpid(crate::process::to_pid(tid)?, &mut status, libc::__WALL | libc::WNOHANG) } {
        0 => Ok(None),
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(Some(Change::decode(status))),
    }
}

/// Waits for the next change of one thread.
///
/// # Errors
///
/// The operating system's: `ECHILD` when it is neither a child nor a tracee.
///
/// # Source
///
/// `waitpid(2)`, `__WALL`.
pub fn wait_for(tid: u32) -> io::Result<Change> {
    let mut status = 0;
    loop {
        // SAFETY: writes one status.
        match unsafe { libc::waitpid(crate::process::to_pid(tid)?, &mut status, libc::__WALL) } {
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            _ => return Ok(Change::decode(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_what_happened() {
        let stop = |event: c_int, signal: c_int| event << 16 | signal << 8 | 0x7f;
        let cases = [
            (7 << 8, Change::Exited(7)),
            (libc::SIGKILL, Change::Killed(9)),
            (libc::SIGSEGV | 0x80, Change::Killed(11)),
            (stop(0, libc::SIGSTOP), Change::Signal(libc::SIGSTOP)),
            (stop(0, libc::SIGTRAP), Change::Signal(libc::SIGTRAP)),
            (stop(0, libc::SIGTRAP | 0x80), Change::Other(0x85)),
            (stop(1, libc::SIGTRAP), Change::Fork),
            (stop(2, libc::SIGTRAP), Change::VFork),
            (stop(3, libc::SIGTRAP), Change::Clone),
            (stop(4, libc::SIGTRAP), Change::Exec),
            (stop(5, libc::SIGTRAP), Change::VForkDone),
            (stop(7, libc::SIGTRAP), Change::Other(0x705)),
            (stop(6, libc::SIGTRAP), Change::Exiting),
            (stop(128, libc::SIGTRAP), Change::Interrupted),
            (stop(128, libc::SIGTSTP), Change::Group(libc::SIGTSTP)),
        ];
        for (status, expected) in cases {
            assert_eq!(Change::decode(status), expected, "{status:#x}");
        }
    }

    #[test]
    fn who_is_no_child_cannot_be_waited_for() {
        assert_eq!(wait_for(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        assert_eq!(wait_for(0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(poll(1).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }
}
