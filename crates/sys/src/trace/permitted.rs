//! Checks whether the software PMU may make the system calls that it needs, by making them.

use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use libc::{c_int, c_ulong};

use super::Options;
use crate::mask::Masked;
use crate::process::{self, Reap, SIGKILL};
use crate::shared::FileSizeLimit;
use crate::tracer_call::{MEMORY_FILE_BYTES, PRIVATE_BYTES, TracerCall};

/// The reason why the software PMU cannot trace a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// A system call was refused.
    Call {
        /// The system call.
        call: TracerCall,
        /// The error number; `EPERM` where the call kills the process.
        errno: i32,
    },
    /// This process and its children are already traced by another process.
    Traced {
        /// The id of that tracer.
        by: u32,
    },
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Forbidden::Call { call, errno } => write!(f, "{call}: {}", io::Error::from_raw_os_error(*errno)),
            Forbidden::Traced { by } => write!(f, "process {by} traces what starts here"),
        }
    }
}

impl std::error::Error for Forbidden {}

/// Checks whether one process may trace another as the software PMU does. The tracer is neither parent nor
/// ancestor of its tracee, which has permitted tracing. The tracer reads and writes the tracee's memory, and
/// creates sealable memory of its own.
///
/// Forks two processes, which have ended when it returns; it takes about a millisecond in a small program.
///
/// # Errors
///
/// The first system call that the kernel, a security module or a sandbox refuses, or the process that already
/// traces.
///
/// # Source
///
/// `ptrace(2)`, "Ptrace access mode checking" and `/proc/sys/kernel/yama/ptrace_scope`;
/// `process_vm_readv(2)`; `memfd_create(2)`.
pub fn permitted() -> Result<(), Forbidden> {
    // Signals to our group are blocked meanwhile, because the two processes would run our handlers.
    let _masked = Masked::all();
    let (mut ready, theirs) = UnixStream::pair().map_err(refused(TracerCall::Socketpair))?;
    let tracee = Probe::fork(|| agree_and_wait(&theirs)).map_err(refused(TracerCall::Fork))?;
    drop(theirs);
    if ready.read(&mut [0]).map_err(refused(TracerCall::Read))? == 0 {
        return Err(Forbidden::Call { call: TracerCall::Fork, errno: libc::ECHILD });
    }
    if let Some(by) = tracer_of(tracee.0) {
        return Err(Forbidden::Traced { by });
    }
    let (heard, said) = UnixStream::pair().map_err(refused(TracerCall::Socketpair))?;
    let log = Log(&said);
    let tracer =
        Probe::fork(|| c_int::from(attempt(tracee.0, &log).is_err())).map_err(refused(TracerCall::Fork))?;
    tracer.wait();
    outcome(&read_log(heard).map_err(refused(TracerCall::Read))?)
}

/// The tracer of a process; `None` also where the kernel does not report it.
///
/// # Source
///
/// `proc_pid_status(5)`, `TracerPid`.
pub fn tracer_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|tracer| *tracer != 0)
}

fn refused(call: TracerCall) -> impl Fn(io::Error) -> Forbidden {
    move |error| Forbidden::Call { call, errno: error.raw_os_error().unwrap_or(libc::EPERM) }
}

/// The last entry of a log without refusals.
const DONE: u8 = u8::MAX;

/// The tracer's log over a socket. It contains the number of each call and 0 before the call, and the number
/// and the error after a call that failed. If a sandbox killed the tracer, its log ends with the call that
/// caused it.
struct Log<'a>(&'a UnixStream);

impl Log<'_> {
    fn call<T>(&self, call: TracerCall, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.note(call as u8, 0);
        make().inspect_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EPERM);
            self.note(call as u8, u8::try_from(errno).unwrap_or(libc::EPERM as u8));
        })
    }

    fn note(&self, number: u8, errno: u8) {
        let entry = [number, errno];
        // SAFETY: sends two bytes of ours.
        unsafe { libc::send(self.0.as_raw_fd(), entry.as_ptr().cast(), entry.len(), libc::MSG_NOSIGNAL) };
    }
}

/// Reads the log of a tracer that has ended, without waiting: other forks of this program may still hold its
/// end of the socket.
fn read_log(mut socket: UnixStream) -> io::Result<Vec<u8>> {
    socket.set_nonblocking(true)?;
    let mut bytes = Vec::new();
    match socket.read_to_end(&mut bytes) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(bytes),
    }
}

/// The outcome, by the last entry of a log.
fn outcome(log: &[u8]) -> Result<(), Forbidden> {
    let last = log.as_chunks::<2>().0.last().copied();
    if let Some([DONE, _]) = last {
        return Ok(());
    }
    let failed = last.and_then(|[number, errno]| Some((*TracerCall::ALL.get(usize::from(number))?, errno)));
    let (call, errno) = failed.unwrap_or((TracerCall::Fork, 0));
    // Some sandboxes kill the process instead of returning an error.
    let errno = if errno == 0 { libc::EPERM } else { errno.into() };
    Err(Forbidden::Call { call, errno })
}

