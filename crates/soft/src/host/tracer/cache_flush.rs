//! Stop-the-world flush: a process changes its code, and its translation is replaced.
//!
//! # Problem
//!
//! No thread may execute the old translation after the change, and no block may be translated while the
//! change is made. So all threads leave translated code, the change is made, and they continue in a new
//! translation.
//!
//! ```text
//! a call that changes code ──> its thread is suspended; a suspend is requested of the others
//! each other thread        ──> is suspended, in native state, at its next stop
//! the last one             ──> the call is made, by a step in the program's own code
//! behind the call          ──> a new translation, which all threads enter
//! ```
//!
//! A retranslation ([`retranslation`](crate::host::retranslation)) takes the last step only, for a process
//! with one thread.
//!
//! # Invariants
//!
//! - A thread is in one of three states ([`TaskState`]): running, suspend requested, suspended.
//! - A system call that only the suspend has interrupted is restarted, and counted once.
//! - The cost is limited ([`CodeChangeCost`](crate::host::code_changes::CodeChangeCost)): a process that
//!   keeps changing its code is detached.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::process::errno;
use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::code_cache::CodeCacheMapping;
use crate::host::code_changes::CacheFlush;
use crate::host::flush_readiness::{CHANGES_SHARED, FlushReadiness, change_refusal};
use crate::host::process::TaskMode;
use crate::host::remote_syscalls::number;
use crate::host::restarted_calls::{call_again, restart_wait, restarts};
use crate::host::retranslation_rounds::MoveLimits;
use crate::host::task_state::TaskEvent;
use crate::host::trace_error::{TraceError, TraceResult};
use crate::host::translation_context::TranslationContext;

impl Tracer {
    /// A thread is about to make a call that changes code: it waits until all other threads are suspended.
    pub(super) fn flush_among_threads(&mut self, tid: u32) -> TraceResult {
        self.request_suspend(tid, true)
    }

    /// Moves a process to a translation of its own, from its current program point.
    pub(super) fn flush_here(&mut self, tid: u32) -> TraceResult {
        if self.tracees.has_other_threads(tid) {
            return self.request_suspend(tid, false);
        }
        let registers = self.replace_translation(tid)?;
        self.enter_translation(tid, registers)
    }

    fn request_suspend(&mut self, tid: u32, pending: bool) -> TraceResult {
        if self.comply_with_request(tid)? {
            return Ok(());
        }
        let task = self.tracees.task(tid)?;
        let (filtered, process) = (task.filtered, task.process);
        let may_change = || self.tracees.processes[process].may_change();
        if let Some(reason) = change_refusal(filtered, false, may_change) {
            return Err(TraceError::Detach(reason.to_owned()));
        }
        let block = if pending { self.tracees.task(tid)?.block_of_call() } else { None };
        self.tracees.restore_native_state(tid)?;
        let task = self.tracees.task(tid)?;
        task.stepped_block = block;
        let effect = task.apply(TaskEvent::Suspended);
        self.carry_out(tid, effect);
        self.tracees.processes[process].flush =
            Some(CacheFlush { by: tid, called: false, pending, retranslates: false });
        for other in self.tracees.other_threads(tid) {
            let effect = self.tracees.task(other)?.apply(TaskEvent::SuspendRequested);
            self.carry_out(other, effect);
        }
        Ok(())
    }

    /// Moves a process with one thread to a translation that is made from its own execution profile.
    pub(super) fn retranslate(&mut self, tid: u32) -> TraceResult {
        self.suspend(tid)?;
        let process = self.tracees.task(tid)?.process;
        self.tracees.processes[process].flush =
            Some(CacheFlush { by: tid, called: false, pending: false, retranslates: true });
        Ok(())
    }

    /// The tasks that do not move to another translation now.
    fn move_limits(&self) -> MoveLimits {
        let all = self.probe.is_some() || self.detaches.is_final;
        MoveLimits { all, detached_last: self.detaches.last_tasks() }
    }

    /// Looks at the programs that may be old enough for another translation.
    pub(super) fn check_ages(&mut self) {
        let limits = self.move_limits();
        self.retranslation.check_ages(&mut self.tracees, &mut self.store, &self.restartable, &limits);
    }

    /// Whether an interrupted task is to be retranslated now.
    pub(super) fn may_retranslate_now(&mut self, tid: u32) -> Result<bool, TraceError> {
        let limits = self.move_limits();
        self.retranslation.may_retranslate_now(&mut self.tracees, tid, &limits)
    }

    /// Whether a task that has stopped before a system call is to be retranslated now.
    pub(super) fn may_retranslate_at_call(&mut self, tid: u32, number: u64) -> Result<bool, TraceError> {
        let limits = self.move_limits();
        self.retranslation.may_retranslate_at_call(&mut self.tracees, (tid, number), &limits)
    }

    /// Suspends a thread that has stopped for that, or with its whole process.
    pub(super) fn suspend_at_stop(&mut self, tid: u32, interrupted: bool) -> TraceResult {
        // A call that only the suspend has interrupted is not restarted. A group stop interrupts it natively
        // too; if the restart was counted already, it would be counted again.
        let before = trace::registers(tid)?;
        if interrupted {
            restart_wait(tid)?;
        }
        let again = (interrupted || self.tracees.task(tid)?.state().is_in_group_stop())
            && restarts(&trace::registers(tid)?);
        let block = if again { self.tracees.task(tid)?.block_at(before.rip) } else { None };
        self.suspend(tid)?;
        let task = self.tracees.task(tid)?;
        if let (Some(block), TaskMode::Native(context)) = (block, &mut task.mode) {
            context.take_last_back(block);
            task.repeat_access(block, -1);
        }
        Ok(())
    }

