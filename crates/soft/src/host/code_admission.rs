//! Admission of code to a shared translation: whether a process has the code that was translated.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::claims::{ClaimFit, is_common};
use super::code_cache::CodeCacheMapping;
use super::maps::{MemoryMapping, MemoryMaps};
use super::shared_code::{Admission, has_claimed_code, is_as_read, is_kernels};
use crate::translate::PAGE;

impl CodeCacheMapping {
    /// Lets other programs share the translation, unless the process has code that no other process can have.
    pub(super) fn open_for(&mut self, process: usize, maps: &MemoryMaps) {
        let own = |mapping: &&MemoryMapping| self.is_foreign(mapping);
        let code: Vec<&MemoryMapping> = maps.code().filter(own).collect();
        if code.iter().all(|mapping| is_common(mapping)) {
            code.into_iter().for_each(|mapping| self.shared_code.claims.add(mapping));
            (self.shared_code.open, self.shared_code.owner) = (true, Some(process));
        }
    }

    /// Whether a new program can share the translation: all of its code is claimed.
    pub(super) fn is_suitable(&self, tid: u32, maps: &MemoryMaps) -> bool {
        let can_share = self.shared_code.open && self.has_slot() && !self.translation.is_full();
        can_share && has_claimed_code(&self.translation, &self.shared_code.claims, tid, maps)
    }

    /// Admits a process that has mapped code in these ranges, and has not executed any of it. `maps` are its
    /// mappings now.
    pub(super) fn admit(
        &mut self,
        tid: u32,
        process: usize,
        maps: &MemoryMaps,
        ranges: &[(u64, u64)],
    ) -> Admission {
        let new = |mapping: &&MemoryMapping| {
            let within = |(start, end): &(u64, u64)| mapping.start < *end && mapping.end > *start;
            self.is_foreign(mapping) && ranges.iter().any(within)
        };
        let new: Vec<&MemoryMapping> = maps.code().filter(new).collect();
        let other = |mapping: &&MemoryMapping| {
            self.overlaps(mapping.start, mapping.end)
                || self.shared_code.claims.fit(mapping) == ClaimFit::Other
                || !is_as_read(&self.translation, tid, mapping.start, mapping.end)
        };
        if new.iter().any(other) {
            return Admission::Diverges;
        }
        if !new.iter().all(|mapping| is_common(mapping) && is_as_in_file(tid, mapping)) {
            return Admission::Exclusive;
        }
        for mapping in new {
            if self.shared_code.claims.fit(mapping) == ClaimFit::New {
                self.shared_code.claims.add(mapping);
                self.shared_code.owner = self.shared_code.owner.filter(|owner| *owner == process);
            }
        }
        Admission::Stays
    }

    /// Whether code was taken from a page that a process cannot execute.
    pub(super) fn has_code_outside(&self, maps: &MemoryMaps) -> bool {
        let pages = self.translation.pages_in(0, u64::MAX);
        let fixed = |page: u64| self.translation.touches_fixed(page, page + PAGE);
        let read = pages.iter().filter(|(page, bytes)| bytes.is_some() && fixed(*page));
        read.into_iter().any(|(page, _)| !maps.executes(*page, page + PAGE))
    }

    /// Whether a mapping is neither a region nor the kernel's vsyscall page.
    fn is_foreign(&self, mapping: &MemoryMapping) -> bool {
        !is_kernels(mapping) && !self.is_region(mapping)
    }
}

/// Whether a process has never written to a mapping. Then its pages are the file's, and equal for every
/// process that maps it.
///
/// # Source
///
/// Linux `Documentation/admin-guide/mm/pagemap.rst`: a word for each page, whose bits 63 and 62 tell that it
/// is present or swapped out, and bit 61 that it is a file's.
fn is_as_in_file(tid: u32, mapping: &MemoryMapping) -> bool {
    const THERE: u64 = 0b11 << 62;
    const OF_FILE: u64 = 1 << 61;
    let pages = (mapping.end - mapping.start) / PAGE;
    let mut words = vec![0; 8 * pages as usize];
    let list = File::open(format!("/proc/{tid}/pagemap"));
    let read = list.and_then(|list| list.read_exact_at(&mut words, mapping.start / PAGE * 8));
    let clean = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        word & THERE == 0 || word & OF_FILE != 0
    };
    read.is_ok() && words.as_chunks().0.iter().all(clean)
}
