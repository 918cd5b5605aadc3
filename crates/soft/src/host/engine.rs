//! Follows a command and its descendants: what becomes of each stop.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::process::SIGKILL;
use cyclometer_sys::trace::{self, Bell, Change, Options, Registers};

use super::TracerSettings;
use super::births::{ForkEvent, USER_CS};
use super::code::CodeReader;
use super::hints::ProfileStore;
use super::kept::TranslationCache;
use super::maps::{MapsCache, MemoryMaps};
use super::pace::DelayedSignal;
use super::probe::InstructionProbe;
use super::process::{TaskMode, TracedProcess, TracedTask, TranslatedPc, TranslationContext};
use super::restartable;
use super::sharing::SharedTranslations;
use super::space::CodeCacheMapping;
use super::threads::TranslationCounts;
use crate::block::DetachReason;
use crate::translate::{self, StopReason, TranslationNeed};

pub(super) const SIGTRAP: i32 = 5;

/// How many stops we stay on a CPU at least.
const MOVE_EVERY: u64 = 100;

/// Of so many tasks each change is looked at by itself.
const FEW: usize = 8;

/// What a program gets instead of 16 random bytes where its layout is fixed: any constant does.
pub const FIXED_BYTES: [u8; 16] = *b"\xc7c~L\x8fM3t7r\xabF1x3d";

/// Follows processes.
pub(crate) struct Tracer {
    pub(super) settings: TracerSettings,
    pub(super) tasks: HashMap<u32, TracedTask>,
    pub(super) processes: Vec<TracedProcess>,
    /// Children that we heard of before they stopped for the first time.
    pub(super) born: HashMap<u32, ForkEvent>,
    /// Children that stopped before we heard of them, and their parents.
    pub(super) early: HashMap<u32, u32>,
    /// What killed processes would have made: nobody tells of a child whose maker was killed while it made it.
    pub(super) orphanages: Vec<ForkEvent>,
    pub(super) root: u32,
    /// Stopped until every other process has gone on without us.
    pub(super) held: Vec<(u32, String)>,
    /// Stops of threads that are not answered, as another one is about to end their process.
    pub(super) postponed: Vec<(u32, Change)>,
    /// Signals that are sent again in a moment.
    pub(super) held_back: Vec<DelayedSignal>,
    /// Tasks that have not answered a request for counts.
    pub(super) asked: HashSet<u32>,
    /// What tasks have counted that did: with the indices of their processes.
    pub(super) answered: HashMap<u32, (usize, Result<TranslationCounts, String>)>,
    pub(super) reading: bool,
    pub(super) finishing: bool,
    /// Tasks that were killed as they were let go: they stop once more before they are gone.
    pub(super) parting: HashSet<u32>,
    /// Processes that went on then.
    pub(super) went_on: HashSet<usize>,
    /// The last report was sent.
    pub(super) reported: bool,
    /// Whether the kernel tells of every end.
    pub(super) tells_of_ends: bool,
    /// How often we were asked to go on.
    pub(super) stops: u64,
    /// The CPU that we have bound ourselves to.
    pub(super) own_cpu: Option<u32>,
    /// Parts of files that have no restartable sequences.
    pub(super) unmarked: HashSet<restartable::FilePart>,
    /// Who looks at every instruction, in tests.
    pub(super) probe: Option<Box<dyn InstructionProbe>>,
    /// Translations that programs can join.
    pub(super) pool: SharedTranslations,
    /// What earlier runs have executed, and this one so far.
    pub(super) hints: Option<Rc<RefCell<ProfileStore>>>,
    /// What they have translated.
    pub(super) shelf: Option<TranslationCache>,
    /// When it was last looked for programs that are to get another translation.
    pub(super) looked_back: Instant,
}

/// Why a task cannot be followed any more.
pub(super) enum TraceError {
    /// It has ended, or is about to.
    Gone,
    /// It must go on without us; why.
    Detach(String),
    /// It needs a translation of its own.
    OwnTranslation,
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        match error.raw_os_error() {
            Some(cyclometer_sys::process::errno::ESRCH) => TraceError::Gone,
            _ => TraceError::Detach(format!("could not be translated: {error}")),
        }
    }
}

pub(super) type TraceResult = Result<(), TraceError>;

