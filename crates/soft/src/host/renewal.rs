//! A process with several threads changes its code: all of them are brought out of the old translation, the change is
//! made, and they go on in a new one.
//!
//! ```text
//! a call that changes code ──> its thread halts, the others are summoned
//! each halts, in its own code, at its next stop
//! the last one has halted  ──> the call is made, by a step in the program's own code
//! behind the call          ──> a new translation, which all of them enter
//! ```
//!
//! So nobody executes what was there before the change after it, and nothing is translated while it is made.
//!
//! A process with one thread goes the last part of that way where nothing changes, but a better translation is to be had ([`hindsight`](super::hindsight)).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::process::errno;
use cyclometer_sys::trace::{self, Change, Registers};

use super::engine::{TraceError, TraceResult, Tracer, go_on_waiting};
use super::process::{TaskMode, TranslationContext};
use super::remote::number;
use super::signals::restarts;
use super::space::CodeCacheMapping;

/// A change of code that a process with several threads is about to make, or another translation that a process with one is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheFlush {
    /// The thread that makes it, or the only one.
    by: u32,
    /// All others have halted.
    called: bool,
    /// It has a call to make before it goes on.
    pending: bool,
    /// Nothing changes: the new translation is made of what was executed of the old one.
    anew: bool,
}

/// What it costs that the translation of a process is replaced because its code changes.
///
/// Each time what it executes is translated anew: some milliseconds for a small program, a second for a large one. Libraries that are
/// unloaded change code now and then, a compiler at run time may do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodeChangeCost {
    begin: Instant,
    /// How long we have worked for it since the first time, in time of our CPU.
    cost: Duration,
    /// How long we had worked for it by the last time.
    pub(super) before: Option<Duration>,
}

/// What that may cost in the life of a process, and of the time that it has lived so many parts.
const AT_ONCE: Duration = Duration::from_secs(5);
const OF_ITS_TIME: u32 = 4;
/// What each time costs that is not seen: the kernel's part, and what is mapped.
const AT_LEAST: Duration = Duration::from_millis(1);

impl CodeChangeCost {
    pub(super) fn new(now: Instant) -> CodeChangeCost {
        CodeChangeCost { begin: now, cost: Duration::ZERO, before: None }
    }

    /// Whether it may be replaced once more. `work` is how long we have worked for the process.
    pub(super) fn allow(&mut self, now: Instant, work: Duration) -> bool {
        let since = self.before.map_or(Duration::ZERO, |before| work.saturating_sub(before));
        self.before = Some(work);
        self.cost += since.max(AT_LEAST);
        self.cost <= AT_ONCE + now.saturating_duration_since(self.begin) / OF_ITS_TIME
    }
}

impl Tracer {
    /// A thread is about to make a call that changes code: it waits until all others have halted.
    pub(super) fn renew_among(&mut self, tid: u32) -> TraceResult {
        self.summon(tid, true)
    }

    /// A process goes on in a translation of its own, from where it is.
    pub(super) fn renew_here(&mut self, tid: u32) -> TraceResult {
        if self.has_companions(tid) {
            return self.summon(tid, false);
        }
        let registers = self.renew(tid)?;
        self.enter(tid, registers)
    }

