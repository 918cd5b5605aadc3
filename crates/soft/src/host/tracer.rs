//! The tracer's loop: takes the events of all tracees, and acts on each.
//!
//! # Problem
//!
//! Events come from many tasks in any order. Some belong to a fork event that was not reported yet, some
//! arrive at a task that is being killed. Each event must be handled with the state that the task had when it
//! stopped.
//!
//! # Terms
//!
//! - *Event*: a change of a task that `wait` reports: a stop, an exit, a ptrace event.
//! - *Action*: the result of looking at an event ([`TaskAction`]), which the loop applies.
//! - *Outcome*: the result of the action ([`TraceResult`]). An error says that the task is gone, must be
//!   detached (with a reason), or needs a translation of its own.
//! - *Bell*: the wait for the next event or a byte on the socket, whichever comes first.
//!
//! ```text
//!    ┌──> take events ──> detach_last, delayed signals, retranslation, flushes, detaches ──┐
//!    │                                                                                     │
//!    └── wait (bell) <── answer a request for counts <── requests on the socket <──────────┘
//! ```
//!
//! # Invariants
//!
//! - A panic in a handler loses the counts of one process: the process is detached, and the loop continues.
//! - A task is resumed only by the code that has handled its stop.
//! - The last report is sent once, when no task is left, or when only tasks that wait for a child are left.

mod cache_flush;
mod exits;
mod forks;
pub(super) mod probe;
mod readings;
mod signals;
mod syscall_handlers;
mod threads;
mod translating;
use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::process::SIGKILL;
use cyclometer_sys::trace::{self, Bell, Change, Options, Registers};

use self::probe::InstructionProbe;
use super::TracerSettings;
use super::action::{ActionResult, InterruptKind, InterruptReaction, TaskAction};
use super::call_path_recording::CallPathRecording;
use super::code_objects::CodeObjects;
use super::cpu_binding::CpuFollower;
use super::delayed_signals::DelayedSignals;
use super::proc;
use super::process::{TaskMode, TracedTask};
use super::process_counts::CountRequest;
use super::restartable_checks::RestartableSearch;
use super::restarted_calls::restart_wait;
use super::retranslation_rounds::{MoveLimits, RetranslationRounds};
use super::syscalls::behind_call;
use super::task_state::{TaskEvent, TransitionEffect};
use super::trace_error::{TraceError, TraceResult};
use super::traced_by_others::AttachWait;
use super::tracees::Tracees;
use super::translation_store::TranslationStore;
use super::unseen_end;
use super::window_protocol::ArrivingRequest;
use super::window_rows::WindowRecording;
use crate::code_profile::CodeProfile;

pub(super) const SIGTRAP: i32 = 5;

/// Up to this many tasks, each event is handled by itself.
const FEW: usize = 8;

/// The changes for each task after which all tasks are looked at, where only few of them stop often.
const SELDOM: usize = 8;

/// The constant that replaces the 16 random bytes of a program with a fixed layout.
pub const FIXED_BYTES: [u8; 16] = *b"\xc7c~L\x8fM3t7r\xabF1x3d";