/// Traces a process that has not executed its command yet, says so, and follows it until it ends, with all that it
/// starts; then reports. See [`protocol`](super::protocol).
///
/// When the other end of the socket is closed, every process goes on without us.
pub(crate) fn follow(
    pid: u32,
    mut socket: UnixStream,
    settings: TracerSettings,
    hints: Option<&Path>,
    probe: Option<Box<dyn InstructionProbe>>,
) {
    let births = Options::FORK | Options::VFORK | Options::VFORK_DONE | Options::CLONE;
    // Should this process be killed, so are those that it follows: their translated code is full of stops that nobody would
    // answer. None is left behind bound to one CPU by that, as those that go on without us are let free before.
    let options = births | Options::EXEC | Options::EXIT | Options::EXIT_KILL;
    if let Err(error) = trace::seize(pid, options) {
        let _ = writeln!(socket, "refused {}", error.raw_os_error().unwrap_or(0));
        return;
    }
    if socket.write_all(b"ready\n").is_err() {
        return;
    }
    // Each translation keeps files open. Where no more are allowed, that is told where one is missing.
    let _ = cyclometer_sys::process::raise_open_files();
    let Ok(bell_socket) = socket.try_clone() else { return };
    let Ok(bell) = Bell::new(&bell_socket) else { return };
    let mut engine = Tracer::new(pid, settings, probe);
    let (store, kept) = ProfileStore::open(hints);
    engine.hints = Some(Rc::new(RefCell::new(store)));
    engine.shelf = hints
        .filter(|_| kept)
        .and_then(|hints| TranslationCache::open(&hints.with_file_name("translations")));
    // What came before the bell was there is looked at once.
    let mut heard = true;
    loop {
        if heard || engine.tasks.len() > FEW {
            engine.take_changes();
        }
        engine.release_held();
        engine.send_held();
        engine.look_back();
        engine.renew_ready();
        engine.depart_ready();
        if engine.is_done() {
            break;
        }
        if heard {
            engine.requests(&mut socket);
            engine.cool_idle();
        }
        engine.tell(&mut socket);
        if engine.is_done() {
            break;
        }
        engine.report_early(&mut socket);
        let warm = engine.is_warm().then_some(super::warm::LOOK_EVERY);
        let most = engine.soonest_held().or(warm).or_else(|| engine.looks_back());
        let change = bell.wait(most).ok().flatten();
        heard = change.is_none();
        change.into_iter().for_each(|(tid, change)| engine.handle_safely(tid, change));
        cyclometer_sys::keeper::enlarge_memory();
    }
    engine.report(&mut socket);
    engine.remember();
    // This process ends, and all of its memory with it.
    std::mem::forget(engine);
}

impl Tracer {
    fn new(root: u32, settings: TracerSettings, probe: Option<Box<dyn InstructionProbe>>) -> Tracer {
        let mut engine = Tracer {
            settings,
            tasks: HashMap::new(),
            processes: Vec::new(),
            born: HashMap::new(),
            early: HashMap::new(),
            orphanages: Vec::new(),
            root,
            held: Vec::new(),
            postponed: Vec::new(),
            held_back: Vec::new(),
            asked: HashSet::new(),
            answered: HashMap::new(),
            reading: false,
            finishing: false,
            parting: HashSet::new(),
            went_on: HashSet::new(),
            reported: false,
            tells_of_ends: super::exits::tells_of_ends(),
            stops: 0,
            own_cpu: None,
            unmarked: HashSet::new(),
            probe,
            pool: SharedTranslations::default(),
            hints: None,
            shelf: None,
            looked_back: Instant::now(),
        };
        engine.adopt(root, 0, TaskMode::Untranslated, false);
        engine
    }

    /// Whether nobody is followed any more. A child that we heard of and that has not stopped yet would die with us.
    fn is_done(&self) -> bool {
        // The first thread of a process that goes on without us may have ended long before the others.
        let over = |task: &TracedTask| self.finishing && task.ended;
        self.tasks.values().all(over) && self.early.is_empty() && self.born.is_empty()
    }

    pub(super) fn adopt(&mut self, tid: u32, parent: u32, mode: TaskMode, filtered: bool) {
        self.processes.push(TracedProcess::new(tid, parent));
        let task = TracedTask::new(self.processes.len() - 1, mode, filtered);
        self.tasks.insert(tid, task);
    }