    fn summon(&mut self, tid: u32, pending: bool) -> TraceResult {
        if self.task(tid)?.summoned {
            return self.halt(tid);
        }
        let task = self.task(tid)?;
        let (filtered, process) = (task.filtered, task.process);
        if filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        }
        if !self.processes[process].may_change() {
            return Err(TraceError::Detach("keeps changing its code".to_owned()));
        }
        let block = if pending { self.block_of_call(tid)? } else { None };
        self.surface(tid)?;
        let task = self.task(tid)?;
        (task.returning, task.halted) = (block, true);
        self.processes[process].renewal = Some(CacheFlush { by: tid, called: false, pending, anew: false });
        for other in self.companions(tid) {
            self.task(other)?.summoned = true;
            let _ = trace::interrupt(other);
        }
        Ok(())
    }

    /// A process with one thread, which has stopped for that, goes on in a translation that is made of what it has executed.
    pub(super) fn begin_anew(&mut self, tid: u32) -> TraceResult {
        self.halt(tid)?;
        let process = self.task(tid)?.process;
        self.processes[process].renewal =
            Some(CacheFlush { by: tid, called: false, pending: false, anew: true });
        Ok(())
    }

    /// A thread that was summoned has stopped for that, or with its whole process.
    pub(super) fn summoned_stop(&mut self, tid: u32, change: Change) -> TraceResult {
        let by_us = change == Change::Interrupted;
        if self.is_about_to_stop(tid)? {
            return if by_us { self.run_on(tid) } else { self.listen(tid) };
        }
        // What only our stop has interrupted is not made once more. What stops a process does that without us too, and if
        // that was counted already, it would be counted again.
        let before = trace::registers(tid)?;
        if by_us {
            go_on_waiting(tid)?;
        }
        let again = (by_us || self.task(tid)?.paused) && restarts(&trace::registers(tid)?);
        let block = if again { self.block_at(tid, before.rip)? } else { None };
        self.halt(tid)?;
        if let (Some(block), TaskMode::Native(seat)) = (block, &mut self.task(tid)?.mode) {
            let space = seat.space.clone();
            seat.ledger.take_last_back(&space.borrow(), block);
        }
        Ok(())
    }

    /// A thread that was summoned waits, in its own code, for the change.
    pub(super) fn halt(&mut self, tid: u32) -> TraceResult {
        self.answer(tid)?;
        self.surface(tid)?;
        let task = self.task(tid)?;
        (task.summoned, task.halted) = (false, true);
        Ok(())
    }

    /// Changes for which every thread has halted are made.
    pub(super) fn renew_ready(&mut self) {
        let halted = self.tasks.values().filter(|task| task.halted);
        let mut processes: Vec<usize> = halted.map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes {
            let Some(renewal @ CacheFlush { by, called: false, .. }) = self.processes[process].renewal else {
                continue;
            };
            let outcome = self.call_if_ready(process, renewal);
            self.conclude(by, outcome);
        }
    }

    fn call_if_ready(&mut self, process: usize, renewal: CacheFlush) -> TraceResult {
        let CacheFlush { by, pending, .. } = renewal;
        // Who waits for a child shares the memory with it, and cannot halt.
        let lends = self.members(process).any(|(_, task)| task.suspended.is_some());
        let borrows = |(tid, _): (&u32, _)| self.tasks.values().any(|task| task.is_suspended_by(*tid));
        if lends || self.members(process).any(borrows) {
            return Err(TraceError::Detach("changes its code while its maker waits for it".to_owned()));
        }
        if self.awaits_thread(process) || !self.members(process).all(|(_, task)| task.halted) {
            return Ok(());
        }
        if !pending {
            let registers = trace::registers(by)?;
            return self.complete_renewal(by, &registers);
        }
        self.processes[process].renewal = Some(CacheFlush { called: true, ..renewal });
        self.task(by)?.halted = false;
        Ok(trace::step(by, 0)?)
    }

    /// Whether a task has made the call for which the others have halted.
    pub(super) fn has_renewed(&self, tid: u32) -> bool {
        let process = self.tasks.get(&tid).map(|task| task.process);
        let renewal = process.and_then(|process| self.processes[process].renewal);
        renewal.is_some_and(|renewal| renewal.by == tid && renewal.called)
    }

    /// The call was made, if there was one: all threads go on in a new translation.
    pub(super) fn complete_renewal(&mut self, tid: u32, registers: &Registers) -> TraceResult {
        let task = self.task(tid)?;
        let (TaskMode::Translated(seat) | TaskMode::Native(seat)) = &task.mode else {
            return Err(TraceError::Gone);
        };
        let (old, process) = (seat.space.clone(), task.process);
        let settings = self.settings.translation;
        let allowance = self.allowance(tid);
        let anew = self.processes[process].renewal.take().is_some_and(|renewal| renewal.anew);
        let space = CodeCacheMapping::after(&old.borrow(), tid, registers.rip, allowance, settings);
        let mut space = match space {
            // It is not needed.
            Err(error) if anew && error.raw_os_error() != Some(errno::ESRCH) => {
                self.withdraw(tid);
                self.task(tid)?.halted = false;
                return self.go_on_from_own_code(tid);
            }
            space => space?,
        };
        self.move_listings(tid, &old, &mut space);
        if !anew {
            space.watch(number::EXIT_GROUP, true);
        }
        let space = Rc::new(RefCell::new(space));
        let stays = self.members(process).filter(|(_, task)| task.departs.is_none());
        let members: Vec<u32> = stays.map(|(tid, _)| *tid).collect();
        members.iter().for_each(|member| self.close(*member));
        if anew {
            self.task(tid)?.age.renew();
        }
        for member in &members {
            let seated = self.reseat(*member, &space);
            self.conclude(*member, seated);
        }
        for member in members {
            let entered = self.go_on_from_own_code(member);
            self.conclude(member, entered);
        }
        Ok(())
    }

    fn reseat(&mut self, tid: u32, space: &Rc<RefCell<CodeCacheMapping>>) -> TraceResult {
        let slot = space.borrow_mut().take_slot();
        let slot = slot.ok_or_else(|| TraceError::Detach("has too many threads at a time".to_owned()))?;
        let task = self.task(tid)?;
        task.halted = false;
        task.mode = TaskMode::Native(TranslationContext::new(space.clone(), slot));
        Ok(())
    }

    fn go_on_from_own_code(&mut self, tid: u32) -> TraceResult {
        let mut registers = trace::registers(tid)?;
        if restarts(&registers) {
            registers.rax = call_again(registers.rax, registers.orig_rax);
            (registers.orig_rax, registers.rip) = (u64::MAX, registers.rip - 2);
        }
        // It may have begun to leave, as another one could not go on.
        if self.task(tid)?.departs.is_some() { Ok(()) } else { self.enter(tid, registers) }
    }
}

