//! Pipes that a process of ours reads to their end.
//!
//! A command must never notice that its output is dropped by a pipe. Its writes neither fail nor wait longer
//! than a reader takes, even if the program that started it ends. A daemon therefore reads the pipes
//! ([`daemon`]). It outlives its maker as long as any process has one of the pipes open, and then ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use super::helper::message::{self, HEADER_BYTES, MAX_FDS};
use crate::daemon::{self, Daemon};

/// Creates pipes whose content is read and dropped.
#[derive(Debug)]
pub struct Drain {
    daemon: Daemon,
}

/// The answer to a pipe that is accepted.
const TAKEN: u8 = 1;

/// Number of bytes that are read from a pipe at a time: the usual capacity of a pipe.
const AT_ONCE: usize = 64 << 10;

impl Drain {
    /// Starts the daemon.
    ///
    /// # Errors
    ///
    /// Those of [`daemon::fork`].
    pub fn start() -> io::Result<Drain> {
        Ok(Drain { daemon: daemon::fork(drain)? })
    }

    /// The write end of a new pipe. Reading continues until no process has this end open any more.
    ///
    /// # Errors
    ///
    /// The operating system's, where no pipe can be created; `EMFILE` where the daemon has reached its limit
    /// on open files.
    pub fn pipe(&self) -> io::Result<OwnedFd> {
        let (reader, writer) = io::pipe()?;
        let mut socket = self.daemon.socket();
        // An empty message with the length of a header.
        message::send(socket.as_raw_fd(), &[0; HEADER_BYTES], &[reader.as_raw_fd()])?;
        let mut answer = [0];
        socket.read_exact(&mut answer)?;
        match answer {
            [TAKEN] => Ok(writer.into()),
            _ => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }
}

/// The daemon's work: it reads every pipe that it receives, until each has ended and its maker has gone.
fn drain(socket: UnixStream) {
    let _ = super::raise_open_files();
    let mut maker = Some(socket);
    let mut pipes: Vec<File> = Vec::new();
    while maker.is_some() || !pipes.is_empty() {
        let Ok(ReadyPipes { pipes: can_be_read, maker: speaks }) = wait(maker.as_ref(), &pipes) else {
            return;
        };
        let mut can_be_read = can_be_read.into_iter();
        pipes.retain(|pipe| !can_be_read.next().unwrap_or(false) || drop_some(pipe));
        if speaks {
            maker = maker.filter(|maker| accept(maker, &mut pipes));
        }
    }
}

/// The descriptors that can be read.
struct ReadyPipes {
    /// For each pipe, whether it can be read or has ended.
    pipes: Vec<bool>,
    /// Whether the maker has sent a message, or has gone.
    maker: bool,
}

/// Waits until a descriptor can be read.
fn wait(maker: Option<&UnixStream>, pipes: &[File]) -> io::Result<ReadyPipes> {
    let fds = pipes.iter().map(File::as_fd).chain(maker.map(UnixStream::as_fd));
    let slot = |fd: BorrowedFd<'_>| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut slots: Vec<libc::pollfd> = fds.map(slot).collect();
    // SAFETY: reads and writes the slots, of which there are as many as it is told.
    while unsafe { libc::poll(slots.as_mut_ptr(), slots.len() as libc::nfds_t, -1) } < 0 {
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
    let mut ready: Vec<bool> = slots.iter().map(|slot| slot.revents != 0).collect();
    let speaks = maker.is_some() && ready.pop() == Some(true);
    Ok(ReadyPipes { pipes: ready, maker: speaks })
}

/// Accepts a pipe; `false` when the maker has gone.
fn accept(mut maker: &UnixStream, pipes: &mut Vec<File>) -> bool {
    let mut header = [0; HEADER_BYTES];
    let Ok(Some(fds)) = message::receive(maker.as_raw_fd(), &mut header) else { return false };
    let [pipe, ..]: [_; MAX_FDS] = fds;
    let is_there = pipe >= 0;
    if is_there {
        // SAFETY: the kernel has just made this descriptor for us alone.
        pipes.push(File::from(unsafe { OwnedFd::from_raw_fd(pipe) }));
    }
    maker.write_all(&[if is_there { TAKEN } else { 0 }]).is_ok()
}

/// Drops the data in a readable pipe; `false` when it has ended or cannot be read at all.
fn drop_some(mut pipe: &File) -> bool {
    // SAFETY: moves bytes from the pipe to the null device, which is standard output here, and touches no
    // memory of ours.
    let moved = unsafe {
        libc::splice(
            pipe.as_raw_fd(),
            std::ptr::null_mut(),
            libc::STDOUT_FILENO,
            std::ptr::null_mut(),
            AT_ONCE,
            libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK,
        )
    };
    match (moved, io::Error::last_os_error().kind()) {
        (0, _) => false,
        (1.., _) | (_, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => true,
        // Sandboxes may lack the call. The pipe is readable, so this read does not wait.
        _ => {
            let mut scrap = [0; AT_ONCE];
            may_have_more(&pipe.read(&mut scrap))
        }
    }
}

/// Whether reading can continue. After another error, the pipe would be ready and fail forever.
fn may_have_more(read: &io::Result<usize>) -> bool {
    match read {
        Ok(bytes) => *bytes > 0,
        Err(e) => matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// More than the capacity of any pipe.
    const MUCH: usize = 4 << 20;

    fn write(pipe: OwnedFd, bytes: usize) -> File {
        let mut file = File::from(pipe);
        file.write_all(&vec![b'x'; bytes]).unwrap();
        file
    }

    fn until_gone(pid: u32) {
        let end = Instant::now() + Duration::from_secs(20);
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z ")) {
            assert!(Instant::now() < end, "the process that reads lives on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn what_is_written_is_taken_however_much_it_is() {
        let drain = Drain::start().unwrap();
        let open: Vec<File> = (0..5).map(|_| write(drain.pipe().unwrap(), MUCH)).collect();
        drop(open);
        write(drain.pipe().unwrap(), MUCH);
    }

    #[test]
    fn who_writes_on_when_the_maker_has_gone_does_not_notice() {
        let drain = Drain::start().unwrap();
        let (mut left, ended) = (write(drain.pipe().unwrap(), 1), write(drain.pipe().unwrap(), 1));
        let pid = drain.daemon.pid();
        drop((drain, ended));
        left.write_all(&vec![b'x'; MUCH]).unwrap();
        drop(left);
        until_gone(pid);
    }

    #[test]
    fn a_descriptor_whose_reads_fail_for_good_is_dropped() {
        let (_reader, writer) = io::pipe().unwrap();
        let (folder, write_only) = (File::open("/").unwrap(), File::from(OwnedFd::from(writer)));
        assert!(!drop_some(&folder) && !drop_some(&write_only));
        let failed = |number| Err(io::Error::from_raw_os_error(number));
        for number in [libc::EIO, libc::EBADF, libc::EISDIR] {
            assert!(!may_have_more(&failed(number)), "{number}");
        }
        for read in [failed(libc::EAGAIN), failed(libc::EINTR), Ok(1)] {
            assert!(may_have_more(&read), "{read:?}");
        }
        assert!(!may_have_more(&Ok(0)));
    }

    #[test]
    fn without_pipes_the_process_ends_with_its_maker() {
        let drain = Drain::start().unwrap();
        write(drain.pipe().unwrap(), 1);
        let pid = drain.daemon.pid();
        drop(drain);
        until_gone(pid);
    }

    #[test]
    fn a_pipe_of_one_run_is_not_that_of_another() {
        let drain = Drain::start().unwrap();
        let (first, second) = (drain.pipe().unwrap(), drain.pipe().unwrap());
        // SAFETY: takes numbers; changes how the first one is written to.
        unsafe { libc::fcntl(first.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        // SAFETY: only asks for flags.
        let flags = unsafe { libc::fcntl(second.as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }
}
