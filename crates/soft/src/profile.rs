//! Execution profiles: the blocks of a file of code that earlier runs have executed.
//!
//! A profile decides when code is translated and where counters are. It never decides what is counted:
//! without a profile, or with an old or wrong one, the counts are the same, and come later.
//!
//! ```text
//! file: "cyclhint", version, number of pages, the pages, a checksum over all that
//! page: number in the file, numbers of blocks and of indirect entries,
//!       blocks (offset, four heats), indirect entries (offset)
//! ```
//!
//! All numbers are little-endian: 32 bits, of blocks and indirect entries 16, heats 8, the checksum 64.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pack::sum;
use crate::translate::PAGE;

const MAGIC: [u8; 8] = *b"cyclhint";
const VERSION: u32 = 3;

/// Most pages of a profile: 512 MB of code.
const MOST_PAGES: usize = 1 << 17;

/// Most bytes of a file with a profile.
pub const MOST_BYTES: u64 = 64 << 20;

/// A number of executions in a run, to an eighth: a number with a mantissa of three bits. From some 2^32
/// executions on it is the greatest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Heat(u8);

impl Heat {
    /// The greatest one.
    pub const HOTTEST: Heat = Heat(u8::MAX);

    /// The heat of this number of executions.
    pub fn of(times: u64) -> Heat {
        let Some(log) = times.checked_ilog2() else { return Heat(0) };
        let eighths = ((u128::from(times) << 3) >> log) as u32 - 8;
        Heat(u8::try_from(8 * log + eighths + 1).unwrap_or(u8::MAX))
    }

    /// The least number of executions that has it.
    pub fn times(self) -> u64 {
        let Some(place) = self.0.checked_sub(1) else { return 0 };
        let (log, eighths) = (place / 8, place % 8);
        (u64::from(8 + eighths) << log).div_ceil(8)
    }
}

/// The executions of a block and of the edges at its ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct BlockHeat {
    /// The block.
    pub block: Heat,
    /// Ways from it to the next one, and to where its branch leads.
    pub exits: [Heat; 2],
    /// Its entry by returns and by indirect branches.
    pub entry: Heat,
}

impl BlockHeat {
    /// The hotter of two in each.
    #[must_use]
    pub fn or_hotter(self, other: BlockHeat) -> BlockHeat {
        let [next, taken] = [0, 1].map(|exit| self.exits[exit].max(other.exits[exit]));
        BlockHeat {
            block: self.block.max(other.block),
            exits: [next, taken],
            entry: self.entry.max(other.entry),
        }
    }

    fn bytes(self) -> [u8; 4] {
        [self.block.0, self.exits[0].0, self.exits[1].0, self.entry.0]
    }

    fn of_bytes([block, next, taken, entry]: [u8; 4]) -> BlockHeat {
        BlockHeat { block: Heat(block), exits: [Heat(next), Heat(taken)], entry: Heat(entry) }
    }
}

/// The profile of a page of code.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PageProfile {
    /// Blocks that were executed: offset and heats, ascending.
    blocks: Vec<(u16, BlockHeat)>,
    /// Offsets of those that indirect branches have led to, ascending.
    indirect_entries: Vec<u16>,
}

impl PageProfile {
    /// The heat of the block at an offset, if one was executed there.
    pub fn heats_at(&self, offset: u16) -> Option<BlockHeat> {
        let found = self.position(offset).ok()?;
        Some(self.blocks[found].1)
    }

    /// Offsets of the blocks, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = u16> {
        self.blocks.iter().map(|(offset, _)| *offset)
    }

    /// Whether an indirect branch has led to an offset.
    pub fn is_indirect_entry(&self, offset: u16) -> bool {
        self.indirect_entries.binary_search(&offset).is_ok()
    }

    fn position(&self, offset: u16) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&offset, |(offset, _)| *offset)
    }

    /// Adds a block that was executed. Whether that, or that it is an entrance, was not known.
    fn learn(&mut self, offset: u16, heats: BlockHeat, indirect_entry: bool) -> bool {
        let mut new = false;
        match self.position(offset) {
            Ok(known) => self.blocks[known].1 = self.blocks[known].1.or_hotter(heats),
            Err(place) => {
                self.blocks.insert(place, (offset, heats));
                new = true;
            }
        }
        if let (true, Err(place)) = (indirect_entry, self.indirect_entries.binary_search(&offset)) {
            self.indirect_entries.insert(place, offset);
            new = true;
        }
        new
    }
}

