//! Windows of threads: parts of their executions that are counted one by one.
//!
//! # Problem
//!
//! A window ends after exactly so many instructions of its thread. A stop at each instruction would show the
//! boundary, but takes microseconds.
//!
//! # Solution
//!
//! Translated code subtracts each block from a budget, and stops before the block in which the budget ends.
//! All counts are then read out of the counters ([`readout`](super::readout)). The boundary is some
//! instructions further on, and expected there: the counts of these instructions are added if they are the
//! same each time. The row is valid when the thread has executed them, which the next readout shows. After a
//! signal in between the window goes on. Instructions with counts that are made at run time are executed step
//! by step.
//!
//! ```text
//! block: budget −= its instructions ──> not negative: go on
//!                                   ──> negative: stop ──> row, new budget
//! the thread leaves translated code ──> the rest of its block is added to the budget again
//! it enters translated code again   ──> the budget is as it left it
//! ```
//!
//! # Invariants
//!
//! - The counts of a thread's rows add up to its counts, whatever the budget does.
//! - A step ends in the same block: the last instruction of a block comes after every boundary in it.

use cyclometer_sys::trace::{self, Registers};

use super::code_cache::CodeCacheMapping;
use super::ledger::{CHECKED_BLOCKS, CounterSnapshot};
use super::process::{TaskMode, TracedTask};
use super::trace_error::{TraceError, TraceResult};
use super::translated_pc::TranslatedPc;
use super::translation_context::TranslationContext;
use super::window_counts::WindowReadout;
use super::window_protocol::TracedWindowEnd;
use super::window_rows::{OpenWindow, WindowRecording, WindowSteps};
use crate::block::{Block, BlockDecoder};
use crate::translate::{BUDGET, BudgetState, FlowState, NextAddress, ROUNDS};
use crate::{EventSet, EventTotals, ExecutionEvent};

const SIGTRAP: i32 = 5;

/// The largest budget: the upper byte of one that is not used up is zero.
const MOST_BUDGET: u64 = 1 << 55;

/// The trap flag.
const TRAP: u64 = 0x100;

/// The `si_code` of a step.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/siginfo.h`, `TRAP_TRACE`.
const TRAP_TRACE: i32 = 2;

impl WindowRecording {
    /// A thread is about to enter translated code in its context, from outside of every block. Its budget is
    /// the rest of its window: the one that it kept, or else that of a readout.
    pub(super) fn enter(
        &mut self,
        task: &mut TracedTask,
        (pid, tid): (u32, u32),
        context: &TranslationContext,
    ) -> TraceResult {
        let new = || Box::new(OpenWindow::new(pid, tid, &self.request));
        let window = task.window.get_or_insert_with(new);
        if !window.is_in_translation() {
            window.enter(context.readout_outside(self)?);
        }
        window.steps = None;
        let keeps_budget = window.take_kept_budget();
        if keeps_budget && !context.is_checked() {
            return Ok(());
        }
        let (period, now) = (self.request.period.get(), context.instructions_outside()?);
        self.settle_expected(window, now);
        let left = window.instructions_left(period, now);
        if keeps_budget && period <= MOST_BUDGET {
            let kept = context.cache.borrow().load(context.slot, BUDGET);
            assert_eq!(kept, left, "the kept budget is the rest of the window");
        }
        context.store_budget(left, 0);
        Ok(())
    }

    /// The budget of a thread has ended, or a step to a boundary: its window ends here, or some instructions
    /// further on. `pc` is where the thread is in translated code, and `registers` are those with which it
    /// continues.
    pub(super) fn reach_boundary(
        &mut self,
        task: &mut TracedTask,
        tid: u32,
        pc: u64,
        registers: &Registers,
    ) -> TraceResult {
        let (TaskMode::Translated(context), Some(window)) = (&task.mode, &mut task.window) else {
            return Err(TraceError::Gone);
        };
        let BudgetState::Charged(charged) = context.cache.borrow().translation.budget_at(pc) else {
            return Ok(());
        };
        if let Some(steps) = &mut window.steps
            && (charged > steps.remaining || context.is_unsure(pc))
        {
            steps.pushes_flags = Some(pc).filter(|pc| pushes_flags(tid, *pc));
            return Ok(());
        }
        let position = TranslatedPc::new(pc, registers);
        let period = self.request.period;
        let now = context.readout_at(position, self)?;
        self.settle_expected(window, now.instructions());
        self.tell_memory(window, context.maps.changes());
        let mut left = window.instructions_left(period.get(), now.instructions());
        if let Some(first) = context.static_part(pc, left)
            && period.get().saturating_add(left) >= charged.into()
        {
            self.expect_boundary(window, first.end(), now.after(&first, &self.request));
            context.store_budget(period.get().saturating_add(left), charged);
            return Ok(());
        }
        if left == 0 {
            self.end_window(window, TracedWindowEnd::Period, context.address_at(pc), now);
            left = period.get();
        }
        window.set_budget(context, left, charged);
        if let Some(steps) = &mut window.steps {
            steps.pushes_flags = Some(registers.rip).filter(|pc| pushes_flags(tid, *pc));
        }
        Ok(())
    }

