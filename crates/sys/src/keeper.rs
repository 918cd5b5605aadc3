//! A process that does a piece of work beside ours, and may outlive us.
//!
//! # Why a fork without exec is sound here
//!
//! After `fork(2)` only the calling thread exists in the new process. Locks that other threads held stay locked
//! there for ever; POSIX therefore allows only async-signal-safe functions. The C libraries of Linux (glibc, musl
//! since 1.2.2) do more: they take the locks of `malloc` around the fork, so that memory can be allocated and freed
//! in the new process. The work may therefore use everything that needs no lock but that one, and none of these:
//!
//! - `std::io::stdout` and what prints to it;
//! - the environment (`std::env::var` and what asks for it, time zones, for example);
//! - locks, channels and statics behind locks that other threads of the maker may have held.
//!
//! A panic of the work runs the program's hook; the standard one writes to `stderr`, whose lock is held during the
//! fork and is therefore free there.
//!
//! # Source
//!
//! `fork(2)`, `signal-safety(7)`; glibc `posix/fork.c` (`__malloc_fork_lock_parent`); musl `src/process/fork.c`.

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_int, c_long};

use crate::affinity::Affinity;
use crate::mask::{Masked, clear_mask};
use crate::process::{self, Reap, Status};

/// The name of a keeper's process, as long as one can be: 15 bytes.
pub const NAME: &str = match COMM.to_str() {
    Ok(name) => name,
    Err(_) => unreachable!(),
};

const COMM: &CStr = c"cyclometer-keep";

/// Our end of a keeper. Dropping it closes the socket, which is how the keeper learns that its maker has gone; it
/// is nobody's child of ours, and neither killed nor waited for.
#[derive(Debug)]
pub struct Keeper {
    socket: UnixStream,
    pid: u32,
}

impl Keeper {
    /// The socket to it.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Its process id; somebody else's when it has ended long ago.
    pub fn pid(&self) -> u32 {
        self.pid
    }
}

/// Forks a process that does `work` with its end of a stream socket, and then ends.
///
/// It is in a process group of its own and no child of ours (made by a fork of a fork: whoever adopts orphans reaps
/// it). It ignores the signals of terminals, of jobs and those to users (`SIGINT`, `SIGQUIT`, `SIGTERM`, `SIGHUP`,
/// `SIGTSTP`, `SIGTTIN`, `SIGTTOU`, `SIGPIPE`, `SIGUSR1`, `SIGUSR2`), and `SIGXFSZ`, so that a file that may not be as
/// long as it should is an error; it has the default for all others and blocks none. It has no descriptors but the socket, and `/dev/null` as 0, 1 and 2, so that nobody waits for its end of a
/// pipe; its working directory is the root, so that it keeps no file system busy. It is called [`NAME`].
///
/// What `work` may not use: see the [module](self). What it captures is copied by the fork, except descriptors:
/// those are closed there.
///
/// # Errors
///
/// The operating system's, when no socket or process can be made.
///
/// # Source
///
/// `fork(2)`, `setpgid(2)`, `close_range(2)`, `prctl(2)`: `PR_SET_NAME`.
pub fn fork(work: impl FnOnce(UnixStream)) -> io::Result<Keeper> {
    let (ours, theirs) = UnixStream::pair()?;
    let masked = Masked::all();
    let stderr = io::stderr().lock();
    // SAFETY: the child makes another fork and ends; that one's limits are in the module's documentation.
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

/// Lets the calling thread run on one CPU only; not at all changed where that one is not allowed.
///
/// A tracer that runs where its tracee does is there at once when it stops: no other CPU is to be woken up.
///
/// # Source
///
/// `sched_setaffinity(2)`.
pub fn run_on(cpu: u32) {
    let _ = Affinity::only(cpu).give(0);
}

/// Has memory that was allocated since the last time be in large pages, where there are any. For a keeper, which may call it as
/// often as it likes.
pub fn enlarge_memory() {
    crate::memory::enlarge();
}

/// Waits until the keeper says its id.
fn introduced(mut socket: UnixStream) -> io::Result<Keeper> {
    let mut pid = [0; 4];
    socket.read_exact(&mut pid).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(e.kind(), "it ended, or was killed, before it began"),
        _ => e,
    })?;
    Ok(Keeper { socket, pid: u32::from_ne_bytes(pid) })
}

/// Makes the keeper and ends, so that the keeper has no parent any more; the status is an error number.
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

/// Cuts the ties to the maker, and tells it the id.
fn settle(socket: UnixStream) -> io::Result<UnixStream> {
    // SAFETY: takes numbers; a new process can always lead a group of its own.
    unsafe { libc::setpgid(0, 0) };
    // SAFETY: reads a C string of 15 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, COMM.as_ptr()) };
    take_default_signals();
    clear_mask();
    crate::memory::keep();
    // SAFETY: reads a literal C string. Where it fails, the folder stays.
    unsafe { libc::chdir(c"/".as_ptr()) };
    let mut socket = alone(socket)?;
    socket.write_all(&std::process::id().to_ne_bytes())?;
    Ok(socket)
}

/// The maker's handlers must not act here either.
fn take_default_signals() {
    for signal in process::all_signals() {
        let ignored = DEAF_TO.contains(&signal);
        process::set_disposition(signal, if ignored { libc::SIG_IGN } else { libc::SIG_DFL });
    }
}

/// What must not end or stop a keeper.
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

/// Where the socket comes to lie.
const SOCKET: RawFd = 3;

/// Closes every descriptor but the socket, and puts `/dev/null` in place of the standard ones.
///
/// Their owners in this process are copies of the maker's, which nobody drops: [`keep`] never returns.
fn alone(socket: UnixStream) -> io::Result<UnixStream> {
    let low = OwnedFd::from(socket);
    // SAFETY: replaces descriptor 3, whose owner, if it has one, is never used again.
    if low.as_raw_fd() != SOCKET && unsafe { libc::dup3(low.as_raw_fd(), SOCKET, libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    std::mem::forget(low);
    close_from(SOCKET + 1);
    silence();
    // SAFETY: just made, and nobody else's here.
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

/// The same before Linux 5.9, and where a sandbox does not know the call.
fn close_each_from(first: RawFd) {
    for fd in open_descriptors().filter(|fd| *fd >= first) {
        // SAFETY: as in `close_from`; the folder that was read is closed already, or was never open.
        unsafe { libc::close(fd) };
    }
}

/// As `/proc` has it; without it, every number that a descriptor may have.
fn open_descriptors() -> Box<dyn Iterator<Item = RawFd>> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Box::new(0..open_files_limit());
    };
    let names = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Box::new(names.collect::<Vec<_>>().into_iter())
}

/// One above the highest descriptor that there may be, unless the limit was lowered meanwhile.
fn open_files_limit() -> RawFd {
    let limit = process::open_files().map_or(1024, |limit| limit.rlim_cur);
    RawFd::try_from(limit).unwrap_or(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a keeper says before it ends.
    fn said(work: impl FnOnce(UnixStream)) -> Vec<u8> {
        let keeper = fork(work).unwrap();
        let mut said = Vec::new();
        keeper.socket().set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        keeper.socket().read_to_end(&mut said).unwrap();
        said
    }

    #[test]
    fn a_keeper_that_ends_before_it_begins_is_told_as_that() {
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
