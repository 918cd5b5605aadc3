//! Pages of memory that code is executed from, and advice about pages, by system calls of Linux.

use std::io::{Error, Result};

use crate::system::{MADVISE, MMAP, MPROTECT, MUNMAP, call, synchronise_code};

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const MADV_NOHUGEPAGE: usize = 15;

/// Code that can be executed, in a mapping of its own.
#[derive(Debug)]
pub(crate) struct ExecutablePages {
    start: usize,
    bytes: usize,
}

impl ExecutablePages {
    /// A mapping with pieces of code at their offsets. The pieces end before `bytes`.
    pub(crate) fn new(bytes: usize, pieces: &[(usize, Vec<u8>)]) -> Result<ExecutablePages> {
        let rw = PROT_READ | PROT_WRITE;
        // SAFETY: a new anonymous mapping overlaps nothing of this program.
        let start = succeeded(unsafe { call(MMAP, [0, bytes, rw, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]) })?;
        let pages = ExecutablePages { start, bytes };
        // Huge pages would hide the misses of TLBs. A kernel without them refuses, which is as good.
        // SAFETY: the mapping is ours, and the advice changes nothing in it.
        let _ = unsafe { call(MADVISE, [start, bytes, MADV_NOHUGEPAGE, 0, 0, 0]) };
        for (at, piece) in pieces {
            assert!(at + piece.len() <= bytes, "a piece of code ends behind its mapping");
            let to = (start + at) as *mut u8;
            // SAFETY: the piece ends within the mapping, which is writable and ours alone.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len()) };
        }
        // SAFETY: the mapping is ours, and nothing writes to it from here on.
        succeeded(unsafe { call(MPROTECT, [start, bytes, PROT_READ | PROT_EXEC, 0, 0, 0]) })?;
        for (at, piece) in pieces {
            synchronise_code(start + at, piece.len());
        }
        Ok(pages)
    }

    /// The address of an offset.
    pub(crate) fn address(&self, offset: usize) -> usize {
        self.start + offset
    }
}

impl Drop for ExecutablePages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its code is executed only while this value is borrowed.
        let _ = unsafe { call(MUNMAP, [self.start, self.bytes, 0, 0, 0, 0]) };
    }
}

/// Asks for small pages in words that were not touched yet.
pub(crate) fn without_huge_pages(words: &mut [usize], page_bytes: usize) {
    let start = (words.as_ptr() as usize).next_multiple_of(page_bytes);
    let end = (words.as_ptr() as usize + size_of_val(words)) / page_bytes * page_bytes;
    if start < end {
        // SAFETY: the pages are within the words, which are borrowed, and the advice changes nothing in them.
        let _ = unsafe { call(MADVISE, [start, end - start, MADV_NOHUGEPAGE, 0, 0, 0]) };
    }
}

fn succeeded(result: isize) -> Result<usize> {
    match result {
        -4095..0 => Err(Error::from_raw_os_error(-result as i32)),
        address => Ok(address as usize),
    }
}
