//! Signals that come again before their handler has returned.
//!
//! Who wants another thread to notice something sends it a signal until it has; the schedulers of some languages do so
//! every 100 µs. That suffices natively, where a handler is called and returns in a few. Here it takes us some hundred, so the next
//! signal waits already when the thread is back, and interrupts it again where it was: for ever, if what it executes there must not be interrupted.
//!
//! So a signal that finds a thread where its last handler has returned to, for the second time in a row, is *held back* for a moment,
//! twice as long each time, and sent again. It might have come so late natively.

use std::time::{Duration, Instant};

use cyclometer_sys::trace::{self, SignalInfo};

use super::engine::{Engine, Trouble};

/// How often in a row a signal may find a thread where it was.
const PATIENCE: u32 = 1;

/// For how long a signal is held back at first.
const SHORTEST: Duration = Duration::from_micros(250);

/// How often that is doubled at most.
const DOUBLINGS: u32 = 4;

/// Who has sent a signal: somebody, to one thread; a timer of `timer_create`; the kernel.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/siginfo.h`.
const SI_TKILL: i32 = -6;
const SI_TIMER: i32 = -2;
const SI_KERNEL: i32 = 0x80;

/// `SIGALRM`, `SIGVTALRM`, `SIGPROF`: what the timers of `setitimer` send.
const OF_TIMERS: [i32; 3] = [14, 26, 27];

/// No signal: whether one may be sent.
const ASKS: i32 = 0;

/// Signals below that one are pending once, however often they are sent.
///
/// # Source
///
/// `signal(7)`, "Real-time signals".
const FIRST_OF_QUEUED: i32 = 32;

/// What a task does between two signals.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pace {
    /// Where in translated code it has come back to from a handler, if it has not stopped since.
    back: Option<u64>,
    /// How often in a row a signal found it there.
    stuck: u32,
}

/// A signal that is held back.
pub(super) struct HeldBack {
    tid: u32,
    info: SignalInfo,
    /// When it is sent again; `None`: it was.
    until: Option<Instant>,
}

impl Pace {
    /// It goes on at an address in translated code, back from a handler.
    pub(super) fn come_back(&mut self, at: Option<u64>) {
        self.back = at;
    }

    /// It has stopped for something else than a signal from outside.
    pub(super) fn go_on(&mut self) {
        self.back = None;
    }

    /// For how long a signal is to be held back that finds it at an address.
    fn interrupted(&mut self, at: u64, again: bool) -> Option<Duration> {
        let stuck = self.back.take() == Some(at);
        match () {
            () if stuck => self.stuck += 1,
            // One that was held back has let it go on: that says nothing about the next one.
            () if again => {}
            () => self.stuck = 0,
        }
        let beyond = self.stuck.checked_sub(PATIENCE + 1).filter(|_| stuck)?;
        Some(SHORTEST * (1 << beyond.min(DOUBLINGS)))
    }
}

impl Engine {
    /// A signal has stopped a task: if it is one that was held back, what the program is told of it is what was sent. Whether it
    /// is. Of two of the same number one is left, as natively.
    pub(super) fn take_up_held(&mut self, tid: u32, signal: i32) -> Result<bool, Trouble> {
        let is_it = |held: &HeldBack| held.tid == tid && held.info.number() == signal;
        let Some(place) = self.held_back.iter().position(is_it) else { return Ok(false) };
        let held = self.held_back.swap_remove(place);
        let now = trace::signal_info(tid)?;
        // Who is in another list of processes does not see us.
        let ours = now.sender().is_some_and(|sender| [0, std::process::id()].contains(&sender));
        if now.code() == SI_TKILL && ours {
            trace::set_signal_info(tid, &held.info)?;
        }
        Ok(true)
    }

    /// Holds a signal back that has stopped a task in translated code at an address, if it has to wait. `again`: it has waited.
    pub(super) fn holds_back(
        &mut self,
        tid: u32,
        signal: i32,
        at: u64,
        again: bool,
    ) -> Result<bool, Trouble> {
        let Some(wait) = self.task(tid)?.pace.interrupted(at, again) else { return Ok(false) };
        let info = trace::signal_info(tid)?;
        let waits =
            signal < FIRST_OF_QUEUED && self.comes_at_any_time(tid, &info) && self.send_to(tid, ASKS).is_ok();
        if waits {
            self.held_back.push(HeldBack { tid, info, until: Some(Instant::now() + wait) });
        }
        Ok(waits)
    }

