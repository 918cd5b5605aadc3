//! Delayed signals: which ones wait, and when they are sent again.
//!
//! The types are in [`signal_throttling`](super::signal_throttling).

use std::time::{Duration, Instant};

use cyclometer_sys::trace;

use super::process::{TaskMode, TracedTask};
use super::signal_throttling::{DOUBLINGS, DelayedSignal, SHORTEST, SignalArrival};
use super::task_state::StopRequest;
use super::trace_error::TraceError;
use super::tracees::Tracees;
use crate::translate::NextAddress;

/// Values of `si_code`: a signal to one thread, a timer of `timer_create`, the kernel.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/siginfo.h`.
const SI_TKILL: i32 = -6;
const SI_TIMER: i32 = -2;
const SI_KERNEL: i32 = 0x80;

/// `SIGALRM`, `SIGVTALRM`, `SIGPROF`: the signals of `setitimer`.
const OF_TIMERS: [i32; 3] = [14, 26, 27];

/// No signal: whether one may be sent.
const ASKS: i32 = 0;

/// `SIGTRAP`, which the translator uses as well, `SIGCONT` and the stop signals, which take effect when they
/// are sent.
const WITH_EFFECTS: [i32; 6] = [5, 18, 19, 20, 21, 22];

/// A signal below this number is pending once, however often it is sent. Signals of POSIX timers are the
/// exception.
///
/// # Source
///
/// `signal(7)`, "Real-time signals".
const FIRST_OF_QUEUED: i32 = 32;

/// A stop of a task by a signal of the program.
pub(super) struct SignalStop {
    /// The process of the task.
    pub(super) pid: u32,
    /// The task.
    pub(super) tid: u32,
    /// The signal.
    pub(super) signal: i32,
    /// The origin of the signal.
    pub(super) arrival: SignalArrival,
    /// Whether the process has other threads, which may have sent it.
    pub(super) has_other_threads: bool,
}

impl SignalStop {
    /// Whether the signal can wait while the task has this request.
    fn may_wait(&self, request: &StopRequest) -> bool {
        let fit = (1..FIRST_OF_QUEUED).contains(&self.signal) && !WITH_EFFECTS.contains(&self.signal);
        fit && !matches!(request, StopRequest::Detach(_))
            && self.arrival != (SignalArrival::Again { ours: false })
    }

    /// Whether a signal of this `si_code` may arrive at any time: from a timer, or from a thread of a process
    /// with several threads. A signal that a thread sends to itself looks the same. It is not delayed,
    /// because it arrives behind the system call and not where the thread continued. The exception is a
    /// handler that sends a blocked signal, for the third time in a row.
    fn is_asynchronous(&self, code: i32, number: i32) -> bool {
        match code {
            SI_TIMER => true,
            SI_KERNEL => OF_TIMERS.contains(&number),
            SI_TKILL => self.has_other_threads,
            _ => false,
        }
    }
}

/// The delayed signals of all tasks.
#[derive(Default)]
pub(super) struct DelayedSignals(Vec<DelayedSignal>);

impl DelayedSignals {
    /// The origin of a signal that has stopped a task. For a delayed signal the original `siginfo` is
    /// restored.
    pub(super) fn take(&mut self, tid: u32, signal: i32) -> Result<SignalArrival, TraceError> {
        let is_it = |delayed: &DelayedSignal| delayed.tid == tid && delayed.info.number() == signal;
        let Some(place) = self.0.iter().position(is_it) else { return Ok(SignalArrival::New) };
        let now = trace::signal_info(tid)?;
        // A process in another PID namespace sees no sender.
        let ours = now.code() == SI_TKILL
            && now.sender().is_some_and(|sender| [0, std::process::id()].contains(&sender));
        let DelayedSignal { info, until, passed, .. } = &self.0[place];
        match until {
            // Two equal pending signals count as one.
            Some(_) if now.is_like(info) => {
                self.0.swap_remove(place);
                Ok(SignalArrival::Again { ours: false })
            }
            Some(_) => Ok(SignalArrival::New),
            None if ours => {
                trace::set_signal_info(tid, info)?;
                self.0.swap_remove(place);
                Ok(SignalArrival::Again { ours })
            }
            None if *passed => {
                self.0.swap_remove(place);
                Ok(SignalArrival::New)
            }
            None => {
                self.0[place].passed = true;
                Ok(SignalArrival::Again { ours })
            }
        }
    }

