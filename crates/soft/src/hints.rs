//! What earlier runs have executed of a file of code: hints of what is worth to be translated before it is asked for.
//!
//! They decide on what is translated when, and where counters are, never on what is counted: a translation without them, with
//! old ones, or with those of another file gives the same counts, later.
//!
//! ```text
//! file: "cyclhint", version, number of pages, the pages, a sum over all that
//! page: its number in the file, numbers of its blocks and entrances, the blocks (offset << 4 | heat), the entrances (offset)
//! ```
//!
//! All numbers are little-endian: 32 bits, of blocks and entrances 16, the sum 64.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pack::sum;
use crate::translate::PAGE;

const MAGIC: [u8; 8] = *b"cyclhint";
const VERSION: u32 = 2;

/// Most pages of a file that hints are kept of: 512 MB of code.
const MOST_PAGES: usize = 1 << 17;

/// Most bytes of a file of hints.
pub const MOST_BYTES: u64 = 64 << 20;

/// The greatest heat.
const HOTTEST: u32 = 15;

/// What is known of a page of code.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PageHints {
    /// Blocks that were executed: offset and heat, ascending.
    blocks: Vec<u16>,
    /// Offsets of those that indirect branches have led to, ascending.
    entrances: Vec<u16>,
}

/// How often something was executed in a run: the logarithm to the base 4, 15 at most.
pub fn heat(times: u64) -> u8 {
    (times.max(1).ilog2() / 2).min(HOTTEST) as u8
}

impl PageHints {
    /// How hot the block is that starts at an offset, if one was executed there.
    pub fn heat_at(&self, offset: u16) -> Option<u8> {
        let found = self.position(offset).ok()?;
        Some((self.blocks[found] & 15) as u8)
    }

    /// Offsets of the blocks, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = u16> {
        self.blocks.iter().map(|block| block >> 4)
    }

    /// Whether an indirect branch has led to an offset.
    pub fn is_entrance(&self, offset: u16) -> bool {
        self.entrances.binary_search(&offset).is_ok()
    }

    fn position(&self, offset: u16) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&offset, |block| block >> 4)
    }

    /// Adds a block that was executed. Whether that, or that it is an entrance, was not known.
    fn learn(&mut self, offset: u16, heat: u8, entrance: bool) -> bool {
        let packed = offset << 4 | u16::from(heat);
        let mut new = false;
        match self.position(offset) {
            Ok(known) => self.blocks[known] = self.blocks[known].max(packed),
            Err(place) => {
                self.blocks.insert(place, packed);
                new = true;
            }
        }
        if let (true, Err(place)) = (entrance, self.entrances.binary_search(&offset)) {
            self.entrances.insert(place, offset);
            new = true;
        }
        new
    }
}

/// What is known of a file of code, by its pages.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FileHints {
    pages: BTreeMap<u32, Arc<PageHints>>,
    /// Blocks and entrances that were not known when it was read.
    fresh: usize,
}

impl FileHints {
    /// What is known of a page, by its number in the file.
    pub fn page(&self, number: u32) -> Option<Arc<PageHints>> {
        self.pages.get(&number).cloned()
    }

    /// Adds a block of a page that was executed; `offset` is less than a page.
    pub fn learn(&mut self, page: u32, offset: u16, heat: u8, entrance: bool) {
        if self.pages.len() < MOST_PAGES || self.pages.contains_key(&page) {
            let page = Arc::make_mut(self.pages.entry(page).or_default());
            let new = page.learn(offset % PAGE as u16, heat.min(HOTTEST as u8), entrance);
            self.fresh += usize::from(new);
        }
    }

    /// How many blocks and entrances it has learned since it was read.
    pub fn fresh(&self) -> usize {
        self.fresh
    }

    /// How many blocks it knows.
    pub fn blocks(&self) -> usize {
        self.pages.values().map(|page| page.blocks.len()).sum()
    }

    /// As bytes, for [`FileHints::read`].
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((self.pages.len() as u32).to_le_bytes());
        for (number, page) in &self.pages {
            bytes.extend(number.to_le_bytes());
            bytes.extend((page.blocks.len() as u16).to_le_bytes());
            bytes.extend((page.entrances.len() as u16).to_le_bytes());
            let words = page.blocks.iter().chain(&page.entrances);
            words.for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        let sum = sum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// Reads what [`FileHints::write`] has given; `None` where that is something else, damaged or of another version.
    pub fn read(bytes: &[u8]) -> Option<FileHints> {
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
            pages.insert(number, Arc::new(PageHints::read(&mut rest)?));
        }
        rest.is_empty().then_some(FileHints { pages, fresh: 0 })
    }
}

