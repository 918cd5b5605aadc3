//! Memory straight from the kernel, for the helper, which must not use the allocator.

use libc::{c_char, c_int};

use super::message::Header;
use crate::process::image::{Image, last_errno};

/// A mapping that holds the pointers of an [`Image`] and, behind them, the strings.
pub(super) struct Region {
    start: *mut libc::c_void,
    length: usize,
    header: Header,
}

impl Region {
    /// Maps room for a request.
    pub(super) fn for_request(header: Header) -> Result<Region, c_int> {
        let length = table_length(header) * size_of::<*const c_char>() + header.bytes as usize;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping, of nobody else's memory; the table is never empty.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(last_errno());
        }
        Ok(Region { start, length, header })
    }

    /// The room for the strings.
    pub(super) fn strings(&mut self) -> &mut [u8] {
        let table = self.table();
        // SAFETY: the mapping goes on behind the table, for `header.bytes`.
        let strings = unsafe { table.add(table_length(self.header)) }.cast::<u8>();
        // SAFETY: the mapping is readable, writable, initialised to zero and borrowed mutably with `self`.
        unsafe { std::slice::from_raw_parts_mut(strings, self.header.bytes as usize) }
    }

    /// Points the table at the strings; `None` when they are not as many as the header says.
    pub(super) fn image(&mut self) -> Option<Image> {
        let header = self.header;
        let table = self.table();
        let candidates = header.candidates as usize;
        let mut found = 0;
        for string in self.strings().split_inclusive(|byte| *byte == 0) {
            if string.last() != Some(&0) || found >= candidates + header.args as usize {
                return None;
            }
            // A null pointer stands between the two arrays.
            let place = if found < candidates { found } else { found + 1 };
            // SAFETY: `place` is below the table's length; `found` was just checked.
            let entry = unsafe { table.add(place) };
            // SAFETY: the entry lies in our mapping and is aligned, as the table starts at a page.
            unsafe { entry.write(string.as_ptr().cast()) };
            found += 1;
        }
        // SAFETY: the table has `candidates + args + 2` entries.
        let argv = unsafe { table.add(candidates + 1) };
        (found == candidates + header.args as usize)
            .then_some(Image { candidates: table.cast_const(), argv: argv.cast_const() })
    }

    fn table(&self) -> *mut *const c_char {
        self.start.cast()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: our own mapping; pointers into it were handed out to processes that have their copy.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// Entries of the table: two arrays, each with a null pointer behind it.
fn table_length(header: Header) -> usize {
    header.candidates as usize + header.args as usize + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_of(candidates: u32, args: u32, strings: &[u8]) -> Option<Vec<Vec<u8>>> {
        let header = Header { bytes: strings.len() as u32, candidates, args, streams: 0 };
        let mut region = Region::for_request(header).unwrap();
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
    fn the_two_arrays_hold_what_was_sent() {
        let expected: Vec<Vec<u8>> = vec![b"/bin/a".into(), b"/a".into(), b"a".into(), b"".into()];
        assert_eq!(image_of(2, 2, b"/bin/a\0/a\0a\0\0"), Some(expected));
    }

    #[test]
    fn strings_that_do_not_match_the_header_are_refused() {
        for (candidates, args, strings) in
            [(1, 1, &b"a\0"[..]), (1, 1, b"a\0b\0c\0"), (1, 1, b"a\0b"), (1, 0, b"")]
        {
            assert_eq!(image_of(candidates, args, strings), None, "{strings:?}");
        }
    }
}
