//! Memory directly from the kernel, for the helper, which must not use the allocator.
//!
//! The process of a command shares the helper's memory until it executes (`CLONE_VM`), which avoids copying.
//! Its stack, pointers and strings are in a [`SpawnMemory`], which is reused when the process no longer uses
//! it.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_char, c_int};

use super::message::RequestHeader;
use crate::process::image::{Image, last_errno};
use crate::process::name_of;

/// The offset of the note, after the word that the kernel clears.
const NOTE_OFFSET: usize = 64;

/// Size of the word and the note; a multiple of 64, so that the stack is aligned.
const FRONT_BYTES: usize = 256;

/// Stack of a process between clone and exec: a few small frames.
const STACK_BYTES: usize = 64 * 1024;

/// The memory that a process needs before it executes: a word, a note, the stack, the pointers of an
/// [`Image`], the strings.
#[derive(Debug)]
pub(super) struct SpawnMemory {
    start: *mut libc::c_void,
    length: usize,
    header: RequestHeader,
}

/// Size of a region for a request, in bytes.
fn needed(header: RequestHeader) -> usize {
    let table = table_length(header) * size_of::<*const c_char>();
    FRONT_BYTES + STACK_BYTES + table + header.bytes as usize
}

impl SpawnMemory {
    /// Maps memory for a request.
    pub(super) fn for_request(header: RequestHeader) -> Result<SpawnMemory, c_int> {
        let length = needed(header).next_multiple_of(64 * 1024);
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping, which replaces no other; the length is not zero.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(SpawnMemory { start, length, header })
    }

    /// Prepares the region for another request; false where the request does not fit.
    pub(super) fn take(&mut self, header: RequestHeader) -> bool {
        let fits = needed(header) <= self.length;
        if fits {
            self.header = header;
        }
        fits
    }

    /// The word that is not zero while a process uses the region.
    pub(super) fn word(&self) -> &AtomicU32 {
        // SAFETY: the mapping is aligned to a page and longer than a word, and lives as long as `self`.
        unsafe { AtomicU32::from_ptr(self.start.cast()) }
    }

    /// Stores a note for the process that is going to use the region; returns its address.
    pub(super) fn leave_note<T: Copy>(&mut self, note: T) -> *mut libc::c_void {
        const { assert!(size_of::<T>() <= FRONT_BYTES - NOTE_OFFSET && align_of::<T>() <= 64) };
        // SAFETY: the mapping is longer than the front.
        let place = unsafe { self.start.add(NOTE_OFFSET) };
        // SAFETY: there is room for the note, aligned, and no process uses it.
        unsafe { place.cast::<T>().write(note) };
        place
    }

    /// Whether no process uses the region.
    pub(super) fn is_idle(&self) -> bool {
        // ATOMICS: the kernel stores zero when the process has left this memory, and wakes through the same
        // memory barrier that ends its use (`mm_release`, `CLONE_CHILD_CLEARTID`); acquire pairs with it.
        self.word().load(Ordering::Acquire) == 0
    }

    /// The end of the stack, from which it grows down; aligned to 64 bytes.
    pub(super) fn stack_top(&self) -> *mut libc::c_void {
        // SAFETY: the mapping is longer than the word and the stack.
        unsafe { self.start.add(FRONT_BYTES + STACK_BYTES) }
    }

    /// The buffer for the strings.
    pub(super) fn strings(&mut self) -> &mut [u8] {
        let table = self.table();
        // SAFETY: the mapping goes on behind the table, for `header.bytes`.
        let strings = unsafe { table.add(table_length(self.header)) }.cast::<u8>();
        // SAFETY: the mapping is readable, writable, initialised and borrowed mutably with `self`.
        unsafe { std::slice::from_raw_parts_mut(strings, self.header.bytes as usize) }
    }