/// The number of the system call that the kernel makes instead of one that was interrupted. It cannot do so by itself where
/// the registers are elsewhere meanwhile.
///
/// # Source
///
/// Linux `arch/x86/kernel/signal.c`, `arch_do_signal_or_restart`; `arch/x86/entry/syscalls/syscall_64.tbl`,
/// `restart_syscall`.
fn call_again(result: u64, number: u64) -> u64 {
    const ERESTART_RESTARTBLOCK: i64 = 516;
    const RESTART_SYSCALL: u64 = 219;
    if result.cast_signed() == -ERESTART_RESTARTBLOCK { RESTART_SYSCALL } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_call_is_made_again_as_the_kernel_would() {
        assert_eq!(call_again(-512_i64 as u64, 202), 202);
        assert_eq!(call_again(-514_i64 as u64, 0), 0);
        assert_eq!(call_again(-516_i64 as u64, 35), 219);
    }

    #[test]
    fn what_changes_costs_no_more_than_its_share() {
        let start = Instant::now();
        let times = |cost: Duration, own: Duration| {
            let mut changes = CodeChangeCost::new(start);
            let each = cost + own;
            // It was translated for the first time before.
            (0..10_000).take_while(|i| changes.allow(start + each * *i, AT_ONCE + cost * *i)).count() as u32
        };
        let (rare, second) = (Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(times(rare, 4 * rare), 10_000, "a fifth of its time is what it may cost");
        assert_eq!(times(second, Duration::ZERO), 7, "6 s are as many as 5 and a quarter of 6");
        assert!((50..100).contains(&times(rare, Duration::ZERO)));
        let nothing = times(Duration::ZERO, Duration::ZERO);
        assert_eq!(nothing, AT_ONCE.div_duration_f64(AT_LEAST) as u32, "it costs something in any case");
    }
}
