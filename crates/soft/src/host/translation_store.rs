//! Translations and execution profiles that outlive a process: shared ones, and those in files.
//!
//! A program that starts gets a shared translation, a stored one or a new one, in this order. Its executions
//! become a profile when its translation is given up.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use cyclometer_sys::trace::Registers;

use super::TracerSettings;
use super::cache_folder::{name_for, name_of};
use super::cache_record::has_grown;
use super::claims::CodeClaims;
use super::code_cache::{AT_ENTRY, CodeCacheMapping, auxiliary};
use super::equivalent_blocks::EquivalentBlocks;
use super::maps::{MapsCache, MemoryMapping, MemoryMaps};
use super::memory_limit::MemoryLimit;
use super::proc;
use super::process_rights::ProcessRights;
use super::profile_store::ProfileStore;
use super::restartable::FilePart;
use super::restartable_checks::RestartableSearch;
use super::shared_code::{SharedCode, has_claimed_code, is_kernels};
use super::shared_translations::SharedTranslations;
use super::trace_error::TraceError;
use super::tracees::Tracees;
use super::translation_cache::TranslationCache;
use super::translation_cache::cache_file::CacheFile;
use super::translation_cache::stored_head::{StoredHead, VERSION, pack_head};
use super::translation_context::TranslationContext;
use super::writers::FileId;
use crate::pack::{ChunkReader, ChunkWriter};
use crate::translate::{PAGE, StoredPages, Translation, TranslationSettings};

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

/// Translations and execution profiles that outlive a process.
#[derive(Default)]
pub(super) struct TranslationStore {
    /// Translations that several programs can share.
    pub(super) shared: SharedTranslations,
    /// The execution profile of earlier runs and of this one.
    pub(super) profile: Option<Rc<RefCell<ProfileStore>>>,
    /// The persistent translation cache.
    persistent: Option<TranslationCache>,
}

/// The reason why a file is not used.
enum CacheMiss {
    /// It is damaged, of another version, or made from code that has changed: no program can use it.
    Useless,
    /// It does not suit this program.
    Other,
    /// The addresses are in use in the program.
    NoRoom,
}

impl TranslationStore {
    /// Opens a store. `profile` is a folder for execution profiles; stored translations are beside it.
    pub(super) fn open(profile: Option<&Path>) -> TranslationStore {
        let (store, trusted) = ProfileStore::open(profile);
        let persistent = profile
            .filter(|_| trusted)
            .and_then(|profile| TranslationCache::open(&profile.with_file_name("translations")));
        TranslationStore {
            shared: SharedTranslations::default(),
            profile: Some(Rc::new(RefCell::new(store))),
            persistent,
        }
    }

    /// A slot for a program that is at its first instruction.
    pub(super) fn assign_program(
        &mut self,
        tracees: &Tracees,
        (tid, registers): (u32, &Registers),
        settings: &TracerSettings,
        search: &mut RestartableSearch,
    ) -> Result<TranslationContext, TraceError> {
        let mut known = MapsCache::default();
        let maps = known.read(tid).map_err(TraceError::of_maps)?;
        let shares = !settings.separate && has_fixed_layout(tid);
        let found = if shares { self.shared.find(tid, maps) } else { None };
        let allowance = tracees.allowance(tid);
        let enters = |cache: &Rc<RefCell<CodeCacheMapping>>| {
            cache.borrow().enter_program(tid, registers, maps, allowance).is_ok()
        };
        let shared = found.filter(enters);
        let cache = match shared {
            Some(cache) => {
                cache.borrow_mut().shared_code.add_program();
                cache
            }
            None => {
                let name = if shares { self.cache_name(tid, maps, settings) } else { None };
                let translation = settings.translation;
                let stored = name.as_deref().and_then(|name| {
                    self.load((tid, registers), maps, allowance, (name, translation), search)
                });
                let mut cache = match stored {
                    Some(cache) => cache,
                    None => {
                        let mut cache = CodeCacheMapping::new(tid, registers, maps, allowance, translation)?;
                        if let (true, Some(task)) = (shares, tracees.tasks.get(&tid)) {
                            cache.open_for(task.process, maps);
                        }
                        cache
                    }
                };
                let entry = name.as_ref().and_then(|_| auxiliary(tid, AT_ENTRY).ok());
                cache.record.set_name(name, entry);
                let cache = Rc::new(RefCell::new(cache));
                if cache.borrow().shared_code.is_open() {
                    for removed in self.shared.add(cache.clone()) {
                        self.learn_new(&removed.borrow());
                        self.store(&removed, search);
                    }
                }
                cache
            }
        };
        cache.borrow_mut().record.add_program();
        let slot = cache.borrow_mut().take_slot().ok_or(TraceError::Gone)?;
        Ok(TranslationContext { maps: known, ..TranslationContext::new(cache, slot) })
    }

    /// Adds the executions of a translation that is given up to the profile.
    pub(super) fn learn(&self, cache: &CodeCacheMapping) {
        if let Some(store) = &self.profile {
            store.borrow_mut().learn(cache);
        }
    }

