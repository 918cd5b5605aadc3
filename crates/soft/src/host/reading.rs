//! Requests for counts, and answers.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use cyclometer_sys::trace;

use super::engine::{Engine, Outcome};
use super::process::{Mode, Suspended};
use super::protocol;

impl Engine {
    /// Looks at what the other end of the socket wants.
    pub(super) fn requests(&mut self, socket: &mut UnixStream) {
        let mut byte = [0];
        loop {
            match socket.read(&mut byte) {
                Ok(0) => return self.finish(),
                Ok(_) if byte[0] == protocol::FINISH => self.finish(),
                Ok(_) if byte[0] == protocol::READ => self.ask(),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        if self.reading && self.asked.is_empty() {
            self.reading = false;
            let text = self.snapshot(protocol::SO_FAR);
            let _ = socket.set_nonblocking(false);
            let _ = socket.write_all(text.as_bytes());
            let _ = socket.set_nonblocking(true);
        }
    }

    /// Stops every process to read its counts.
    pub(super) fn ask(&mut self) {
        self.reading = true;
        self.answered.clear();
        let tasks: Vec<u32> = self.tasks.keys().copied().collect();
        for tid in tasks {
            let Some(task) = self.tasks.get(&tid) else { continue };
            match (&task.mode, task.suspended) {
                (Mode::Waiting, _) => {}
                // It does not execute translated code now.
                (Mode::Native(_), _) => self.record(tid, None),
                (Mode::Translated(_), Some(Suspended { pc, .. })) => self.record(tid, Some((pc, 0))),
                (Mode::Translated(_), None) if trace::interrupt(tid).is_ok() => drop(self.asked.insert(tid)),
                (Mode::Translated(_), None) => {}
            }
        }
    }

    /// Reads the counts of a stopped process, if they were asked for.
    pub(super) fn answer(&mut self, tid: u32) -> Outcome {
        if self.asked.remove(&tid) {
            let registers = trace::registers(tid)?;
            self.record(tid, Some((registers.rip, registers.rcx)));
        }
        Ok(())
    }

    /// Reads the counts of a process that does not run; `at` is where it is in translated code, and its rcx.
    pub(super) fn record(&mut self, tid: u32, at: Option<(u64, u64)>) {
        let Some(task) = self.tasks.get(&tid) else { return };
        let (Mode::Translated(seat) | Mode::Native(seat)) = &task.mode else { return };
        let mut ledger = seat.ledger.clone();
        let at = at.filter(|_| matches!(task.mode, Mode::Translated(_)));
        if let Some((pc, rcx)) = at {
            let place = seat.space.borrow().translation.place(pc);
            place.into_iter().for_each(|place| ledger.leave(&mut seat.space.borrow_mut(), &place, rcx));
        }
        let current = ledger.settle(&seat.space.borrow(), seat.slot);
        let totals = current.and_then(|current| self.processes[task.process].totals(Some(current)));
        self.answered.insert(task.process, totals);
    }

    pub(super) fn snapshot(&self, end: &str) -> String {
        let lines = self.processes.iter().enumerate().map(|(i, process)| {
            let totals = self.answered.get(&i).cloned().unwrap_or_else(|| process.totals(None));
            protocol::process(process.pid, process.parent, &process.name, &totals)
        });
        lines.chain([format!("{end}\n")]).collect()
    }

    pub(super) fn report(&mut self) -> String {
        self.answered.clear();
        self.snapshot(protocol::LAST)
    }
}
