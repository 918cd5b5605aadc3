//! Profile-guided retranslation: another translation for a program that runs for long.
//!
//! # Problem
//!
//! The first run of a program is translated without a profile: blocks in the order in which they are reached,
//! counters by guess. The second run is faster, because it has a profile. A long first run should not have to
//! wait for that.
//!
//! ```text
//! the CPU time is worth a retranslation ──> the program stops before its next system call
//! it makes none                         ──> it is interrupted
//! it has stopped                        ──> native state; its counts become a profile
//! a new translation with that profile   ──> the program continues there
//! ```
//!
//! # Terms
//!
//! - *Age*: CPU time in the current translation, with the number of its blocks ([`TranslationAge`]).
//! - *Round*: one retranslation, or one decision against it. Each takes four times the age of the one before.
//!
//! # Invariants
//!
//! - Counts do not change: each execution is in one translation or the other.
//! - A process with several threads, or that shares its translation, is not retranslated.

use std::time::{Duration, Instant};

use cyclometer_sys::trace;

use super::code_cache::CodeCacheMapping;
use super::process::TaskMode;
use super::readings::{kernel_ticks, ran_ns};
use super::remote_syscalls::number;
use super::signals::{has_signal, status};
use super::tracer::{TraceError, Tracer};

/// Interval at which the age of a program is checked, and the interval when it is far from old enough.
const CHECK_EVERY: Duration = Duration::from_millis(20);
const CHECK_SELDOM: Duration = Duration::from_millis(160);

/// The interval of checks when every program is to be retranslated again and again, and the CPU time in each
/// translation.
const CHECK_OFTEN: Duration = Duration::from_millis(1);
const RUN_SHORTLY: Duration = Duration::from_millis(3);

/// Most doublings of the interval for a program that does not run.
const MOST_IDLE: u32 = 7;

/// The least that a program runs before it gets another translation, in CPU time.
const LEAST: Duration = Duration::from_millis(100);

/// The CPU time before it for each block: some five times the cost of translating one.
const FOR_A_BLOCK: Duration = Duration::from_micros(8);

/// The translation must have been calm for this CPU time: at most one of so many blocks is new. Else most of
/// the program's code may be still to come.
const CALM: Duration = Duration::from_millis(50);
const NEW_OF: u32 = 100;

/// The translation is kept if fewer than one of so many blocks are missing from the profile.
const UNKNOWN_OF: usize = 2;

/// Most rounds; each takes four times the age of the one before.
const MOST_ROUNDS: u32 = 4;

/// The length of a tick, in which the kernel reports the time of a process in the kernel.
///
/// # Source
///
/// `proc(5)`, `sysconf(_SC_CLK_TCK)`: 100 a second on x86-64.
const TICK: Duration = Duration::from_millis(10);

/// `SIGILL`, `SIGTRAP`, `SIGBUS`, `SIGFPE`, `SIGSEGV`.
const OF_FAULTS: [i32; 5] = [4, 5, 7, 8, 11];

/// The programs that are retranslated with their own execution profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RetranslationPolicy {
    /// Programs for which it costs little compared to the time that they have run.
    #[default]
    WhenWorthwhile,
    /// No program.
    Never,
    /// All, again and again: for tests.
    Always,
}

/// The age of a program in its translation.
#[derive(Clone, Copy, Default)]
pub(crate) struct TranslationAge {
    /// CPU time of the task when the translation began; `None` until the first check.
    since_ns: Option<u64>,
    /// CPU time and number of blocks when the growth was last checked.
    seen: (u64, u32),
    /// CPU time at the last check, and the number of checks in a row without any progress.
    idle: (u64, u32),
    /// The number of rounds so far.
    rounds: u32,
    /// The time of the next check; `None`: at once.
    next: Option<Instant>,
    /// It stops before its next system call, for another translation.
    request: Option<RetranslationRequest>,
    /// It was interrupted for a retranslation.
    interrupted: bool,
}

/// The times of a program when it was asked to stop before its next system call: in all in ns, and in the
/// kernel in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RetranslationRequest {
    ran_ns: u64,
    kernel_ticks: u64,
}

