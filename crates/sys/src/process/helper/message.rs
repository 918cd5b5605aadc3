//! The messages between us and the helper or a drain. The receiving side allocates no memory.

use std::io;
use std::os::fd::RawFd;

use crate::process::{Strings, Traced};

/// The fixed part of a request, before the strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestHeader {
    /// Length of all strings with their NULs, in bytes.
    pub(super) bytes: u32,
    /// Number of strings that are paths to try.
    pub(super) candidates: u32,
    /// Number of arguments, including the program's name.
    pub(super) args: u32,
    /// Number of variables that are added to the environment.
    pub(super) variables: u32,
    /// Bit `n`: a descriptor for stream `n` is attached.
    pub(super) streams: u32,
    /// Bit 0: the process will be traced; bit 1: in a fixed layout.
    pub(super) traced: u32,
}

/// Length of a header, in bytes.
pub(in crate::process) const HEADER_BYTES: usize = 24;

/// The gate and three streams.
pub(in crate::process) const MAX_FDS: usize = 4;

impl RequestHeader {
    /// The header and the strings of a request.
    pub(super) fn describe(
        strings: &Strings,
        streams: [RawFd; 3],
        traced: Option<Traced>,
    ) -> io::Result<(RequestHeader, Vec<u8>)> {
        let all = strings.candidates.iter().chain(&strings.argv).chain(&strings.variables);
        let payload: Vec<u8> = all.flat_map(|string| string.as_bytes_with_nul()).copied().collect();
        let count = |n: usize| u32::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG));
        let header = RequestHeader {
            bytes: count(payload.len())?,
            candidates: count(strings.candidates.len())?,
            args: count(strings.argv.len())?,
            variables: count(strings.variables.len())?,
            streams: (0..).zip(streams).filter(|(_, fd)| *fd >= 0).map(|(n, _)| 1 << n).sum(),
            traced: traced.map_or(0, |traced| 1 | u32::from(traced.fixed_layout) << 1),
        };
        Ok((header, payload))
    }

    /// The preparation of the process for a tracer.
    pub(super) fn traced(self) -> Option<Traced> {
        (self.traced & 1 != 0).then_some(Traced { fixed_layout: self.traced & 2 != 0 })
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let words = [self.bytes, self.candidates, self.args, self.variables, self.streams, self.traced];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> RequestHeader {
        let mut words = [0; 6];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            let mut four = [0; 4];
            four.copy_from_slice(place);
            *word = u32::from_ne_bytes(four);
        }
        let [bytes, candidates, args, variables, streams, traced] = words;
        RequestHeader { bytes, candidates, args, variables, streams, traced }
    }
}

/// Buffer for the control message, aligned as its header must be.
#[repr(align(8))]
struct Control([u8; 64]);

/// Sends `bytes` with at most [`MAX_FDS`] descriptors, and returns the number of bytes sent; never raises
/// `SIGPIPE`.
pub(in crate::process) fn send(socket: RawFd, bytes: &[u8], fds: &[RawFd]) -> io::Result<usize> {
    let fds = fds.get(..MAX_FDS).unwrap_or(fds);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let message = envelope(&mut part, &mut control, control_length(fds.len()));
    put_descriptors(&message, fds);
    loop {
        // SAFETY: `message` points to `part` and `control`, which live; sending only reads them.
        let sent = unsafe { libc::sendmsg(socket, &message, libc::MSG_NOSIGNAL) };
        match (usize::try_from(sent), io::Error::last_os_error()) {
            // The descriptors are sent with the first byte; the kernel does not split a header, which is
            // small.
            (Ok(sent), _) if sent >= bytes.len().min(HEADER_BYTES) => return Ok(sent),
            (Ok(_), _) => return Err(io::ErrorKind::WriteZero.into()),
            (Err(_), e) if e.kind() == io::ErrorKind::Interrupted => {}
            (Err(_), e) => return Err(e),
        }
    }
}

