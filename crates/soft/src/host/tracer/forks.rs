//! Forks and execs: fork events, early children, orphans, and new programs.
//!
//! ```text
//! fork event ──> child not seen yet: the event waits ──> first stop ──> slot in the parent's translation
//! first stop ──> no event yet: an early child        ──> fork event ──> slot in the parent's translation
//! first stop ──> parent killed: an orphan            ──> the parent's last state, by its program counter
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Change};

use super::{FIXED_BYTES, SIGTRAP, Tracer};
use crate::host::action::{ActionResult, TaskAction};
use crate::host::code_cache::{AT_RANDOM, CodeCacheMapping, auxiliary};
use crate::host::cpu_queries::set_hwcap;
use crate::host::first_stop::{FirstStop, KnownParent, children_of, is_thread, parent_of};
use crate::host::fork_event::{ForkEvent, USER_CS};
use crate::host::maps::MemoryMaps;
use crate::host::process::{TaskMode, TracedProcess, TracedTask, name_of};
use crate::host::remote_syscalls::{has_threads, number, run_to_trap};
use crate::host::restartable::THREADS;
use crate::host::retranslation::TranslationAge;
use crate::host::task_state::{TaskEvent, VforkWait};
use crate::host::trace_error::{TraceError, TraceResult};
use crate::host::translated_pc::TranslatedPc;
use crate::host::unseen_end::is_traced_by_us;
use crate::host::window_protocol::TracedWindowEnd;

/// The number of killed processes whose state is kept for their children.
const MOST_DEAD_PARENTS: usize = 8;

impl Tracer {
    /// The first stop of a task that is not known yet.
    pub(super) fn unknown_task(&mut self, tid: u32, change: Change) {
        let parent = || {
            let id = parent_of(tid)?;
            Some(KnownParent { id, is_followed: self.tracees.tasks.contains_key(&id) })
        };
        let has_fork_event = self.tracees.fork_events.contains_key(&tid);
        match FirstStop::of(change == Change::Exiting, has_fork_event, || is_thread(tid), parent) {
            FirstStop::Dying => {
                self.tracees.early_children.remove(&tid);
                self.tracees.fork_events.remove(&tid);
                let _ = trace::resume(tid, 0);
            }
            FirstStop::Announced => {
                let event = self.tracees.fork_events.remove(&tid);
                event.into_iter().for_each(|event| self.start_child(tid, event));
            }
            FirstStop::EarlyThread => self.tracees.add_early_child(tid, tid),
            FirstStop::EarlyChild { parent } => self.tracees.add_early_child(tid, parent.unwrap_or(0)),
            FirstStop::Orphan { parent } => self.orphan(tid, parent),
        }
    }

    /// The parent of a new process is not a task that is followed.
    pub(super) fn orphan(&mut self, tid: u32, parent: u32) {
        let pc = trace::registers(tid).map_or(0, |registers| registers.rip);
        let made_here = |fork_event: &&ForkEvent| {
            fork_event.home.as_ref().is_some_and(|(cache, _)| cache.borrow().contains_code(pc))
        };
        match self.tracees.dead_parents.iter().rev().find(made_here).map(ForkEvent::duplicate) {
            Some(fork_event) => self.start_child(tid, fork_event),
            None => self.tracees.add_early_child(tid, parent),
        }
    }

    /// A process ends that may have made children without a fork event.
    pub(super) fn adopt_early_children(&mut self, parent: u32) {
        let Some(fork_event) = self.fork_event_of(parent) else { return };
        let children: Vec<u32> = self
            .tracees
            .early_children
            .iter()
            .filter(|(_, parent_of)| **parent_of == parent)
            .map(|(child, _)| *child)
            .collect();
        children.into_iter().for_each(|child| self.announce(child, fork_event.duplicate()));
        if fork_event.home.is_some() {
            self.tracees
                .dead_parents
                .drain(..(self.tracees.dead_parents.len() + 1).saturating_sub(MOST_DEAD_PARENTS));
            self.tracees.dead_parents.push(fork_event);
        }
    }

    /// A process executes a program. The threads that this ended cannot report children that they have just
    /// made: these are children of the process now.
    fn announce_children(&mut self, tid: u32) {
        let Some(fork_event) = self.fork_event_of(tid).filter(|fork_event| fork_event.home.is_some()) else {
            return;
        };
        let known = |child: &u32| {
            self.tracees.tasks.contains_key(child) || self.tracees.fork_events.contains_key(child)
        };
        let mut unknown = children_of(tid);
        unknown.retain(|child| !known(child) && is_traced_by_us(*child));
        unknown.into_iter().for_each(|child| self.announce(child, fork_event.duplicate()));
    }

    /// It is known how a child was made, which has stopped already, or is about to.
    fn announce(&mut self, child: u32, fork_event: ForkEvent) {
        if self.tracees.early_children.remove(&child).is_some() {
            self.start_child(child, fork_event);
        } else {
            self.tracees.fork_events.insert(child, fork_event);
        }
    }