    /// Holds a signal back that has stopped a task at an instruction of translated code, if it has to wait.
    pub(super) fn delays(
        &mut self,
        task: &mut TracedTask,
        stop: &SignalStop,
        pc: u64,
    ) -> Result<bool, TraceError> {
        // A stop before a system call is at the call itself.
        let next = match &task.mode {
            TaskMode::Translated(context) if task.throttle.back.is_some() => {
                context.cache.borrow().translation.point_at(pc)
            }
            _ => None,
        };
        let at = next.and_then(|place| if let NextAddress::Known(at) = place.next { Some(at) } else { None });
        let wait = task.throttle.interrupted(at, stop.arrival != SignalArrival::New);
        let Some(wait) = wait.filter(|_| stop.may_wait(task.state().request())) else { return Ok(false) };
        let info = trace::signal_info(stop.tid)?;
        let is_asynchronous = stop.is_asynchronous(info.code(), info.number());
        let waits = is_asynchronous && trace::send_signal(stop.pid, stop.tid, ASKS).is_ok();
        if waits {
            let until = Some(Instant::now() + wait);
            self.0.push(DelayedSignal { tid: stop.tid, info, until, passed: false });
        }
        Ok(waits)
    }

    /// The time to the next delayed signal, rounded down to a doubling of [`SHORTEST`]; `None` without
    /// delayed signals.
    pub(super) fn soonest(&self) -> Option<Duration> {
        let soonest = self.0.iter().filter_map(|delayed| delayed.until).min()?;
        let left = soonest.saturating_duration_since(Instant::now());
        let steps = (0..=DOUBLINGS).rev().map(|doublings| SHORTEST * (1 << doublings));
        Some(steps.into_iter().find(|step| *step <= left).unwrap_or(SHORTEST))
    }

    /// Sends the signals again that have waited long enough.
    pub(super) fn send_due(&mut self, tracees: &Tracees) {
        if !self.0.is_empty() {
            let now = Instant::now();
            self.send_matching(tracees, |delayed| delayed.until.is_some_and(|until| until <= now));
        }
    }

    /// Sends delayed signals before a system call behind which the process expects no signal of that source.
    pub(super) fn send_before_call(&mut self, tracees: &Tracees, tid: u32) {
        if !self.0.is_empty() {
            let all: Vec<u32> = tracees.other_threads(tid).into_iter().chain([tid]).collect();
            self.send_matching(tracees, |delayed| all.contains(&delayed.tid));
        }
    }

    /// Sends the delayed signals of a task that is detached. The sender in their `siginfo` is the tracer.
    pub(super) fn send_to_detached(&mut self, tracees: &Tracees, tid: u32) {
        self.send_matching(tracees, |delayed| delayed.tid == tid);
        self.0.retain(|delayed| delayed.tid != tid);
    }

    fn send_matching(&mut self, tracees: &Tracees, which: impl Fn(&DelayedSignal) -> bool) {
        for place in 0..self.0.len() {
            let delayed = &self.0[place];
            if delayed.until.is_some() && which(delayed) {
                let _ = send_to(tracees, delayed.tid, delayed.info.number());
                self.0[place].until = None;
            }
        }
    }

    /// A thread executes another program, and gets another id. Signals that are still delayed would have come
    /// before; those that were sent are recognised when they arrive.
    pub(super) fn rename_task(&mut self, former: u32, tid: u32) {
        self.0.retain(|delayed| {
            (delayed.tid != tid || former == tid) && (delayed.tid != former || delayed.until.is_none())
        });
        self.0.iter_mut().filter(|delayed| delayed.tid == former).for_each(|delayed| delayed.tid = tid);
    }

