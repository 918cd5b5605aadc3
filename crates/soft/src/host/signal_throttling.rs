//! Signal throttling: delays for signals that arrive again before their handler has returned.
//!
//! # Problem
//!
//! A program that must interrupt another thread sends it a signal until the thread reacts. The schedulers of
//! some languages do so every 100 µs. Natively a handler takes a few µs. Under the tracer it takes some
//! hundred. So the next signal is pending when the thread is back, and interrupts it at the same instruction:
//! for ever, if the interrupted code must run to its end first.
//!
//! # Solution
//!
//! A signal is *delayed* if it finds a thread at the instruction where its last handler returned, for the
//! second time in a row. Each delay is twice as long as the one before. The signal is sent again afterwards.
//!
//! ```text
//! handler returns to A ──> signal at A ──> delivered
//! handler returns to A ──> signal at A ──> delayed 250 µs, then 500 µs, ... 4 ms
//! thread progresses    ──> signal      ──> delivered
//! ```
//!
//! # Invariants
//!
//! - A signal comes no later than a system call that ends its source: such a call sends delayed signals
//!   first.
//! - The program sees the original `siginfo`, except for a task that is detached.
//! - Real-time signals, and signals that act when they are sent, are never delayed.

use std::time::{Duration, Instant};

use cyclometer_sys::trace::SignalInfo;

/// The number of times in a row that a signal may find a thread without progress.
const PATIENCE: u32 = 1;

/// The first delay of a signal.
pub(super) const SHORTEST: Duration = Duration::from_micros(250);

/// Most doublings of the delay.
pub(super) const DOUBLINGS: u32 = 4;

/// The progress of a task between two signals.
#[derive(Clone, Copy, Default)]
pub(crate) struct SignalThrottle {
    /// The address where the task continued after a handler, or at the start of one, until it makes progress.
    pub(super) back: Option<u64>,
    /// The number of times in a row that a signal found it there.
    stuck: u32,
}

/// A delayed signal.
pub(super) struct DelayedSignal {
    pub(super) tid: u32,
    pub(super) info: SignalInfo,
    /// When it is sent again; `None`: it was.
    pub(super) until: Option<Instant>,
    /// Another signal of the number has arrived since. Either this one follows right behind it, or the
    /// program has taken it unseen.
    pub(super) passed: bool,
}

impl SignalThrottle {
    /// It continues in translated code, at an address of the program.
    pub(super) fn returned_to(&mut self, at: u64) {
        self.back = Some(at);
    }

    /// It has executed an instruction.
    pub(super) fn progressed(&mut self) {
        self.back = None;
    }

    /// The delay for a signal that arrives at an instruction of the program.
    pub(super) fn interrupted(&mut self, at: Option<u64>, again: bool) -> Option<Duration> {
        let stuck = self.back.take().is_some_and(|back| at == Some(back));
        match () {
            () if stuck => self.stuck += 1,
            // A delayed signal has let it progress: this is no evidence about the next one.
            () if again => {}
            () => self.stuck = 0,
        }
        let beyond = self.stuck.checked_sub(PATIENCE + 1).filter(|_| stuck)?;
        Some(SHORTEST * (1 << beyond.min(DOUBLINGS)))
    }
}

/// The origin of a signal that has stopped a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SignalArrival {
    /// It was sent to the program.
    New,
    /// A delayed signal, or one that arrived before a delayed one was sent again.
    Again {
        /// Whether the tracer sent it.
        ours: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delays of signals that arrive at these addresses, each after the task has continued at 7.
    fn waits(places: &[(u64, bool)]) -> Vec<u128> {
        let mut throttle = SignalThrottle::default();
        let mut wait = |(at, again): &(u64, bool)| {
            throttle.returned_to(7);
            throttle.interrupted(Some(*at), *again).map_or(0, |wait| wait.as_micros())
        };
        places.iter().map(&mut wait).collect()
    }

    #[test]
    fn a_thread_without_progress_gets_a_longer_delay_each_time() {
        let here = (7, false);
        assert_eq!(waits(&[here; 8]), [0, 250, 500, 1000, 2000, 4000, 4000, 4000]);
    }

    #[test]
    fn a_thread_with_progress_is_interrupted_at_once() {
        let (here, there) = ((7, false), (8, false));
        assert_eq!(waits(&[here, there, here, there]), [0, 0, 0, 0]);
        assert_eq!(waits(&[here, here, there, here, here]), [0, 250, 0, 0, 250]);
    }

    #[test]
    fn progress_during_a_delay_is_no_evidence_of_progress() {
        let (here, delayed) = ((7, false), (8, true));
        assert_eq!(waits(&[here, here, delayed, here, delayed, here]), [0, 250, 0, 500, 0, 1000]);
    }

    #[test]
    fn a_stop_of_another_kind_is_progress() {
        let mut throttle = SignalThrottle::default();
        for _ in 0..5 {
            throttle.returned_to(7);
            throttle.progressed();
            assert_eq!(throttle.interrupted(Some(7), false), None);
        }
    }
}