    pub(super) fn task(&mut self, tid: u32) -> Result<&mut TracedTask, TraceError> {
        self.tasks.get_mut(&tid).ok_or(TraceError::Gone)
    }

    /// What a task's process is called by.
    pub(super) fn process(&mut self, tid: u32) -> Option<&mut TracedProcess> {
        let index = self.tasks.get(&tid)?.process;
        self.processes.get_mut(index)
    }

    /// Takes what has changed by now.
    fn take_changes(&mut self) {
        while let Ok(Some((tid, change))) = trace::wait() {
            self.handle_safely(tid, change);
            // Who is stopped all the time waits for them.
            self.send_held();
        }
    }

    /// An error of ours costs the counts of a process, not its life.
    fn handle_safely(&mut self, tid: u32, change: Change) {
        let process = self.tasks.get(&tid).map(|task| task.process);
        let changing = process.filter(|process| self.processes[*process].has_changed());
        let before = changing.and_then(|_| own_cpu_time());
        let handled = catch_unwind(AssertUnwindSafe(|| self.handle(tid, change)));
        if let (Some(process), Some(before)) = (changing, before) {
            self.processes[process].work += own_cpu_time().unwrap_or(before).saturating_sub(before);
        }
        if handled.is_err() {
            let reason = Some("met an internal error of the translator".to_owned());
            let left = catch_unwind(AssertUnwindSafe(|| self.leave(tid, reason, 0)));
            if left.is_err() {
                // It cannot go on anywhere: better gone than stopped for ever.
                let _ = trace::send_signal(super::threads::first_thread(tid).unwrap_or(tid), tid, SIGKILL);
            }
        }
    }

    pub(super) fn handle(&mut self, tid: u32, change: Change) {
        if self.parting.contains(&tid) {
            return self.see_off(tid, change);
        }
        if change == Change::Exec {
            self.take_over(tid);
        }
        let outcome = match change {
            Change::Exited(_) | Change::Killed(_) => {
                self.gone(tid, Some(change));
                Ok(())
            }
            change if change != Change::Exiting && self.is_about_to_die(tid) => {
                self.postponed.push((tid, change));
                Ok(())
            }
            _ if !self.tasks.contains_key(&tid) => {
                self.stranger(tid, change);
                Ok(())
            }
            change => {
                let revived = self.note_stop(tid, change);
                self.forget_bound(tid, change);
                let outcome =
                    if change == Change::Exiting { self.exiting(tid) } else { self.stopped(tid, change) };
                if revived {
                    self.take_up_postponed();
                }
                outcome
            }
        };
        self.conclude(tid, outcome);
    }

    /// What becomes of a task that could not be followed.
    pub(super) fn conclude(&mut self, tid: u32, outcome: TraceResult) {
        match outcome {
            Ok(()) => {}
            Err(TraceError::Gone) => self.let_go(tid),
            Err(TraceError::Detach(reason)) => self.leave(tid, Some(reason), 0),
            Err(TraceError::OwnTranslation) => {
                self.leave(tid, Some("could not be translated apart".to_owned()), 0)
            }
        }
    }

    /// What was true of a task up to this stop. Whether it was about to end its process, and does not.
    fn note_stop(&mut self, tid: u32, change: Change) -> bool {
        let Some(task) = self.tasks.get_mut(&tid) else { return false };
        task.stopped_at = None;
        if change != Change::Exiting {
            task.last = None;
        }
        task.paused &= matches!(change, Change::Group(_));
        if change == Change::Exiting {
            return false;
        }
        task.ends = None;
        std::mem::take(&mut task.ends_all)
    }

    fn stopped(&mut self, tid: u32, change: Change) -> TraceResult {
        let task = self.task(tid)?;
        let (dismissed, summoned) = (task.dismissed.is_some(), task.summoned);
        match change {
            Change::Exec => self.executed(tid),
            Change::Fork | Change::VFork | Change::Clone => self.gave_birth(tid, change),
            Change::VForkDone => {
                self.task(tid)?.suspended = None;
                self.go(tid)
            }
            // What it stops for is told next: it leaves from there.
            Change::Interrupted if dismissed && self.is_about_to_stop(tid)? => self.run_on(tid),
            Change::Group(_) if dismissed && self.is_about_to_stop(tid)? => self.listen(tid),
            Change::Interrupted | Change::Group(_) if dismissed => {
                if change == Change::Interrupted {
                    go_on_waiting(tid)?;
                }
                let reason = self.task(tid)?.dismissed.take().flatten();
                self.leave(tid, reason, 0);
                Ok(())
            }
            Change::Interrupted | Change::Group(_) if summoned && !self.is_in_own_code(tid) => {
                self.summoned_stop(tid, change)
            }
            Change::Interrupted if self.begins_anew(tid)? => self.begin_anew(tid),
            Change::Interrupted => {
                go_on_waiting(tid)?;
                self.answer(tid)?;
                self.resume(tid, 0)
            }
            Change::Group(_) => {
                self.count_restart(tid)?;
                self.answer(tid)?;
                self.listen(tid)
            }
            Change::Signal(signal) => self.signal(tid, signal),
            _ => self.resume(tid, 0),
        }
    }

