//! Hints of earlier runs, kept in a folder: a file for each file of code, named after what that is.
//!
//! The folder must belong to who we are, and nobody else may write to it. What is in it is checked, and decides on speed only
//! ([`crate::hints`]). Nothing is said where it cannot be read or written: the translation is slower then.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::engine::Engine;
use super::maps::Mapping;
use super::space::Space;
use super::writers::File;
use crate::hints::{FileHints, MOST_BYTES};
use crate::translate::{Origin, PAGE};

/// Most files that are kept; beyond that the oldest go.
const MOST_FILES: usize = 1000;

/// What must be new of a file's hints, as a part of what was known, so that they are written again: a run differs a little from
/// the one before.
const NEW_PART: usize = 50;

/// Do not follow a symbolic link.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/fcntl.h`.
const O_NOFOLLOW: i32 = 0o400_000;

/// Do not wait for who writes to a pipe, and take no terminal.
///
/// # Source
///
/// As above.
const O_NONBLOCK_NOCTTY: i32 = 0o4000 | 0o400;

/// Hints of the files whose code is executed.
pub(super) struct Store {
    folder: PathBuf,
    files: Vec<Entry>,
    /// The numbers of files; `None` where none are kept.
    numbers: HashMap<File, Option<u32>>,
}

struct Entry {
    name: String,
    hints: FileHints,
}

impl Store {
    /// In a folder, which is made if there is none; `None` where it cannot be trusted.
    pub(super) fn open(folder: &Path) -> Option<Store> {
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let is_safe = |metadata: fs::Metadata| metadata.is_dir() && is_ours(&metadata);
        let safe = fs::symlink_metadata(folder).is_ok_and(is_safe);
        safe.then(|| Store { folder: folder.to_owned(), files: Vec::new(), numbers: HashMap::new() })
    }

    /// Where a page of a mapping is from, and what is known of it.
    pub(super) fn origin(&mut self, tid: u32, mapping: &Mapping, page: u64) -> Option<Origin> {
        let known = mapping.file?;
        let file = match self.numbers.get(&known) {
            Some(number) => *number,
            None => {
                let number = self.add(tid, &mapping.name);
                self.numbers.insert(known, number);
                number
            }
        }?;
        let number = u32::try_from((page - mapping.start + mapping.offset) / PAGE).ok()?;
        Some(Origin { file, page: number, hints: self.files[file as usize].hints.page(number) })
    }

    fn add(&mut self, tid: u32, path: &str) -> Option<u32> {
        let name = name_of(Path::new(&format!("/proc/{tid}/root{path}"))).ok()?;
        let hints = self.read(&name).unwrap_or_default();
        self.files.push(Entry { name, hints });
        Some(self.files.len() as u32 - 1)
    }

    fn read(&self, name: &str) -> Option<FileHints> {
        let path = self.folder.join(name);
        let file =
            OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK_NOCTTY).open(path).ok()?;
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file() && is_ours(metadata))?;
        if metadata.len() > MOST_BYTES {
            return None;
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        FileHints::read(&bytes)
    }

    /// Takes over what was executed of a translation.
    pub(super) fn learn(&mut self, space: &Space) {
        let heats = space.heats.borrow();
        for (origin, blocks) in space.translation.pages_of_files() {
            let hints = &mut self.files[origin.file as usize].hints;
            for block in blocks {
                let Some(heat) = heats.of(*block) else { continue };
                let address = space.translation.piece(*block).address;
                let entrance = space.translation.is_entrance(address);
                hints.learn(origin.page, (address % PAGE) as u16, heat, entrance);
            }
        }
    }

    /// Writes what is new.
    pub(super) fn save(&mut self) {
        let changed = |entry: &&Entry| entry.hints.fresh() * NEW_PART > entry.hints.blocks();
        let mut written = false;
        for entry in self.files.iter().filter(changed) {
            written |= self.replace(&entry.name, &entry.hints.write()).is_ok();
        }
        if written {
            self.clear_out();
        }
    }

    /// Who reads meanwhile sees the old file or the new one.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Ids are the same in every container that may share the folder.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let new = self.folder.join(format!("{name}.{}.{}", std::process::id(), now.as_nanos()));
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create_new(true).mode(0o600).custom_flags(O_NOFOLLOW).open(&new)?;
        let replaced = file.write_all(bytes).and_then(|()| fs::rename(&new, self.folder.join(name)));
        replaced.inspect_err(|_| drop(fs::remove_file(&new)))
    }

    /// Removes the oldest files where there are too many.
    fn clear_out(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let dated = entries.filter_map(|entry| Some((entry.metadata().ok()?.mtime(), entry.path())));
        let mut files: Vec<(i64, PathBuf)> = dated.collect();
        files.sort_unstable();
        let many = files.len().saturating_sub(MOST_FILES);
        // One that somebody else has removed meanwhile is gone, too.
        files.iter().take(many).for_each(|(_, path)| drop(fs::remove_file(path)));
    }
}

/// How hot the blocks of a translation were, by their numbers.
#[derive(Default)]
pub(crate) struct Heats(Vec<u8>);

impl Heats {
    /// A process has executed a block so often.
    pub(crate) fn note(&mut self, block: u32, times: u64) {
        let index = block as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(crate::hints::heat(times) + 1);
    }

    fn of(&self, block: u32) -> Option<u8> {
        self.0.get(block as usize)?.checked_sub(1)
    }
}

impl Engine {
    /// Hints are made of what was executed of a translation that is given up.
    pub(super) fn learn(&self, space: &Space) {
        if let Some(store) = &self.hints {
            store.borrow_mut().learn(space);
        }
    }

    /// At the end: what was executed is remembered for the next run.
    pub(super) fn remember(&self) {
        let Some(store) = &self.hints else { return };
        self.pool.spaces().for_each(|space| self.learn(&space.borrow()));
        store.borrow_mut().save();
    }
}

/// Whether it belongs to who we are, and nobody else may write to it.
fn is_ours(metadata: &fs::Metadata) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    metadata.uid() == cyclometer_sys::host::effective_uid() && metadata.mode() & OTHERS_WRITE == 0
}

/// A name for what a file is now: by its length, when it was changed, and its first page, where programs and libraries have
/// the number that their build has given them.
fn name_of(path: &Path) -> io::Result<String> {
    // What is no file is not even opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK_NOCTTY).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut first = Vec::new();
    file.take(PAGE).read_to_end(&mut first)?;
    let stamp = [metadata.len(), metadata.mtime().cast_unsigned(), metadata.mtime_nsec().cast_unsigned()];
    let words = stamp.into_iter().flat_map(u64::to_le_bytes).chain(first);
    let (mut one, mut other) = (0xcbf2_9ce4_8422_2325_u64, 0x9ae1_6a3b_2f90_404f_u64);
    for byte in words {
        one = (one ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        other = (other.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    Ok(format!("{one:016x}{other:016x}"))
}
