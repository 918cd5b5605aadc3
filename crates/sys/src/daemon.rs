//! A daemon: a forked process that works beside ours, and may outlive it.
//!
//! # Why a fork without exec is sound here
//!
//! After `fork(2)` only the calling thread exists in the new process. Locks that other threads held stay
//! locked there for ever; POSIX therefore allows only async-signal-safe functions. The C libraries of Linux
//! (glibc, musl since 1.2.2) do more: they take the locks of `malloc` around the fork. Memory can therefore
//! be allocated and freed in the new process. The work may use all functions that need no lock but that one.
//! It may not use:
//!
//! - `std::io::stdout` and functions that print to it;
//! - the environment (`std::env::var` and functions that read it, such as those for time zones);
//! - locks, channels and statics behind locks that other threads of the maker may have held.
//!
//! A panic of the work runs the program's hook. The standard hook writes to `stderr`, whose lock is held
//! during the fork and is therefore free in the new process.
//!
//! # Source
//!
//! `fork(2)`, `signal-safety(7)`; glibc `posix/fork.c` (`__malloc_fork_lock_parent`); musl
//! `src/process/fork.c`.

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, c_long};

use crate::affinity::Affinity;
use crate::mask::{Masked, clear_mask};
use crate::process::{self, Reap, Status};

/// The name of the daemon's process, with the maximum length of 15 bytes.
pub const NAME: &str = match COMM.to_str() {
    Ok(name) => name,
    Err(_) => unreachable!(),
};

const COMM: &CStr = c"cyclometer-keep";

/// Our end of a daemon. Dropping it closes the socket, which tells the daemon that its maker has gone. The
/// daemon is not our child, and is neither killed nor waited for.
#[derive(Debug)]
pub struct Daemon {
    socket: UnixStream,
    pid: u32,
}

impl Daemon {
    /// The socket to the daemon.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// The daemon's process id; another process may have it if the daemon ended long ago.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// Forks a process that runs `work` with its end of a stream socket, and then ends.
///
/// The process has a process group of its own. It is not our child, because it is forked by a forked process;
/// the process that adopts orphans reaps it.
///
/// It ignores the signals of terminals, of jobs and those to users (`SIGINT`, `SIGQUIT`, `SIGTERM`, `SIGHUP`,
/// `SIGTSTP`, `SIGTTIN`, `SIGTTOU`, `SIGPIPE`, `SIGUSR1`, `SIGUSR2`). It also ignores `SIGXFSZ`, so that
/// exceeding a limit on the size of files is an error. All other signals have their default disposition, and
/// none is blocked.
///
/// Its only descriptors are the socket, and `/dev/null` as 0, 1 and 2, so that it keeps no pipe open. Its
/// working directory is the root, so that it keeps no file system busy. Its name is [`NAME`].
///
/// The [module](self) lists functions that `work` may not use. The fork copies what `work` captures, except
/// descriptors: those are closed in the new process.
///
/// # Errors
///
/// The operating system's, when no socket or process can be created.
///
/// # Source
///
/// `fork(2)`, `setpgid(2)`, `close_range(2)`, `prctl(2)`: `PR_SET_NAME`.
pub fn fork(work: impl FnOnce(UnixStream)) -> io::Result<Daemon> {
    let (ours, theirs) = UnixStream::pair()?;
    let masked = Masked::all();
    let stderr = io::stderr().lock();
    // SAFETY: the child makes another fork and ends; the limits of that process are in the module's
    // documentation.
    let between = match unsafe { libc::fork() } {
        -1 => return Err(io::Error::last_os_error()),
        0 => fork_again(theirs, work),
        pid => pid.unsigned_abs(),
    };
    drop((stderr, masked, theirs));
    let status = process::reap(between, Reap::Block);
    introduced(ours).map_err(|e| match status {
        Ok(Some(process::Ended { status: Status::Code(errno), .. })) if errno != 0 => {
            io::Error::from_raw_os_error(errno)
        }
        _ => e,
    })
}

/// Restricts the calling thread to one CPU; has no effect where that CPU is not allowed.
///
/// A tracer on the CPU of its tracee runs as soon as the tracee stops, because no other CPU has to be woken
/// up.
///
/// # Source
///
/// `sched_setaffinity(2)`.
pub fn run_on(cpu: u32) {
    let _ = Affinity::only(cpu).give(0);
}

/// Requests large pages for memory that was allocated since the last call, where they exist. It is for
/// daemons, which may call it often.
pub fn enlarge_memory() {
    crate::memory::enlarge();
}

/// Waits until the daemon reports its id.
fn introduced(mut socket: UnixStream) -> io::Result<Daemon> {
    let mut pid = [0; 4];
    socket.read_exact(&mut pid).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "it ended, or was killed, before it began"),
        _ => e,
    })?;
    Ok(Daemon { socket, pid: u32::from_ne_bytes(pid) })
}

/// Forks the daemon and ends, so that the daemon has no parent any more; the status is an error number.
fn fork_again(socket: UnixStream, work: impl FnOnce(UnixStream)) -> ! {
    // SAFETY: as in `fork`; there is only one thread here.
    match unsafe { libc::fork() } {
        -1 => process::leave(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN)),
        0 => keep(socket, work),
        _ => process::leave(0),
    }
}

