//! Signals to a translated program.
//!
//! # Problem
//!
//! A signal stops a task at any translated instruction. Its handler, and the kernel's signal frame, must see
//! the program's own registers and instruction pointer. Signals of the translator's own stops must not be
//! seen at all.
//!
//! ```text
//! signal ──> translator stop (int3 at an exit stub) ──> handled, not delivered
//!            ignored, or stops the process          ──> delivered in translated code
//!            handler, or kills                      ──> native state, delivered by a step
//!                                                        │
//!                 handler's first instruction <──────────┘  translated from there, as is its return
//! ```
//!
//! # Invariants
//!
//! - A signal that is delivered to a handler finds the task in native state.
//! - The address in `siginfo` of a fault is that of the program's instruction.
//! - A system call that only the tracer has interrupted is restarted.

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::action::{ActionResult, InterruptKind, InterruptReaction, TaskAction};
use crate::host::code_cache::CodeCacheMapping;
use crate::host::native_state::TRAP_FLAG;
use crate::host::proc::{has_signal, status};
use crate::host::process::TaskMode;
use crate::host::restartable::HANDLERS;
use crate::host::restarted_calls::{restart_wait, restarts};
use crate::host::signal_policy::{SignalCause, SignalDisposition, SignalFacts, disposition};
use crate::host::signal_throttling::SignalArrival;
use crate::host::task_state::TaskEvent;
use crate::host::trace_error::TraceError;
use crate::host::translated_pc::TranslatedPc;
use crate::translate::StopReason;

const SIGTRAP: i32 = 5;
const SIGSEGV: i32 = 11;
const SIGBUS: i32 = 7;

/// The opcode of `popf`.
const POPF: u64 = 0x9d;
/// The reason why a program is detached that has set its trap flag.
const STEPS_ITSELF: &str = "steps itself";

impl Tracer {
    pub(super) fn signal(&mut self, tid: u32, signal: i32) -> ActionResult {
        let registers = trace::registers(tid)?;
        let stepped = self.is_step(tid, signal);
        let to_boundary = self.tracees.task(tid)?.is_boundary_step(tid, signal);
        let arrival = self.delayed_signals.take(tid, signal)?;
        if arrival == (SignalArrival::Again { ours: true }) && !has_signal(&status(tid), "SigCgt:", signal) {
            // Its handler was removed meanwhile: natively the signal would have come before that.
            restart_wait(tid)?;
            return Ok(TaskAction::Continue { signal: 0 });
        }
        let task = self.tracees.task(tid)?;
        match &task.mode {
            TaskMode::Untranslated => Ok(TaskAction::Continue { signal }),
            TaskMode::Native(_) => self.signal_in_own_code(tid, signal, registers),
            TaskMode::Translated(_) if to_boundary => {
                task.throttle.progressed();
                task.restore_trap_handler(tid)?;
                let (Some(recording), task) = (&mut self.recording, self.tracees.task(tid)?) else {
                    return Err(TraceError::Gone);
                };
                recording.step_to_boundary(task, tid, registers)?;
                Ok(TaskAction::Resume)
            }
            TaskMode::Translated(_) if stepped => {
                task.throttle.progressed();
                Ok(TaskAction::Resume)
            }
            TaskMode::Translated(_) => self.signal_in_translation(tid, (signal, arrival), registers),
        }
    }

    /// Handles a signal that has stopped a task in translated code.
    fn signal_in_translation(
        &mut self,
        tid: u32,
        (signal, arrival): (i32, SignalArrival),
        registers: Registers,
    ) -> ActionResult {
        let at = registers.rip.wrapping_sub(1);
        let task = self.tracees.task(tid)?;
        let (facts, missed) = facts(tid, &task.translated()?.cache.borrow(), signal, registers);
        match facts.cause(|| Ok::<i32, TraceError>(trace::signal_info(tid)?.code()))? {
            SignalCause::TranslatorStop(stop) => {
                // Nothing of a call is done before its stop.
                if stop != StopReason::SystemCall {
                    task.throttle.progressed();
                }
                task.stopped_at = Some(at);
                (task.last_pc, task.exec_pc) = (Some(TranslatedPc::new(at, &registers)), None);
                // The effect of the program's own breakpoint on its handler is the native one.
                if stop != StopReason::Breakpoint {
                    task.restore_trap_handler(tid)?;
                }
                self.translator_stop(tid, stop, registers)
            }
            SignalCause::MissedReturn => {
                let registers = missed.ok_or(TraceError::Gone)?;
                trace::set_registers(tid, &registers)?;
                task.stopped_at = Some(registers.rip - 1);
                task.last_pc = Some(TranslatedPc::new(registers.rip - 1, &registers));
                self.translator_stop(tid, StopReason::IndirectBranch, registers)
            }
            SignalCause::OwnStep => self.detach_stepping(tid, signal),
            SignalCause::FailedCheck => {
                // The memory is gone, or only executable: the tracer looks at it.
                let registers = self.tracees.restore_native_state(tid)?.ok_or(TraceError::Gone)?;
                Ok(TaskAction::Enter(registers))
            }
            SignalCause::OfProgram => {
                let stop = self.tracees.signal_stop(tid, signal, arrival)?;
                let task = self.tracees.task(tid)?;
                let is_delayed = self.delayed_signals.delays(task, &stop, registers.rip)?;
                if is_delayed { Ok(TaskAction::Resume) } else { self.deliver(tid, signal) }
            }
        }
    }

