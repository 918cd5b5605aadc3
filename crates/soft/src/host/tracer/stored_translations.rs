//! Translations that are stored and loaded.
//!
//! The types are in [`translation_cache`](crate::host::translation_cache).

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use cyclometer_sys::trace::Registers;

use super::Tracer;
use crate::host::cache_folder::{name_for, name_of};
use crate::host::cache_record::has_grown;
use crate::host::claims::CodeClaims;
use crate::host::code_cache::CodeCacheMapping;
use crate::host::equivalent_blocks::EquivalentBlocks;
use crate::host::maps::{MemoryMapping, MemoryMaps};
use crate::host::process_rights::ProcessRights;
use crate::host::restartable::FilePart;
use crate::host::shared_code::{SharedCode, has_claimed_code, is_kernels};
use crate::host::translation_cache::TranslationCache;
use crate::host::translation_cache::cache_file::CacheFile;
use crate::host::translation_cache::stored_head::{StoredHead, VERSION, pack_head};
use crate::host::writers::FileId;
use crate::pack::{ChunkReader, ChunkWriter};
use crate::translate::{PAGE, StoredPages, Translation};

/// Most files; beyond that the least recently used are removed.
const MOST_FILES: usize = 1000;

/// Most bytes of all files.
const MOST_BYTES: u64 = 1 << 30;

/// Most bytes of one file, and the least size of a block, without the original code.
const MOST_OF_ONE: u64 = MOST_BYTES / 4;
const OF_A_BLOCK: u64 = 100;

/// The part of the blocks, in quarters, that must be in the profile for a translation to be stored.
const HINTED_OF_FOUR: usize = 3;

/// A file that was not used for so long is replaced by another with the same name.
const OLD: Duration = Duration::from_secs(3600);

/// The age of a file that was never used. A file that was used since is kept longer; where all files are
/// newer, nothing new is stored.
const UNUSED: Duration = Duration::from_secs(2 * 3600);

/// The reason why a file is not used.
enum CacheMiss {
    /// It is damaged, of another version, or made from code that has changed: no program can use it.
    Useless,
    /// It does not suit this program.
    Other,
    /// The addresses are in use in the program.
    NoRoom,
}

impl Tracer {
    /// The name under which the translation of a new program is stored; `None` where it is not to be stored.
    pub(super) fn cache_name(&self, tid: u32, maps: &MemoryMaps) -> Option<String> {
        // A translation with a budget is for one recording, and a stored one has no places of its code.
        let is_plain = self.recording.is_none() && self.objects.is_none();
        let translation_cache = self.translation_cache.as_ref().filter(|_| is_plain)?;
        if ProcessRights::of(tid).as_ref() != Some(&translation_cache.rights) {
            return None;
        }
        let mut text = format!("{VERSION} {:?}", self.settings.translation);
        for MemoryMapping { start, end, offset, name, file, .. } in
            maps.code().filter(|code| !is_kernels(code))
        {
            let stamp = if file.is_some() { name_of(Path::new(name)).ok()? } else { String::new() };
            text += &format!("\n{start:x} {end:x} {offset:x} {stamp} {name}");
        }
        Some(name_for(text.as_bytes()))
    }

    /// The stored translation of a name, mapped into a new program, if its code is the same.
    pub(super) fn load_translation(
        &mut self,
        program: (u32, &Registers),
        maps: &MemoryMaps,
        allowance: u64,
        name: &str,
    ) -> Option<CodeCacheMapping> {
        let (mut file, _) = self.translation_cache.as_ref()?.folder.read(name)?;
        let taken = self.unpack(&mut file, program, maps, allowance);
        let folder = &self.translation_cache.as_ref()?.folder;
        match taken {
            Ok(cache) => return Some(cache),
            Err(CacheMiss::Other) if !is_old(&file) => {}
            Err(CacheMiss::Useless | CacheMiss::Other) => folder.remove(name),
            Err(CacheMiss::NoRoom) => {}
        }
        None
    }

    fn unpack(
        &mut self,
        file: &mut fs::File,
        program: (u32, &Registers),
        maps: &MemoryMaps,
        allowance: u64,
    ) -> Result<CodeCacheMapping, CacheMiss> {
        let left = Rc::new(CacheFile::read(file).ok_or(CacheMiss::Useless)?);
        let from = &mut ChunkReader::new(file);
        let (translation, claims) = self.unpack_all_but_code(from, left).ok_or(CacheMiss::Useless)?;
        if translation.is_full() || !has_claimed_code(&translation, &claims, program.0, maps) {
            return Err(CacheMiss::Other);
        }
        let cache = CodeCacheMapping::again(program, maps, allowance, translation);
        let mut cache = cache.map_err(|_| CacheMiss::NoRoom)?;
        let Some(equivalent_blocks) = cache.unpack_code(from).and_then(|()| EquivalentBlocks::unpack(from))
        else {
            let _ = cache.unmap_from_program(program.0, program.1);
            return Err(CacheMiss::Useless);
        };
        *cache.equivalent_blocks.borrow_mut() = equivalent_blocks;
        cache.shared_code = SharedCode::of(claims);
        cache.record.read = Some(cache.translation.blocks());
        Ok(cache)
    }

