//! Rounds in which one change of each task is handled.
//!
//! The kernel reports the changes of the latest tracee first. Threads that make new code all the time would
//! suspend the others for ever, as would threads whose windows end, or whose logs are full, all the time: all
//! threads of those stop often, so each is looked at more often.
//!
//! # Source
//!
//! Linux `kernel/ptrace.c`, `__ptrace_link`: a tracee is added before all others; `kernel/exit.c`,
//! `ptrace_do_wait`: the first with a change is reported.

/// The changes for each task after which all tasks are looked at, where only few of them stop often.
const SELDOM: usize = 8;

/// Changes since the last round of all tasks.
#[derive(Default)]
pub(super) struct TaskRounds {
    changes: usize,
}

impl TaskRounds {
    /// A change was handled. Returns whether a round of all tasks is due; then the next one begins.
    pub(super) fn is_due(&mut self, tasks: usize, all_stop_often: bool) -> bool {
        self.changes += 1;
        let changes_of_each = if all_stop_often { 1 } else { SELDOM };
        let is_due = tasks > 1 && self.changes >= tasks * changes_of_each;
        if is_due {
            self.changes = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The changes after which rounds are due, of so many.
    fn rounds(tasks: usize, all_stop_often: bool, changes: usize) -> Vec<usize> {
        let mut rounds = TaskRounds::default();
        (1..=changes).filter(|_| rounds.is_due(tasks, all_stop_often)).collect()
    }

    #[test]
    fn a_round_is_due_when_each_task_could_have_had_its_changes() {
        assert_eq!(rounds(3, false, 50), [24, 48]);
        assert_eq!(rounds(3, true, 7), [3, 6]);
    }

    #[test]
    fn a_single_task_needs_no_round() {
        assert!(rounds(1, true, 100).is_empty() && rounds(0, true, 100).is_empty());
    }
}
