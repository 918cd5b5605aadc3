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

/// Interval at which the age of a program is checked, and the interval when it is far from old enough.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Most doublings of the interval for a program that does not run.
const MOST_IDLE: u32 = 7;

/// The least that a program runs before it gets another translation, in CPU time.
const LEAST: Duration = Duration::from_millis(100);

/// The CPU time before it for each block: some five times the cost of translating one.
const FOR_A_BLOCK: Duration = Duration::from_micros(8);

/// The translation must have been calm for this CPU time: at most one of so many blocks is new. Else most of
/// the program's code may be still to come.
pub(super) const CALM: Duration = Duration::from_millis(50);
const NEW_OF: u32 = 100;

/// Most rounds; each takes four times the age of the one before.
pub(super) const MOST_ROUNDS: u32 = 4;

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
    pub(super) since_ns: Option<u64>,
    /// CPU time and number of blocks when the growth was last checked.
    seen: (u64, u32),
    /// CPU time at the last check, and the number of checks in a row without any progress.
    idle: (u64, u32),
    /// The number of rounds so far.
    pub(super) rounds: u32,
    /// The time of the next check; `None`: at once.
    pub(super) next: Option<Instant>,
    /// It stops before its next system call, for another translation.
    pub(super) request: Option<RetranslationRequest>,
    /// It was interrupted for a retranslation.
    pub(super) interrupted: bool,
}

/// The times of a program when it was asked to stop before its next system call: in all in ns, and in the
/// kernel in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RetranslationRequest {
    pub(super) ran_ns: u64,
    pub(super) kernel_ticks: u64,
}

impl TranslationAge {
    /// It continues in a new translation.
    pub(super) fn restart(&mut self) {
        *self = TranslationAge { rounds: self.rounds + 1, ..TranslationAge::default() };
    }

    /// The age starts again, because a new translation would be no better.
    pub(super) fn postpone(&mut self, ran_ns: u64) {
        self.rounds += 1;
        self.since_ns = Some(ran_ns);
    }

    /// Checks the age of a program with this CPU time. Returns the time to the next check, zero if it is old
    /// enough.
    pub(super) fn check(&mut self, ran_ns: u64, blocks: u32) -> Duration {
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
