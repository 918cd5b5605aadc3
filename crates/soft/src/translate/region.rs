//! Memory of the program that holds translated code.

use super::marks::Marks;
use super::place::Mark;

/// Bytes of a region.
pub const REGION: u64 = 64 << 20;

/// How far a region may be from the code that is copied to it: what the code points to is up to 2 GB from itself.
const NEAR: u64 = 0x6000_0000;

/// Room that a batch may take: 400 instructions of less than 500 bytes each, with their stubs and thunks, and 2000
/// links of less than 64.
const RESERVE: u32 = 1 << 20;

/// Counters that a batch may take: one for each link, and less than ten for each instruction.
pub(crate) const COUNTER_RESERVE: u32 = 10_000;

/// A region and the marks of its code.
pub(crate) struct Region {
    base: u64,
    used: u32,
    /// The marks of each piece of code that was appended, ascending.
    marks: Vec<Marks>,
}

impl Region {
    pub(crate) fn new(base: u64, used: u32) -> Region {
        Region { base, used, marks: Vec::new() }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// How many bytes from its start are taken.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.base..self.base + REGION).contains(&address)
    }

    pub(crate) fn is_near(&self, address: u64) -> bool {
        self.base.abs_diff(address) < NEAR && (self.base + REGION).abs_diff(address) < NEAR
    }

    pub(crate) fn has_room(&self) -> bool {
        u64::from(self.used + RESERVE) <= REGION
    }

    /// Whether more than half of it is free.
    pub(crate) fn is_half_empty(&self) -> bool {
        u64::from(self.used) < REGION / 2
    }

    pub(crate) fn append(&mut self, bytes: u32, marks: Marks) {
        self.used += bytes;
        self.marks.extend((!marks.is_empty()).then_some(marks));
    }

    /// Every mark, by offset.
    #[cfg(test)]
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> {
        self.marks.iter().flat_map(Marks::iter)
    }

    /// The mark of the instruction at an address.
    pub(crate) fn mark(&self, address: u64) -> Option<Mark> {
        let offset = (address - self.base) as u32;
        let behind = self.marks.partition_point(|piece| piece.start() <= offset);
        let piece = self.marks.get(behind.checked_sub(1)?)?;
        piece.iter().find(|mark| mark.at >= offset).filter(|mark| mark.at == offset)
    }
}
