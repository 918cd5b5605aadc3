//! Detaches that are not complete yet, and the tasks that wait for them.

use std::collections::HashSet;

use super::process::TracedTask;
use super::traced_by_others::AttachWait;
use super::tracees::Tracees;

/// Detaches that are not complete yet.
#[derive(Default)]
pub(super) struct DetachProgress {
    /// Every process is being detached: counting ends.
    pub(super) is_final: bool,
    /// Tasks that are stopped until all other processes are detached, with the reasons.
    last: Vec<(u32, String)>,
    /// Tasks that are stopped until the processes that they trace next are detached.
    attaching: Vec<AttachWait>,
    /// Tasks that were killed while they were detached: they stop once more before they are gone.
    pub(super) killed: HashSet<u32>,
    /// Processes that went on when counting ended.
    pub(super) processes: HashSet<usize>,
}

/// The next step of a wait for a process that another one is about to trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AttachStep {
    /// The task that waited is gone.
    Forget,
    /// The wait is over, and the task makes its call.
    Resume,
    /// The process that is to be traced is detached.
    Detach,
}

impl AttachStep {
    fn of(is_caller_followed: bool, is_target_followed: bool) -> AttachStep {
        match (is_caller_followed, is_target_followed) {
            (false, _) => AttachStep::Forget,
            (true, false) => AttachStep::Resume,
            (true, true) => AttachStep::Detach,
        }
    }
}

impl DetachProgress {
    /// A task is detached when all other processes are.
    pub(super) fn add_last(&mut self, tid: u32, reason: &str) {
        self.last.push((tid, reason.to_owned()));
    }

    /// Whether a task is detached last.
    pub(super) fn is_last(&self, tid: u32) -> bool {
        self.last.iter().any(|(last, _)| *last == tid)
    }

    /// The tasks that are detached last.
    pub(super) fn last_tasks(&self) -> Vec<u32> {
        self.last.iter().map(|(tid, _)| *tid).collect()
    }

    /// The reason why every process is detached, if that is so because of one of them.
    pub(super) fn reason_for_all(&self) -> Option<&str> {
        self.last.first().map(|(_, reason)| reason.as_str())
    }

    /// A task is gone.
    pub(super) fn forget(&mut self, tid: u32) {
        self.last.retain(|(last, _)| *last != tid);
    }

    /// Takes the tasks that are detached last, if no other is left.
    pub(super) fn take_last(&mut self, tracees: &Tracees) -> Vec<(u32, String)> {
        // A task that waits for a child (vfork) cannot stop before that child continues.
        let waits = |task: &TracedTask| task.state().vfork_wait().is_some() || task.state().is_ended();
        let is_other = |(tid, task): (&u32, &TracedTask)| !waits(task) && !self.is_last(*tid);
        if tracees.tasks.iter().any(is_other) { Vec::new() } else { std::mem::take(&mut self.last) }
    }

    /// A task is stopped until a process is detached.
    pub(super) fn add_wait(&mut self, wait: AttachWait) {
        self.attaching.push(wait);
    }

    /// The waits for processes that are traced next.
    pub(super) fn waits(&self) -> Vec<AttachWait> {
        self.attaching.clone()
    }

    /// The next step of a wait; `None` where it is over.
    pub(super) fn step_of(&self, wait: AttachWait, tracees: &Tracees) -> Option<AttachStep> {
        let is_caller_followed = tracees.tasks.contains_key(&wait.caller);
        let step = AttachStep::of(is_caller_followed, tracees.is_or_will_be_followed(wait.target));
        self.attaching.contains(&wait).then_some(step)
    }

    /// A wait is over.
    pub(super) fn end_wait(&mut self, wait: AttachWait) {
        self.attaching.retain(|other| *other != wait);
    }

    /// Ends the waits of the threads of a process, and returns the threads.
    pub(super) fn end_waits_of(&mut self, tracees: &Tracees, process: usize) -> Vec<u32> {
        let is_of =
            |wait: &AttachWait| tracees.tasks.get(&wait.caller).is_some_and(|task| task.process == process);
        let stopped: Vec<u32> =
            self.attaching.iter().filter(|wait| is_of(wait)).map(|wait| wait.caller).collect();
        self.attaching.retain(|wait| !stopped.contains(&wait.caller));
        stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::process::TaskMode;
    use crate::host::task_state::{TaskEvent, VforkWait};

    /// Tracees with these tasks, each in a process of its own.
    fn tracees(tasks: &[u32]) -> Tracees {
        let mut tracees = Tracees::default();
        tasks.iter().for_each(|tid| tracees.add_process(*tid, 0, TaskMode::Untranslated, false));
        tracees
    }

    #[test]
    fn a_task_is_detached_last_only_when_all_others_are_gone_or_wait_for_a_child() {
        let mut tracees = tracees(&[7, 8]);
        let mut progress = DetachProgress::default();
        progress.add_last(7, "uses ptrace");
        assert!(progress.take_last(&tracees).is_empty());
        let wait = TaskEvent::WaitsForChild(VforkWait { by: 9, pc: 0 });
        let _ = tracees.task(8).ok().unwrap().apply(wait);
        assert_eq!(progress.take_last(&tracees), [(7, "uses ptrace".to_owned())]);
        assert!(progress.take_last(&tracees).is_empty(), "they are taken once");
    }

    #[test]
    fn a_wait_ends_with_either_process() {
        assert_eq!(AttachStep::of(true, true), AttachStep::Detach);
        assert_eq!(AttachStep::of(true, false), AttachStep::Resume);
        assert_eq!([true, false].map(|target| AttachStep::of(false, target)), [AttachStep::Forget; 2]);
    }

    #[test]
    fn threads_of_a_process_that_is_traced_next_wait_no_longer() {
        let mut tracees = tracees(&[7, 8]);
        tracees.add_thread(9, 0, false);
        let mut progress = DetachProgress::default();
        let waits = [(7, 8), (9, 8), (8, 7)].map(|(caller, target)| AttachWait { caller, target });
        waits.into_iter().for_each(|wait| progress.add_wait(wait));
        assert_eq!(progress.end_waits_of(&tracees, 0), [7, 9]);
        let steps = waits.map(|wait| progress.step_of(wait, &tracees));
        assert_eq!(steps, [None, None, Some(AttachStep::Detach)]);
    }
}
