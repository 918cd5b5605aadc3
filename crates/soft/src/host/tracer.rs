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
use super::action::{ActionResult, InterruptKind, TaskAction};
use super::call_path_recording::CallPathRecording;
use super::code_objects::CodeObjects;
use super::cpu_binding::CpuFollower;
use super::delayed_signals::DelayedSignals;
use super::detach_progress::DetachProgress;
use super::modelled_accesses::CacheModelling;
use super::proc;
use super::process::{TaskMode, TracedTask};
use super::process_counts::CountRequest;
use super::profile_owners::ProfileOwners;
use super::restartable_checks::RestartableSearch;
use super::retranslation_rounds::RetranslationRounds;
use super::syscalls::behind_call;
use super::task_rounds::TaskRounds;
use super::task_state::{TaskEvent, TransitionEffect};
use super::trace_error::{TraceError, TraceResult};
use super::traced_by_others::AttachWait;
use super::tracees::Tracees;
use super::translation_store::TranslationStore;
use super::unseen_end;
use super::window_protocol::ArrivingRequest;
use super::window_rows::WindowRecording;
use crate::code_profile::{CodeProfile, ProfileOwner};

pub(super) const SIGTRAP: i32 = 5;

/// Up to this many tasks, each event is handled by itself.
const FEW: usize = 8;

/// The constant that replaces the 16 random bytes of a program with a fixed layout.
pub const FIXED_BYTES: [u8; 16] = *b"\xc7c~L\x8fM3t7r\xabF1x3d";

/// Follows processes.
pub(crate) struct Tracer {
    pub(super) settings: TracerSettings,
    pub(super) tracees: Tracees,
    /// The executions by address of processes that have ended, where they are requested.
    pub(super) ended_profile: CodeProfile,
    /// The owners whose executions are kept apart.
    pub(super) owners: Option<ProfileOwners>,
    /// The call paths, where they are requested.
    pub(super) call_paths: Option<CallPathRecording>,
    /// The model of caches, where it is requested.
    pub(super) modelling: Option<CacheModelling>,
    pub(super) root: u32,
    /// Stops of threads that are not answered, as another one is about to end their process.
    pub(super) postponed: Vec<(u32, Change)>,
    /// Signals that are sent again in a moment.
    pub(super) delayed_signals: DelayedSignals,
    pub(super) counts: CountRequest,
    pub(super) detaches: DetachProgress,
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
    rounds: TaskRounds,
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
    let mut tracer = Tracer::new(pid, settings.for_this_processor(), probe);
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
            owners: settings.owners.map(ProfileOwners::new),
            call_paths: settings.has_call_paths.then(CallPathRecording::default),
            modelling: settings.caches.map(CacheModelling::new),
            root,
            postponed: Vec::new(),
            delayed_signals: DelayedSignals::default(),
            counts: CountRequest::new(settings.owners == Some(ProfileOwner::Thread)),
            detaches: DetachProgress::default(),
            reported: false,
            reports_exits: unseen_end::reports_exits(),
            cpu: CpuFollower::default(),
            restartable: RestartableSearch::default(),
            probe,
            store: TranslationStore::default(),
            retranslation: RetranslationRounds::new(settings.retranslation),
            objects: (settings.profiled || settings.caches.is_some()).then(Rc::default),
            began: Instant::now(),
            recording: None,
            window_request: None,
            rounds: TaskRounds::default(),
        };
        tracer.tracees.add_process(root, 0, TaskMode::Untranslated, false);
        tracer
    }

    /// Whether no task is followed any more. A child with a fork event that has not stopped yet would be
    /// killed with the tracer.
    fn is_done(&self) -> bool {
        // The first thread of a detached process may have ended long before the others.
        let over = |task: &TracedTask| self.detaches.is_final && task.state().is_ended();
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

    /// Now and then, handles one change of each task.
    fn serve_all(&mut self) {
        let all_stop_often =
            self.recording.is_some() || self.call_paths.is_some() || self.modelling.is_some();
        if !self.rounds.is_due(self.tracees.tasks.len(), all_stop_often) {
            return;
        }
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
        if self.detaches.killed.contains(&tid) {
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
                self.detaches.add_wait(AttachWait { caller: tid, target });
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
}

/// CPU time of the tracer so far.
fn own_cpu_time() -> Option<Duration> {
    let usage = cyclometer_sys::process::thread_usage().ok()?;
    Some(Duration::from_nanos(usage.user_ns + usage.system_ns))
}
