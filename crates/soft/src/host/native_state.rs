//! The position of a stopped task in translated code, and the way from there to native state: the program's
//! own registers and instruction pointer.
//!
//! ```text
//! stop ──> position in translated code ──> program point ──> the program's registers
//!          (at the stop's instruction,     (PC map)          (repaired from the slot)
//!          or at the instruction pointer)
//! ```

use cyclometer_sys::trace::{self, Registers};

use super::code_cache::CodeCacheMapping;
use super::proc::{has_signal, status};
use super::process::{TaskMode, TracedTask};
use super::trace_error::{TraceError, TraceResult};
use super::tracees::Tracees;
use super::translated_pc::TranslatedPc;
use super::translation_context::TranslationContext;
use crate::translate::{self, FlowState, NextAddress, ProgramPoint};

const SIGTRAP: i32 = 5;

/// The trap flag. The kernel takes it for the program's own where the stepped instruction sets it (`iret`,
/// `popf`), even if that instruction has not been executed yet.
///
/// # Source
///
/// Linux `arch/x86/kernel/step.c`, `enable_single_step`.
pub(super) const TRAP_FLAG: u64 = 0x100;

/// Makes the program's registers of those in translated code.
pub(super) fn restore_registers(
    cache: &CodeCacheMapping,
    slot: usize,
    point: &ProgramPoint,
    registers: &mut Registers,
) {
    let next = match point.next {
        NextAddress::Known(address) => address,
        NextAddress::Rcx(beyond) => registers.rcx.wrapping_add(beyond),
    };
    let repair = point.repair;
    if repair.flags {
        registers.eflags = translate::flags_in(registers.rax, registers.eflags);
    }
    if repair.rax {
        registers.rax = cache.load(slot, translate::RAX);
    }
    if repair.rcx {
        registers.rcx = cache.load(slot, translate::RCX);
    }
    if repair.r11 {
        registers.r11 = cache.load(slot, translate::R11);
    }
    if repair.pushed {
        registers.rsp = registers.rsp.wrapping_add(8);
    }
    if repair.popped {
        registers.rsp = registers.rsp.wrapping_sub(8);
    }
    if repair.rcx_is_next {
        registers.rcx = next;
    }
    registers.rip = next;
}

/// The reason why a task's registers are unknown, in words.
pub(super) struct UnknownPoint(pub(super) String);

impl TracedTask {
    /// The context in its translation, if it has one.
    pub(super) fn context(&self) -> Option<&TranslationContext> {
        match &self.mode {
            TaskMode::Translated(context) | TaskMode::Native(context) => Some(context),
            TaskMode::Untranslated => None,
        }
    }

    /// Its context, if it executes translated code.
    pub(super) fn translated(&self) -> Result<&TranslationContext, TraceError> {
        if let TaskMode::Translated(context) = &self.mode { Ok(context) } else { Err(TraceError::Gone) }
    }

    /// Its context, if it executes translated code.
    pub(super) fn translated_mut(&mut self) -> Result<&mut TranslationContext, TraceError> {
        if let TaskMode::Translated(context) = &mut self.mode { Ok(context) } else { Err(TraceError::Gone) }
    }

    /// Clears the trap flag of a step whose instruction was not executed.
    pub(super) fn clear_step_flag(&self, tid: u32, registers: Registers) -> TraceResult {
        if self.stepped_block.is_some() && registers.eflags & TRAP_FLAG != 0 {
            trace::set_registers(tid, &Registers { eflags: registers.eflags & !TRAP_FLAG, ..registers })?;
        }
        Ok(())
    }

    /// Whether it is behind a translator stop that the kernel has not reported. Interrupts and exits are
    /// reported before the signal that the stop has raised.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`, `get_signal`: traps of job control and fatal signals go before synchronous
    /// ones.
    pub(super) fn is_about_to_stop(&self, tid: u32) -> Result<bool, TraceError> {
        if matches!(self.mode, TaskMode::Native(_)) || self.is_stepped() {
            // The trap of a step would kill it if it were detached before.
            return Ok(has_signal(&status(tid), "SigPnd:", SIGTRAP));
        }
        let registers = trace::registers(tid)?;
        Ok(self.is_behind_unreported_stop(tid, &registers))
    }

    fn is_behind_unreported_stop(&self, tid: u32, registers: &Registers) -> bool {
        let TaskMode::Translated(context) = &self.mode else { return false };
        let stops = context.cache.borrow().translation.stop_at(registers.rip.wrapping_sub(1)).is_some();
        stops && has_signal(&status(tid), "SigPnd:", SIGTRAP)
    }

    /// Whether an instruction pointer is behind a translator stop, where no instruction is: the task was
    /// killed there before the stop was reported.
    fn is_behind_stop(&self, rip: u64) -> bool {
        let TaskMode::Translated(context) = &self.mode else { return false };
        let translation = &context.cache.borrow().translation;
        translation.point_at(rip).is_none() && translation.stop_at(rip.wrapping_sub(1)).is_some()
    }

