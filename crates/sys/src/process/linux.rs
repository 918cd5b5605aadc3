//! Functions of Linux that other systems lack: pidfds, `ppoll`, quiet sends, limits of other processes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use libc::c_long;

use crate::process_list::ProcessList;

/// `ru_maxrss` is in kilobytes. Source: `getrusage(2)`.
pub(super) const MAXRSS_UNIT_BYTES: u64 = 1024;

/// Flags of a send that must not raise `SIGPIPE`.
pub(super) const QUIET: libc::c_int = libc::MSG_NOSIGNAL;

/// The argument of `getrusage(2)` for the calling thread.
pub(super) const RUSAGE_OF_THREAD: Option<libc::c_int> = Some(libc::RUSAGE_THREAD);

/// `PIDFD_THREAD`, since Linux 6.9. Source: `include/uapi/linux/pidfd.h`.
const PIDFD_THREAD: c_long = libc::O_EXCL as c_long;

/// A descriptor that becomes readable when a process or thread ends.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// A descriptor of a process.
    ///
    /// # Errors
    ///
    /// The operating system's: `ESRCH`; `ENOSYS` before Linux 5.3, `EPERM` in some sandboxes.
    ///
    /// # Source
    ///
    /// `pidfd_open(2)`.
    pub fn process(pid: u32) -> io::Result<PidFd> {
        PidFd::open(pid, 0)
    }

    /// A descriptor of a thread.
    ///
    /// # Errors
    ///
    /// As [`PidFd::process`], and `EINVAL` before Linux 6.9.
    pub fn thread(tid: u32) -> io::Result<PidFd> {
        PidFd::open(tid, PIDFD_THREAD)
    }

    fn open(pid: u32, flags: c_long) -> io::Result<PidFd> {
        let pid = c_long::from(super::pid::to_pid(pid)?);
        // SAFETY: makes a descriptor and touches no memory of ours.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) };
        let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made `fd` for us alone.
        Ok(PidFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of at most four descriptors is readable, and returns its index; the first one wins. `None`
/// when the time is reached first.
///
/// # Errors
///
/// The operating system's. Handled signals do not end the wait.
pub fn poll_readable(fds: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Option<usize>> {
    let mut slots = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 4];
    for (slot, fd) in slots.iter_mut().zip(fds) {
        slot.fd = fd.as_raw_fd();
    }
    loop {
        let left = until.map(time_left);
        let timeout = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: reads and writes the four slots; the timeout is null or valid; no mask is set.
        match unsafe { libc::ppoll(slots.as_mut_ptr(), 4, timeout, std::ptr::null()) } {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            _ => return Ok(slots.iter().position(|slot| slot.revents != 0)),
        }
    }
}

/// The time that remains until a moment; zero when it has passed.
pub(crate) fn time_left(until: Instant) -> libc::timespec {
    let left = until.saturating_duration_since(Instant::now());
    // SAFETY: all zero is a valid timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    time.tv_sec = left.as_secs().try_into().unwrap_or(i32::MAX.into());
    time.tv_nsec = left.subsec_nanos().into();
    time
}

/// Sends without raising `SIGPIPE`; all of `bytes`, or an error.
pub(super) fn send_quietly(socket: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: reads `bytes`.
        let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), QUIET) };
        match usize::try_from(sent) {
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(())
}

/// Does nothing, because each send has the flag.
pub(super) fn never_raise_sigpipe(_socket: &UnixStream) -> io::Result<()> {
    Ok(())
}

/// Has the calling process killed when the thread that started it ends. Allocates no memory.
///
/// # Source
///
/// `prctl(2)`, `PR_SET_PDEATHSIG`.
pub(super) fn end_with_parent() -> io::Result<()> {
    // SAFETY: takes a number.
    match unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets every process of the same user trace this one. Fails silently where no rule requires it. Allocates no
/// memory.
///
/// # Source
///
/// `prctl(2)`, `PR_SET_PTRACER`; `Documentation/admin-guide/LSM/Yama.rst`.
pub(crate) fn allow_any_tracer() {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY) };
}

/// Undoes [`allow_any_tracer`]; a tracer that is already attached continues. Allocates no memory.
pub(super) fn allow_no_tracer() {
    let nobody: libc::c_ulong = 0;
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, nobody) };
}

