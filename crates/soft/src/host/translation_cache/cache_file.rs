//! The first part of a file with a stored translation: pages and PC maps, which are read on demand.

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
        Some(CacheFile { file: file.try_clone().ok()?, pc_maps })
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

    fn pc_maps(&self, begin: u64, len: u32) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(&mut bytes, self.pc_maps.checked_add(begin)?).ok()?;
        Some(bytes)
    }
}