    /// Whether a task is on the way into a handler, or back from one.
    fn is_in_own_code(&self, tid: u32) -> bool {
        matches!(self.tasks.get(&tid).map(|task| &task.mode), Some(TaskMode::Native(_)))
    }

    /// Goes on in translated code; the registers are the program's.
    pub(super) fn enter(&mut self, tid: u32, registers: Registers) -> TraceResult {
        if registers.cs != USER_CS {
            // What a handler goes back to may be of the other kind.
            return Err(TraceError::Detach("goes on in 32-bit code".to_owned()));
        }
        match self.enter_here(tid, registers) {
            Err(TraceError::OwnTranslation) => {
                trace::set_registers(tid, &registers)?;
                self.renew_here(tid)
            }
            outcome => outcome,
        }
    }

    /// The same with the translation that there is.
    fn enter_here(&mut self, tid: u32, mut registers: Registers) -> TraceResult {
        let (room, hints) = (self.room(tid)?, self.hints.clone());
        let task = self.task(tid)?;
        let TaskMode::Native(mut seat) = std::mem::replace(&mut task.mode, TaskMode::Untranslated) else {
            return Err(TraceError::Gone);
        };
        let address = registers.rip;
        let body = {
            let space = &mut seat.space.borrow_mut();
            let mut reader = CodeReader::new(tid, &mut seat.maps, hints.as_deref());
            let body = with_room(space, tid, room, |space| space.translation.enter(&mut reader, address));
            body.and_then(|body| {
                space.apply();
                (registers.rip, registers.gs_base) = (body, space.base_of(seat.slot));
                space.store(seat.slot, translate::R11, registers.r11);
                // Who was killed meanwhile stays where it is.
                trace::set_registers(tid, &registers)?;
                let block = space.translation.block_at(address);
                block.into_iter().for_each(|block| seat.ledger.enter(space, block));
                Ok(())
            })
        };
        let task = self.task(tid)?;
        match body {
            Ok(()) => {
                (task.mode, task.last) =
                    (TaskMode::Translated(seat), Some(TranslatedPc::new(registers.rip, &registers)));
                task.pace.come_back(address);
                self.go(tid)
            }
            Err(trouble) => {
                task.mode = TaskMode::Native(seat);
                Err(trouble)
            }
        }
    }

    /// What becomes of a stop that the translator put there.
    pub(super) fn own_stop(&mut self, tid: u32, stop: StopReason, registers: Registers) -> TraceResult {
        match stop {
            StopReason::DirectLink | StopReason::IndirectBranch => self.go_on(tid, stop, registers),
            StopReason::SystemCall if self.begins_anew_at_call(tid, registers.rax)? => self.begin_anew(tid),
            StopReason::SystemCall => self.system_call(tid, registers),
            StopReason::CpuQuery(question) => self.ask_processor(tid, question, registers),
            StopReason::Breakpoint => self.deliver(tid, SIGTRAP),
            StopReason::Detach(DetachReason::Unreadable) => self.unreadable(tid),
            StopReason::Detach(reason) => {
                self.leave(tid, Some(format!("has {}", reason.word())), 0);
                Ok(())
            }
        }
    }

