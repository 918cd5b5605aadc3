//! Memory of the program that holds translated code.

use super::marks::PcMap;
use super::pages::StoredPages;
use super::place::PcEntry;
use crate::pack::{self, ChunkReader, ChunkWriter};

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
pub(crate) struct CodeRegion {
    base: u64,
    used: u32,
    /// Where the marks are of the code that an earlier run has left, ascending. Few are ever asked for.
    left: Vec<StoredPcMap>,
    /// The marks of each piece of code that was appended to that, ascending.
    marks: Vec<PcMap>,
}

/// Marks of a piece of code that an earlier run has left.
struct StoredPcMap {
    /// Where the code starts in the region.
    start: u32,
    /// Bytes of the marks, and where they begin.
    len: u32,
    begin: u64,
    sum: u64,
}

impl StoredPcMap {
    fn read(&self, originals: &dyn StoredPages) -> Option<PcMap> {
        let bytes = originals.marks(self.begin, self.len)?;
        (pack::sum(&bytes) == self.sum).then(|| PcMap::read(self.start, bytes))
    }
}

impl CodeRegion {
    pub(crate) fn new(base: u64, used: u32) -> CodeRegion {
        CodeRegion { base, used, left: Vec::new(), marks: Vec::new() }
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

    pub(crate) fn append(&mut self, bytes: u32, marks: PcMap) {
        self.used += bytes;
        self.marks.extend((!marks.is_empty()).then_some(marks));
    }

    /// The marks of each piece of code.
    pub(crate) fn all_marks(&self) -> impl Iterator<Item = &[u8]> {
        self.marks.iter().map(PcMap::bytes)
    }

    /// Writes all but its marks, which begin somewhere; where they end.
    pub(crate) fn pack(&self, mut begin: u64, to: &mut ChunkWriter<'_>) -> u64 {
        to.u64(self.base);
        to.u32(self.used);
        to.u64(begin);
        to.count(self.marks.len());
        for marks in &self.marks {
            let bytes = marks.bytes();
            to.u32(marks.start());
            to.u32(bytes.len() as u32);
            to.u64(pack::sum(bytes));
            begin += bytes.len() as u64;
        }
        begin
    }

    pub(crate) fn unpack(from: &mut ChunkReader<'_>) -> Option<CodeRegion> {
        let (base, used, mut begin) = (from.u64()?, from.u32()?, from.u64()?);
        let one = |from: &mut ChunkReader<'_>| {
            let (start, len, sum) = (from.u32()?, from.u32()?, from.u64()?);
            let left = StoredPcMap { start, len, begin, sum };
            begin = begin.checked_add(len.into())?;
            Some(left)
        };
        Some(CodeRegion { base, used, left: from.list(one)?, marks: Vec::new() })
    }

    /// Every mark, by offset.
    #[cfg(test)]
    pub(crate) fn marks(&self) -> impl Iterator<Item = PcEntry> {
        self.marks.iter().flat_map(PcMap::iter)
    }

    /// The mark of the instruction at an address; `originals` has those of an earlier run.
    pub(crate) fn mark(&self, address: u64, originals: Option<&dyn StoredPages>) -> Option<PcEntry> {
        let offset = (address - self.base) as u32;
        let find =
            |piece: &PcMap| piece.iter().find(|mark| mark.at >= offset).filter(|mark| mark.at == offset);
        let behind = self.marks.partition_point(|piece| piece.start() <= offset);
        if let Some(piece) = behind.checked_sub(1).and_then(|last| self.marks.get(last)) {
            return find(piece);
        }
        let behind = self.left.partition_point(|piece| piece.start <= offset);
        find(&self.left.get(behind.checked_sub(1)?)?.read(originals?)?)
    }
}