    /// A task has ended, or is about to. A timer's signal to its process goes to another thread.
    pub(super) fn pass_on(&mut self, tracees: &Tracees, tid: u32) {
        if self.0.iter().any(|delayed| delayed.tid == tid) {
            let stays =
                |other: &u32| tracees.tasks.get(other).is_some_and(|task| !task.state().is_detach_ready());
            let heir = tracees.other_threads(tid).into_iter().find(stays);
            self.0.retain(|delayed| delayed.tid != tid || heir.is_some() && delayed.info.code() == SI_KERNEL);
            for delayed in self.0.iter_mut().filter(|delayed| delayed.tid == tid) {
                (delayed.tid, delayed.until) = (heir.unwrap_or(tid), Some(Instant::now()));
            }
        }
    }
}

impl Tracees {
    /// A stop of a task by a signal of the program.
    pub(super) fn signal_stop(
        &self,
        tid: u32,
        signal: i32,
        arrival: SignalArrival,
    ) -> Result<SignalStop, TraceError> {
        let task = self.tasks.get(&tid).ok_or(TraceError::Gone)?;
        let pid = self.processes[task.process].pid;
        Ok(SignalStop { pid, tid, signal, arrival, has_other_threads: self.has_other_threads(tid) })
    }
}

fn send_to(tracees: &Tracees, tid: u32, signal: i32) -> Result<(), TraceError> {
    let task = tracees.tasks.get(&tid).ok_or(TraceError::Gone)?;
    Ok(trace::send_signal(tracees.processes[task.process].pid, tid, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGUSR1: i32 = 10;
    const SIGALRM: i32 = 14;
    const SIGCHLD: i32 = 17;
    const SIGSTOP: i32 = 19;

    fn stop(signal: i32, arrival: SignalArrival, has_other_threads: bool) -> SignalStop {
        SignalStop { pid: 7, tid: 7, signal, arrival, has_other_threads }
    }

    #[test]
    fn signals_wait_that_are_pending_once_and_have_no_effect_when_sent() {
        let waits = |signal| stop(signal, SignalArrival::New, false).may_wait(&StopRequest::None);
        for signal in [SIGUSR1, SIGALRM, SIGCHLD, FIRST_OF_QUEUED - 1] {
            assert!(waits(signal), "{signal}");
        }
        for signal in [0, SIGSTOP, FIRST_OF_QUEUED, 64].into_iter().chain(WITH_EFFECTS) {
            assert!(!waits(signal), "{signal}");
        }
    }

    #[test]
    fn a_task_that_is_detached_gets_its_signals_at_once() {
        let new = stop(SIGUSR1, SignalArrival::New, false);
        assert!(new.may_wait(&StopRequest::Suspend));
        assert!(!new.may_wait(&StopRequest::Detach(None)));
    }

    #[test]
    fn a_signal_that_has_waited_does_not_wait_for_its_own_sender_again() {
        let waits = |ours| stop(SIGUSR1, SignalArrival::Again { ours }, false).may_wait(&StopRequest::None);
        assert!(waits(true));
        assert!(!waits(false), "the program has sent a signal like the delayed one");
    }

    #[test]
    fn timers_and_other_threads_send_at_any_time() {
        let of =
            |code, number, others| stop(number, SignalArrival::New, others).is_asynchronous(code, number);
        assert!(of(SI_TIMER, SIGUSR1, false));
        assert!(of(SI_KERNEL, SIGALRM, false) && !of(SI_KERNEL, SIGCHLD, false));
        assert!(
            of(SI_TKILL, SIGUSR1, true) && !of(SI_TKILL, SIGUSR1, false),
            "it may be of the thread itself"
        );
        assert!(!of(0, SIGUSR1, true), "kill(2)");
    }
}
