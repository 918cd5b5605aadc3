//! The tasks and processes that are traced, and the children that are about to be.
//!
//! # Terms
//!
//! - *Task*, *process*: as in the [module](super) above. A task knows the index of its process, and a process
//!   stays in the list when its last task has ended, with its counts.
//! - *Vfork*: a parent waits in its system call while a child uses its memory. The parent *lends* its memory,
//!   and the child *borrows* it.
//!
//! # Invariants
//!
//! - Only the loop of the tracer and its handlers own a [`Tracees`]. Rooms borrow it, or one task of it.
//! - A query has no effect on a tracee, and makes no system call.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::code_cache::CodeCacheMapping;
use super::fork_event::ForkEvent;
use super::process::{TaskMode, TracedProcess, TracedTask};
use super::task_state::TaskEvent;
use super::trace_error::{TraceError, TraceResult};

/// The tasks and processes that are traced.
#[derive(Default)]
pub(super) struct Tracees {
    pub(super) tasks: HashMap<u32, TracedTask>,
    pub(super) processes: Vec<TracedProcess>,
    /// Fork events of children that have not stopped yet.
    pub(super) fork_events: HashMap<u32, ForkEvent>,
    /// Early children, which stopped before their fork event, with their parents.
    pub(super) early_children: HashMap<u32, u32>,
    /// Fork events of processes that were killed. The kernel reports no fork event for a child whose parent
    /// is killed during the call.
    pub(super) dead_parents: Vec<ForkEvent>,
    /// The number of the next task.
    next_number: u32,
}

impl Tracees {
    /// Adds a process with its first task.
    pub(super) fn add_process(&mut self, tid: u32, parent: u32, mode: TaskMode, filtered: bool) {
        self.processes.push(TracedProcess::new(tid, parent));
        let number = self.take_number();
        let task = TracedTask::new(self.processes.len() - 1, number, mode, filtered);
        self.tasks.insert(tid, task);
    }

    /// Adds a thread that a process has made.
    pub(super) fn add_thread(&mut self, tid: u32, process: usize, filtered: bool) {
        let number = self.take_number();
        let mut task = TracedTask::new(process, number, TaskMode::Untranslated, filtered);
        if self.processes[process].flush.is_some() {
            // It is stopped already, and needs no interrupt.
            let _ = task.apply(TaskEvent::SuspendRequested);
        }
        self.tasks.insert(tid, task);
    }

    fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    /// Adds a child that has stopped before its fork event; a thread has itself as its parent.
    pub(super) fn add_early_child(&mut self, child: u32, parent: u32) {
        self.early_children.insert(child, parent);
    }

    pub(super) fn task(&mut self, tid: u32) -> Result<&mut TracedTask, TraceError> {
        self.tasks.get_mut(&tid).ok_or(TraceError::Gone)
    }

    /// The process of a task.
    pub(super) fn process(&mut self, tid: u32) -> Option<&mut TracedProcess> {
        let index = self.tasks.get(&tid)?.process;
        self.processes.get_mut(index)
    }

    /// Drops the counts of a task's process, with a reason.
    pub(super) fn lose(&mut self, tid: u32, reason: &str) {
        if let Some(process) = self.process(tid) {
            process.lose(reason);
        }
    }

    /// The other threads of a task's process that have not ended.
    pub(super) fn other_threads(&self, tid: u32) -> Vec<u32> {
        let Some(process) = self.tasks.get(&tid).map(|task| task.process) else { return Vec::new() };
        let others = self.threads_of(process).filter(|(other, _)| **other != tid);
        others.map(|(other, _)| *other).collect()
    }

    /// The threads of a process that have not ended.
    pub(super) fn threads_of(&self, process: usize) -> impl Iterator<Item = (&u32, &TracedTask)> {
        self.tasks.iter().filter(move |(_, task)| task.process == process && !task.state().is_ended())
    }

    /// Whether a task's process has other threads, be it ones that have not stopped for the first time.
    pub(super) fn has_other_threads(&self, tid: u32) -> bool {
        let Some(process) = self.tasks.get(&tid).map(|task| task.process) else { return false };
        self.threads_of(process).any(|(other, _)| *other != tid) || self.awaits_thread(process)
    }

    /// Whether a thread of a process has not stopped for the first time.
    pub(super) fn awaits_thread(&self, process: usize) -> bool {
        self.fork_events.values().any(|fork_event| fork_event.thread_of == Some(process))
    }

