//! Whether tracing is allowed here: by trying it.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use libc::{c_int, c_ulong};

use super::Options;
use crate::mask::Masked;
use crate::process::{self, Reap, SIGKILL, Status};

/// Tries out whether one process may trace another as the software PMU does: a tracer that is neither parent nor
/// ancestor of its tracee, which has agreed to be traced.
///
/// Forks two processes, which are gone when it returns; it takes about a millisecond in a small program.
///
/// # Errors
///
/// What the kernel, a security module or a sandbox says to the first step that fails: `EPERM` as a rule, `ENOSYS`
/// where there is no tracing; the operating system's when no process can be made.
///
/// # Source
///
/// `ptrace(2)`, "Ptrace access mode checking" and `/proc/sys/kernel/yama/ptrace_scope`.
pub fn permitted() -> io::Result<()> {
    // A signal to our group in this millisecond is ours alone: the two would run our handlers.
    let _masked = Masked::all();
    let (mut ours, theirs) = UnixStream::pair()?;
    let tracee = Probe::fork(|| agree_and_wait(&theirs))?;
    drop(theirs);
    if ours.read(&mut [0])? == 0 {
        return Err(io::Error::other("the process to be traced ended before its time"));
    }
    let tracer = Probe::fork(|| attempt(tracee.0).map_or_else(failed, |()| 0))?;
    match tracer.status()? {
        Status::Code(0) => Ok(()),
        Status::Code(errno) => Err(io::Error::from_raw_os_error(errno)),
        // Some sandboxes kill.
        Status::Signal(_) => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// What a tracer does first. Allocates nothing.
fn attempt(tid: u32) -> io::Result<()> {
    super::seize(tid, Options::FORK | Options::VFORK | Options::CLONE | Options::EXEC | Options::EXIT)?;
    super::interrupt(tid)?;
    super::wait_for(tid)?;
    let registers = super::registers(tid)?;
    super::set_registers(tid, &registers)?;
    super::read_memory(tid, registers.rsp, &mut [0; 8])?;
    super::detach(tid, 0)
}

/// An error number that fits an exit status; as all of Linux do.
fn failed(error: io::Error) -> c_int {
    error.raw_os_error().filter(|errno| (1..=255).contains(errno)).unwrap_or(libc::EPERM)
}

/// Lets anybody trace this process, says so and waits to be killed. Allocates nothing.
fn agree_and_wait(socket: &UnixStream) -> c_int {
    process::allow_any_tracer();
    // SAFETY: sends one byte of a literal.
    unsafe { libc::send(socket.as_raw_fd(), b"x".as_ptr().cast(), 1, libc::MSG_NOSIGNAL) };
    loop {
        // SAFETY: takes nothing and touches no memory.
        unsafe { libc::pause() };
    }
}

/// A forked process that is killed and reaped when it is dropped, and dies with the thread that forked it.
struct Probe(u32);

impl Probe {
    /// `work` gives its exit status; it must not allocate: another thread may have held locks at the fork.
    fn fork(work: impl FnOnce() -> c_int) -> io::Result<Probe> {
        let maker = std::process::id();
        // SAFETY: the child calls only functions that are safe after fork, allocates nothing and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: takes a number.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, SIGKILL as c_ulong) };
                // SAFETY: takes nothing and cannot fail.
                let orphaned = unsafe { libc::getppid() }.unsigned_abs() != maker;
                // Who was killed before that sends no signal any more.
                process::leave(if orphaned { libc::ESRCH } else { work() })
            }
            pid => Ok(Probe(pid.unsigned_abs())),
        }
    }

    /// Waits for its end.
    fn status(self) -> io::Result<Status> {
        let pid = self.0;
        std::mem::forget(self);
        let ended = process::reap(pid, Reap::Block)?;
        Ok(ended.map_or(Status::Code(libc::ECHILD), |ended| ended.status))
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = process::signal(self.0, SIGKILL);
        let _ = process::reap(self.0, Reap::Block);
    }
}
