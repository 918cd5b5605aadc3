//! Processes that end, or go on without us.

use cyclometer_sys::host::uname;
use cyclometer_sys::process::SIGKILL;
use cyclometer_sys::trace::{self, Change};

use super::engine::{TraceResult, Tracer};
use super::process::{TaskMode, TracedTask, TranslatedPc};
use super::signals::status;

const KILLED_BEFORE: &str = "the process was killed before its counts were read";

impl Tracer {
    /// The program goes on by itself from now on: this thread of it as soon as all others do.
    pub(super) fn leave(&mut self, tid: u32, reason: Option<String>, signal: i32) {
        let at = self.surface(tid).map(|registers| registers.map(|registers| registers.rip));
        if at.is_err() {
            self.lose(tid, KILLED_BEFORE);
        }
        if let Some(reason) = reason {
            let place = at.ok().flatten().map_or_else(String::new, |pc| format!(" at {pc:#x}"));
            self.lose(tid, &format!("left translation{place}: the program {reason}"));
        }
        self.end_listing(tid);
        self.close(tid);
        self.cool(tid);
        self.send_held_of(tid);
        self.asked.remove(&tid);
        let Some(task) = self.tasks.get_mut(&tid) else { return self.part_with(tid, signal) };
        (task.departs, task.dismissed) = (Some(signal), None);
        (task.summoned, task.halted) = (false, false);
        let process = task.process;
        self.processes[process].renewal = None;
        self.companions(tid).into_iter().for_each(|other| self.dismiss(other, None));
        self.depart(process);
    }

    /// Lets go of a task, which goes on with a signal, or with 0 for none.
    pub(super) fn part_with(&mut self, tid: u32, signal: i32) {
        // It is not in that stop any more where it was killed meanwhile.
        if trace::detach(tid, signal).is_err() {
            self.parting.insert(tid);
        }
    }

    /// A task that was to be let go, and was killed meanwhile, is about to be gone, or is.
    pub(super) fn see_off(&mut self, tid: u32, change: Change) {
        let gone = matches!(change, Change::Exited(_) | Change::Killed(_));
        if gone || trace::detach(tid, 0).is_ok() {
            self.parting.remove(&tid);
        }
    }

