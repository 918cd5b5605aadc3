//! The code that the processes of a translation have in common.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cyclometer_sys::trace;

use super::claims::{ClaimFit, CodeClaims, is_common};
use super::code_cache::CodeCacheMapping;
use super::maps::{MemoryMapping, MemoryMaps};
use crate::translate::{PAGE, PageContent, Translation};

/// Most bytes of a program that are compared at a time.
const CHUNK: usize = 1 << 18;

/// The code that the processes of a translation have in common.
#[derive(Default)]
pub(super) struct SharedCode {
    claims: CodeClaims,
    /// Whether other programs can share the translation. All code of its processes is claimed then.
    open: bool,
    /// The only process that has added code, while no other shares the translation: it has all claimed code.
    owner: Option<usize>,
}

/// The result of admitting a process that has mapped code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admission {
    /// It continues in the translation.
    Stays,
    /// It has other code than the translation.
    Diverges,
    /// It has code that no other process can have.
    Exclusive,
}

impl SharedCode {
    /// The code of a stored translation.
    pub(super) fn of(claims: CodeClaims) -> SharedCode {
        SharedCode { claims, open: true, owner: None }
    }

    /// The claims.
    pub(super) fn all(&self) -> &CodeClaims {
        &self.claims
    }

    /// Whether other programs can share it.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Closes it: no other program shares it, and no code is claimed from then on.
    pub(super) fn shut(&mut self) {
        self.open = false;
    }

    /// Another program shares it.
    pub(super) fn add_program(&mut self) {
        self.owner = None;
    }

    /// Whether other programs share it, or other processes than the first have added code.
    pub(super) fn is_used_by_others(&self) -> bool {
        self.open && self.owner.is_none()
    }

    /// Whether a process has all the code that is claimed.
    pub(super) fn is_all_of(&self, process: usize) -> bool {
        self.owner == Some(process)
    }

    /// Whether any code is claimed in a range.
    pub(super) fn claims(&self, start: u64, end: u64) -> bool {
        self.claims.overlap(start, end)
    }
}

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
        let read = pages.iter().filter(|(_, bytes)| bytes.is_some());
        read.into_iter().any(|(page, _)| !maps.executes(*page, page + PAGE))
    }

    /// Whether a mapping is neither a region nor the kernel's vsyscall page.
    fn is_foreign(&self, mapping: &MemoryMapping) -> bool {
        !is_kernels(mapping) && !self.is_region(mapping)
    }
}

/// Whether a mapping is the kernel's vsyscall page, which is never read.
///
/// # Source
///
/// Linux `arch/x86/entry/vsyscall/vsyscall_64.c`: its name.
pub(super) fn is_kernels(mapping: &MemoryMapping) -> bool {
    mapping.name == "[vsyscall]"
}

/// Whether all code of a new program is claimed, and equal to the code that was translated.
pub(super) fn has_claimed_code(
    translation: &Translation,
    claims: &CodeClaims,
    tid: u32,
    maps: &MemoryMaps,
) -> bool {
    let fits = |mapping: &MemoryMapping| {
        is_common(mapping)
            && claims.fit(mapping) == ClaimFit::Known
            && is_as_read(translation, tid, mapping.start, mapping.end)
    };
    maps.code().filter(|code| !is_kernels(code)).all(fits)
}

/// Whether every translated page of a range is unchanged in a process.
fn is_as_read(translation: &Translation, tid: u32, start: u64, end: u64) -> bool {
    let pages = translation.pages_in(start, end);
    let follows = |(page, _): &(u64, _), (next, _): &(u64, _)| page + PAGE == *next;
    let runs = pages.chunk_by(follows).flat_map(|run| run.chunks(CHUNK / PAGE as usize));
    let mut bytes = Vec::new();
    runs.into_iter().all(|run| {
        bytes.resize(run.len() * PAGE as usize, 0);
        let read = trace::read_memory(tid, run[0].0, &mut bytes).unwrap_or(0);
        let same = |(now, (_, then)): (&[u8], &(u64, Option<PageContent<'_>>))| {
            then.is_some_and(|then| then.is(now))
        };
        read == bytes.len() && bytes.chunks(PAGE as usize).zip(run).all(same)
    })
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
