//! Rounds of retranslation: checks of ages, requests, and the conditions for another translation.
//!
//! The types are in [`retranslation`](super::retranslation).

use std::time::{Duration, Instant};

use cyclometer_sys::trace;

use super::code_cache::CodeCacheMapping;
use super::memory_limit::MemoryLimit;
use super::proc::{has_signal, status};
use super::proc::{kernel_ticks, ran_ns};
use super::process::{TaskMode, TracedTask};
use super::remote_syscalls::number;
use super::restartable_checks::RestartableSearch;
use super::retranslation::{
    CALM, CHECK_EVERY, MOST_ROUNDS, RetranslationPolicy, RetranslationRequest, TranslationAge,
};
use super::trace_error::TraceError;
use super::tracees::Tracees;
use super::translation_store::TranslationStore;

const CHECK_SELDOM: Duration = Duration::from_millis(160);

/// The interval of checks when every program is to be retranslated again and again, and the CPU time in each
/// translation.
const CHECK_OFTEN: Duration = Duration::from_millis(1);
const RUN_SHORTLY: Duration = Duration::from_millis(3);

/// The translation is kept if fewer than one of so many blocks are missing from the profile.
const UNKNOWN_OF: usize = 2;

/// The length of a tick, in which the kernel reports the time of a process in the kernel.
///
/// # Source
///
/// `proc(5)`, `sysconf(_SC_CLK_TCK)`: 100 a second on x86-64.
const TICK: Duration = Duration::from_millis(10);

/// `SIGILL`, `SIGTRAP`, `SIGBUS`, `SIGFPE`, `SIGSEGV`.
const OF_FAULTS: [i32; 5] = [4, 5, 7, 8, 11];

/// The finding of a check of a program's age.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AgeFinding {
    /// It cannot move to another translation now.
    CannotMove,
    /// It is not old enough; the time to the next check.
    Young(Duration),
    /// It is old enough.
    OldEnough,
    /// It was asked to stop before its next system call, and has not.
    Asked {
        /// Its CPU time since then, if it is known.
        ran: Option<Duration>,
        /// Its time in the kernel since then, in ticks, if it is known.
        kernel_ticks: Option<u64>,
    },
}

/// The action after a check of a program's age, with the time to the next check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AgeAction {
    /// None.
    Wait(Duration),
    /// A request to stop is withdrawn.
    Cancel(Duration),
    /// It is interrupted.
    Interrupt(Duration),
    /// It stops before its next system call.
    StopAtCalls(Duration),
}

impl AgeAction {
    fn next_check_in(self) -> Duration {
        let (AgeAction::Wait(next)
        | AgeAction::Cancel(next)
        | AgeAction::Interrupt(next)
        | AgeAction::StopAtCalls(next)) = self;
        next
    }
}

/// Rounds of retranslation.
pub(super) struct RetranslationRounds {
    policy: RetranslationPolicy,
    /// When it was last looked for programs that are to get another translation.
    last_check: Instant,
}

/// State of the tracer in which no task moves to another translation, or some do not.
pub(super) struct MoveLimits {
    /// No task moves: every process is being detached, or a probe looks.
    pub(super) all: bool,
    /// Tasks that are detached last.
    pub(super) detached_last: Vec<u32>,
}

impl RetranslationRounds {
    pub(super) fn new(policy: RetranslationPolicy) -> RetranslationRounds {
        RetranslationRounds { policy, last_check: Instant::now() }
    }

    /// The interval of checks; `None` where no program can be retranslated.
    pub(super) fn next_check_in(&self, tracees: &Tracees) -> Option<Duration> {
        let every = self.check_interval()?;
        let waiting = tracees
            .tasks
            .values()
            .filter(|task| matches!(task.mode, TaskMode::Translated(_)) && self.has_rounds(task.age));
        let soonest = waiting.map(|task| task.age.next).min()?;
        let left = soonest.map_or(Duration::ZERO, |next| next.saturating_duration_since(self.last_check));
        Some(if left < CHECK_SELDOM { every } else { CHECK_SELDOM })
    }

    fn check_interval(&self) -> Option<Duration> {
        match self.policy {
            RetranslationPolicy::WhenWorthwhile => Some(CHECK_EVERY),
            RetranslationPolicy::Always => Some(CHECK_OFTEN),
            RetranslationPolicy::Never => None,
        }
    }

    fn has_rounds(&self, age: TranslationAge) -> bool {
        age.rounds < MOST_ROUNDS || self.policy == RetranslationPolicy::Always
    }

