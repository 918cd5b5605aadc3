//! The state of a task: its activity, the request for its next stop, and its way out.
//!
//! # Problem
//!
//! A task can be asked to stop for a flush and for a detach, wait for a child, be in a group stop, and be
//! about to end, and some of these exclude each other. Each event changes the state in [`TaskState::next`]
//! and nowhere else, so a combination without a meaning cannot be stored.
//!
//! # Terms
//!
//! - *Activity*: the occupation of an active task between two stops ([`TaskActivity`]).
//! - *Request*: a wish of another task, or of the tool, for its next stop ([`StopRequest`]).
//! - *Effect*: the consequence of an event for the tracer ([`TransitionEffect`]).
//!
//! ```text
//!            suspend requested             detach requested
//! Active ─────────────────────> Active ─────────────────────> Active
//!    ^                             │ next stop                   │ next stop
//!    │      flush complete         v                             v
//!    └───────────────────────── Suspended ── detach ────> DetachReady ──> runs natively, untraced
//!
//! any of them ── exit stop ──> Ended
//! ```
//!
//! # Invariants
//!
//! - A detach request replaces a suspend request, and no event withdraws it: the flush would never come.
//! - Only an active task is about to end, waits for a child, or has a request.
//! - A task that was about to end its process, and does not, lets the postponed stops of the others go on.

/// The state of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TaskState {
    /// It runs, or its stop is being handled.
    Active {
        /// Its activity since its last stop.
        activity: TaskActivity,
        /// The request for its next stop.
        request: StopRequest,
    },
    /// It is stopped in native state until a flush is complete.
    Suspended {
        /// Whether it was in a group stop, which was handled.
        group_stop: bool,
    },
    /// It has left its translation, and is detached when all threads of its process can be.
    DetachReady {
        /// The signal that it gets then, or 0 for none.
        signal: i32,
    },
    /// It has ended. The first thread of a process stays a task as long as any other.
    Ended,
}

/// The activity of an active task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskActivity {
    /// None of the others.
    Running,
    /// It is in a group stop, which was handled.
    GroupStop,
    /// It waits for a child in its system call, and cannot be stopped.
    VforkWait(VforkWait),
    /// It is about to end itself.
    EndsThread {
        /// The address behind its `exit` call, in translated code.
        exit_pc: u64,
    },
    /// It is about to end its process.
    EndsProcess {
        /// The address behind its `exit_group` call, in translated code; `None`: a signal kills it.
        exit_pc: Option<u64>,
    },
}

/// A wait for a child that uses the same memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct VforkWait {
    /// The child.
    pub(super) by: u32,
    /// The position of the task in translated code.
    pub(super) pc: u64,
}

/// The request for the next stop of an active task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StopRequest {
    /// It goes on.
    None,
    /// It is suspended, because another thread changes the code.
    Suspend,
    /// It is detached; the reason, if counts are lost.
    Detach(Option<String>),
}

/// An event in the life of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum TaskEvent {
    /// It has stopped, and its exit is not the reason.
    Stopped {
        /// Whether it is in a group stop.
        group_stop: bool,
    },
    /// The group stop in which it is, or which it is about to enter, was handled.
    GroupStopHandled,
    /// It has made a child, and waits for it.
    WaitsForChild(VforkWait),
    /// The child for which it waits uses another memory now, or has ended.
    ChildReleased,
    /// It is about to call `exit`.
    EndsThread {
        /// The address behind the call, in translated code.
        exit_pc: u64,
    },
    /// It is about to end its process.
    EndsProcess {
        /// The address behind its call, in translated code; `None`: a signal kills it.
        exit_pc: Option<u64>,
    },
    /// Another thread changes the code.
    SuspendRequested,
    /// It is in native state, and waits for a flush.
    Suspended,
    /// The flush for which it was suspended is complete, or it makes the call that changes the code.
    FlushComplete,
    /// Its process is to run natively; the reason, if counts are lost.
    DetachRequested(Option<String>),
    /// It has left its translation, and gets this signal when it is detached.
    DetachReady(i32),
    /// It executes a new program: no other thread of its process is left.
    Executed,
    /// It is at its exit stop.
    Ended,
}