impl TranslationAge {
    /// It continues in a new translation.
    pub(super) fn restart(&mut self) {
        *self = TranslationAge { rounds: self.rounds + 1, ..TranslationAge::default() };
    }

    /// The age starts again, because a new translation would be no better.
    fn postpone(&mut self, ran_ns: u64) {
        self.rounds += 1;
        self.since_ns = Some(ran_ns);
    }

    /// Checks the age of a program with this CPU time. Returns the time to the next check, zero if it is old
    /// enough.
    fn check(&mut self, ran_ns: u64, blocks: u32) -> Duration {
        let ran = Duration::from_nanos(ran_ns - (*self.since_ns.get_or_insert(ran_ns)).min(ran_ns));
        let (before, checks) = self.idle;
        self.idle = (ran_ns, if before == ran_ns { (checks + 1).min(MOST_IDLE) } else { 0 });
        let wait = LEAST.max(FOR_A_BLOCK * blocks) * 4u32.pow(self.rounds.min(MOST_ROUNDS));
        match wait.saturating_sub(ran) {
            Duration::ZERO if self.is_calm(ran_ns, blocks) => Duration::ZERO,
            Duration::ZERO => CALM.max(CHECK_EVERY * (1 << self.idle.1)),
            left => left.max(CHECK_EVERY * (1 << self.idle.1)),
        }
    }

    /// Whether hardly any block is new since some time ago.
    fn is_calm(&mut self, ran_ns: u64, blocks: u32) -> bool {
        let (then, known) = self.seen;
        if u128::from(ran_ns.saturating_sub(then)) < CALM.as_nanos() {
            return false;
        }
        self.seen = (ran_ns, blocks);
        blocks.saturating_sub(known) * NEW_OF <= blocks
    }
}

impl Tracer {
    /// The interval of checks; `None` where no program can be retranslated.
    pub(super) fn next_check_in(&self) -> Option<Duration> {
        let every = self.check_interval()?;
        let waiting = self
            .tasks
            .values()
            .filter(|task| matches!(task.mode, TaskMode::Translated(_)) && self.has_rounds(task.age));
        let soonest = waiting.map(|task| task.age.next).min()?;
        let left = soonest.map_or(Duration::ZERO, |next| next.saturating_duration_since(self.last_age_check));
        Some(if left < CHECK_SELDOM { every } else { CHECK_SELDOM })
    }

    fn check_interval(&self) -> Option<Duration> {
        match self.settings.retranslation {
            RetranslationPolicy::WhenWorthwhile => Some(CHECK_EVERY),
            RetranslationPolicy::Always => Some(CHECK_OFTEN),
            RetranslationPolicy::Never => None,
        }
    }

    fn has_rounds(&self, age: TranslationAge) -> bool {
        age.rounds < MOST_ROUNDS || self.settings.retranslation == RetranslationPolicy::Always
    }

    /// Looks at the programs that may be old enough for another translation.
    pub(super) fn check_ages(&mut self) {
        let Some(every) = self.check_interval() else { return };
        if self.last_age_check.elapsed() < every {
            return;
        }
        let now = Instant::now();
        self.last_age_check = now;
        let due = self.tasks.iter().filter(|(_, task)| task.age.next.is_none_or(|next| next <= now));
        let due: Vec<u32> = due.map(|(tid, _)| *tid).collect();
        for tid in due {
            let next = now + self.check_age(tid, every);
            self.tasks.entry(tid).and_modify(|task| task.age.next = Some(next));
        }
    }

    /// Checks a program; returns the time to the next check.
    fn check_age(&mut self, tid: u32, every: Duration) -> Duration {
        if !self.can_retranslate(tid) {
            self.cancel_retranslation(tid);
            return CHECK_SELDOM;
        }
        let asked = self.tasks.get(&tid).and_then(|task| task.age.request);
        match asked {
            Some(asked) => self.interrupt_for_retranslation(tid, asked),
            None => match self.time_left(tid) {
                Some(left) => return left,
                None => self.stop_at_calls(tid),
            },
        }
        every
    }

