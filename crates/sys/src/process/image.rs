//! The code between fork and exec. It allocates no memory, because other threads may have held locks.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::{c_char, c_int};

use super::Traced;
use super::accounting::ResourceUsage;
use super::origin::Origin;

/// A command in the form that the kernel takes.
///
/// All fields are arrays of C strings that end with a null pointer and live as long as the process.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub(super) candidates: *const *const c_char,
    pub(super) argv: *const *const c_char,
    /// The environment; null for the inherited one.
    pub(super) environment: *const *const c_char,
}

/// The surroundings of a new process; all descriptors are above 2.
#[derive(Clone, Copy)]
pub(super) struct Surroundings {
    /// The descriptors that become 0, 1 and 2; -1 for no change.
    pub(super) streams: [RawFd; 3],
    /// The protocol of the gate: if the process will be traced, it sends a byte when it is prepared. It then
    /// receives one byte: go. It sends its usage before exec, then an error number if exec failed.
    pub(super) gate: RawFd,
    /// The preparation for a tracer.
    pub(super) traced: Option<Traced>,
}

/// Waits for the byte and becomes the command; `signals` are those whose disposition was changed.
pub(super) fn become_command(
    image: Image,
    surroundings: Surroundings,
    origin: &Origin,
    signals: impl Iterator<Item = c_int>,
) -> ! {
    origin.restore_signals(signals);
    origin.restore_mask_and_limit();
    let Surroundings { streams, gate, traced } = surroundings;
    if let Some(traced) = traced {
        report(gate, &[prepare(traced)]);
    }
    let errno = match connect(streams) {
        Ok(()) if !wait_for_go(gate) => leave(0),
        Ok(()) => {
            if traced.is_some() {
                // The tracer has already begun; no other process may trace.
                super::linux::allow_no_tracer();
            }
            report(gate, &Before::now().to_bytes());
            execute(image)
        }
        Err(errno) => errno,
    };
    report(gate, &errno.to_ne_bytes());
    leave(127)
}

/// Prepares this process for a tracer; returns whether its layout is fixed.
fn prepare(traced: Traced) -> u8 {
    super::linux::allow_any_tracer();
    u8::from(traced.fixed_layout && super::linux::fix_layout())
}

/// Waits until a process that will be traced is prepared; returns whether its layout is fixed. The result is
/// false for a process that was killed before.
pub(super) fn read_prepared(gate: &OwnedFd) -> bool {
    matches!(read_to_end(gate, &mut [0]), Ok([1]))
}

/// Ends the process at once, without running handlers or flushing.
pub(crate) fn leave(status: c_int) -> ! {
    // SAFETY: ends the process; runs no handler and flushes nothing.
    unsafe { libc::_exit(status) }
}

/// The error number of the last call. Allocates no memory.
pub(super) fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

/// A copy of `fd` above 2, closed at exec; `fd` itself if it is already above 2.
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

/// Tries the candidates in the order of `execvp(3)`; returns the most informative error number.
///
/// Unlike `execvp(3)`, it does not pass a file of unknown format (`ENOEXEC`) to a shell, but returns an
/// error.
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
        if image.environment.is_null() {
            // SAFETY: `path` and the elements of `argv` are C strings; `argv` ends with a null pointer.
            unsafe { libc::execv(path, image.argv) };
        } else {
            // SAFETY: as above; so are the elements of the environment, and it ends with a null pointer.
            unsafe { libc::execve(path, image.argv, image.environment) };
        }
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

/// The usage of the process right before it executed its command, which is a part of its accounting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Before([u64; 6]);

/// Length of the message, in bytes.
const BEFORE_BYTES: usize = 48;

impl Before {
    /// Reads the current usage. Allocates no memory.
    fn now() -> Before {
        let mut raw = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: writes one rusage; when it fails, the zeros stay and nothing is subtracted.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
        // SAFETY: all bytes are initialised, to zero or by the call, and any value is valid.
        let used = ResourceUsage::from_raw(unsafe { raw.assume_init_ref() });
        Before([
            used.user_ns,
            used.system_ns,
            used.minor_faults,
            used.major_faults,
            used.voluntary_switches,
            used.involuntary_switches,
        ])
    }

    fn to_bytes(self) -> [u8; BEFORE_BYTES] {
        let mut bytes = [0; BEFORE_BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Before {
        let mut words = [0; 6];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let mut eight = [0; 8];
            eight.copy_from_slice(place);
            *word = u64::from_ne_bytes(eight);
        }
        Before(words)
    }

    /// The usage without a peak, which is no sum.
    fn usage(self) -> ResourceUsage {
        let [user_ns, system_ns, minor_faults, major_faults, voluntary_switches, involuntary_switches] =
            self.0;
        ResourceUsage {
            user_ns,
            system_ns,
            peak_rss_bytes: 0,
            minor_faults,
            major_faults,
            voluntary_switches,
            involuntary_switches,
        }
    }
}

/// Sends without raising a signal, which would end the process if the reader has gone.
fn report(gate: RawFd, bytes: &[u8]) {
    // SAFETY: reads `bytes`.
    unsafe { libc::send(gate, bytes.as_ptr().cast(), bytes.len(), super::linux::QUIET) };
}

/// The report of [`become_command`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Story {
    /// The usage before exec; zero when the process did not reach exec.
    pub(super) before: ResourceUsage,
    /// The reason why the command could not be executed.
    pub(super) failure: Option<c_int>,
}

/// Reads the report of [`become_command`]; call it after the process has ended.
pub(super) fn read_story(gate: &OwnedFd) -> io::Result<Story> {
    let mut bytes = [0; BEFORE_BYTES + size_of::<c_int>()];
    let told = read_to_end(gate, &mut bytes)?;
    let (before, failure) = told.split_at_checked(BEFORE_BYTES).unwrap_or((&[], told));
    Ok(Story {
        before: Before::from_bytes(before).usage(),
        failure: failure.try_into().ok().map(c_int::from_ne_bytes),
    })
}

fn read_to_end<'a>(gate: &OwnedFd, bytes: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: writes into `rest` only.
        let got = unsafe { libc::read(gate.as_raw_fd(), rest.as_mut_ptr().cast(), rest.len()) };
        match usize::try_from(got) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                // The process was killed before it received the byte.
                e if e.kind() == io::ErrorKind::ConnectionReset => break,
                e => return Err(e),
            },
        }
    }
    Ok(bytes.get(..done).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const BEFORE: Before = Before([1, 2, 3, 4, 5, 6]);

    fn check(parts: &[&[u8]], before: ResourceUsage, failure: Option<c_int>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        parts.iter().for_each(|part| theirs.write_all(part).unwrap());
        drop(theirs);
        assert_eq!(read_story(&ours.into()).unwrap(), Story { before, failure });
    }

    #[test]
    fn a_story_has_a_beginning_and_an_end_or_neither() {
        let (used, failed) = (BEFORE.to_bytes(), libc::ENOENT.to_ne_bytes());
        assert_eq!((BEFORE.usage().user_ns, BEFORE.usage().involuntary_switches), (1, 6));
        check(&[], ResourceUsage::default(), None);
        check(&[&used], BEFORE.usage(), None);
        check(&[&failed], ResourceUsage::default(), Some(libc::ENOENT));
        check(&[&used, &failed], BEFORE.usage(), Some(libc::ENOENT));
    }
}
