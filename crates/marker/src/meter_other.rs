//! Systems without counters to read.

use crate::board::{Counts, Sum};

pub(crate) fn has_more_rights_than_its_user() -> bool {
    true
}

pub(crate) fn here() -> (u32, u32) {
    (std::process::id(), 0)
}

#[derive(Debug)]
pub(crate) struct ProcessBirth;

impl ProcessBirth {
    pub(crate) fn now() -> ProcessBirth {
        ProcessBirth
    }

    pub(crate) fn is_here(&self) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct Meter(usize);

impl Meter {
    pub(crate) fn open(counters: &[Counts]) -> Meter {
        Meter(counters.len())
    }

    pub(crate) fn is_exact(&self) -> bool {
        false
    }

    pub(crate) fn read_for_begin(&mut self, _out: &mut [Sum]) {}

    pub(crate) fn read_for_end(&mut self, _out: &mut [Sum]) {}

    pub(crate) fn len(&self) -> usize {
        self.0
    }

    pub(crate) fn software(&self) -> impl Iterator<Item = usize> {
        std::iter::empty()
    }
}
