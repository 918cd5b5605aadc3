//! The helper's work. This code allocates no memory, because the program may have had other threads at the
//! fork.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::{c_int, c_void};

use super::message::{HEADER_BYTES, MAX_FDS, RequestHeader};
use super::region::{Pool, SpawnMemory};
use super::{descriptors, message};
use crate::process::image::{self, Image, Surroundings, above_standard, last_errno, leave};
use crate::process::origin::{self, Origin};

/// Signals that terminals and shells send to end a whole job. The helper must not end before us; it ends when
/// the socket ends. It lets these signals pend, where a [`Witness`](crate::process::Witness) sees them.
/// Processes that it starts do not inherit pending signals.
const PENDING: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Signals that stop a whole job, because the helper must not stop before us; and the signal that a closed
/// socket raises.
const DEAF_TO: [c_int; 4] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGPIPE];

/// Serves requests until the socket ends.
pub(super) fn run(socket: RawFd, origin: &Origin) -> ! {
    let Ok(socket) = above_standard(socket) else { leave(1) };
    origin::block(&PENDING);
    origin.restore_signals(origin::all_signals());
    for signal in DEAF_TO {
        origin::set(signal, libc::SIG_IGN);
    }
    descriptors::close_private(socket);
    let mut pool = Pool::new();
    while let Some(answer) = serve_one(socket, origin, &mut pool) {
        if !reply(socket, answer) {
            break;
        }
    }
    leave(0)
}

/// Serves one request and returns a pid or a negative error number; `None` at the end of the stream.
fn serve_one(socket: RawFd, origin: &Origin, pool: &mut Pool) -> Option<c_int> {
    let mut bytes = [0; HEADER_BYTES];
    let mut fds = message::receive(socket, &mut bytes).ok()??;
    let header = RequestHeader::from_bytes(&bytes);
    let answer = make(socket, header, &mut fds, origin, pool);
    for fd in fds {
        close(fd);
    }
    // Without the strings the stream is out of step, so the helper ends.
    match answer {
        Ok(pid) => Some(pid),
        Err(RequestFault::Refused(errno)) => Some(-errno),
        Err(RequestFault::OutOfStep) => None,
    }
}

enum RequestFault {
    Refused(c_int),
    OutOfStep,
}

fn make(
    socket: RawFd,
    header: RequestHeader,
    fds: &mut [RawFd; MAX_FDS],
    origin: &Origin,
    pool: &mut Pool,
) -> Result<c_int, RequestFault> {
    let region = match pool.region(header) {
        Ok(region) => region,
        Err(errno) => return Err(skip_strings(socket, header, errno)),
    };
    if !matches!(message::receive_exactly(socket, region.strings()), Ok(true)) {
        return Err(RequestFault::OutOfStep);
    }
    let image = region.image().ok_or(RequestFault::Refused(libc::EINVAL))?;
    for fd in &mut *fds {
        let low = *fd;
        *fd = above_standard(low).map_err(RequestFault::Refused)?;
        if *fd != low {
            close(low);
        }
    }
    let surroundings = arrange(header, fds).ok_or(RequestFault::Refused(libc::EINVAL))?;
    let newborn = Newborn { socket, image, surroundings, origin };
    clone_sibling(newborn, region).map_err(RequestFault::Refused)
}

/// Skips the strings of a request that cannot be served, so that the next one is understood.
fn skip_strings(socket: RawFd, header: RequestHeader, errno: c_int) -> RequestFault {
    let mut left = header.bytes as usize;
    let mut scrap = [0; 4096];
    while left > 0 {
        let part = left.min(scrap.len());
        let Some(Ok(true)) = scrap.get_mut(..part).map(|part| message::receive_exactly(socket, part)) else {
            return RequestFault::OutOfStep;
        };
        left -= part;
    }
    RequestFault::Refused(errno)
}

fn arrange(header: RequestHeader, fds: &[RawFd; MAX_FDS]) -> Option<Surroundings> {
    let [gate, given @ ..] = *fds;
    let mut given = given.into_iter();
    let mut streams = [-1; 3];
    for (number, stream) in streams.iter_mut().enumerate() {
        if header.streams >> number & 1 == 1 {
            *stream = given.next().filter(|fd| *fd >= 0)?;
        }
    }
    (gate >= 0).then_some(Surroundings { streams, gate, traced: header.traced() })
}

/// The data for a new process. They are in the region, because the helper continues meanwhile.
#[derive(Clone, Copy)]
struct Newborn {
    socket: RawFd,
    image: Image,
    surroundings: Surroundings,
    /// The helper's origin, which it preserves to its end.
    origin: *const Origin,
}

/// Creates a process that shares our memory until it executes, on a stack of its own.
///
/// The only variable that both processes write is `errno`. As long as only one process at a time has not
/// executed yet, its error numbers are exact. The helper waits for its next message, and that call fails only
/// with the helper's end. If several processes fail at the same moment, one may report the number of another.
/// The same is possible if the helper fails to create the next process at that moment. Whether a command was
/// executed is certain nevertheless.
fn clone_sibling(newborn: Newborn, region: &mut SpawnMemory) -> Result<c_int, c_int> {
    let flags = libc::CLONE_PARENT | libc::CLONE_VM | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD;
    let note = region.leave_note(newborn);
    let word = region.word();
    word.store(1, Ordering::Release);
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the stack is the region's, which is not used for anything else before the kernel clears the
    // word, and so is the note. No parent's word, no thread-local storage.
    let pid = unsafe { libc::clone(begin, region.stack_top(), flags, note, none, none, word.as_ptr()) };
    if pid < 0 {
        word.store(0, Ordering::Release);
        return Err(last_errno());
    }
    Ok(pid)
}

extern "C" fn begin(note: *mut c_void) -> c_int {
    // SAFETY: `clone_sibling` left a `Newborn` there, and nobody changes it.
    let newborn = unsafe { note.cast::<Newborn>().read() };
    close(newborn.socket);
    // SAFETY: the helper's own, which it never frees or changes; the memory stays when it ends.
    let origin = unsafe { &*newborn.origin };
    image::become_command(newborn.image, newborn.surroundings, origin, DEAF_TO.into_iter())
}

fn reply(socket: RawFd, answer: c_int) -> bool {
    message::send(socket, &answer.to_ne_bytes(), &[]).is_ok()
}

fn close(fd: RawFd) {
    if fd >= 0 {
        // SAFETY: a descriptor that came with a request, or the socket of the helper: used nowhere else.
        unsafe { libc::close(fd) };
    }
}