    /// Looks at the programs that may be old enough for another translation.
    pub(super) fn check_ages(
        &mut self,
        tracees: &mut Tracees,
        store: &mut TranslationStore,
        search: &RestartableSearch,
        limits: &MoveLimits,
    ) {
        let Some(every) = self.check_interval() else { return };
        if self.last_check.elapsed() < every {
            return;
        }
        let now = Instant::now();
        self.last_check = now;
        let due = tracees.tasks.iter().filter(|(_, task)| task.age.next.is_none_or(|next| next <= now));
        let due: Vec<u32> = due.map(|(tid, _)| *tid).collect();
        for tid in due {
            let can_move = self.can_retranslate(tracees, tid, limits);
            let Some(task) = tracees.tasks.get_mut(&tid) else { continue };
            let action = self.action(self.finding(task, tid, can_move));
            match action {
                AgeAction::Wait(_) => {}
                AgeAction::Cancel(_) => task.cancel_retranslation(),
                AgeAction::Interrupt(_) => task.age.interrupted = trace::interrupt(tid).is_ok(),
                AgeAction::StopAtCalls(_) => stop_at_calls(task, tid, store, search),
            }
            task.age.next = Some(now + action.next_check_in());
        }
    }

    /// The finding of a check of a task.
    fn finding(&self, task: &mut TracedTask, tid: u32, can_move: bool) -> AgeFinding {
        match task.age.request {
            _ if !can_move => AgeFinding::CannotMove,
            None => self.time_left(task, tid).map_or(AgeFinding::OldEnough, AgeFinding::Young),
            Some(asked) => AgeFinding::Asked {
                ran: ran_ns(tid).map(|now| Duration::from_nanos(now.saturating_sub(asked.ran_ns))),
                kernel_ticks: kernel_ticks(tid).map(|now| now.saturating_sub(asked.kernel_ticks)),
            },
        }
    }

    /// The action after a finding.
    ///
    /// A program that was asked to stop at its next system call, and makes none, is interrupted. An interrupt
    /// would cut a system call short, so the program must not have been in one all the time.
    fn action(&self, finding: AgeFinding) -> AgeAction {
        let every = self.check_interval().unwrap_or(CHECK_SELDOM);
        let patience = if self.policy == RetranslationPolicy::Always { RUN_SHORTLY } else { CALM };
        match finding {
            AgeFinding::CannotMove => AgeAction::Cancel(CHECK_SELDOM),
            AgeFinding::Young(left) => AgeAction::Wait(left),
            AgeFinding::OldEnough => AgeAction::StopAtCalls(every),
            AgeFinding::Asked { ran, .. } if ran.is_none_or(|ran| ran < patience) => AgeAction::Wait(every),
            AgeFinding::Asked { kernel_ticks, .. } => {
                let in_kernel_ns = kernel_ticks.unwrap_or(u64::MAX).saturating_mul(TICK.as_nanos() as u64);
                match in_kernel_ns.saturating_mul(2) > CALM.as_nanos() as u64 {
                    true => AgeAction::Cancel(every),
                    false => AgeAction::Interrupt(every),
                }
            }
        }
    }

