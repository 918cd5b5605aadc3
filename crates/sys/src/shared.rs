//! Memory that other processes read and write at the same time.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use libc::off_t;

use crate::tracer_call::NeededBytes;

/// A part of a file that is mapped for reading and writing, shared with other processes that map it.
///
/// Other processes may change any byte at any time. The values read are therefore not trusted, and no
/// reference into the mapping is ever returned. Every access consists of atomic ones, of 8 bytes where
/// possible, so that a race yields an old or a new value.
///
/// Pages that were never written take no memory and no reserved memory of the system.
///
/// A process that shortens the file removes the memory, and an access then raises `SIGBUS`. [`seal_size`]
/// prevents that for files created by [`memory_file`].
///
/// # Source
///
/// `mmap(2)`, `MAP_SHARED`, `MAP_NORESERVE`.
#[derive(Debug)]
pub struct SharedMemory {
    start: *mut u8,
    len: usize,
}

// SAFETY: the mapping belongs to no thread; it stays until it is dropped.
unsafe impl Send for SharedMemory {}
// SAFETY: every access is atomic, and no references are handed out.
unsafe impl Sync for SharedMemory {}

/// Size of the words that are accessed atomically, in bytes.
const WORD: usize = size_of::<u64>();

impl SharedMemory {
    /// Maps `len` bytes of a file from `offset` on; the descriptor can be closed afterwards.
    ///
    /// # Errors
    ///
    /// The operating system's: `EINVAL` when `offset` is not a multiple of the page size, or `len` is zero;
    /// `InvalidInput` when the file ends before the mapping does.
    pub fn map(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<SharedMemory> {
        let end = offset.checked_add(len as u64).ok_or(io::ErrorKind::InvalidInput)?;
        if end > file_length(fd)? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let offset = off_t::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_SHARED | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses: of no memory of ours.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, fd.as_raw_fd(), offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SharedMemory { start: start.cast(), len })
    }

