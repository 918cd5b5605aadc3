//! A whole command, executed step by step from its first instruction, for the model of caches.
//!
//! Unlike in a window, new threads and processes are followed, and an executed program begins with empty
//! caches.
//!
//! # Invariants
//!
//! - The first process is never reaped here: each thread is detached when it begins to end.
//! - A process is detached when it is stopped by job control, as its tracer would keep it from stopping; the
//!   reason is kept, because the counts are then those of a part.

use std::io;
use std::time::Duration;

use cyclometer_sys::trace::{self, Change, Options};

use super::miss_observer::MissObserver;
use super::{OnCpuOf, POLLS, SeizedThreads, StepState, SteppedThread};
use crate::host::proc;

/// A command and its descendants, executed step by step.
#[derive(Debug)]
pub struct EveryStep {
    threads: SeizedThreads,
    /// The state of each thread beside that of its steps, in the same order.
    followed: Vec<FollowedThread>,
    observer: MissObserver,
    steps: u64,
    threads_so_far: usize,
    left: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct FollowedThread {
    pid: u32,
    /// Whether it executes the command; before that it is our own code.
    is_of_command: bool,
    /// Its last stop was another one than that of a step.
    was_at_event: bool,
    /// It began its step after such a stop: the kernel may report a trap before the thread has executed an
    /// instruction.
    may_not_move: bool,
}

/// Steps between two looks at whether to go on.
const STEPS_BETWEEN_LOOKS: u64 = 4096;

/// Bytes of the instruction `syscall`.
const SYSCALL_BYTES: u64 = 2;

impl EveryStep {
    /// Follows a child that has not executed its command yet.
    ///
    /// # Errors
    ///
    /// The operating system's where it cannot be traced.
    pub fn of(root: u32, observer: MissObserver) -> io::Result<EveryStep> {
        let options = Options::EXIT | Options::EXEC | Options::FORK | Options::VFORK | Options::CLONE;
        trace::seize(root, options)?;
        let first = SteppedThread::new(root, 0);
        let followed =
            FollowedThread { pid: root, is_of_command: false, was_at_event: true, may_not_move: false };
        Ok(EveryStep {
            threads: SeizedThreads { all: vec![first], root },
            followed: vec![followed],
            observer,
            steps: 0,
            threads_so_far: 1,
            left: None,
        })
    }

    /// The model.
    pub fn observer(&self) -> &MissObserver {
        &self.observer
    }

    /// Why a part of the command was not followed, if so.
    pub fn left(&self) -> Option<&str> {
        self.left.as_deref()
    }