    /// The time to the next check; `None` where the program is to be retranslated now.
    fn time_left(&self, task: &mut TracedTask, tid: u32) -> Option<Duration> {
        let retranslation = self.policy;
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
    fn can_retranslate(&self, tracees: &Tracees, tid: u32, limits: &MoveLimits) -> bool {
        let Some(task) = tracees.tasks.get(&tid) else { return false };
        let TaskMode::Translated(context) = &task.mode else { return false };
        let free = task.state().is_free() && !task.filtered;
        let process = &tracees.processes[task.process];
        let counts = process.lost.is_none() && process.flush.is_none();
        let may = !limits.all && !limits.detached_last.contains(&tid) && self.has_rounds(task.age);
        if !free || !counts || !may || tracees.has_other_threads(tid) {
            return false;
        }
        let lends = tracees.borrows(tid);
        // A child that has not stopped yet needs its parent's slot. One that has stopped would need a new
        // translation as well.
        let alone = !lends && !tracees.is_shared(tid, &context.cache);
        // With a limit on addresses there is no room for two translations.
        alone && tracees.allowance(tid) == MemoryLimit::Unlimited
    }

    /// Whether an interrupted task is to be retranslated now.
    pub(super) fn may_retranslate_now(
        &self,
        tracees: &mut Tracees,
        tid: u32,
        limits: &MoveLimits,
    ) -> Result<bool, TraceError> {
        let task = tracees.task(tid)?;
        let interrupted = std::mem::take(&mut task.age.interrupted) && task.age.request.is_some();
        if !interrupted || tracees.task(tid)?.is_about_to_stop(tid)? {
            return Ok(false);
        }
        let fit = self.can_retranslate(tracees, tid, limits) && is_at_rest(tracees.task(tid)?, tid)?;
        if !fit {
            tracees.cancel_retranslation(tid);
        }
        Ok(fit)
    }

    /// Whether a task that has stopped before a system call is to be retranslated now.
    pub(super) fn may_retranslate_at_call(
        &self,
        tracees: &mut Tracees,
        (tid, number): (u32, u64),
        limits: &MoveLimits,
    ) -> Result<bool, TraceError> {
        if tracees.task(tid)?.age.request.is_none() {
            return Ok(false);
        }
        let ends = [number::EXECVE, number::EXECVEAT, number::EXIT, number::EXIT_GROUP].contains(&number);
        let fit = !ends && self.can_retranslate(tracees, tid, limits);
        if !fit {
            tracees.cancel_retranslation(tid);
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

/// Lets a program stop before its next system call. No other program shares its translation from now on.
fn stop_at_calls(task: &mut TracedTask, tid: u32, store: &mut TranslationStore, search: &RestartableSearch) {
    let (Some(ran_ns), Some(kernel_ticks)) = (ran_ns(tid), kernel_ticks(tid)) else { return };
    let TaskMode::Translated(context) = &task.mode else { return };
    let cache = context.cache.clone();
    task.age.request = Some(RetranslationRequest { ran_ns, kernel_ticks });
    cache.borrow_mut().watch_all();
    store.shared.give_up(&cache);
    store.store(&cache, search);
}

/// Whether an interrupted task can move without losing anything. It must not be in a system call, which
/// may be restarted, nor where masked elements are counted, nor before a signal for a fault.
fn is_at_rest(task: &TracedTask, tid: u32) -> Result<bool, TraceError> {
    let registers = trace::registers(tid)?;
    let TaskMode::Translated(context) = &task.mode else { return Ok(false) };
    let point = context.cache.borrow().translation.point_at(registers.rip);
    let status = status(tid);
    let faults = OF_FAULTS.iter().any(|signal| has_signal(&status, "SigPnd:", *signal));
    Ok(registers.orig_rax.cast_signed() < 0 && point.is_some_and(|point| !point.unsure) && !faults)
}

impl TracedTask {
    /// A program that was to stop for another translation gets none for now.
    fn cancel_retranslation(&mut self) {
        if let Some(asked) = self.age.request.take() {
            self.age.postpone(asked.ran_ns);
            if let TaskMode::Translated(context) | TaskMode::Native(context) = &self.mode {
                context.cache.borrow_mut().watch_usual();
            }
        }
    }
}

impl Tracees {
    /// A program that was to stop for another translation gets none for now.
    pub(super) fn cancel_retranslation(&mut self, tid: u32) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.cancel_retranslation();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICIES: [RetranslationPolicy; 2] =
        [RetranslationPolicy::WhenWorthwhile, RetranslationPolicy::Always];

    fn action(policy: RetranslationPolicy, finding: AgeFinding) -> AgeAction {
        RetranslationRounds::new(policy).action(finding)
    }

    fn asked(ran: Option<Duration>, kernel_ticks: Option<u64>) -> AgeFinding {
        AgeFinding::Asked { ran, kernel_ticks }
    }

    #[test]
    fn a_program_stops_at_its_calls_once_it_is_old_enough() {
        for policy in POLICIES {
            let every = RetranslationRounds::new(policy).check_interval().unwrap();
            assert_eq!(action(policy, AgeFinding::OldEnough), AgeAction::StopAtCalls(every));
            let left = Duration::from_millis(70);
            assert_eq!(action(policy, AgeFinding::Young(left)), AgeAction::Wait(left));
        }
    }

    #[test]
    fn a_program_that_cannot_move_is_looked_at_seldom() {
        for policy in POLICIES {
            assert_eq!(action(policy, AgeFinding::CannotMove), AgeAction::Cancel(CHECK_SELDOM));
        }
    }

    #[test]
    fn a_program_without_system_calls_is_interrupted_when_it_has_run_for_long_enough() {
        for (policy, patience) in POLICIES.into_iter().zip([CALM, RUN_SHORTLY]) {
            let every = RetranslationRounds::new(policy).check_interval().unwrap();
            let short = patience - Duration::from_nanos(1);
            assert_eq!(action(policy, asked(Some(short), Some(0))), AgeAction::Wait(every));
            assert_eq!(action(policy, asked(None, Some(0))), AgeAction::Wait(every), "its time is unknown");
            assert_eq!(action(policy, asked(Some(patience), Some(0))), AgeAction::Interrupt(every));
        }
    }

    #[test]
    fn a_system_call_that_lasts_is_not_cut_short() {
        let policy = RetranslationPolicy::WhenWorthwhile;
        // 50 ms of calm are 5 ticks of 10 ms, and half of them may be in the kernel.
        for (ticks, expected) in [
            (Some(2), AgeAction::Interrupt(CHECK_EVERY)),
            (Some(3), AgeAction::Cancel(CHECK_EVERY)),
            (None, AgeAction::Cancel(CHECK_EVERY)),
        ] {
            assert_eq!(action(policy, asked(Some(CALM), ticks)), expected, "{ticks:?}");
        }
    }

    #[test]
    fn the_next_check_is_that_of_the_action() {
        let time = Duration::from_millis(3);
        for action in [
            AgeAction::Wait(time),
            AgeAction::Cancel(time),
            AgeAction::Interrupt(time),
            AgeAction::StopAtCalls(time),
        ] {
            assert_eq!(action.next_check_in(), time);
        }
    }
}
