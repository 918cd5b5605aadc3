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

use super::action::{ActionResult, TaskAction};
use super::proc::status;
use super::tracees::Tracees;

/// A task that is stopped before it attaches to a process, until that is detached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AttachWait {
    pub(super) caller: u32,
    pub(super) target: u32,
}

impl Tracees {
    /// Detaches the process of a task, which is stopped before a system call. Its counts so far stay.
    pub(super) fn end_counted(&mut self, tid: u32, reason: &'static str) -> ActionResult {
        self.process(tid).into_iter().for_each(|process| process.stop_counting(reason));
        Ok(TaskAction::Detach { reason: None, signal: 0 })
    }

    /// A task is about to trace another one.
    pub(super) fn action_for_attach(&mut self, tid: u32, target: u32) -> ActionResult {
        if has_other_ids(tid) {
            // The task cannot be found by that id.
            return Ok(TaskAction::DetachAll("uses ptrace"));
        }
        let process = self.task(tid)?.process;
        let own = self.tasks.get(&target).is_some_and(|task| task.process == process);
        if own || !self.is_or_will_be_followed(target) {
            // The kernel refuses the former.
            return Ok(TaskAction::Resume);
        }
        let is_own = |child: u32| self.tasks.get(&child).is_some_and(|task| task.process == process);
        let mut waits = self.tasks.values().filter_map(|task| task.state().vfork_wait());
        match waits.any(|wait| is_own(wait.by)) {
            // The task named may wait for this one.
            true => Ok(TaskAction::DetachAll("uses ptrace")),
            false => Ok(TaskAction::AwaitDetach { target }),
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
