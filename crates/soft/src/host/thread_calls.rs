//! The calls of a thread: its log in translated code, and the stack that is replayed from it.
//!
//! The budget of the thread counts its instructions down from [`FULL_BUDGET`]. It is exact at each record,
//! where a block has just ended. A thread that leaves translated code within a block gets the rest of the
//! block back.

use super::code_cache::CodeCacheMapping;
use super::translated_pc::TranslatedPc;
use crate::call_paths::{CallStack, CallTree, EnteredPlaces, FunctionId};
use crate::translate::{
    BUDGET, BudgetState, CALL_LOG, CALL_LOG_END, CallRecord, EMPTY_LOG, RECORD_BYTES, ROUNDS, RecordKind,
};

/// The budget of a thread that has executed nothing in its translation: the largest one whose upper byte is
/// zero, as that of a budget that is not used up is, and that a processor does not use up in a month.
pub(super) const FULL_BUDGET: u64 = 1 << 55;

/// Words of a record.
const RECORD_WORDS: usize = RECORD_BYTES as usize / size_of::<u64>();

/// The calls that a forked process has not returned from.
pub(crate) struct ForkedCalls {
    pub(super) tree: CallTree,
    pub(super) stack: CallStack,
}

/// The calls of a thread.
pub(crate) struct ThreadCalls {
    /// `None` before its first instruction.
    stack: Option<CallStack>,
    /// `None` where it has no slot.
    slot: Option<LoggedSlot>,
    /// The stack pointer of a handler that is about to begin.
    handler: Option<u64>,
    /// Room for a log.
    words: Vec<u64>,
}

/// The use of a slot by a thread that logs its calls.
struct LoggedSlot {
    /// The instructions of the slot before.
    base: u64,
    /// The budget at the latest record.
    last: u64,
    /// Whether the budget is the rest of the instructions.
    is_exact: bool,
}

impl ThreadCalls {
    /// A thread that has executed nothing, with the frames of a process that has forked it.
    pub(super) fn new(stack: Option<CallStack>) -> ThreadCalls {
        ThreadCalls { stack, slot: None, handler: None, words: Vec::new() }
    }

    /// Whether its slot needs the number of instructions so far to go on, when it enters translated code.
    pub(super) fn needs_instructions(&self) -> bool {
        !self.slot.as_ref().is_some_and(|slot| slot.is_exact)
    }

    /// The budget of a thread that has executed so many instructions in its slot.
    pub(super) fn budget_after(&self, instructions: u64) -> Option<u64> {
        let slot = self.slot.as_ref()?;
        Some(FULL_BUDGET.wrapping_sub(instructions.wrapping_sub(slot.base)))
    }

    /// The thread enters translated code after so many instructions in its slot.
    pub(super) fn enter(&mut self, cache: &CodeCacheMapping, slot: usize, instructions: u64) {
        if self.slot.is_none() {
            cache.store(slot, CALL_LOG_END, EMPTY_LOG);
            self.slot = Some(LoggedSlot { base: instructions, last: FULL_BUDGET, is_exact: true });
        }
        let budget = self.budget_after(instructions);
        budget.into_iter().for_each(|budget| cache.store(slot, BUDGET, budget));
        self.slot.iter_mut().for_each(|slot| slot.is_exact = true);
    }

    /// The thread leaves translated code at a position, before the end of a block.
    pub(super) fn leave(&mut self, cache: &CodeCacheMapping, slot: usize, position: TranslatedPc) {
        let budget = cache.load(slot, BUDGET);
        let left = match (cache.translation.budget_at(position.pc), position.r11) {
            (BudgetState::Charged(charged), _) => Some(budget.wrapping_add(charged.into())),
            (BudgetState::InLoop(round), Some(r11)) => {
                Some(round.left_of(budget, cache.load(slot, ROUNDS).wrapping_add(r11)))
            }
            (BudgetState::InLoop(_), None) | (BudgetState::Settling, _) => None,
        };
        left.into_iter().for_each(|left| cache.store(slot, BUDGET, left));
        self.slot.iter_mut().for_each(|slot| slot.is_exact = left.is_some());
        if cache.translation.is_logged_early(position.pc) {
            let end = cache.load(slot, CALL_LOG_END);
            cache.store(slot, CALL_LOG_END, end.saturating_sub(RECORD_BYTES).max(EMPTY_LOG));
        }
    }

    /// A handler is about to begin, which returns from `sp`.
    pub(super) fn begin_handler(&mut self, sp: u64) {
        self.handler = Some(sp);
    }

    /// The thread is at the start of a function or in one, with this stack pointer: the first function of a
    /// thread, or the function of a handler, begins here.
    pub(super) fn begin(&mut self, tree: &mut CallTree, sp: u64, function: impl FnOnce() -> FunctionId) {
        match (&mut self.stack, self.handler.take()) {
            (None, _) => self.stack = Some(CallStack::new(tree, sp, function())),
            (Some(stack), Some(sp)) => stack.enter_handler(tree, sp, function()),
            (Some(_), None) => {}
        }
    }

    /// Replays the log, and empties it.
    pub(super) fn replay(
        &mut self,
        cache: &CodeCacheMapping,
        slot: usize,
        (tree, places): (&mut CallTree, &mut EnteredPlaces),
    ) {
        let (Some(stack), Some(logged)) = (&mut self.stack, &mut self.slot) else { return };
        let end = cache.load(slot, CALL_LOG_END);
        let functions = &mut cache.functions.borrow_mut();
        self.words.resize(end.saturating_sub(EMPTY_LOG) as usize / size_of::<u64>(), 0);
        cache.read_slot(slot, CALL_LOG, &mut self.words);
        let translation = &cache.translation;
        for words in self.words.as_chunks::<RECORD_WORDS>().0 {
            let Some(record) = CallRecord::of(*words) else { continue };
            let CallRecord { kind, block, target, sp, budget } = record;
            stack.spend(tree, logged.last.wrapping_sub(budget));
            logged.last = budget;
            match kind {
                RecordKind::Return => stack.ret(tree, sp, || functions.at(translation, places, target)),
                RecordKind::Call => stack.call(tree, sp, functions.of_block(translation, places, block)),
                RecordKind::IndirectCall => {
                    stack.call(tree, sp, functions.at(translation, places, target));
                }
                RecordKind::Jump => stack.jump(tree, sp, functions.of_block(translation, places, block)),
                RecordKind::IndirectJump => {
                    stack.jump(tree, sp, functions.at(translation, places, target));
                }
                RecordKind::StubJump => {
                    stack.replace(tree, sp, functions.at(translation, places, target));
                }
            }
        }
        cache.store(slot, CALL_LOG_END, EMPTY_LOG);
    }

    /// The thread gives its slot up, after so many instructions there. Those that the log does not have
    /// belong to the path in which the thread is.
    pub(super) fn close(&mut self, tree: &mut CallTree, instructions: u64) {
        let (Some(stack), Some(logged)) = (&mut self.stack, self.slot.take()) else { return };
        let executed = instructions.wrapping_sub(logged.base);
        let replayed = FULL_BUDGET.wrapping_sub(logged.last);
        if executed < replayed {
            stack.mark(tree);
        }
        stack.spend(tree, executed.wrapping_sub(replayed));
    }

    /// Its frames for a process that it forks, in a tree of its own.
    pub(super) fn forked(&self, tree: &CallTree, child: &mut CallTree) -> Option<CallStack> {
        self.stack.as_ref().map(|stack| stack.forked(tree, child))
    }
}