/// The profile of a file of code, by its pages.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FileProfile {
    pages: BTreeMap<u32, Arc<PageProfile>>,
    /// Blocks and entrances that were not known when it was read.
    fresh: usize,
}

impl FileProfile {
    /// The profile of a page, by its number in the file.
    pub fn page(&self, number: u32) -> Option<Arc<PageProfile>> {
        self.pages.get(&number).cloned()
    }

    /// Adds a block of a page that was executed; `offset` is less than a page.
    pub fn learn(&mut self, page: u32, offset: u16, heats: BlockHeat, indirect_entry: bool) {
        if self.pages.len() < MOST_PAGES || self.pages.contains_key(&page) {
            let page = Arc::make_mut(self.pages.entry(page).or_default());
            let new = page.learn(offset % PAGE as u16, heats, indirect_entry);
            self.fresh += usize::from(new);
        }
    }

    /// The number of blocks and indirect entries that it has learned since it was read.
    pub fn fresh(&self) -> usize {
        self.fresh
    }

    /// The number of its blocks.
    pub fn blocks(&self) -> usize {
        self.pages.values().map(|page| page.blocks.len()).sum()
    }

    /// As bytes, for [`FileProfile::read`].
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.pages.len() as u32).to_le_bytes());
        for (number, page) in &self.pages {
            bytes.extend(number.to_le_bytes());
            bytes.extend((page.blocks.len() as u16).to_le_bytes());
            bytes.extend((page.indirect_entries.len() as u16).to_le_bytes());
            for (offset, heats) in &page.blocks {
                bytes.extend(offset.to_le_bytes());
                bytes.extend(heats.bytes());
            }
            page.indirect_entries.iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
        }
        let sum = sum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads the bytes of [`FileProfile::write`]; `None` where they are damaged or of another version.
    pub fn read(bytes: &[u8]) -> Option<FileProfile> {
        let (body, end) = bytes.split_last_chunk::<8>()?;
        if u64::from_le_bytes(*end) != sum(body) {
            return None;
        }
        let mut rest = body.strip_prefix(&MAGIC)?;
        let (version, count) = (word(&mut rest)?, word(&mut rest)?);
        if version != VERSION || count as usize > MOST_PAGES {
            return None;
        }
        let mut pages = BTreeMap::new();
        for _ in 0..count {
            let number = word(&mut rest)?;
            pages.insert(number, Arc::new(PageProfile::read(&mut rest)?));
        }
        rest.is_empty().then_some(FileProfile { pages, fresh: 0 })
    }
}

impl PageProfile {
    fn read(rest: &mut &[u8]) -> Option<PageProfile> {
        let (blocks, indirect_entries) = (short(rest)?, short(rest)?);
        let block =
            |[low, high, heats @ ..]: [u8; 6]| (u16::from_le_bytes([low, high]), BlockHeat::of_bytes(heats));
        let blocks: Vec<(u16, BlockHeat)> = list(rest, blocks)?.map(block).collect();
        let indirect_entries: Vec<u16> = list(rest, indirect_entries)?.map(u16::from_le_bytes).collect();
        let ascend = blocks.is_sorted_by(|one, next| one.0 < next.0)
            && indirect_entries.is_sorted_by(|one, next| one < next);
        let last = blocks.last().map(|(offset, _)| *offset).max(indirect_entries.last().copied());
        let within = last.is_none_or(|last| u64::from(last) < PAGE);
        (ascend && within).then_some(PageProfile { blocks, indirect_entries })
    }
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_le_bytes(*bytes))
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u16::from_le_bytes(*bytes))
}