    /// Whether the program cannot know when a signal comes: it is a timer's, or another thread's. A thread that sends one to itself
    /// has it at once.
    fn comes_at_any_time(&self, tid: u32, info: &SignalInfo) -> bool {
        match info.code() {
            SI_TIMER => true,
            SI_KERNEL => OF_TIMERS.contains(&info.number()),
            SI_TKILL => self.has_companions(tid),
            _ => false,
        }
    }

    /// How soon a signal is to be sent again, as seldom as that may be looked at; `None` where none is held back.
    pub(super) fn soonest_held(&self) -> Option<Duration> {
        self.held_back.iter().any(|held| held.until.is_some()).then_some(SHORTEST)
    }

    /// Sends the signals again that have waited long enough.
    pub(super) fn send_held(&mut self) {
        if self.held_back.is_empty() {
            return;
        }
        let now = Instant::now();
        let due = |held: &HeldBack| held.until.is_some_and(|until| until <= now);
        for place in 0..self.held_back.len() {
            if due(&self.held_back[place]) {
                self.held_back[place].until = None;
                let HeldBack { tid, info, .. } = &self.held_back[place];
                let _ = self.send_to(*tid, info.number());
            }
        }
    }

    /// Sends what is held back of a task that goes on without us.
    pub(super) fn send_held_of(&mut self, tid: u32) {
        let all = std::mem::take(&mut self.held_back);
        let (own, others): (Vec<_>, _) = all.into_iter().partition(|held| held.tid == tid);
        self.held_back = others;
        for held in own.iter().filter(|held| held.until.is_some()) {
            let _ = self.send_to(tid, held.info.number());
        }
    }

    /// A task executes another program: what was sent before has come before.
    pub(super) fn forget_held(&mut self, tid: u32) {
        self.held_back.retain(|held| held.tid != tid);
    }

    /// A task has ended: what was sent to its process is another thread's.
    pub(super) fn pass_on_held(&mut self, tid: u32) {
        if self.held_back.iter().any(|held| held.tid == tid) {
            let heir = self.companions(tid).into_iter().next();
            self.held_back.retain(|held| held.tid != tid || heir.is_some() && held.info.code() != SI_TKILL);
            for held in self.held_back.iter_mut().filter(|held| held.tid == tid) {
                (held.tid, held.until) = (heir.unwrap_or(tid), Some(Instant::now()));
            }
        }
    }

    fn send_to(&self, tid: u32, signal: i32) -> Result<(), Trouble> {
        let task = self.tasks.get(&tid).ok_or(Trouble::Gone)?;
        Ok(trace::send_signal(self.processes[task.process].pid, tid, signal)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is held back of signals that find a task at these places, one after the other, each time after it has come back to 7
    /// from a handler.
    fn waits(places: &[(u64, bool)]) -> Vec<u128> {
        let mut pace = Pace::default();
        let mut wait = |(at, again): &(u64, bool)| {
            pace.come_back(Some(7));
            pace.interrupted(*at, *again).map_or(0, |wait| wait.as_micros())
        };
        places.iter().map(&mut wait).collect()
    }

    #[test]
    fn who_does_not_get_on_is_let_go_on_for_longer_each_time() {
        let here = (7, false);
        assert_eq!(waits(&[here; 8]), [0, 250, 500, 1000, 2000, 4000, 4000, 4000]);
    }

    #[test]
    fn who_gets_on_by_itself_is_interrupted_at_once() {
        let (here, there) = ((7, false), (8, false));
        assert_eq!(waits(&[here, there, here, there]), [0, 0, 0, 0]);
        assert_eq!(waits(&[here, here, there, here, here]), [0, 250, 0, 0, 250]);
    }

    #[test]
    fn who_gets_on_as_a_signal_waits_does_not_get_on_by_itself() {
        let (here, held) = ((7, false), (8, true));
        assert_eq!(waits(&[here, here, held, here, held, here]), [0, 250, 0, 500, 0, 1000]);
    }

    #[test]
    fn a_stop_of_another_kind_is_on_the_way() {
        let mut pace = Pace::default();
        for _ in 0..5 {
            pace.come_back(Some(7));
            pace.go_on();
            assert_eq!(pace.interrupted(7, false), None);
        }
    }
}
