//! Execution profiles in a folder, a file for each file of code; and those of this run, in memory.
//!
//! The folder must belong to the user, and no other user may write to it. The files are checked, and affect
//! speed only ([`crate::profile`]). An unreadable folder is not an error: the translation is slower then.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use super::cache_folder::{CacheFolder, name_of};
use super::code_cache::CodeCacheMapping;
use super::maps::MemoryMapping;
use super::writers::FileId;
use crate::profile::{FileProfile, MOST_BYTES};
use crate::translate::{FilePage, PAGE};

/// Most files; beyond that the oldest are removed.
const MOST_FILES: usize = 1000;

/// The part of a profile that must be new for it to be written again. Two runs differ a little.
const NEW_PART: usize = 50;

/// Hints of the files whose code is executed.
pub(super) struct ProfileStore {
    /// `None` where no folder is used.
    folder: Option<CacheFolder>,
    files: Vec<ProfileFile>,
    /// The numbers of files; `None` for files without a profile.
    numbers: HashMap<FileId, Option<u32>>,
}

struct ProfileFile {
    name: String,
    /// `None` until the profile is read.
    profile: Option<FileProfile>,
}

impl ProfileStore {
    /// Opens a store in a folder, which is created if it is missing. Returns whether the folder can be
    /// trusted. Without a trusted folder profiles last as long as this process.
    pub(super) fn open(folder: Option<&Path>) -> (ProfileStore, bool) {
        let folder = folder.and_then(CacheFolder::open);
        let kept = folder.is_some();
        (ProfileStore { folder, files: Vec::new(), numbers: HashMap::new() }, kept)
    }

    /// The file page of a page of a mapping, with its profile.
    pub(super) fn origin(&mut self, tid: u32, mapping: &MemoryMapping, page: u64) -> Option<FilePage> {
        let known = mapping.file?;
        let file = match self.numbers.get(&known) {
            Some(number) => *number,
            None => {
                let path = format!("/proc/{tid}/root{}", mapping.name);
                let number = name_of(Path::new(&path)).ok().map(|name| self.number_of(name));
                self.numbers.insert(known, number);
                number
            }
        }?;
        let number = u32::try_from((page - mapping.start + mapping.offset) / PAGE).ok()?;
        Some(FilePage { file, page: number, profile: self.profile(file).page(number) })
    }

    /// The number of a file by its name.
    pub(super) fn number_of(&mut self, name: String) -> u32 {
        let known = self.files.iter().position(|file| file.name == name);
        let number = known.unwrap_or_else(|| {
            self.files.push(ProfileFile { name, profile: None });
            self.files.len() - 1
        });
        number as u32
    }

    /// The name of a file.
    pub(super) fn name(&self, number: u32) -> &str {
        &self.files[number as usize].name
    }

    fn profile(&mut self, file: u32) -> &mut FileProfile {
        let ProfileFile { name, profile } = &mut self.files[file as usize];
        let read = || self.folder.as_ref().and_then(|folder| read(folder, name));
        profile.get_or_insert_with(|| read().unwrap_or_default())
    }

    /// Adds the executions of a translation to the profiles.
    pub(super) fn learn(&mut self, cache: &CodeCacheMapping) {
        let map = cache.heats.borrow();
        for (origin, blocks) in cache.translation.pages_of_files() {
            let profile = self.profile(origin.file);
            for block in blocks {
                let Some(heats) = map.of(*block) else { continue };
                let address = cache.translation.block(*block).address;
                let indirect_entry = cache.translation.is_indirect_entry(address);
                profile.learn(origin.page, (address % PAGE) as u16, heats, indirect_entry);
            }
        }
    }

    /// Writes the profiles that have changed enough.
    pub(super) fn save(&mut self) {
        let Some(folder) = &self.folder else { return };
        let mut written = false;
        for ProfileFile { name, profile } in &self.files {
            let is_new = |profile: &&FileProfile| profile.fresh() * NEW_PART > profile.blocks();
            let Some(profile) = profile.as_ref().filter(is_new) else { continue };
            written |= folder.replace(name, |file| file.write_all(&profile.write())).is_ok();
        }
        if written {
            folder.clear_out(MOST_FILES, u64::MAX);
        }
    }
}

fn read(folder: &CacheFolder, name: &str) -> Option<FileProfile> {
    let (file, len) = folder.read(name)?;
    if len > MOST_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    FileProfile::read(&bytes)
}