    /// Detaches a program that has set its trap flag by `popf`: the step of an instruction of its translation
    /// has ended. If that was none of the program's instructions, the first step of the program is still to
    /// come.
    fn detach_stepping(&mut self, tid: u32, signal: i32) -> ActionResult {
        let Some(registers) = self.tracees.restore_native_state(tid)? else {
            return Ok(TaskAction::Continue { signal });
        };
        let popf = trace::peek(tid, registers.rip.wrapping_sub(8)).is_ok_and(|word| word >> 56 == POPF);
        if !popf {
            let mut info = trace::signal_info(tid)?;
            info.set_address(registers.rip);
            trace::set_signal_info(tid, &info)?;
        }
        let signal = if popf { 0 } else { signal };
        Ok(TaskAction::Detach { reason: Some(STEPS_ITSELF.to_owned()), signal })
    }

    /// Looks at a stop by an interrupt of the tracer, or with the whole process.
    pub(super) fn interrupted(&mut self, tid: u32, kind: InterruptKind) -> ActionResult {
        let is_in_own_code = self.tracees.is_in_own_code(tid);
        let request = self.tracees.task(tid)?.state().request().clone();
        let may_act = request.acts_at_interrupt(is_in_own_code);
        let is_about_to_stop = may_act && self.tracees.task(tid)?.is_about_to_stop(tid)?;
        match InterruptReaction::to(kind, &request, is_in_own_code, is_about_to_stop) {
            InterruptReaction::AwaitStop => Ok(TaskAction::RunOn),
            InterruptReaction::StayStopped => Ok(TaskAction::Listen),
            InterruptReaction::Suspend => {
                Ok(TaskAction::Suspend { interrupted: kind == InterruptKind::ByTracer })
            }
            InterruptReaction::Detach => {
                if kind == InterruptKind::ByTracer {
                    restart_wait(tid)?;
                }
                Ok(TaskAction::Resume)
            }
            InterruptReaction::Answer if kind == InterruptKind::GroupStop => {
                self.count_restart(tid)?;
                self.answer_request(tid)?;
                Ok(TaskAction::Listen)
            }
            InterruptReaction::Answer if self.may_retranslate_now(tid)? => Ok(TaskAction::Retranslate),
            InterruptReaction::Answer => {
                restart_wait(tid)?;
                self.answer_request(tid)?;
                Ok(TaskAction::Continue { signal: 0 })
            }
        }
    }

    /// Handles a signal on the way into a handler, or back from one.
    fn signal_in_own_code(&mut self, tid: u32, signal: i32, registers: Registers) -> ActionResult {
        let stepped = signal == SIGTRAP && trace::signal_info(tid)?.code() > 0;
        if !stepped {
            return self.signal_before_step(tid, signal, registers);
        }
        let block = self.tracees.task(tid)?.stepped_block.take();
        self.tracees.task(tid)?.restore_trap_handler(tid)?;
        let returns = block.is_some();
        let task = self.tracees.task(tid)?;
        if let (Some(block), TaskMode::Native(context)) = (block, &mut task.mode) {
            context.repeat_last(block);
            task.repeat_access(block, 1);
        }
        if returns && registers.eflags & TRAP_FLAG != 0 {
            return Err(TraceError::Detach(STEPS_ITSELF.to_owned()));
        }
        Ok(match self.has_made_call(tid) {
            true => TaskAction::CompleteFlush(registers),
            false => {
                if !returns {
                    let calls = &mut self.tracees.task(tid)?.calls;
                    calls.iter_mut().for_each(|calls| calls.begin_handler(registers.rsp));
                }
                TaskAction::Enter(registers)
            }
        })
    }

