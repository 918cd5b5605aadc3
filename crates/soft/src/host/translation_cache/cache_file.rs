//! The first part of a file with a stored translation: pages and PC maps, which are read on demand.

use std::cell::RefCell;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use crate::pack;
use crate::translate::{PAGE, StoredPages, Translation};

const MAGIC: [u8; 8] = *b"cycltran";

/// The part of a file that is read on demand.
///
/// ```text
/// a page: "cycltran", number of pages, bytes of all PC maps, checksum over both, checksum over these four
///         (64 bits each)
/// the pages; the PC maps; the packed translation
/// ```
pub(in crate::host) struct CacheFile {
    file: fs::File,
    /// The offset of the PC maps.
    pc_maps: u64,
    /// The pages that were read last: programs are compared page by page, in the order of addresses.
    recent: RefCell<RecentPages>,
}

/// Neighbouring pages of a file. They are read rather than mapped: a mapped file that is cut would end the
/// process that looks at it.
#[derive(Default)]
struct RecentPages {
    /// The number of the first page.
    first: u64,
    bytes: Vec<u8>,
}

impl RecentPages {
    /// Pages that are read at once.
    const PAGES: u64 = 16;

    /// The page with a number, of `pages` in the file.
    fn page(&mut self, file: &fs::File, number: u64, pages: u64) -> Option<&[u8]> {
        if number.wrapping_sub(self.first) >= self.bytes.len() as u64 / PAGE {
            let first = number - number % RecentPages::PAGES;
            let count = pages.saturating_sub(first).min(RecentPages::PAGES);
            self.bytes.resize((count * PAGE) as usize, 0);
            if file.read_exact_at(&mut self.bytes, (first + 1) * PAGE).is_err() {
                self.bytes.clear();
                return None;
            }
            self.first = first;
        }
        let begin = ((number - self.first) * PAGE) as usize;
        self.bytes.get(begin..begin + PAGE as usize)
    }
}

/// A sum over any number of bytes.
#[derive(Default)]
struct FileChecksum {
    row: Vec<u8>,
    rows: Vec<u8>,
}

impl FileChecksum {
    const ROW: usize = 1 << 16;

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(FileChecksum::ROW - self.row.len()));
            self.row.extend_from_slice(now);
            bytes = later;
            if self.row.len() == FileChecksum::ROW {
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.rows.extend(pack::sum(&self.row).to_le_bytes());
        self.row.clear();
    }

    fn finish(mut self) -> u64 {
        self.close();
        pack::sum(&self.rows)
    }
}

impl CacheFile {
    /// Opens a file, and leaves it at the packed part. `None` where any byte before that is damaged.
    pub(in crate::host) fn open(file: &mut fs::File) -> Option<CacheFile> {
        let mut head = [0; PAGE as usize];
        file.read_exact(&mut head).ok()?;
        let (words, _) = head.as_chunks::<8>();
        let word = |number: usize| u64::from_le_bytes(words[number]);
        if words[0] != MAGIC || word(4) != pack::sum(words[..4].as_flattened()) {
            return None;
        }
        let pc_maps = word(1).checked_add(1)?.checked_mul(PAGE)?;
        let packed = pc_maps.checked_add(word(2))?;
        let mut sum = FileChecksum::default();
        let mut room = vec![0; FileChecksum::ROW];
        let mut rest = packed - PAGE;
        while rest > 0 {
            let part = &mut room[..rest.min(FileChecksum::ROW as u64) as usize];
            file.read_exact(part).ok()?;
            sum.add(part);
            rest -= part.len() as u64;
        }
        (sum.finish() == word(3)).then_some(())?;
        Some(CacheFile { file: file.try_clone().ok()?, pc_maps, recent: RefCell::default() })
    }

