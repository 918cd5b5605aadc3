//! Processes that are made, and programs that they execute.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Change};

use super::engine::{FIXED_BYTES, SIGTRAP, TraceError, TraceResult, Tracer};
use super::exits::is_traced_by_us;
use super::hindsight::TranslationAge;
use super::limits::ReportedLimits;
use super::maps::MemoryMaps;
use super::process::{TaskMode, TracedProcess, TranslatedPc, VforkWait, name_of};
use super::remote::{has_threads, number, run_to_trap};
use super::restartable::THREADS;
use super::space::{AT_RANDOM, CodeCacheMapping, auxiliary};
use super::threads::first_thread;
use super::warm::CpuBinding;

/// The code segment of 64-bit programs.
///
/// # Source
///
/// Linux `arch/x86/include/asm/segment.h`, `__USER_CS`.
pub(super) const USER_CS: u64 = 0x33;

/// How many killed processes are remembered for their children.
const MOST_ORPHANAGES: usize = 8;

/// What must be known of the maker of a process, which may be gone when its child stops for the first time.
pub(super) struct ForkEvent {
    /// The id of the process that it comes from.
    parent: u32,
    /// For a thread, the index of its process.
    pub(super) thread_of: Option<usize>,
    /// The translation, and the maker's slot; `None` when nothing is translated yet.
    home: Option<(Rc<RefCell<CodeCacheMapping>>, usize)>,
    filtered: bool,
    shares: bool,
    trap_action: Option<[u8; 32]>,
    /// The limits that its maker believes in, if not in the real ones.
    pub(super) limits: Option<ReportedLimits>,
    /// Where the child is bound, if its maker was when it was born.
    bound: Option<Rc<CpuBinding>>,
}

impl ForkEvent {
    /// Whether the child will execute a translation.
    pub(super) fn uses(&self, space: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        self.home.as_ref().is_some_and(|(home, _)| Rc::ptr_eq(home, space))
    }

    /// The same for another child.
    fn again(&self) -> ForkEvent {
        ForkEvent { home: self.home.clone(), bound: self.bound.clone(), ..*self }
    }
}

impl Tracer {
    /// A process that we did not know stops for the first time.
    pub(super) fn stranger(&mut self, tid: u32, change: Change) {
        if change == Change::Exiting && self.is_thread(tid) {
            // Its process is killed: it has executed nothing, and nobody may tell of it any more.
            self.early.remove(&tid);
            self.born.remove(&tid);
            return drop(trace::resume(tid, 0));
        }
        match self.born.remove(&tid) {
            Some(birth) => self.birth(tid, birth),
            None if self.is_thread(tid) => drop(self.early.insert(tid, tid)),
            None => match parent_of(tid) {
                Some(parent) if !self.tasks.contains_key(&parent) => self.orphan(tid, parent),
                parent => drop(self.early.insert(tid, parent.unwrap_or(0))),
            },
        }
    }

    /// Whether a task is not the first one of its process.
    fn is_thread(&self, tid: u32) -> bool {
        first_thread(tid).is_some_and(|first| first != tid)
    }

    /// A process that we did not know is no child of one that we know.
    pub(super) fn orphan(&mut self, tid: u32, parent: u32) {
        let pc = trace::registers(tid).map_or(0, |registers| registers.rip);
        let made_here =
            |birth: &&ForkEvent| birth.home.as_ref().is_some_and(|(space, _)| space.borrow().holds(pc));
        match self.orphanages.iter().rev().find(made_here).map(ForkEvent::again) {
            Some(birth) => self.birth(tid, birth),
            None => drop(self.early.insert(tid, parent)),
        }
    }

    /// A process ends that may have made others without our hearing of it.
    pub(super) fn adopt_early(&mut self, parent: u32) {
        let Some(birth) = self.birth_by(parent) else { return };
        let children: Vec<u32> =
            self.early.iter().filter(|(_, maker)| **maker == parent).map(|(child, _)| *child).collect();
        children.into_iter().for_each(|child| self.announce(child, birth.again()));
        if birth.home.is_some() {
            self.orphanages.drain(..(self.orphanages.len() + 1).saturating_sub(MOST_ORPHANAGES));
            self.orphanages.push(birth);
        }
    }