fn keep(socket: UnixStream, work: impl FnOnce(UnixStream)) -> ! {
    let done = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(socket) = settle(socket) {
            work(socket);
        }
    }));
    process::leave(i32::from(done.is_err()))
}

/// Separates the daemon from its maker, and reports the id.
fn settle(socket: UnixStream) -> io::Result<UnixStream> {
    // SAFETY: takes numbers; a new process can always lead a group of its own.
    unsafe { libc::setpgid(0, 0) };
    // SAFETY: reads a C string of 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, COMM.as_ptr()) };
    take_default_signals();
    clear_mask();
    crate::memory::keep();
    // SAFETY: reads a literal C string. If the call fails, the folder remains.
    unsafe { libc::chdir(c"/".as_ptr()) };
    let mut socket = alone(socket)?;
    socket.write_all(&std::process::id().to_ne_bytes())?;
    Ok(socket)
}

/// Resets dispositions, because the maker's handlers must not run in the daemon.
fn take_default_signals() {
    for signal in process::all_signals() {
        let ignored = DEAF_TO.contains(&signal);
        process::set_disposition(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
}

/// Signals that must not end or stop a daemon.
const DEAF_TO: [c_int; 11] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGPIPE,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGXFSZ,
];

/// The descriptor number of the socket.
const SOCKET: RawFd = 3;

/// Closes every descriptor but the socket, and replaces the standard ones by `/dev/null`.
///
/// Their owners in this process are copies of the maker's, which are never dropped: [`keep`] never returns.
fn alone(socket: UnixStream) -> io::Result<UnixStream> {
    let low = OwnedFd::from(socket);
    // SAFETY: replaces descriptor 3, whose owner, if it has one, is never used again.
    if low.as_raw_fd() != SOCKET && unsafe { libc::dup3(low.as_raw_fd(), SOCKET, libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    std::mem::forget(low);
    close_from(SOCKET + 1);
    silence();
    // SAFETY: just made, and owned by nothing else in this process.
    Ok(unsafe { UnixStream::from_raw_fd(SOCKET) })
}

fn silence() {
    for stream in 0..SOCKET {
        // SAFETY: their owners, if any, are never used again.
        unsafe { libc::close(stream) };
    }
    for _ in 0..SOCKET {
        // SAFETY: reads a literal C string; takes the lowest free descriptor, of 0 to 2.
        unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    }
}

/// Closes all descriptors from `first` on.
fn close_from(first: RawFd) {
    // SAFETY: the owners of these descriptors are never used again.
    let closed = unsafe {
        libc::syscall(libc::SYS_close_range, c_long::from(first), c_long::from(u32::MAX), c_long::from(0))
    };
    if closed < 0 {
        close_each_from(first);
    }
}

/// The same before Linux 5.9, and in sandboxes without the call.
fn close_each_from(first: RawFd) {
    for fd in open_descriptors().filter(|fd| *fd >= first) {
        // SAFETY: as in `close_from`; the folder that was read is closed already, or was never open.
        unsafe { libc::close(fd) };
    }
}

/// The list in `/proc`; without it, every number that a descriptor may have.
fn open_descriptors() -> Box<dyn Iterator<Item = RawFd>> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Box::new(0..open_files_limit());
    };
    let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Box::new(names.collect::<Vec<_>>().into_iter())
}

/// One above the highest possible descriptor, unless the limit was lowered meanwhile.
fn open_files_limit() -> RawFd {
    let limit = process::open_files().map_or(1024, |limit| limit.rlim_cur);
    RawFd::try_from(limit).unwrap_or(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data that a daemon sends before it ends.
    fn said(work: impl FnOnce(UnixStream)) -> Vec<u8> {
        let daemon = fork(work).unwrap();
        let mut said = Vec::new();
        daemon.socket().set_read_timeout(Some(std::time::Duration::from_secs(300))).unwrap();
        daemon.socket().read_to_end(&mut said).unwrap();
        said
    }

    #[test]
    fn a_daemon_that_ends_before_it_begins_is_told_as_that() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = introduced(ours).err().unwrap();
        assert_eq!(error.to_string(), "it ended, or was killed, before it began");
    }

    #[test]
    fn the_way_without_close_range_closes_the_same() {
        let keep = std::fs::File::open("/dev/null").unwrap();
        let said = said(|mut socket| {
            // SAFETY: makes descriptors that nobody owns.
            let far = unsafe { libc::fcntl(0, libc::F_DUPFD, 700) };
            close_each_from(SOCKET + 1);
            // SAFETY: only asks for flags.
            let gone = unsafe { libc::fcntl(far, libc::F_GETFD) } < 0;
            socket.write_all(&[u8::from(far == 700), u8::from(gone)]).unwrap();
        });
        assert_eq!(said, [1, 1]);
        drop(keep);
    }

    #[test]
    fn without_proc_every_number_is_tried() {
        assert!(open_files_limit() >= 64);
    }
}