/// Makes this process the parent of every orphan among its descendants until it ends. Otherwise init would
/// adopt them.
///
/// The process then has to reap all processes that its commands leave behind.
///
/// # Errors
///
/// The operating system's; none is known since Linux 3.4.
///
/// # Source
///
/// `prctl(2)`, `PR_SET_CHILD_SUBREAPER`.
pub fn adopt_orphans() -> io::Result<()> {
    let yes: libc::c_ulong = 1;
    // SAFETY: takes numbers.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, yes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Asks the personality without changing it. Source: `personality(2)`.
const ONLY_ASK: libc::c_ulong = 0xffff_ffff;

/// Disables address space randomisation for programs that this process executes, and for their children.
/// Returns whether the kernel agreed. Allocates no memory.
///
/// # Source
///
/// `personality(2)`, `ADDR_NO_RANDOMIZE`.
pub(super) fn fix_layout() -> bool {
    // SAFETY: takes a number.
    let Ok(current) = u32::try_from(unsafe { libc::personality(ONLY_ASK) }) else { return false };
    let wanted = libc::c_ulong::from(current | libc::ADDR_NO_RANDOMIZE.unsigned_abs());
    // SAFETY: takes a number.
    unsafe { libc::personality(wanted) >= 0 }
}

/// The limits of another process on mapped addresses, in bytes: soft and hard; `u64::MAX` for none.
///
/// # Errors
///
/// The operating system's, where this process has no permission.
///
/// # Source
///
/// `prlimit(2)`, `RLIMIT_AS`.
pub fn address_limits(pid: u32) -> io::Result<[u64; 2]> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: reads no new limit and writes one rlimit.
    let done =
        unsafe { libc::prlimit(pid.cast_signed(), libc::RLIMIT_AS, std::ptr::null(), limit.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the limit.
    let limit = unsafe { limit.assume_init() };
    Ok([limit.rlim_cur, limit.rlim_max])
}

/// Checks that `/proc/PID` is the process that has this id for the current process.
///
/// # Errors
///
/// `InvalidData` where `/proc` is not mounted or belongs to another PID namespace: its entries are unrelated
/// processes.
pub fn check_process_list() -> io::Result<()> {
    let status = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => Some(status),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let list = ProcessList::of(status.as_deref(), || std::path::Path::new("/proc/meminfo").exists());
    match list.obstacle() {
        None => Ok(()),
        Some(obstacle) => Err(io::Error::new(io::ErrorKind::InvalidData, obstacle)),
    }
}

/// How often the kernel samples what a CPU does, in times a second, if it says so.
///
/// # Source
///
/// `clock_getres(2)`: the coarse clocks advance once a tick; Linux `kernel/time/posix-timers.c`,
/// `posix_get_coarse_res`.
pub fn kernel_ticks_per_second() -> Option<u64> {
    let mut tick = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: writes one timespec.
    if unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, tick.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded and wrote the struct.
    let tick = unsafe { tick.assume_init() };
    let tick_ns = u64::try_from(tick.tv_nsec).ok().filter(|_| tick.tv_sec == 0)?;
    1_000_000_000u64.checked_div(tick_ns).filter(|ticks| *ticks > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_kernel_ticks_between_24_and_1200_times_a_second() {
        // Linux kernel/Kconfig.hz, and 24 and 1200 of Alpha and MIPS.
        let ticks = kernel_ticks_per_second();
        assert!(ticks.is_some_and(|ticks| (24..=1200).contains(&ticks)), "{ticks:?}");
    }

    #[test]
    fn a_poll_ends_at_its_time() {
        let (a, _b) = UnixStream::pair().unwrap();
        let started = Instant::now();
        let until = started + Duration::from_millis(20);
        assert_eq!(poll_readable(&[a.as_fd()], Some(until)).unwrap(), None);
        assert!(started.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn the_first_readable_descriptor_wins() {
        let (a, b) = UnixStream::pair().unwrap();
        let (idle, _keep) = UnixStream::pair().unwrap();
        send_quietly(&b.into(), b"x").unwrap();
        assert_eq!(poll_readable(&[idle.as_fd(), a.as_fd()], None).unwrap(), Some(1));
        assert_eq!(poll_readable(&[a.as_fd(), a.as_fd()], None).unwrap(), Some(0));
    }

    #[test]
    fn a_pidfd_of_nobody_is_refused() {
        for pid in [0, 0x7fff_fff0] {
            let errno = PidFd::process(pid).unwrap_err().raw_os_error();
            assert!(matches!(errno, Some(libc::ESRCH | libc::ENOSYS)), "{errno:?}");
        }
    }
}
