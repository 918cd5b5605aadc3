//! Threads: several tasks of one process, in one memory and one translation.
//!
//! Each has a slot of its own, so that each counter is written by one task. An ended thread leaves its slot,
//! with the counts, to the next one of its process. The rest is added up when the last thread ends.
//!
//! All threads are detached at once. A thread in native code could change the code, and the tracer would not
//! see it.

use cyclometer_sys::trace::Change;

use super::Tracer;
use super::forks::message;
use crate::host::process::{TaskMode, TracedTask};
use crate::host::translation_context::{ThreadCounts, TranslationCounts};
use crate::host::window_protocol::TracedWindowEnd;

impl Tracer {
    /// Handles the postponed events of threads, because their process does not end after all.
    pub(super) fn handle_postponed(&mut self) {
        for (tid, change) in std::mem::take(&mut self.postponed) {
            self.handle(tid, change);
        }
    }

    /// A task leaves its translation. With the last task of a process, the counts of all are added to the
    /// process, and the slots are freed.
    pub(super) fn close(&mut self, tid: u32) {
        if let Some(calls) = &self.call_paths {
            calls.close(&mut self.tracees, tid);
        }
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        let (TaskMode::Translated(mut context) | TaskMode::Native(mut context)) =
            std::mem::replace(&mut task.mode, TaskMode::Untranslated)
        else {
            return;
        };
        let is_unknown = task
            .accesses
            .as_mut()
            .is_some_and(|accesses| accesses.give_up(&context.cache.borrow(), context.slot));
        task.carry(&context);
        task.leave_window(&context, self.recording.as_mut());
        let (index, number) = (task.process, task.number);
        if let Some(owners) = self.owners.as_mut().filter(|owners| owners.are_threads()) {
            owners.note_thread(number, self.tracees.processes[index].pid, tid);
            context.thread = Some(number);
        }
        self.counts.forget(tid);
        let assigned = self.tracees.tasks.values().any(|task| task.process == index && task.has_context());
        let process = &mut self.tracees.processes[index];
        if is_unknown {
            process.lose("the accesses of its last instructions are unknown");
        }
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
            self.store.forbid_storing(tid, &mut context.cache.borrow_mut());
            if !self.store.shared.holds(&context.cache) {
                self.store.learn(&context.cache.borrow());
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
                || self.detaches.is_last(*tid)
        };
        if self.tracees.awaits_thread(process) || !self.tracees.threads_of(process).all(is_still) {
            return;
        }
        let ready = |(tid, task): (&u32, &TracedTask)| Some((*tid, task.state().detach_signal()?));
        let leaving: Vec<(u32, i32)> = self.tracees.threads_of(process).filter_map(ready).collect();
        if self.detaches.is_final && !leaving.is_empty() {
            self.detaches.processes.insert(process);
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
        self.counts.withdraw(former);
        self.tracees.tasks.insert(tid, task);
    }
}