    fn unpack_all_but_code(
        &mut self,
        from: &mut ChunkReader<'_>,
        originals: Rc<dyn StoredPages>,
    ) -> Option<(Translation, CodeClaims)> {
        let StoredHead { mut claims, stamps, without_sequences, names } = StoredHead::unpack(from)?;
        for ((path, file), (stamp, then)) in claims.files().zip(stamps) {
            // A file that has changed would be noticed only when the program maps it.
            if name_of(Path::new(path)).ok()? != stamp {
                return None;
            }
            // The same file may have another device number: after a new mount, or in another container.
            let now = FileId::at(path)?;
            if then != Some(now) {
                *file = now;
            }
        }
        let store = &mut self.profile.as_ref()?.borrow_mut();
        let files = names.into_iter().map(|(then, name)| (then, store.number_of(name))).collect();
        let translation = Translation::unpack(from, self.settings.translation, originals, &files)?;
        self.restartable.without.extend(without_sequences);
        Some((translation, claims))
    }

    /// Stores a translation that is given up, if it is worth it. The file of a loaded one is dated, or
    /// removed if it has become useless.
    pub(super) fn store_translation(&self, cache: &Rc<RefCell<CodeCacheMapping>>) {
        // A process that still executes it may modify it.
        let idle = Rc::strong_count(cache) == 1;
        let cache = &cache.borrow();
        let (Some(translation_cache), Some(name)) = (&self.translation_cache, &cache.record.name) else {
            return;
        };
        let record = &cache.record;
        let diverged = 2 * record.diverged > record.began;
        match (record.read, translation_cache.folder.read(name)) {
            (Some(read), _) if has_grown(read, cache.translation.blocks()) => {
                translation_cache.folder.remove(name)
            }
            (Some(_), Some((file, _))) if diverged && is_old(&file) => translation_cache.folder.remove(name),
            (Some(_), Some(_)) if diverged => {}
            (Some(_), _) => translation_cache.folder.date(name, SystemTime::now()),
            // The file suits other programs.
            (None, Some(_)) => {}
            (None, None) => {
                if idle
                    && !diverged
                    && is_worth_storing(cache)
                    && self.write(translation_cache, name, cache).is_ok()
                {
                    translation_cache.folder.date(name, SystemTime::now() - UNUSED);
                }
                translation_cache.folder.clear_out(MOST_FILES, MOST_BYTES);
            }
        }
    }

    fn write(
        &self,
        translation_cache: &TranslationCache,
        name: &str,
        cache: &CodeCacheMapping,
    ) -> io::Result<()> {
        let stamp = |path: &str| Ok((name_of(Path::new(path))?, FileId::at(path)));
        let stamps: Vec<_> = cache.shared_code.all().names().map(stamp).collect::<io::Result<_>>()?;
        translation_cache.folder.replace(name, |file| {
            CacheFile::write(&cache.translation, file)?;
            let mut to = ChunkWriter::new(file);
            let claims = cache.shared_code.all();
            let without_sequences: Vec<&FilePart> =
                self.restartable.without.iter().filter(|part| claims.has(part.file())).collect();
            let store = self.profile.as_ref().ok_or(io::ErrorKind::NotFound)?.borrow();
            let files = cache.translation.files();
            let names: Vec<(u32, &str)> = files.iter().map(|number| (*number, store.name(*number))).collect();
            pack_head(claims, &stamps, &without_sequences, &names, &mut to);
            cache.translation.pack(&mut to);
            cache.pack_code(&mut to)?;
            cache.equivalent_blocks.borrow().pack(&mut to);
            to.finish()
        })
    }

    /// Forbids storing a translation that a process with fewer rights than the tracer has executed, because
    /// it could have modified it. A translation that was loaded is not written again.
    pub(super) fn forbid_storing(&self, tid: u32, cache: &mut CodeCacheMapping) {
        let may_be_written = cache.record.name.is_some() && cache.record.read.is_none();
        let Some(translation_cache) = self.translation_cache.as_ref().filter(|_| may_be_written) else {
            return;
        };
        if ProcessRights::of(tid).as_ref() != Some(&translation_cache.rights) {
            cache.record.name = None;
        }
    }
}

/// Whether a new translation is worth storing. Most of its blocks, and the program's entry, must be in the
/// profile, and its size must be within its share of all files.
fn is_worth_storing(cache: &CodeCacheMapping) -> bool {
    let (translation, blocks) = (&cache.translation, cache.translation.blocks() as usize);
    let profiled = 4 * translation.profiled() >= HINTED_OF_FOUR * blocks;
    let begins = cache.record.entry.is_some_and(|entry| translation.is_profiled(entry));
    let code: u64 = translation.used_regions().map(|(_, used)| u64::from(used)).sum();
    let bytes = translation.fresh_pages().count() as u64 * PAGE + code + blocks as u64 * OF_A_BLOCK;
    profiled && begins && bytes <= MOST_OF_ONE && cache.shared_code.is_open() && translation.is_settled()
}

/// Whether a file was not used for long; one of the future was.
fn is_old(file: &fs::File) -> bool {
    let time = file.metadata().and_then(|metadata| metadata.modified());
    time.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > OLD))
}
