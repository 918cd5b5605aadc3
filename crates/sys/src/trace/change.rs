//! Changes of a tracee's state.

use std::io;
use std::mem::MaybeUninit;

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

/// The next stop of one thread, without waiting for it; `None` when it has not stopped. An ended thread is
/// not reaped, so that its parent gets its status.
///
/// # Errors
///
/// The operating system's: `ECHILD` when it is neither a child nor a tracee, or has ended.
///
/// # Source
///
/// `waitid(2)`, `WSTOPPED`, `WNOHANG`, `__WALL`. Linux `kernel/exit.c`, `wait_task_stopped`: the status is
/// the upper part of that of `waitpid(2)`.
pub fn poll_stop(tid: u32) -> io::Result<Option<Change>> {
    stop_of(tid, libc::WNOHANG)
}

/// Waits for the next stop of one thread. An ended thread is not reaped.
///
/// # Errors
///
/// As [`poll_stop`].
pub fn wait_for_stop(tid: u32) -> io::Result<Change> {
    loop {
        match stop_of(tid, 0) {
            Ok(Some(stop)) => return Ok(stop),
            Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
            Ok(None) | Err(_) => {}
        }
    }
}

fn stop_of(tid: u32, how: c_int) -> io::Result<Option<Change>> {
    let id = crate::process::to_pid(tid)?.unsigned_abs();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WSTOPPED | libc::__WALL | how;
    // SAFETY: writes one siginfo.
    if unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zeros are a valid siginfo, and the call changes it only to another one.
    let info = unsafe { info.assume_init_ref() };
    // SAFETY: `waitid(2)` has written these fields, or left the zeros.
    let (pid, status) = (unsafe { info.si_pid() }, unsafe { info.si_status() });
    Ok((pid != 0).then(|| Change::decode(status << 8 | 0x7f)))
}

#[cfg(test)]
mod tests {
    use cyclometer_test_support::skip;

    use super::*;

    #[test]
    fn a_wait_for_a_stop_leaves_the_status_of_a_process_that_ended() {
        let Ok(mut child) = std::process::Command::new("sh").args(["-c", "exit 3"]).spawn() else {
            return skip("there is no sh");
        };
        assert!(wait_for_stop(child.id()).is_err());
        assert!(poll_stop(child.id()).is_err());
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(poll_stop(child.id()).is_err());
    }

    #[test]
    fn a_stop_is_the_same_change_as_by_waitpid() {
        let mut shell = std::process::Command::new("sh");
        let Ok(mut child) = shell.args(["-c", "read line"]).stdin(std::process::Stdio::piped()).spawn()
        else {
            return skip("there is no sh");
        };
        match super::super::seize(child.id(), super::super::Options::EXIT_KILL) {
            Ok(()) => {
                super::super::interrupt(child.id()).unwrap();
                assert_eq!(wait_for_stop(child.id()).unwrap(), Change::Interrupted);
                assert_eq!(poll_stop(child.id()).unwrap(), None);
            }
            Err(_) => skip("ptrace(2) is not permitted"),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

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
