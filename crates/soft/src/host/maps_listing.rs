//! The program's view of `/proc/self/maps`, without the code cache.
//!
//! Many programs read this file when they start, to find their stack. With the code cache they would execute
//! more instructions. While the file is open, the tracer answers its reads, in the portions that the kernel
//! would return.
//!
//! The kernel's own offset stays 0 meanwhile. Another offset, or another file at the descriptor, shows an
//! operation that the tracer did not see, and ends the view. Read, close and rewind are answered. For any
//! other operation the tracer seeks the kernel's file to the program's offset; from there on the program
//! reads the kernel's list.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::remote_syscalls::number;

/// The kernel's buffer for such files, in bytes.
///
/// # Source
///
/// Linux `fs/seq_file.c`, `seq_read_iter`: a page; what does not leave a byte of it free waits for the next
/// portion.
const BUFFER: usize = 4096;

/// Other calls with a descriptor, perhaps with that of the list.
pub(super) const OTHER_USES: [u64; 12] = [
    number::PREAD64,
    number::READV,
    number::DUP,
    number::DUP2,
    number::SENDFILE,
    number::FCNTL,
    number::SPLICE,
    number::DUP3,
    number::PREADV,
    number::COPY_FILE_RANGE,
    number::PREADV2,
    number::CLOSE_RANGE,
];

/// A list that a process reads.
pub(crate) struct MapsListing {
    pub(super) descriptor: u64,
    /// Device and number of the file.
    pub(super) file: (u64, u64),
    /// Address of the next line that was not read.
    next: u64,
    /// The rest of the last portion, which was not read yet.
    rest: Vec<u8>,
    /// Bytes that the program has got.
    given: usize,
}

impl MapsListing {
    pub(super) fn new(descriptor: u64, file: (u64, u64)) -> MapsListing {
        MapsListing { descriptor, file, next: 0, rest: Vec::new(), given: 0 }
    }

    /// Whether a system call's argument is the descriptor. The kernel uses 32 bits of it.
    pub(super) fn is(&self, argument: u64) -> bool {
        argument & 0xffff_ffff == self.descriptor
    }

    /// Whether one of [`OTHER_USES`] uses or replaces the descriptor.
    ///
    /// # Source
    ///
    /// `fcntl(2)`; Linux `include/uapi/linux/fcntl.h`.
    pub(super) fn is_used_by(&self, call: u64, [first, second]: [u64; 2]) -> bool {
        const F_DUPFD: u64 = 0;
        const F_DUPFD_CLOEXEC: u64 = 1030;
        match call & 0xffff_ffff {
            number::CLOSE_RANGE => (first & 0xffff_ffff..=second & 0xffff_ffff).contains(&self.descriptor),
            number::DUP2 | number::DUP3 => self.is(first) || self.is(second),
            number::SENDFILE => self.is(second),
            number::FCNTL => self.is(first) && matches!(second & 0xffff_ffff, F_DUPFD | F_DUPFD_CLOEXEC),
            _ => self.is(first),
        }
    }

    /// Whether the descriptor still is that of the list, and was not read natively.
    pub(super) fn is_untouched(&self, tid: u32) -> bool {
        file_of(tid, self.descriptor) == Some(self.file) && position(tid, self.descriptor) == Some(0)
    }

    /// The offset in the kernel's list, which has the mappings of the code cache, behind the text that the
    /// program has read.
    pub(super) fn kernel_offset(&self, text: &str, is_ours: impl Fn(u64, u64) -> bool) -> usize {
        let (mut left, mut offset) = (self.given, 0);
        for line in text.split_inclusive('\n') {
            let ours = range(line).is_some_and(|(start, end)| is_ours(start, end));
            if !ours && line.len() > left {
                break;
            }
            left -= if ours { 0 } else { line.len() };
            offset += line.len();
        }
        offset + left
    }

    /// The next bytes, at most `size`. `text` is the whole list; `is_ours` selects the mappings to leave out.
    pub(super) fn read(&mut self, size: usize, text: &str, is_ours: impl Fn(u64, u64) -> bool) -> Vec<u8> {
        let bytes = self.portion(size, text, is_ours);
        self.given += bytes.len();
        bytes
    }