    pub(in crate::host) fn write(translation: &Translation, to: &mut dyn Write) -> io::Result<()> {
        let pages = translation.fresh_pages().count() as u64;
        let pc_maps: u64 = translation.all_pc_maps().map(|pc_maps| pc_maps.len() as u64).sum();
        let mut sum = FileChecksum::default();
        translation.fresh_pages().for_each(|page| sum.add(page));
        translation.all_pc_maps().for_each(|pc_maps| sum.add(pc_maps));
        let words = [u64::from_le_bytes(MAGIC), pages, pc_maps, sum.finish()].map(u64::to_le_bytes);
        let words = words.as_flattened();
        let mut head = words.to_vec();
        head.extend(pack::sum(words).to_le_bytes());
        head.resize(PAGE as usize, 0);
        to.write_all(&head)?;
        translation.fresh_pages().try_for_each(|page| to.write_all(page))?;
        translation.all_pc_maps().try_for_each(|pc_maps| to.write_all(pc_maps))
    }
}

impl StoredPages for CacheFile {
    fn page(&self, number: u32) -> Option<Box<[u8; PAGE as usize]>> {
        let mut bytes = Box::new([0; PAGE as usize]);
        self.file.read_exact_at(&mut bytes[..], (u64::from(number) + 1) * PAGE).ok()?;
        Some(bytes)
    }

    fn has_bytes(&self, number: u32, bytes: &[u8]) -> bool {
        let pages = self.pc_maps / PAGE - 1;
        let mut recent = self.recent.borrow_mut();
        recent.page(&self.file, u64::from(number), pages).is_some_and(|page| page == bytes)
    }

    fn pc_maps(&self, begin: u64, len: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, self.pc_maps.checked_add(begin)?).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with pages of these bytes, as `CacheFile::write` lays them out.
    fn file_of(bytes: &[u8]) -> (fs::File, CacheFile) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[0xff; PAGE as usize]).unwrap();
        bytes.iter().for_each(|byte| file.write_all(&[*byte; PAGE as usize]).unwrap());
        let pc_maps = (bytes.len() as u64 + 1) * PAGE;
        (file.try_clone().unwrap(), CacheFile { file, pc_maps, recent: RefCell::default() })
    }

    #[test]
    fn every_byte_of_a_stored_page_is_compared() {
        let bytes: Vec<u8> = (1..=40).collect();
        let (_, pages) = file_of(&bytes);
        for number in [0, 15, 16, 17, 39, 0, 31, 32] {
            let mut page = vec![bytes[number as usize]; PAGE as usize];
            assert!(pages.has_bytes(number, &page), "{number}");
            for place in [0, 1, 2047, PAGE as usize - 1] {
                page[place] ^= 0x80;
                assert!(!pages.has_bytes(number, &page), "{number}, byte {place}");
                page[place] ^= 0x80;
            }
            assert!(!pages.has_bytes(number, &page[1..]) && !pages.has_bytes(number, &[]));
        }
    }

    #[test]
    fn a_page_beyond_the_last_or_of_a_file_that_was_cut_equals_nothing() {
        let (file, pages) = file_of(&[1, 2, 3]);
        let page = |byte| vec![byte; PAGE as usize];
        assert!(!pages.has_bytes(3, &page(0)) && !pages.has_bytes(u32::MAX, &page(0)));
        file.set_len(2 * PAGE).unwrap();
        assert!(!pages.has_bytes(2, &page(3)), "the page is no longer there");
        assert!(!pages.has_bytes(0, &page(1)), "a damaged neighbour costs a hit, never a wrong one");
    }

    /// Two pages whose checksum is equal: the first version of the cache took one for the other.
    #[test]
    fn a_page_with_the_same_checksum_is_another_page() {
        // In a lane, (sum ^ word) * odd, rotated, can be steered: the second word makes up for the first.
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        let start = 0xcbf2_9ce4_8422_2325 ^ 1;
        let (one, other) = (vec![0_u8; PAGE as usize], {
            let mut forged = vec![0_u8; PAGE as usize];
            forged[..8].copy_from_slice(&1_u64.to_le_bytes());
            forged[32..40].copy_from_slice(&(mix(start, 1) ^ mix(start, 0)).to_le_bytes());
            forged
        });
        assert_eq!(pack::sum(&one), pack::sum(&other));
        let (_, pages) = file_of(&[0]);
        assert!(pages.has_bytes(0, &one) && !pages.has_bytes(0, &other));
    }
}