    /// Writes profiles and translations at the end of the run.
    pub(super) fn remember(&self, search: &RestartableSearch) {
        let Some(store) = &self.profile else { return };
        self.shared.caches().for_each(|cache| self.learn_new(&cache.borrow()));
        store.borrow_mut().save();
        self.shared.caches().for_each(|cache| self.store(cache, search));
    }

    /// Adds the executions of a translation to the profile, unless the translation was loaded and has hardly
    /// grown.
    pub(super) fn learn_new(&self, cache: &CodeCacheMapping) {
        if cache.record.has_new_executions(cache.translation.blocks()) {
            self.learn(cache);
        }
    }

    /// The name under which the translation of a new program is stored; `None` where it is not to be stored.
    fn cache_name(&self, tid: u32, maps: &MemoryMaps, settings: &TracerSettings) -> Option<String> {
        // A translation with a budget is for one recording. A stored one has no places of its code, and no
        // plans of its records.
        let TranslationSettings { budget, logs_accesses, .. } = settings.translation;
        let is_plain = budget.is_none() && !settings.profiled && !logs_accesses;
        let translation_cache = self.persistent.as_ref().filter(|_| is_plain)?;
        if ProcessRights::of(tid).as_ref() != Some(&translation_cache.rights) {
            return None;
        }
        let mut text = format!("{VERSION} {:?}", settings.translation);
        for MemoryMapping { start, end, offset, name, file, .. } in
            maps.code().filter(|code| !is_kernels(code))
        {
            let stamp = if file.is_some() { name_of(Path::new(name)).ok()? } else { String::new() };
            text += &format!("\n{start:x} {end:x} {offset:x} {stamp} {name}");
        }
        Some(name_for(text.as_bytes()))
    }

    /// The stored translation of a name, mapped into a new program, if its code is the same.
    fn load(
        &self,
        program: (u32, &Registers),
        maps: &MemoryMaps,
        allowance: MemoryLimit,
        (name, settings): (&str, TranslationSettings),
        search: &mut RestartableSearch,
    ) -> Option<CodeCacheMapping> {
        let (mut file, _) = self.persistent.as_ref()?.folder.read(name)?;
        let taken = self.unpack(&mut file, program, (maps, allowance), settings, search);
        let folder = &self.persistent.as_ref()?.folder;
        match taken {
            Ok(cache) => return Some(cache),
            Err(CacheMiss::Other) if !is_old(&file) => {}
            Err(CacheMiss::Useless | CacheMiss::Other) => folder.remove(name),
            Err(CacheMiss::NoRoom) => {}
        }
        None
    }

    fn unpack(
        &self,
        file: &mut fs::File,
        program: (u32, &Registers),
        (maps, allowance): (&MemoryMaps, MemoryLimit),
        settings: TranslationSettings,
        search: &mut RestartableSearch,
    ) -> Result<CodeCacheMapping, CacheMiss> {
        let left = Rc::new(CacheFile::read(file).ok_or(CacheMiss::Useless)?);
        let from = &mut ChunkReader::new(file);
        let parts = self.unpack_all_but_code(from, left, settings, search);
        let (translation, claims) = parts.ok_or(CacheMiss::Useless)?;
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
        &self,
        from: &mut ChunkReader<'_>,
        originals: Rc<dyn StoredPages>,
        settings: TranslationSettings,
        search: &mut RestartableSearch,
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
        let translation = Translation::unpack(from, settings, originals, &files)?;
        search.without.extend(without_sequences);
        Some((translation, claims))
    }

    /// Stores a translation that is given up, if it is worth it. The file of a loaded one is dated, or
    /// removed if it has become useless.
    pub(super) fn store(&self, cache: &Rc<RefCell<CodeCacheMapping>>, search: &RestartableSearch) {
        // A process that still executes it may modify it.
        let idle = Rc::strong_count(cache) == 1;
        let cache = &cache.borrow();
        let (Some(translation_cache), Some(name)) = (&self.persistent, &cache.record.name) else {
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
                    && self.write(translation_cache, name, cache, search).is_ok()
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
        search: &RestartableSearch,
    ) -> io::Result<()> {
        let stamp = |path: &str| Ok((name_of(Path::new(path))?, FileId::at(path)));
        let stamps: Vec<_> = cache.shared_code.all().names().map(stamp).collect::<io::Result<_>>()?;
        translation_cache.folder.replace(name, |file| {
            CacheFile::write(&cache.translation, file)?;
            let mut to = ChunkWriter::new(file);
            let claims = cache.shared_code.all();
            let without_sequences: Vec<&FilePart> =
                search.without.iter().filter(|part| claims.has(part.file())).collect();
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
        let Some(translation_cache) = self.persistent.as_ref().filter(|_| may_be_written) else {
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

/// Whether a process begins with its memory laid out as in every run, and with nothing executable that is
/// only to be read.
///
/// # Source
///
/// `personality(2)`; Linux `include/uapi/linux/personality.h`.
fn has_fixed_layout(tid: u32) -> bool {
    const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
    const READ_IMPLIES_EXEC: u32 = 0x040_0000;
    let text = proc::text(format!("/proc/{tid}/personality")).unwrap_or_default();
    let persona = u32::from_str_radix(text.trim(), 16).unwrap_or(0);
    persona & (ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) == ADDR_NO_RANDOMIZE
}