    fn portion(&mut self, size: usize, text: &str, is_ours: impl Fn(u64, u64) -> bool) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.rest.drain(..self.rest.len().min(size)).collect();
        if !self.rest.is_empty() || bytes.len() == size {
            return bytes;
        }
        let mut portion: Vec<u8> = Vec::new();
        for line in text.split_inclusive('\n') {
            let Some((start, end)) = range(line) else { continue };
            if start < self.next || is_ours(start, end) {
                continue;
            }
            let full = portion.len() >= size - bytes.len();
            if full || (!portion.is_empty() && portion.len() + line.len() >= BUFFER) {
                break;
            }
            portion.extend_from_slice(line.as_bytes());
            self.next = end;
        }
        let now = portion.len().min(size - bytes.len());
        self.rest = portion.split_off(now);
        bytes.extend(portion);
        bytes
    }
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// Device and number of an open file.
pub(super) fn file_of(tid: u32, descriptor: u64) -> Option<(u64, u64)> {
    let metadata = fs::metadata(format!("/proc/{tid}/fd/{descriptor}")).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The kernel's offset into an open file.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/fdinfo`: `pos`, in decimal.
fn position(tid: u32, descriptor: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/fdinfo/{descriptor}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("pos:"))?.trim().parse().ok()
}

/// The result of a system call that was refused.
pub(super) fn refusal(error: &io::Error) -> u64 {
    -i64::from(error.raw_os_error().unwrap_or(cyclometer_sys::process::errno::EACCES)) as u64
}

/// Calls that are watched while a list is open.
pub(super) fn of_listings() -> impl Iterator<Item = u64> {
    [number::READ, number::CLOSE, number::LSEEK].into_iter().chain(OTHER_USES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        (0..200)
            .map(|i| format!("{:08x}-{:08x} r--p 0 00:00 0 /lib/{i}\n", i * 0x2000, i * 0x2000 + 0x1000))
            .collect()
    }

    fn read_all(size: usize, ours: &dyn Fn(u64, u64) -> bool) -> (Vec<usize>, String) {
        let (mut listing, mut sizes, mut all) = (MapsListing::new(3, (1, 2)), Vec::new(), Vec::new());
        loop {
            let bytes = listing.read(size, &text(), ours);
            if bytes.is_empty() {
                return (sizes, String::from_utf8(all).unwrap());
            }
            sizes.push(bytes.len());
            all.extend(bytes);
        }
    }

    #[test]
    fn small_reads_are_filled_and_large_ones_end_with_a_line() {
        let whole = text();
        let (sizes, all) = read_all(1024, &|_, _| false);
        assert_eq!(all, whole);
        assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 1024), "{sizes:?}");
        let (sizes, all) = read_all(1 << 20, &|_, _| false);
        assert_eq!(all, whole);
        assert!(sizes.iter().all(|size| *size < BUFFER) && sizes[0] > BUFFER - 60, "{sizes:?}");
    }

    #[test]
    fn mappings_of_the_code_cache_are_left_out() {
        let (_, all) = read_all(100, &|start, _| start == 0x4000);
        assert_eq!(all, text().replace("00004000-00005000 r--p 0 00:00 0 /lib/2\n", ""));
    }

    #[test]
    fn the_kernels_list_goes_on_where_ours_ends() {
        let (text, ours) = (text(), |start: u64, _| start == 0 || start == 0x4000);
        let mut listing = MapsListing::new(3, (1, 2));
        assert_eq!(listing.kernel_offset(&text, ours), text.find("00002000").unwrap());
        let mut got = listing.read(100, &text, ours);
        for size in [1, 30, 5000] {
            let offset = listing.kernel_offset(&text, ours);
            let rest: String =
                text[offset..].split_inclusive('\n').filter(|line| !line.ends_with("/2\n")).collect();
            let (_, all) = read_all(1 << 20, &ours);
            assert_eq!(String::from_utf8(got.clone()).unwrap() + &rest, all);
            got.extend(listing.read(size, &text, ours));
        }
    }

    #[test]
    fn calls_that_use_the_descriptor_are_known_by_their_arguments() {
        let listing = MapsListing::new(7, (1, 2));
        let check = |call, first, second, expected| {
            assert_eq!(listing.is_used_by(call, [first, second]), expected, "{call} {first} {second}");
        };
        check(number::CLOSE_RANGE, 3, 0xffff_ffff, true);
        check(number::CLOSE_RANGE, 8, 0xffff_ffff, false);
        check(number::DUP2, 7, 9, true);
        check(number::DUP3, 9, 7, true);
        check(number::DUP, 9, 7, false);
        check(number::READV, 0xf_0000_0007, 0, true);
        check(number::SENDFILE, 7, 1, false);
        check(number::SENDFILE, 1, 7, true);
        check(number::FCNTL, 7, 0, true);
        check(number::FCNTL, 7, 1, false);
        check(number::FCNTL, 7, 1030, true);
    }
}