    /// Handles a signal before the end of a step: the instruction may have raised it.
    fn signal_before_step(&mut self, tid: u32, signal: i32, registers: Registers) -> ActionResult {
        let is_handled = || match disposition(&status(tid), signal) {
            SignalDisposition::Ignored | SignalDisposition::Stops => false,
            SignalDisposition::Handled | SignalDisposition::Kills => true,
        };
        let task = self.tracees.task(tid)?;
        if task.stepped_block.is_some() {
            task.clear_step_flag(tid, registers)?;
            // A handler comes before the instruction, which is translated again when the handler returns.
            if is_handled() {
                task.stepped_block = None;
            }
        }
        Ok(TaskAction::Continue { signal })
    }

    /// Lets a program in translated code have a signal.
    pub(super) fn deliver(&mut self, tid: u32, signal: i32) -> ActionResult {
        let disposition = disposition(&status(tid), signal);
        match disposition {
            // The tracer alone is why a system call is made again.
            SignalDisposition::Ignored => {
                restart_wait(tid)?;
                return Ok(TaskAction::Continue { signal });
            }
            SignalDisposition::Stops => {
                self.count_restart(tid)?;
                return Ok(TaskAction::Continue { signal });
            }
            SignalDisposition::Kills => {
                let effect = self.tracees.task(tid)?.apply(TaskEvent::EndsProcess { exit_pc: None });
                self.carry_out(tid, effect);
            }
            SignalDisposition::Handled => {}
        }
        let mut info = trace::signal_info(tid)?;
        let task = self.tracees.task(tid)?;
        let of_instruction = info.code() > 0
            && task.translated().is_ok_and(|context| context.cache.borrow().contains_code(info.address()));
        let Some(registers) = self.tracees.restore_native_state(tid)? else {
            return Ok(TaskAction::Continue { signal });
        };
        if of_instruction {
            info.set_address(registers.rip);
            trace::set_signal_info(tid, &info)?;
        }
        if disposition == SignalDisposition::Handled
            && let Some(process) = self.tracees.process(tid)
            && let Err(TraceError::Detach(reason)) = self.restartable.search(process, tid, HANDLERS)
        {
            return Ok(TaskAction::Detach { reason: Some(reason), signal });
        }
        Ok(TaskAction::Continue { signal })
    }

    /// A system call that a stop interrupts is made again: its instruction executes twice.
    pub(super) fn count_restart(&mut self, tid: u32) -> Result<(), TraceError> {
        if self.tracees.task(tid)?.state().is_in_group_stop() {
            return Ok(());
        }
        let effect = self.tracees.task(tid)?.apply(TaskEvent::GroupStopHandled);
        self.carry_out(tid, effect);
        let registers = trace::registers(tid)?;
        if !restarts(&registers) {
            return Ok(());
        }
        self.tracees.task(tid)?.count_again(registers.rip);
        Ok(())
    }

    /// Executes the instruction at a stop by a step in native state: the system call that a handler ends
    /// with, or a far transfer.
    pub(super) fn step_last(&mut self, tid: u32) -> ActionResult {
        let block = self.tracees.task(tid)?.block_of_call();
        self.tracees.restore_native_state(tid)?;
        self.tracees.task(tid)?.stepped_block = block;
        Ok(TaskAction::Continue { signal: 0 })
    }
}

/// The facts about a signal that has stopped a task in translated code, and the registers for a lookup miss
/// if it is the fault of a return.
fn facts(
    tid: u32,
    cache: &CodeCacheMapping,
    signal: i32,
    registers: Registers,
) -> (SignalFacts, Option<Registers>) {
    let missed = if signal == SIGSEGV { mispredicted_return(tid, cache, registers) } else { None };
    let translation = &cache.translation;
    let stop = translation.stop_at(registers.rip.wrapping_sub(1)).filter(|_| signal == SIGTRAP);
    let is_checking = matches!(signal, SIGSEGV | SIGBUS) && translation.is_checking(registers.rip);
    (SignalFacts { signal, stop, is_missed_return: missed.is_some(), is_checking }, missed)
}

/// A return that must use the lookup table. Its entry of the return-address table may be wrong, because a
/// misaligned stack has mixed two entries. Then it jumped outside of code, or to an address that is not
/// canonical. Or the stack is not writable, which a native return does not need. Returns the registers for a
/// lookup miss.
///
/// # Source
///
/// Intel SDM volume 2, `RET`: it faults itself where the address is not canonical. AMD processors fault
/// behind it.
fn mispredicted_return(tid: u32, cache: &CodeCacheMapping, registers: Registers) -> Option<Registers> {
    let pushed = cache.translation.is_returning(registers.rip);
    let faulted = pushed.filter(|_| trace::signal_info(tid).is_ok_and(|info| info.code() > 0));
    let rsp = registers.rsp.wrapping_add(if faulted == Some(true) { 8 } else { 0 });
    let rip = cache.translation.first_table_entry() + 1;
    (faulted.is_some() || !cache.contains_code(registers.rip)).then_some(Registers { rip, rsp, ..registers })
}