    pub(super) fn fork_event_of(&self, parent: u32) -> Option<ForkEvent> {
        let task = self.tracees.tasks.get(&parent)?;
        let home = match &task.mode {
            TaskMode::Untranslated => None,
            TaskMode::Translated(context) | TaskMode::Native(context) => {
                Some((context.cache.clone(), context.slot))
            }
        };
        let binding = self.tracees.binding_of_child(parent);
        let TracedProcess { pid, limits, shares, .. } = self.tracees.processes[task.process];
        let (filtered, trap_action) = (task.filtered, task.trap_action);
        let (thread_of, calls) = (None, None);
        Some(ForkEvent {
            parent: pid,
            thread_of,
            home,
            filtered,
            shares,
            trap_action,
            limits,
            binding,
            calls,
        })
    }

    pub(super) fn forked(&mut self, tid: u32, change: Change) -> ActionResult {
        let child = message(tid, change)? as u32;
        if change == Change::VFork {
            let pc = trace::registers(tid)?.rip;
            let effect = self.tracees.task(tid)?.apply(TaskEvent::WaitsForChild(VforkWait { by: child, pc }));
            self.carry_out(tid, effect);
        }
        let mut fork_event = self.fork_event_of(tid).ok_or(TraceError::Gone)?;
        if change == Change::Clone && is_thread(child) {
            fork_event.thread_of = self.tracees.tasks.get(&tid).map(|task| task.process);
        }
        if fork_event.thread_of.is_none() {
            let calls = self.call_paths.as_ref();
            fork_event.calls = calls.and_then(|calls| calls.forked(&mut self.tracees, tid));
        }
        self.tracees.unbind(tid);
        self.announce(child, fork_event);
        Ok(TaskAction::Continue { signal: 0 })
    }

    /// Starts a new process or thread, behind the system call of its parent. It gets a slot of its own in the
    /// same translation.
    pub(super) fn start_child(&mut self, child: u32, fork_event: ForkEvent) {
        fork_event.binding.iter().for_each(|binding| binding.undo(child));
        match fork_event.thread_of {
            Some(process) => self.tracees.add_thread(child, process, fork_event.filtered),
            None => {
                self.tracees.add_process(
                    child,
                    fork_event.parent,
                    TaskMode::Untranslated,
                    fork_event.filtered,
                );
                fork_event.calls.iter().for_each(|calls| self.tracees.inherit_calls(child, calls));
                if let Some(process) = self.tracees.process(child) {
                    (process.limits, process.shares) = (fork_event.limits, fork_event.shares);
                }
            }
        }
        self.tracees.tasks.entry(child).and_modify(|task| task.trap_action = fork_event.trap_action);
        let Some((cache, slot)) = fork_event.home else { return drop(trace::resume(child, 0)) };
        match self.assign_child(child, &cache, slot) {
            Ok(()) => {}
            Err(TraceError::Gone) => self.await_end(child),
            Err(TraceError::Detach(reason)) => self.detach(child, Some(reason), 0),
            Err(TraceError::OwnTranslation) => {
                self.detach(child, Some("could not get a translation of its own".to_owned()), 0)
            }
        }
        let leaves =
            |other: &u32| self.tracees.tasks.get(other).is_some_and(|task| task.state().is_detach_ready());
        if self.detaches.is_final || self.tracees.other_threads(child).iter().any(leaves) {
            self.request_detach(child, None);
        } else if let Some(reason) = self.detaches.reason_for_all().map(str::to_owned) {
            self.request_detach(child, Some(reason));
        }
    }

