//! The code that the processes of a translation have in common.

use cyclometer_sys::trace;

use super::claims::{ClaimFit, CodeClaims, is_common};
use super::maps::{MemoryMapping, MemoryMaps};
use crate::translate::{PAGE, PageContent, Translation};

/// Most bytes of a program that are compared at a time.
const CHUNK: usize = 1 << 18;

/// The code that the processes of a translation have in common.
#[derive(Default)]
pub(super) struct SharedCode {
    pub(super) claims: CodeClaims,
    /// Whether other programs can share the translation. All code of its processes is claimed then.
    pub(super) open: bool,
    /// The only process that has added code, while no other shares the translation: it has all claimed code.
    pub(super) owner: Option<usize>,
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
pub(super) fn is_as_read(translation: &Translation, tid: u32, start: u64, end: u64) -> bool {
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
