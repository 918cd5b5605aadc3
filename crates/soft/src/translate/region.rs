//! Memory of the program that holds translated code.

use super::pages::StoredPages;
use super::pc_map::PcMap;
use super::program_point::PcEntry;
use crate::pack::{ChunkReader, ChunkWriter};

/// Bytes of a region.
pub const REGION: u64 = 64 << 20;

/// The greatest distance of a region from the original code. The targets of that code are up to 2 GB away
/// from it.
const NEAR: u64 = 0x6000_0000;

/// Bytes that a batch may take: 400 instructions of less than 500 bytes with their stubs and thunks, and 2000
/// links of less than 64.
const RESERVE: u32 = 1 << 20;

/// Counters that a batch may take: one for each link, and less than ten for each instruction.
pub(crate) const COUNTER_RESERVE: u32 = 10_000;

/// Whether a region at `base` can hold the translation of the code at an address.
pub(crate) fn is_region_near(base: u64, address: u64) -> bool {
    base.abs_diff(address) < NEAR && (base + REGION).abs_diff(address) < NEAR
}

/// A region with the PC maps of its code.
pub(crate) struct CodeRegion {
    base: u64,
    used: u32,
    /// Locations of the PC maps that an earlier run has stored, ascending. Few are ever read.
    stored: Vec<StoredPcMap>,
    /// The PC map of each run of code that was appended, ascending.
    pc_maps: Vec<PcMap>,
}

/// The location of a stored PC map.
struct StoredPcMap {
    /// The offset of the code in the region.
    start: u32,
    /// Length of the map in bytes, and its offset among all maps.
    len: u32,
    begin: u64,
}

impl StoredPcMap {
    fn read(&self, stored_pages: &dyn StoredPages) -> Option<PcMap> {
        Some(PcMap::read(self.start, stored_pages.pc_maps(self.begin, self.len)?.to_vec()))
    }
}

impl CodeRegion {
    pub(crate) fn new(base: u64, used: u32) -> CodeRegion {
        CodeRegion { base, used, stored: Vec::new(), pc_maps: Vec::new() }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// The number of used bytes.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.base..self.base + REGION).contains(&address)
    }

    pub(crate) fn is_near(&self, address: u64) -> bool {
        is_region_near(self.base, address)
    }

    pub(crate) fn has_room(&self) -> bool {
        u64::from(self.used + RESERVE) <= REGION
    }

    /// Whether more than half of it is free.
    pub(crate) fn is_half_empty(&self) -> bool {
        u64::from(self.used) < REGION / 2
    }

    pub(crate) fn append(&mut self, bytes: u32, pc_maps: PcMap) {
        self.used += bytes;
        self.pc_maps.extend((!pc_maps.is_empty()).then_some(pc_maps));
    }

    /// The bytes of each PC map.
    pub(crate) fn all_pc_maps(&self) -> impl Iterator<Item = &[u8]> {
        self.pc_maps.iter().map(PcMap::bytes)
    }

    /// Writes all but the PC maps, which start at `begin`; returns their end.
    pub(crate) fn pack(&self, mut begin: u64, to: &mut ChunkWriter<'_>) -> u64 {
        to.u64(self.base);
        to.u32(self.used);
        to.u64(begin);
        to.count(self.pc_maps.len());
        for pc_maps in &self.pc_maps {
            let bytes = pc_maps.bytes();
            to.u32(pc_maps.start());
            to.u32(bytes.len() as u32);
            begin += bytes.len() as u64;
        }
        begin
    }

    /// Reads a region whose PC maps are all stored.
    pub(crate) fn unpack(from: &mut ChunkReader<'_>, stored_pages: &dyn StoredPages) -> Option<CodeRegion> {
        let (base, used, mut begin) = (from.u64()?, from.u32()?, from.u64()?);
        let one = |from: &mut ChunkReader<'_>| {
            let (start, len) = (from.u32()?, from.u32()?);
            stored_pages.pc_maps(begin, len)?;
            let stored = StoredPcMap { start, len, begin };
            begin = begin.checked_add(len.into())?;
            Some(stored)
        };
        Some(CodeRegion { base, used, stored: from.list(one)?, pc_maps: Vec::new() })
    }

    /// Every entry, by offset.
    #[cfg(test)]
    pub(crate) fn pc_entries(&self) -> impl Iterator<Item = PcEntry> {
        self.pc_maps.iter().flat_map(PcMap::iter)
    }

    /// The PC-map entry of the instruction at an address; `stored_pages` has the maps of an earlier run.
    pub(crate) fn pc_entry(&self, address: u64, stored_pages: Option<&dyn StoredPages>) -> Option<PcEntry> {
        let offset = (address - self.base) as u32;
        let find =
            |map: &PcMap| map.iter().find(|entry| entry.at >= offset).filter(|entry| entry.at == offset);
        let behind = self.pc_maps.partition_point(|map| map.start() <= offset);
        if let Some(map) = behind.checked_sub(1).and_then(|last| self.pc_maps.get(last)) {
            return find(map);
        }
        let behind = self.stored.partition_point(|map| map.start <= offset);
        find(&self.stored.get(behind.checked_sub(1)?)?.read(stored_pages?)?)
    }
}
