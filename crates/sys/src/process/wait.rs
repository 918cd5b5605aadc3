//! Reaping and signalling processes.

use std::io;
use std::mem::MaybeUninit;

use super::accounting::ResourceUsage;
use super::pid::to_pid;

/// The end of a process, and its usage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The exit status.
    pub status: Status,
    /// The accounting for it and the descendants that it waited for.
    pub usage: ResourceUsage,
}

/// The exit status of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// It exited with this status, 0 to 255.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
}

/// Whether to wait for the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reap {
    /// Wait.
    Block,
    /// Check without waiting.
    Poll,
}

/// Reaps a child; `None` when it still runs and `how` is [`Reap::Poll`].
///
/// # Errors
///
/// The operating system's: `ECHILD` when it is not our child, or was reaped before.
pub fn reap(pid: u32, how: Reap) -> io::Result<Option<Ended>> {
    let options = if how == Reap::Poll { libc::WNOHANG } else { 0 };
    let mut status = 0;
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    loop {
        // SAFETY: writes one status and one rusage.
        match unsafe { libc::wait4(to_pid(pid)?, &mut status, options, raw.as_mut_ptr()) } {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            _ => break,
        }
    }
    // SAFETY: the call succeeded and wrote the struct.
    let usage = ResourceUsage::from_raw(unsafe { raw.assume_init_ref() });
    Ok(Some(Ended { status: decode(status), usage }))
}

/// Whether a child has ended; it stays to be reaped.
///
/// # Errors
///
/// As [`reap`].
///
/// # Source
///
/// `waitid(2)`, `WNOWAIT`. xnu `bsd/kern/kern_exit.c` leaves the struct as it is where no child has ended.
pub fn has_ended(pid: u32, how: Reap) -> io::Result<bool> {
    let poll = if how == Reap::Poll { libc::WNOHANG } else { 0 };
    let id = to_pid(pid)?.unsigned_abs();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOWAIT | poll;
    // SAFETY: writes one siginfo.
    while unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options) } != 0 {
        match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::Interrupted => {}
            e => return Err(e),
        }
    }
    // SAFETY: all zeros are a valid siginfo, and the call changes it only to another one.
    Ok(unsafe { info.assume_init_ref() }.si_signo == libc::SIGCHLD)
}

fn decode(status: libc::c_int) -> Status {
    if libc::WIFSIGNALED(status) {
        Status::Signal(libc::WTERMSIG(status))
    } else {
        Status::Code(libc::WEXITSTATUS(status))
    }
}

/// Sends a signal to a process; signal 0 only checks whether it exists.
///
/// # Errors
///
/// The operating system's: `ESRCH` when there is no such process, `EPERM`.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: touches no memory of ours; a positive pid means one process.
    match unsafe { libc::kill(to_pid(pid)?, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends a signal to all processes of a group.
///
/// # Errors
///
/// As [`signal`]. Number 1 is refused: for the system it means every process.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    let group = to_pid(group)?;
    if group == 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: touches no memory of ours; a negative pid below -1 means one group.
    match unsafe { libc::kill(-group, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The process group of a process; a zombie still has one.
///
/// # Errors
///
/// The operating system's: `ESRCH` when there is no such process.
pub fn group_of(pid: u32) -> io::Result<u32> {
    // SAFETY: touches no memory of ours.
    let group = unsafe { libc::getpgid(to_pid(pid)?) };
    u32::try_from(group).map_err(|_| io::Error::last_os_error())
}

/// Our own process group.
pub fn own_group() -> u32 {
    // SAFETY: takes nothing, touches no memory and cannot fail.
    unsafe { libc::getpgrp() }.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_one_group() {
        for group in [0, 1, u32::MAX, 1 << 31] {
            assert!(signal_group(group, 0).is_err(), "{group}");
        }
        assert!(signal_group(own_group(), 0).is_ok());
    }

    #[test]
    fn a_pid_never_means_a_group_of_processes() {
        for pid in [0, u32::MAX, 1 << 31] {
            assert_eq!(signal(pid, 0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
            assert_eq!(reap(pid, Reap::Poll).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        }
    }

    #[test]
    fn we_are_in_our_own_group() {
        assert_eq!(group_of(std::process::id()).unwrap(), own_group());
        assert_eq!(group_of(0x7fff_fff0).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn a_child_that_has_ended_stays_until_it_is_reaped() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = child.id();
        assert!(!has_ended(pid, Reap::Poll).unwrap());
        child.kill().unwrap();
        assert!(has_ended(pid, Reap::Block).unwrap());
        assert!(has_ended(pid, Reap::Poll).unwrap());
        assert_eq!(reap(pid, Reap::Block).unwrap().unwrap().status, Status::Signal(libc::SIGKILL));
        assert_eq!(has_ended(pid, Reap::Poll).unwrap_err().raw_os_error(), Some(libc::ECHILD));
        drop(child);
    }

    #[test]
    fn what_is_no_child_cannot_be_reaped() {
        assert_eq!(reap(std::process::id(), Reap::Poll).unwrap_err().raw_os_error(), Some(libc::ECHILD));
    }
}
