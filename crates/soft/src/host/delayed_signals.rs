//! Delayed signals: which ones wait, and when they are sent again.
//!
//! The types are in [`signal_throttling`](super::signal_throttling).

use std::time::{Duration, Instant};

use cyclometer_sys::trace::{self, SignalInfo};

use super::process::TaskMode;
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
        tracees: &mut Tracees,
        tid: u32,
        (signal, arrival): (i32, SignalArrival),
        pc: u64,
    ) -> Result<bool, TraceError> {
        let task = tracees.task(tid)?;
        // A stop before a system call is at the call itself.
        let next = match &task.mode {
            TaskMode::Translated(context) if task.throttle.back.is_some() => {
                context.cache.borrow().translation.point_at(pc)
            }
            _ => None,
        };
        let at = next.and_then(|place| if let NextAddress::Known(at) = place.next { Some(at) } else { None });
        let Some(wait) = task.throttle.interrupted(at, arrival != SignalArrival::New) else {
            return Ok(false);
        };
        let fit = (1..FIRST_OF_QUEUED).contains(&signal) && !WITH_EFFECTS.contains(&signal);
        if !fit
            || matches!(task.state().request(), StopRequest::Detach(_))
            || arrival == (SignalArrival::Again { ours: false })
        {
            return Ok(false);
        }
        let info = trace::signal_info(tid)?;
        let waits = is_asynchronous(tracees, tid, &info) && send_to(tracees, tid, ASKS).is_ok();
        if waits {
            let until = Some(Instant::now() + wait);
            self.0.push(DelayedSignal { tid, info, until, passed: false });
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

/// Whether a signal may arrive at any time: from a timer, or from a thread of a process with several
/// threads. A signal that a thread sends to itself looks the same. It is not delayed, because it arrives
/// behind the system call and not where the thread continued.
/// The exception is a handler that sends a blocked signal, for the third time in a row.
fn is_asynchronous(tracees: &Tracees, tid: u32, info: &SignalInfo) -> bool {
    match info.code() {
        SI_TIMER => true,
        SI_KERNEL => OF_TIMERS.contains(&info.number()),
        SI_TKILL => tracees.has_other_threads(tid),
        _ => false,
    }
}

fn send_to(tracees: &Tracees, tid: u32, signal: i32) -> Result<(), TraceError> {
    let task = tracees.tasks.get(&tid).ok_or(TraceError::Gone)?;
    Ok(trace::send_signal(tracees.processes[task.process].pid, tid, signal)?)
}
