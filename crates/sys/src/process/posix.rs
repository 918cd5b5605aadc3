//! Waiting and sending by what POSIX has, for systems other than Linux.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

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
        // SAFETY: reads and writes the four slots.
        match unsafe { libc::poll(slots.as_mut_ptr(), 4, until.map_or(-1, milliseconds_left)) } {
            0 if until.is_some_and(|until| Instant::now() < until) => {}
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            _ => return Ok(slots.iter().position(|slot| slot.revents != 0)),
        }
    }
}

fn milliseconds_left(until: Instant) -> libc::c_int {
    let left = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
    left.try_into().unwrap_or(libc::c_int::MAX)
}

/// Sends all of `bytes` with these flags, or fails.
pub(super) fn send_all(socket: &OwnedFd, mut bytes: &[u8], flags: libc::c_int) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: reads `bytes`.
        let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn the_first_readable_descriptor_is_named_and_an_end_is_readable() {
        let (silent, _writer) = io::pipe().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(2));
        assert_eq!(poll_readable(&[silent.as_fd(), reader.as_fd()], soon()).unwrap(), None);
        assert_eq!(poll_readable(&[], soon()).unwrap(), None);
        writer.write_all(b"x").unwrap();
        assert_eq!(poll_readable(&[silent.as_fd(), reader.as_fd()], None).unwrap(), Some(1));
        assert_eq!(poll_readable(&[reader.as_fd(), reader.as_fd()], None).unwrap(), Some(0));
        let (ended, writer) = io::pipe().unwrap();
        drop(writer);
        assert_eq!(poll_readable(&[silent.as_fd(), ended.as_fd()], None).unwrap(), Some(1));
    }

    #[test]
    fn a_time_that_has_passed_is_not_waited_for() {
        let (silent, _writer) = io::pipe().unwrap();
        assert_eq!(poll_readable(&[silent.as_fd()], Some(Instant::now())).unwrap(), None);
    }

    #[test]
    fn more_is_sent_than_a_socket_holds() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let text = vec![7u8; 3 << 20];
        let expected = text.len();
        let reads = std::thread::spawn(move || {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).map(|_| read)
        });
        let ours = OwnedFd::from(ours);
        send_all(&ours, &text, 0).unwrap();
        drop(ours);
        let read = reads.join().unwrap().unwrap();
        assert!(read.len() == expected && read.iter().all(|byte| *byte == 7));
    }
}