impl PageHints {
    fn read(rest: &mut &[u8]) -> Option<PageHints> {
        let (blocks, entrances) = (short(rest)?, short(rest)?);
        let blocks = shorts(rest, blocks)?;
        let entrances = shorts(rest, entrances)?;
        let ascends =
            |list: &[u16], shift: u32| list.windows(2).all(|pair| pair[0] >> shift < pair[1] >> shift);
        let within = entrances.last().is_none_or(|last| u64::from(*last) < PAGE);
        (ascends(&blocks, 4) && ascends(&entrances, 0) && within).then_some(PageHints { blocks, entrances })
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

fn shorts(rest: &mut &[u8], count: u16) -> Option<Vec<u16>> {
    let (bytes, behind) = rest.split_at_checked(2 * usize::from(count))?;
    *rest = behind;
    Some(bytes.as_chunks().0.iter().map(|pair| u16::from_le_bytes(*pair)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn some_hints() -> FileHints {
        let mut hints = FileHints::default();
        for (page, offset, heat, entrance) in [(7, 0, 3, true), (7, 4095, 15, false), (0, 16, 0, true)] {
            hints.learn(page, offset, heat, entrance);
        }
        hints
    }

    #[test]
    fn heat_is_a_logarithm_with_a_limit() {
        let heats: Vec<u8> = [0, 1, 3, 4, 15, 16, 1 << 29, 1 << 30, u64::MAX].map(heat).to_vec();
        assert_eq!(heats, [0, 0, 0, 1, 1, 2, 14, 15, 15]);
    }

    #[test]
    fn what_was_learned_is_known() {
        let hints = some_hints();
        let page = hints.page(7).unwrap();
        assert_eq!((page.heat_at(0), page.heat_at(4095), page.heat_at(1)), (Some(3), Some(15), None));
        assert_eq!((page.is_entrance(0), page.is_entrance(4095)), (true, false));
        assert_eq!(page.blocks().collect::<Vec<_>>(), [0, 4095]);
        assert_eq!((hints.page(1), hints.blocks()), (None, 3));
    }

    #[test]
    fn only_what_is_new_is_fresh() {
        let mut hints = FileHints::read(&some_hints().write()).unwrap();
        assert_eq!(hints.fresh(), 0);
        hints.learn(7, 0, 9, true);
        assert_eq!((hints.fresh(), hints.page(7).unwrap().heat_at(0)), (0, Some(9)), "hotter, but known");
        hints.learn(7, 0, 1, true);
        assert_eq!(hints.page(7).unwrap().heat_at(0), Some(9), "the hottest run counts");
        hints.learn(7, 4095, 0, true);
        hints.learn(8, 1, 0, false);
        assert_eq!(hints.fresh(), 2);
    }

    #[test]
    fn damage_and_other_versions_are_noticed() {
        let written = some_hints().write();
        assert!(FileHints::read(&written).is_some());
        for position in 0..written.len() {
            let mut damaged = written.clone();
            damaged[position] ^= 4;
            assert_eq!(FileHints::read(&damaged), None, "byte {position}");
            assert_eq!(FileHints::read(&written[..position]), None, "{position} bytes");
        }
        let with_sum = |mut body: Vec<u8>| {
            let sum = sum(&body);
            body.extend(sum.to_le_bytes());
            FileHints::read(&body)
        };
        let body = &written[..written.len() - 8];
        assert!(with_sum(body.to_vec()).is_some());
        assert_eq!(with_sum([body, &[0]].concat()), None, "too long");
        let mut newer = body.to_vec();
        newer[8] = 3;
        assert_eq!(with_sum(newer), None);
        let mut disordered = body.to_vec();
        let last = disordered.len() - 8;
        disordered[last..last + 2].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(with_sum(disordered), None, "blocks ascend");
    }

    proptest! {
        #[test]
        fn hints_are_read_as_they_were_written(
            learned in prop::collection::vec((0u32..9, 0u16..4096, 0u8..16, any::<bool>()), 0..200),
        ) {
            let mut hints = FileHints::default();
            learned.iter().for_each(|(page, offset, heat, entrance)| hints.learn(*page, *offset, *heat, *entrance));
            let read = FileHints::read(&hints.write()).unwrap();
            prop_assert_eq!(&read.pages, &hints.pages);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0u8.., 0..100)) {
            let whole = [MAGIC.as_slice(), &bytes].concat();
            let body = [whole.as_slice(), &sum(&whole).to_le_bytes()].concat();
            let _ = FileHints::read(&body);
        }
    }
}