    /// The end of an instruction that a thread has executed on its way to a boundary.
    pub(super) fn step_to_boundary(
        &mut self,
        task: &mut TracedTask,
        tid: u32,
        mut registers: Registers,
    ) -> TraceResult {
        if registers.eflags & TRAP != 0 {
            // Behind `popf` the kernel takes it for the program's own.
            registers.eflags &= !TRAP;
            trace::set_registers(tid, &registers)?;
        }
        let pushed = task.window.as_ref().and_then(|window| window.steps?.pushes_flags);
        if pushed.is_some_and(|pc| pc != registers.rip) {
            // The processor pushes the trap flag of the step with the others.
            let flags = trace::peek(tid, registers.rsp)?;
            trace::poke(tid, registers.rsp, flags & !TRAP)?;
        }
        self.reach_boundary(task, tid, registers.rip, &registers)
    }

    /// A thread has left its translation: its last window ends.
    pub(super) fn end_windows(&mut self, task: &mut TracedTask, end: TracedWindowEnd) {
        if let Some(window) = task.window.take() {
            self.end_last(*window, end);
        }
    }
}

/// Why a thread whose counters cannot be read is detached.
fn unreadable(reason: impl std::fmt::Display) -> TraceError {
    TraceError::Detach(format!("has counters that cannot be read: {reason}"))
}

/// Whether an instruction is `pushf`.
///
/// # Source
///
/// Intel SDM volume 2, `PUSHF`: it clears no other flag than RF and VM in the pushed value.
fn pushes_flags(tid: u32, pc: u64) -> bool {
    let bytes = trace::peek(tid, pc).map_or([0; 8], u64::to_le_bytes);
    bytes.iter().find(|byte| !matches!(byte, 0x66 | 0x40..=0x4f)) == Some(&0x9c)
}

impl OpenWindow {
    /// The thread leaves translated code at a position: adds the instructions to its budget again that are
    /// subtracted and not executed. The budget is kept for its return, where it is certain to be the rest of
    /// this window.
    pub(super) fn keep_budget(&mut self, cache: &CodeCacheMapping, slot: usize, position: TranslatedPc) {
        let budget = cache.load(slot, BUDGET);
        let left = match (cache.translation.budget_at(position.pc), position.r11) {
            (BudgetState::Charged(charged), _) => Some(budget.wrapping_add(charged.into())),
            (BudgetState::InLoop(round), Some(r11)) => {
                Some(round.left_of(budget, cache.load(slot, ROUNDS).wrapping_add(r11)))
            }
            (BudgetState::InLoop(_), None) | (BudgetState::Settling, _) => None,
        };
        left.into_iter().for_each(|left| cache.store(slot, BUDGET, left));
        // A `pushf` that faults has pushed nothing: what is on the stack of its handler are no flags.
        self.steps.iter_mut().for_each(|steps| steps.pushes_flags = None);
        self.set_kept_budget(left.is_some());
    }

    /// Lets the thread execute the rest of its window. `charged` are the instructions after its program point
    /// that are subtracted from the budget already. Where the boundary is among them, it is stepped
    /// there.
    fn set_budget(&mut self, context: &TranslationContext, left: u64, charged: u16) {
        context.store_budget(left, charged);
        self.steps = match u16::try_from(left) {
            Ok(left) if left < charged => Some(WindowSteps { remaining: charged - left, pushes_flags: None }),
            _ => None,
        };
    }
}

impl TracedTask {
    /// Whether it is stepped to a boundary.
    pub(super) fn is_stepped(&self) -> bool {
        self.window.as_ref().is_some_and(|window| window.steps.is_some())
    }

    /// Whether a signal is the end of a step to a boundary.
    pub(super) fn is_boundary_step(&self, tid: u32, signal: i32) -> bool {
        let of_step = || trace::signal_info(tid).is_ok_and(|info| info.code() == TRAP_TRACE);
        self.is_stepped() && signal == SIGTRAP && of_step()
    }

