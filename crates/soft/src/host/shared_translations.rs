//! Shared translations: one translation for all programs that start with the same code.
//!
//! ```text
//! a program starts ──> a suitable translation: mapped at its addresses, with a slot of its own
//!                  ──> else a new translation, which other programs can share
//! code is mapped   ──> equal to the code that is claimed there, or new: the process stays
//!                  ──> other code: the process gets a translation of its own
//! ```
//!
//! Suitable is decided by content: every translated page is compared with the memory of the process.

use std::cell::RefCell;
use std::rc::Rc;

use super::code_cache::CodeCacheMapping;
use super::maps::MemoryMaps;

/// Most translations.
const MOST_CACHES: usize = 24;

/// Most blocks of all translations without a process; each takes some 500 bytes, its code included.
const MOST_BLOCKS: u32 = 400_000;

/// Translations that programs can share, in the order of their last use.
#[derive(Default)]
pub(super) struct SharedTranslations(Vec<Rc<RefCell<CodeCacheMapping>>>);

impl SharedTranslations {
    /// A translation that suits a program; it becomes the last one used.
    pub(super) fn find(&mut self, tid: u32, maps: &MemoryMaps) -> Option<Rc<RefCell<CodeCacheMapping>>> {
        let found = self.0.iter().rposition(|cache| cache.borrow().is_suitable(tid, maps))?;
        let cache = self.0.remove(found);
        self.0.push(cache.clone());
        Some(cache)
    }

    /// Adds a translation. Returns those that are removed because there are too many.
    pub(super) fn add(&mut self, cache: Rc<RefCell<CodeCacheMapping>>) -> Vec<Rc<RefCell<CodeCacheMapping>>> {
        self.0.push(cache);
        self.0.retain(|cache| cache.borrow().shared_code.is_open());
        let mut removed = Vec::new();
        while self.0.len() > MOST_CACHES || self.idle_blocks() > MOST_BLOCKS {
            let idle = self.0.iter().position(is_idle);
            removed.push(self.0.remove(idle.unwrap_or(0)));
        }
        removed
    }

    /// Removes a translation, so that no other program shares it.
    pub(super) fn give_up(&mut self, cache: &Rc<RefCell<CodeCacheMapping>>) {
        self.0.retain(|known| !Rc::ptr_eq(known, cache));
    }

    /// All translations.
    pub(super) fn caches(&self) -> impl Iterator<Item = &Rc<RefCell<CodeCacheMapping>>> {
        self.0.iter()
    }

    /// Whether a translation is in the list.
    pub(super) fn holds(&self, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        self.0.iter().any(|known| Rc::ptr_eq(known, cache))
    }

    fn idle_blocks(&self) -> u32 {
        let idle = self.0.iter().filter(|cache| is_idle(cache));
        idle.map(|cache| cache.borrow().translation.blocks()).sum()
    }
}

/// Whether no task executes a translation.
fn is_idle(cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
    Rc::strong_count(cache) == 1
}
