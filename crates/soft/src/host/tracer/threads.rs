//! Threads: several tasks of one process, in one memory and one translation.
//!
//! Each has a slot of its own, so that each counter is written by one task. An ended thread leaves its slot,
//! with the counts, to the next one of its process. The rest is added up when the last thread ends.
//!
//! All threads are detached at once. A thread in native code could change the code, and the tracer would not
//! see it.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::{Change, Registers};

use super::Tracer;
use super::forks::message;
use super::syscall_handlers::close_versions;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::code_cache::CodeCacheMapping;
use crate::host::process::{TaskMode, TracedTask};
use crate::host::restartable;
use crate::host::syscalls::MappingCall;
use crate::host::trace_error::TraceError;
use crate::host::translation_context::TranslationContext;
use crate::host::translation_context::{ThreadCounts, TranslationCounts};
use crate::host::window_protocol::TracedWindowEnd;

impl Tracer {
    /// Handles the postponed events of threads, because their process does not end after all.
    pub(super) fn handle_postponed(&mut self) {
        for (tid, change) in std::mem::take(&mut self.postponed) {
            self.handle(tid, change);
        }
    }

    /// A slot for a task in a translation: for a thread, preferably one of an ended thread.
    pub(super) fn assign_slot(
        &mut self,
        tid: u32,
        cache: &Rc<RefCell<CodeCacheMapping>>,
    ) -> Result<TranslationContext, TraceError> {
        let ended_contexts = self.tracees.process(tid).map(|process| &mut process.ended_contexts);
        let left = ended_contexts.and_then(|ended_contexts| {
            let found = ended_contexts.iter().position(|context| Rc::ptr_eq(&context.cache, cache))?;
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
        let what = if self.tracees.other_threads(tid).is_empty() { "processes" } else { "threads" };
        let slot = slot.ok_or_else(|| TraceError::Detach(format!("has too many {what} at a time")))?;
        Ok(TranslationContext::new(cache.clone(), slot))
    }

    /// Frees the slots of ended threads, and keeps their counts.
    fn free_ended_slots(&mut self, cache: &Rc<RefCell<CodeCacheMapping>>) {
        for process in &mut self.tracees.processes {
            let (here, elsewhere) = std::mem::take(&mut process.ended_contexts)
                .into_iter()
                .partition(|context| Rc::ptr_eq(&context.cache, cache));
            let here: Vec<TranslationContext> = here;
            process.ended_contexts = elsewhere;
            process.ended_counts.extend(here.iter().map(TranslationCounts::of));
            here.iter().for_each(|context| cache.borrow_mut().give_slot(context.slot));
        }
    }

    /// A task leaves its translation. With the last task of a process, the counts of all are added to the
    /// process, and the slots are freed.
    pub(super) fn close(&mut self, tid: u32) {
        if let Some(calls) = &self.call_paths {
            calls.close(&mut self.tracees, tid);
        }
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(context) | TaskMode::Native(context)) =
            std::mem::replace(&mut task.mode, TaskMode::Untranslated)
        else {
            return;
        };
        task.carry(&context);
        task.leave_window(&context, self.recording.as_mut());
        let index = task.process;
        self.answered.remove(&tid);
        let assigned = self.tracees.tasks.values().any(|task| task.process == index && task.has_context());
        let process = &mut self.tracees.processes[index];
        process.ended_contexts.push(context);
        if assigned {
            return;
        }
        let ended_contexts = std::mem::take(&mut process.ended_contexts);
        let ended_counts = std::mem::take(&mut process.ended_counts);
        if std::mem::take(&mut process.unconfirmed) {
            process.lose("the process was killed while it executed a program");
        }
        if process.lost.is_none() {
            match ended_counts
                .into_iter()
                .chain(ended_contexts.iter().map(TranslationCounts::of))
                .collect::<ThreadCounts>()
                .solve(self.settings.profiled)
            {
                Ok(all) => all.into_iter().for_each(|executed| process.add(executed)),
                Err(reason) => process.lose(reason),
            }
        }
        for context in &ended_contexts {
            context.cache.borrow_mut().give_slot(context.slot);
            self.forbid_storing(tid, &mut context.cache.borrow_mut());
            if !self.shared_translations.holds(&context.cache) {
                self.learn(&context.cache.borrow());
            }
        }
    }

    /// A thread has left its translation: its last window ends.
    pub(super) fn end_windows(&mut self, tid: u32, end: TracedWindowEnd) {
        if let (Some(recording), Some(task)) = (&mut self.recording, self.tracees.tasks.get_mut(&tid)) {
            recording.end_windows(task, end);
        }
    }

    /// Detaches the processes whose threads are all ready.
    pub(super) fn detach_ready(&mut self) {
        let waiting = self.tracees.tasks.values().filter(|task| task.state().is_detach_ready());
        let mut processes: Vec<usize> = waiting.map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes.into_iter().for_each(|process| self.detach_if_ready(process));
    }

    /// Detaches the threads of a process if none is missing. A thread that waits for a child (vfork) is
    /// detached later.
    pub(super) fn detach_if_ready(&mut self, process: usize) {
        let is_still = |(tid, task): (&u32, &TracedTask)| {
            task.state().is_detach_ready()
                || task.state().vfork_wait().is_some()
                || self.is_detached_last(*tid)
        };
        if self.tracees.awaits_thread(process) || !self.tracees.threads_of(process).all(is_still) {
            return;
        }
        let ready = |(tid, task): (&u32, &TracedTask)| Some((*tid, task.state().detach_signal()?));
        let leaving: Vec<(u32, i32)> = self.tracees.threads_of(process).filter_map(ready).collect();
        if self.finishing && !leaving.is_empty() {
            self.detached_processes.insert(process);
        }
        if let Some((tid, cache)) = self.tracees.processes[process].unmaps.take()
            && leaving.len() == self.tracees.threads_of(process).count()
        {
            // A task that was killed meanwhile has no memory.
            let _ = cache.borrow().clear(tid);
        }
        for (tid, signal) in leaving {
            self.tracees.tasks.remove(&tid);
            self.detach_task(tid, signal);
        }
    }

    /// A thread that is not the first one of its process executes a new program. From now on it has the first
    /// one's id, and all others have ended.
    pub(super) fn adopt_exec_thread(&mut self, tid: u32) {
        let Ok(former) = message(tid, Change::Exec) else {
            // It was killed since: it does not matter which thread it was.
            return self.tracees.other_threads(tid).into_iter().for_each(|other| self.task_gone(other, None));
        };
        let former = former as u32;
        self.delayed_signals.rename_task(former, tid);
        if former == tid {
            return;
        }
        if self.tracees.tasks.get(&tid).is_some_and(TracedTask::has_context) {
            self.end_unseen(tid, true);
            self.close(tid);
            self.end_windows(tid, TracedWindowEnd::End);
        }
        let Some(task) = self.tracees.tasks.remove(&former) else { return };
        self.pending_answers.remove(&former);
        self.tracees.tasks.insert(tid, task);
    }

    /// Handles a call that changes mappings of a process with several threads. Nothing is translated during
    /// the call, so no thread can read the old code.
    pub(super) fn change_mappings_among_threads(
        &mut self,
        tid: u32,
        call: &MappingCall,
        changes: bool,
        registers: Registers,
    ) -> ActionResult {
        let task = self.tracees.task(tid)?;
        let filtered = task.filtered;
        let TaskMode::Translated(context) = &task.mode else { return Err(TraceError::Gone) };
        let home = context.cache.clone();
        let known = context.maps.last();
        let executable = |(start, end): &(u64, u64)| known.is_none_or(|maps| maps.executes(*start, *end));
        let harmless = !call.code && !call.ranges.iter().any(executable);
        let open = home.borrow().shared_code.is_open();
        if changes || (call.code && !open && self.tracees.is_shared(tid, &home)) {
            return Ok(TaskAction::FlushAroundCall);
        }
        if harmless {
            return Ok(TaskAction::Resume);
        }
        if filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        }
        let fresh = self.call_on_behalf(tid, registers)?;
        let ranges: Vec<(u64, u64)> = call.ranges.iter().copied().chain(fresh).collect();
        close_versions(&home, call);
        for range in ranges.iter().copied().filter(|_| call.code) {
            restartable::check(tid, range, restartable::THREADS)?;
        }
        if open {
            return if self.is_admitted(tid, &ranges)? {
                Ok(TaskAction::Resume)
            } else {
                Ok(TaskAction::Flush)
            };
        }
        if fresh.is_some_and(|(start, end)| home.borrow().translation.touches_fixed(start, end)) {
            return Err(TraceError::Detach("changes its code while other threads run".to_owned()));
        }
        Ok(TaskAction::Resume)
    }
}
