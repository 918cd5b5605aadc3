//! Copies of the program's code, page by page.

use crate::hash::AddressMap;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Where the translator reads the program's code.
pub trait Code {
    /// The page (4096 bytes) at an address that is a multiple of 4096; `None` where code must not be taken from.
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>>;
}

/// Pages that were read, and at which of their bytes a translated block starts.
#[derive(Default)]
pub(crate) struct Pages {
    pages: Vec<Page>,
    index: AddressMap<u64, Option<u32>>,
    last: Option<(u64, u32)>,
}

struct Page {
    bytes: Box<[u8; PAGE as usize]>,
    starts: [u64; PAGE as usize / 64],
}

/// The bytes from an address on: 15 at least, unless code ends before.
pub(crate) struct Window {
    bytes: [u8; 15],
    len: usize,
}

impl Window {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Pages {
    /// Whether a page of the range was looked at.
    pub(crate) fn touches(&self, start: u64, end: u64) -> bool {
        if end.saturating_sub(start) / PAGE < self.index.len() as u64 {
            let first = start & !(PAGE - 1);
            return (first..end).step_by(PAGE as usize).any(|page| self.index.contains_key(&page));
        }
        self.index.keys().any(|page| *page + PAGE > start && *page < end)
    }

    /// The longest an instruction at `address` can be.
    pub(crate) fn window(&mut self, code: &mut dyn Code, address: u64) -> Window {
        let mut window = Window { bytes: [0; 15], len: 0 };
        while window.len < 15 {
            let Some(at) = address.checked_add(window.len as u64) else { break };
            let Some(page) = self.find(code, at) else { break };
            let offset = (at % PAGE) as usize;
            let count = (PAGE as usize - offset).min(15 - window.len);
            let bytes = &self.pages[page as usize].bytes[offset..offset + count];
            window.bytes[window.len..window.len + count].copy_from_slice(bytes);
            window.len += count;
        }
        window
    }

    /// The bytes of a page from an address on.
    pub(crate) fn rest(&self, page: u32, address: u64) -> &[u8] {
        &self.pages[page as usize].bytes[(address % PAGE) as usize..]
    }

    pub(crate) fn starts_block(&self, address: u64) -> bool {
        self.known(address & !(PAGE - 1)).is_some_and(|page| {
            let offset = (address % PAGE) as usize;
            self.pages[page as usize].starts[offset / 64] >> (offset % 64) & 1 == 1
        })
    }

    pub(crate) fn mark_start(&mut self, address: u64) {
        if let Some(page) = self.known(address & !(PAGE - 1)) {
            let offset = (address % PAGE) as usize;
            self.pages[page as usize].starts[offset / 64] |= 1 << (offset % 64);
        }
    }

    fn known(&self, page: u64) -> Option<u32> {
        match self.last {
            Some((last, index)) if last == page => Some(index),
            _ => self.index.get(&page).copied().flatten(),
        }
    }

    /// The number of the page that an address is on, if code may be taken from it.
    pub(crate) fn find(&mut self, code: &mut dyn Code, address: u64) -> Option<u32> {
        let page = address & !(PAGE - 1);
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == page) {
            return Some(index);
        }
        let index = match self.index.get(&page) {
            Some(known) => *known,
            None => self.read(code, page),
        };
        self.last = index.map(|index| (page, index)).or(self.last);
        index
    }

    fn read(&mut self, code: &mut dyn Code, page: u64) -> Option<u32> {
        let index = code.page(page).map(|bytes| {
            self.pages.push(Page { bytes, starts: [0; PAGE as usize / 64] });
            self.pages.len() as u32 - 1
        });
        self.index.insert(page, index);
        index
    }
}