    /// A process executes a program. Threads that this ended cannot tell any more which children they have just made: they are
    /// its own now.
    fn announce_children(&mut self, tid: u32) {
        let Some(birth) = self.birth_by(tid).filter(|birth| birth.home.is_some()) else { return };
        let known = |child: &u32| self.tasks.contains_key(child) || self.born.contains_key(child);
        let mut unknown = children_of(tid);
        unknown.retain(|child| !known(child) && is_traced_by_us(*child));
        unknown.into_iter().for_each(|child| self.announce(child, birth.again()));
    }

    /// It is known how a child was made, which has stopped already, or is about to.
    fn announce(&mut self, child: u32, birth: ForkEvent) {
        if self.early.remove(&child).is_some() {
            self.birth(child, birth);
        } else {
            self.born.insert(child, birth);
        }
    }

    pub(super) fn birth_by(&self, parent: u32) -> Option<ForkEvent> {
        let maker = self.tasks.get(&parent)?;
        let home = match &maker.mode {
            TaskMode::Untranslated => None,
            TaskMode::Translated(seat) | TaskMode::Native(seat) => Some((seat.space.clone(), seat.slot)),
        };
        let bound = self.bound_of_child(parent);
        let TracedProcess { pid, limits, shares, .. } = self.processes[maker.process];
        let (filtered, trap_action) = (maker.filtered, maker.trap_action);
        Some(ForkEvent { parent: pid, thread_of: None, home, filtered, shares, trap_action, limits, bound })
    }

    pub(super) fn gave_birth(&mut self, tid: u32, change: Change) -> TraceResult {
        let child = message(tid, change)? as u32;
        if change == Change::VFork {
            let pc = trace::registers(tid)?.rip;
            self.task(tid)?.suspended = Some(VforkWait { by: child, pc });
        }
        let mut birth = self.birth_by(tid).ok_or(TraceError::Gone)?;
        if change == Change::Clone && self.is_thread(child) {
            birth.thread_of = self.tasks.get(&tid).map(|task| task.process);
        }
        self.cool(tid);
        self.announce(child, birth);
        self.resume(tid, 0)
    }

    /// A new process or thread is where its maker's system call returns. It gets a slot of its own in the same translation.
    pub(super) fn birth(&mut self, child: u32, birth: ForkEvent) {
        birth.bound.iter().for_each(|bound| bound.undo(child));
        match birth.thread_of {
            Some(process) => self.adopt_thread(child, process, birth.filtered),
            None => {
                self.adopt(child, birth.parent, TaskMode::Untranslated, birth.filtered);
                if let Some(process) = self.process(child) {
                    (process.limits, process.shares) = (birth.limits, birth.shares);
                }
            }
        }
        self.tasks.entry(child).and_modify(|task| task.trap_action = birth.trap_action);
        let Some((space, slot)) = birth.home else { return drop(trace::resume(child, 0)) };
        match self.seat_child(child, &space, slot) {
            Ok(()) => {}
            Err(TraceError::Gone) => self.let_go(child),
            Err(TraceError::Detach(reason)) => self.leave(child, Some(reason), 0),
            Err(TraceError::OwnTranslation) => {
                self.leave(child, Some("could not be translated apart".to_owned()), 0)
            }
        }
        let leaves = |other: &u32| self.tasks.get(other).is_some_and(|task| task.departs.is_some());
        if self.finishing || self.companions(child).iter().any(leaves) {
            self.dismiss(child, None);
        } else if let Some((_, reason)) = self.held.first() {
            self.dismiss(child, Some(reason.clone()));
        }
    }

