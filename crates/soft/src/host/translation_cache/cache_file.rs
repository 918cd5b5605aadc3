//! The first part of a file with a stored translation: pages and PC maps.

use std::io::{self, Read, Write};

use crate::pack;
use crate::translate::{PAGE, StoredPages, Translation};

const MAGIC: [u8; 8] = *b"cycltran";

/// The pages and PC maps of a file.
///
/// ```text
/// a page: "cycltran", number of pages, bytes of all PC maps, checksum over both, checksum over these four
///         (64 bits each)
/// the pages; the PC maps; the packed translation
/// ```
///
/// They are read as a whole, since all of their bytes are compared or summed anyway. Neither a file that is
/// cut later nor one that is changed later has an effect: a program that is in translated code then cannot go
/// on without its PC maps.
pub(in crate::host) struct CacheFile {
    pages: Vec<u8>,
    pc_maps: Vec<u8>,
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
    /// Reads the first part of a file. `None` where any byte of it is damaged.
    pub(in crate::host) fn read(from: &mut dyn Read) -> Option<CacheFile> {
        let mut head = [0; PAGE as usize];
        from.read_exact(&mut head).ok()?;
        let (words, _) = head.as_chunks::<8>();
        let word = |number: usize| u64::from_le_bytes(words[number]);
        if words[0] != MAGIC || word(4) != pack::sum(words[..4].as_flattened()) {
            return None;
        }
        let mut sum = FileChecksum::default();
        let mut part = |len: u64| {
            let mut bytes = Vec::new();
            // Only what is read takes memory.
            bytes.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
            from.take(len).read_to_end(&mut bytes).ok()?;
            sum.add(&bytes);
            (bytes.len() as u64 == len).then_some(bytes)
        };
        let (pages, pc_maps) = (part(word(1).checked_mul(PAGE)?)?, part(word(2))?);
        (sum.finish() == word(3)).then_some(CacheFile { pages, pc_maps })
    }

    pub(in crate::host) fn write(translation: &Translation, to: &mut dyn Write) -> io::Result<()> {
        let pages = translation.fresh_pages().count() as u64;
        let pc_maps: u64 = translation.all_pc_maps().map(|pc_maps| pc_maps.len() as u64).sum();
        let parts = translation.fresh_pages().map(|page| &page[..]).chain(translation.all_pc_maps());
        to.write_all(&head(pages, pc_maps, parts))?;
        translation.fresh_pages().try_for_each(|page| to.write_all(page))?;
        translation.all_pc_maps().try_for_each(|pc_maps| to.write_all(pc_maps))
    }
}

/// The first page of a file: the number of pages and the bytes of all PC maps, with checksums. `parts` are
/// the bytes of both.
pub(super) fn head<'a>(pages: u64, pc_maps: u64, parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut sum = FileChecksum::default();
    parts.into_iter().for_each(|part| sum.add(part));
    let words = [u64::from_le_bytes(MAGIC), pages, pc_maps, sum.finish()].map(u64::to_le_bytes);
    let words = words.as_flattened();
    let mut head = words.to_vec();
    head.extend(pack::sum(words).to_le_bytes());
    head.resize(PAGE as usize, 0);
    head
}

/// A part of some bytes; `None` where they end before.
fn part(bytes: &[u8], begin: u64, len: usize) -> Option<&[u8]> {
    let begin = usize::try_from(begin).ok()?;
    bytes.get(begin..begin.checked_add(len)?)
}

impl StoredPages for CacheFile {
    fn page(&self, number: u32) -> Option<&[u8; PAGE as usize]> {
        part(&self.pages, u64::from(number) * PAGE, PAGE as usize)?.try_into().ok()
    }

    fn pc_maps(&self, begin: u64, len: u32) -> Option<&[u8]> {
        part(&self.pc_maps, begin, len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with pages of these bytes, and PC maps.
    fn bytes_of(pages: &[u8], pc_maps: &[u8]) -> Vec<u8> {
        let pages: Vec<u8> = pages.iter().flat_map(|byte| [*byte; PAGE as usize]).collect();
        let mut bytes = head(pages.len() as u64 / PAGE, pc_maps.len() as u64, [&pages[..], pc_maps]);
        bytes.extend(pages);
        bytes.extend(pc_maps);
        bytes
    }

    fn read(mut bytes: &[u8]) -> Option<CacheFile> {
        CacheFile::read(&mut bytes)
    }

    #[test]
    fn pages_and_pc_maps_are_what_was_written_and_end_where_they_end() {
        let file = read(&bytes_of(&[1, 2, 3], b"abcdef")).unwrap();
        assert_eq!(file.page(2), Some(&[3; PAGE as usize]));
        assert!(file.page(3).is_none() && file.page(u32::MAX).is_none());
        assert_eq!(file.pc_maps(2, 4), Some(&b"cdef"[..]));
        assert!(file.pc_maps(3, 4).is_none() && file.pc_maps(u64::MAX, 2).is_none());
    }

    #[test]
    fn a_file_with_a_changed_byte_or_without_its_end_is_not_read() {
        let whole = bytes_of(&[1, 2], b"abcdef");
        for at in [0, 9, 17, 25, 33, PAGE as usize, 2 * PAGE as usize + 5, whole.len() - 1] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_none(), "{at}");
        }
        for len in [0, 39, PAGE as usize, 2 * PAGE as usize, whole.len() - 1] {
            assert!(read(&whole[..len]).is_none(), "{len}");
        }
    }

    #[test]
    fn a_length_beyond_the_file_takes_no_memory() {
        for (pages, pc_maps) in [(u64::MAX / PAGE, 0), (1, u64::MAX), (u64::MAX, 1)] {
            assert!(read(&head(pages, pc_maps, [])).is_none());
        }
    }

    #[test]
    fn a_file_that_is_cut_after_it_was_read_is_whole() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes_of(&[7], b"map")).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let read = CacheFile::read(&mut file).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(read.page(0), Some(&[7; PAGE as usize]));
        assert_eq!(read.pc_maps(0, 3), Some(&b"map"[..]));
    }
}