    /// Lets a program stop before its next system call. No other program shares its translation from now on.
    fn stop_at_calls(&mut self, tid: u32) {
        let (Some(ran_ns), Some(kernel_ticks)) = (ran_ns(tid), kernel_ticks(tid)) else { return };
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let TaskMode::Translated(context) = &task.mode else { return };
        let cache = context.cache.clone();
        task.age.request = Some(RetranslationRequest { ran_ns, kernel_ticks });
        cache.borrow_mut().watch_all();
        self.shared_translations.give_up(&cache);
        self.store_translation(&cache);
    }

    /// Interrupts a program that makes no system call. An interrupt would cut a system call short, so the
    /// program must not have been in one all the time.
    fn interrupt_for_retranslation(&mut self, tid: u32, asked: RetranslationRequest) {
        let always = self.settings.retranslation == RetranslationPolicy::Always;
        let Some(ran) = ran_ns(tid).map(|now| Duration::from_nanos(now.saturating_sub(asked.ran_ns))) else {
            return;
        };
        if ran < if always { RUN_SHORTLY } else { CALM } {
            return;
        }
        let ticks = kernel_ticks(tid).map_or(u64::MAX, |now| now.saturating_sub(asked.kernel_ticks));
        if ticks.saturating_mul(2 * TICK.as_nanos() as u64) > CALM.as_nanos() as u64 {
            return self.cancel_retranslation(tid);
        }
        let interrupted = trace::interrupt(tid).is_ok();
        self.tasks.entry(tid).and_modify(|task| task.age.interrupted = interrupted);
    }

    /// A program that was to stop for another translation gets none for now.
    pub(super) fn cancel_retranslation(&mut self, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if let Some(asked) = task.age.request.take() {
            task.age.postpone(asked.ran_ns);
            if let TaskMode::Translated(context) | TaskMode::Native(context) = &task.mode {
                context.cache.borrow_mut().watch_usual();
            }
        }
    }

    /// The time to the next check; `None` where the program is to be retranslated now.
    fn time_left(&mut self, tid: u32) -> Option<Duration> {
        let retranslation = self.settings.retranslation;
        let task = self.tasks.get_mut(&tid)?;
        let TaskMode::Translated(context) = &task.mode else { return Some(CHECK_SELDOM) };
        let Some(now) = ran_ns(tid) else { return Some(CHECK_SELDOM) };
        let cache = context.cache.borrow();
        if retranslation == RetranslationPolicy::Always {
            let since = *task.age.since_ns.get_or_insert(now);
            return (now - since < RUN_SHORTLY.as_nanos() as u64).then_some(CHECK_OFTEN);
        }
        match task.age.check(now, cache.translation.blocks()) {
            // With shared translations each process would need its own.
            Duration::ZERO if cache.shared_code.is_used_by_others() || !is_little_known(&cache) => {
                task.age.postpone(now);
                Some(CHECK_EVERY)
            }
            Duration::ZERO => None,
            left => Some(left),
        }
    }

    /// Whether a task can move to a new translation. It must be the only thread of its process, without a
    /// pending suspend, detach or flush.
    fn can_retranslate(&self, tid: u32) -> bool {
        let Some(task) = self.tasks.get(&tid) else { return false };
        let TaskMode::Translated(context) = &task.mode else { return false };
        let free = task.state().is_free() && !task.filtered;
        let process = &self.processes[task.process];
        let counts = process.lost.is_none() && process.flush.is_none();
        let may = self.probe.is_none()
            && !self.finishing
            && !self.is_detached_last(tid)
            && self.has_rounds(task.age);
        if !free || !counts || !may || self.has_other_threads(tid) {
            return false;
        }
        let lends = self.tasks.values().any(|other| other.waits_for_child(tid));
        // A child that has not stopped yet needs its parent's slot. One that has stopped would need a new
        // translation as well.
        let alone = !lends && !self.is_shared(tid, &context.cache);
        // With a limit on addresses there is no room for two translations.
        alone && self.allowance(tid) == u64::MAX
    }

    /// Whether an interrupted task is to be retranslated now.
    pub(super) fn may_retranslate_now(&mut self, tid: u32) -> Result<bool, TraceError> {
        let task = self.task(tid)?;
        let interrupted = std::mem::take(&mut task.age.interrupted) && task.age.request.is_some();
        if !interrupted || self.is_about_to_stop(tid)? {
            return Ok(false);
        }
        let fit = self.can_retranslate(tid) && self.is_at_rest(tid)?;
        if !fit {
            self.cancel_retranslation(tid);
        }
        Ok(fit)
    }

