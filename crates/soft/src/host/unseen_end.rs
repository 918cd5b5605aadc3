//! The end of a task that the kernel did not report, and tests of the kernel's reports.

use cyclometer_sys::host::uname;

use super::proc::status;
use super::translated_pc::TranslatedPc;

/// The facts about a task that has ended without an exit stop.
///
/// A task that is killed at a reported stop goes on to its exit stop. The tracer may take that for the first
/// stop and resume it: the task has executed nothing in between. A task that has called `exit` itself is
/// killed without another stop.
///
/// # Source
///
/// Linux `kernel/signal.c`: `ptrace_stop`, a task that is to be killed does not stop; `get_signal`, a task
/// that is killed is not to be any more; `ptrace_signal`, an unreported stop does not keep it from that,
/// since 5.17.
pub(super) struct UnseenEnd {
    /// The address behind its `exit` call, in translated code, if it was about to make one.
    pub(super) exit_pc: Option<u64>,
    /// Its position at its last stop, if it has executed nothing since.
    pub(super) last_pc: Option<TranslatedPc>,
    /// The kernel reported that SIGKILL has ended it.
    pub(super) killed: bool,
    /// Another thread has called `execve`, which ends it.
    pub(super) another_executes: bool,
    /// The kernel reports every exit.
    pub(super) reports_exits: bool,
}

impl UnseenEnd {
    /// Its last position in translated code; `None` where it is unknown.
    pub(super) fn position(&self) -> Option<TranslatedPc> {
        match self.exit_pc {
            // It was killed before the call, or behind it.
            Some(_) if self.another_executes => None,
            Some(pc) if !self.killed => Some(TranslatedPc::of_call(pc)),
            _ => self.last_pc.filter(|_| self.reports_exits),
        }
    }
}

/// Whether a task that is killed at an unreported stop still stops at its exit.
///
/// # Source
///
/// Linux `kernel/signal.c`: `ptrace_signal`, since 5.17; `prepare_signal`, a dying task is not killed again,
/// which would end that stop unseen, since 6.1 at the latest.
pub(super) fn reports_exits() -> bool {
    uname().is_some_and(|uname| version(&uname.release) >= Some((6, 1)))
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Whether this process is the tracer of a process.
pub(super) fn is_traced_by_us(pid: u32) -> bool {
    is_ours(&status(pid))
}

pub(super) fn is_ours(status: &str) -> bool {
    tracer(status) == Some(std::process::id())
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `TracerPid`.
fn tracer(status: &str) -> Option<u32> {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer?.trim().parse().ok()
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `State`, of which `t` is a stop for the tracer.
pub(super) fn is_stopped(status: &str) -> bool {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['t', 'T']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: TranslatedPc = TranslatedPc { pc: 5, rcx: Some(1), r11: None };

    /// An end whose exit was not reported, of a task that had stopped at [`LAST`].
    fn unseen_end() -> UnseenEnd {
        let (exit_pc, last_pc) = (None, Some(LAST));
        UnseenEnd { exit_pc, last_pc, killed: true, another_executes: false, reports_exits: true }
    }

    #[test]
    fn a_killed_task_ends_where_it_stopped_last_if_the_kernel_reports_all_later_stops() {
        assert_eq!(unseen_end().position(), Some(LAST));
        assert_eq!(UnseenEnd { reports_exits: false, ..unseen_end() }.position(), None);
        assert_eq!(UnseenEnd { last_pc: None, ..unseen_end() }.position(), None, "it has run since");
    }

    #[test]
    fn a_task_that_calls_exit_ends_behind_the_call_unless_something_else_may_have_ended_it() {
        let calls = UnseenEnd { exit_pc: Some(9), killed: false, ..unseen_end() };
        assert_eq!(calls.position(), Some(TranslatedPc::of_call(9)));
        assert_eq!(UnseenEnd { killed: true, last_pc: None, ..calls }.position(), None);
        let calls = UnseenEnd { exit_pc: Some(9), killed: false, another_executes: true, ..unseen_end() };
        assert_eq!(calls.position(), None, "the other thread's call may have come first");
    }

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(version("6.18.2-arch1-1"), Some((6, 18)));
        assert_eq!(version("5.9-rc2"), Some((5, 9)));
        assert!(version("5.9.0") < version("5.17.0"));
        assert_eq!(version("6"), None);
        assert_eq!(version("rolling"), None);
    }
}
