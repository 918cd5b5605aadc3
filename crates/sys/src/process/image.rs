//! What runs between fork and exec. Nothing here allocates: other threads may have held locks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::{c_char, c_int};

use super::origin::Origin;

/// A command in the form that the kernel takes.
///
/// Both are arrays of C strings that end with a null pointer and live as long as the process.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) candidates: *const *const c_char,
    pub(super) argv: *const *const c_char,
}

/// The descriptors of a new process, all above 2.
#[derive(Clone, Copy)]
pub(super) struct Descriptors {
    /// What becomes 0, 1 and 2; -1 leaves it as it is.
    pub(super) streams: [RawFd; 3],
    /// One byte comes in: go. An error number goes out: the command could not be executed.
    pub(super) gate: RawFd,
}

/// Waits for the byte and becomes the command; `signals` are those whose disposition was changed.
pub(super) fn become_command(
    image: Image,
    descriptors: Descriptors,
    origin: &Origin,
    signals: impl Iterator<Item = c_int>,
) -> ! {
    origin.restore_signals(signals);
    origin.restore_mask_and_limit();
    let errno = match connect(descriptors.streams) {
        Ok(()) if !wait_for_go(descriptors.gate) => leave(0),
        Ok(()) => execute(image),
        Err(errno) => errno,
    };
    report(descriptors.gate, errno);
    leave(127)
}

/// Ends the process at once, without handlers or flushing.
pub(super) fn leave(status: c_int) -> ! {
    // SAFETY: ends the process; runs no handler and flushes nothing.
    unsafe { libc::_exit(status) }
}

/// The error number of the last call. Allocates nothing.
pub(super) fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// A copy of `fd` above 2, closed at exec; `fd` itself if it is there already.
pub(super) fn above_standard(fd: RawFd) -> Result<RawFd, c_int> {
    if !(0..=2).contains(&fd) {
        return Ok(fd);
    }
    // SAFETY: makes a new descriptor and touches no memory.
    match unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(last_errno()),
        copy => Ok(copy),
    }
}

fn connect(streams: [RawFd; 3]) -> Result<(), c_int> {
    for (target, source) in (0..).zip(streams) {
        // SAFETY: replaces a standard descriptor by a copy, which stays open at exec.
        if source >= 0 && unsafe { libc::dup2(source, target) } < 0 {
            return Err(last_errno());
        }
    }
    Ok(())
}

fn wait_for_go(gate: RawFd) -> bool {
    let mut byte = 0u8;
    loop {
        // SAFETY: writes at most one byte to `byte`.
        match unsafe { libc::read(gate, (&raw mut byte).cast(), 1) } {
            1 => return true,
            -1 if last_errno() == libc::EINTR => {}
            _ => return false,
        }
    }
}

/// Tries the candidates in order, as `execvp(3)` does; gives the error number that says most.
fn execute(image: Image) -> c_int {
    let (mut denied, mut last, mut tried) = (false, libc::ENOENT, 0usize);
    loop {
        // SAFETY: `tried` has not passed the null pointer that ends the array.
        let candidate = unsafe { image.candidates.add(tried) };
        // SAFETY: the array's elements up to its null pointer are readable.
        let path = unsafe { *candidate };
        if path.is_null() {
            break;
        }
        // SAFETY: `path` and the elements of `argv` are C strings; `argv` ends with a null pointer.
        unsafe { libc::execv(path, image.argv) };
        last = last_errno();
        tried += 1;
        match last {
            libc::EACCES => denied = true,
            libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
            _ => return last,
        }
    }
    match (denied, tried) {
        (true, _) => libc::EACCES,
        (false, 1) => last,
        (false, _) => libc::ENOENT,
    }
}

fn report(gate: RawFd, errno: c_int) {
    // SAFETY: reads the four bytes of `errno`.
    unsafe { libc::write(gate, (&raw const errno).cast(), size_of::<c_int>()) };
}

/// Reads what [`become_command`] reported; `None` when the gate closed at exec or at the process's end.
pub(super) fn read_failure(gate: &OwnedFd) -> io::Result<Option<c_int>> {
    let mut errno: c_int = 0;
    loop {
        // SAFETY: writes at most the four bytes of `errno`.
        let got = unsafe { libc::read(gate.as_raw_fd(), (&raw mut errno).cast(), size_of::<c_int>()) };
        match usize::try_from(got) {
            Ok(4) => return Ok(Some(errno)),
            Ok(_) => return Ok(None),
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                // It was killed before it took the byte.
                e if e.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                e => return Err(e),
            },
        }
    }
}