/// The consequence of an event for the tracer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(super) enum TransitionEffect {
    /// Nothing.
    Nothing,
    /// The task is interrupted, so that it stops soon.
    Interrupt,
    /// The task is detached at once: it is stopped, and no event of it will come.
    DetachNow,
    /// The stops of other threads that were postponed are handled: the process does not end.
    HandlePostponed,
}

impl Default for TaskState {
    fn default() -> TaskState {
        TaskState::Active { activity: TaskActivity::Running, request: StopRequest::None }
    }
}

impl TaskState {
    /// The state after an event.
    pub(super) fn next(self, event: TaskEvent) -> (TaskState, TransitionEffect) {
        match (self, event) {
            (TaskState::Ended, _) | (_, TaskEvent::Ended) => (TaskState::Ended, TransitionEffect::Nothing),
            (state, TaskEvent::DetachReady(signal)) => {
                (TaskState::DetachReady { signal }, state.effect_of_survival())
            }
            (TaskState::Active { activity, request }, event) => active(activity, request, event),
            (TaskState::Suspended { group_stop }, TaskEvent::FlushComplete) => {
                let activity = if group_stop { TaskActivity::GroupStop } else { TaskActivity::Running };
                let state = TaskState::Active { activity, request: StopRequest::None };
                (state, TransitionEffect::Nothing)
            }
            (TaskState::Suspended { .. }, TaskEvent::Executed) => {
                (TaskState::default(), TransitionEffect::Nothing)
            }
            (state @ TaskState::Suspended { .. }, TaskEvent::DetachRequested(_)) => {
                (state, TransitionEffect::DetachNow)
            }
            // The rest happens to active tasks only, or has no effect on stopped ones.
            (state @ (TaskState::Suspended { .. } | TaskState::DetachReady { .. }), _) => {
                (state, TransitionEffect::Nothing)
            }
        }
    }

    /// The effect of a change after which a task is not about to end its process.
    fn effect_of_survival(&self) -> TransitionEffect {
        if self.ends_process() { TransitionEffect::HandlePostponed } else { TransitionEffect::Nothing }
    }

    pub(super) fn is_ended(&self) -> bool {
        *self == TaskState::Ended
    }

    pub(super) fn is_suspended(&self) -> bool {
        matches!(self, TaskState::Suspended { .. })
    }

    pub(super) fn is_detach_ready(&self) -> bool {
        self.detach_signal().is_some()
    }

    /// The signal with which it is detached, or 0 for none; `None` where it is not ready for that.
    pub(super) fn detach_signal(&self) -> Option<i32> {
        if let TaskState::DetachReady { signal } = self { Some(*signal) } else { None }
    }

    /// The request for its next stop.
    pub(super) fn request(&self) -> &StopRequest {
        if let TaskState::Active { request, .. } = self { request } else { &StopRequest::None }
    }

    /// Whether it runs and could be moved to another translation: no request, and no wait for a child.
    pub(super) fn is_free(&self) -> bool {
        matches!(self, TaskState::Active { request: StopRequest::None, .. }) && self.vfork_wait().is_none()
    }

    /// Whether it is in a group stop, which was handled.
    pub(super) fn is_in_group_stop(&self) -> bool {
        self.activity() == Some(TaskActivity::GroupStop)
            || matches!(self, TaskState::Suspended { group_stop: true })
    }

    /// The child that it waits for, as both use one memory.
    pub(super) fn vfork_wait(&self) -> Option<VforkWait> {
        if let Some(TaskActivity::VforkWait(wait)) = self.activity() { Some(wait) } else { None }
    }

