//! Exits and detaches: tasks that end, and processes that continue natively.

use cyclometer_sys::process::SIGKILL;
use cyclometer_sys::trace::{self, Change};

use super::Tracer;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::detach_progress::AttachStep;
use crate::host::modelled_accesses::ThreadAccesses;
use crate::host::proc::status;
use crate::host::process::{TaskMode, TracedTask};
use crate::host::syscalls::TRACED;
use crate::host::task_state::{StopRequest, TaskEvent, TransitionEffect};
use crate::host::thread_calls::ThreadCalls;
use crate::host::trace_error::{TraceError, TraceResult};
use crate::host::translated_pc::TranslatedPc;
use crate::host::translation_context::TranslationContext;
use crate::host::unseen_end::{UnseenEnd, is_ours, is_stopped};
use crate::host::window_protocol::TracedWindowEnd;

const KILLED_BEFORE: &str = "the process was killed before its counts were read";

impl Tracer {
    /// Detaches a thread: it runs natively as soon as all threads of its process can.
    pub(super) fn detach(&mut self, tid: u32, reason: Option<String>, signal: i32) {
        let at =
            self.tracees.restore_native_state(tid).map(|registers| registers.map(|registers| registers.rip));
        if at.is_err() {
            self.tracees.lose(tid, KILLED_BEFORE);
        }
        if let Some(reason) = reason {
            let at = at.ok().flatten().map_or_else(String::new, |pc| format!(" at {pc:#x}"));
            self.tracees.lose(tid, &format!("detached{at}: the program {reason}"));
        }
        self.tracees.tasks.get_mut(&tid).into_iter().for_each(TracedTask::end_listing);
        self.close(tid);
        self.end_windows(tid, TracedWindowEnd::End);
        self.tracees.unbind(tid);
        self.delayed_signals.send_to_detached(&self.tracees, tid);
        self.counts.withdraw(tid);
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return self.detach_task(tid, signal) };
        let effect = task.apply(TaskEvent::DetachReady(signal));
        let process = task.process;
        self.tracees.processes[process].flush = None;
        self.tracees.other_threads(tid).into_iter().for_each(|other| self.request_detach(other, None));
        self.carry_out(tid, effect);
        self.detach_if_ready(process);
    }

    /// Does what an event requires that has changed the state of a task.
    pub(super) fn carry_out(&mut self, tid: u32, effect: TransitionEffect) {
        match effect {
            TransitionEffect::Nothing => {}
            TransitionEffect::Interrupt => drop(trace::interrupt(tid)),
            TransitionEffect::DetachNow => self.detach_stopped(tid, None),
            TransitionEffect::HandlePostponed => self.handle_postponed(),
        }
    }

    /// Detaches a stopped task, with the reason of the request for it, if there is one.
    fn detach_stopped(&mut self, tid: u32, reason: Option<String>) {
        let requested = match self.tracees.tasks.get(&tid).map(|task| task.state().request()) {
            Some(StopRequest::Detach(requested)) => requested.clone(),
            _ => reason,
        };
        self.detach(tid, requested, 0);
    }

    /// Does what is requested of a task at its stop: it is suspended, or detached. Returns whether it was.
    pub(super) fn comply_with_request(&mut self, tid: u32) -> Result<bool, TraceError> {
        match self.tracees.task(tid)?.state().request().clone() {
            StopRequest::None => return Ok(false),
            StopRequest::Suspend => self.suspend(tid)?,
            StopRequest::Detach(reason) => self.detach(tid, reason, 0),
        }
        Ok(true)
    }

    /// Detaches a task, with a signal, or with 0 for none.
    pub(super) fn detach_task(&mut self, tid: u32, signal: i32) {
        // A task that was killed meanwhile is not at the stop any more.
        if trace::detach(tid, signal).is_err() {
            self.detaches.killed.insert(tid);
        }
    }

    /// Handles an event of a task that was killed while it was detached: it is about to end, or has ended.
    pub(super) fn finish_detach(&mut self, tid: u32, change: Change) {
        let ended = matches!(change, Change::Exited(_) | Change::Killed(_));
        if ended || trace::detach(tid, 0).is_ok() {
            self.detaches.killed.remove(&tid);
        }
    }

    /// Lets the code cache be unmapped, but for a page, when the process is detached. If a parent shares the
    /// memory and executes the translation (vfork), all of it stays.
    pub(super) fn unmap_when_detached(&mut self, tid: u32) -> TraceResult {
        let borrowed = self.tracees.borrows(tid);
        let task = self.tracees.task(tid)?;
        if let (TaskMode::Translated(context) | TaskMode::Native(context), false) =
            (&task.mode, borrowed || task.filtered)
        {
            let (process, cache) = (task.process, context.cache.clone());
            self.tracees.processes[process].unmaps = Some((tid, cache));
        }
        Ok(())
    }

    /// It is about to end; its memory and registers are still there.
    pub(super) fn exiting(&mut self, tid: u32) -> ActionResult {
        self.delayed_signals.pass_on(&self.tracees, tid);
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        // It is valid only during a system call on behalf of the tracee: the task may have executed code
        // since.
        let last = self.tracees.task(tid)?.last_pc.take();
        // Answered first: its exit would be counted twice in the answer.
        self.answer_request(tid)?;
        let registers = trace::registers(tid);
        let position = registers.ok().and_then(|registers| {
            Some(TranslatedPc::new(self.tracees.task(tid).ok()?.pc(tid, &registers), &registers))
        });
        let task = self.tracees.task(tid)?;
        let mut unknown = false;
        let position = position.or(task.state().exit_pc().map(TranslatedPc::of_call));
        if let TaskMode::Translated(context) = &mut task.mode {
            // During a system call on behalf of the tracee the instruction pointer is in the gadget.
            let calling = position.is_some_and(|position| context.cache.borrow().is_calling(position.pc));
            let at = if calling { last } else { position };
            let known = at.filter(|at| context.exit_at(*at));
            unknown = known.is_none();
            known.iter().for_each(|at| leave_logs(tid, (&mut task.calls, &mut task.accesses), context, *at));
        }
        if unknown {
            self.tracees.lose(tid, "the process ended at an unknown program point");
        }
        // The end of its process kills a task at this stop too, which is behind its last instruction. Nothing
        // fails from where its exit is counted until it has left its translation: the exit would be counted
        // twice.
        let is_killed = trace::event_message(tid).map_or(true, |status| status & 0x7f == SIGKILL as u64);
        if is_killed {
            self.adopt_early_children(tid);
        }
        self.tracees.tasks.get_mut(&tid).into_iter().for_each(TracedTask::end_listing);
        self.close(tid);
        self.end_windows(tid, TracedWindowEnd::End);
        let effect = self.tracees.task(tid)?.apply(TaskEvent::Ended);
        self.carry_out(tid, effect);
        Ok(TaskAction::Continue { signal: 0 })
    }

    /// Adds the profile of a process to that of all ended ones when its last task is gone: a build has
    /// thousands of processes of few programs.
    fn keep_profile(&mut self, process: usize) {
        if self.tracees.tasks.values().any(|task| task.process == process) {
            return;
        }
        let profile = self.tracees.processes[process].take_profile();
        let profile = match &self.owners {
            Some(owners) => owners.own(process, profile),
            None => profile,
        };
        self.ended_profile.merge(profile);
        if let Some(calls) = &mut self.call_paths {
            calls.add_ended(&mut self.tracees.processes[process]);
        }
    }

    /// A task is gone; `how`, if the kernel reported it.
    pub(super) fn task_gone(&mut self, tid: u32, how: Option<Change>) {
        self.tracees.early_children.remove(&tid);
        self.delayed_signals.pass_on(&self.tracees, tid);
        self.tracees.fork_events.remove(&tid);
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        if self.tracees.tasks.get(&tid).is_some_and(TracedTask::has_context) {
            self.adopt_early_children(tid);
            let certain = self.end_unseen(tid, how == Some(Change::Killed(SIGKILL)));
            let executes =
                self.tracees.other_threads(tid).iter().any(|other| self.tracees.is_executing(*other));
            if let Some(process) = self.tracees.process(tid).filter(|_| certain) {
                process.unconfirmed |= executes;
            }
            self.tracees.tasks.get_mut(&tid).into_iter().for_each(TracedTask::end_listing);
            self.close(tid);
            self.end_windows(tid, TracedWindowEnd::End);
        }
        if let Some(task) = self.tracees.tasks.remove(&tid) {
            self.keep_profile(task.process);
        }
        self.counts.withdraw(tid);
        self.detaches.forget(tid);
        self.tracees.release_parents(tid);
        if tid == self.root {
            self.finish();
        }
    }

    /// Handles the end of a task that was not reported before. Returns whether its last program point is
    /// known; if not, its counts are lost.
    pub(super) fn end_unseen(&mut self, tid: u32, killed: bool) -> bool {
        let reports_exits = self.reports_exits;
        let another_executes =
            self.tracees.other_threads(tid).iter().any(|other| self.tracees.is_executing(*other));
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return false };
        let (exit_pc, last_pc) = (task.state().exit_pc(), task.last_pc);
        let at = UnseenEnd { exit_pc, last_pc, killed, another_executes, reports_exits }.position();
        let known = match &mut task.mode {
            TaskMode::Translated(context) => {
                let known = at.filter(|at| context.exit_at(*at));
                known
                    .iter()
                    .for_each(|at| leave_logs(tid, (&mut task.calls, &mut task.accesses), context, *at));
                known.is_some()
            }
            TaskMode::Native(_) => task.stepped_block.is_none(),
            TaskMode::Untranslated => false,
        };
        if !known {
            self.tracees.lose(tid, KILLED_BEFORE);
        }
        known
    }

    /// A task that is about to be gone. Reaping reports it, unless it was reaped by a wait for another event.
    pub(super) fn await_end(&mut self, tid: u32) {
        let status = status(tid);
        if !is_ours(&status) {
            return self.task_gone(tid, None);
        }
        // A task that was killed has left the reported stop, and reports its exit first.
        if is_stopped(&status) {
            match trace::poll(tid) {
                Ok(Some(change)) => self.handle(tid, change),
                // The exit was reported during a system call on behalf of the tracee.
                _ if trace::is_at(tid, Change::Exiting).is_ok_and(|ends| ends) => {
                    self.handle(tid, Change::Exiting);
                }
                _ => self.resume_untracked(tid),
            }
        }
    }

    /// Resumes a task from a stop that was not understood: to its end, most likely. It may also run on
    /// natively, so its counts are lost, even if it has executed nothing yet.
    fn resume_untracked(&mut self, tid: u32) {
        let reason = match self.tracees.tasks.get(&tid).is_some_and(TracedTask::has_context) {
            true => "the process was killed while it was translated",
            false => "the process was killed before it was translated, or could not be followed",
        };
        self.tracees.lose(tid, reason);
        let _ = trace::resume(tid, 0);
    }

    /// Detaches all tasks.
    pub(super) fn finish(&mut self) {
        self.detaches.is_final = true;
        let all: Vec<u32> = self.tracees.tasks.keys().copied().collect();
        all.into_iter().for_each(|tid| self.request_detach(tid, None));
    }

    pub(super) fn request_detach(&mut self, tid: u32, reason: Option<String>) {
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        match task.apply(TaskEvent::DetachRequested(reason.clone())) {
            TransitionEffect::DetachNow => self.detach_stopped(tid, reason),
            effect => self.carry_out(tid, effect),
        }
    }

    /// Detaches the processes that others wait for, and resumes those whose wait is over.
    pub(super) fn release_attaching(&mut self) {
        for wait in self.detaches.waits() {
            match self.detaches.step_of(wait, &self.tracees) {
                None => {}
                Some(AttachStep::Forget) => self.detaches.end_wait(wait),
                Some(AttachStep::Resume) => {
                    self.detaches.end_wait(wait);
                    let resumed = self.resume_checked(wait.caller);
                    self.apply_outcome(wait.caller, resumed);
                }
                Some(AttachStep::Detach) => self.detach_for_attach(wait.target),
            }
        }
    }

    /// Requests the detach of a process that another one is about to trace.
    fn detach_for_attach(&mut self, target: u32) {
        let Some(process) = self.tracees.tasks.get(&target).map(|task| task.process) else { return };
        if self.tracees.processes[process].stops_counting() {
            return;
        }
        self.tracees.processes[process].stop_counting(TRACED);
        // Its own threads that wait for another process are stopped, and would wait for ever.
        let stopped = self.detaches.end_waits_of(&self.tracees, process);
        stopped.iter().for_each(|caller| self.detach(*caller, None, 0));
        if stopped.is_empty() {
            self.request_detach(target, None);
        }
    }

    /// Lets go of all processes, this one last, so that it finds them untraced.
    pub(super) fn detach_all(&mut self, tid: u32, reason: &str) {
        let others: Vec<u32> = self.tracees.tasks.keys().copied().filter(|other| *other != tid).collect();
        others.into_iter().for_each(|other| self.request_detach(other, Some(reason.to_owned())));
        self.detaches.add_last(tid, reason);
    }

    /// Detaches the tasks that are detached last, if no other is left.
    pub(super) fn detach_last_tasks(&mut self) {
        for (tid, reason) in self.detaches.take_last(&self.tracees) {
            self.detach(tid, Some(reason), 0);
        }
    }
}

/// Takes back a call that a task has logged and has not made, and replays its accesses, where it ends.
pub(super) fn leave_logs(
    tid: u32,
    (calls, accesses): (&mut Option<Box<ThreadCalls>>, &mut Option<Box<ThreadAccesses>>),
    context: &TranslationContext,
    at: TranslatedPc,
) {
    let cache = &context.cache.borrow();
    calls.iter_mut().for_each(|calls| calls.leave(cache, context.slot, at));
    if let Some(accesses) = accesses {
        // A task that is gone has no registers.
        let registers = trace::registers(tid).ok();
        accesses.leave(cache, context.slot, at, registers.as_ref(), None);
    }
}