/// Makes the calls of the software PMU: those about a tracee, then those of memory files. Allocates no
/// memory.
fn attempt(tid: u32, log: &Log<'_>) -> io::Result<()> {
    let births = Options::FORK | Options::VFORK | Options::VFORK_DONE | Options::CLONE;
    log.call(TracerCall::Ptrace, || {
        super::seize(tid, births | Options::EXEC | Options::EXIT | Options::EXIT_KILL)
    })?;
    log.call(TracerCall::Ptrace, || super::interrupt(tid))?;
    log.call(TracerCall::Wait4, || super::wait_for(tid))?;
    let registers = log.call(TracerCall::Ptrace, || super::registers(tid))?;
    log.call(TracerCall::Ptrace, || super::set_registers(tid, &registers))?;
    let mask = log.call(TracerCall::Ptrace, || super::signal_mask(tid))?;
    log.call(TracerCall::Ptrace, || super::set_signal_mask(tid, mask))?;
    let word = log.call(TracerCall::Ptrace, || super::peek(tid, registers.rsp))?;
    log.call(TracerCall::Ptrace, || super::poke(tid, registers.rsp, word))?;
    let mut bytes = [0; 8];
    log.call(TracerCall::ProcessVmReadv, || super::read_memory(tid, registers.rsp, &mut bytes))?;
    log.call(TracerCall::ProcessVmWritev, || super::write_memory(tid, registers.rsp, &bytes))?;
    log.call(TracerCall::Ptrace, || super::detach(tid, 0))?;
    make_memory(log)?;
    process::raise_private_memory();
    log.call(TracerCall::MapPrivate, map_private)?;
    log.note(DONE, 0);
    Ok(())
}

/// Creates memory that can be shared and whose size can be sealed, as large as the software PMU needs it. No
/// page of it is touched. Allocates no memory.
fn make_memory(log: &Log<'_>) -> io::Result<()> {
    // SAFETY: the name is a literal that ends in zero.
    let make = || unsafe { libc::memfd_create(c"cyclometer-probe".as_ptr(), libc::MFD_ALLOW_SEALING) };
    let file = log.call(TracerCall::MemfdCreate, || checked(make()))?;
    let limit = log.call(TracerCall::Prlimit, FileSizeLimit::current)?;
    let raise =
        if limit.rlim_max < MEMORY_FILE_BYTES { TracerCall::RaiseFileSize } else { TracerCall::Prlimit };
    let _raised = log.call(raise, || FileSizeLimit::allow(MEMORY_FILE_BYTES))?;
    let size = libc::off_t::try_from(MEMORY_FILE_BYTES).unwrap_or(libc::off_t::MAX);
    // SAFETY: takes numbers; the descriptor is ours.
    log.call(TracerCall::Ftruncate, || checked(unsafe { libc::ftruncate(file, size) }))?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: takes numbers; the descriptor is ours.
    log.call(TracerCall::Fcntl, || checked(unsafe { libc::fcntl(file, libc::F_ADD_SEALS, seals) }))?;
    Ok(())
}

/// Maps the private memory of a tracer; no page of it is touched. It stays mapped to the end of this process.
fn map_private() -> io::Result<()> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice changes no memory of ours.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), PRIVATE_BYTES as usize, protection, flags, -1, 0) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The result of a system call, or its error.
fn checked(returned: c_int) -> io::Result<c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Permits every process to trace this one, reports that and waits to be killed. Allocates no memory.
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
    /// `work` returns its exit status. It must not allocate, because another thread may have held locks at
    /// the fork.
    fn fork(work: impl FnOnce() -> c_int) -> io::Result<Probe> {
        let maker = std::process::id();
        // SAFETY: the child calls only functions that are safe after fork, allocates nothing and never
        // returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: takes a number.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, SIGKILL as c_ulong) };
                // SAFETY: takes nothing and cannot fail.
                let orphaned = unsafe { libc::getppid() }.unsigned_abs() != maker;
                // If the parent was killed before, no signal will arrive.
                process::leave(if orphaned { libc::ESRCH } else { work() })
            }
            pid => Ok(Probe(pid.unsigned_abs())),
        }
    }

    /// Waits for the end. A process that ignores `SIGCHLD` gets no exit statuses of its children, but waits
    /// nevertheless.
    fn wait(self) {
        let _ = process::reap(self.0, Reap::Block);
        std::mem::forget(self);
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = process::signal(self.0, SIGKILL);
        let _ = process::reap(self.0, Reap::Block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(log: &[u8], expected: Result<(), (&str, i32)>) {
        let outcome = outcome(log).map_err(|forbidden| match forbidden {
            Forbidden::Call { call, errno } => (call.name(), errno),
            other => panic!("{other}"),
        });
        assert_eq!(outcome, expected);
    }

    #[test]
    fn the_last_entry_of_a_log_names_the_call_that_failed() {
        check(&[0, 0, 4, 0, DONE, 0], Ok(()));
        check(&[0, 0, 2, 0, 2, libc::ENOSYS as u8], Err(("process_vm_readv", libc::ENOSYS)));
        check(&[0, 0, 4, 0], Err(("memfd_create", libc::EPERM)));
        check(&[0, 0, 4], Err(("ptrace", libc::EPERM)));
        check(&[], Err(("fork", libc::EPERM)));
        check(&[0, 0, DONE - 1, 0], Err(("fork", libc::EPERM)));
    }

    #[test]
    fn nobody_traces_this_test_but_a_debugger() {
        let traced = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
            status.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        });
        assert_eq!(tracer_of(std::process::id()).is_some(), traced);
        assert_eq!(tracer_of(0x7fff_fff0), None);
    }
}