    /// Fills the table with pointers to the strings; `None` when their number differs from the header's.
    pub(super) fn image(&mut self) -> Option<Image> {
        let header = self.header;
        let table = self.table();
        let candidates = header.candidates as usize;
        let arguments = candidates + header.args as usize;
        let all = arguments + header.variables as usize;
        let mut found = 0;
        for string in self.strings().split_inclusive(|byte| *byte == 0) {
            if string.last() != Some(&0) || found >= all {
                return None;
            }
            // Each array is followed by a null pointer.
            let place = found + usize::from(found >= candidates) + usize::from(found >= arguments);
            put(table, place, string.as_ptr().cast());
            found += 1;
        }
        put(table, candidates, std::ptr::null());
        put(table, arguments + 1, std::ptr::null());
        if found < all {
            return None;
        }
        // SAFETY: the table has `candidates + args + 2` entries at least.
        let argv = unsafe { table.add(candidates + 1) };
        let environment = if header.variables > 0 { self.environment() } else { std::ptr::null() };
        let candidates = table.cast_const();
        Some(Image { candidates, argv: argv.cast_const(), environment })
    }

    /// Completes the array of variables, which already has the new ones, with our own of other names.
    fn environment(&mut self) -> *const *const c_char {
        let (table, header) = (self.table(), self.header);
        let start = header.candidates as usize + header.args as usize + 2;
        let added = header.variables as usize;
        let mut place = start + added;
        // SAFETY: the table goes on behind the two first arrays, as there are variables.
        let first = unsafe { table.add(start) };
        // SAFETY: `image` wrote so many entries there, and no code writes to them while this slice lives.
        let new = unsafe { std::slice::from_raw_parts(first.cast_const(), added) };
        // SAFETY: `image` has seen the zero at the end of each, and they stay in the region while it is
        // borrowed.
        let is_named = |new: &*const c_char, own| unsafe { name(*new) } == own;
        for variable in own_environment() {
            // SAFETY: a C string of our environment, which the helper never changes.
            let own = unsafe { name(variable) };
            if new.iter().any(|new| is_named(new, own)) {
                continue;
            }
            put(table, place, variable);
            place += 1;
        }
        put(table, place, std::ptr::null());
        first.cast_const()
    }

    fn table(&self) -> *mut *const c_char {
        self.stack_top().cast()
    }
}

/// Writes entry `place` of a table with more entries than that.
fn put(table: *mut *const c_char, place: usize, string: *const c_char) {
    // SAFETY: the caller keeps `place` below the table's length.
    let entry = unsafe { table.add(place) };
    // SAFETY: the entry lies in a region and is aligned, as the table starts at a multiple of 64.
    unsafe { entry.write(string) };
}

/// The name of a variable.
///
/// # Safety
///
/// `variable` is a C string that is neither changed nor freed for `'a`.
unsafe fn name<'a>(variable: *const c_char) -> &'a [u8] {
    // SAFETY: the caller promises it.
    let variable = unsafe { std::ffi::CStr::from_ptr(variable) };
    name_of(variable.to_bytes())
}

impl Drop for SpawnMemory {
    fn drop(&mut self) {
        // SAFETY: our own mapping; the pool drops only regions that no process uses.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// Number of entries of the table: two arrays, each with a null pointer after it. If variables are added, the
/// whole environment follows.
fn table_length(header: RequestHeader) -> usize {
    let environment = match header.variables {
        0 => 0,
        added => added as usize + own_environment().count() + 1,
    };
    header.candidates as usize + header.args as usize + 2 + environment
}

unsafe extern "C" {
    /// The environment of this process: C strings, and a null pointer after them.
    ///
    /// # Source
    ///
    /// `environ(7)`.
    static environ: *const *const c_char;
}

/// The variables of this process. The helper never changes them.
fn own_environment() -> impl Iterator<Item = *const c_char> {
    // SAFETY: a word that the C library has set before `main`, and that the helper never writes.
    let mut next = unsafe { environ };
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: not past the null pointer that ends the array, or the iteration had ended.
        let variable = unsafe { *next };
        if variable.is_null() {
            next = std::ptr::null();
            return None;
        }
        // SAFETY: this entry was not the last.
        next = unsafe { next.add(1) };
        Some(variable)
    })
}