    /// The length in bytes; never zero.
    #[allow(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Writes bytes at `offset`, from the first to the last.
    ///
    /// # Panics
    ///
    /// If they exceed the mapping, as for an index out of the bounds of a slice.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        let (head, words) = bytes.split_at(bytes.len().min(self.unaligned(offset)));
        let (words, tail) = words.as_chunks::<WORD>();
        let middle = offset + head.len();
        self.write_bytes(offset, head);
        for (place, word) in (middle..).step_by(WORD).zip(words) {
            self.word(place).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
        }
        self.write_bytes(middle + size_of_val(words), tail);
    }

    /// Reads bytes at `offset`, from the first to the last.
    ///
    /// # Panics
    ///
    /// As [`SharedMemory::write`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        let (head, words) = bytes.split_at_mut(bytes.len().min(self.unaligned(offset)));
        let (words, tail) = words.as_chunks_mut::<WORD>();
        let middle = offset + head.len();
        self.read_bytes(offset, head);
        for (place, word) in (middle..).step_by(WORD).zip(words.iter_mut()) {
            *word = self.word(place).load(Ordering::Relaxed).to_ne_bytes();
        }
        self.read_bytes(middle + size_of_val(words), tail);
    }

    /// Reads words from `offset` on, from the first to the last.
    ///
    /// # Panics
    ///
    /// As [`SharedMemory::store`], for any of them.
    pub fn read_words(&self, offset: usize, words: &mut [u64]) {
        self.check_word(offset);
        self.check(offset, size_of_val(words));
        for (place, word) in (offset..).step_by(WORD).zip(words) {
            *word = self.word(place).load(Ordering::Relaxed);
        }
    }

    /// Stores a word atomically, after all earlier writes of this thread to this memory.
    ///
    /// # Panics
    ///
    /// If it exceeds the mapping, or `offset` is not a multiple of 8.
    pub fn store(&self, offset: usize, word: u64) {
        self.check_word(offset);
        // ATOMICS: pairs with the loads of other processes, which see what was written before it.
        self.word(offset).store(word, Ordering::Release);
    }

    /// Loads a word atomically, before all later reads of this thread from this memory.
    ///
    /// # Panics
    ///
    /// As [`SharedMemory::store`].
    pub fn load(&self, offset: usize) -> u64 {
        self.check_word(offset);
        // ATOMICS: pairs with the stores of other processes.
        self.word(offset).load(Ordering::Acquire)
    }

    /// Adds to a word atomically, and returns its former value; it wraps around.
    ///
    /// # Panics
    ///
    /// As [`SharedMemory::store`].
    pub fn fetch_add(&self, offset: usize, add: u64) -> u64 {
        self.check_word(offset);
        // ATOMICS: pairs with the same operation of other processes: each gets another number.
        self.word(offset).fetch_add(add, Ordering::AcqRel)
    }

    /// Stores `word` `count` times, from `offset` on.
    ///
    /// # Panics
    ///
    /// As [`SharedMemory::store`].
    pub fn fill(&self, offset: usize, count: usize, word: u64) {
        assert!(offset.is_multiple_of(WORD), "offset {offset} of a word is not a multiple of {WORD}");
        let bytes = count.saturating_mul(WORD);
        self.check(offset, bytes);
        self.provide(offset, bytes);
        for place in (offset..).step_by(WORD).take(count) {
            self.word(place).store(word, Ordering::Relaxed);
        }
    }

    /// Makes the kernel provide the pages of a long range at once; otherwise the first write to each page
    /// would cause a fault. Before Linux 5.14 this is not possible, and the writes provide the pages.
    ///
    /// # Source
    ///
    /// `madvise(2)`; Linux `include/uapi/asm-generic/mman-common.h`.
    fn provide(&self, offset: usize, len: usize) {
        const MADV_POPULATE_WRITE: libc::c_int = 23;
        const PAGE: usize = 4096;
        if len < 4 * PAGE {
            return;
        }
        let (first, end) = (offset / PAGE * PAGE, (offset + len).min(self.len));
        let start = self.start.wrapping_add(first);
        // SAFETY: the range is in the mapping, whose content does not change: its pages are only provided.
        unsafe { libc::madvise(start.cast(), end - first, MADV_POPULATE_WRITE) };
    }

    fn check(&self, offset: usize, len: usize) {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(fits, "{len} bytes at {offset} lie outside of a mapping of {} bytes", self.len);
    }

    fn check_word(&self, offset: usize) {
        assert!(offset.is_multiple_of(WORD), "offset {offset} of a word is not a multiple of {WORD}");
        self.check(offset, WORD);
    }

    /// Number of bytes from `offset` to the next word; the mapping itself begins with one.
    fn unaligned(&self, offset: usize) -> usize {
        offset.wrapping_neg() % WORD
    }

    fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        for (place, byte) in (offset..).zip(bytes) {
            self.byte(place).store(*byte, Ordering::Relaxed);
        }
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) {
        for (place, byte) in (offset..).zip(bytes) {
            *byte = self.byte(place).load(Ordering::Relaxed);
        }
    }

    /// A word that the caller has checked to be inside, at a multiple of its size.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(WORD) && offset + WORD <= self.len);
        // SAFETY: the callers have checked that the word lies in the mapping.
        let place = unsafe { self.start.add(offset) };
        // SAFETY: aligned, as the mapping is to a page; it lives as long as `self`, and we access it
        // atomically only.
        unsafe { AtomicU64::from_ptr(place.cast()) }
    }

    /// A byte that the caller has checked to be inside.
    fn byte(&self, offset: usize) -> &AtomicU8 {
        debug_assert!(offset < self.len);
        // SAFETY: the callers have checked that the byte lies in the mapping.
        let place = unsafe { self.start.add(offset) };
        // SAFETY: it lives as long as `self`, and we access it atomically only.
        unsafe { AtomicU8::from_ptr(place) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which no references exist.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Creates an empty file in memory, which disappears with its last descriptor and mapping; closed at exec.
/// Its name is visible only in `/proc`.
///
/// # Errors
///
/// The operating system's; `InvalidInput` when the name contains a NUL byte.
///
/// # Source
///
/// `memfd_create(2)`.
pub fn memory_file(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: `name` ends in zero.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made `fd` for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the length of a file to `len` bytes; added bytes are zero and take no memory yet. A lower limit on
/// the size of files is raised for the call as far as permitted. Users do not mean such memory by that limit.
///
/// # Errors
///
/// `FileTooLarge`, with a text that names the limit, where it is too low and may not be raised; the operating
/// system's: `EPERM` for a sealed file.
///
/// # Source
///
/// `ftruncate(2)`; `setrlimit(2)`, `RLIMIT_FSIZE`.
pub fn set_len(fd: BorrowedFd<'_>, len: u64) -> io::Result<()> {
    let size = off_t::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
    let _raised = FileSizeLimit::allow(len).map_err(|error| too_long(len).unwrap_or(error))?;
    // SAFETY: takes numbers.
    done(unsafe { libc::ftruncate(fd.as_raw_fd(), size) })
}

/// The error for files of `len` bytes under a limit that may not be raised.
fn too_long(len: u64) -> io::Result<io::Error> {
    let (limit, len) = (FileSizeLimit::current()?.rlim_max >> 10, NeededBytes(len));
    let text = format!(
        "files are limited to {limit} KiB (RLIMIT_FSIZE), and {len} of memory are needed: start it with a higher \
         `ulimit -f`"
    );
    Ok(io::Error::new(io::ErrorKind::FileTooLarge, text))
}

/// A limit on the size of files that was raised, and is restored when this is dropped.
pub(crate) struct FileSizeLimit(libc::rlimit);

impl FileSizeLimit {
    /// Permits this process files of `len` bytes; `None` where they are already permitted. Beyond the limit
    /// the kernel would not only refuse, but send a signal that ends the process. Allocates no memory.
    pub(crate) fn allow(len: u64) -> io::Result<Option<FileSizeLimit>> {
        let before = FileSizeLimit::current()?;
        if before.rlim_cur >= len {
            return Ok(None);
        }
        let wanted = libc::rlimit { rlim_cur: len, rlim_max: before.rlim_max.max(len) };
        FileSizeLimit::set(&wanted)?;
        Ok(Some(FileSizeLimit(before)))
    }

    /// The limit as it is. Allocates no memory.
    pub(crate) fn current() -> io::Result<libc::rlimit> {
        let mut limit = std::mem::MaybeUninit::<libc::rlimit>::zeroed();
        // SAFETY: writes one rlimit.
        done(unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, limit.as_mut_ptr()) })?;
        // SAFETY: the call succeeded and wrote the limit.
        Ok(unsafe { limit.assume_init() })
    }

    fn set(limit: &libc::rlimit) -> io::Result<()> {
        // SAFETY: reads one rlimit.
        done(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, limit) })
    }
}

