//! The kind of our own standard streams, for commands that get them more than once.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::{Duration, Instant};

use cyclometer_sys::descriptor::is_open_for_reading;
use cyclometer_sys::identity::FileIdentity;
use cyclometer_sys::process::poll_readable;
use cyclometer_sys::stream::bytes_waiting;

/// The kind of our standard input, as far as it matters to a command that runs several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StandardInput {
    /// Nothing that a run could read: the null device, a pipe that has ended, or a terminal. Users do not
    /// want to type the same several times.
    Nothing,
    /// Every run can inherit it: a device without a position, such as `/dev/zero`, or an object whose reading
    /// fails, such as a folder or a descriptor that is open for writing only.
    Inheritable,
    /// A file that can be read again.
    File {
        /// Where it stands, in bytes from its start.
        offset_bytes: u64,
    },
    /// A pipe or socket with data, which only one run could read.
    Data,
    /// A pipe or socket that is still empty; data may arrive later.
    Silent,
}

impl StandardInput {
    /// Inspects standard input without reading from it. Waits up to `patience` for data in an empty pipe.
    pub fn look(patience: Duration) -> StandardInput {
        let stdin = io::stdin();
        look(stdin.as_fd(), stdin.is_terminal(), patience)
    }
}

fn look(fd: BorrowedFd<'_>, is_terminal: bool, patience: Duration) -> StandardInput {
    let file = fd.try_clone_to_owned().map(File::from);
    let Ok((mut file, metadata)) = file.and_then(|file| file.metadata().map(|metadata| (file, metadata)))
    else {
        return StandardInput::Nothing;
    };
    let kind = metadata.file_type();
    if !is_open_for_reading(fd) {
        return StandardInput::Inheritable;
    }
    match file.stream_position() {
        Ok(offset_bytes) if kind.is_file() || kind.is_block_device() => StandardInput::File { offset_bytes },
        _ if kind.is_fifo() || kind.is_socket() => arriving(fd, patience),
        _ if is_terminal || is_null(&metadata) => StandardInput::Nothing,
        _ => StandardInput::Inheritable,
    }
}

fn arriving(fd: BorrowedFd<'_>, patience: Duration) -> StandardInput {
    let readable = poll_readable(&[fd], Some(Instant::now() + patience));
    match (readable, bytes_waiting(fd)) {
        (_, Ok(1..)) => StandardInput::Data,
        (Ok(None), _) => StandardInput::Silent,
        _ => StandardInput::Nothing,
    }
}

/// Opens our standard input, which is a file, again at this offset. Where the system allows it, the
/// descriptor is separate, so that no run moves the position of another.
pub(super) fn standard_input_from(offset_bytes: u64) -> io::Result<File> {
    let ours = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut own = opened_again(&ours).unwrap_or(ours);
    own.seek(SeekFrom::Start(offset_bytes))?;
    Ok(own)
}

fn opened_again(ours: &File) -> Option<File> {
    let own = File::open("/proc/self/fd/0").ok()?;
    // The `/proc` of another PID namespace would name another file.
    (FileIdentity::of(&own).ok()? == FileIdentity::of(ours).ok()?).then_some(own)
}

/// Whether our standard output is the null device, which some programs look for.
pub fn standard_output_is_null() -> bool {
    let ours = io::stdout().as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    ours.is_ok_and(|ours| is_null(&ours))
}

fn is_null(metadata: &Metadata) -> bool {
    let device = |metadata: &Metadata| metadata.file_type().is_char_device().then(|| metadata.rdev());
    let null = std::fs::metadata("/dev/null").ok();
    null.and_then(|null| device(&null)).is_some_and(|null| device(metadata) == Some(null))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const AT_ONCE: Duration = Duration::ZERO;

    fn seen(file: &impl AsFd) -> StandardInput {
        look(file.as_fd(), false, AT_ONCE)
    }

    #[test]
    fn a_file_is_read_from_where_it_stands() {
        let mut file = File::open("/proc/self/exe").unwrap();
        assert_eq!(seen(&file), StandardInput::File { offset_bytes: 0 });
        file.seek(SeekFrom::Start(17)).unwrap();
        assert_eq!(seen(&file), StandardInput::File { offset_bytes: 17 });
        assert_eq!(file.stream_position().unwrap(), 17, "looking moves nothing");
    }

    #[test]
    fn a_pipe_and_a_socket_are_told_by_what_they_hold() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(seen(&reader), StandardInput::Silent);
        writer.write_all(b"x").unwrap();
        assert_eq!(seen(&reader), StandardInput::Data);
        drop(writer);
        assert_eq!(seen(&reader), StandardInput::Data, "what is left counts");
        let (empty, writer) = io::pipe().unwrap();
        drop(writer);
        assert_eq!(seen(&empty), StandardInput::Nothing);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        assert_eq!(seen(&ours), StandardInput::Silent);
        theirs.write_all(b"x").unwrap();
        assert_eq!(seen(&ours), StandardInput::Data);
    }

    #[test]
    fn what_arrives_late_is_waited_for() {
        let (reader, mut writer) = io::pipe().unwrap();
        let writes = std::thread::spawn(move || writer.write_all(b"x").map(|()| writer));
        assert_eq!(look(reader.as_fd(), false, Duration::from_secs(300)), StandardInput::Data);
        writes.join().unwrap().unwrap();
    }

    #[test]
    fn devices_and_folders_are_inherited_and_the_null_device_and_terminals_are_not() {
        let open = |path: &str| File::open(path).unwrap();
        assert_eq!(seen(&open("/dev/zero")), StandardInput::Inheritable);
        assert_eq!(seen(&open("/dev/null")), StandardInput::Nothing);
        assert_eq!(look(open("/dev/zero").as_fd(), true, AT_ONCE), StandardInput::Nothing);
        assert_eq!(seen(&open("/")), StandardInput::Inheritable);
    }

    #[test]
    fn a_descriptor_that_cannot_be_read_is_inherited_and_its_file_is_not_opened_for_reading() {
        let write_only = File::options().write(true).open("/dev/null").unwrap();
        assert_eq!(seen(&write_only), StandardInput::Inheritable);
        let (_reader, writer) = io::pipe().unwrap();
        assert_eq!(seen(&writer), StandardInput::Inheritable);
    }
}
