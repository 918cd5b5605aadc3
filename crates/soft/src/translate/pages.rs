//! Copies of the program's code, page by page, and the blocks that start there.

use std::rc::Rc;
use std::sync::Arc;

use crate::hash::AddressMap;
use crate::pack::{ChunkReader, ChunkWriter};
use crate::profile::{BlockHeat, PageProfile};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The program's code, as the translator reads it.
pub trait CodeSource {
    /// The page (4096 bytes) at an address that is a multiple of 4096; `None` where code must not be taken
    /// from.
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>>;

    /// Whether the bytes of a page can change without a system call that the host sees, or its mapping is
    /// expected to change. Such a page need not have code now.
    fn stability(&mut self, _address: u64) -> CodeStability {
        CodeStability::Fixed
    }

    /// The file page that a page is mapped from, if there is a profile for the file.
    fn origin(&mut self, _address: u64) -> Option<FilePage> {
        None
    }

    /// The place of a page with these bytes in a file of code, if places are requested.
    fn object(&mut self, _address: u64, _bytes: &[u8; PAGE as usize]) -> Option<ObjectPage> {
        None
    }

    /// The place of a page of the memory of a process, which has code of no file, if places are requested.
    fn memory(&mut self, _address: u64) -> Option<ObjectPage> {
        None
    }

    /// Whether a function is known to start at an address, if places are requested.
    fn is_function_start(&mut self, _address: u64) -> bool {
        false
    }
}

/// Whether the bytes of a page of code can change without a system call that the host sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeStability {
    /// They cannot.
    Fixed,
    /// The program, or another process, can write them. No stack of the program is there.
    Changing,
    /// The same, and a stack is in the same mapping.
    ChangingWithStack,
}

/// The place of a page in a file of code, or in the memory of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectPage {
    /// A number for the file, or the memory.
    pub object: u32,
    /// The offset of the page in the file, in bytes; in memory, its address.
    pub offset: u64,
}

/// The file that a page of code is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePage {
    /// A number for the file.
    pub file: u32,
    /// The page's number in the file.
    pub page: u32,
    /// The execution profile of the page.
    pub profile: Option<Arc<PageProfile>>,
}

/// The pages and PC maps of a stored translation. `None` beyond the last one.
pub(crate) trait StoredPages {
    /// The page with a number.
    fn page(&self, number: u32) -> Option<&[u8; PAGE as usize]>;

    /// `len` bytes of the concatenated PC maps, from an offset.
    fn pc_maps(&self, begin: u64, len: u32) -> Option<&[u8]>;
}

/// The pages that were read.
#[derive(Default)]
pub(crate) struct CodePages {
    stored_pages: Option<Rc<dyn StoredPages>>,
    pages: Vec<CodePage>,
    index: AddressMap<u64, u32>,
    last: Option<(u64, u32)>,
    /// Whether the bytes of any page can change.
    any_changes: bool,
}

/// A page that was read. Blocks are looked up by address all the time, mostly near one another.
struct CodePage {
    /// `None` where code must not be taken from it.
    bytes: Option<PageBytes>,
    stability: CodeStability,
    origin: Option<FilePage>,
    /// Its place in a file of code, where places are requested. It is not stored.
    object: Option<ObjectPage>,
    /// A bit for each byte at which a translated block starts.
    starts: [u64; WORDS],
    /// For each word of `starts`, the number of bits in the words before it.
    ranks: [u16; WORDS],
    /// The blocks in the order of their addresses.
    blocks: Vec<u32>,
}

/// Bytes of a page.
enum PageBytes {
    Loaded(Box<[u8; PAGE as usize]>),
    /// A page of [`StoredPages`], by number.
    Stored(u32),
}

/// The content of a page when it was read.
#[derive(Clone, Copy)]
pub struct PageContent<'a> {
    bytes: &'a PageBytes,
    stored_pages: Option<&'a dyn StoredPages>,
}

impl PageContent<'_> {
    /// Whether it was as these bytes are. No checksum decides: a program could be made to have the same one.
    pub fn is(self, now: &[u8]) -> bool {
        match self.bytes {
            PageBytes::Loaded(bytes) => bytes[..] == *now,
            PageBytes::Stored(number) => {
                self.stored_pages.and_then(|pages| pages.page(*number)).is_some_and(|then| then[..] == *now)
            }
        }
    }
}

const WORDS: usize = PAGE as usize / 64;

impl CodePage {
    /// The word and the bit of an address on it.
    fn bit(address: u64) -> (usize, u64) {
        let offset = (address % PAGE) as usize;
        (offset / 64, 1 << (offset % 64))
    }

