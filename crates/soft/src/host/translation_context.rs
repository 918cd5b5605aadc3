//! The context of a thread in a translation, and the counts of all threads there.

use std::cell::RefCell;
use std::rc::Rc;

use super::code_cache::CodeCacheMapping;
use super::ledger::{CounterSnapshot, ExecutedCode, ThreadLedger};
use super::maps::MapsCache;
use super::translated_pc::TranslatedPc;
use crate::{EventSet, EventTotals};

/// The context of a thread in a translation: its slot, and executions that no counter has seen.
pub(crate) struct TranslationContext {
    pub(crate) cache: Rc<RefCell<CodeCacheMapping>>,
    pub(crate) slot: usize,
    pub(crate) ledger: ThreadLedger,
    /// The mappings of the process.
    pub(crate) maps: MapsCache,
    /// The number of the thread that has ended with it, if counts of threads are kept apart.
    pub(super) thread: Option<u32>,
}

impl TranslationContext {
    pub(crate) fn new(cache: Rc<RefCell<CodeCacheMapping>>, slot: usize) -> TranslationContext {
        let (ledger, maps) = (ThreadLedger::default(), MapsCache::default());
        TranslationContext { cache, slot, ledger, maps, thread: None }
    }

    /// A copy of the ledger, as if the thread left at a position; `None` where the position is unknown.
    pub(crate) fn ledger_at(&self, position: TranslatedPc) -> Option<ThreadLedger> {
        let point = self.cache.borrow().translation.point_at(position.pc)?;
        let mut ledger = self.ledger.clone();
        ledger.exit_at(&mut self.cache.borrow_mut(), self.slot, &point, position);
        Some(ledger)
    }

    /// Records that the thread leaves translated code at a position. False where the position is unknown.
    pub(crate) fn exit_at(&mut self, position: TranslatedPc) -> bool {
        let cache = &mut self.cache.borrow_mut();
        let point = cache.translation.point_at(position.pc);
        point.iter().for_each(|point| self.ledger.exit_at(cache, self.slot, point, position));
        point.is_some()
    }
}

/// The counts from one translation.
#[derive(Clone)]
pub(crate) struct TranslationCounts {
    pub(super) cache: Rc<RefCell<CodeCacheMapping>>,
    pub(super) tally: CounterSnapshot,
    /// The number of the thread, if counts of threads are kept apart.
    pub(super) thread: Option<u32>,
}

impl TranslationCounts {
    /// The counts of a task that does not run, and is outside of every block.
    pub(super) fn of(context: &TranslationContext) -> TranslationCounts {
        let tally = CounterSnapshot::read(&context.cache.borrow(), context.slot, &context.ledger);
        TranslationCounts { cache: context.cache.clone(), tally, thread: context.thread }
    }
}

/// The counts of all threads of a process, added up for each translation; those of threads that are kept
/// apart, for each of them.
#[derive(Default)]
pub(super) struct ThreadCounts(Vec<TranslationCounts>);

impl FromIterator<TranslationCounts> for ThreadCounts {
    fn from_iter<T: IntoIterator<Item = TranslationCounts>>(parts: T) -> ThreadCounts {
        let mut sums = ThreadCounts::default();
        for part in parts {
            let adds = |sum: &&mut TranslationCounts| {
                Rc::ptr_eq(&sum.cache, &part.cache) && sum.thread == part.thread
            };
            match sums.0.iter_mut().find(adds) {
                Some(sum) => sum.tally.merge(part.tally),
                None => sums.0.push(part),
            }
        }
        sums
    }
}

impl ThreadCounts {
    /// The executed code and its totals; with profiles if they are requested.
    ///
    /// # Errors
    ///
    /// The contradiction, in words.
    pub(super) fn solve(&self, profiled: bool) -> Result<Vec<ExecutedCode>, String> {
        let solve = |part: &TranslationCounts| {
            let mut executed = part.tally.solve(&part.cache.borrow(), profiled)?;
            if let Some(thread) = part.thread {
                executed.profile = executed.profile.map(|profile| profile.owned_by(thread));
            }
            Ok(executed)
        };
        self.0.iter().map(solve).collect()
    }

    /// The totals of some events, which are not checked.
    ///
    /// # Errors
    ///
    /// The contradiction, in words.
    pub(super) fn read_out(&self, events: EventSet) -> Result<Vec<EventTotals>, String> {
        self.0.iter().map(|part| part.tally.read_out(&part.cache.borrow(), events)).collect()
    }
}