    /// Suspends a thread in native state, for the flush.
    pub(super) fn suspend(&mut self, tid: u32) -> TraceResult {
        self.answer_request(tid)?;
        self.tracees.restore_native_state(tid)?;
        let effect = self.tracees.task(tid)?.apply(TaskEvent::Suspended);
        self.carry_out(tid, effect);
        Ok(())
    }

    /// Runs the flushes for which every thread is suspended.
    pub(super) fn run_ready_flushes(&mut self) {
        let suspended = self.tracees.tasks.values().filter(|task| task.state().is_suspended());
        let mut processes: Vec<usize> = suspended.map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            let Some(flush @ CacheFlush { by, called: false, .. }) = self.tracees.processes[process].flush
            else {
                continue;
            };
            let outcome = self.call_if_ready(process, flush);
            self.apply_outcome(by, outcome);
        }
    }

    fn call_if_ready(&mut self, process: usize, flush: CacheFlush) -> TraceResult {
        let CacheFlush { by, pending, .. } = flush;
        let borrows =
            |(tid, _): (&u32, _)| self.tracees.tasks.values().any(|task| task.waits_for_child(*tid));
        let borrows = self.tracees.threads_of(process).any(borrows);
        let states = self.tracees.threads_of(process).map(|(_, task)| task.state());
        match FlushReadiness::of(states, borrows, self.tracees.awaits_thread(process)) {
            FlushReadiness::SharesMemory => {
                return Err(TraceError::Detach(CHANGES_SHARED.to_owned()));
            }
            FlushReadiness::Waits => return Ok(()),
            FlushReadiness::Ready => {}
        }
        if !pending {
            let registers = trace::registers(by)?;
            return self.complete_flush(by, &registers);
        }
        self.tracees.processes[process].flush = Some(CacheFlush { called: true, ..flush });
        let effect = self.tracees.task(by)?.apply(TaskEvent::FlushComplete);
        self.carry_out(by, effect);
        Ok(trace::step(by, 0)?)
    }

    /// Whether a task has made the call for which the others are suspended.
    pub(super) fn has_made_call(&self, tid: u32) -> bool {
        let process = self.tracees.tasks.get(&tid).map(|task| task.process);
        let flush = process.and_then(|process| self.tracees.processes[process].flush);
        flush.is_some_and(|flush| flush.by == tid && flush.called)
    }

    /// Moves all threads to a new translation, after the call, if there was one.
    pub(super) fn complete_flush(&mut self, tid: u32, registers: &Registers) -> TraceResult {
        let task = self.tracees.task(tid)?;
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &task.mode else {
            return Err(TraceError::Gone);
        };
        let (old, process) = (context.cache.clone(), task.process);
        let settings = self.settings.translation;
        let allowance = self.tracees.allowance(tid);
        let retranslates =
            self.tracees.processes[process].flush.take().is_some_and(|flush| flush.retranslates);
        let cache = CodeCacheMapping::after(&old.borrow(), tid, registers.rip, allowance, settings);
        let mut cache = match cache {
            // A retranslation is optional.
            Err(error) if retranslates && error.raw_os_error() != Some(errno::ESRCH) => {
                self.tracees.cancel_retranslation(tid);
                let effect = self.tracees.task(tid)?.apply(TaskEvent::FlushComplete);
                self.carry_out(tid, effect);
                return self.resume_from_native(tid);
            }
            cache => cache?,
        };
        self.tracees.move_listings(tid, &old, &mut cache);
        if !retranslates {
            cache.watch(number::EXIT_GROUP, true);
        }
        let cache = Rc::new(RefCell::new(cache));
        let stays = self.tracees.threads_of(process).filter(|(_, task)| !task.state().is_detach_ready());
        let threads: Vec<u32> = stays.map(|(tid, _)| *tid).collect();
        threads.iter().for_each(|thread| self.close(*thread));
        if retranslates {
            self.tracees.task(tid)?.age.restart();
        }
        for thread in &threads {
            let assigned = self.reassign(*thread, &cache);
            self.apply_outcome(*thread, assigned);
        }
        for thread in threads {
            let entered = self.resume_from_native(thread);
            self.apply_outcome(thread, entered);
        }
        Ok(())
    }

    fn reassign(&mut self, tid: u32, cache: &Rc<RefCell<CodeCacheMapping>>) -> TraceResult {
        let slot = cache.borrow_mut().take_slot();
        let slot = slot.ok_or_else(|| TraceError::Detach("has too many threads at a time".to_owned()))?;
        let task = self.tracees.task(tid)?;
        task.mode = TaskMode::Native(TranslationContext::new(cache.clone(), slot));
        let effect = task.apply(TaskEvent::FlushComplete);
        self.carry_out(tid, effect);
        Ok(())
    }

    fn resume_from_native(&mut self, tid: u32) -> TraceResult {
        let mut registers = trace::registers(tid)?;
        if restarts(&registers) {
            registers.rax = call_again(registers.rax, registers.orig_rax);
            (registers.orig_rax, registers.rip) = (u64::MAX, registers.rip - 2);
        }
        // It may be detaching, if another thread could not be followed.
        if self.tracees.task(tid)?.state().is_detach_ready() {
            Ok(())
        } else {
            self.enter_translation(tid, registers)
        }
    }
}
