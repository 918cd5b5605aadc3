//! Whether the translation of a process can be replaced, and whether all of its threads are ready for that.

use super::task_state::TaskState;

/// The reason why a process is detached that changes code of two processes.
pub(super) const CHANGES_SHARED: &str = "changes its code while its parent waits for it (vfork)";

/// Whether a flush can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushReadiness {
    /// All threads are suspended.
    Ready,
    /// A thread is not suspended yet, or has not stopped for the first time.
    Waits,
    /// Another process uses the memory (vfork): one of the two waits in its call, and cannot be suspended.
    SharesMemory,
}

impl FlushReadiness {
    /// The readiness of a process whose threads have these states. `borrows`: its parent waits for it.
    pub(super) fn of<'a>(
        states: impl Iterator<Item = &'a TaskState>,
        borrows: bool,
        awaits_thread: bool,
    ) -> FlushReadiness {
        let (mut lends, mut waits) = (false, awaits_thread);
        for state in states {
            lends |= state.vfork_wait().is_some();
            waits |= !state.is_suspended();
        }
        match () {
            () if lends || borrows => FlushReadiness::SharesMemory,
            () if waits => FlushReadiness::Waits,
            () => FlushReadiness::Ready,
        }
    }
}

/// The reason why the translation of a process is not replaced once more, in words that follow "the program".
///
/// - `filters`: no system call can be made on behalf of its task.
/// - `shares_memory`: a parent and a child use one memory (vfork).
/// - `may_change`: whether the changes of its code do not cost too much. A call adds the cost of one change.
pub(super) fn change_refusal(
    filters: bool,
    shares_memory: bool,
    may_change: impl FnOnce() -> bool,
) -> Option<&'static str> {
    match () {
        () if filters => Some("filters its system calls"),
        () if shares_memory => Some(CHANGES_SHARED),
        () if !may_change() => Some("keeps changing its code"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::task_state::{TaskEvent, VforkWait};

    #[test]
    fn a_flush_waits_for_every_thread_and_is_refused_where_memory_is_shared() {
        let suspended = TaskState::Suspended { group_stop: false };
        let asked = TaskState::default().next(TaskEvent::SuspendRequested).0;
        let wait = VforkWait { by: 7, pc: 0 };
        let waiting = TaskState::default().next(TaskEvent::WaitsForChild(wait)).0;
        let readiness = |states: &[&TaskState], borrows, awaits_thread| {
            FlushReadiness::of(states.iter().copied(), borrows, awaits_thread)
        };
        assert_eq!(readiness(&[&suspended, &suspended], false, false), FlushReadiness::Ready);
        assert_eq!(readiness(&[&suspended, &asked], false, false), FlushReadiness::Waits);
        assert_eq!(readiness(&[&suspended], false, true), FlushReadiness::Waits);
        assert_eq!(readiness(&[&suspended, &waiting], false, false), FlushReadiness::SharesMemory);
        assert_eq!(readiness(&[&asked], true, true), FlushReadiness::SharesMemory);
    }

    #[test]
    fn the_cost_of_a_change_is_counted_only_where_nothing_else_refuses_it() {
        let never = || -> bool { panic!("the change is refused before") };
        assert_eq!(change_refusal(true, true, never), Some("filters its system calls"));
        assert_eq!(change_refusal(false, true, never), Some(CHANGES_SHARED));
        assert_eq!(change_refusal(false, false, || false), Some("keeps changing its code"));
        assert_eq!(change_refusal(false, false, || true), None);
    }
}
