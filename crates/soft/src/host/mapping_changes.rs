//! Memory of code whose mapping a process keeps changing.
//!
//! # Problem
//!
//! A compiler at run time may keep its memory either writable or executable, and call `mprotect` around every
//! function that it makes. The translation of code that could not be written becomes invalid with each such
//! call, and all of it is replaced. The versions of code that *can* be written are compared with the
//! program's bytes before they are executed, and stay valid
//! ([`CodeStability::Changing`](crate::translate::CodeStability)).
//!
//! So a page whose code has made a translation invalid [`ENOUGH_OF_PAGE`] times is code that can change in
//! the next translation, and in all that follow. A process that has done it [`ENOUGH`] times is a compiler:
//! all of its code that is no file's can change from then on.
//!
//! A process that opens its own memory as a file (`/proc/self/mem`) can write to all of its code: all of it
//! can change from then on.
//!
//! # Invariant
//!
//! The changes that a translation expects stay as they were when it was made: a block may begin on a page
//! that was read before.

use std::rc::Rc;

use super::maps::{MemoryMapping, MemoryMaps};
use super::syscalls::MappingCall;
use crate::hash::AddressMap;

/// The invalidations after which the code of a page can change.
const ENOUGH_OF_PAGE: u8 = 2;

/// The invalidations after which all code that is no file's can change.
const ENOUGH: u32 = 4;

/// The calls of a process by which translations became invalid.
#[derive(Clone, Default)]
pub(crate) struct MappingChanges {
    by_page: AddressMap<u64, u8>,
    calls: u32,
    /// Whether the process can write to all of its memory, whatever its protection.
    all: bool,
}

impl MappingChanges {
    /// Whether a page, executable or not, is expected to change.
    pub(super) fn expects(&self, page: u64, maps: &MemoryMaps) -> bool {
        let often = self.by_page.get(&page).is_some_and(|count| *count >= ENOUGH_OF_PAGE);
        self.all || often || (self.calls >= ENOUGH && maps.at(page).is_some_and(MemoryMapping::is_anonymous))
    }

    /// A call changes pages whose code was translated as if it could not change.
    fn add(&mut self, pages: impl Iterator<Item = u64>) {
        let mut any = false;
        for page in pages {
            any = true;
            let count = self.by_page.entry(page).or_default();
            *count = count.saturating_add(1);
        }
        self.calls += u32::from(any);
    }
}

/// The changes that a translation expects, and those that the next one will.
#[derive(Default)]
pub(super) struct ChangeHistory {
    expected: Rc<MappingChanges>,
    seen: MappingChanges,
}

impl ChangeHistory {
    /// The history of the translation that follows.
    pub(super) fn next(&self) -> ChangeHistory {
        ChangeHistory { expected: Rc::new(self.seen.clone()), seen: self.seen.clone() }
    }

    /// All memory is expected to change, from the next translation on.
    pub(super) fn expect_all_next(&mut self) {
        self.seen.all = true;
    }

    /// Whether the translation expects changes of all memory.
    pub(super) fn expects_all(&self) -> bool {
        self.expected.all
    }

    /// A call makes the translation invalid: it changes these pages, whose code was translated as if it could
    /// not change. `maps` are the mappings before it.
    ///
    /// The code of files counts for `mprotect` only: a library that is unloaded makes room for another one,
    /// which is not written.
    pub(super) fn note(&mut self, call: &MappingCall, pages: Vec<u64>, maps: &MemoryMaps) {
        let is_anonymous = |page| maps.at(page).is_some_and(MemoryMapping::is_anonymous);
        self.seen.add(pages.into_iter().filter(|page| call.protects || is_anonymous(*page)));
    }

    /// The changes that the translation expects.
    pub(super) fn expected(&self) -> Rc<MappingChanges> {
        self.expected.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of a file, and pages of none.
    fn maps() -> MemoryMaps {
        let text = "1000-2000 r-xp 00000000 fe:00 1 /bin/x\n\
            2000-9000 rw-p 00000000 00:00 0 \n\
            9000-a000 r-xp 00000000 00:00 0 [vdso]\n";
        MemoryMaps::of(text)
    }

    #[test]
    fn a_page_that_was_changed_twice_is_expected_to_change() {
        let mut changes = MappingChanges::default();
        changes.add([0x1000].into_iter());
        assert!(!changes.expects(0x1000, &maps()), "once may be the end of it");
        changes.add([0x1000, 0x2000].into_iter());
        assert!(changes.expects(0x1000, &maps()));
        assert!(!changes.expects(0x2000, &maps()));
    }

    #[test]
    fn a_program_that_changed_many_pages_is_expected_to_change_all_that_are_no_files() {
        let mut changes = MappingChanges::default();
        (3..7).for_each(|page| changes.add([page << 12].into_iter()));
        assert!(changes.expects(0x8000, &maps()));
        for other in [0x1000, 0x9000, 0xb000] {
            assert!(!changes.expects(other, &maps()), "{other:#x}");
        }
    }

    #[test]
    fn a_translation_expects_what_was_seen_before_it() {
        let mut history = ChangeHistory::default();
        (0..2).for_each(|_| history.seen.add([0x1000].into_iter()));
        assert!(!history.expected().expects(0x1000, &maps()));
        assert!(history.next().expected().expects(0x1000, &maps()));
    }

    #[test]
    fn all_memory_of_a_process_that_can_write_to_it_is_expected_to_change() {
        let mut history = ChangeHistory::default();
        history.expect_all_next();
        assert!(!history.expects_all() && !history.expected().expects(0x1000, &maps()));
        let next = history.next();
        assert!(next.expects_all() && next.next().expects_all());
        assert!([0x1000, 0x9000, 0xb000].iter().all(|page| next.expected().expects(*page, &maps())));
    }

    #[test]
    fn calls_that_change_no_translated_code_are_not_counted() {
        let mut changes = MappingChanges::default();
        (0..100).for_each(|_| changes.add(std::iter::empty()));
        assert!(!changes.expects(0x8000, &maps()));
    }
}
