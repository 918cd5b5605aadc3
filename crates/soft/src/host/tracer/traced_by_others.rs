//! Processes that another tracee traces (`strace`, `gdb`), or that start one that cannot be traced.
//!
//! A process has one tracer. So a process that another one is about to trace is detached first, with its
//! counts so far, and the other one stays followed:
//!
//! ```text
//! PTRACE_TRACEME           ──> the calling process is detached, and makes the call natively
//! PTRACE_ATTACH, _SEIZE    ──> the call waits until the named process is detached
//! clone (CLONE_UNTRACED)   ──> the calling process is detached: the new task may use its memory
//! ```

use super::Tracer;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::proc::status;
use crate::host::syscalls::TRACED;
use crate::host::trace_error::TraceResult;

/// A task that is stopped before it attaches to a process, until that is detached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AttachWait {
    caller: u32,
    target: u32,
}

impl Tracer {
    /// Detaches the process of a task, which is stopped before a system call. Its counts so far stay.
    pub(super) fn end_counted(&mut self, tid: u32, reason: &'static str) -> ActionResult {
        self.tracees.process(tid).into_iter().for_each(|process| process.stop_counting(reason));
        Ok(TaskAction::Detach { reason: None, signal: 0 })
    }

    /// A task is about to trace another one.
    pub(super) fn handle_attach(&mut self, tid: u32, target: u32) -> ActionResult {
        if has_other_ids(tid) {
            // The task cannot be found by that id.
            return Ok(TaskAction::DetachAll("uses ptrace"));
        }
        let process = self.tracees.task(tid)?.process;
        let own = self.tracees.tasks.get(&target).is_some_and(|task| task.process == process);
        if own || !self.tracees.is_or_will_be_followed(target) {
            // The kernel refuses the former.
            return Ok(TaskAction::Resume);
        }
        let is_own = |child: u32| self.tracees.tasks.get(&child).is_some_and(|task| task.process == process);
        let mut waits = self.tracees.tasks.values().filter_map(|task| task.state().vfork_wait());
        match waits.any(|wait| is_own(wait.by)) {
            // The task named may wait for this one.
            true => Ok(TaskAction::DetachAll("uses ptrace")),
            false => Ok(TaskAction::AwaitDetach { target }),
        }
    }

    /// A task stays stopped until another one is detached.
    pub(super) fn await_detach(&mut self, caller: u32, target: u32) -> TraceResult {
        self.attaching.push(AttachWait { caller, target });
        Ok(())
    }

    /// Detaches the processes that others wait for, and resumes those whose wait is over.
    pub(super) fn release_attaching(&mut self) {
        for wait in self.attaching.clone() {
            let AttachWait { caller, target } = wait;
            if !self.tracees.tasks.contains_key(&caller) {
                self.attaching.retain(|other| *other != wait);
            } else if !self.tracees.is_or_will_be_followed(target) {
                self.attaching.retain(|other| *other != wait);
                let resumed = self.resume_checked(caller);
                self.apply_outcome(caller, resumed);
            } else {
                self.detach_for_attach(target);
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
        let is_of = |tracer: &Tracer, wait: &AttachWait| {
            tracer.tracees.tasks.get(&wait.caller).is_some_and(|task| task.process == process)
        };
        let stopped: Vec<u32> =
            self.attaching.iter().filter(|wait| is_of(self, wait)).map(|wait| wait.caller).collect();
        self.attaching.retain(|wait| !stopped.contains(&wait.caller));
        stopped.iter().for_each(|caller| self.detach(*caller, None, 0));
        if stopped.is_empty() {
            self.request_detach(target, None);
        }
    }
}

/// Whether a process knows others by other ids than the tracer: in a PID namespace.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `NSpid`, an id for each namespace.
fn has_other_ids(tid: u32) -> bool {
    let status = status(tid);
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    ids.is_some_and(|ids| ids.split_ascii_whitespace().count() > 1)
}