    /// The address behind the `exit` call that it is about to make, in translated code.
    pub(super) fn exit_pc(&self) -> Option<u64> {
        match self.activity()? {
            TaskActivity::EndsThread { exit_pc } => Some(exit_pc),
            TaskActivity::EndsProcess { exit_pc } => exit_pc,
            _ => None,
        }
    }

    /// Whether it is about to end its process.
    pub(super) fn ends_process(&self) -> bool {
        matches!(self.activity(), Some(TaskActivity::EndsProcess { .. }))
    }

    fn activity(&self) -> Option<TaskActivity> {
        if let TaskState::Active { activity, .. } = self { Some(*activity) } else { None }
    }
}

/// The state of an active task after an event.
fn active(activity: TaskActivity, request: StopRequest, event: TaskEvent) -> (TaskState, TransitionEffect) {
    let is_waiting = matches!(activity, TaskActivity::VforkWait(_));
    let before = TaskState::Active { activity, request: StopRequest::None };
    let (activity, effect) = match event {
        // A task that waits for its child is not back from its call.
        TaskEvent::Stopped { .. } | TaskEvent::GroupStopHandled if is_waiting => {
            (activity, TransitionEffect::Nothing)
        }
        TaskEvent::Stopped { group_stop: true } if activity == TaskActivity::GroupStop => {
            (activity, TransitionEffect::Nothing)
        }
        TaskEvent::Stopped { .. } => (TaskActivity::Running, before.effect_of_survival()),
        TaskEvent::GroupStopHandled => (TaskActivity::GroupStop, TransitionEffect::Nothing),
        TaskEvent::WaitsForChild(wait) => (TaskActivity::VforkWait(wait), TransitionEffect::Nothing),
        TaskEvent::ChildReleased if is_waiting => (TaskActivity::Running, TransitionEffect::Nothing),
        TaskEvent::EndsThread { exit_pc } => {
            (TaskActivity::EndsThread { exit_pc }, TransitionEffect::Nothing)
        }
        TaskEvent::EndsProcess { exit_pc } => {
            (TaskActivity::EndsProcess { exit_pc }, TransitionEffect::Nothing)
        }
        TaskEvent::Suspended if matches!(request, StopRequest::Detach(_)) => {
            (activity, TransitionEffect::DetachNow)
        }
        TaskEvent::Suspended => {
            let group_stop = activity == TaskActivity::GroupStop;
            return (TaskState::Suspended { group_stop }, before.effect_of_survival());
        }
        TaskEvent::SuspendRequested | TaskEvent::DetachRequested(_) => {
            (activity, TransitionEffect::Interrupt)
        }
        TaskEvent::ChildReleased
        | TaskEvent::FlushComplete
        | TaskEvent::Executed
        | TaskEvent::DetachReady(_)
        | TaskEvent::Ended => (activity, TransitionEffect::Nothing),
    };
    (TaskState::Active { activity, request: request.after(event) }, effect)
}