    /// The index of the block at an address, if there is one.
    fn position(&self, address: u64) -> Option<usize> {
        let (word, bit) = CodePage::bit(address);
        let bits = self.starts[word];
        let before = || (bits & (bit - 1)).count_ones() as usize;
        (bits & bit != 0).then(|| usize::from(self.ranks[word]) + before())
    }

    fn add(&mut self, address: u64, block: u32) {
        let (word, bit) = CodePage::bit(address);
        self.starts[word] |= bit;
        self.ranks[word + 1..].iter_mut().for_each(|rank| *rank += 1);
        if let Some(position) = self.position(address) {
            self.blocks.insert(position, block);
        }
    }

    fn remove(&mut self, address: u64) {
        let Some(position) = self.position(address) else { return };
        let (word, bit) = CodePage::bit(address);
        self.blocks.remove(position);
        self.starts[word] &= !bit;
        self.ranks[word + 1..].iter_mut().for_each(|rank| *rank -= 1);
    }
}

impl CodePage {
    /// Offsets of its blocks.
    fn offsets(&self) -> impl Iterator<Item = u16> {
        let is_start = |offset: &u16| {
            let (word, bit) = CodePage::bit(u64::from(*offset));
            self.starts[word] & bit != 0
        };
        (0..PAGE as u16).filter(is_start)
    }

    /// The bytes of a page that was read in this run.
    fn here(&self) -> Option<&[u8; PAGE as usize]> {
        match self.bytes.as_ref()? {
            PageBytes::Loaded(bytes) => Some(bytes),
            PageBytes::Stored(_) => None,
        }
    }

    /// `number` is that of its bytes.
    fn pack(&self, number: u32, to: &mut ChunkWriter<'_>) {
        to.u8(u8::from(self.here().is_some()));
        if self.here().is_some() {
            to.u32(number);
        }
        to.u8(u8::from(self.origin.is_some()));
        if let Some(origin) = &self.origin {
            to.u32(origin.file);
            to.u32(origin.page);
        }
        to.count(self.blocks.len());
        self.blocks.iter().for_each(|block| to.u32(*block));
    }

    fn unpack(
        from: &mut ChunkReader<'_>,
        stored_pages: &dyn StoredPages,
        files: &AddressMap<u32, u32>,
        address_of: &dyn Fn(u32) -> Option<u64>,
    ) -> Option<CodePage> {
        let mut bytes = None;
        if from.u8()? == 1 {
            let number = from.u32()?;
            stored_pages.page(number)?;
            bytes = Some(PageBytes::Stored(number));
        }
        let mut origin = None;
        if from.u8()? == 1 {
            let file = *files.get(&from.u32()?)?;
            origin = Some(FilePage { file, page: from.u32()?, profile: None });
        }
        let blocks = from.list(ChunkReader::u32)?;
        let mut starts = [0_u64; WORDS];
        for block in &blocks {
            let (word, bit) = CodePage::bit(address_of(*block)?);
            starts[word] |= bit;
        }
        let (mut ranks, mut before) = ([0; WORDS], 0);
        for (rank, word) in ranks.iter_mut().zip(starts) {
            *rank = before;
            before += word.count_ones() as u16;
        }
        (usize::from(before) == blocks.len()).then_some(CodePage {
            bytes,
            stability: CodeStability::Fixed,
            origin,
            object: None,
            starts,
            ranks,
            blocks,
        })
    }
}

/// The bytes from an address on: 15 at least, unless code ends before.
pub(crate) struct InstructionWindow {
    bytes: [u8; 15],
    len: usize,
}