    /// Whether an interrupted task can move without losing anything. It must not be in a system call, which
    /// may be restarted, nor where masked elements are counted, nor before a signal for a fault.
    fn is_at_rest(&mut self, tid: u32) -> Result<bool, TraceError> {
        let registers = trace::registers(tid)?;
        let TaskMode::Translated(context) = &self.task(tid)?.mode else { return Ok(false) };
        let point = context.cache.borrow().translation.point_at(registers.rip);
        let status = status(tid);
        let faults = OF_FAULTS.iter().any(|signal| has_signal(&status, "SigPnd:", *signal));
        Ok(registers.orig_rax.cast_signed() < 0 && point.is_some_and(|point| !point.unsure) && !faults)
    }

    /// Whether a task that has stopped before a system call is to be retranslated now.
    pub(super) fn may_retranslate_at_call(&mut self, tid: u32, number: u64) -> Result<bool, TraceError> {
        if self.task(tid)?.age.request.is_none() {
            return Ok(false);
        }
        let ends = [number::EXECVE, number::EXECVEAT, number::EXIT, number::EXIT_GROUP].contains(&number);
        let fit = !ends && self.can_retranslate(tid);
        if !fit {
            self.cancel_retranslation(tid);
        }
        Ok(fit)
    }
}

/// Whether too many blocks of files are missing from the profile.
fn is_little_known(cache: &CodeCacheMapping) -> bool {
    let of_files: usize = cache.translation.pages_of_files().map(|(_, blocks)| blocks.len()).sum();
    let known = cache.record.read().map_or_else(|| cache.translation.profiled(), |read| read as usize);
    of_files.saturating_sub(known) * UNKNOWN_OF >= of_files.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The times, in ms, at which a program of so many blocks is old enough. It has run for 1 s before, runs
    /// all the time, and is checked when it is due.
    fn rounds(blocks: impl Fn(u64) -> u32, until_ms: u64) -> Vec<u64> {
        let mut age = TranslationAge::default();
        let (mut rounds, mut ms) = (Vec::new(), 0);
        while ms < until_ms {
            match age.check(1000 * MS + ms * MS, blocks(ms)) {
                Duration::ZERO => {
                    rounds.push(ms);
                    age.postpone(1000 * MS + ms * MS);
                    ms += 20;
                }
                left => ms += left.as_millis() as u64,
            }
        }
        rounds
    }

    #[test]
    fn a_program_that_runs_on_is_old_enough_after_four_times_as_long_each_time() {
        assert_eq!(rounds(|_| 100, 10_000)[..4], [150, 550, 2150, 8550]);
    }

    #[test]
    fn large_programs_are_old_enough_later() {
        assert_eq!(rounds(|_| 50_000, 1000), [450]);
    }

    #[test]
    fn a_program_that_reaches_new_code_all_the_time_is_never_old_enough() {
        // One block for each ms: at the end a twentieth of the blocks is new in 50 ms.
        assert_eq!(rounds(|ms| 10 + ms as u32, 1000), []);
        assert_eq!(rounds(|ms| 10 + ms.min(300) as u32, 1000), [350, 750]);
    }

    #[test]
    fn a_program_that_does_not_run_is_checked_ever_more_seldom() {
        let mut age = TranslationAge::default();
        let checks: Vec<u128> = (0..10).map(|_| age.check(MS, 1).as_millis()).collect();
        assert_eq!(checks, [100, 100, 100, 160, 320, 640, 1280, 2560, 2560, 2560]);
        let checks: Vec<u128> = (0..9).map(|_| age.check(200 * MS, 1).as_millis()).collect();
        assert_eq!(checks[1..], [50, 80, 160, 320, 640, 1280, 2560, 2560], "also where it is old enough");
    }

    #[test]
    fn another_translation_counts_as_a_round() {
        let mut age = TranslationAge::default();
        age.check(7 * MS, 1);
        age.restart();
        assert_eq!((age.rounds, age.since_ns, age.request), (1, None, None));
        assert_eq!(age.check(9 * MS, 1), 4 * LEAST);
    }
}
