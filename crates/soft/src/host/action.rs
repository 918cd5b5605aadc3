//! The action that follows a stop.
//!
//! A handler looks at the stop of one task, and returns what is to be done with it. The loop of the tracer
//! does it: only there tasks are resumed, suspended and detached.
//!
//! ```text
//! stop ──> handler (signals, syscalls, forks, exits, windows) ──> TaskAction ──> loop: resume, flush, detach
//! ```

use cyclometer_sys::trace::Registers;

use super::task_state::StopRequest;
use super::trace_error::TraceError;

/// The tracer's action on a task whose stop was looked at.
pub(super) enum TaskAction {
    /// It complies with the request for its stop, or else goes on in translated code.
    Resume,
    /// It goes on where it is, with this signal, or 0 for none. In native state it goes on for one step.
    Continue {
        /// The signal.
        signal: i32,
    },
    /// It goes on to a stop that was not reported yet.
    RunOn,
    /// It stays in the stop of its process.
    Listen,
    /// The system call before which it has stopped is not made.
    Emulate {
        /// Its registers before the call.
        registers: Registers,
        /// The result of the call.
        result: u64,
    },
    /// It goes on in translated code with these registers: the tracer has answered an instruction.
    ResumeWith(Registers),
    /// It enters translated code with these registers, which are the program's.
    Enter(Registers),
    /// Its process moves to a new translation from its program point. Other threads are suspended for that.
    Flush,
    /// The other threads are suspended, and then it makes the system call before which it has stopped.
    FlushAroundCall,
    /// The threads for which it was suspended enter a new translation; these are its registers.
    CompleteFlush(Registers),
    /// Its process, of one thread, moves to a translation that is made from its own execution profile.
    Retranslate,
    /// It is suspended until a flush is complete.
    Suspend {
        /// Whether the tracer has interrupted it; else it is in the stop of its process.
        interrupted: bool,
    },
    /// Its process is detached.
    Detach {
        /// The reason, in words that follow "the program", if counts are lost.
        reason: Option<String>,
        /// The signal that it gets, or 0 for none.
        signal: i32,
    },
    /// Its process is detached, and the code cache unmapped.
    DetachUnmapped(&'static str),
    /// It stays stopped until another task, whose tracer it is about to be, is detached.
    AwaitDetach {
        /// The other task.
        target: u32,
    },
    /// Every process is detached, this one last.
    DetachAll(&'static str),
}

/// The action after a stop, or the reason why the task cannot be followed.
pub(super) type ActionResult = Result<TaskAction, TraceError>;

/// The cause of a stop without a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InterruptKind {
    /// The tracer has interrupted the task.
    ByTracer,
    /// The whole process is stopped.
    GroupStop,
}

/// The reaction to a stop without a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InterruptReaction {
    /// The pending stop of the task is reported next, and the request is met there.
    AwaitStop,
    /// As [`InterruptReaction::AwaitStop`], and the task is in the stop of its process until then.
    StayStopped,
    /// It is detached.
    Detach,
    /// It is suspended.
    Suspend,
    /// It answers a request for counts, and goes on.
    Answer,
}

impl InterruptReaction {
    /// The reaction of a task.
    ///
    /// - `is_in_own_code`: it is on its way into a signal handler or back, and cannot be suspended.
    /// - `is_about_to_stop`: it is behind a stop of the translator that was not reported yet.
    pub(super) fn to(
        kind: InterruptKind,
        request: &StopRequest,
        is_in_own_code: bool,
        is_about_to_stop: bool,
    ) -> InterruptReaction {
        match (request, kind) {
            _ if !request.acts_at_interrupt(is_in_own_code) => InterruptReaction::Answer,
            (_, InterruptKind::ByTracer) if is_about_to_stop => InterruptReaction::AwaitStop,
            (_, InterruptKind::GroupStop) if is_about_to_stop => InterruptReaction::StayStopped,
            (StopRequest::Detach(_), _) => InterruptReaction::Detach,
            (StopRequest::Suspend, _) => InterruptReaction::Suspend,
            (StopRequest::None, _) => InterruptReaction::Answer,
        }
    }
}

impl StopRequest {
    /// Whether a task meets it at a stop without a signal.
    pub(super) fn acts_at_interrupt(&self, is_in_own_code: bool) -> bool {
        match self {
            StopRequest::None => false,
            StopRequest::Suspend => !is_in_own_code,
            StopRequest::Detach(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reactions to an interrupt and to a group stop.
    fn reactions(request: &StopRequest, own_code: bool, about_to_stop: bool) -> [InterruptReaction; 2] {
        [InterruptKind::ByTracer, InterruptKind::GroupStop]
            .map(|kind| InterruptReaction::to(kind, request, own_code, about_to_stop))
    }

    #[test]
    fn a_task_without_a_request_answers_and_goes_on() {
        for (own_code, about_to_stop) in [(false, false), (false, true), (true, false), (true, true)] {
            let reactions = reactions(&StopRequest::None, own_code, about_to_stop);
            assert_eq!(reactions, [InterruptReaction::Answer; 2]);
        }
    }

    #[test]
    fn a_task_is_detached_everywhere_but_before_a_pending_stop() {
        let request = StopRequest::Detach(None);
        for own_code in [false, true] {
            assert_eq!(reactions(&request, own_code, false), [InterruptReaction::Detach; 2]);
            let pending = [InterruptReaction::AwaitStop, InterruptReaction::StayStopped];
            assert_eq!(reactions(&request, own_code, true), pending);
        }
    }

    #[test]
    fn a_task_is_suspended_only_in_translated_code() {
        let request = StopRequest::Suspend;
        assert_eq!(reactions(&request, false, false), [InterruptReaction::Suspend; 2]);
        assert_eq!(
            reactions(&request, false, true),
            [InterruptReaction::AwaitStop, InterruptReaction::StayStopped]
        );
        for about_to_stop in [false, true] {
            assert_eq!(reactions(&request, true, about_to_stop), [InterruptReaction::Answer; 2]);
        }
    }
}