    /// Its position in translated code while it is stopped: at a stop that it has reached, which is reported
    /// behind its instruction, else at its instruction pointer.
    pub(super) fn pc(&self, tid: u32, registers: &Registers) -> u64 {
        let before = registers.rip.wrapping_sub(1);
        let told = self.stopped_at == Some(before) || self.is_behind_stop(registers.rip);
        if told || self.is_behind_unreported_stop(tid, registers) { before } else { registers.rip }
    }

    /// Notes its position in translated code while it is stopped, unless that is known.
    pub(super) fn note_pc(&mut self, tid: u32) -> TraceResult {
        if self.last_pc.is_none() && matches!(self.mode, TaskMode::Translated(_)) {
            let registers = trace::registers(tid)?;
            self.last_pc = Some(TranslatedPc::new(self.pc(tid, &registers), &registers));
        }
        Ok(())
    }

    /// The block of the system call before which it has stopped.
    pub(super) fn block_of_call(&self) -> Option<u32> {
        self.block_at(self.stopped_at?)
    }

    /// The block in which it is, by its instruction pointer in translated code.
    pub(super) fn block_at(&self, pc: u64) -> Option<u32> {
        let TaskMode::Translated(context) = &self.mode else { return None };
        match context.cache.borrow().translation.point_at(pc)?.flow {
            FlowState::In { block, .. } => Some(block),
            _ => None,
        }
    }

    /// The instruction at a position in translated code is executed again: a system call that is restarted.
    pub(super) fn count_again(&mut self, pc: u64) {
        let Some(block) = self.block_at(pc) else { return };
        if let Ok(context) = self.translated_mut() {
            context.repeat_last(block);
        }
        self.repeat_access(block, 1);
    }

    /// Replays its log of accesses, at a stop before a block.
    pub(super) fn replay_accesses(&mut self, registers: &Registers) {
        if let (TaskMode::Translated(context), Some(accesses)) = (&self.mode, &mut self.accesses) {
            accesses.replay(&context.cache.borrow(), context.slot, registers);
        }
    }

    /// It is about to make a system call that may change the base of %fs.
    pub(super) fn may_change_fs(&mut self, registers: &Registers) {
        if let (TaskMode::Translated(context), Some(accesses)) = (&self.mode, &mut self.accesses) {
            accesses.may_change_fs(&context.cache.borrow(), context.slot, registers);
        }
    }

    /// The last instruction of a block of its translation was executed so many times more than its records
    /// say.
    pub(super) fn repeat_access(&mut self, block: u32, times: i64) {
        if let (TaskMode::Translated(context) | TaskMode::Native(context), Some(accesses)) =
            (&self.mode, &mut self.accesses)
        {
            accesses.repeat_last(&context.cache.borrow(), block, times);
        }
    }

    /// Leaves translated code at its program point, with these registers. Its mode is native then.
    ///
    /// # Errors
    ///
    /// Where its position is not one of its translation.
    pub(super) fn leave_translation(
        &mut self,
        tid: u32,
        registers: &mut Registers,
    ) -> Result<(), UnknownPoint> {
        let pc = self.pc(tid, registers);
        let mut context = match std::mem::replace(&mut self.mode, TaskMode::Untranslated) {
            TaskMode::Translated(context) => context,
            other => {
                self.mode = other;
                return Ok(());
            }
        };
        let mut cache = context.cache.borrow_mut();
        let point = cache.translation.point_at(pc);
        if let Some(point) = &point {
            let position = TranslatedPc::new(pc, registers);
            context.ledger.exit_at(&mut cache, context.slot, point, position);
            self.window.iter_mut().for_each(|window| window.keep_budget(&cache, context.slot, position));
            self.calls.iter_mut().for_each(|calls| calls.leave(&cache, context.slot, position));
            let translated = *registers;
            restore_registers(&cache, context.slot, point, registers);
            self.accesses.iter_mut().for_each(|accesses| {
                accesses.leave(&cache, context.slot, position, Some(&translated), Some(registers.rip));
            });
        }
        drop(cache);
        self.mode = TaskMode::Native(context);
        match point {
            Some(_) => Ok(()),
            None => Err(UnknownPoint(format!("nothing is known of {pc:#x} in translated code"))),
        }
    }
}

impl Tracees {
    /// Takes a stopped task out of translated code at its program point, and returns its registers. `None` if
    /// it has no translation.
    pub(super) fn restore_native_state(&mut self, tid: u32) -> Result<Option<Registers>, TraceError> {
        let task = self.task(tid)?;
        let is_translated = match task.mode {
            TaskMode::Untranslated => return Ok(None),
            TaskMode::Native(_) => false,
            TaskMode::Translated(_) => true,
        };
        let mut registers = trace::registers(tid)?;
        if !is_translated {
            task.clear_step_flag(tid, registers)?;
            return Ok(Some(registers));
        }
        if let Err(UnknownPoint(reason)) = task.leave_translation(tid, &mut registers) {
            self.lose(tid, &format!("internal error: {reason}"));
            return Err(TraceError::Gone);
        }
        registers.gs_base = 0;
        trace::set_registers(tid, &registers)?;
        Ok(Some(registers))
    }
}