    /// Translates what comes next, and goes on there.
    fn go_on(&mut self, tid: u32, stop: StopReason, registers: Registers) -> TraceResult {
        if stop == StopReason::IndirectBranch && is_vsyscall(registers.rcx) {
            return Err(TraceError::Detach("calls the kernel's vsyscall page".to_owned()));
        }
        self.stay_near(tid);
        let (room, hints) = (self.room(tid)?, self.hints.clone());
        let task = self.task(tid)?;
        let TaskMode::Translated(seat) = &mut task.mode else { return Err(TraceError::Gone) };
        let space = seat.space.clone();
        let mut space = space.borrow_mut();
        let mut reader = CodeReader::new(tid, &mut seat.maps, hints.as_deref());
        let (at, target) = (registers.rip.wrapping_sub(1), registers.rcx);
        let to = with_room(&mut space, tid, room, |space| match stop {
            StopReason::DirectLink => space.translation.link(&mut reader, at),
            _ => space.translation.indirect(&mut reader, target).map(Some),
        });
        space.apply();
        drop(space);
        if let Err(TraceError::OwnTranslation) = to {
            return self.renew_here(tid);
        }
        trace::set_instruction_pointer(tid, to?.ok_or(TraceError::Gone)?)?;
        self.go(tid)
    }

    /// Moves to the CPU of a process that stops often: we run while it waits.
    fn stay_near(&mut self, tid: u32) {
        if self.stops.is_multiple_of(MOVE_EVERY) {
            self.own_cpu = self.bound_to(tid).or_else(|| cpu_of(tid));
            self.own_cpu.into_iter().for_each(cyclometer_sys::keeper::run_on);
        }
        self.stops += 1;
    }

    /// Whether another process than a task's executes a translation, or one that was just born will.
    pub(super) fn is_shared(&self, tid: u32, space: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        let own = self.tasks.get(&tid).map(|task| task.process);
        let born = self.born.values().any(|birth| birth.thread_of.is_none() && birth.uses(space));
        born || self.tasks.values().any(|task| Some(task.process) != own && task.uses(space))
    }

    /// Whether a translation is executed in another memory than a task's: not only by itself, other threads of its process,
    /// and who borrows their memory.
    pub(super) fn is_mapped_elsewhere(&self, tid: u32, space: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        let own = self.tasks.get(&tid).map(|task| task.process);
        let borrows = |child: &u32| {
            let lends = |task: &TracedTask| Some(task.process) == own && task.is_suspended_by(*child);
            self.tasks.values().any(lends)
        };
        let lends = |task: &TracedTask| task.is_suspended_by(tid);
        let lender = self.tasks.values().find(|task| lends(task)).map(|task| task.process);
        let shares = |(other, task): (&u32, &TracedTask)| {
            Some(task.process) == own || Some(task.process) == lender || borrows(other)
        };
        self.tasks.iter().any(|(other, task)| task.uses(space) && !shares((other, task)))
            || self.born.values().any(|birth| birth.thread_of.is_none() && birth.uses(space))
    }

    /// Whether the translation that a task executes may be given more memory.
    fn room(&mut self, tid: u32) -> Result<MappingPermission, TraceError> {
        let task = self.task(tid)?;
        let (TaskMode::Translated(seat) | TaskMode::Native(seat)) = &task.mode else {
            return Ok(MappingPermission::Allowed);
        };
        let (filtered, home) = (task.filtered, seat.space.clone());
        Ok(match () {
            () if filtered => MappingPermission::Filtered,
            () if self.is_mapped_elsewhere(tid, &home) => MappingPermission::Elsewhere,
            () => MappingPermission::Allowed,
        })
    }

    /// Replaces the translation, because the code changes or there is no more room. The registers are the program's then.
    pub(super) fn renew(&mut self, tid: u32) -> Result<Registers, TraceError> {
        let registers = self.surface(tid)?.ok_or(TraceError::Gone)?;
        let settings = self.settings.translation;
        let task = self.task(tid)?;
        let process = task.process;
        let shared = task.suspended.is_some() || self.tasks.values().any(|other| other.is_suspended_by(tid));
        let filtered = self.task(tid)?.filtered;
        let reason = match () {
            () if filtered => "filters its system calls",
            () if shared => "changes its code while its maker waits for it",
            () if !self.processes[process].may_change() => "keeps changing its code",
            () => "",
        };
        if !reason.is_empty() {
            return Err(TraceError::Detach(reason.to_owned()));
        }
        let TaskMode::Native(seat) = &self.task(tid)?.mode else { return Err(TraceError::Gone) };
        let old = seat.space.clone();
        let allowance = self.allowance(tid);
        let mut space = CodeCacheMapping::after(&old.borrow(), tid, registers.rip, allowance, settings)?;
        self.move_listings(tid, &old, &mut space);
        self.close(tid);
        let slot = space.take_slot().ok_or(TraceError::Gone)?;
        let seat = TranslationContext::new(Rc::new(RefCell::new(space)), slot);
        self.task(tid)?.mode = TaskMode::Native(seat);
        Ok(registers)
    }