impl Drop for FileSizeLimit {
    fn drop(&mut self) {
        // Lowering a limit is always allowed.
        let _ = FileSizeLimit::set(&self.0);
    }
}

/// Sets a range of a file to zero, and releases its memory.
///
/// # Errors
///
/// The operating system's: `EOPNOTSUPP` where the file system does not support it.
///
/// # Source
///
/// `fallocate(2)`, `FALLOC_FL_PUNCH_HOLE`.
pub fn clear(fd: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<()> {
    let number =
        |number: u64| off_t::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (offset, len) = (number(offset)?, number(len)?);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: takes numbers.
    done(unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset, len) })
}

/// Fixes the length of a file created by [`memory_file`], permanently and for all processes.
///
/// # Errors
///
/// The operating system's: `EINVAL` for files of other kinds.
///
/// # Source
///
/// `fcntl(2)`, `F_ADD_SEALS`.
pub fn seal_size(fd: BorrowedFd<'_>) -> io::Result<()> {
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes a number.
    done(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) })
}

/// The length of a file in bytes.
fn file_length(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut raw = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: writes one `stat`.
    done(unsafe { libc::fstat(fd.as_raw_fd(), raw.as_mut_ptr()) })?;
    // SAFETY: the call succeeded and wrote the struct.
    let stat = unsafe { raw.assume_init() };
    Ok(stat.st_size.try_into().unwrap_or(0))
}

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::panic::catch_unwind;

    const LEN: usize = 8192;

    /// Two mappings of one file.
    fn pair() -> [SharedMemory; 2] {
        let file = memory_file("cyclometer-test").unwrap();
        set_len(file.as_fd(), LEN as u64).unwrap();
        [(); 2].map(|()| SharedMemory::map(file.as_fd(), 0, LEN).unwrap())
    }

    #[test]
    fn what_one_mapping_writes_the_other_reads_whatever_the_alignment() {
        let [a, b] = pair();
        for offset in 0..9 {
            for len in 0..40 {
                a.fill(0, 10, u64::MAX);
                let written: Vec<u8> = (1..=len).collect();
                a.write(offset, &written);
                let mut all = [0; 80];
                b.read(0, &mut all);
                let mut expected = [0xff; 80];
                expected[offset..offset + written.len()].copy_from_slice(&written);
                assert_eq!(all, expected, "{offset} {len}");
                let mut part = vec![0; written.len()];
                b.read(offset, &mut part);
                assert_eq!(part, written);
            }
        }
        let mut words = [0; 2];
        b.read_words(8, &mut words);
        let mut bytes = [0; 16];
        b.read(8, &mut bytes);
        assert_eq!(words.map(u64::to_ne_bytes).concat(), bytes);
    }

    #[test]
    fn what_is_cleared_is_zero_for_everybody() {
        let file = memory_file("cyclometer-test").unwrap();
        set_len(file.as_fd(), LEN as u64).unwrap();
        seal_size(file.as_fd()).unwrap();
        let memory = SharedMemory::map(file.as_fd(), 0, LEN).unwrap();
        memory.fill(0, LEN / 8, u64::MAX);
        clear(file.as_fd(), 8, LEN as u64 - 16).unwrap();
        assert_eq!((memory.load(0), memory.load(8)), (u64::MAX, 0));
        assert_eq!((memory.load(LEN - 16), memory.load(LEN - 8)), (0, u64::MAX));
    }

    #[test]
    fn words_are_stored_and_filled() {
        let [a, b] = pair();
        a.store(LEN - 8, 0x0123_4567_89ab_cdef);
        assert_eq!(b.load(LEN - 8), 0x0123_4567_89ab_cdef);
        b.fill(16, 3, 7);
        assert_eq!([8, 16, 24, 32, 40].map(|offset| a.load(offset)), [0, 7, 7, 7, 0]);
        b.fill(LEN, 0, 7);
        assert_eq!((a.fetch_add(16, 3), b.fetch_add(16, u64::MAX), a.load(16)), (7, 10, 9));
        assert_eq!(a.len(), LEN);
    }

    #[test]
    fn a_mapping_may_begin_inside_a_file_and_outlives_its_descriptor() {
        let file = memory_file("cyclometer-test").unwrap();
        set_len(file.as_fd(), LEN as u64).unwrap();
        let whole = SharedMemory::map(file.as_fd(), 0, LEN).unwrap();
        let end = SharedMemory::map(file.as_fd(), 4096, 4096).unwrap();
        drop(file);
        whole.store(4104, 5);
        assert_eq!(end.load(8), 5);
    }

    #[test]
    fn what_lies_outside_panics() {
        let [a, _] = pair();
        let check = |access: &(dyn Fn() + std::panic::RefUnwindSafe)| assert!(catch_unwind(access).is_err());
        check(&|| a.write(LEN - 1, &[1, 2]));
        check(&|| a.read(LEN, &mut [0]));
        check(&|| a.read(usize::MAX, &mut [0, 0]));
        check(&|| a.read_words(LEN - 16, &mut [0; 3]));
        check(&|| a.read_words(4, &mut [0]));
        check(&|| a.store(LEN, 1));
        check(&|| a.store(4, 1));
        check(&|| assert_eq!(a.load(usize::MAX - 7), 0));
        check(&|| a.fill(LEN - 16, 3, 1));
        check(&|| a.fill(0, usize::MAX / 4, 1));
        check(&|| assert_eq!(a.fetch_add(LEN, 1), 0));
        check(&|| a.fill(1, 1, 1));
    }

    #[test]
    fn a_mapping_never_goes_beyond_its_file() {
        let file = memory_file("cyclometer-test").unwrap();
        set_len(file.as_fd(), 4096).unwrap();
        for (offset, len) in [(0, 4097), (4096, 1), (u64::MAX, 2), (0, 0), (1, 1)] {
            let error = SharedMemory::map(file.as_fd(), offset, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{offset} {len}");
        }
    }

    #[test]
    fn a_sealed_file_keeps_its_length() {
        let file = memory_file("cyclometer-test").unwrap();
        set_len(file.as_fd(), 4096).unwrap();
        seal_size(file.as_fd()).unwrap();
        for len in [0, 8192] {
            assert_eq!(set_len(file.as_fd(), len).unwrap_err().raw_os_error(), Some(libc::EPERM));
        }
        assert_eq!(file_length(file.as_fd()).unwrap(), 4096);
    }
}
