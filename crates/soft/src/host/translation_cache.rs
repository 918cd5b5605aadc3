//! Persistent translation cache: translations in files, for later runs of the same programs.
//!
//! ```text
//! a program starts ──> a file by the hash of its code: of this version, of this user, undamaged
//!                  ──> every translated page is equal: its code is put at its old addresses
//!                  ──> code that it maps later is compared as in a shared translation (shared_code)
//! all have ended   ──> a new translation is stored, if it was made from a profile
//! ```
//!
//! # Terms
//!
//! - *Record*: the state of a translation that decides whether it is stored
//!   ([`CacheRecord`](super::cache_record::CacheRecord)).
//! - *Miss*: the reason why a file is not used (`CacheMiss`).
//!
//! # Life of a file
//!
//! The first run of a program leaves an execution profile. The second makes a translation from it, and stores
//! that. The third uses it. A file is removed if a run needed many more blocks. It is also removed if most
//! processes had other code, and no other program has used the file for an hour.
//!
//! # Invariants
//!
//! - Counts do not change: a stored translation is used like a shared one.
//! - A process with other rights than the tracer never leaves a translation behind ([`ProcessRights`]).
//! - A file is checked (version, checksums, file identities) before it is used; a damaged one is removed.

use std::path::Path;

use super::cache_folder::CacheFolder;
use super::process_rights::ProcessRights;

pub(super) mod cache_file;
#[doc(hidden)]
pub mod fuzzing;
pub(super) mod stored_head;

/// Translations of earlier runs.
pub(super) struct TranslationCache {
    pub(super) folder: CacheFolder,
    pub(super) rights: ProcessRights,
}

impl TranslationCache {
    /// Opens the cache in a folder, which is created if it is missing; `None` where it cannot be trusted.
    pub(super) fn open(folder: &Path) -> Option<TranslationCache> {
        Some(TranslationCache {
            folder: CacheFolder::open(folder)?,
            rights: ProcessRights::of(std::process::id())?,
        })
    }
}
