//! Closes descriptors that the helper must not hold. Allocates no memory.

use std::os::fd::RawFd;

use libc::c_long;

/// Closes every descriptor that would be closed at exec, except `keep`.
///
/// Descriptors that are inherited over exec stay open: commands inherit them from the helper, as they would
/// from us.
pub(super) fn close_private(keep: RawFd) {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: opens a folder by a literal C string.
    let folder = unsafe { libc::open(c"/proc/self/fd".as_ptr(), flags) };
    if folder < 0 {
        return;
    }
    let mut entries = Entries([0; 2048]);
    while let Some(bytes) = next_entries(folder, &mut entries) {
        for fd in numbers(bytes).filter(|fd| *fd != keep && *fd != folder) {
            close_if_private(fd);
        }
    }
    // SAFETY: our own descriptor, used nowhere else.
    unsafe { libc::close(folder) };
}

/// Buffer for directory entries, aligned as the kernel writes them.
#[repr(align(8))]
struct Entries([u8; 2048]);

fn next_entries(folder: RawFd, entries: &mut Entries) -> Option<&[u8]> {
    let room = entries.0.len();
    // SAFETY: writes at most `room` bytes into `entries`.
    let got = unsafe {
        libc::syscall(libc::SYS_getdents64, c_long::from(folder), entries.0.as_mut_ptr(), room as c_long)
    };
    usize::try_from(got).ok().filter(|got| *got > 0).and_then(|got| entries.0.get(..got))
}

fn close_if_private(fd: RawFd) {
    // SAFETY: only asks for flags.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    if flags >= 0 && flags & libc::FD_CLOEXEC != 0 {
        // SAFETY: the helper runs no code that owns this descriptor: it never returns to its maker's.
        unsafe { libc::close(fd) };
    }
}

/// The numeric names in a buffer of `linux_dirent64`.
///
/// # Source
///
/// `getdents64(2)`: inode 8 bytes, offset 8, record length 2, type 1, name with NUL.
fn numbers(mut bytes: &[u8]) -> impl Iterator<Item = RawFd> {
    std::iter::from_fn(move || {
        loop {
            let length = usize::from(u16::from_ne_bytes([*bytes.get(16)?, *bytes.get(17)?]));
            let record = bytes.get(..length).filter(|record| record.len() > 19)?;
            bytes = bytes.get(length..)?;
            if let Some(number) = decimal(record.get(19..)?) {
                return Some(number);
            }
        }
    })
}

fn decimal(name: &[u8]) -> Option<RawFd> {
    let digits = name.split(|byte| *byte == 0).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str) -> Vec<u8> {
        let length = (19 + name.len() + 1).next_multiple_of(8);
        let mut bytes = vec![0; length];
        bytes[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        bytes[19..19 + name.len()].copy_from_slice(name.as_bytes());
        bytes
    }

    #[test]
    fn numbers_are_found_between_dots() {
        let buffer = [record("."), record(".."), record("0"), record("1234567")].concat();
        assert_eq!(numbers(&buffer).collect::<Vec<_>>(), [0, 1_234_567]);
    }

    #[test]
    fn a_broken_buffer_ends_the_list() {
        let whole = record("5");
        assert_eq!(numbers(&whole[..whole.len() - 1]).count(), 0);
        assert_eq!(numbers(&[0; 64]).count(), 0);
    }
}
