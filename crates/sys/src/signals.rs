//! Signals to this process: a watch that turns them into a descriptor to poll.

use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use libc::c_int;

#[cfg(target_os = "linux")]
use libc::__errno_location as errno_location;
#[cfg(not(target_os = "linux"))]
use libc::__error as errno_location;

/// The signals that a [`Watch`] catches.
const WATCHED: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// The descriptor to which the handler writes; -1 without a watch.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Number of handlers that are running.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Catches SIGINT, SIGQUIT, SIGTERM and SIGHUP for its lifetime.
///
/// A signal that was ignored stays ignored (`nohup`, background jobs). Only one watch can exist at a time.
#[derive(Debug)]
pub struct Watch {
    pipe: UnixStream,
    writer: Option<UnixStream>,
    former: FormerActions,
}

struct FormerActions([Option<libc::sigaction>; WATCHED.len()]);

impl std::fmt::Debug for FormerActions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("former dispositions")
    }
}

impl Watch {
    /// Begins to catch the signals.
    ///
    /// # Errors
    ///
    /// `ResourceBusy` when a watch exists already; the operating system's.
    pub fn install() -> io::Result<Watch> {
        let (pipe, writer) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let free = PIPE.compare_exchange(-1, writer.as_raw_fd(), Ordering::SeqCst, Ordering::SeqCst);
        free.map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
        let mut watch = Watch { pipe, writer: Some(writer), former: FormerActions([None; WATCHED.len()]) };
        for (signal, former) in WATCHED.into_iter().zip(&mut watch.former.0) {
            *former = catch(signal)?;
        }
        Ok(watch)
    }

    /// The number of the next signal that arrived, if any.
    pub fn take(&self) -> Option<i32> {
        let mut byte = [0];
        match (&self.pipe).read(&mut byte) {
            Ok(1) => Some(i32::from(byte[0])),
            _ => None,
        }
    }
}

/// Readable when a signal has arrived.
impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for (signal, former) in WATCHED.into_iter().zip(&self.former.0) {
            if let Some(former) = former {
                // SAFETY: a disposition that was in force before; a null old one is allowed.
                unsafe { libc::sigaction(signal, former, std::ptr::null_mut()) };
            }
        }
        PIPE.store(-1, Ordering::SeqCst);
        // A handler on another thread may have read the descriptor already.
        while RUNNING.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        drop(self.writer.take());
    }
}

/// Ignores SIGXFSZ for its lifetime. A write beyond the limit on the size of files then fails with `EFBIG`
/// and does not end the process.
///
/// Programs that are started meanwhile inherit this disposition.
///
/// # Source
///
/// `setrlimit(2)`, `RLIMIT_FSIZE`; `signal(7)`.
#[derive(Debug)]
pub struct FileSizeSignalIgnored {
    former: libc::sighandler_t,
}

impl FileSizeSignalIgnored {
    /// Begins to ignore the signal.
    ///
    /// # Errors
    ///
    /// The operating system's.
    pub fn new() -> io::Result<FileSizeSignalIgnored> {
        // SAFETY: sets a disposition that runs no code of ours.
        match unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } {
            libc::SIG_ERR => Err(io::Error::last_os_error()),
            former => Ok(FileSizeSignalIgnored { former }),
        }
    }
}

impl Drop for FileSizeSignalIgnored {
    fn drop(&mut self) {
        // SAFETY: a disposition that was in force before.
        unsafe { libc::signal(libc::SIGXFSZ, self.former) };
    }
}

/// Installs the handler; returns the former disposition, or `None` when the signal stays ignored.
fn catch(signal: c_int) -> io::Result<Option<libc::sigaction>> {
    let former = disposition(signal)?;
    if former.sa_sigaction == libc::SIG_IGN {
        return Ok(None);
    }
    // SAFETY: all zero is a valid sigaction: default, empty mask, no flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(c_int) = on_signal;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler has the signature of a plain handler, and does only what `signal-safety(7)` allows.
    match unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } {
        0 => Ok(Some(former)),
        _ => Err(io::Error::last_os_error()),
    }
}

fn disposition(signal: c_int) -> io::Result<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; the old one is written to `action`.
    if unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the struct.
    Ok(unsafe { action.assume_init() })
}

extern "C" fn on_signal(signal: c_int) {
    RUNNING.fetch_add(1, Ordering::SeqCst);
    let pipe = PIPE.load(Ordering::SeqCst);
    if pipe >= 0 {
        let number = signal as u8;
        // SAFETY: takes nothing and cannot fail.
        let errno = unsafe { errno_location() };
        // SAFETY: points to the error number of this thread, which the interrupted code may yet read.
        let former = unsafe { errno.read() };
        // SAFETY: reads one byte; the descriptor is open until no handler runs. A full or closed pipe loses
        // the byte, of which more are there already.
        unsafe { libc::send(pipe, (&raw const number).cast(), 1, 0) };
        // SAFETY: as above.
        unsafe { errno.write(former) };
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{poll_readable, signal};
    use std::time::{Duration, Instant};

    // A single test, because a watch belongs to the whole process.
    #[test]
    fn a_watch_catches_signals_and_restores_what_was_there() {
        // Under `nohup` the signal is ignored, and a signal that is ignored stays ignored.
        let found = disposition(libc::SIGHUP).unwrap();
        crate::process::set_disposition(libc::SIGHUP, libc::SIG_DFL);
        let before = disposition(libc::SIGHUP).unwrap().sa_sigaction;
        let watch = Watch::install().unwrap();
        assert_eq!(Watch::install().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(watch.take(), None);
        signal(std::process::id(), libc::SIGHUP).unwrap();
        let soon = Instant::now() + Duration::from_secs(300);
        assert_eq!(poll_readable(&[watch.as_fd()], Some(soon)).unwrap(), Some(0));
        assert_eq!(watch.take(), Some(libc::SIGHUP));
        assert_eq!(watch.take(), None);
        a_full_pipe_leaves_the_error_number_alone(&watch);
        drop(watch);
        assert_eq!(disposition(libc::SIGHUP).unwrap().sa_sigaction, before);
        assert_eq!(PIPE.load(Ordering::SeqCst), -1);
        // SAFETY: a disposition that was in force before; a null old one is allowed.
        unsafe { libc::sigaction(libc::SIGHUP, &found, std::ptr::null_mut()) };
    }

    fn a_full_pipe_leaves_the_error_number_alone(watch: &Watch) {
        // SAFETY: takes nothing and cannot fail.
        let errno = unsafe { errno_location() };
        for _ in 0..100_000 {
            // SAFETY: the error number of this thread.
            unsafe { errno.write(libc::EDOM) };
            on_signal(libc::SIGHUP);
            // SAFETY: as above.
            assert_eq!(unsafe { errno.read() }, libc::EDOM);
        }
        while watch.take().is_some() {}
    }
}