/// Follows processes.
pub(crate) struct Tracer {
    pub(super) settings: TracerSettings,
    pub(super) tracees: Tracees,
    /// The executions by address of processes that have ended, where they are requested.
    pub(super) ended_profile: CodeProfile,
    /// The call paths, where they are requested.
    pub(super) call_paths: Option<CallPathRecording>,
    pub(super) root: u32,
    /// Stopped until all other processes are detached.
    pub(super) detach_last: Vec<(u32, String)>,
    /// Stopped until the processes that they trace next are detached.
    attaching: Vec<AttachWait>,
    /// Stops of threads that are not answered, as another one is about to end their process.
    pub(super) postponed: Vec<(u32, Change)>,
    /// Signals that are sent again in a moment.
    pub(super) delayed_signals: DelayedSignals,
    pub(super) counts: CountRequest,
    pub(super) finishing: bool,
    /// Tasks that were killed while they were detached: they stop once more before they are gone.
    pub(super) detaching: HashSet<u32>,
    /// Processes that went on then.
    pub(super) detached_processes: HashSet<usize>,
    /// The last report was sent.
    pub(super) reported: bool,
    /// Whether the kernel reports every exit.
    pub(super) reports_exits: bool,
    pub(super) cpu: CpuFollower,
    pub(super) restartable: RestartableSearch,
    /// A probe that looks at every instruction, in tests.
    pub(super) probe: Option<Box<dyn InstructionProbe>>,
    pub(super) store: TranslationStore,
    pub(super) retranslation: RetranslationRounds,
    /// Files of code, where executions by address are requested.
    pub(super) objects: Option<Rc<RefCell<CodeObjects>>>,
    /// The start of the times in answers to threads that ask for their counts.
    pub(super) began: Instant,
    /// Windows that are recorded.
    pub(super) recording: Option<WindowRecording>,
    /// The beginning of a request for windows.
    pub(super) window_request: Option<ArrivingRequest>,
    /// Changes since the last round of all tasks.
    changes_since_round: usize,
}

/// Traces a process that has not executed its command yet, and reports `ready`. Follows it and its
/// descendants until they end, and sends the last report. See [`protocol`](super::protocol).
///
/// When the other end of the socket is closed, every process is detached.
pub(crate) fn follow(
    pid: u32,
    mut socket: UnixStream,
    settings: TracerSettings,
    profile: Option<&Path>,
    probe: Option<Box<dyn InstructionProbe>>,
) {
    let fork_options = Options::FORK | Options::VFORK | Options::VFORK_DONE | Options::CLONE;
    // If this process is killed, the tracees are killed with it: their translated code is full of stops that
    // no tracer would handle. No detached process stays bound to one CPU by that, because the binding is
    // undone before.
    let options = fork_options | Options::EXEC | Options::EXIT | Options::EXIT_KILL;
    if let Err(error) = trace::seize(pid, options) {
        let _ = writeln!(socket, "refused {}", error.raw_os_error().unwrap_or(0));
        return;
    }
    if socket.write_all(b"ready\n").is_err() {
        return;
    }
    // Each translation keeps files open. An exhausted limit is reported where a file is missing.
    let _ = cyclometer_sys::process::raise_open_files();
    cyclometer_sys::process::raise_private_memory();
    let Ok(bell_socket) = socket.try_clone() else { return };
    let Ok(bell) = Bell::new(&bell_socket) else { return };
    let mut tracer = Tracer::new(pid, settings, probe);
    tracer.store = TranslationStore::open(profile);
    // Events from before the bell existed are handled at once.
    let mut heard = true;
    loop {
        if heard || tracer.tracees.tasks.len() > FEW {
            tracer.take_changes();
        }
        tracer.detach_last_tasks();
        tracer.release_attaching();
        tracer.delayed_signals.send_due(&tracer.tracees);
        tracer.check_ages();
        tracer.run_ready_flushes();
        tracer.detach_ready();
        if tracer.is_done() {
            break;
        }
        if heard {
            tracer.requests(&mut socket);
            tracer.cpu.unbind_idle(&mut tracer.tracees);
        }
        tracer.send_answer(&mut socket);
        if tracer.is_done() {
            break;
        }
        tracer.report_early(&mut socket);
        tracer.send_rows(&mut socket);
        let binding_check = tracer.tracees.any_bound().then_some(super::cpu_affinity::CHECK_EVERY);
        let most = tracer
            .delayed_signals
            .soonest()
            .or(binding_check)
            .or_else(|| tracer.retranslation.next_check_in(&tracer.tracees));
        let most =
            tracer.recording.as_ref().and_then(WindowRecording::longest_wait).into_iter().chain(most).min();
        let change = bell.wait(most).ok().flatten();
        heard = change.is_none();
        if let Some((tid, change)) = change {
            tracer.handle_safely(tid, change);
            tracer.serve_all();
        }
        cyclometer_sys::daemon::enlarge_memory();
    }
    tracer.report(&mut socket);
    tracer.store.remember(&tracer.restartable);
    // This process ends, and all of its memory with it.
    std::mem::forget(tracer);
}