    pub(super) fn seat_child(
        &mut self,
        child: u32,
        space: &Rc<RefCell<CodeCacheMapping>>,
        maker: usize,
    ) -> TraceResult {
        let mut registers = trace::registers(child)?;
        let place = space.borrow().translation.place(registers.rip);
        let place = place.ok_or_else(|| TraceError::Detach("was born where no code is".to_owned()))?;
        super::surface::repair(&space.borrow(), maker, &place, &mut registers);
        registers.gs_base = 0;
        trace::set_registers(child, &registers)?;
        if !self.companions(child).is_empty() {
            self.check_restartable(child, THREADS)?;
        }
        // Another thread may have been given a region while this one was made.
        let maps = MemoryMaps::read(child)?;
        if maps.is_empty() {
            return Err(TraceError::Gone);
        }
        let seat = if space.borrow().is_whole_in(&maps) {
            match self.seat_for(child, space) {
                Err(TraceError::Detach(_)) if self.can_part(child, space) => self.seat_apart(child, space)?,
                seat => seat?,
            }
        } else if self.task(child)?.filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        } else {
            self.seat_apart(child, space)?
        };
        if !self.companions(child).is_empty() {
            // Of two threads that end the process at a time the kernel tells of one only.
            space.borrow_mut().watch(number::EXIT_GROUP, true);
        }
        self.task(child)?.mode = TaskMode::Native(seat);
        if self.reading {
            // What the one before counted in this slot belongs to the answer.
            self.record(child, None);
        }
        self.enter(child, registers)
    }

    /// A new program is before its first instruction.
    pub(super) fn executed(&mut self, tid: u32) -> TraceResult {
        if let Some(process) = self.process(tid) {
            process.unconfirmed = false;
        }
        self.announce_children(tid);
        self.close_executed(tid)?;
        // Handlers of signals do not survive, nor do the descriptors that matter here.
        let task = self.task(tid)?;
        (task.trap_action, task.age) = (None, TranslationAge::default());
        (task.summoned, task.halted) = (false, false);
        for task in self.tasks.values_mut().filter(|task| task.is_suspended_by(tid)) {
            task.suspended = None;
        }
        if let Some(process) = self.process(tid) {
            (process.renewal, process.no_restarts, process.shares) = (None, false, false);
            // What was to be unmapped is gone with the memory.
            process.clears = None;
            process.name = name_of(tid);
        }
        if self.finishing {
            self.leave(tid, None, 0);
            return Ok(());
        }
        self.check_inherited(tid)?;
        // The system call still has to return, into the first instruction.
        step_out(tid)?;
        let registers = trace::registers(tid)?;
        if registers.cs != USER_CS {
            return Err(TraceError::Detach("executed a 32-bit program".to_owned()));
        }
        self.tell_features(tid, registers.rsp)?;
        let seat = self.seat_program(tid, &registers)?;
        if self.settings.fixed_layout {
            trace::write_memory(tid, auxiliary(tid, AT_RANDOM)?, &FIXED_BYTES)?;
        }
        self.task(tid)?.mode = TaskMode::Native(seat);
        self.warm_up(tid);
        self.enter(tid, registers)
    }

    /// What a new program has from the one before may forbid what we would have to do to it.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/status`: `Seccomp` is 0 without a filter, `SigIgn` a mask in hexadecimal.
    fn check_inherited(&mut self, tid: u32) -> TraceResult {
        let status = super::proc::text(format!("/proc/{tid}/status"))?;
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let task = self.task(tid)?;
        // It may have failed to install one.
        task.filtered &= field("Seccomp:") != Some("0");
        if task.filtered {
            return Err(TraceError::Detach("filters its system calls".to_owned()));
        }
        let ignored = field("SigIgn:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
        if ignored >> (SIGTRAP - 1) & 1 == 1 {
            // Every stop of ours would undo that.
            return Err(TraceError::Detach("ignores SIGTRAP".to_owned()));
        }
        Ok(())
    }

    /// The program before has executed its last instruction: the system call.
    pub(super) fn close_executed(&mut self, tid: u32) -> TraceResult {
        let task = self.task(tid)?;
        let asked = task.executes.take();
        if let TaskMode::Translated(seat) = &mut task.mode {
            let behind = asked.map(|pc| TranslatedPc::of_call(pc + 2));
            if !behind.is_some_and(|spot| seat.leave(spot)) {
                self.lose(tid, "executed a program by an unknown way");
            }
        }
        self.end_listing(tid);
        self.close(tid);
        Ok(())
    }
}

/// What a task has to say at an event that we were told of. Who was killed meanwhile is at another one.
pub(super) fn message(tid: u32, event: Change) -> Result<u64, TraceError> {
    let message = trace::event_message(tid)?;
    if trace::is_at(tid, event)? { Ok(message) } else { Err(TraceError::Gone) }
}

/// The children of a process that has one thread.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/task/tid/children`.
fn children_of(pid: u32) -> Vec<u32> {
    let children = super::proc::text(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_ascii_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The parent of a process.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 4, the second behind the name.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = super::proc::text(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(1)?.parse().ok()
}

/// Runs a process that is about to return from a system call to its first instruction.
fn step_out(tid: u32) -> TraceResult {
    Ok(run_to_trap(tid, has_threads(tid), trace::step)?)
}