    pub(super) fn assign_child(
        &mut self,
        child: u32,
        cache: &Rc<RefCell<CodeCacheMapping>>,
        parent_slot: usize,
    ) -> TraceResult {
        let mut registers = trace::registers(child)?;
        let point = cache.borrow().translation.point_at(registers.rip);
        let point =
            point.ok_or_else(|| TraceError::Detach("was forked outside of translated code".to_owned()))?;
        crate::host::native_state::restore_registers(&cache.borrow(), parent_slot, &point, &mut registers);
        registers.gs_base = 0;
        trace::set_registers(child, &registers)?;
        if !self.tracees.other_threads(child).is_empty()
            && let Some(process) = self.tracees.process(child)
        {
            self.restartable.search(process, child, THREADS)?;
        }
        // Another thread may have added a region while this one was created.
        let maps = MemoryMaps::read(child)?;
        if maps.is_empty() {
            return Err(TraceError::Gone);
        }
        let context = if cache.borrow().is_whole_in(&maps) {
            match self.tracees.assign_slot(child, cache) {
                Err(TraceError::Detach(_)) if self.tracees.can_assign_apart(child, cache) => {
                    self.tracees.assign_apart(child, cache, self.settings.translation)?
                }
                context => context?,
            }
        } else if self.tracees.task(child)?.filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        } else {
            self.tracees.assign_apart(child, cache, self.settings.translation)?
        };
        if !self.tracees.other_threads(child).is_empty() {
            // The kernel reports only one of two threads that end the process at the same time.
            cache.borrow_mut().watch(number::EXIT_GROUP, true);
        }
        self.tracees.task(child)?.mode = TaskMode::Native(context);
        if self.counts.is_open {
            // The counts of the slot's previous user belong to the answer.
            self.record_counts(child, None);
        }
        self.enter_translation(child, registers)
    }

    /// A new program is before its first instruction.
    pub(super) fn executed(&mut self, tid: u32) -> ActionResult {
        if let Some(process) = self.tracees.process(tid) {
            process.unconfirmed = false;
        }
        self.announce_children(tid);
        self.close_executed(tid)?;
        // Handlers of signals do not survive, nor do the descriptors that matter here.
        let task = self.tracees.task(tid)?;
        (task.trap_action, task.age) = (None, TranslationAge::default());
        let effect = task.apply(TaskEvent::Executed);
        self.carry_out(tid, effect);
        self.tracees.release_parents(tid);
        if let Some(process) = self.tracees.process(tid) {
            (process.flush, process.no_restarts, process.shares) = (None, false, false);
            // The memory that was to be unmapped is gone.
            process.unmaps = None;
            process.name = name_of(tid);
        }
        if self.detaches.is_final {
            return Ok(TaskAction::Detach { reason: None, signal: 0 });
        }
        self.check_inherited(tid)?;
        // The system call still has to return, into the first instruction.
        step_out(tid)?;
        let registers = trace::registers(tid)?;
        if registers.cs != USER_CS {
            return Err(TraceError::Detach("executed a 32-bit program".to_owned()));
        }
        if self.settings.baseline.is_some() {
            set_hwcap(tid, registers.rsp)?;
        }
        let context = self.store.assign_program(
            &self.tracees,
            (tid, &registers),
            &self.settings,
            &mut self.restartable,
        )?;
        if self.settings.fixed_layout {
            trace::write_memory(tid, auxiliary(tid, AT_RANDOM)?, &FIXED_BYTES)?;
        }
        self.tracees.task(tid)?.mode = TaskMode::Native(context);
        self.cpu.bind(&mut self.tracees, tid);
        Ok(TaskAction::Enter(registers))
    }

    /// Checks state that the program has inherited and that prevents tracing.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/status`: `Seccomp` is 0 without a filter, `SigIgn` a mask in hexadecimal.
    fn check_inherited(&mut self, tid: u32) -> TraceResult {
        let status = crate::host::proc::text(format!("/proc/{tid}/status"))?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let task = self.tracees.task(tid)?;
        // It may have failed to install one.
        task.filtered &= field("Seccomp:") != Some("0");
        if task.filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        }
        let ignored = field("SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        if ignored >> (SIGTRAP - 1) & 1 == 1 {
            // Every stop of the translator would reset that.
            return Err(TraceError::Detach("ignores SIGTRAP".to_owned()));
        }
        Ok(())
    }

    /// The program before has executed its last instruction: the system call.
    pub(super) fn close_executed(&mut self, tid: u32) -> TraceResult {
        let task = self.tracees.task(tid)?;
        let asked = task.exec_pc.take();
        if let TaskMode::Translated(context) = &mut task.mode {
            let behind = asked.map(|pc| TranslatedPc::of_call(pc + 2));
            let known = behind.filter(|position| context.exit_at(*position));
            // The program that the registers belonged to is gone.
            if let (Some(accesses), Some(at)) = (&mut task.accesses, known) {
                accesses.leave(&context.cache.borrow(), context.slot, at, None, None);
            }
            if known.is_none() {
                self.tracees.lose(tid, "executed a program from an unknown program point");
            }
        }
        self.tracees.tasks.get_mut(&tid).into_iter().for_each(TracedTask::end_listing);
        self.close(tid);
        self.end_windows(tid, TracedWindowEnd::Exec);
        let task = self.tracees.task(tid)?;
        (task.calls, task.accesses) = (None, None);
        if let Some(process) = self.tracees.process(tid) {
            // The new program begins with empty caches.
            process.caches = None;
        }
        Ok(())
    }
}

/// The message of a ptrace event. A task that was killed meanwhile is at another event.
pub(super) fn message(tid: u32, event: Change) -> Result<u64, TraceError> {
    let message = trace::event_message(tid)?;
    if trace::is_at(tid, event)? { Ok(message) } else { Err(TraceError::Gone) }
}

/// Runs a process that is about to return from a system call to its first instruction.
fn step_out(tid: u32) -> TraceResult {
    Ok(run_to_trap(tid, has_threads(tid), trace::step)?)
}