/// Number of processes that may be waiting to execute at the same time.
const POOL: usize = 64;

/// The regions, in use or available for the next request.
#[derive(Debug)]
pub(super) struct Pool([Option<SpawnMemory>; POOL]);

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool([const { None }; POOL])
    }

    /// An idle region that is large enough for a request.
    pub(super) fn region(&mut self, header: RequestHeader) -> Result<&mut SpawnMemory, c_int> {
        let idle = |slot: &&mut Option<SpawnMemory>| slot.as_ref().is_none_or(SpawnMemory::is_idle);
        let slot = self.0.iter_mut().find(idle).ok_or(libc::ENOBUFS)?;
        if !slot.as_mut().is_some_and(|region| region.take(header)) {
            *slot = Some(SpawnMemory::for_request(header)?);
        }
        slot.as_mut().ok_or(libc::ENOMEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(pool: &mut Pool, candidates: u32, args: u32, strings: &[u8]) -> Option<Vec<Vec<u8>>> {
        let bytes = strings.len() as u32;
        let header = RequestHeader { bytes, candidates, args, variables: 0, streams: 0, traced: 0 };
        let region = pool.region(header).unwrap();
        region.strings().copy_from_slice(strings);
        let image = region.image()?;
        Some([listed(image.candidates), listed(image.argv)].concat())
    }

    fn listed(mut array: *const *const c_char) -> Vec<Vec<u8>> {
        let mut list = Vec::new();
        loop {
            // SAFETY: the array ends with a null pointer, which ends the loop.
            let string = unsafe { *array };
            if string.is_null() {
                return list;
            }
            // SAFETY: a C string in a mapping that lives.
            list.push(unsafe { std::ffi::CStr::from_ptr(string) }.to_bytes().to_vec());
            // SAFETY: the element was not the last.
            array = unsafe { array.add(1) };
        }
    }

    #[test]
    fn the_two_arrays_hold_what_was_sent_also_in_a_region_used_before() {
        let mut pool = Pool::new();
        let expected: Vec<Vec<u8>> = vec![b"/bin/a".into(), b"/a".into(), b"a".into(), b"".into()];
        let long = [b"/x\0".as_slice(), &[b'y'; 200_000], b"\0z\0z\0z\0"].concat();
        for _ in 0..2 {
            assert_eq!(image_of(&mut pool, 2, 2, b"/bin/a\0/a\0a\0\0"), Some(expected.clone()));
            assert_eq!(image_of(&mut pool, 1, 4, &long).unwrap().len(), 5);
        }
    }

    #[test]
    fn strings_that_do_not_match_the_header_are_refused() {
        for (candidates, args, strings) in
            [(1, 1, &b"a\0"[..]), (1, 1, b"a\0b\0c\0"), (1, 1, b"a\0b"), (1, 0, b"")]
        {
            assert_eq!(image_of(&mut Pool::new(), candidates, args, strings), None, "{strings:?}");
        }
    }

    #[test]
    fn a_region_in_use_is_not_handed_out() {
        let mut pool = Pool::new();
        let header = RequestHeader { bytes: 4, candidates: 1, args: 1, variables: 0, streams: 0, traced: 0 };
        let busy = pool.region(header).unwrap();
        let first = busy.stack_top();
        busy.word().store(1, Ordering::Release);
        let second = pool.region(header).unwrap().stack_top();
        assert_ne!(first, second);
        pool.0[0].as_ref().unwrap().word().store(0, Ordering::Release);
        assert_eq!(pool.region(header).unwrap().stack_top(), first);
        pool.0.iter_mut().for_each(|slot| *slot = Some(SpawnMemory::for_request(header).unwrap()));
        pool.0.iter().flatten().for_each(|region| region.word().store(1, Ordering::Release));
        assert_eq!(pool.region(header).unwrap_err(), libc::ENOBUFS);
    }
}