impl InstructionWindow {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl CodePages {
    /// Whether a page of the range was read.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        if end.saturating_sub(start) / PAGE < self.index.len() as u64 {
            let first = start & !(PAGE - 1);
            return (first..end).step_by(PAGE as usize).any(|page| self.index.contains_key(&page));
        }
        self.index.keys().any(|page| *page + PAGE > start && *page < end)
    }

    /// The pages of a range that were read, ascending, with their content at that time. `None` where no code
    /// was taken from them.
    pub(crate) fn pages_in(&self, start: u64, end: u64) -> Vec<(u64, Option<PageContent<'_>>)> {
        let within = |page: &u64| *page + PAGE > start && *page < end;
        let found: Vec<(u64, u32)> = if end.saturating_sub(start) / PAGE < self.index.len() as u64 {
            let pages = (start & !(PAGE - 1)..end).step_by(PAGE as usize);
            pages.filter_map(|page| Some((page, *self.index.get(&page)?))).collect()
        } else {
            let all = self.index.iter().map(|(page, index)| (*page, *index));
            let mut found: Vec<_> = all.filter(|(page, _)| within(page)).collect();
            found.sort_unstable();
            found
        };
        let stored_pages = self.stored_pages.as_deref();
        let content = |bytes| PageContent { bytes, stored_pages };
        let looked = |index: u32| self.pages[index as usize].bytes.as_ref().map(content);
        found.into_iter().map(|(page, index)| (page, looked(index))).collect()
    }

    /// The longest an instruction at `address` can be.
    pub(crate) fn window(&mut self, code: &mut dyn CodeSource, address: u64) -> InstructionWindow {
        let mut window = InstructionWindow { bytes: [0; 15], len: 0 };
        while window.len < 15 {
            let Some(at) = address.checked_add(window.len as u64) else { break };
            let Some(page) = self.find(code, at) else { break };
            let offset = (at % PAGE) as usize;
            let count = (PAGE as usize - offset).min(15 - window.len);
            let bytes = &self.bytes(page)[offset..offset + count];
            window.bytes[window.len..window.len + count].copy_from_slice(bytes);
            window.len += count;
        }
        window
    }

    fn bytes(&self, page: u32) -> &[u8] {
        match &self.pages[page as usize].bytes {
            Some(PageBytes::Loaded(bytes)) => &bytes[..],
            Some(PageBytes::Stored(number)) => {
                self.stored_pages.as_ref().and_then(|pages| pages.page(*number)).map_or(&[], |page| &page[..])
            }
            None => &[],
        }
    }

    /// The bytes of a page from an address on.
    pub(crate) fn rest(&self, page: u32, address: u64) -> &[u8] {
        self.bytes(page).get((address % PAGE) as usize..).unwrap_or_default()
    }

    /// The bytes of a range on one page, which was read.
    pub(crate) fn within(&self, address: u64, len: usize) -> &[u8] {
        let rest = self.known(address).map_or(&[][..], |page| self.rest(page, address));
        &rest[..len]
    }

    /// Whether a block starts at an address.
    pub(crate) fn starts_block(&self, address: u64) -> bool {
        self.known(address).is_some_and(|page| self.starts_block_on(page, address))
    }

    /// Whether a block starts at an address on this page.
    #[inline]
    pub(crate) fn starts_block_on(&self, page: u32, address: u64) -> bool {
        let (word, bit) = CodePage::bit(address);
        self.pages[page as usize].starts[word] & bit != 0
    }

    /// Whether the bytes of a page, if it was read, can change.
    pub(crate) fn stability(&self, address: u64) -> CodeStability {
        self.known(address).map_or(CodeStability::Fixed, |page| self.pages[page as usize].stability)
    }

    /// Whether the bytes at an address can change.
    #[inline]
    pub(crate) fn can_change(&self, address: u64) -> bool {
        self.any_changes && self.stability(address) != CodeStability::Fixed
    }

    /// Whether the bytes of every page of a range that was read can change.
    pub(crate) fn all_can_change(&self, start: u64, end: u64) -> bool {
        self.pages_in(start, end).into_iter().all(|(page, _)| self.can_change(page))
    }

    /// Reads the page of an address again, if its bytes can change. Returns the blocks there if they have.
    pub(crate) fn refresh(&mut self, code: &mut dyn CodeSource, address: u64) -> Vec<u32> {
        let Some(index) = self.known(address).filter(|_| self.can_change(address)) else { return Vec::new() };
        let now = code.page(address & !(PAGE - 1));
        let page = &mut self.pages[index as usize];
        let unchanged = match (&now, &page.bytes) {
            (Some(now), Some(PageBytes::Loaded(then))) => now == then,
            (None, None) => true,
            _ => false,
        };
        if unchanged {
            return Vec::new();
        }
        page.bytes = now.map(PageBytes::Loaded);
        page.blocks.clone()
    }

    /// Whether these are the bytes from an address on, on pages that were read.
    pub(crate) fn has_bytes(&self, address: u64, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        let mut at = address;
        while !rest.is_empty() {
            let here = self.known(at).map_or(&[][..], |page| self.rest(page, at));
            let len = here.len().min(rest.len());
            if len == 0 || here[..len] != rest[..len] {
                return false;
            }
            rest = &rest[len..];
            at = at.wrapping_add(len as u64);
        }
        true
    }

    /// Removes the block at an address: another one is to be there.
    pub(crate) fn remove_block(&mut self, address: u64) {
        if let Some(page) = self.known(address) {
            self.pages[page as usize].remove(address);
        }
    }

    /// The block at an address.
    pub(crate) fn block(&self, address: u64) -> Option<u32> {
        let page = &self.pages[self.known(address)? as usize];
        Some(page.blocks[page.position(address)?])
    }

    /// Enters the block at an address of a page that was read.
    pub(crate) fn add_block(&mut self, address: u64, block: u32) {
        if let Some(page) = self.known(address) {
            self.pages[page as usize].add(address, block);
        }
    }

    /// The execution profile of the page of an address, which was read before.
    pub(crate) fn profile(&self, address: u64) -> Option<&Arc<PageProfile>> {
        let page = &self.pages[self.known(address)? as usize];
        page.origin.as_ref()?.profile.as_ref()
    }

    /// The heat of the block at an address, which is cold if earlier runs have not executed it. `None`
    /// without a profile of its page.
    pub(crate) fn heats(&self, address: u64) -> Option<BlockHeat> {
        Some(self.profile(address)?.heats_at((address % PAGE) as u16).unwrap_or_default())
    }

    /// Whether earlier runs have executed a block at an address.
    pub(crate) fn was_executed(&self, address: u64) -> bool {
        self.profile(address).is_some_and(|profile| profile.heats_at((address % PAGE) as u16).is_some())
    }

    /// The place in a file of code of the page that an address is on.
    pub(crate) fn object(&self, address: u64) -> Option<ObjectPage> {
        self.pages[self.known(address)? as usize].object
    }

    /// Every page that is a file's, with its blocks, in no order.
    pub(crate) fn of_files(&self) -> impl Iterator<Item = (&FilePage, &[u32])> {
        self.pages.iter().filter_map(|page| Some((page.origin.as_ref()?, page.blocks.as_slice())))
    }

    /// The number of blocks that were in the profile when their pages were read.
    pub(crate) fn profiled(&self) -> usize {
        let of_page = |page: &CodePage| {
            let profile = page.origin.as_ref()?.profile.as_ref()?;
            Some(page.offsets().filter(|offset| profile.heats_at(*offset).is_some()).count())
        };
        self.pages.iter().filter_map(of_page).sum()
    }

    /// The bytes of all pages that are not stored, in the order of their numbers.
    pub(crate) fn fresh_pages(&self) -> impl Iterator<Item = &[u8; PAGE as usize]> {
        self.pages.iter().filter_map(CodePage::here)
    }

    /// Writes all pages but their bytes, in no order.
    pub(crate) fn pack(&self, to: &mut ChunkWriter<'_>) {
        let mut numbers = Vec::with_capacity(self.pages.len());
        let mut before = 0;
        for page in &self.pages {
            numbers.push(before);
            before += u32::from(page.here().is_some());
        }
        to.count(self.index.len());
        for (address, index) in &self.index {
            to.u64(*address);
            self.pages[*index as usize].pack(numbers[*index as usize], to);
        }
    }

    /// Reads the pages. `stored_pages` has their bytes, `files` the new file numbers by the old ones;
    /// `address_of` is the address of a block.
    pub(crate) fn unpack(
        from: &mut ChunkReader<'_>,
        stored_pages: Rc<dyn StoredPages>,
        files: &AddressMap<u32, u32>,
        address_of: &dyn Fn(u32) -> Option<u64>,
    ) -> Option<CodePages> {
        let mut pages = CodePages::default();
        for index in 0..from.count()? {
            pages.index.insert(from.u64()?, index as u32);
            pages.pages.push(CodePage::unpack(from, &*stored_pages, files, address_of)?);
        }
        pages.stored_pages = Some(stored_pages);
        Some(pages)
    }

    /// Whether the page of an address was read.
    pub(crate) fn is_known(&self, address: u64) -> bool {
        self.known(address).is_some()
    }

    fn known(&self, address: u64) -> Option<u32> {
        let page = address & !(PAGE - 1);
        match self.last {
            Some((last, index)) if last == page => Some(index),
            _ => self.index.get(&page).copied(),
        }
    }

    /// The number of the page that an address is on, if code may be taken from it.
    pub(crate) fn find(&mut self, code: &mut dyn CodeSource, address: u64) -> Option<u32> {
        let index = match self.known(address) {
            Some(index) => index,
            None => self.read(code, address & !(PAGE - 1)),
        };
        self.last = Some((address & !(PAGE - 1), index));
        self.pages[index as usize].bytes.is_some().then_some(index)
    }

    fn read(&mut self, code: &mut dyn CodeSource, page: u64) -> u32 {
        let (starts, ranks) = ([0; WORDS], [0; WORDS]);
        let bytes = code.page(page);
        let stability = code.stability(page);
        self.any_changes |= stability != CodeStability::Fixed;
        let of_file = bytes.as_ref().filter(|_| stability == CodeStability::Fixed);
        let origin = of_file.and_then(|_| code.origin(page));
        let object = match of_file {
            Some(bytes) => code.object(page, bytes),
            None => bytes.as_ref().and_then(|_| code.memory(page)),
        };
        let bytes = bytes.map(PageBytes::Loaded);
        self.pages.push(CodePage { bytes, stability, origin, object, starts, ranks, blocks: Vec::new() });
        let index = self.pages.len() as u32 - 1;
        self.index.insert(page, index);
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One page, and no PC maps.
    struct OnePage([u8; PAGE as usize]);

    impl StoredPages for OnePage {
        fn page(&self, number: u32) -> Option<&[u8; PAGE as usize]> {
            (number == 0).then_some(&self.0)
        }

        fn pc_maps(&self, _: u64, _: u32) -> Option<&[u8]> {
            None
        }
    }

    /// The checksum of `soft::pack`, which decided in the first version of the cache.
    fn mix(sum: u64, word: u64) -> u64 {
        (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23)
    }

    #[test]
    fn every_byte_of_a_stored_page_is_compared_and_no_checksum_decides() {
        let stored = OnePage([0; PAGE as usize]);
        let page = PageBytes::Stored(0);
        let content = PageContent { bytes: &page, stored_pages: Some(&stored) };
        assert!(content.is(&stored.0) && !content.is(&[0; 4095]) && !content.is(&[]));
        for place in [0, 1, 2047, PAGE as usize - 1] {
            let mut other = stored.0;
            other[place] = 0x80;
            assert!(!content.is(&other), "byte {place}");
        }
        // In a lane of the sum, the second word makes up for the first.
        let (start, mut forged) = (0xcbf2_9ce4_8422_2325 ^ 1, stored.0);
        forged[..8].copy_from_slice(&1_u64.to_le_bytes());
        forged[32..40].copy_from_slice(&(mix(start, 1) ^ mix(start, 0)).to_le_bytes());
        assert_eq!(crate::pack::sum(&stored.0), crate::pack::sum(&forged));
        assert!(!content.is(&forged));
        let beyond = PageContent { bytes: &PageBytes::Stored(1), stored_pages: Some(&stored) };
        assert!(!beyond.is(&stored.0), "there is no such page");
    }

    struct Nothing;

    impl CodeSource for Nothing {
        fn page(&mut self, _: u64) -> Option<Box<[u8; PAGE as usize]>> {
            None
        }
    }

    struct Filled;

    impl CodeSource for Filled {
        fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
            (address != 0x3000).then(|| Box::new([(address / PAGE) as u8; PAGE as usize]))
        }
    }

    #[test]
    fn pages_that_were_looked_at_are_told_with_their_bytes() {
        let mut pages = CodePages::default();
        for address in [0x4008, 0x1fff, 0x3000, 0x9000] {
            pages.find(&mut Filled, address);
        }
        let found = pages.pages_in(0x1800, 0x4001);
        let (addresses, bytes): (Vec<u64>, Vec<_>) = found.into_iter().unzip();
        assert_eq!(addresses, [0x1000, 0x3000, 0x4000]);
        let is = |number: usize, byte: u8| bytes[number].is_some_and(|page| page.is(&[byte; PAGE as usize]));
        assert!(is(0, 1) && is(2, 4) && bytes[1].is_none());
        assert!(!is(0, 4));
        assert!(pages.pages_in(0x5000, 0x9000).is_empty());
    }

    #[test]
    fn blocks_are_found_by_their_addresses_whatever_their_order() {
        let mut pages = CodePages::default();
        let addresses = [0x1fff, 0x1000, 0x1040, 0x103f, 0x2000, 0x1041];
        for (block, address) in (0..).zip(addresses) {
            assert_eq!(pages.find(&mut Nothing, address), None, "no code is there");
            assert_eq!(pages.block(address), None);
            pages.add_block(address, block);
        }
        for (block, address) in (0..).zip(addresses) {
            assert_eq!(pages.block(address), Some(block));
            assert!(pages.starts_block(address));
        }
        assert_eq!(pages.block(0x1001), None);
        assert_eq!(pages.block(0x3000), None, "never looked at");
    }
}
