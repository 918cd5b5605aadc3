//! Stored translations from bytes without version and checksums, which random changes do not find.
//!
//! ```text
//! number of pages (8 bits), bytes of PC maps (16 bits), the pages, the PC maps, the rest behind the version
//! ```

use std::rc::Rc;

use super::cache_file::{CacheFile, head};
use super::stored_head::{StoredHead, VERSION, pack_head};
use crate::hash::AddressMap;
use crate::host::claims::CodeClaims;
use crate::host::equivalent_blocks::EquivalentBlocks;
use crate::host::maps::MemoryMaps;
use crate::pack::{ChunkReader, ChunkWriter, HEAD};
use crate::translate::{CodeSource, FilePage, PAGE, Translation, TranslationSettings};

/// Where the code of [`sample`] is, its code cache, and the table of its code cache.
const ADDRESSES: [u64; 3] = [0x40_0000, 0x3000_0000, 0x7f00_0000];

/// The most bytes of code that are skipped: as many as the regions have, which a change may set.
const MOST_CODE: u64 = 1 << 20;

/// The parts of the bytes: pages, PC maps, the rest.
fn parts(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let ([pages, low, high], rest) = bytes.split_first_chunk()?;
    let (pages, rest) = rest.split_at_checked(usize::from(*pages) * PAGE as usize)?;
    let (pc_maps, rest) = rest.split_at_checked(u16::from_le_bytes([*low, *high]).into())?;
    Some((pages, pc_maps, rest))
}

/// The file with these parts.
fn sealed(pages: &[u8], pc_maps: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    let mut file = head(pages.len() as u64 / PAGE, pc_maps.len() as u64, [pages, pc_maps]);
    file.extend([pages, pc_maps].concat());
    let mut to = ChunkWriter::new(&mut file);
    to.counted(VERSION.as_bytes());
    to.bytes(rest);
    to.finish().ok()?;
    Some(file)
}

/// Reads a stored translation as a later run does before it is put into a program; `None` where it is
/// refused. The number is that of its blocks.
pub fn read(bytes: &[u8]) -> Option<u32> {
    let (pages, pc_maps, rest) = parts(bytes)?;
    let file = sealed(pages, pc_maps, rest)?;
    let mut file = &file[..];
    let stored = Rc::new(CacheFile::read(&mut file)?);
    let mut from = ChunkReader::new(&mut file);
    let head = StoredHead::unpack(&mut from)?;
    let files: AddressMap<u32, u32> = head.names.iter().map(|(number, _)| (*number, *number)).collect();
    let translation = Translation::unpack(&mut from, TranslationSettings::default(), stored, &files)?;
    let used: u64 = translation.used_regions().map(|(_, used)| u64::from(used)).sum();
    from.fill(&mut vec![0; usize::try_from(used.min(MOST_CODE)).ok()?])?;
    EquivalentBlocks::unpack(&mut from)?;
    Some(translation.blocks())
}

/// A program whose loop calls a function: code of a file.
struct SampleProgram;

impl CodeSource for SampleProgram {
    fn page(&mut self, address: u64) -> Option<Box<[u8; PAGE as usize]>> {
        // mov ecx, 5; head: call function; dec ecx; jnz head; ud2; function: inc rax; ret
        let code = *b"\xb9\x05\0\0\0\xe8\x06\0\0\0\xff\xc9\x75\xf7\x0f\x0b\x48\xff\xc0\xc3";
        let mut page = Box::new([0xcc; PAGE as usize]);
        page[..code.len()].copy_from_slice(&code);
        (address == ADDRESSES[0]).then_some(page)
    }

    fn origin(&mut self, _: u64) -> Option<FilePage> {
        Some(FilePage { file: 3, page: 1, profile: None })
    }
}

/// A translation of a small program in the form that [`read`] takes; `None` where the translator fails.
pub fn sample() -> Option<Vec<u8>> {
    let [code, region, table] = ADDRESSES;
    let mut translation = Translation::new(table, TranslationSettings::default());
    translation.add_region(region, 16);
    translation.enter(&mut SampleProgram, code).ok()?;
    let mut claims = CodeClaims::default();
    let maps = MemoryMaps::parse("400000-401000 r-xp 00001000 fe:00 7 /lib/a");
    maps.code().for_each(|mapping| claims.add(mapping));
    let stamps = claims.files().map(|(_, file)| ("name".to_owned(), Some(*file))).collect::<Vec<_>>();
    let mut packed = Vec::new();
    let mut to = ChunkWriter::new(&mut packed);
    pack_head(&claims, &stamps, &[], &[(3, "name")], &mut to);
    translation.pack(&mut to);
    let used: u64 = translation.used_regions().map(|(_, used)| u64::from(used)).sum();
    to.bytes(&vec![0x90; used as usize]);
    EquivalentBlocks::default().pack(&mut to);
    to.finish().ok()?;
    let mut from = &packed[..];
    let mut rest = vec![0; packed.len() - HEAD];
    let mut reader = ChunkReader::new(&mut from);
    reader.fill(&mut rest)?;
    let rest = rest.split_off(8 + VERSION.len());
    let pages = translation.fresh_pages().map(<[u8; PAGE as usize]>::as_slice).collect::<Vec<_>>().concat();
    let pc_maps = translation.all_pc_maps().collect::<Vec<_>>().concat();
    let numbers = (u8::try_from(pages.len() / PAGE as usize).ok()?, u16::try_from(pc_maps.len()).ok()?);
    let [low, high] = numbers.1.to_le_bytes();
    Some([&[numbers.0, low, high][..], &pages, &pc_maps, &rest].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_read_and_none_that_was_cut() {
        let sample = sample().unwrap();
        assert!(read(&sample).is_some_and(|blocks| blocks >= 3));
        for len in 0..sample.len() {
            assert_eq!(read(&sample[..len]), None, "{len}");
        }
    }
}