    /// Executes all threads until they end, or until `is_enough`; then what is left runs natively.
    pub fn run(&mut self, mut is_enough: impl FnMut() -> bool) {
        let mut looked_at = 0;
        // A step is two switches, which are quick on one CPU.
        let mut beside = None;
        while !self.threads.all.is_empty() {
            let before = self.steps;
            (0..self.threads.all.len()).for_each(|index| self.begin_step(index));
            let is_idle = self.steps == before;
            for index in 0..self.threads.all.len() {
                self.end_step(index, is_idle);
            }
            self.drop_ended();
            if (is_idle || self.steps - looked_at > STEPS_BETWEEN_LOOKS) && is_enough() {
                self.left.get_or_insert_with(|| "it was interrupted".to_owned());
                break;
            }
            if beside.is_none() || self.steps - looked_at > STEPS_BETWEEN_LOOKS {
                looked_at = self.steps;
                drop(beside.take());
                beside = self.threads.all.first().and_then(|thread| OnCpuOf::thread(thread.tid));
            }
            if is_idle && self.threads.all.iter().all(|thread| thread.state != StepState::Stopped) {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        let root = self.threads.root;
        drop(std::mem::replace(&mut self.threads, SeizedThreads { all: Vec::new(), root }));
    }

    fn drop_ended(&mut self) {
        let mut states = self.threads.all.iter().map(|thread| thread.state == StepState::Gone);
        self.followed.retain(|_| !states.next().unwrap_or(false));
        self.threads.all.retain(|thread| thread.state != StepState::Gone);
    }

    fn begin_step(&mut self, index: usize) {
        let (thread, followed) = (&mut self.threads.all[index], &mut self.followed[index]);
        if thread.state != StepState::Stopped {
            return;
        }
        if !followed.is_of_command {
            let signal = std::mem::take(&mut thread.signal);
            thread.state = match trace::resume(thread.tid, signal) {
                Ok(()) => StepState::Stepping,
                Err(_) => StepState::Dying,
            };
            return;
        }
        let Ok(now) = trace::registers(thread.tid) else {
            thread.state = StepState::Dying;
            return;
        };
        if let Some(before) = thread.before.take()
            && !(followed.may_not_move && before.rip == now.rip)
        {
            self.observer.executed(followed.pid, thread.tid, &before, now.rip);
            self.steps += 1;
        }
        followed.may_not_move = std::mem::take(&mut followed.was_at_event);
        let signal = std::mem::take(&mut thread.signal);
        thread.may_wait = followed.may_not_move
            || signal != 0
            || self.observer.enters_kernel(followed.pid, thread.tid, now.rip);
        thread.before = Some(now).filter(|_| signal == 0);
        match trace::step(thread.tid, signal) {
            Ok(()) => (thread.state, thread.waited) = (StepState::Stepping, 0),
            Err(_) => thread.state = StepState::Dying,
        }
    }

    fn end_step(&mut self, index: usize, is_idle: bool) {
        let thread = &mut self.threads.all[index];
        match thread.state {
            StepState::Dying => return thread.detach(self.threads.root),
            StepState::Stepping => {}
            StepState::Stopped | StepState::Gone => return,
        }
        let tid = thread.tid;
        if !thread.may_wait {
            return match trace::wait_for(tid) {
                Ok(change) => self.change(index, change),
                Err(_) => self.threads.all[index].state = StepState::Dying,
            };
        }
        for _ in 0..if is_idle { 1 } else { POLLS } {
            match trace::poll(tid) {
                Ok(Some(change)) => return self.change(index, change),
                Ok(None) => std::thread::yield_now(),
                Err(_) => {
                    self.threads.all[index].state = StepState::Dying;
                    return;
                }
            }
        }
    }

    fn change(&mut self, index: usize, change: Change) {
        let (thread, followed) = (&mut self.threads.all[index], &mut self.followed[index]);
        match change {
            Change::Fork | Change::VFork | Change::Clone => {
                self.end_of_call(index);
                let tid = self.threads.all[index].tid;
                self.adopt(tid);
                self.stop_at_event(index);
            }
            Change::Exec => {
                (followed.is_of_command, thread.before) = (true, None);
                let (tid, pid) = (thread.tid, followed.pid);
                // Other threads of the process have ended, and the first one's id is that of the caller.
                let former = trace::event_message(tid).ok().and_then(|id| u32::try_from(id).ok());
                for (other, known) in self.threads.all.iter_mut().zip(&self.followed) {
                    if known.pid == pid && other.tid != tid
                        || Some(other.tid) == former && former != Some(tid)
                    {
                        other.state = StepState::Gone;
                    }
                }
                self.observer.begin_process(pid);
                self.stop_at_event(index);
            }
            Change::Exiting => {
                self.end_of_call(index);
                self.threads.all[index].detach_with(0);
            }
            Change::Group(_) if followed.is_of_command => {
                thread.note(change);
                let text =
                    format!("job control stopped process {}: it ran natively from there", followed.pid);
                self.left.get_or_insert(text);
            }
            Change::Interrupted => self.stop_at_event(index),
            _ => thread.note(change),
        }
    }

    /// Counts the system call that a thread is in.
    fn end_of_call(&mut self, index: usize) {
        let (thread, followed) = (&mut self.threads.all[index], &self.followed[index]);
        let Some(before) = thread.before.take() else { return };
        if self.observer.enters_kernel(followed.pid, thread.tid, before.rip) {
            self.observer.executed(followed.pid, thread.tid, &before, before.rip + SYSCALL_BYTES);
            self.steps += 1;
        }
    }

    /// The next step of a thread may end before its first instruction.
    fn stop_at_event(&mut self, index: usize) {
        let thread = &mut self.threads.all[index];
        thread.state = StepState::Stopped;
        thread.before = None;
        self.followed[index].was_at_event = true;
    }

    /// Follows the thread or process that a thread has made; the kernel traces it already.
    fn adopt(&mut self, parent: u32) {
        let Some(tid) = trace::event_message(parent).ok().and_then(|id| u32::try_from(id).ok()) else {
            return;
        };
        let pid = proc::first_thread(tid).unwrap_or(tid);
        self.threads.all.push(SteppedThread::new(tid, self.threads_so_far));
        self.threads_so_far += 1;
        self.followed.push(FollowedThread {
            pid,
            is_of_command: true,
            was_at_event: true,
            may_not_move: false,
        });
    }
}
