//! The counts of a process, from the answers of its threads.

use std::collections::{HashMap, HashSet};

use super::ledger::CounterSnapshot;
use super::process::{TaskMode, TracedProcess, TracedTask};
use super::translated_pc::TranslatedPc;
use super::translation_context::{ThreadCounts, TranslationCounts};
use crate::code_profile::CodeProfile;
use crate::{EventSet, EventTotals};

/// The counts of a thread in its translation, or the reason why they are unknown.
type ThreadAnswer = Result<TranslationCounts, String>;

/// A request for the counts of all tasks, and their answers.
#[derive(Default)]
pub(super) struct CountRequest {
    /// Whether the tool waits for an answer.
    pub(super) is_open: bool,
    /// Whether counts of threads are kept apart.
    by_thread: bool,
    /// Tasks that have not answered.
    pending: HashSet<u32>,
    /// Counts of the tasks that have answered, with the indices of their processes.
    answered: HashMap<u32, (usize, ThreadAnswer)>,
}

impl CountRequest {
    /// No request, of counts of each thread or of their sums.
    pub(super) fn new(by_thread: bool) -> CountRequest {
        CountRequest { by_thread, ..CountRequest::default() }
    }

    /// Begins a request: no task has answered.
    pub(super) fn begin(&mut self) {
        self.is_open = true;
        self.answered.clear();
    }

    /// Ends the request if every task has answered. Returns whether it did.
    pub(super) fn end_if_complete(&mut self) -> bool {
        self.is_open && self.pending.is_empty() && std::mem::take(&mut self.is_open)
    }

    /// A task is to answer at its next stop.
    pub(super) fn ask(&mut self, tid: u32) {
        self.pending.insert(tid);
    }

    /// A task is not asked any more. Returns whether it was.
    pub(super) fn withdraw(&mut self, tid: u32) -> bool {
        self.pending.remove(&tid)
    }

    /// Drops the answer of a task: its counts are added to its process.
    pub(super) fn forget(&mut self, tid: u32) {
        self.answered.remove(&tid);
    }

    /// Drops all answers.
    pub(super) fn clear(&mut self) {
        self.answered.clear();
    }

    /// Reads the counts of a task that does not run; `at` is where it is in translated code.
    pub(super) fn record(&mut self, task: &TracedTask, tid: u32, at: Option<TranslatedPc>) {
        let Some(context) = task.context() else { return };
        let thread = self.by_thread.then_some(task.number);
        let ledger = match at.filter(|_| matches!(task.mode, TaskMode::Translated(_))) {
            Some(position) => {
                context.ledger_at(position).ok_or("the process was read at an unknown program point")
            }
            None => Ok(context.ledger.clone()),
        };
        let tally =
            ledger.map(|ledger| CounterSnapshot::read(&context.cache.borrow(), context.slot, &ledger));
        let answer = tally
            .map(|tally| TranslationCounts { cache: context.cache.clone(), tally, thread })
            .map_err(str::to_owned);
        self.answered.insert(tid, (task.process, answer));
    }

    /// Takes the answers, by the index of the process.
    pub(super) fn take_answers(&mut self) -> HashMap<usize, Vec<ThreadAnswer>> {
        let mut answers: HashMap<usize, Vec<ThreadAnswer>> = HashMap::new();
        for (process, answer) in std::mem::take(&mut self.answered).into_values() {
            answers.entry(process).or_default().push(answer);
        }
        answers
    }
}

/// The counts of a process, of which each thread has answered or has ended. Adds its executions to a profile.
pub(super) fn totals(
    process: &TracedProcess,
    answers: Vec<ThreadAnswer>,
    profile: Option<&mut CodeProfile>,
) -> Result<EventTotals, String> {
    let profiled = profile.is_some();
    let parts = process_parts(process, answers)?.solve(profiled)?;
    process.totals(parts, profile.unwrap_or(&mut CodeProfile::default()))
}

/// The counts of a process of some events that are sums.
pub(super) fn sums_of(
    process: &TracedProcess,
    answers: Vec<ThreadAnswer>,
    events: EventSet,
) -> Result<EventTotals, String> {
    process.sums(process_parts(process, answers)?.read_out(events)?)
}

/// The counts of the threads of a process in translations that it has not left.
fn process_parts(process: &TracedProcess, answers: Vec<ThreadAnswer>) -> Result<ThreadCounts, String> {
    if let Some(reason) = &process.lost {
        return Err(reason.clone());
    }
    let ended_contexts = process.ended_contexts.iter().map(|context| Ok(TranslationCounts::of(context)));
    let ended_counts = process.ended_counts.iter().cloned().map(Ok);
    ended_counts.chain(ended_contexts).chain(answers).collect()
}

/// A thread that sleeps in a system call.
#[derive(PartialEq, Eq)]
pub(super) struct SleepingThread {
    /// The address where it continues.
    pub(super) pc: u64,
    /// Its run time so far, as the scheduler reports it.
    ran: String,
}

impl SleepingThread {
    /// `None` where it runs, or is blocked otherwise.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/syscall`: number, six arguments, stack pointer, program counter;
    /// `/proc/pid/schedstat`.
    pub(super) fn read(tid: u32) -> Option<SleepingThread> {
        let call = std::fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        let pc = call.trim_end().split(' ').nth(8)?.strip_prefix("0x")?;
        let ran = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
        Some(SleepingThread { pc: u64::from_str_radix(pc, 16).ok()?, ran })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_once_and_only_when_every_task_has_answered_or_is_gone() {
        let mut request = CountRequest::default();
        assert!(!request.end_if_complete(), "there is none");
        request.begin();
        request.ask(7);
        request.ask(8);
        assert!(request.withdraw(7) && !request.withdraw(7));
        assert!(!request.end_if_complete());
        assert!(request.withdraw(8));
        assert!(request.end_if_complete() && !request.end_if_complete());
    }
}