impl Tracer {
    fn new(root: u32, settings: TracerSettings, probe: Option<Box<dyn InstructionProbe>>) -> Tracer {
        let mut tracer = Tracer {
            settings,
            tracees: Tracees::default(),
            ended_profile: CodeProfile::default(),
            call_paths: settings.has_call_paths.then(CallPathRecording::default),
            root,
            detach_last: Vec::new(),
            attaching: Vec::new(),
            postponed: Vec::new(),
            delayed_signals: DelayedSignals::default(),
            counts: CountRequest::default(),
            finishing: false,
            detaching: HashSet::new(),
            detached_processes: HashSet::new(),
            reported: false,
            reports_exits: unseen_end::reports_exits(),
            cpu: CpuFollower::default(),
            restartable: RestartableSearch::default(),
            probe,
            store: TranslationStore::default(),
            retranslation: RetranslationRounds::new(settings.retranslation),
            objects: settings.profiled.then(Rc::default),
            began: Instant::now(),
            recording: None,
            window_request: None,
            changes_since_round: 0,
        };
        tracer.tracees.add_process(root, 0, TaskMode::Untranslated, false);
        tracer
    }

    /// The tasks that do not move to another translation now.
    fn move_limits(&self) -> MoveLimits {
        let all = self.probe.is_some() || self.finishing;
        MoveLimits { all, detached_last: self.detach_last.iter().map(|(tid, _)| *tid).collect() }
    }

    fn check_ages(&mut self) {
        let limits = self.move_limits();
        self.retranslation.check_ages(&mut self.tracees, &mut self.store, &self.restartable, &limits);
    }

    fn may_retranslate_now(&mut self, tid: u32) -> Result<bool, TraceError> {
        let limits = self.move_limits();
        self.retranslation.may_retranslate_now(&mut self.tracees, tid, &limits)
    }

    fn may_retranslate_at_call(&mut self, tid: u32, number: u64) -> Result<bool, TraceError> {
        let limits = self.move_limits();
        self.retranslation.may_retranslate_at_call(&mut self.tracees, (tid, number), &limits)
    }

    /// Whether no task is followed any more. A child with a fork event that has not stopped yet would be
    /// killed with the tracer.
    fn is_done(&self) -> bool {
        // The first thread of a detached process may have ended long before the others.
        let over = |task: &TracedTask| self.finishing && task.state().is_ended();
        self.tracees.tasks.values().all(over)
            && self.tracees.early_children.is_empty()
            && self.tracees.fork_events.is_empty()
    }

    /// Handles the events that have arrived, and no more than there are tasks: those that stop all the time
    /// have the next event by then, and requests would wait for ever.
    fn take_changes(&mut self) {
        for _ in 0..self.tracees.tasks.len().max(FEW) {
            let Ok(Some((tid, change))) = trace::wait() else { return };
            self.handle_safely(tid, change);
            self.serve_all();
            // Delayed signals would otherwise wait for a task that stops all the time.
            self.delayed_signals.send_due(&self.tracees);
        }
    }

    /// Now and then, handles one change of each task. The kernel reports the changes of the latest tracee
    /// first. Threads that make new code all the time would suspend the others for ever, as would threads
    /// whose windows end, or whose logs are full, all the time: all threads of those stop often, so each is
    /// looked at more often.
    ///
    /// # Source
    ///
    /// Linux `kernel/ptrace.c`, `__ptrace_link`: a tracee is added before all others; `kernel/exit.c`,
    /// `ptrace_do_wait`: the first with a change is reported.
    fn serve_all(&mut self) {
        self.changes_since_round += 1;
        let often = self.recording.is_some() || self.call_paths.is_some();
        let changes_of_each = if often { 1 } else { SELDOM };
        let is_shared = self.tracees.tasks.len() > 1;
        if !is_shared || self.changes_since_round < self.tracees.tasks.len() * changes_of_each {
            return;
        }
        self.changes_since_round = 0;
        let tasks: Vec<u32> = self.tracees.tasks.keys().copied().collect();
        for tid in tasks {
            if let Ok(Some(change)) = trace::poll(tid) {
                self.handle_safely(tid, change);
            }
        }
    }

