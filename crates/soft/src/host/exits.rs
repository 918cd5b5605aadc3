//! Processes that end, or go on without us.

use cyclometer_sys::trace;

use super::engine::{Engine, Outcome};
use super::process::{Mode, Task};
use super::signals::status;

impl Engine {
    /// The program goes on by itself from now on: this thread of it as soon as all others do.
    pub(super) fn leave(&mut self, tid: u32, reason: Option<String>, signal: i32) {
        let at = self.surface(tid).map(|registers| registers.map(|registers| registers.rip));
        if let Some(reason) = reason {
            let place = at.ok().flatten().map_or_else(String::new, |pc| format!(" at {pc:#x}"));
            self.lose(tid, &format!("left translation{place}: the program {reason}"));
        }
        self.end_listing(tid);
        self.close(tid);
        self.cool(tid);
        self.asked.remove(&tid);
        let Some(task) = self.tasks.get_mut(&tid) else { return drop(trace::detach(tid, signal)) };
        (task.departs, task.dismissed) = (Some(signal), None);
        (task.summoned, task.halted) = (false, false);
        let process = task.process;
        self.processes[process].renewal = None;
        self.companions(tid).into_iter().for_each(|other| self.dismiss(other, None));
        self.depart(process);
    }

    pub(super) fn lose(&mut self, tid: u32, reason: &str) {
        if let Some(process) = self.process(tid) {
            process.lose(reason);
        }
    }

    /// It is about to end; its memory and registers are still there.
    pub(super) fn exiting(&mut self, tid: u32) -> Outcome {
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        // Before it leaves: it would leave twice in what is answered.
        self.answer(tid)?;
        let registers = trace::registers(tid);
        let pc = registers.ok().and_then(|registers| Some((self.pc(tid, &registers).ok()?, registers.rcx)));
        let task = self.task(tid)?;
        let mut unknown = false;
        let pc = pc.or(task.ends.map(|pc| (pc, 0)));
        if let Mode::Translated(seat) = &mut task.mode {
            let place = pc.and_then(|(pc, rcx)| Some((seat.space.borrow().translation.place(pc)?, rcx)));
            match place {
                Some((place, rcx)) => seat.ledger.leave(&mut seat.space.borrow_mut(), &place, rcx),
                None => unknown = true,
            }
        }
        if unknown {
            self.lose(tid, "the process ended at an unknown place");
        }
        const SIGKILL: u64 = 9;
        if trace::event_message(tid)? & 0x7f == SIGKILL {
            self.adopt_early(tid);
        }
        self.end_listing(tid);
        self.close(tid);
        let task = self.task(tid)?;
        (task.ended, task.departs, task.suspended) = (true, None, None);
        (task.summoned, task.halted) = (false, false);
        Ok(trace::resume(tid, 0)?)
    }

    pub(super) fn gone(&mut self, tid: u32) {
        self.early.remove(&tid);
        self.born.remove(&tid);
        self.postponed.retain(|(postponed, _)| *postponed != tid);
        if self.tasks.get(&tid).is_some_and(Task::is_seated) {
            self.adopt_early(tid);
            if !self.end_unseen(tid) {
                self.lose(tid, "the process was killed before its counts were read");
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

    /// A thread that was ending when its process ended: the kernel does not tell of its end then. Whether it is known where
    /// it was.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`, `ptrace_stop`: who is to be killed does not stop.
    fn end_unseen(&mut self, tid: u32) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        let known = task.returning.is_none();
        match &mut task.mode {
            Mode::Translated(seat) => {
                let space = &mut seat.space.borrow_mut();
                let place = task.ends.and_then(|pc| space.translation.place(pc));
                place.iter().for_each(|place| seat.ledger.leave(space, place, 0));
                place.is_some()
            }
            Mode::Native(_) => known,
            Mode::Waiting => false,
        }
    }

    /// A process that is about to be gone. It will be reaped, which tells; if it was not already, by who waited for
    /// something else of it.
    pub(super) fn let_go(&mut self, tid: u32) {
        let status = status(tid);
        if tracer(&status) != Some(std::process::id()) {
            return self.gone(tid);
        }
        // Who was killed meanwhile, and is not in the stop any more that we were told of, tells of its end first.
        if is_stopped(&status) {
            match trace::poll(tid) {
                Ok(Some(change)) => self.handle(tid, change),
                _ => self.let_run(tid),
            }
        }
    }

    /// A task goes on from a stop that was not understood: to its end, most likely. Nothing is known of it from here on.
    fn let_run(&mut self, tid: u32) {
        if self.tasks.get(&tid).is_some_and(Task::is_seated) {
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
        let waits = |task: &Task| task.suspended.is_some() || task.ended;
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
