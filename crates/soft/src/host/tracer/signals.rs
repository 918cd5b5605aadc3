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
use crate::host::action::{ActionResult, TaskAction};
use crate::host::code_cache::CodeCacheMapping;
use crate::host::proc::{has_signal, status};
use crate::host::process::TaskMode;
use crate::host::remote_syscalls::{RemoteSyscalls, number};
use crate::host::restartable::HANDLERS;
use crate::host::signal_throttling::SignalArrival;
use crate::host::task_state::TaskEvent;
use crate::host::trace_error::TraceError;
use crate::host::translated_pc::TranslatedPc;
use crate::translate::{FlowState, StopReason};

const SIGTRAP: i32 = 5;
const SIGSEGV: i32 = 11;
const SIGBUS: i32 = 7;

/// The `si_code` of the trap that the kernel raises for `int3`.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/siginfo.h`.
const SI_KERNEL: i32 = 0x80;

/// The `si_code` of a single step, which the program has requested by its trap flag.
const TRAP_TRACE: i32 = 2;

/// The effect of a signal on a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SignalDisposition {
    /// It has no effect: without a tracer it would not even wake the process up.
    Ignores,
    /// It stops until it is continued.
    Stops,
    /// A handler is called, or the process is killed.
    Acts,
}

impl Tracer {
    pub(super) fn signal(&mut self, tid: u32, signal: i32) -> ActionResult {
        let registers = trace::registers(tid)?;
        let stepped = self.is_step(tid, signal);
        let to_boundary = self.tracees.task(tid)?.is_boundary_step(tid, signal);
        let arrival = self.delayed_signals.take(tid, signal)?;
        if arrival == (SignalArrival::Again { ours: true }) && !has_signal(&status(tid), "SigCgt:", signal) {
            // Its handler was removed meanwhile: natively the signal would have come before that.
            super::restart_wait(tid)?;
            return Ok(TaskAction::Continue { signal: 0 });
        }
        let task = self.tracees.task(tid)?;
        match &task.mode {
            TaskMode::Untranslated => Ok(TaskAction::Continue { signal }),
            TaskMode::Native(_) => self.signal_in_own_code(tid, signal, registers),
            TaskMode::Translated(_) if to_boundary => {
                task.throttle.progressed();
                self.restore_trap_handler(tid)?;
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
            TaskMode::Translated(context) => {
                let cache = context.cache.borrow();
                let at = registers.rip.wrapping_sub(1);
                let stop = cache.translation.stop_at(at).filter(|_| signal == SIGTRAP);
                let mispredicted_return =
                    if signal == SIGSEGV { mispredicted_return(tid, &cache, registers) } else { None };
                let faults =
                    matches!(signal, SIGSEGV | SIGBUS) && cache.translation.is_checking(registers.rip);
                drop(cache);
                let faults_in_check = faults && trace::signal_info(tid)?.code() > 0;
                match (stop, mispredicted_return) {
                    (Some(stop), _)
                        if stop != StopReason::SystemCall || trace::signal_info(tid)?.code() == SI_KERNEL =>
                    {
                        // Nothing of a call is done before its stop.
                        if stop != StopReason::SystemCall {
                            task.throttle.progressed();
                        }
                        task.stopped_at = Some(at);
                        (task.last_pc, task.exec_pc) = (Some(TranslatedPc::new(at, &registers)), None);
                        // The effect of the program's own breakpoint on its handler is the native one.
                        if stop != StopReason::Breakpoint {
                            self.restore_trap_handler(tid)?;
                        }
                        self.translator_stop(tid, stop, registers)
                    }
                    (None, Some(registers)) => {
                        trace::set_registers(tid, &registers)?;
                        task.stopped_at = Some(registers.rip - 1);
                        task.last_pc = Some(TranslatedPc::new(registers.rip - 1, &registers));
                        self.translator_stop(tid, StopReason::IndirectBranch, registers)
                    }
                    _ if signal == SIGTRAP && trace::signal_info(tid)?.code() == TRAP_TRACE => {
                        Ok(TaskAction::Detach { reason: Some("steps itself".to_owned()), signal })
                    }
                    _ if faults_in_check => {
                        // The memory is gone, or only executable: the tracer looks at it.
                        let registers = self.tracees.restore_native_state(tid)?.ok_or(TraceError::Gone)?;
                        Ok(TaskAction::Enter(registers))
                    }
                    _ if self.delayed_signals.delays(
                        &mut self.tracees,
                        tid,
                        (signal, arrival),
                        registers.rip,
                    )? =>
                    {
                        Ok(TaskAction::Resume)
                    }
                    _ => self.deliver(tid, signal),
                }
            }
        }
    }

    /// Handles a signal on the way into a handler, or back from one.
    fn signal_in_own_code(&mut self, tid: u32, signal: i32, registers: Registers) -> ActionResult {
        let stepped = signal == SIGTRAP && trace::signal_info(tid)?.code() > 0;
        let returning = self.tracees.task(tid)?.returning.take();
        if !stepped {
            return Ok(TaskAction::Continue { signal });
        }
        self.restore_trap_handler(tid)?;
        let returns = returning.is_some();
        if let (Some(block), TaskMode::Native(context)) = (returning, &mut self.tracees.task(tid)?.mode) {
            let cache = context.cache.clone();
            context.ledger.repeat_last(&cache.borrow(), block);
            context.change_budget(-1);
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

    /// The program sets its action for SIGTRAP.
    pub(super) fn set_trap_handler(&mut self, tid: u32, action: u64) -> ActionResult {
        const SIG_DFL: u64 = 0;
        const SIG_IGN: u64 = 1;
        let mut bytes = [0; 32];
        let read = trace::read_memory(tid, action, &mut bytes).unwrap_or(0) == bytes.len();
        let handler = bytes.first_chunk().map_or(SIG_DFL, |word| u64::from_le_bytes(*word));
        if read && handler == SIG_IGN {
            // Every stop of the translator would reset that.
            return Err(TraceError::Detach("ignores SIGTRAP".to_owned()));
        }
        if read {
            let action = (handler != SIG_DFL).then_some(bytes);
            self.tracees.update_threads(tid, |task| task.trap_action = action)?;
        }
        Ok(TaskAction::Resume)
    }

    /// Restores the handler and the block. The kernel resets both when a trap comes while SIGTRAP is blocked,
    /// as in its own handler.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`, `force_sig_info_to_task`.
    fn restore_trap_handler(&mut self, tid: u32) -> Result<(), TraceError> {
        let task = self.tracees.task(tid)?;
        let Some(action) = task.trap_action.filter(|_| !task.filtered) else { return Ok(()) };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else { return Ok(()) };
        if has_signal(&status(tid), "SigCgt:", SIGTRAP) {
            return Ok(());
        }
        let cache = context.cache.borrow();
        cache.write_scratch(context.slot, &action);
        let address = cache.scratch_address(context.slot);
        let remote = RemoteSyscalls::new(tid, cache.gadget());
        remote.call(number::RT_SIGACTION, [SIGTRAP as u64, address, 0, 8, 0, 0])?;
        let blocked = trace::signal_mask(tid)? | 1 << (SIGTRAP - 1);
        Ok(trace::set_signal_mask(tid, blocked)?)
    }

    /// Lets a program in translated code have a signal.
    pub(super) fn deliver(&mut self, tid: u32, signal: i32) -> ActionResult {
        match disposition(&status(tid), signal) {
            // The tracer alone is why a system call is made again.
            SignalDisposition::Ignores => {
                super::restart_wait(tid)?;
                return Ok(TaskAction::Continue { signal });
            }
            SignalDisposition::Stops => {
                self.count_restart(tid)?;
                return Ok(TaskAction::Continue { signal });
            }
            SignalDisposition::Acts => {}
        }
        // Without a handler it ends the process.
        let ends = !has_signal(&status(tid), "SigCgt:", signal);
        if ends {
            let effect = self.tracees.task(tid)?.apply(TaskEvent::EndsProcess { exit_pc: None });
            self.carry_out(tid, effect);
        }
        let mut info = trace::signal_info(tid)?;
        let inside = |tracer: &mut Tracer| match &tracer.tracees.task(tid)?.mode {
            TaskMode::Translated(context) => {
                Ok::<bool, TraceError>(context.cache.borrow().contains_code(info.address()))
            }
            _ => Ok(false),
        };
        let of_instruction = info.code() > 0 && inside(self)?;
        let Some(registers) = self.tracees.restore_native_state(tid)? else {
            return Ok(TaskAction::Continue { signal });
        };
        if of_instruction {
            info.set_address(registers.rip);
            trace::set_signal_info(tid, &info)?;
        }
        if !ends
            && let Err(TraceError::Detach(reason)) = self.restartable.check(&mut self.tracees, tid, HANDLERS)
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
        if let TaskMode::Translated(context) = &mut self.tracees.task(tid)?.mode {
            let cache = context.cache.clone();
            let point = cache.borrow().translation.point_at(registers.rip);
            if let Some(FlowState::In { block, .. }) = point.map(|point| point.flow) {
                context.ledger.repeat_last(&cache.borrow(), block);
                context.change_budget(-1);
            }
        }
        Ok(())
    }

    /// The system call that a handler ends with.
    pub(super) fn return_from_handler(&mut self, tid: u32) -> ActionResult {
        let block = self.tracees.task(tid)?.block_of_call();
        self.tracees.restore_native_state(tid)?;
        self.tracees.task(tid)?.returning = block;
        Ok(TaskAction::Continue { signal: 0 })
    }
}

/// Whether a task is in an interrupted system call that the kernel restarts when it is resumed.
///
/// # Source
///
/// Linux `include/linux/errno.h`, from `ERESTARTSYS` on; `arch/x86/kernel/signal.c`,
/// `arch_do_signal_or_restart`.
pub(super) fn restarts(registers: &Registers) -> bool {
    is_restarted(registers.rax.cast_signed(), registers.orig_rax.cast_signed())
}

/// Whether the kernel restarts the call of this number that has this result.
fn is_restarted(result: i64, number: i64) -> bool {
    matches!(result, -516 | -514..=-512) && number >= 0
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

/// The effect of a signal on a process, by the text of its status.
///
/// # Source
///
/// `signal(7)`; `proc(5)`, `/proc/pid/status`: `SigIgn`, `SigCgt`.
fn disposition(status: &str, signal: i32) -> SignalDisposition {
    const IGNORED: [i32; 4] = [17, 18, 23, 28];
    const STOP: [i32; 4] = [19, 20, 21, 22];
    let has = |field: &str| has_signal(status, field, signal);
    if has("SigCgt:") {
        SignalDisposition::Acts
    } else if has("SigIgn:") || IGNORED.contains(&signal) {
        SignalDisposition::Ignores
    } else if STOP.contains(&signal) {
        SignalDisposition::Stops
    } else {
        SignalDisposition::Acts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGUSR1: i32 = 10;
    const SIGCHLD: i32 = 17;
    const SIGTSTP: i32 = 20;

    /// The text of a status with these ignored and caught signals.
    fn status_with(ignored: &[i32], caught: &[i32]) -> String {
        let mask = |signals: &[i32]| signals.iter().fold(0u64, |mask, signal| mask | 1 << (signal - 1));
        format!("Name:\tx\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n", mask(ignored), mask(caught))
    }

    #[test]
    fn a_signal_acts_stops_or_is_ignored_as_the_kernel_would_have_it() {
        let none = status_with(&[], &[]);
        assert_eq!(disposition(&none, SIGUSR1), SignalDisposition::Acts, "it kills");
        assert_eq!(disposition(&none, SIGCHLD), SignalDisposition::Ignores, "by default");
        assert_eq!(disposition(&none, SIGTSTP), SignalDisposition::Stops);
        for signal in [SIGUSR1, SIGCHLD, SIGTSTP] {
            let (ignored, caught) = (status_with(&[signal], &[]), status_with(&[], &[signal]));
            assert_eq!(disposition(&ignored, signal), SignalDisposition::Ignores);
            assert_eq!(disposition(&caught, signal), SignalDisposition::Acts);
        }
    }

    #[test]
    fn a_status_that_cannot_be_read_has_no_signal() {
        assert!(!has_signal("", "SigCgt:", SIGTRAP) && !has_signal("SigCgt:\tnonsense", "SigCgt:", SIGTRAP));
        assert!(has_signal(&status_with(&[], &[SIGTRAP, 64]), "SigCgt:", 64));
    }

    #[test]
    fn only_calls_that_the_kernel_restarts_are_made_again() {
        assert!(is_restarted(-512, 0) && is_restarted(-514, 202) && is_restarted(-516, 35));
        assert!(!is_restarted(-4, 0) && !is_restarted(-515, 0) && !is_restarted(-512, -1));
    }
}
