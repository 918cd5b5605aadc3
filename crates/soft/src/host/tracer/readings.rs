//! Requests for counts, and answers.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use cyclometer_sys::trace;

use super::Tracer;
use crate::ExecutionEvent;
use crate::code_profile::CodeProfile;
use crate::host::process::{TaskMode, TracedTask};
use crate::host::process_counts::{SleepingThread, sums_of, totals};
use crate::host::protocol;
use crate::host::task_state::VforkWait;
use crate::host::trace_error::TraceResult;
use crate::host::translated_pc::TranslatedPc;
use crate::host::window_protocol::{self, ArrivingRequest, WINDOWS, WindowRefusal, WindowRequest};
use crate::host::window_rows::WindowRecording;

/// Sends a short answer.
fn send(socket: &mut UnixStream, text: &[u8]) {
    let _ = socket.set_nonblocking(false);
    let _ = socket.write_all(text);
    let _ = socket.set_nonblocking(true);
}

impl Tracer {
    /// Reads the requests on the socket.
    pub(super) fn requests(&mut self, socket: &mut UnixStream) {
        let mut byte = [0];
        loop {
            match socket.read(&mut byte) {
                Ok(0) => return self.finish(),
                Ok(_) if self.window_request.is_some() => self.add_to_request(byte[0], socket),
                Ok(_) if byte[0] == WINDOWS => self.window_request = Some(ArrivingRequest::default()),
                Ok(_) if byte[0] == protocol::FINISH => self.finish(),
                Ok(_) if byte[0] == protocol::READ => self.request_counts(),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }

    /// Records windows from the start of the command.
    ///
    /// # Errors
    ///
    /// Where it has executed anything yet.
    fn record_windows(&mut self, request: WindowRequest) -> Result<(), WindowRefusal> {
        if self.tracees.tasks.values().any(TracedTask::has_context) {
            return Err(WindowRefusal::Released);
        }
        self.settings.translation.budget = Some(request.period);
        self.recording = Some(WindowRecording::new(request));
        Ok(())
    }

    /// Adds a byte to a request for windows, and answers it at its end.
    fn add_to_request(&mut self, byte: u8, socket: &mut UnixStream) {
        if let Some(request) = self.window_request.as_mut().and_then(|request| request.add(byte)) {
            self.window_request = None;
            let answer = request.and_then(|request| self.record_windows(request));
            send(socket, window_protocol::answer(answer).as_bytes());
        }
    }

    /// Sends the rows of windows now and then, as far as the tool takes them.
    pub(super) fn send_rows(&mut self, socket: &mut UnixStream) {
        self.recording.iter_mut().for_each(|recording| recording.send_sometimes(socket));
    }

    /// Sends a report behind all rows.
    fn send_report(&mut self, socket: &mut UnixStream, text: &str) {
        let _ = socket.set_nonblocking(false);
        self.recording.iter_mut().for_each(|recording| recording.send(socket));
        let _ = socket.write_all(text.as_bytes());
        let _ = socket.set_nonblocking(true);
    }

    /// Sends the answer, when every task has answered.
    pub(super) fn send_answer(&mut self, socket: &mut UnixStream) {
        if self.counts.end_if_complete() {
            let text = self.snapshot(protocol::SO_FAR);
            self.send_report(socket, &text);
        }
    }

    /// Stops every process to read its counts.
    pub(super) fn request_counts(&mut self) {
        self.counts.begin();
        let tasks: Vec<u32> = self.tracees.tasks.keys().copied().collect();
        for tid in tasks {
            let Some(task) = self.tracees.tasks.get(&tid) else { continue };
            match (&task.mode, task.state().vfork_wait()) {
                (TaskMode::Untranslated, _) => {}
                // It does not execute translated code now.
                (TaskMode::Native(_), _) => self.record_counts(tid, None),
                (TaskMode::Translated(_), Some(VforkWait { pc, .. })) => {
                    self.record_counts(tid, Some(TranslatedPc::of_call(pc)))
                }
                (TaskMode::Translated(_), None) => self.request_counts_of(tid),
            }
        }
    }

    /// Asks a task for its counts. One that sleeps in a system call is not stopped: that would end the call,
    /// or start its timeout again.
    fn request_counts_of(&mut self, tid: u32) {
        // Behind an `execve` that was not reported yet, it is in a program that is not translated.
        if let Some(asleep) = SleepingThread::read(tid).filter(|asleep| self.is_translated(tid, asleep.pc)) {
            self.record_counts(tid, Some(TranslatedPc::of_call(asleep.pc)));
            if SleepingThread::read(tid) == Some(asleep) {
                return;
            }
        }
        if trace::interrupt(tid).is_ok() {
            self.counts.ask(tid);
        }
    }

    fn is_translated(&self, tid: u32, pc: u64) -> bool {
        let Some(TaskMode::Translated(context)) = self.tracees.tasks.get(&tid).map(|task| &task.mode) else {
            return false;
        };
        context.cache.borrow().translation.point_at(pc).is_some()
    }

    /// Reads the counts of a stopped task, if they were requested.
    pub(super) fn answer_request(&mut self, tid: u32) -> TraceResult {
        if self.counts.withdraw(tid) {
            let registers = trace::registers(tid)?;
            let pc = self.tracees.task(tid)?.pc(tid, &registers);
            self.record_counts(tid, Some(TranslatedPc::new(pc, &registers)));
        }
        Ok(())
    }

    /// Reads the counts of a task that does not run; `at` is where it is in translated code.
    pub(super) fn record_counts(&mut self, tid: u32, at: Option<TranslatedPc>) {
        self.tracees.tasks.get(&tid).iter().for_each(|task| self.counts.record(task, tid, at));
    }

    /// The counts of every process. Uses up the answers of its threads.
    pub(super) fn snapshot(&mut self, end: &str) -> String {
        let running = (end == protocol::LAST).then(|| self.running()).filter(|processes| *processes > 0);
        let mut answers = self.counts.take_answers();
        // The size of the executed code is no sum, and needs the executions of each block.
        let sums = Some(self.settings.events)
            .filter(|events| end != protocol::LAST && !events.contains(ExecutionEvent::DistinctCodeBytes));
        let reported = sums.unwrap_or_default();
        let profiled = self.settings.profiled && end == protocol::LAST;
        let mut profile = match profiled {
            true => std::mem::take(&mut self.ended_profile),
            false => CodeProfile::default(),
        };
        if profiled {
            self.note_threads();
        }
        let lines = self.tracees.processes.iter().enumerate().map(|(i, process)| {
            let answers = answers.remove(&i).unwrap_or_default();
            let totals = match sums {
                Some(events) => sums_of(process, answers, events),
                None => {
                    let mut own = CodeProfile::default();
                    let totals = totals(process, answers, profiled.then_some(&mut own));
                    profile.merge(match &self.owners {
                        Some(owners) => owners.own(i, own),
                        None => own,
                    });
                    totals
                }
            };
            let lines = protocol::process(process.pid, process.parent, &process.name, &totals, reported);
            lines + &process.uncounted().map(protocol::uncounted).unwrap_or_default()
        });
        let lines = lines.chain(running.map(protocol::running)).collect::<String>();
        let code = if profiled { self.code_lines(&profile) } else { String::new() };
        let owners = self.owners.as_ref().filter(|_| profiled);
        let owners = owners.map_or_else(Vec::new, |owners| owners.of(&profile, &self.tracees.processes));
        let code = protocol::owners(&owners) + &code;
        let objects = self.objects.as_ref().map(|objects| objects.borrow());
        let paths = self.call_paths.as_mut().filter(|_| profiled).map_or_else(String::new, |calls| {
            calls.lines(&self.tracees.processes, objects.as_deref(), &profile)
        });
        let modelled = self.modelling.as_ref().filter(|_| end == protocol::LAST);
        let modelled = modelled.map_or_else(String::new, |model| {
            protocol::modelled(&model.counts(), model.doubt(), |number| objects.as_deref()?.origin(number))
        });
        lines + &code + &paths + &modelled + end + "\n"
    }

    /// Notes the names of threads that have not ended, if they are kept apart.
    fn note_threads(&mut self) {
        let Some(owners) = self.owners.as_mut().filter(|owners| owners.are_threads()) else { return };
        for (tid, task) in self.tracees.tasks.iter().filter(|(_, task)| task.has_context()) {
            owners.note_thread(task.number, self.tracees.processes[task.process].pid, *tid);
        }
    }

    /// The lines of a profile, with the files of its code.
    fn code_lines(&self, profile: &CodeProfile) -> String {
        let objects = self.objects.as_ref().map(|objects| objects.borrow());
        protocol::code(profile, |number| objects.as_ref().and_then(|objects| objects.origin(number)))
    }

    /// The number of processes that still run when counting ends: detached ones, and those that cannot be
    /// detached yet.
    fn running(&self) -> usize {
        let waiting =
            self.tracees.tasks.values().filter(|task| !task.state().is_ended()).map(|task| task.process);
        waiting.chain(self.detaches.processes.iter().copied()).collect::<HashSet<_>>().len()
    }

    /// Sends the last report.
    pub(super) fn report(&mut self, socket: &mut UnixStream) {
        if std::mem::replace(&mut self.reported, true) {
            return;
        }
        self.counts.clear();
        let waiting = |(tid, task): (&u32, &TracedTask)| Some((*tid, task.state().vfork_wait()?.pc));
        let waiting: Vec<(u32, u64)> = self.tracees.tasks.iter().filter_map(waiting).collect();
        waiting.into_iter().for_each(|(tid, pc)| self.record_counts(tid, Some(TranslatedPc::of_call(pc))));
        let text = self.snapshot(protocol::LAST);
        self.send_report(socket, &text);
    }

    /// Reports early. A task that waits for its child (vfork) cannot be detached yet, and the report does not
    /// wait for it. It waits for children that have not stopped for the first time: they still run.
    pub(super) fn report_early(&mut self, socket: &mut UnixStream) {
        let waits = |task: &TracedTask| task.state().vfork_wait().is_some() || task.state().is_ended();
        if self.detaches.is_final
            && self.tracees.early_children.is_empty()
            && self.tracees.fork_events.is_empty()
            && self.tracees.tasks.values().all(waits)
        {
            self.report(socket);
        }
    }
}
