//! Processes that end, or go on without us.

use cyclometer_sys::trace;

use super::engine::{Engine, Outcome};
use super::process::{Mode, Task};

impl Engine {
    /// The program goes on by itself from now on.
    pub(super) fn leave(&mut self, tid: u32, reason: Option<String>, signal: i32) {
        let at = self.surface(tid).map(|registers| registers.map(|registers| registers.rip));
        if let Some(reason) = reason {
            let place = at.ok().flatten().map_or_else(String::new, |pc| format!(" at {pc:#x}"));
            self.lose(tid, &format!("left translation{place}: the program {reason}"));
        }
        self.close(tid);
        self.cool(tid);
        self.tasks.remove(&tid);
        self.asked.remove(&tid);
        let _ = trace::detach(tid, signal);
    }

    pub(super) fn lose(&mut self, tid: u32, reason: &str) {
        if let Some(process) = self.process(tid) {
            process.lose(reason);
        }
    }

    /// Adds what was executed of the translation to the process, and gives the slot back.
    pub(super) fn close(&mut self, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        let (Mode::Translated(seat) | Mode::Native(seat)) = std::mem::replace(&mut task.mode, Mode::Waiting)
        else {
            return;
        };
        let process = &mut self.processes[task.process];
        if process.lost.is_none() {
            process.add(seat.ledger.settle(&seat.space.borrow(), seat.slot));
        }
        seat.space.borrow_mut().give_slot(seat.slot);
    }

    /// It is about to end; its memory and registers are still there.
    pub(super) fn exiting(&mut self, tid: u32) -> Outcome {
        // Before it leaves: it would leave twice in what is answered.
        self.answer(tid)?;
        let registers = trace::registers(tid);
        let pc = registers.ok().and_then(|registers| Some((self.pc(tid, &registers).ok()?, registers.rcx)));
        let task = self.task(tid)?;
        let mut unknown = false;
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
        self.close(tid);
        Ok(trace::resume(tid, 0)?)
    }

    pub(super) fn gone(&mut self, tid: u32) {
        self.early.remove(&tid);
        self.born.remove(&tid);
        let seated = self.tasks.get(&tid).is_some_and(|task| !matches!(task.mode, Mode::Waiting));
        if seated {
            self.adopt_early(tid);
            self.lose(tid, "the process was killed before its counts were read");
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

    /// A process that is about to be gone. It will be reaped, which tells; if it was not already, by who waited for
    /// something else of it.
    pub(super) fn let_go(&mut self, tid: u32) {
        let _ = trace::resume(tid, 0);
        if !is_traced_by_us(tid) {
            self.gone(tid);
        }
    }

    /// Everything that still runs goes on without us.
    pub(super) fn finish(&mut self) {
        self.finishing = true;
        let all: Vec<u32> = self.tasks.keys().copied().collect();
        all.into_iter().for_each(|tid| self.dismiss(tid, None));
    }

    pub(super) fn dismiss(&mut self, tid: u32, reason: Option<String>) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.dismissed.get_or_insert(reason);
            let _ = trace::interrupt(tid);
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
        let waits = |task: &Task| task.suspended.is_some();
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
fn is_traced_by_us(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.and_then(|tracer| tracer.trim().parse().ok()) == Some(std::process::id())
}