    /// Whether another thread is about to end a task's process. If the task were resumed, it might be killed
    /// first, and its last program point would be unknown.
    pub(super) fn is_about_to_die(&self, tid: u32) -> bool {
        let of_thread = || self.fork_events.get(&tid).and_then(|fork_event| fork_event.thread_of);
        let process = self.tasks.get(&tid).map(|task| task.process).or_else(of_thread);
        let ends = |(other, task): (&u32, &TracedTask)| task.state().ends_process() && *other != tid;
        process.is_some_and(|process| self.threads_of(process).any(ends))
    }

    /// Whether a task has called `execve`.
    pub(super) fn is_executing(&self, tid: u32) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.exec_pc.is_some())
    }

    /// Whether a task is on its way into a signal handler, or back from one.
    pub(super) fn is_in_own_code(&self, tid: u32) -> bool {
        matches!(self.tasks.get(&tid).map(|task| &task.mode), Some(TaskMode::Native(_)))
    }

    /// Whether a task is followed, or will be when it stops for the first time.
    pub(super) fn is_or_will_be_followed(&self, tid: u32) -> bool {
        self.tasks.contains_key(&tid)
            || self.fork_events.contains_key(&tid)
            || self.early_children.contains_key(&tid)
    }

    /// The parents that lend their memory to a task (vfork).
    pub(super) fn lenders(&self, tid: u32) -> impl Iterator<Item = u32> {
        self.tasks.iter().filter(move |(_, parent)| parent.waits_for_child(tid)).map(|(parent, _)| *parent)
    }

    /// Whether a task uses the memory of a parent that waits for it (vfork).
    pub(super) fn borrows(&self, tid: u32) -> bool {
        self.lenders(tid).next().is_some()
    }

    /// The tasks that wait for a child do so no longer: it uses another memory, or has ended.
    pub(super) fn release_parents(&mut self, child: u32) {
        for task in self.tasks.values_mut().filter(|task| task.waits_for_child(child)) {
            let _ = task.apply(TaskEvent::ChildReleased);
        }
    }

    /// Whether another process executes a translation, or a new child will.
    pub(super) fn is_shared(&self, tid: u32, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        let own = self.tasks.get(&tid).map(|task| task.process);
        self.is_inherited(cache)
            || self.tasks.values().any(|task| Some(task.process) != own && task.uses(cache))
    }

    /// Whether a translation is executed in another memory than a task's. Threads of its process, and a child
    /// that shares its memory (vfork), do not count.
    pub(super) fn is_mapped_elsewhere(&self, tid: u32, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        let own = self.tasks.get(&tid).map(|task| task.process);
        let borrows = |child: &u32| {
            let lends = |task: &TracedTask| Some(task.process) == own && task.waits_for_child(*child);
            self.tasks.values().any(lends)
        };
        let lends = |task: &TracedTask| task.waits_for_child(tid);
        let lender = self.tasks.values().find(|task| lends(task)).map(|task| task.process);
        let shares = |(other, task): (&u32, &TracedTask)| {
            Some(task.process) == own || Some(task.process) == lender || borrows(other)
        };
        self.tasks.iter().any(|(other, task)| task.uses(cache) && !shares((other, task)))
            || self.is_inherited(cache)
    }

    /// Whether a new process that has not stopped yet will execute a translation.
    fn is_inherited(&self, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        self.fork_events.values().any(|fork_event| fork_event.thread_of.is_none() && fork_event.uses(cache))
    }

    /// Whether a new process can get a translation of its own, where other programs have taken all slots of
    /// its parent's.
    pub(super) fn can_assign_apart(&self, child: u32, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        let Some(task) = self.tasks.get(&child) else { return false };
        cache.borrow().shared_code.is_used_by_others()
            && !self.borrows(child)
            && !task.filtered
            && self.other_threads(child).is_empty()
    }

    /// Forgets the mappings of a task's process, and of the parent that shares its memory (vfork).
    pub(super) fn forget_maps(&mut self, tid: u32) {
        let Some(process) = self.tasks.get(&tid).map(|task| task.process) else { return };
        let same = |task: &&mut TracedTask| task.process == process || task.waits_for_child(tid);
        for task in self.tasks.values_mut().filter(same) {
            if let TaskMode::Translated(context) | TaskMode::Native(context) = &mut task.mode {
                context.maps.forget();
            }
        }
    }

    /// Changes state that the kernel keeps for a whole process: in each of its threads.
    pub(super) fn update_threads(&mut self, tid: u32, note: impl Fn(&mut TracedTask)) -> TraceResult {
        let process = self.task(tid)?.process;
        self.tasks.values_mut().filter(|task| task.process == process).for_each(note);
        Ok(())
    }
}
