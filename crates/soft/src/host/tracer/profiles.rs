//! Executions of a run that are added to the execution profile.
//!
//! The types are in [`profile_store`](crate::host::profile_store).

use super::Tracer;
use crate::host::code_cache::CodeCacheMapping;

impl Tracer {
    /// Adds the executions of a translation that is given up to the profile.
    pub(super) fn learn(&self, cache: &CodeCacheMapping) {
        if let Some(store) = &self.profile {
            store.borrow_mut().learn(cache);
        }
    }

    /// Writes profiles and translations at the end of the run.
    pub(super) fn remember(&self) {
        let Some(store) = &self.profile else { return };
        self.shared_translations.caches().for_each(|cache| self.learn_new(&cache.borrow()));
        store.borrow_mut().save();
        self.shared_translations.caches().for_each(|cache| self.store_translation(cache));
    }

    /// Adds the executions of a translation to the profile, unless the translation was loaded and has hardly
    /// grown.
    pub(super) fn learn_new(&self, cache: &CodeCacheMapping) {
        if cache.record.has_new_executions(cache.translation.blocks()) {
            self.learn(cache);
        }
    }
}
