//! Slots of tasks in a translation.
//!
//! Each task has a slot of its own, so that each counter is written by one task. An ended thread leaves its
//! slot, with the counts, to the next one of its process, unless counts of threads are kept apart.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace;

use super::code_cache::CodeCacheMapping;
use super::trace_error::TraceError;
use super::tracees::Tracees;
use super::translation_context::{TranslationContext, TranslationCounts};
use crate::translate::TranslationSettings;

impl Tracees {
    /// A slot for a task in a translation: for a thread, preferably one of an ended thread.
    pub(super) fn assign_slot(
        &mut self,
        tid: u32,
        cache: &Rc<RefCell<CodeCacheMapping>>,
    ) -> Result<TranslationContext, TraceError> {
        let ended_contexts = self.process(tid).map(|process| &mut process.ended_contexts);
        let left = ended_contexts.and_then(|ended_contexts| {
            let is_left =
                |context: &TranslationContext| Rc::ptr_eq(&context.cache, cache) && context.thread.is_none();
            let found = ended_contexts.iter().position(is_left)?;
            Some(ended_contexts.swap_remove(found))
        });
        if let Some(context) = left {
            return Ok(context);
        }
        let mut slot = cache.borrow_mut().take_slot();
        if slot.is_none() {
            self.free_ended_slots(cache);
            slot = cache.borrow_mut().take_slot();
        }
        let what = if self.other_threads(tid).is_empty() { "processes" } else { "threads" };
        let slot = slot.ok_or_else(|| TraceError::Detach(format!("has too many {what} at a time")))?;
        Ok(TranslationContext::new(cache.clone(), slot))
    }

    /// A slot in a translation of its own for a new process in native state.
    pub(super) fn assign_apart(
        &self,
        child: u32,
        old: &Rc<RefCell<CodeCacheMapping>>,
        settings: TranslationSettings,
    ) -> Result<TranslationContext, TraceError> {
        let near = trace::registers(child)?.rip;
        let mut cache = CodeCacheMapping::after(&old.borrow(), child, near, self.allowance(child), settings)?;
        let slot = cache.take_slot().ok_or(TraceError::Gone)?;
        Ok(TranslationContext::new(Rc::new(RefCell::new(cache)), slot))
    }

    /// Frees the slots of ended threads, and keeps their counts.
    fn free_ended_slots(&mut self, cache: &Rc<RefCell<CodeCacheMapping>>) {
        for process in &mut self.processes {
            let (here, elsewhere) = std::mem::take(&mut process.ended_contexts)
                .into_iter()
                .partition(|context| Rc::ptr_eq(&context.cache, cache));
            let here: Vec<TranslationContext> = here;
            process.ended_contexts = elsewhere;
            process.ended_counts.extend(here.iter().map(TranslationCounts::of));
            here.iter().for_each(|context| cache.borrow_mut().give_slot(context.slot));
        }
    }
}