fn list<const BYTES: usize>(rest: &mut &[u8], count: u16) -> Option<impl Iterator<Item = [u8; BYTES]>> {
    let (bytes, behind) = rest.split_at_checked(BYTES * usize::from(count))?;
    *rest = behind;
    Some(bytes.as_chunks().0.iter().copied())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_profile() -> FileProfile {
        let mut profile = FileProfile::default();
        for (page, offset, times, indirect_entry) in [(7, 0, 3, true), (7, 4095, 15, false), (0, 16, 1, true)]
        {
            profile.learn(page, offset, heats(times), indirect_entry);
        }
        profile
    }

    fn heats(times: u64) -> BlockHeat {
        let [block, next, taken, entry] = [times, times / 2, times - times / 2, 1].map(Heat::of);
        BlockHeat { block, exits: [next, taken], entry }
    }

    #[test]
    fn heat_is_right_to_an_eighth_and_has_a_limit() {
        let exact = [0, 1, 2, 3, 4, 5, 15, 16, 18, 1 << 20, 14 << 28];
        assert_eq!(exact.map(|times| Heat::of(times).times()), exact);
        assert_eq!((Heat::of(17).times(), Heat::of(31).times()), (16, 30));
        let most = Heat::HOTTEST.times();
        assert_eq!([15 << 28, 1 << 33, u64::MAX].map(|times| Heat::of(times).times()), [most; 3]);
    }

    #[test]
    fn learned_blocks_are_known() {
        let profile = some_profile();
        let page = profile.page(7).unwrap();
        let known = [0, 4095, 1].map(|offset| page.heats_at(offset));
        assert_eq!(known, [Some(heats(3)), Some(heats(15)), None]);
        assert_eq!((page.is_indirect_entry(0), page.is_indirect_entry(4095)), (true, false));
        assert_eq!(page.blocks().collect::<Vec<_>>(), [0, 4095]);
        assert_eq!((profile.page(1), profile.blocks()), (None, 3));
    }

    #[test]
    fn only_what_is_new_is_fresh() {
        let mut profile = FileProfile::read(&some_profile().write()).unwrap();
        assert_eq!(profile.fresh(), 0);
        profile.learn(7, 0, heats(9), true);
        assert_eq!(
            (profile.fresh(), profile.page(7).unwrap().heats_at(0)),
            (0, Some(heats(9))),
            "hotter, but known"
        );
        profile.learn(7, 0, heats(1), true);
        assert_eq!(profile.page(7).unwrap().heats_at(0), Some(heats(9)), "the hottest run counts");
        profile.learn(7, 4095, heats(0), true);
        profile.learn(8, 1, heats(0), false);
        assert_eq!(profile.fresh(), 2);
    }

    #[test]
    fn damage_and_other_versions_are_noticed() {
        let written = some_profile().write();
        assert!(FileProfile::read(&written).is_some());
        for position in 0..written.len() {
            let mut damaged = written.clone();
            damaged[position] ^= 4;
            assert_eq!(FileProfile::read(&damaged), None, "byte {position}");
            assert_eq!(FileProfile::read(&written[..position]), None, "{position} bytes");
        }
        let with_sum = |mut body: Vec<u8>| {
            let sum = sum(&body);
            body.extend(sum.to_le_bytes());
            FileProfile::read(&body)
        };
        let body = &written[..written.len() - 8];
        assert!(with_sum(body.to_vec()).is_some());
        assert_eq!(with_sum([body, &[0]].concat()), None, "too long");
        let mut newer = body.to_vec();
        newer[8] += 1;
        assert_eq!(with_sum(newer), None);
        let mut disordered = body.to_vec();
        // Two blocks and an indirect entry, which are the last: the first block.
        let first = disordered.len() - 14;
        disordered[first..first + 2].copy_from_slice(&4095u16.to_le_bytes());
        assert_eq!(with_sum(disordered), None, "blocks ascend");
        let mut beyond = body.to_vec();
        let second = beyond.len() - 8;
        beyond[second..second + 2].copy_from_slice(&4096u16.to_le_bytes());
        assert_eq!(with_sum(beyond), None, "blocks are on the page");
    }

    proptest! {
        #[test]
        fn profiles_are_read_as_they_were_written(
            learned in prop::collection::vec((0u32..9, 0u16..4096, any::<u64>(), any::<bool>()), 0..200),
        ) {
            let mut profile = FileProfile::default();
            for (page, offset, times, indirect_entry) in &learned {
                profile.learn(*page, *offset, heats(*times), *indirect_entry);
            }
            let read = FileProfile::read(&profile.write()).unwrap();
            prop_assert_eq!(&read.pages, &profile.pages);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0u8.., 0..100)) {
            let whole = [MAGIC.as_slice(), &bytes].concat();
            let body = [whole.as_slice(), &sum(&whole).to_le_bytes()].concat();
            let _ = FileProfile::read(&body);
        }
    }
}
