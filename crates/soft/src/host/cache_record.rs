//! The record of a translation: whether it is stored for later runs.

/// A file is removed if its translation has grown by more than this part.
const GROWN_PART: u32 = 20;

/// The state that decides whether a translation is stored.
#[derive(Default)]
pub(super) struct CacheRecord {
    /// The name of its file; `None` where it is not to be stored.
    pub(super) name: Option<String>,
    /// The entry of the program, behind its loader.
    pub(super) entry: Option<u64>,
    /// The number of blocks that were loaded.
    pub(super) read: Option<u32>,
    /// The number of programs that have started in it.
    pub(super) began: u32,
    /// The number of processes that had other code.
    pub(super) diverged: u32,
}

impl CacheRecord {
    /// Sets the name under which the translation of a new program is stored.
    /// `entry` is the entry of the program, behind its loader.
    pub(super) fn set_name(&mut self, name: Option<String>, entry: Option<u64>) {
        self.entry = entry.filter(|_| name.is_some());
        self.name = name;
    }

    /// A program begins in it.
    pub(super) fn add_program(&mut self) {
        self.began += 1;
    }

    /// A process could not stay in it.
    pub(super) fn diverge(&mut self) {
        self.diverged += 1;
    }

    /// The number of blocks that were loaded from a file; `None` for a new translation.
    pub(super) fn read(&self) -> Option<u32> {
        self.read
    }

    /// Whether the translation, of so many blocks, has executions that are not in the profile.
    pub(super) fn has_new_executions(&self, blocks: u32) -> bool {
        self.read.is_none_or(|read| has_grown(read, blocks))
    }
}

pub(super) fn has_grown(read: u32, blocks: u32) -> bool {
    (blocks - read) * GROWN_PART > read
}