/// Receives a header with its descriptors; `None` at the end of the stream. Allocates no memory.
pub(in crate::process) fn receive(
    socket: RawFd,
    bytes: &mut [u8; HEADER_BYTES],
) -> io::Result<Option<[RawFd; MAX_FDS]>> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut message = envelope(&mut part, &mut control, 64);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL;
    loop {
        // SAFETY: `message` points to `part` and `control`, which live and may be written.
        match unsafe { libc::recvmsg(socket, &mut message, flags) } {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            n if usize::try_from(n) == Ok(HEADER_BYTES) => return Ok(Some(take_descriptors(&message))),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn envelope(part: &mut libc::iovec, control: &mut Control, length: usize) -> libc::msghdr {
    // SAFETY: all zero is a valid msghdr: no address, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = length as _;
    message
}

fn control_length(fds: usize) -> usize {
    // SAFETY: arithmetic only.
    unsafe { libc::CMSG_SPACE((fds * size_of::<RawFd>()) as libc::c_uint) as usize }
}

fn put_descriptors(message: &libc::msghdr, fds: &[RawFd]) {
    // SAFETY: the control buffer is at least one header long and aligned.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: arithmetic only.
    let length = unsafe { libc::CMSG_LEN(size_of_val(fds) as libc::c_uint) };
    let header =
        libc::cmsghdr { cmsg_len: length as _, cmsg_level: libc::SOL_SOCKET, cmsg_type: libc::SCM_RIGHTS };
    // SAFETY: `first` points to the start of the control buffer, which has room for a header.
    unsafe { first.write(header) };
    // SAFETY: as above; the data follow the header.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: the buffer has 64 bytes, room for a header and `MAX_FDS` descriptors.
    unsafe { std::ptr::copy_nonoverlapping(fds.as_ptr().cast(), data, size_of_val(fds)) };
}

fn take_descriptors(message: &libc::msghdr) -> [RawFd; MAX_FDS] {
    let mut fds = [-1; MAX_FDS];
    // SAFETY: the kernel filled the control buffer and its length.
    let first = unsafe { libc::CMSG_FIRSTHDR(message) };
    if first.is_null() {
        return fds;
    }
    // SAFETY: not null: a whole header, written by the kernel.
    let header = unsafe { first.read() };
    // SAFETY: arithmetic only.
    let empty = unsafe { libc::CMSG_LEN(0) } as usize;
    let bytes = (header.cmsg_len as usize).saturating_sub(empty).min(size_of_val(&fds));
    // SAFETY: `first` is a header inside the control buffer; its data follow it.
    let data = unsafe { libc::CMSG_DATA(first) };
    // SAFETY: the kernel wrote `bytes` of descriptors there, and `fds` has room for them.
    unsafe { std::ptr::copy_nonoverlapping(data, fds.as_mut_ptr().cast(), bytes) };
    fds
}

/// Whether data can be received, including the end of the stream and errors.
pub(super) fn is_there(socket: RawFd) -> bool {
    let mut byte = 0u8;
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: writes one byte to `byte`.
    let got = unsafe { libc::recv(socket, (&raw mut byte).cast(), 1, flags) };
    got >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
}

/// Fills `bytes`; `false` when the stream ends before. Allocates no memory.
pub(super) fn receive_exactly(socket: RawFd, bytes: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: writes into `rest` only.
        let got = unsafe { libc::recv(socket, rest.as_mut_ptr().cast(), rest.len(), libc::MSG_WAITALL) };
        match usize::try_from(got) {
            Ok(0) => return Ok(false),
            Ok(n) => done += n,
            Err(_) => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_header_survives_its_bytes() {
        let header = RequestHeader {
            bytes: 70_000,
            candidates: 3,
            args: 1000,
            variables: 1,
            streams: 0b101,
            traced: 3,
        };
        assert_eq!(RequestHeader::from_bytes(&header.to_bytes()), header);
    }

    #[test]
    fn a_request_says_what_comes_along() {
        let strings = Strings {
            candidates: vec![CString::new("/bin/a").unwrap()],
            argv: vec![CString::new("a").unwrap(), CString::new("").unwrap()],
            variables: vec![CString::new("P=x").unwrap()],
        };
        let (header, payload) =
            RequestHeader::describe(&strings, [5, -1, 0], Some(Traced { fixed_layout: false })).unwrap();
        assert_eq!(
            header,
            RequestHeader { bytes: 14, candidates: 1, args: 2, variables: 1, streams: 0b101, traced: 1 }
        );
        assert_eq!(payload, b"/bin/a\0a\0\0P=x\0");
    }

    #[test]
    fn a_header_says_how_to_prepare_for_a_tracer() {
        let strings = Strings { candidates: Vec::new(), argv: Vec::new(), variables: Vec::new() };
        for traced in [None, Some(Traced { fixed_layout: false }), Some(Traced { fixed_layout: true })] {
            let (header, _) = RequestHeader::describe(&strings, [-1; 3], traced).unwrap();
            assert_eq!(header.traced(), traced);
        }
    }

    #[test]
    fn descriptors_arrive_closed_at_exec() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut far, near) = UnixStream::pair().unwrap();
        send(ours.as_raw_fd(), &[7; HEADER_BYTES], &[near.as_raw_fd()]).unwrap();
        drop(near);
        let mut bytes = [0; HEADER_BYTES];
        let fds = receive(theirs.as_raw_fd(), &mut bytes).unwrap().unwrap();
        assert_eq!(bytes, [7; HEADER_BYTES]);
        assert!(fds[0] > 2 && fds[1..] == [-1, -1, -1]);
        // SAFETY: only asks for flags.
        assert_eq!(unsafe { libc::fcntl(fds[0], libc::F_GETFD) }, libc::FD_CLOEXEC);
        // SAFETY: the kernel has just made this descriptor for us alone.
        let mut arrived = unsafe { UnixStream::from_raw_fd(fds[0]) };
        arrived.write_all(b"x").unwrap();
        let mut byte = [0];
        far.read_exact(&mut byte).unwrap();
        drop(ours);
        assert_eq!(receive(theirs.as_raw_fd(), &mut bytes).unwrap(), None);
    }
}