    /// An internal error loses the counts of a process, and does not end it.
    fn handle_safely(&mut self, tid: u32, change: Change) {
        let process = self.tracees.tasks.get(&tid).map(|task| task.process);
        let changing = process.filter(|process| self.tracees.processes[*process].has_changed());
        let before = changing.and_then(|_| own_cpu_time());
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(tid, change)));
        if let (Some(process), Some(before)) = (changing, before) {
            self.tracees.processes[process].work += own_cpu_time().unwrap_or(before).saturating_sub(before);
        }
        if handled.is_err() {
            let reason = Some("met an internal error of the translator".to_owned());
            let left = catch_unwind(AssertUnwindSafe(|| self.detach(tid, reason, 0)));
            if left.is_err() {
                // It cannot continue anywhere, and would stay stopped for ever.
                let _ = trace::send_signal(proc::first_thread(tid).unwrap_or(tid), tid, SIGKILL);
            }
        }
    }

    pub(super) fn handle(&mut self, tid: u32, change: Change) {
        if self.detaching.contains(&tid) {
            return self.finish_detach(tid, change);
        }
        if change == Change::Exec {
            self.adopt_exec_thread(tid);
        }
        let outcome = match change {
            Change::Exited(_) | Change::Killed(_) => {
                self.task_gone(tid, Some(change));
                Ok(())
            }
            change if change != Change::Exiting && self.tracees.is_about_to_die(tid) => {
                self.postponed.push((tid, change));
                Ok(())
            }
            _ if !self.tracees.tasks.contains_key(&tid) => {
                self.unknown_task(tid, change);
                Ok(())
            }
            change => {
                let effect = self.note_stop(tid, change);
                self.tracees.forget_binding(tid, change);
                let action =
                    if change == Change::Exiting { self.exiting(tid) } else { self.stopped(tid, change) };
                let outcome = action.and_then(|action| self.act(tid, action));
                self.apply_outcome(tid, outcome);
                return self.carry_out(tid, effect);
            }
        };
        self.apply_outcome(tid, outcome);
    }

    /// Does what a handler has decided for a stopped task.
    fn act(&mut self, tid: u32, action: TaskAction) -> TraceResult {
        match action {
            TaskAction::Resume => self.resume_checked(tid),
            TaskAction::Continue { signal } => self.resume(tid, signal),
            TaskAction::RunOn => self.run_on(tid),
            TaskAction::Listen => self.listen(tid),
            TaskAction::Emulate { registers, result } => {
                self.resume_with(tid, &behind_call(registers, result))
            }
            TaskAction::ResumeWith(registers) => self.resume_with(tid, &registers),
            TaskAction::Enter(registers) => self.enter_translation(tid, registers),
            TaskAction::Flush => self.flush_here(tid),
            TaskAction::FlushAroundCall => self.flush_among_threads(tid),
            TaskAction::CompleteFlush(registers) => self.complete_flush(tid, &registers),
            TaskAction::Retranslate => self.retranslate(tid),
            TaskAction::Suspend { interrupted } => self.suspend_at_stop(tid, interrupted),
            TaskAction::Detach { reason, signal } => {
                self.detach(tid, reason, signal);
                Ok(())
            }
            TaskAction::DetachUnmapped(reason) => {
                self.unmap_when_detached(tid)?;
                Err(TraceError::Detach(reason.to_owned()))
            }
            TaskAction::AwaitDetach { target } => {
                self.attaching.push(AttachWait { caller: tid, target });
                Ok(())
            }
            TaskAction::DetachAll(reason) => {
                self.detach_all(tid, reason);
                Ok(())
            }
        }
    }

    /// Goes on in translated code with these registers.
    fn resume_with(&mut self, tid: u32, registers: &Registers) -> TraceResult {
        trace::set_registers(tid, registers)?;
        self.tracees.task(tid)?.last_pc = None;
        self.resume_checked(tid)
    }

    /// Acts on a task that could not be followed.
    pub(super) fn apply_outcome(&mut self, tid: u32, outcome: TraceResult) {
        match outcome {
            Ok(()) => {}
            Err(TraceError::Gone) => self.await_end(tid),
            Err(TraceError::Detach(reason)) => self.detach(tid, Some(reason), 0),
            Err(TraceError::OwnTranslation) => {
                self.detach(tid, Some("could not get a translation of its own".to_owned()), 0)
            }
        }
    }

    /// Clears state that was valid up to this stop. The effect comes after the stop is handled.
    fn note_stop(&mut self, tid: u32, change: Change) -> TransitionEffect {
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return TransitionEffect::Nothing };
        task.stopped_at = None;
        if change == Change::Exiting {
            return TransitionEffect::Nothing;
        }
        task.last_pc = None;
        task.apply(TaskEvent::Stopped { group_stop: matches!(change, Change::Group(_)) })
    }

    /// Looks at a stop that is not that of an exit.
    fn stopped(&mut self, tid: u32, change: Change) -> ActionResult {
        match change {
            Change::Exec => self.executed(tid),
            Change::Fork | Change::VFork | Change::Clone => self.forked(tid, change),
            Change::VForkDone => {
                let effect = self.tracees.task(tid)?.apply(TaskEvent::ChildReleased);
                self.carry_out(tid, effect);
                Ok(TaskAction::Resume)
            }
            Change::Interrupted => self.interrupted(tid, InterruptKind::ByTracer),
            Change::Group(_) => self.interrupted(tid, InterruptKind::GroupStop),
            Change::Signal(signal) => self.signal(tid, signal),
            _ => Ok(TaskAction::Continue { signal: 0 }),
        }
    }

    /// Looks at a stop by an interrupt of the tracer, or with the whole process.
    fn interrupted(&mut self, tid: u32, kind: InterruptKind) -> ActionResult {
        let is_in_own_code = self.tracees.is_in_own_code(tid);
        let request = self.tracees.task(tid)?.state().request().clone();
        let may_act = request.acts_at_interrupt(is_in_own_code);
        let is_about_to_stop = may_act && self.tracees.task(tid)?.is_about_to_stop(tid)?;
        match InterruptReaction::to(kind, &request, is_in_own_code, is_about_to_stop) {
            InterruptReaction::AwaitStop => Ok(TaskAction::RunOn),
            InterruptReaction::StayStopped => Ok(TaskAction::Listen),
            InterruptReaction::Suspend => {
                Ok(TaskAction::Suspend { interrupted: kind == InterruptKind::ByTracer })
            }
            InterruptReaction::Detach => {
                if kind == InterruptKind::ByTracer {
                    restart_wait(tid)?;
                }
                Ok(TaskAction::Resume)
            }
            InterruptReaction::Answer if kind == InterruptKind::GroupStop => {
                self.count_restart(tid)?;
                self.answer_request(tid)?;
                Ok(TaskAction::Listen)
            }
            InterruptReaction::Answer if self.may_retranslate_now(tid)? => Ok(TaskAction::Retranslate),
            InterruptReaction::Answer => {
                restart_wait(tid)?;
                self.answer_request(tid)?;
                Ok(TaskAction::Continue { signal: 0 })
            }
        }
    }
}

/// CPU time of the tracer so far.
fn own_cpu_time() -> Option<Duration> {
    let usage = cyclometer_sys::process::thread_usage().ok()?;
    Some(Duration::from_nanos(usage.user_ns + usage.system_ns))
}
