//! The first stop of a task that is not known yet: a child of a tracee.
//!
//! ```text
//! fork event ──> child not seen yet: the event waits ──> first stop ──> announced
//! first stop ──> no event yet                        ──> an early child, which waits for the event
//! first stop ──> parent killed, no event will come   ──> an orphan
//! ```

use super::proc::first_thread;

/// The parent of a process that has stopped for the first time.
#[derive(Clone, Copy)]
pub(super) struct KnownParent {
    pub(super) id: u32,
    pub(super) is_followed: bool,
}

/// The first stop of a task that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FirstStop {
    /// A thread ends before it has executed anything, as its process is being killed. There may be no fork
    /// event of it.
    Dying,
    /// Its fork event was reported.
    Announced,
    /// A thread that stops before its fork event.
    EarlyThread,
    /// A process that stops before its fork event; its parent, if the kernel names one.
    EarlyChild { parent: Option<u32> },
    /// A process whose parent is not followed: the parent was killed.
    Orphan { parent: u32 },
}

impl FirstStop {
    /// The kind of a stop. `is_thread`: whether the task is not the first one of its process.
    pub(super) fn of(
        is_exit: bool,
        has_fork_event: bool,
        is_thread: impl Fn() -> bool,
        parent: impl FnOnce() -> Option<KnownParent>,
    ) -> FirstStop {
        if is_exit && is_thread() {
            return FirstStop::Dying;
        }
        if has_fork_event {
            return FirstStop::Announced;
        }
        if is_thread() {
            return FirstStop::EarlyThread;
        }
        match parent() {
            Some(KnownParent { id: parent, is_followed: false }) => FirstStop::Orphan { parent },
            parent => FirstStop::EarlyChild { parent: parent.map(|parent| parent.id) },
        }
    }
}

/// Whether a task is not the first one of its process.
pub(super) fn is_thread(tid: u32) -> bool {
    first_thread(tid).is_some_and(|first| first != tid)
}

/// The children of a process that has one thread.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/task/tid/children`.
pub(super) fn children_of(pid: u32) -> Vec<u32> {
    let children = super::proc::text(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The parent of a process.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 4, the second behind the name.
pub(super) fn parent_of(pid: u32) -> Option<u32> {
    let stat = super::proc::text(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_stop(
        is_exit: bool,
        has_fork_event: bool,
        is_thread: bool,
        parent: Option<(u32, bool)>,
    ) -> FirstStop {
        let parent = parent.map(|(id, is_followed)| KnownParent { id, is_followed });
        FirstStop::of(is_exit, has_fork_event, || is_thread, || parent)
    }

    #[test]
    fn a_child_starts_with_its_fork_event_and_waits_without() {
        for parent in [None, Some((7, true)), Some((7, false))] {
            assert_eq!(first_stop(false, true, false, parent), FirstStop::Announced);
            assert_eq!(first_stop(false, true, true, parent), FirstStop::Announced);
            assert_eq!(first_stop(false, false, true, parent), FirstStop::EarlyThread);
        }
        assert_eq!(
            first_stop(false, false, false, Some((7, true))),
            FirstStop::EarlyChild { parent: Some(7) }
        );
        assert_eq!(first_stop(false, false, false, None), FirstStop::EarlyChild { parent: None });
    }

    #[test]
    fn a_process_whose_parent_is_not_followed_is_an_orphan() {
        assert_eq!(first_stop(false, false, false, Some((7, false))), FirstStop::Orphan { parent: 7 });
        assert_eq!(first_stop(true, false, false, Some((7, false))), FirstStop::Orphan { parent: 7 });
    }

    #[test]
    fn a_thread_that_ends_first_is_not_started_even_if_it_was_announced() {
        for has_fork_event in [false, true] {
            assert_eq!(first_stop(true, has_fork_event, true, None), FirstStop::Dying);
        }
        assert_eq!(first_stop(true, true, false, None), FirstStop::Announced, "a process has a program");
    }
}