    /// When its process goes on by itself, which is about to come, our memory is not there any more, but for a page; where the
    /// memory is a maker's, too, who executes its translation, all of it stays.
    pub(super) fn clear_when_gone(&mut self, tid: u32) -> TraceResult {
        let borrowed = self.tasks.values().any(|other| other.is_suspended_by(tid));
        let task = self.task(tid)?;
        if let (TaskMode::Translated(seat) | TaskMode::Native(seat), false) =
            (&task.mode, borrowed || task.filtered)
        {
            let (process, space) = (task.process, seat.space.clone());
            self.processes[process].clears = Some((tid, space));
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, tid: u32, reason: &str) {
        if let Some(process) = self.process(tid) {
            process.lose(reason);
        }
    }

    /// It is about to end; its memory and registers are still there.
    pub(super) fn exiting(&mut self, tid: u32) -> TraceResult {
        self.pass_on_held(tid);
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        // It holds where we make a system call in its name only: it may have executed anything since.
        let last = self.task(tid)?.last.take();
        // Before it leaves: it would leave twice in what is answered.
        self.answer(tid)?;
        let registers = trace::registers(tid);
        let spot = registers
            .ok()
            .and_then(|registers| Some(TranslatedPc::new(self.pc(tid, &registers).ok()?, &registers)));
        let task = self.task(tid)?;
        let mut unknown = false;
        let spot = spot.or(task.ends.map(TranslatedPc::of_call));
        if let TaskMode::Translated(seat) = &mut task.mode {
            // Where we make a system call in its name it is not by itself.
            let calling = spot.is_some_and(|spot| seat.space.borrow().is_calling(spot.pc));
            let at = if calling { last } else { spot };
            unknown = !at.is_some_and(|at| seat.leave(at));
        }
        if unknown {
            self.lose(tid, "the process ended at an unknown place");
        }
        if trace::event_message(tid)? & 0x7f == SIGKILL as u64 {
            self.adopt_early(tid);
        }
        self.end_listing(tid);
        self.close(tid);
        let task = self.task(tid)?;
        (task.ended, task.departs, task.suspended) = (true, None, None);
        (task.summoned, task.halted) = (false, false);
        Ok(trace::resume(tid, 0)?)
    }

    /// A task is gone; `how`, if that was told.
    pub(super) fn gone(&mut self, tid: u32, how: Option<Change>) {
        self.early.remove(&tid);
        self.pass_on_held(tid);
        self.born.remove(&tid);
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        if self.tasks.get(&tid).is_some_and(TracedTask::is_seated) {
            self.adopt_early(tid);
            let certain = self.end_unseen(tid, how == Some(Change::Killed(SIGKILL)));
            let executes = self.companions(tid).iter().any(|other| self.is_executing(*other));
            if let Some(process) = self.process(tid).filter(|_| certain) {
                process.unconfirmed |= executes;
            }
            self.end_listing(tid);
            self.close(tid);
        }
        self.tasks.remove(&tid);
        self.asked.remove(&tid);
        self.held.retain(|(held, _)| *held != tid);
        for task in self.tasks.values_mut().filter(|task| task.is_suspended_by(tid)) {
            task.suspended = None;
        }
        if tid == self.root {
            self.finish();
        }
    }

    /// A task has ended, and its end was not told before. Whether it is known where it was; if not, there are no counts.
    ///
    /// Who is killed at a stop that we were told of goes on to the stop of its end, and we may take that one for the first
    /// and let it go on: then it has executed nothing since we looked at it. But one that has ended itself goes on where
    /// it is killed meanwhile, without a stop.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`: `ptrace_stop`, who is to be killed does not stop; `get_signal`, who is killed is not to be any
    /// more; `ptrace_signal`, a stop that nobody was told of does not keep it from that, since 5.17.
    pub(super) fn end_unseen(&mut self, tid: u32, killed: bool) -> bool {
        let (tells, executes) =
            (self.tells_of_ends, self.companions(tid).iter().any(|other| self.is_executing(*other)));
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let at = match task.ends {
            // Killed before that, or behind it.
            Some(_) if executes => None,
            Some(pc) if !killed => Some(TranslatedPc::of_call(pc)),
            _ => task.last.filter(|_| tells),
        };
        let known = match &mut task.mode {
            TaskMode::Translated(seat) => at.is_some_and(|at| seat.leave(at)),
            TaskMode::Native(_) => task.returning.is_none(),
            TaskMode::Untranslated => false,
        };
        if !known {
            self.lose(tid, KILLED_BEFORE);
        }
        known
    }

    /// Whether a task has asked for a new program.
    fn is_executing(&self, tid: u32) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.executes.is_some())
    }

    /// A process that is about to be gone. It will be reaped, which tells; if it was not already, by who waited for
    /// something else of it.
    pub(super) fn let_go(&mut self, tid: u32) {
        let status = status(tid);
        if !is_ours(&status) {
            return self.gone(tid, None);
        }
        // Who was killed meanwhile, and is not in the stop any more that we were told of, tells of its end first.
        if is_stopped(&status) {
            match trace::poll(tid) {
                Ok(Some(change)) => self.handle(tid, change),
                // We were told while we made a system call in its name.
                _ if trace::is_at(tid, Change::Exiting).is_ok_and(|ends| ends) => {
                    self.handle(tid, Change::Exiting);
                }
                _ => self.let_run(tid),
            }
        }
    }

    /// A task goes on from a stop that was not understood: to its end, most likely. Nothing is known of it from here on.
    fn let_run(&mut self, tid: u32) {
        if self.tasks.get(&tid).is_some_and(TracedTask::is_seated) {
            self.lose(tid, "the process was killed while it was translated");
        }
        let _ = trace::resume(tid, 0);
    }

    /// Everything that still runs goes on without us.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        let all: Vec<u32> = self.tasks.keys().copied().collect();
        all.into_iter().for_each(|tid| self.dismiss(tid, None));
    }

    pub(super) fn dismiss(&mut self, tid: u32, reason: Option<String>) {
        match self.tasks.get_mut(&tid) {
            // It is at a stop that we were told of.
            Some(task) if task.halted => self.leave(tid, reason, 0),
            Some(task) if !task.ended && task.departs.is_none() => {
                task.dismissed.get_or_insert(reason);
                let _ = trace::interrupt(tid);
            }
            _ => {}
        }
    }

    /// Lets go of all processes, this one last, so that it finds them untraced.
    pub(super) fn leave_all(&mut self, tid: u32, reason: &str) {
        let others: Vec<u32> = self.tasks.keys().copied().filter(|other| *other != tid).collect();
        others.into_iter().for_each(|other| self.dismiss(other, Some(reason.to_owned())));
        self.held.push((tid, reason.to_owned()));
    }

    pub(super) fn release_held(&mut self) {
        // Who waits for a child that is held cannot stop before that goes on.
        let waits = |task: &TracedTask| task.suspended.is_some() || task.ended;
        let others = self.tasks.iter().filter(|(tid, task)| !waits(task) && !self.is_held(**tid)).count();
        if others == 0 {
            for (tid, reason) in std::mem::take(&mut self.held) {
                self.leave(tid, Some(reason), 0);
            }
        }
    }

    pub(super) fn is_held(&self, tid: u32) -> bool {
        self.held.iter().any(|(held, _)| *held == tid)
    }
}

/// Whether who is killed at a stop that was not told yet stops at its end all the same.
///
/// # Source
///
/// Linux `kernel/signal.c`: `ptrace_signal`, since 5.17; `prepare_signal`, who is dying is not killed again, which would end that stop
/// before we see it, since 6.1 at the latest.
pub(super) fn tells_of_ends() -> bool {
    uname().is_some_and(|uname| version(&uname.release) >= Some((6, 1)))
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Whether it is we who trace a process.
pub(super) fn is_traced_by_us(pid: u32) -> bool {
    is_ours(&status(pid))
}

fn is_ours(status: &str) -> bool {
    tracer(status) == Some(std::process::id())
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `TracerPid`.
fn tracer(status: &str) -> Option<u32> {
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer?.trim().parse().ok()
}

/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `State`, of which `t` is a stop for the tracer.
fn is_stopped(status: &str) -> bool {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim_start().starts_with(['t', 'T']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_their_numbers() {
        assert_eq!(version("6.18.2-arch1-1"), Some((6, 18)));
        assert_eq!(version("5.9-rc2"), Some((5, 9)));
        assert!(version("5.9.0") < version("5.17.0"));
        assert_eq!(version("6"), None);
        assert_eq!(version("rolling"), None);
    }
}
