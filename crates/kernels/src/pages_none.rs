//! Systems whose system calls have no stable numbers: no code is made, and no advice given.

use std::convert::Infallible;
use std::io::{Error, ErrorKind, Result};

/// Code that can be executed: there is none.
#[derive(Debug)]
pub(crate) struct ExecutablePages(Infallible);

impl ExecutablePages {
    pub(crate) fn new(_: usize, _: &[(usize, Vec<u8>)]) -> Result<ExecutablePages> {
        Err(Error::from(ErrorKind::Unsupported))
    }

    pub(crate) fn address(&self, _: usize) -> usize {
        match self.0 {}
    }
}

pub(crate) fn without_huge_pages(_: &mut [usize], _: usize) {}