    /// Adds the counts of a translation that it leaves to its window. Where they are unknown there is no row:
    /// the counts of its process are lost.
    pub(super) fn leave_window(
        &mut self,
        context: &TranslationContext,
        recording: Option<&mut WindowRecording>,
    ) {
        let (Some(window), Some(recording)) = (&mut self.window, recording) else { return };
        match context.readout_outside(recording) {
            Ok(now) => {
                recording.settle_expected(window, now.instructions());
                window.leave(&now);
            }
            Err(_) => self.window = None,
        }
    }
}

impl TranslationContext {
    /// Counts the last instruction of a block once more, and takes it from the budget.
    pub(super) fn repeat_last(&mut self, block: u32) {
        self.ledger.repeat_last(&self.cache.borrow(), block);
        self.change_budget(-1);
    }

    /// Takes the last instruction of a block back, and adds it to the budget.
    pub(super) fn take_last_back(&mut self, block: u32) {
        self.ledger.take_last_back(&self.cache.borrow(), block);
        self.change_budget(1);
    }

    /// Adds instructions to the thread's budget that its ledger takes back, or subtracts those that it adds.
    fn change_budget(&self, instructions: i64) {
        let cache = self.cache.borrow();
        if cache.translation.has_budget() {
            let left = cache.load(self.slot, BUDGET);
            cache.store(self.slot, BUDGET, left.wrapping_add_signed(instructions));
        }
    }

    /// The totals of some events of a thread that is outside of every block.
    fn totals_outside(&self, events: EventSet) -> Result<EventTotals, TraceError> {
        let cache = self.cache.borrow();
        CounterSnapshot::read(&cache, self.slot, &self.ledger).read_out(&cache, events).map_err(unreadable)
    }

    /// The readout of a thread that is outside of every block.
    fn readout_outside(&self, recording: &WindowRecording) -> Result<WindowReadout, TraceError> {
        let totals = self.totals_outside(recording.events())?;
        WindowReadout::of(&totals, &recording.request).map_err(unreadable)
    }

    /// The instructions of a thread that is outside of every block.
    pub(super) fn instructions_outside(&self) -> Result<u64, TraceError> {
        let totals = self.totals_outside([ExecutionEvent::Instructions].into_iter().collect())?;
        totals.total(ExecutionEvent::Instructions).map_err(unreadable)
    }

    /// The readout at a position in translated code.
    fn readout_at(
        &self,
        position: TranslatedPc,
        recording: &WindowRecording,
    ) -> Result<WindowReadout, TraceError> {
        let totals = self.read_out(position, recording.events());
        let totals =
            totals.unwrap_or_else(|| Err("an unknown program point".to_owned())).map_err(unreadable)?;
        WindowReadout::of(&totals, &recording.request).map_err(unreadable)
    }

    /// Sets the budget of the thread, of which so many instructions are subtracted already. A budget is a
    /// signed number; after the largest one the thread stops, and gets the rest.
    fn store_budget(&self, left: u64, charged: u16) {
        let budget = left.min(MOST_BUDGET).wrapping_sub(charged.into());
        self.cache.borrow().store(self.slot, BUDGET, budget);
    }

    /// The first instructions of the block at a stop, if they are known to count the same each time. `None`
    /// for none or all, and after the start of the block.
    fn static_part(&self, pc: u64, instructions: u64) -> Option<Block> {
        let cache = self.cache.borrow();
        let FlowState::In { block, done: 0, .. } = cache.translation.point_at(pc)?.flow else { return None };
        let all = cache.translation.instructions(block);
        let instructions = u16::try_from(instructions).ok().filter(|first| (1..all).contains(first))?;
        let first = cache.translation.decode(&mut BlockDecoder::new(), block, instructions);
        let is_static = first.kinds().all(|kind| !cache.translation.counts(kind));
        is_static.then_some(first)
    }

    /// The address of the program's next instruction, where it is known without the registers.
    fn address_at(&self, pc: u64) -> Option<u64> {
        match self.cache.borrow().translation.point_at(pc)?.next {
            NextAddress::Known(address) => Some(address),
            NextAddress::Rcx(_) => None,
        }
    }

    /// Whether kept budgets are compared with the counters.
    pub(super) fn is_checked(&self) -> bool {
        cfg!(debug_assertions) && self.cache.borrow().translation.blocks() < CHECKED_BLOCKS
    }

    fn is_unsure(&self, pc: u64) -> bool {
        self.cache.borrow().translation.point_at(pc).is_some_and(|point| point.unsure)
    }
}
