//! What the helper does. Nothing here allocates: the program may have had other threads at the fork.

use std::os::fd::RawFd;

use libc::{c_int, c_long};

use super::message::{HEADER_BYTES, Header, MAX_FDS};
use super::region::Region;
use super::{descriptors, message};
use crate::process::image::{self, Descriptors, Image, above_standard, last_errno, leave};
use crate::process::origin::{self, Origin};

/// What terminals and shells send to a whole job. The helper must neither die nor stop before us;
/// the end of the socket tells it when to go.
const DEAF_TO: [c_int; 8] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGPIPE,
];

/// Serves requests until the socket ends.
pub(super) fn run(socket: RawFd, origin: &Origin) -> ! {
    let Ok(socket) = above_standard(socket) else { leave(1) };
    origin.restore_signals(origin::all_signals());
    for signal in DEAF_TO {
        origin::set(signal, libc::SIG_IGN);
    }
    descriptors::close_private(socket);
    while let Some(answer) = serve_one(socket, origin) {
        if !reply(socket, answer) {
            break;
        }
    }
    leave(0)
}

/// A pid or a negative error number; `None` at the end of the stream.
fn serve_one(socket: RawFd, origin: &Origin) -> Option<c_int> {
    let mut bytes = [0; HEADER_BYTES];
    let mut fds = message::receive(socket, &mut bytes).ok()??;
    let header = Header::from_bytes(&bytes);
    let answer = make(socket, header, &mut fds, origin);
    for fd in fds {
        close(fd);
    }
    // Without the strings the stream is out of step: better gone than wrong.
    match answer {
        Ok(pid) => Some(pid),
        Err(Fault::Refused(errno)) => Some(-errno),
        Err(Fault::OutOfStep) => None,
    }
}

enum Fault {
    Refused(c_int),
    OutOfStep,
}

fn make(socket: RawFd, header: Header, fds: &mut [RawFd; MAX_FDS], origin: &Origin) -> Result<c_int, Fault> {
    let mut region = Region::for_request(header).map_err(|_| Fault::OutOfStep)?;
    if !matches!(message::receive_exactly(socket, region.strings()), Ok(true)) {
        return Err(Fault::OutOfStep);
    }
    let image = region.image().ok_or(Fault::Refused(libc::EINVAL))?;
    for fd in &mut *fds {
        let low = *fd;
        *fd = above_standard(low).map_err(Fault::Refused)?;
        if *fd != low {
            close(low);
        }
    }
    let descriptors = arrange(header, fds).ok_or(Fault::Refused(libc::EINVAL))?;
    clone_sibling(socket, image, descriptors, origin).map_err(Fault::Refused)
}

fn arrange(header: Header, fds: &[RawFd; MAX_FDS]) -> Option<Descriptors> {
    let [gate, given @ ..] = *fds;
    let mut given = given.into_iter();
    let mut streams = [-1; 3];
    for (number, stream) in streams.iter_mut().enumerate() {
        if header.streams >> number & 1 == 1 {
            *stream = given.next().filter(|fd| *fd >= 0)?;
        }
    }
    (gate >= 0).then_some(Descriptors { streams, gate })
}

fn clone_sibling(
    socket: RawFd,
    image: Image,
    descriptors: Descriptors,
    origin: &Origin,
) -> Result<c_int, c_int> {
    let flags = c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of everything. The helper has
    // one thread, and neither side allocates.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long) }
    {
        -1 => Err(last_errno()),
        0 => {
            close(socket);
            image::become_command(image, descriptors, origin, DEAF_TO.into_iter())
        }
        pid => c_int::try_from(pid).map_err(|_| libc::EOVERFLOW),
    }
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
