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

use super::engine::{Engine, Outcome, Trouble, go_on_waiting};
use super::process::{Mode, Seat};
use super::remote::number;
use super::signals::restarts;
use super::space::Space;

/// A change of code that a process with several threads is about to make, or another translation that a process with one is to get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Renewal {
    /// The thread that makes it, or the only one.
    by: u32,
    /// All others have halted.
    called: bool,
    /// It has a call to make before it goes on.
    pending: bool,
    /// Nothing changes: the new translation is made of what was executed of the old one.
    anew: bool,
}

/// How often the translation of a process may still be replaced because its code changes.
///
/// Each time it is made anew, which takes some milliseconds. Libraries that are unloaded change code now and then, a
/// compiler at run time may do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Changes {
    left: u32,
    /// When it last became more.
    since: Instant,
}

/// So often at once.
const AT_ONCE: u32 = 100;
/// Once more in such a time.
const ONE_MORE: Duration = Duration::from_millis(200);

impl Changes {
    pub(super) fn new(now: Instant) -> Changes {
        Changes { left: AT_ONCE, since: now }
    }

    /// Whether it may be done now; that is one time less then.
    pub(super) fn allow(&mut self, now: Instant) -> bool {
        let more = (now.saturating_duration_since(self.since).as_nanos() / ONE_MORE.as_nanos()) as u32;
        self.since += ONE_MORE * more;
        self.left = self.left.saturating_add(more).min(AT_ONCE);
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}

impl Engine {
    /// A thread is about to make a call that changes code: it waits until all others have halted.
    pub(super) fn renew_among(&mut self, tid: u32) -> Outcome {
        self.summon(tid, true)
    }

    /// A process goes on in a translation of its own, from where it is.
    pub(super) fn renew_here(&mut self, tid: u32) -> Outcome {
        if self.has_companions(tid) {
            return self.summon(tid, false);
        }
        let registers = self.renew(tid)?;
        self.enter(tid, registers)
    }

    fn summon(&mut self, tid: u32, pending: bool) -> Outcome {
        if self.task(tid)?.summoned {
            return self.halt(tid);
        }
        let task = self.task(tid)?;
        let (filtered, process) = (task.filtered, task.process);
        if filtered {
            return Err(Trouble::Unfollowed("filters its system calls".to_owned()));
        }
        if !self.processes[process].changes.allow(Instant::now()) {
            return Err(Trouble::Unfollowed("keeps changing its code".to_owned()));
        }
        let block = if pending { self.block_of_call(tid)? } else { None };
        self.surface(tid)?;
        let task = self.task(tid)?;
        (task.returning, task.halted) = (block, true);
        self.processes[process].renewal = Some(Renewal { by: tid, called: false, pending, anew: false });
        for other in self.companions(tid) {
            self.task(other)?.summoned = true;
            let _ = trace::interrupt(other);
        }
        Ok(())
    }

    /// A process with one thread, which has stopped for that, goes on in a translation that is made of what it has executed.
    pub(super) fn begin_anew(&mut self, tid: u32) -> Outcome {
        self.halt(tid)?;
        let process = self.task(tid)?.process;
        self.processes[process].renewal =
            Some(Renewal { by: tid, called: false, pending: false, anew: true });
        Ok(())
    }

    /// A thread that was summoned has stopped for that, or with its whole process.
    pub(super) fn summoned_stop(&mut self, tid: u32, change: Change) -> Outcome {
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
        if let (Some(block), Mode::Native(seat)) = (block, &mut self.task(tid)?.mode) {
            let space = seat.space.clone();
            seat.ledger.take_last_back(&space.borrow(), block);
        }
        Ok(())
    }

    /// A thread that was summoned waits, in its own code, for the change.
    pub(super) fn halt(&mut self, tid: u32) -> Outcome {
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
            let Some(renewal @ Renewal { by, called: false, .. }) = self.processes[process].renewal else {
                continue;
            };
            let outcome = self.call_if_ready(process, renewal);
            self.conclude(by, outcome);
        }
    }

    fn call_if_ready(&mut self, process: usize, renewal: Renewal) -> Outcome {
        let Renewal { by, pending, .. } = renewal;
        // Who waits for a child shares the memory with it, and cannot halt.
        let lends = self.members(process).any(|(_, task)| task.suspended.is_some());
        let borrows = |(tid, _): (&u32, _)| self.tasks.values().any(|task| task.is_suspended_by(*tid));
        if lends || self.members(process).any(borrows) {
            return Err(Trouble::Unfollowed("changes its code while its maker waits for it".to_owned()));
        }
        if self.awaits_thread(process) || !self.members(process).all(|(_, task)| task.halted) {
            return Ok(());
        }
        if !pending {
            let registers = trace::registers(by)?;
            return self.complete_renewal(by, &registers);
        }
        self.processes[process].renewal = Some(Renewal { called: true, ..renewal });
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
    pub(super) fn complete_renewal(&mut self, tid: u32, registers: &Registers) -> Outcome {
        let task = self.task(tid)?;
        let (Mode::Translated(seat) | Mode::Native(seat)) = &task.mode else { return Err(Trouble::Gone) };
        let (old, process) = (seat.space.clone(), task.process);
        let settings = self.settings.translation;
        let allowance = self.allowance(tid);
        let anew = self.processes[process].renewal.take().is_some_and(|renewal| renewal.anew);
        let space = Space::after(&old.borrow(), tid, registers.rip, allowance, settings);
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

    fn reseat(&mut self, tid: u32, space: &Rc<RefCell<Space>>) -> Outcome {
        let slot = space.borrow_mut().take_slot();
        let slot = slot.ok_or_else(|| Trouble::Unfollowed("has too many threads at a time".to_owned()))?;
        let task = self.task(tid)?;
        task.halted = false;
        task.mode = Mode::Native(Seat::new(space.clone(), slot));
        Ok(())
    }

    fn go_on_from_own_code(&mut self, tid: u32) -> Outcome {
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
    fn what_changes_at_once_is_allowed_so_often_and_what_changes_slowly_for_ever() {
        let start = Instant::now();
        let mut at_once = Changes::new(start);
        assert_eq!((0..1000).filter(|_| at_once.allow(start)).count() as u32, AT_ONCE);
        assert!(!at_once.allow(start + ONE_MORE / 2), "half of the time for one more has passed");
        assert!(at_once.allow(start + ONE_MORE));
        assert!(!at_once.allow(start + ONE_MORE));
        let mut slowly = Changes::new(start);
        assert!((0..10_000).all(|i| slowly.allow(start + ONE_MORE * i)));
        let later = start + ONE_MORE * 1_000_000;
        let at_once = (0..1000).filter(|_| slowly.allow(later)).count() as u32;
        assert_eq!(at_once, AT_ONCE, "a long rest does not allow more at once");
    }
}