impl StopRequest {
    /// The request after an event that leaves the task active. The first reason for a detach stays.
    fn after(self, event: TaskEvent) -> StopRequest {
        match (self, event) {
            (StopRequest::Detach(reason), _) => StopRequest::Detach(reason),
            (_, TaskEvent::DetachRequested(reason)) => StopRequest::Detach(reason),
            (_, TaskEvent::SuspendRequested) => StopRequest::Suspend,
            (_, TaskEvent::Executed) => StopRequest::None,
            (request, _) => request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: VforkWait = VforkWait { by: 8, pc: 0x1000 };

    fn detach(reason: &str) -> TaskEvent {
        TaskEvent::DetachRequested(Some(reason.to_owned()))
    }

    const STOPPED: TaskEvent = TaskEvent::Stopped { group_stop: false };
    const GROUP_STOPPED: TaskEvent = TaskEvent::Stopped { group_stop: true };

    /// The state after events, and the effect of the last one.
    fn after<const N: usize>(events: [TaskEvent; N]) -> (TaskState, TransitionEffect) {
        let start = (TaskState::default(), TransitionEffect::Nothing);
        events.into_iter().fold(start, |(state, _), event| state.next(event))
    }

    /// One of each event.
    fn all_events() -> Vec<TaskEvent> {
        vec![
            STOPPED,
            GROUP_STOPPED,
            TaskEvent::GroupStopHandled,
            TaskEvent::WaitsForChild(WAIT),
            TaskEvent::ChildReleased,
            TaskEvent::EndsThread { exit_pc: 1 },
            TaskEvent::EndsProcess { exit_pc: Some(2) },
            TaskEvent::EndsProcess { exit_pc: None },
            TaskEvent::SuspendRequested,
            TaskEvent::Suspended,
            TaskEvent::FlushComplete,
            TaskEvent::DetachRequested(None),
            detach("reason"),
            TaskEvent::DetachReady(0),
            TaskEvent::DetachReady(9),
            TaskEvent::Executed,
            TaskEvent::Ended,
        ]
    }

    /// Every state that a series of events can lead to.
    fn all_states() -> Vec<TaskState> {
        let mut states = vec![TaskState::default()];
        let mut done = 0;
        while done < states.len() {
            let state = states[done].clone();
            for (next, _) in all_events().into_iter().map(|event| state.clone().next(event)) {
                if !states.contains(&next) {
                    states.push(next);
                }
            }
            done += 1;
        }
        states
    }

    #[test]
    fn an_ended_task_stays_ended() {
        for (event, state) in all_events().into_iter().zip(std::iter::repeat(TaskState::Ended)) {
            assert_eq!(state.next(event.clone()), (TaskState::Ended, TransitionEffect::Nothing), "{event:?}");
        }
        for state in all_states() {
            assert_eq!(state.next(TaskEvent::Ended).0, TaskState::Ended);
        }
    }

    #[test]
    fn a_requested_detach_ends_in_a_detach_or_in_the_end() {
        let reason = StopRequest::Detach(Some("reason".to_owned()));
        for state in all_states().into_iter().filter(|state| *state.request() == reason) {
            for event in all_events() {
                let (next, _) = state.clone().next(event.clone());
                let kept = *next.request() == reason || next.is_detach_ready() || next.is_ended();
                assert!(kept, "{state:?} and {event:?} lead to {next:?}");
            }
        }
    }

    #[test]
    fn the_first_reason_for_a_detach_stays() {
        let (state, effect) = after([TaskEvent::DetachRequested(None), detach("later")]);
        assert_eq!((state.request(), effect), (&StopRequest::Detach(None), TransitionEffect::Interrupt));
        let (state, _) = after([TaskEvent::SuspendRequested, detach("first"), TaskEvent::SuspendRequested]);
        assert_eq!(*state.request(), StopRequest::Detach(Some("first".to_owned())));
    }

    #[test]
    fn a_task_that_is_to_be_detached_is_not_suspended() {
        let (state, effect) = after([TaskEvent::DetachRequested(None), TaskEvent::Suspended]);
        assert_eq!((state.is_suspended(), effect), (false, TransitionEffect::DetachNow));
        let (state, effect) = after([TaskEvent::Suspended, TaskEvent::DetachRequested(None)]);
        assert_eq!((state.is_suspended(), effect), (true, TransitionEffect::DetachNow));
        assert!(state.next(TaskEvent::DetachReady(0)).0.is_detach_ready());
    }

    #[test]
    fn a_thread_is_running_then_asked_then_suspended_then_running() {
        let (state, effect) = after([TaskEvent::SuspendRequested]);
        assert_eq!((state.request(), effect), (&StopRequest::Suspend, TransitionEffect::Interrupt));
        let (state, _) = after([TaskEvent::SuspendRequested, STOPPED, TaskEvent::Suspended]);
        assert!(state.is_suspended() && *state.request() == StopRequest::None && !state.is_free());
        let (state, _) = after([TaskEvent::SuspendRequested, TaskEvent::Suspended, TaskEvent::FlushComplete]);
        assert_eq!(state, TaskState::default());
    }

    #[test]
    fn a_group_stop_is_handled_once_also_around_a_flush() {
        let handled = [GROUP_STOPPED, TaskEvent::GroupStopHandled];
        let [stopped, group_stop] = handled.clone();
        assert!(!after([stopped.clone()]).0.is_in_group_stop());
        assert!(after(handled).0.is_in_group_stop());
        assert!(after([stopped.clone(), group_stop.clone(), GROUP_STOPPED]).0.is_in_group_stop());
        assert!(!after([stopped.clone(), group_stop.clone(), STOPPED]).0.is_in_group_stop());
        let (suspended, _) = after([stopped, group_stop, TaskEvent::Suspended]);
        assert!(suspended.is_in_group_stop());
        assert!(suspended.next(TaskEvent::FlushComplete).0.next(GROUP_STOPPED).0.is_in_group_stop());
    }

    #[test]
    fn a_task_that_does_not_end_its_process_lets_the_other_threads_go_on() {
        for exit_pc in [Some(7), None] {
            let (ending, effect) = after([TaskEvent::EndsProcess { exit_pc }]);
            assert_eq!(
                (ending.ends_process(), ending.exit_pc(), effect),
                (true, exit_pc, TransitionEffect::Nothing)
            );
            for event in [STOPPED, GROUP_STOPPED, TaskEvent::DetachReady(0), TaskEvent::Suspended] {
                let (state, effect) = ending.clone().next(event.clone());
                assert_eq!(effect, TransitionEffect::HandlePostponed, "{event:?}");
                assert!(!state.ends_process() && state.exit_pc().is_none());
            }
            assert_eq!(ending.next(TaskEvent::Ended).1, TransitionEffect::Nothing, "all threads end");
        }
        let (state, effect) = after([TaskEvent::EndsThread { exit_pc: 7 }, STOPPED]);
        assert_eq!((state.exit_pc(), effect), (None, TransitionEffect::Nothing));
    }

    #[test]
    fn a_wait_for_a_child_ends_with_the_child_alone() {
        let (state, _) = after([TaskEvent::WaitsForChild(WAIT), STOPPED, TaskEvent::SuspendRequested]);
        assert_eq!((state.vfork_wait(), state.is_free()), (Some(WAIT), false));
        let (state, _) = state.next(TaskEvent::ChildReleased);
        assert_eq!((state.vfork_wait(), state.request()), (None, &StopRequest::Suspend));
        assert_eq!(after([TaskEvent::ChildReleased]).0, TaskState::default());
    }

    #[test]
    fn a_new_program_needs_no_flush_and_is_still_to_be_detached() {
        for events in [[TaskEvent::SuspendRequested], [TaskEvent::Suspended]] {
            let (state, _) = after(events);
            assert_eq!(state.next(TaskEvent::Executed).0, TaskState::default());
        }
        let (state, _) = after([detach("reason"), TaskEvent::Executed]);
        assert_eq!(*state.request(), StopRequest::Detach(Some("reason".to_owned())));
    }

    #[test]
    fn a_task_that_is_ready_is_detached_with_the_latest_signal() {
        assert_eq!(after([TaskEvent::DetachReady(5), TaskEvent::DetachReady(0)]).0.detach_signal(), Some(0));
        let (ready, _) = after([TaskEvent::DetachReady(5)]);
        let leaves = |event: &TaskEvent| matches!(event, TaskEvent::DetachReady(_) | TaskEvent::Ended);
        for event in all_events().into_iter().filter(|event| !leaves(event)) {
            assert_eq!(ready.clone().next(event), (ready.clone(), TransitionEffect::Nothing));
        }
    }
}