    /// Nothing executable is where the program went, or something that may change.
    fn unreadable(&mut self, tid: u32) -> TraceResult {
        let registers = self.surface(tid)?.ok_or(TraceError::Gone)?;
        match CodeReader::new(tid, &mut MapsCache::default(), None).why_not(registers.rip) {
            // It faults there by itself, and may have a handler for that.
            Some(super::maps::NoCode::NotExecutable) => Ok(trace::resume(tid, 0)?),
            Some(reason) => Err(TraceError::Detach(reason.word().to_owned())),
            // We may have been unable to look, which has another reason.
            None if MemoryMaps::read(tid)?.is_empty() => Err(TraceError::Gone),
            None => Err(TraceError::Detach("has code that cannot be read".to_owned())),
        }
    }
}

/// Whether an address is in the page whose code the kernel answers itself.
///
/// # Source
///
/// Linux `arch/x86/include/uapi/asm/vsyscall.h`, `VSYSCALL_ADDR`.
fn is_vsyscall(address: u64) -> bool {
    address & !0xfff == 0xffff_ffff_ff60_0000
}

/// Whether memory can be mapped for a translation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MappingPermission {
    /// It can.
    Allowed,
    /// No system call can be made in the program's name.
    Filtered,
    /// It would be missing in another memory in which the same translation is executed.
    Elsewhere,
}

/// Lets the translation do something, with more memory when it needs that.
fn with_room<T>(
    space: &mut CodeCacheMapping,
    tid: u32,
    room: MappingPermission,
    mut work: impl FnMut(&mut CodeCacheMapping) -> Result<T, TranslationNeed>,
) -> Result<T, TraceError> {
    loop {
        match work(space) {
            Ok(done) => return Ok(done),
            Err(_) if room == MappingPermission::Filtered => {
                return Err(TraceError::Detach("filters its system calls".to_owned()));
            }
            Err(TranslationNeed::Region(_)) if room == MappingPermission::Elsewhere => {
                return Err(TraceError::OwnTranslation);
            }
            Err(TranslationNeed::NewTranslation) => return Err(TraceError::OwnTranslation),
            Err(need) => space.answer(tid, need)?,
        }
    }
}

/// How long we have run, whatever else the machine does.
fn own_cpu_time() -> Option<Duration> {
    let usage = cyclometer_sys::process::thread_usage().ok()?;
    Some(Duration::from_nanos(usage.user_ns + usage.system_ns))
}

/// The CPU that a process ran on last.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 39, the 37th behind the name.
pub(super) fn cpu_of(pid: u32) -> Option<u32> {
    let stat = super::proc::text(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(36)?.parse().ok()
}

/// A system call that our stop has interrupted, and that the kernel would not make again, is made again: without a tracer
/// nothing would have interrupted it. Its timeout begins anew.
///
/// # Source
///
/// `signal(7)`, "Interruption of system calls and library functions by stop signals"; Linux `include/linux/errno.h`,
/// `ERESTARTNOHAND`.
pub(super) fn go_on_waiting(tid: u32) -> TraceResult {
    const ERESTARTNOHAND: i64 = 514;
    const EINTR: i64 = 4;
    /// read, write, connect, accept, sendto, recvfrom, sendmsg, recvmsg, semop, rt_sigtimedwait, io_getevents,
    /// semtimedop, epoll_wait, epoll_pwait, accept4, recvmmsg, sendmmsg, io_pgetevents, io_uring_enter, epoll_pwait2.
    const WAITS: [u64; 20] =
        [0, 1, 42, 43, 44, 45, 46, 47, 65, 128, 208, 220, 232, 281, 288, 299, 307, 333, 426, 441];
    let registers = trace::registers(tid)?;
    if registers.rax.cast_signed() == -EINTR && WAITS.contains(&registers.orig_rax) {
        trace::set_registers(tid, &Registers { rax: (-ERESTARTNOHAND).cast_unsigned(), ..registers })?;
    }
    Ok(())
}
